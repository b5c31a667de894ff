"""The appearance of series: distinguishable with every kind of colour vision, and in black and
white."""

from collections.abc import Mapping
from dataclasses import dataclass

# After M. Okabe and K. Ito, Color Universal Design (2008). Brown replaces their yellow, which is
# too pale on white. Black is kept for sums.
COLORS: tuple[str, ...] = (
    "#0072b2",  # blue
    "#d55e00",  # vermilion
    "#009e73",  # bluish green
    "#cc79a7",  # reddish purple
    "#e69f00",  # orange
    "#56b4e9",  # sky blue
    "#8c510a",  # brown
    "#777777",  # grey
)

# On a dark page the same hues, lighter; by the colour on white.
ON_DARK: Mapping[str, str] = {
    "#0072b2": "#4aa8e0",
    "#d55e00": "#ff8540",
    "#009e73": "#2fcf9f",
    "#cc79a7": "#e59cc5",
    "#e69f00": "#f2b632",
    "#56b4e9": "#9bd6fb",
    "#8c510a": "#c98d4b",
    "#777777": "#a8a8a8",
}

# The classic tool's colours of series, repeating after ten.
CLASSIC_COLORS = (
    "#000080", "#800000", "#6b8c24", "#008000", "#99804d", "#9933cc", "#664d80", "#808080",
    "#cc0000", "#000000",
)  # fmt: skip
GREYS = ("#404040", "#a6a6a6", "#737373", "#d0d0d0", "#1a1a1a", "#8c8c8c")
PALETTES: Mapping[str, tuple[str, ...]] = {
    "safe": COLORS, "classic": CLASSIC_COLORS, "grey": GREYS,
}  # fmt: skip

# As in netesto.mplstyle; a page puts its own in their place.
INK, GRID, AXIS = "#1a1a1a", "#d9d9d9", "#8a8a8a"
# Both stay what they are on a dark page: they stand on bars.
PAPER, BLACK = "#ffffff", "#000000"
# Of the diamonds of the right axis, by palette: light, with a dark edge, they stand out on every
# bar and on paper.
RIGHT_COLORS: Mapping[str, str] = {"safe": "#f0e442", "classic": "#00cc00", "grey": PAPER}

# matplotlib's dashes: an offset and lengths of line and gap, in line widths.
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.6), (1.2, 1.4), (6, 1.6, 1.2, 1.6))
HATCHES = ("", "////", "....", "xxxx", "----", "\\\\\\\\", "oo", "++")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True, slots=True)
class Look:
    """How one series is drawn, whether as lines or as bars."""

    color: str
    dashes: tuple[float, ...] = ()
    hatch: str = ""
    marker: str = ""


def of_line(place: int) -> Look:
    """The look of the line in that place of a page's legend; the 33rd looks like the first."""
    turn, color = divmod(place, len(COLORS))
    return Look(COLORS[color], DASHES[turn % len(DASHES)])


def of_series(place: int, palette: str) -> Look:
    """The look of the series in that place of a plot's legend, which may be printed."""
    colors = PALETTES[palette]
    # Repeated colours have different hatches.
    turn = place + place // len(colors)
    return Look(
        color=colors[place % len(colors)],
        dashes=DASHES[turn % len(DASHES)],
        hatch=HATCHES[turn % len(HATCHES)],
        marker=MARKERS[turn % len(MARKERS)],
    )
