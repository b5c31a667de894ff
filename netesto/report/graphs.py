"""What the graphs of an experiment show: their lines, bands, sums, legends and captions. Pure."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from netesto.model import REQUEST_TESTS
from netesto.report import curves, palette, together
from netesto.report.context import Context, Reference
from netesto.report.curves import Band, Points
from netesto.report.palette import Look
from netesto.results.evidence import OK
from netesto.results.series import CpuSeries, FlowSeries, Series, SocketSeries

# With more flows than this a name and a colour for each say nothing: flows of one group then look
# alike, and the legend tells groups. A group of more than this is drawn as a band.
MAX_LINES_WITH_NAMES = 8

# A level this far above everything measured would press the lines to the floor.
REFERENCE_ABOVE = 3.0

# A sum may exceed the link by what was late by less than one sample; more needs an explanation.
SUM_ABOVE_LINK = 1.02


@dataclass(frozen=True, slots=True)
class Graph:
    """What a graph shows: the file's name, its title, the unit, and one sentence for its reader."""

    name: str
    title: str
    unit: str
    caption: str


RATES = Graph("rates", "Goodput", "Mbit/s", "What the receiver of each flow got.")
RTT = Graph("rtt", "Round-trip time in TCP", "ms", "The smoothed RTT of the sender's TCP.")
RETRANS = Graph(
    "retrans", "Retransmissions", "segments", "Segments retransmitted between two samples."
)
PING = Graph(
    "ping", "Round-trip time of ping", "ms", "What an echo request met while the flows ran."
)
CPU = Graph("cpu", "CPU", "%", "All CPUs of a host, and (dashed) the busiest one.")
GRAPHS: tuple[Graph, ...] = (
    RATES,
    Graph(
        "acked_rate", "Acknowledged rate", "Mbit/s",
        "What the receiver acknowledged between two samples of the sender's socket.",
    ),
    Graph("cwnd", "Congestion window", "segments", "What TCP allows itself to have in flight."),
    Graph("unacked", "In flight", "segments", "Sent, and not yet acknowledged."),
    RTT,
    Graph("minrtt", "Minimum round-trip time", "ms", "The minimum RTT that the TCP remembers."),
    RETRANS,
    PING,
    CPU,
)  # fmt: skip

_SOCKET_COLUMNS: Mapping[str, Callable[[SocketSeries], Sequence[float | None]]] = {
    "acked_rate": lambda series: series.acked_mbit_per_s,
    "cwnd": lambda series: series.cwnd,
    "unacked": lambda series: series.unacked,
    "rtt": lambda series: series.rtt_ms,
    "minrtt": lambda series: series.min_rtt_ms,
    "retrans": lambda series: series.retransmits,
}

# line: one flow; thin: one of several of its group; median: of a group; steps: counts.
Kind: TypeAlias = Literal["line", "thin", "median", "steps", "sum"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the legend. `flows` are the indexes of the lines it names."""

    label: str
    look: Look
    flows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A line. `name` is its name in the SVG (`flow-3-0`), `label` what it tells to a pointer."""

    name: str
    label: str
    look: Look
    kind: Kind
    points: Points


@dataclass(frozen=True, slots=True)
class Fan:
    """The band that most flows of a group lie in."""

    name: str
    label: str
    look: Look
    band: Band


@dataclass(frozen=True, slots=True)
class Marks:
    """Places on a flow's line where its samples saw retransmitted segments."""

    name: str
    label: str
    look: Look
    points: Points


@dataclass(frozen=True, slots=True)
class Shade:
    """A time in which `share` (0 to 1) of the most flows that ever ran together ran."""

    start_s: float
    end_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that one graph shows."""

    graph: Graph
    end_s: float
    entries: Sequence[Entry]
    traces: Sequence[Trace]
    fans: Sequence[Fan] = ()
    total: Points = ((), ())
    marks: Sequence[Marks] = ()
    references: Sequence[Reference] = ()
    shades: Sequence[Shade] = ()


def pictures(series: Series, context: Context) -> Iterator[Picture]:
    """The graphs that have something to show, in the order of GRAPHS; none where every flow
    failed."""
    entries = legend(series)
    if not entries:
        return
    ends = [flow.end_s for flow in series.flows if flow.end_s is not None]
    end_s = max(ends, default=0.0)
    shades = _shades(series)
    for graph in GRAPHS:
        fans: list[Fan] = []
        if graph is PING or graph is CPU:
            named = _pings(series) if graph is PING else _processors(series, context)
            traces = [trace for _, trace in named]
            shown = [entry for entry, _ in named if entry.label]
        else:
            traces, fans = _traces(graph, series, entries)
            shown = entries
        if not traces:
            continue
        total = _total(series) if graph is RATES else ((), ())
        highest = _highest(traces, total)
        yield Picture(
            graph=graph,
            end_s=end_s,
            entries=shown,
            traces=traces,
            fans=fans,
            total=total,
            marks=_marks(series, entries) if graph is RATES else (),
            references=[
                each
                for each in _references(graph, context)
                if each.value <= REFERENCE_ABOVE * highest
            ],
            shades=shades,
        )


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


def _traces(
    graph: Graph, series: Series, entries: Sequence[Entry]
) -> tuple[list[Trace], list[Fan]]:
    """The lines of each entry of the legend: of one flow its own; of several also their median,
    and of many the band they lie in instead of them. Counts of several flows are added."""
    of_flow = lines(graph, series)
    traces: list[Trace] = []
    fans: list[Fan] = []
    for entry in entries:
        each = [points for i in entry.flows for points in of_flow[i]]
        if not each:
            continue
        first, is_alone = entry.flows[0], len(entry.flows) == 1
        if graph is RETRANS and not is_alone:
            added = curves.counted(each, bin_s=bin_s(series))
            label = f"retransmissions of {entry.label}"
            traces.append(Trace(f"count-{first}", label, entry.look, "steps", added))
            continue
        if len(entry.flows) <= MAX_LINES_WITH_NAMES:
            kind: Kind = "steps" if graph is RETRANS else "line" if is_alone else "thin"
            traces += [
                Trace(f"flow-{i}-{part}", series.flows[i].label, entry.look, kind, points)
                for i in entry.flows
                for part, points in enumerate(of_flow[i])
            ]
        if is_alone:
            continue
        band = curves.band(each)
        if len(entry.flows) > MAX_LINES_WITH_NAMES:
            low, high = curves.BAND_PERCENT
            label = f"{low:.0f}th to {high:.0f}th percentile of {entry.label}"
            fans.append(Fan(f"band-{first}", label, entry.look, band))
        label = f"median of {entry.label}"
        points = (band.time_s, band.median)
        traces.append(Trace(f"median-{first}", label, entry.look, "median", points))
    return traces, fans


def _total(series: Series) -> Points:
    of_flow = lines(RATES, series)
    if len(of_flow) < 2:
        return (), ()
    return curves.total(points for found in of_flow.values() for points in found)


def _marks(series: Series, entries: Sequence[Entry]) -> list[Marks]:
    """Where flows are many, the graph of retransmissions tells what marks would only cover."""
    if is_crowded(entries):
        return []
    found = []
    for entry in entries:
        for i in entry.flows:
            rates = series.flows[i].goodput
            if rates.time_s and (times := retransmissions(series.flows[i])):
                places = curves.on_line((rates.time_s, rates.mbit_per_s), times)
                label = f"retransmissions of {entry.label}"
                found.append(Marks(f"marks-{i}", label, entry.look, places))
    return found


def _pings(series: Series) -> list[tuple[Entry, Trace]]:
    """One line for each group's pings; a pair of hosts is named once."""
    found = []
    places: dict[tuple[str, str], int] = {}
    for each in series.pings:
        ends = (each.host, each.server)
        is_new = ends not in places
        look = palette.look(places.setdefault(ends, len(places)))
        label = f"{each.host}→{each.server}"
        trace = Trace(f"ping-{each.group}", label, look, "line", (each.time_s, each.rtt_ms))
        found.append((Entry(label if is_new else "", look, ()), trace))
    return found


def _processors(series: Series, context: Context) -> list[tuple[Entry, Trace]]:
    """Two lines for each host. Hosts that are one machine have the same CPUs: the one that was
    watched longest tells them."""
    hosts: Sequence[CpuSeries] = series.cpu
    if context.simulated:
        return []
    if context.one_machine and hosts:
        hosts = [max(hosts, key=lambda each: len(each.time_s))]
    found = []
    for place, each in enumerate(hosts):
        look = palette.look(place % len(palette.COLORS))
        label = "this machine, all hosts of the lab" if context.one_machine else each.host
        mean = Trace(f"cpu-{place}", label, look, "line", (each.time_s, each.mean_percent))
        found.append((Entry(label, look, ()), mean))
        if each.busiest_percent != each.mean_percent:
            dashed = Look(look.color, palette.DASHES[1])
            points = (each.time_s, each.busiest_percent)
            busiest = Trace(f"cpu-{place}-busiest", f"busiest of {label}", dashed, "line", points)
            found.append((Entry("", dashed, ()), busiest))
    return found


def _references(graph: Graph, context: Context) -> Sequence[Reference]:
    if graph.name in {RATES.name, "acked_rate"}:
        return context.capacities
    if graph.name in {RTT.name, "minrtt", PING.name}:
        return context.base_rtts
    return ()


def _shades(series: Series) -> list[Shade]:
    """Darker where more flows ran; none where all ran all the time, or too many came and went."""
    found = together.periods(series)
    most = max((len(each.flows) for each in found), default=0)
    if len(found) < 2 or len(found) > together.MAX_PERIODS or most < 2:
        return []
    return [
        Shade(each.start_s, each.end_s, (len(each.flows) - 1) / (most - 1))
        for each in found
        if len(each.flows) > 1
    ]


def bin_s(series: Series) -> float:
    """The width of a bin: two hundred make a graph, and none is shorter than usual sampling."""
    end_s = max((flow.end_s or 0.0 for flow in series.flows), default=0.0)
    return max(0.2, math.ceil(end_s / 20) / 10)


def retransmissions(flow: FlowSeries) -> list[float]:
    """When samples of the flow saw retransmitted segments."""
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


def caption(picture: Picture, series: Series, context: Context) -> str:
    """A few words for the reader of a graph, with what is special in this experiment."""
    graph = picture.graph
    parts = [graph.caption]
    if graph is RETRANS and is_crowded(picture.entries):
        parts = [f"Segments that each group retransmitted, in steps of {bin_s(series):g} s."]
    elif picture.fans:
        low, high = curves.BAND_PERCENT
        parts.append(
            f"Lines are the median of each group; bands hold its flows from the {low:.0f}th to the "
            f"{high:.0f}th percentile."
        )
    elif any(trace.kind == "median" for trace in picture.traces):
        parts.append("Thick lines are the median of each group, thin ones single flows.")
    if graph is CPU and context.one_machine:
        parts.append("The hosts of a lab share the CPUs of one machine.")
    if graph is RATES:
        parts += _of_rates(picture, series)
    if picture.references:
        what = "link rate, headers included" if graph.unit == "Mbit/s" else "idle path's RTT"
        parts.append(f"The dotted line is the {what}.")
    return " ".join(parts)


def _of_rates(picture: Picture, series: Series) -> Iterator[str]:
    for source, what in _OTHER_SOURCES.items():
        told = [flow for flow in series.flows if flow.goodput.source == source]
        # A request that was answered is in no buffer any more.
        if labels := [flow.label for flow in told if flow.test not in REQUEST_TESTS]:
            yield f"{_names(labels)}: {what}."
    if picture.shades:
        yield "The more flows ran, the darker the ground."
    if picture.total[0]:
        yield "The uncoloured line is their sum."
    if picture.marks:
        yield "Crosses show when segments were retransmitted."
    highest = _highest(picture.traces, picture.total)
    capacity = max((each.value for each in picture.references), default=math.inf)
    if highest > SUM_ABOVE_LINK * capacity:
        yield (
            "A rate above the link's is no error: data that arrived behind a lost segment are "
            "delivered at once when it has been retransmitted."
        )


def _highest(traces: Sequence[Trace], total: Points) -> float:
    each = [total, *(trace.points for trace in traces)]
    return max((max(values) for _, values in each if len(values)), default=0.0)
