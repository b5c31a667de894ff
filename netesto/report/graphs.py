"""What the graphs of an experiment show: their lines, sums, legends and captions. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from netesto.report import palette
from netesto.report.palette import Look
from netesto.results.evidence import OK
from netesto.results.series import FlowSeries, Series, SocketSeries

# With more flows than this a name and a colour for each say nothing: flows of one group then look
# alike, the legend tells groups, and a thick line shows the group's median.
MAX_LINES_WITH_NAMES = 8

# More points than a wide screen has columns cannot be seen.
MAX_POINTS = 2000

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
    "What each flow's receiver got.",
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
    drawn = [(i, flow) for i, flow in enumerate(series.flows) if flow.status == OK]
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
    """As a flow's label, with the group only where a flow's needs it."""
    flows = "1 flow" if count == 1 else f"{count} flows"
    group = f" #{flow.group}" if "." in flow.number else ""
    return f"{flow.ca} {flow.host}→{flow.server}{group}, {flows}"


def lines(graph: Graph, series: Series) -> dict[int, list[Points]]:
    """The lines of each flow in a graph, by the flow's index."""
    found_by_flow: dict[int, list[Points]] = {}
    for i, flow in enumerate(series.flows):
        if flow.status != OK:
            continue
        if graph is RATES:
            found: list[Points] = [(flow.goodput.time_s, flow.goodput.mbit_per_s)]
        else:
            column = _SOCKET_COLUMNS[graph.name]
            found = [_known(each.time_s, column(each)) for each in flow.sockets]
        found_by_flow[i] = [points for points in found if points[0]]
    return found_by_flow


def _known(times: Sequence[float], values: Sequence[float | None]) -> Points:
    pairs = [(t, value) for t, value in zip(times, values, strict=True) if value is not None]
    return [t for t, _ in pairs], [value for _, value in pairs]


def total(each: Iterable[Points]) -> Points:
    """The sum of rates over time. A flow's rate is a straight line from point to point, goes on for
    half an interval before its first and after its last point (a point is the middle of one), and
    is 0 elsewhere."""
    arrays = [_whole_intervals(points) for points in each if len(points[0]) > 1]
    if not arrays:
        return (), ()
    grid = _grid(arrays)
    found = np.zeros_like(grid)
    for t, v in arrays:
        found += np.interp(grid, t, v, left=0.0, right=0.0)
    return grid.tolist(), found.tolist()


def median(each: Iterable[Points]) -> Points:
    """The median of several lines over time, of those that have begun and not ended."""
    arrays = [(np.asarray(t, float), np.asarray(v, float)) for t, v in each if len(t) > 1]
    if not arrays:
        return (), ()
    grid = _grid(arrays)
    values = np.stack([np.interp(grid, t, v, left=np.nan, right=np.nan) for t, v in arrays])
    there = ~np.all(np.isnan(values), axis=0)
    return grid[there].tolist(), np.nanmedian(values[:, there], axis=0).tolist()


def counted(each: Sequence[Points], *, bin_s: float) -> Points:
    """How much several lines count together in each `bin_s` seconds from 0, at the bins' ends."""
    times = [np.asarray(t, float) for t, _ in each if len(t)]
    counts = [np.asarray(v, float) for t, v in each if len(t)]
    if not times:
        return (), ()
    places = np.ceil(np.concatenate(times) / bin_s).astype(int)
    found = np.bincount(np.maximum(places, 0), weights=np.concatenate(counts))
    first = int(places.min())
    return (np.arange(first, len(found)) * bin_s).tolist(), found[first:].tolist()


def bin_s(series: Series) -> float:
    """The width of a bin: two hundred make a graph, and none is shorter than usual sampling."""
    end_s = max((flow.end_s or 0.0 for flow in series.flows), default=0.0)
    return max(0.2, math.ceil(end_s / 20) / 10)


_Array = np.ndarray[tuple[int], np.dtype[np.float64]]


def _whole_intervals(points: Points) -> tuple[_Array, _Array]:
    t, v = np.asarray(points[0], float), np.asarray(points[1], float)
    half = float(np.median(np.diff(t))) / 2
    return np.concatenate(([t[0] - half], t, [t[-1] + half])), np.concatenate((v[:1], v, v[-1:]))


def _grid(arrays: Sequence[tuple[_Array, _Array]]) -> _Array:
    """Instants as far apart as the samples mostly are, from the first to the last."""
    begin, end = min(t[0] for t, _ in arrays), max(t[-1] for t, _ in arrays)
    step = float(np.median(np.concatenate([np.diff(t) for t, _ in arrays])))
    count = int(min(MAX_POINTS, (end - begin) / max(step, 1e-3))) + 1
    return np.linspace(begin, end, count)


def retransmissions(flow: FlowSeries) -> list[float]:
    """When samples of the flow saw segments sent again."""
    return [
        time_s
        for each in flow.sockets
        for time_s, count in zip(each.time_s, each.retransmits, strict=True)
        if count
    ]


def is_crowded(entries: Sequence[Entry]) -> bool:
    """True where a line is one of many of its group."""
    return sum(len(entry.flows) for entry in entries) > MAX_LINES_WITH_NAMES


# Where goodput is not what the receiver's socket got (results.series.RateSeries).
_OTHER_SOURCES: Mapping[str, str] = {
    "tool": "as its tool tells, which may count what is still in the sender's buffer",
    "bytes acked": "what was acknowledged to the sender",
}


def _names(labels: Sequence[str]) -> str:
    return ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")


def caption(graph: Graph, series: Series) -> str:
    """A few words for the reader of a graph, with what is special in this experiment."""
    parts = [graph.caption]
    crowded = is_crowded(legend(series))
    if crowded and graph.name == "retrans":
        return f"Segments that each group sent again, counted in steps of {bin_s(series):g} s."
    if crowded:
        parts.append("Thick lines are the median of each group, thin ones single flows.")
    if graph is not RATES:
        return " ".join(parts)
    parts += [
        f"{_names(labels)}: {what}."
        for source, what in _OTHER_SOURCES.items()
        if (labels := [flow.label for flow in series.flows if flow.goodput.source == source])
    ]
    if sum(bool(flow.goodput.time_s) for flow in series.flows) > 1:
        parts.append("The uncoloured line is their sum.")
    if any(map(retransmissions, series.flows)):
        parts.append("Marks show when segments were sent again.")
    return " ".join(parts)
