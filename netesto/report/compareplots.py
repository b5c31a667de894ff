"""Changes between two results folders as plots: one for each measure, a point for each cell."""

from collections.abc import Sequence
from dataclasses import dataclass

from netesto.report import drawing, ticks
from netesto.report.context import Reference
from netesto.report.expscript.blocks import PlotBlock
from netesto.report.figures import Axis, Mark, Panel, Plot, Style, Trace
from netesto.report.ticks import Scale, Tick

# In this order in the legend; the place of each chooses its colour and marker.
KINDS = ("cannot tell", "worse", "better", "equivalent")
STYLE = Style(
    width_px=1100, height_px=460, axis_in=7.5, palette="safe", legend="right", background=None
)
REMARK = "Bars are the 95 % interval of each change, if there are enough runs for one."


@dataclass(frozen=True, slots=True)
class Point:
    """One measure in one cell: its change in percent. `cell` is its name on the axis."""

    measure: str
    cell: str
    percent: float
    kind: str
    low: float | None = None
    high: float | None = None


def blocks(changes: Sequence[Point], threshold_percent: float) -> list[PlotBlock]:
    """A plot for each measure, in the order of the changes."""
    found = []
    for number, measure in enumerate(dict.fromkeys(one.measure for one in changes), start=1):
        plot = plan([one for one in changes if one.measure == measure], threshold_percent)
        svg = drawing.draw_plot(plot, ("svg",))["svg"].decode()
        found.append(PlotBlock(plot, svg, f"change{number}"))
    return found


def plan(changes: Sequence[Point], threshold_percent: float) -> Plot:
    """The plot of one measure."""
    cells = list(dict.fromkeys(one.cell for one in changes))
    ends = [end for one in changes for end in (one.percent, one.low, one.high) if end is not None]
    bound = threshold_percent
    there = [kind for kind in KINDS if kind in {one.kind for one in changes}]
    return Plot(
        kind="scatter",
        titles=(f"{changes[0].measure}: change from base to new",),
        x=Axis("", _places(cells)),
        left=Axis("Change (%)", ticks.linear(min(-bound, *ends), max(bound, *ends))),
        panels=(Panel("", tuple(_trace(kind, changes, cells) for kind in there)),),
        style=STYLE,
        across=(
            Reference(0.0, ""),
            Reference(bound, f"±{bound:g} %"),
            Reference(-bound, ""),
        ),
        remarks=(REMARK,),
    )


def _places(cells: Sequence[str]) -> Scale:
    labels = tuple(Tick(float(place), cell) for place, cell in enumerate(cells))
    return Scale(-0.6, len(cells) - 0.4, labels)


def _trace(kind: str, changes: Sequence[Point], cells: Sequence[str]) -> Trace:
    marks = tuple(
        Mark(float(cells.index(one.cell)), one.percent, low=one.low, high=one.high)
        for one in changes
        if one.kind == kind
    )
    return Trace(kind, KINDS.index(kind), marks)
