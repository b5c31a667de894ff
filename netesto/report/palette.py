"""How lines look: colours that any colour vision tells apart, and dashes when they run out."""

from collections.abc import Mapping
from dataclasses import dataclass

# After M. Okabe and K. Ito, Color Universal Design (2008). Their yellow is left out, it is too
# pale on white; brown takes its place. Black is kept for sums.
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

# matplotlib's dashes: an offset and lengths of line and gap, in line widths.
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.6), (1.2, 1.4), (6, 1.6, 1.2, 1.6))

# As in netesto.mplstyle; a page puts its own in their place.
INK = "#1a1a1a"
GRID = "#d9d9d9"
AXIS = "#8a8a8a"


@dataclass(frozen=True, slots=True)
class Look:
    """How one line, or the lines of one group, are drawn."""

    color: str
    dashes: tuple[float, ...]


def look(place: int) -> Look:
    """The look of the line in that place of the legend; the 33rd looks like the first."""
    return Look(
        color=COLORS[place % len(COLORS)],
        dashes=DASHES[place // len(COLORS) % len(DASHES)],
    )
