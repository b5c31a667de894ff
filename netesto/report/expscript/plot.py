"""A plot as values: everything that is to be drawn, nothing of how."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from netesto.report.expscript.ticks import Scale

Kind: TypeAlias = Literal["bars", "line", "scatter", "cdf", "box", "stacked", "time"]
KINDS: tuple[Kind, ...] = ("bars", "line", "scatter", "cdf", "box", "stacked", "time")
BARS: frozenset[Kind] = frozenset({"bars", "stacked"})


@dataclass(frozen=True, slots=True)
class Mark:
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
    """Quartiles; whiskers reach the last value within 1.5 times their distance (Tukey 1977)."""

    x: float
    whisker_low: float
    quartile_low: float
    median: float
    quartile_high: float
    whisker_high: float
    outliers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """What one entry of the legend stands for. `place` in the legend chooses its look.

    `crosses` are places on a line where something happened.
    """

    label: str
    place: int
    marks: tuple[Mark, ...] = ()
    boxes: tuple[Box, ...] = ()
    crosses: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes; several are small multiples with equal scales."""

    title: str
    traces: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    title: str
    scale: Scale


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    position: float
    label: str


@dataclass(frozen=True, slots=True)
class Style:
    """Sizes in pixels and inches, as plotXSize, plotYSize and plotXLen give them.

    `background` is the grey level of the plot area, None for none.
    """

    width_px: int
    height_px: int
    axis_in: float
    palette: str
    legend: str
    background: float | None
    vertical_notes: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    kind: Kind
    titles: tuple[str, ...]
    x: Axis
    left: Axis
    right: Axis | None
    panels: tuple[Panel, ...]
    legend_title: str
    bar_width: float
    style: Style
    right_names: tuple[str, ...] = ()
    across: tuple[ReferenceLine, ...] = ()
    upright: tuple[ReferenceLine, ...] = ()
    # Sentences for the reader: an axis that does not begin at 0, what error bars mean.
    remarks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.titles[0] if self.titles else ""

    @property
    def labels(self) -> tuple[tuple[str, int], ...]:
        """The entries of the legend and their places, each once."""
        entries = {trace.label: trace.place for panel in self.panels for trace in panel.traces}
        return tuple(sorted(entries.items(), key=lambda entry: entry[1]))
