"""How series look: told apart by every kind of colour vision, and in black and white."""

from dataclasses import dataclass

from netesto.report import palette
from netesto.report.expscript.plot import Style

# The classic tool's colours of series, repeating after ten, and of its right axis.
CLASSIC_COLORS = (
    "#000080", "#800000", "#6b8c24", "#008000", "#99804d", "#9933cc", "#664d80", "#808080",
    "#cc0000", "#000000",
)  # fmt: skip
CLASSIC_RIGHT = "#00cc00"
GREYS = ("#404040", "#a6a6a6", "#737373", "#d0d0d0", "#1a1a1a", "#8c8c8c")
# Light, with a dark edge: it stands out on every bar and on paper.
RIGHT_COLOR = "#f0e442"
# Both stay what they are on a dark page: they stand on bars.
PAPER, BLACK = "#ffffff", "#000000"

HATCHES = ("", "////", "....", "xxxx", "----", "\\\\\\\\", "oo", "++")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True, slots=True)
class Look:
    """How one series is drawn, whether as bars or as lines. `dashes` are matplotlib's."""

    color: str
    hatch: str
    marker: str
    dashes: tuple[float, ...]


def look(style: Style, place: int) -> Look:
    """Of the series in that place of the legend."""
    colors = {"classic": CLASSIC_COLORS, "grey": GREYS}.get(style.palette, palette.COLORS)
    # Colours that come again come with other hatches.
    turn = place + place // len(colors)
    return Look(
        color=colors[place % len(colors)],
        hatch=HATCHES[turn % len(HATCHES)],
        marker=MARKERS[turn % len(MARKERS)],
        dashes=palette.DASHES[turn % len(palette.DASHES)],
    )


def right_color(style: Style) -> str:
    """Of the diamonds that belong to the right axis."""
    return {"classic": CLASSIC_RIGHT, "grey": PAPER}.get(style.palette, RIGHT_COLOR)
