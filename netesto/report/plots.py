"""The seven graphs of an experiment, drawn as SVG files that any tool can show."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from netesto.report import graphs, palette
from netesto.report.graphs import GRAPHS, RATES, Entry, Graph, Points
from netesto.report.palette import Look
from netesto.results.series import Series

# Inches; half of a page's text width on a desk, the whole of it on paper.
SIZE_IN = (7.4, 3.5)

STYLE = Path(__file__).with_name("templates") / "netesto.mplstyle"

# Of the figure: left, bottom, width, height of what is below the title.
PLACE = (0.09, 0.135, 0.895, 0.775)

# How many characters of the legend's font fit beside each other, what a handle takes of them, and
# the height of a row.
LEGEND_CHARACTERS = 104
LEGEND_HANDLE = 7
LEGEND_ROW_IN = 0.185
LEGEND_ROWS_MAX = 4

# Where the sum is so many times higher than any flow, both on one axis show nothing of the flows.
SUM_APART = 4.0

# Strokes that are nearer to each other than this, in seconds, are one on any screen.
STROKE_S = 0.1


def render(series: Series) -> dict[str, str]:
    """The SVG of each graph that has something to show, by its name. The same series gives the
    same text."""
    drawing = _Drawing(series, graphs.legend(series))
    drawn: dict[str, str] = {}
    with mpl.rc_context(fname=STYLE):
        for graph in GRAPHS:
            lines = graphs.lines(graph, series)
            if any(lines.values()):
                drawn[graph.name] = drawing.draw(graph, lines)
    return drawn


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What all graphs of an experiment have in common."""

    series: Series
    entries: Sequence[Entry]

    @property
    def is_crowded(self) -> bool:
        return graphs.is_crowded(self.entries)

    def draw(self, graph: Graph, lines: Mapping[int, list[Points]]) -> str:
        whole: Points = ((), ())
        if graph is RATES and len(lines) > 1:
            whole = graphs.total(points for found in lines.values() for points in found)
        highest = max(max(v) for found in lines.values() for _, v in found)
        is_apart = bool(whole[0]) and max(whole[1]) > SUM_APART * max(highest, 1e-9)

        figure = Figure(figsize=SIZE_IN)
        FigureCanvasSVG(figure)
        handles = [_line_handle(entry.label, entry.look) for entry in self.entries]
        if whole[0]:
            handles.append(_line_handle("sum", Look(palette.INK, ())))
        is_marked = graph is RATES and any(map(graphs.retransmissions, self.series.flows))
        if is_marked:
            handles.append(_mark_handle("|" if self.is_crowded else "x"))
        top, axes = _panels(figure, graph, handles, is_apart=is_apart)

        for entry in self.entries:
            self._entry(axes, entry, lines, steps=graph.name == "retrans")
            if is_marked:
                self._marks(axes, entry, lines)
        if whole[0]:
            (line,) = top.plot(*whole, color=palette.INK, linewidth=1.5, zorder=5)
            line.set_gid("sum")
        end_s = max((flow.end_s or 0.0 for flow in self.series.flows), default=0.0)
        for panel in (top, axes):
            panel.set_xlim(0, max(end_s, 1.0) * 1.01)
            panel.set_ylim(bottom=0, top=None if panel.get_ylim()[1] > 0 else 1)
        return self._named(_svg(figure))

    def _entry(
        self, axes: Axes, entry: Entry, lines: Mapping[int, list[Points]], *, steps: bool
    ) -> None:
        """The lines of an entry of the legend, and their median if they are several; of counts
        (`steps`) their sum alone."""
        is_alone = len(entry.flows) == 1
        if steps and not is_alone:
            each = [points for i in entry.flows for points in lines[i]]
            together = graphs.counted(each, bin_s=graphs.bin_s(self.series))
            (line,) = axes.plot(
                *together, color=entry.look.color, linewidth=1.2, drawstyle="steps-pre"
            )
            line.set_gid(f"count-{entry.flows[0]}")
            _dash(line, entry.look)
            return
        for i in entry.flows:
            for part, points in enumerate(lines[i]):
                (line,) = axes.plot(
                    *points,
                    color=entry.look.color,
                    drawstyle="steps-pre" if steps else "default",
                    marker="o" if len(points[0]) == 1 else "",
                    markersize=3,
                    linewidth=1.5 if is_alone else 0.6,
                    alpha=1.0 if is_alone else 0.3,
                )
                line.set_gid(f"flow-{i}-{part}")
                _dash(line, entry.look)
        if not is_alone:
            middle = graphs.median(points for i in entry.flows for points in lines[i])
            (line,) = axes.plot(*middle, color=entry.look.color, zorder=4, linewidth=1.8)
            line.set_gid(f"median-{entry.flows[0]}")
            _dash(line, entry.look)

    def _marks(self, axes: Axes, entry: Entry, lines: Mapping[int, list[Points]]) -> None:
        """A cross on a flow's line at each sample that saw segments sent again; where lines are too
        many for that, a stroke at the foot of the graph."""
        flows = [i for i in entry.flows if lines[i]]
        times = [time_s for i in flows for time_s in graphs.retransmissions(self.series.flows[i])]
        if not times:
            return
        if self.is_crowded:
            times = sorted({round(time_s / STROKE_S) * STROKE_S for time_s in times})
            heights = [0.0] * len(times)
            transform, marker, size = axes.get_xaxis_transform(), "|", 5.0
        else:
            heights = [float(y) for y in np.interp(times, *lines[flows[0]][0])]
            transform, marker, size = axes.transData, "x", 5.5
        (line,) = axes.plot(
            times,
            heights,
            linestyle="none",
            marker=marker,
            markersize=size,
            markeredgewidth=1.3,
            color=entry.look.color,
            transform=transform,
            clip_on=False,
            zorder=6,
        )
        line.set_gid(f"marks-{entry.flows[0]}")

    def _named(self, svg: str) -> str:
        """`svg` where each line tells its flow to whom points at it."""
        labels = {entry.flows[0]: entry.label for entry in self.entries}

        def named(match: re.Match[str]) -> str:
            what, number = match[1], match[2]
            match what:
                case "sum":
                    label = "sum"
                case "flow":
                    label = self.series.flows[int(number)].label
                case "median":
                    label = f"median of {labels[int(number)]}"
                case _:  # count, marks
                    label = f"retransmissions of {labels[int(number)]}"
            return f"{match[0]}<title>{escape(label)}</title>"

        return re.sub(r'<g id="(sum|flow|median|count|marks)(?:-(\d+))?(?:-\d+)?">', named, svg)


def _panels(
    figure: Figure, graph: Graph, handles: Sequence[Line2D], *, is_apart: bool
) -> tuple[Axes, Axes]:
    """The axes of the sum and those of the flows: the same, or the sum's above the flows'."""
    columns, shown = _arranged(handles)
    rows = -(-len(shown) // columns)
    left, bottom, width, full = PLACE
    height = full - rows * LEGEND_ROW_IN / SIZE_IN[1]
    if is_apart:
        axes = figure.add_axes((left, bottom, width, height * 0.55))
        top = figure.add_axes((left, bottom + height * 0.64, width, height * 0.36))
        top.tick_params(labelbottom=False)
        top.set_ylabel("sum")
        axes.set_ylabel(f"{graph.axis} each")
    else:
        axes = top = figure.add_axes((left, bottom, width, height))
        axes.set_ylabel(graph.axis)
    axes.set_xlabel("seconds since the experiment began")
    top.set_title(graph.title, y=1.0, pad=5 + rows * LEGEND_ROW_IN * 72)
    top.legend(
        handles=shown,
        loc="lower left",
        bbox_to_anchor=(-0.008, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        borderpad=0.2,
        labelspacing=0.25,
        columnspacing=1.4,
        handlelength=2.0,
        handletextpad=0.5,
    )
    return top, axes


def _arranged(handles: Sequence[Line2D]) -> tuple[int, list[Line2D]]:
    """How many columns the legend has, and which of its entries there is room for."""
    lengths = [len(str(handle.get_label())) + LEGEND_HANDLE for handle in handles]
    if sum(lengths) <= LEGEND_CHARACTERS:
        return len(handles), list(handles)
    columns = max(1, min(len(handles), LEGEND_CHARACTERS // max(lengths)))
    room = columns * LEGEND_ROWS_MAX
    if len(handles) <= room:
        return columns, list(handles)
    rest = Line2D([], [], linestyle="none", label=f"and {len(handles) - room + 1} more")
    return columns, [*handles[: room - 1], rest]


def _line_handle(label: str, look: Look) -> Line2D:
    line = Line2D([], [], color=look.color, linewidth=1.8, label=label)
    _dash(line, look)
    return line


def _mark_handle(marker: str) -> Line2D:
    return Line2D(
        [], [], linestyle="none", marker=marker, color=palette.AXIS, label="retransmission"
    )


def _dash(line: Line2D, look: Look) -> None:
    if look.dashes:
        line.set_dashes(look.dashes)


def _svg(figure: Figure) -> str:
    """The figure without what would differ from day to day."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=nothing)
    # Matplotlib lists every font it knows; the generic family is on every machine.
    return re.sub(r"font-family: [^;\"]*?sans-serif", "font-family: sans-serif", text.getvalue())
