"""The seven graphs of an experiment, as SVG files that any tool can show."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from netesto.report import palette
from netesto.report.palette import Look
from netesto.results.series import FlowSeries, Series, SocketSeries

# With more flows than this a line and a legend entry for each say nothing: flows of one group then
# look alike, and the legend tells groups.
MAX_LINES_WITH_NAMES = 8

# Inches; half of a page's text width on a desk, the whole of it on paper.
SIZE_IN = (7.4, 3.5)

STYLE = Path(__file__).with_name("templates") / "netesto.mplstyle"

# Of the figure: left, bottom, width, height; above is the title.
AXES_PLACE = (0.09, 0.135, 0.895, 0.775)

# How many characters of the legend's font fit beside each other, what a handle takes of them, and
# the height of a row.
LEGEND_CHARACTERS = 104
LEGEND_HANDLE = 7
LEGEND_ROW_IN = 0.185
LEGEND_ROWS_MAX = 4

Points = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Graph:
    """What a graph shows: the file's name, its title, the axis, and one sentence for its reader."""

    name: str
    title: str
    axis: str
    caption: str


RATES = Graph(
    "rates",
    "Goodput",
    "Mbit/s",
    "What each flow's application received, as the traffic tool tells it.",
)
GRAPHS: tuple[Graph, ...] = (
    RATES,
    Graph(
        "acked_rate",
        "Acknowledged rate",
        "Mbit/s",
        "What the receiver acknowledged between two samples of the sender's socket.",
    ),
    Graph("cwnd", "Congestion window", "segments", "What TCP allows itself to have in flight."),
    Graph("unacked", "In flight", "segments", "Sent, and not yet acknowledged."),
    Graph("rtt", "Round-trip time", "ms", "The smoothed RTT of the sender's TCP."),
    Graph("minrtt", "Least round-trip time", "ms", "The least RTT its TCP remembers."),
    Graph(
        "retrans", "Retransmissions", "segments", "Segments sent again between two samples."
    ),
)  # fmt: skip

_SOCKET_COLUMNS: Mapping[str, Callable[[SocketSeries], Sequence[float | None]]] = {
    "acked_rate": lambda series: series.acked_mbit_per_s,
    "cwnd": lambda series: series.cwnd,
    "unacked": lambda series: series.unacked,
    "rtt": lambda series: series.rtt_ms,
    "minrtt": lambda series: series.min_rtt_ms,
    "retrans": lambda series: series.retransmits,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the legend. `flows` are the indexes of the lines it names."""

    label: str
    look: Look
    flows: tuple[int, ...]


def legend(series: Series) -> list[Entry]:
    """An entry for each flow; for each group where flows are many. Flows that failed have none."""
    drawn = [(i, flow) for i, flow in enumerate(series.flows) if flow.status == "ok"]
    if len(drawn) <= MAX_LINES_WITH_NAMES:
        return [
            Entry(flow.label, palette.look(place), (i,)) for place, (i, flow) in enumerate(drawn)
        ]
    groups: dict[int, list[int]] = {}
    for i, flow in drawn:
        groups.setdefault(flow.group, []).append(i)
    return [
        Entry(
            _group_label(series.flows[members[0]], len(members)), palette.look(place), (*members,)
        )
        for place, members in enumerate(groups.values())
    ]


def _group_label(flow: FlowSeries, count: int) -> str:
    flows = "1 flow" if count == 1 else f"{count} flows"
    return f"{flow.ca} {flow.host}→{flow.server} #{flow.group}, {flows}"


def render(series: Series) -> dict[str, str]:
    """The SVG of each graph that has something to show, by its name. The same series gives the
    same text."""
    entries = legend(series)
    looks = {i: entry.look for entry in entries for i in entry.flows}
    drawing = _Drawing(series, entries, looks)
    drawn: dict[str, str] = {}
    with mpl.rc_context(fname=STYLE):
        for graph in GRAPHS:
            lines = _lines(graph, series)
            if any(lines.values()):
                drawn[graph.name] = drawing.draw(graph, lines)
    return drawn


def _lines(graph: Graph, series: Series) -> dict[int, list[Points]]:
    """The lines of each flow in a graph, by the flow's index."""
    lines: dict[int, list[Points]] = {}
    for i, flow in enumerate(series.flows):
        if flow.status != "ok":
            continue
        if graph is RATES:
            found: list[Points] = [(flow.goodput.time_s, flow.goodput.mbit_per_s)]
        else:
            column = _SOCKET_COLUMNS[graph.name]
            found = [_known(each.time_s, column(each)) for each in flow.sockets]
        lines[i] = [points for points in found if points[0]]
    return lines


def _known(times: Sequence[float], values: Sequence[float | None]) -> Points:
    pairs = [(t, value) for t, value in zip(times, values, strict=True) if value is not None]
    return [t for t, _ in pairs], [value for _, value in pairs]


def total(lines: Iterable[Points]) -> Points:
    """The sum of rates over time: between its first and its last point a flow's rate is a straight
    line from point to point, elsewhere it is 0."""
    arrays = [(np.asarray(t, float), np.asarray(v, float)) for t, v in lines if len(t) > 1]
    if not arrays:
        return (), ()
    steps = np.concatenate([np.diff(t) for t, _ in arrays])
    begin, end = min(t[0] for t, _ in arrays), max(t[-1] for t, _ in arrays)
    # Never finer than the samples, and no more points than a wide screen has columns.
    step = max(float(np.median(steps)), (end - begin) / 2000, 1e-3)
    grid = np.arange(begin, end + step / 2, step)
    whole = np.zeros_like(grid)
    for t, v in arrays:
        whole += np.interp(grid, t, v, left=0.0, right=0.0)
    return [float(t) for t in grid], [float(v) for v in whole]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What all graphs of an experiment have in common."""

    series: Series
    entries: Sequence[Entry]
    looks: Mapping[int, Look]

    @property
    def is_crowded(self) -> bool:
        """True where a line is one of many of its group."""
        return len(self.looks) > MAX_LINES_WITH_NAMES

    def draw(self, graph: Graph, lines: Mapping[int, list[Points]]) -> str:
        figure, axes = _axes(graph)
        for i, found in lines.items():
            for points in found:
                self._line(axes, i, points, steps=graph.name == "retrans")
        handles = [_handle(entry) for entry in self.entries]
        if graph is RATES:
            self._mark_retransmissions(axes, lines)
            whole = total(points for found in lines.values() for points in found)
            if len(lines) > 1 and whole[0]:
                (line,) = axes.plot(*whole, color=palette.INK, linewidth=1.5, zorder=5)
                line.set_gid("sum")
                handles.append(_line_handle("sum", color=palette.INK, dashes=()))
            if any(map(_retransmissions, self.series.flows)):
                handles.append(_mark_handle("|" if self.is_crowded else "x"))
        end_s = max((flow.end_s or 0.0 for flow in self.series.flows), default=0.0)
        axes.set_xlim(0, max(end_s, 1.0) * 1.01)
        axes.set_ylim(bottom=0, top=None if axes.get_ylim()[1] > 0 else 1)
        _place_legend(axes, handles)
        return self._named(_svg(figure))

    def _line(self, axes: Axes, i: int, points: Points, *, steps: bool) -> None:
        look = self.looks[i]
        (line,) = axes.plot(
            *points,
            color=look.color,
            linewidth=0.7 if self.is_crowded else 1.4,
            alpha=0.45 if self.is_crowded else 1.0,
            drawstyle="steps-pre" if steps else "default",
            marker="o" if len(points[0]) == 1 else "",
            markersize=3,
        )
        if look.dashes:
            line.set_dashes(look.dashes)
        line.set_gid(f"flow-{i}")

    def _mark_retransmissions(self, axes: Axes, lines: Mapping[int, list[Points]]) -> None:
        """A cross on the line at each sample that saw segments sent again; where lines are too
        many for that, a stroke at the foot of the graph."""
        for i, found in lines.items():
            times = _retransmissions(self.series.flows[i])
            if not times or not found:
                continue
            if self.is_crowded:
                heights = [0.0] * len(times)
                transform, marker, size = axes.get_xaxis_transform(), "|", 5.0
            else:
                heights = [float(y) for y in np.interp(times, *found[0])]
                transform, marker, size = axes.transData, "x", 4.5
            axes.plot(
                times,
                heights,
                linestyle="none",
                marker=marker,
                markersize=size,
                markeredgewidth=1.0,
                color=self.looks[i].color,
                transform=transform,
                clip_on=False,
                zorder=4,
            )

    def _named(self, svg: str) -> str:
        """`svg` where each line tells its flow to whom points at it."""

        def named(match: re.Match[str]) -> str:
            label = "sum" if match[1] == "sum" else self.series.flows[int(match[2])].label
            return f"{match[0]}<title>{escape(label)}</title>"

        return re.sub(r'<g id="(sum|flow-(\d+))">', named, svg)


def _retransmissions(flow: FlowSeries) -> list[float]:
    """When samples of the flow saw segments sent again."""
    return [
        time_s
        for each in flow.sockets
        for time_s, count in zip(each.time_s, each.retransmits, strict=True)
        if count
    ]


def _axes(graph: Graph) -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE_IN)
    FigureCanvasSVG(figure)
    axes = figure.add_axes(AXES_PLACE)
    axes.set_title(graph.title)
    axes.set_ylabel(graph.axis)
    axes.set_xlabel("seconds since the experiment began")
    return figure, axes


def _handle(entry: Entry) -> Line2D:
    return _line_handle(entry.label, color=entry.look.color, dashes=entry.look.dashes)


def _line_handle(label: str, *, color: str, dashes: tuple[float, ...]) -> Line2D:
    line = Line2D([], [], color=color, linewidth=1.8, label=label)
    if dashes:
        line.set_dashes(dashes)
    return line


def _mark_handle(marker: str) -> Line2D:
    return Line2D(
        [], [], linestyle="none", marker=marker, color=palette.AXIS, label="retransmission"
    )


def _place_legend(axes: Axes, handles: Sequence[Line2D]) -> None:
    """Between title and axes, in as many columns as fit; the axes give way to it."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, min(len(handles), LEGEND_CHARACTERS // (longest + LEGEND_HANDLE)))
    shown = list(handles)
    if len(shown) > columns * LEGEND_ROWS_MAX:
        shown = shown[: columns * LEGEND_ROWS_MAX - 1]
        rest = len(handles) - len(shown)
        shown.append(Line2D([], [], linestyle="none", label=f"and {rest} more"))
    rows = -(-len(shown) // columns)
    height = rows * LEGEND_ROW_IN / SIZE_IN[1]
    left, bottom, width, full = AXES_PLACE
    axes.set_position((left, bottom, width, full - height))
    axes.set_title(axes.get_title(loc="left"), pad=5 + rows * LEGEND_ROW_IN * 72)
    axes.legend(
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


def _svg(figure: Figure) -> str:
    """The figure without what would differ from day to day."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=nothing)
    # Matplotlib lists every font it knows; the generic family is on every machine.
    return re.sub(r"font-family: [^;\"]*?sans-serif", "font-family: sans-serif", text.getvalue())


def caption(graph: Graph, series: Series) -> str:
    """One sentence for the reader of a graph, with what is special in this experiment."""
    if graph is not RATES:
        return graph.caption
    parts = [graph.caption]
    other = [flow.label for flow in series.flows if flow.goodput.source == "bytes acked"]
    if other:
        names = ", ".join(other[:3]) + (f" and {len(other) - 3} more" if len(other) > 3 else "")
        parts.append(f"The tool told no intervals of {names}: shown is what was acknowledged.")
    if sum(bool(flow.goodput.time_s) for flow in series.flows) > 1:
        parts.append("The dark line is their sum.")
    if any(map(_retransmissions, series.flows)):
        parts.append("Marks show when segments were sent again.")
    return " ".join(parts)
