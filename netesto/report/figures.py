"""Figures as values: what to draw, not how. A Graph belongs to the page of an experiment, a Plot to
a report script or a comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from netesto.report.context import Reference
from netesto.report.curves import Band, Points
from netesto.report.looks import Look
from netesto.report.quantities import TimeQuantity
from netesto.report.ticks import Scale

# line: one flow; thin: one of several of its group; pale: one of many; median: of a group;
# steps: counts.
Stroke: TypeAlias = Literal["line", "thin", "pale", "median", "steps", "sum"]


@dataclass(frozen=True, slots=True)
class Curve:
    """A line over time. `name` is its id in the SVG (`flow-3-0`), `label` its tooltip.

    `crosses` are the points on it where something happened.
    """

    name: str
    label: str
    look: Look
    stroke: Stroke
    points: Points
    crosses: Points = ((), ())


# ---- graphs of an experiment -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the legend. `flows` are the indexes of the flows that it names."""

    label: str
    look: Look
    flows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fan:
    """The band that most flows of a group lie in."""

    name: str
    label: str
    look: Look
    band: Band


@dataclass(frozen=True, slots=True)
class Losses:
    """Instants at which links lost frames of a flow, which the time axis shows."""

    name: str
    label: str
    look: Look
    time_s: Sequence[float]


@dataclass(frozen=True, slots=True)
class Shade:
    """A time in which `share` (0 to 1) of the most flows that ever ran together ran."""

    start_s: float
    end_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Graph:
    """A quantity over the time of an experiment, from 0 to `end_s`. `total` is the flows' sum;
    `changes` are instants at which settings were made."""

    quantity: TimeQuantity
    end_s: float
    entries: Sequence[Entry]
    lines: Sequence[Curve]
    fans: Sequence[Fan] = ()
    total: Points = ((), ())
    references: Sequence[Reference] = ()
    shades: Sequence[Shade] = ()
    changes: Sequence[Reference] = ()
    losses: Sequence[Losses] = ()
    caption: str = ""

    @property
    def name(self) -> str:
        """The name of its file."""
        return "rates" if self.quantity.name == "rate" else self.quantity.name

    @property
    def description(self) -> str:
        """For those who cannot see it."""
        return f"{self.quantity.title}, {self.quantity.unit}, over time. {self.caption}"

    @property
    def is_marked(self) -> bool:
        """Whether a line has crosses."""
        return any(len(line.crosses[0]) for line in self.lines)


# ---- plots of report scripts and comparisons ---------------------------------------------

Kind: TypeAlias = Literal["bars", "line", "scatter", "cdf", "box", "stacked", "time"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BARS: frozenset[Kind] = frozenset({"bars", "stacked"})


@dataclass(frozen=True, slots=True)
class ValueMark:
    """A value at a place. `low` and `high` are the ends of its error bar, `base` where a stacked
    bar begins, `right` its values on the right axis, `note` a text on it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    base: float | None = None
    right: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """Quartiles, whiskers and outliers as matplotlib's boxplot_stats names them: whiskers reach the
    last value within 1.5 times the distance of the quartiles (Tukey 1977)."""

    x: float
    stats: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """The data of one entry of the legend. `place` in the legend chooses its look.

    Over time it has `points` and `crosses`, as a Line has; a box plot has `boxes`.
    """

    label: str
    place: int
    marks: tuple[ValueMark, ...] = ()
    boxes: tuple[Box, ...] = ()
    points: Points = ((), ())
    crosses: Points = ((), ())


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes; several are small multiples with equal scales."""

    title: str
    traces: tuple[LegendEntry, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    title: str
    scale: Scale


@dataclass(frozen=True, slots=True)
class Style:
    """Sizes in pixels and inches, as plotXSize, plotYSize and plotXLen give them.

    `background` is the grey level of the plot area, None for none.
    """

    width_px: int
    height_px: int
    axis_in: float
    palette: str = "safe"
    legend: str = "right"
    background: float | None = None
    vertical_notes: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """Panels with common axes; `across` and `upright` are reference lines.

    `remarks` are sentences for the reader: an axis that does not begin at 0, what error bars mean.
    """

    kind: Kind
    titles: tuple[str, ...]
    x: Axis
    left: Axis
    panels: tuple[Panel, ...]
    style: Style
    right: Axis | None = None
    right_names: tuple[str, ...] = ()
    legend_title: str = ""
    bar_width: float = 0.0
    across: tuple[Reference, ...] = ()
    upright: tuple[Reference, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """For those who cannot see it."""
        return ". ".join(self.titles)

    @property
    def width_px(self) -> int:
        return self.style.width_px

    @property
    def labels(self) -> tuple[tuple[str, int], ...]:
        """The entries of the legend and their places, each once."""
        entries = {trace.label: trace.place for panel in self.panels for trace in panel.traces}
        return tuple(sorted(entries.items(), key=lambda entry: entry[1]))


# ---- charts of single flows --------------------------------------------------------------

# bars: from a lower to an upper end at an instant; crosses: bars with a mark, so that none is too
# short to be seen.
Layered: TypeAlias = Literal["bars", "crosses", "steps", "line", "dots"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One entry of a chart's legend. `y` and `high` are the ends of bars."""

    label: str
    look: Look
    kind: Layered
    x: Sequence[float]
    y: Sequence[float]
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """The course of one flow over time, or a distribution. The y axis ends at `top`: values above
    it do not matter. `scale` is that of both axes."""

    title: str
    x_title: str
    y_title: str
    layers: tuple[Layer, ...]
    top: float
    remarks: tuple[str, ...] = ()
    scale: Literal["linear", "log"] = "linear"

    @property
    def description(self) -> str:
        """For those who cannot see it."""
        return f"{self.title}: {self.y_title} by {self.x_title}"

    @property
    def width_px(self) -> int:
        return 1100
