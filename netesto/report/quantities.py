"""The quantities that can be drawn over time, with their units and samples. Pure.

Pages of experiments (graphs) and report scripts (expscript.overlays) draw the same lines.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from netesto.report import curves
from netesto.report.curves import Points
from netesto.results.series import Column, DatagramSeries, FlowSeries, Series, SocketSeries


@dataclass(frozen=True, slots=True)
class TimeQuantity:
    """`name` is that in report scripts, `caption` one sentence for the reader of a graph.

    `column` is the quantity in the samples of a socket, `of_datagrams` in those of datagrams; None
    if it has another source. `is_marked`: lines show where segments were retransmitted.
    `is_counted`: counters of hosts.
    """

    name: str
    title: str
    unit: str
    caption: str
    column: Callable[[SocketSeries], Column] | None = None
    of_datagrams: Callable[[DatagramSeries], Column] | None = None
    is_marked: bool = False
    is_counted: bool = False

    @property
    def axis(self) -> str:
        """The title of an axis."""
        return f"{self.title} ({self.unit})"


@dataclass(frozen=True, slots=True)
class FlowLine:
    """One line of a flow, and the points on it where segments were retransmitted."""

    points: Points
    retransmissions: Points = ((), ())


RATE = TimeQuantity(
    "rate", "Goodput", "Mbit/s", "What the receiver of each flow got.", is_marked=True
)  # fmt: skip
ACKED_RATE = TimeQuantity(
    "acked_rate", "Acknowledged rate", "Mbit/s",
    "What the receiver acknowledged between two samples of the sender's socket.",
    lambda samples: samples.acked_mbit_per_s, is_marked=True,
)  # fmt: skip
RTT = TimeQuantity(
    "rtt", "Round-trip time in TCP", "ms", "The smoothed RTT of the sender's TCP.",
    lambda samples: samples.rtt_ms, is_marked=True,
)  # fmt: skip
MIN_RTT = TimeQuantity(
    "minrtt", "Minimum round-trip time", "ms", "TCP's own estimate of the minimum RTT.",
    lambda samples: samples.min_rtt_ms,
)  # fmt: skip
RETRANS = TimeQuantity(
    "retrans", "Retransmissions", "segments", "Segments retransmitted between two samples.",
    lambda samples: samples.retransmits,
)  # fmt: skip
LOSS = TimeQuantity(
    "loss", "Datagrams lost", "%", "Of the datagrams that each flow sent in an interval.",
    of_datagrams=lambda datagrams: datagrams.lost_percent,
)  # fmt: skip
JITTER = TimeQuantity(
    "jitter", "Jitter of datagrams", "ms", "Interarrival jitter (RFC 3550).",
    of_datagrams=lambda datagrams: datagrams.jitter_ms,
)  # fmt: skip
ONE_WAY = TimeQuantity(
    "oneway", "One-way delay of datagrams", "ms", "The mean of each interval.",
    of_datagrams=lambda datagrams: datagrams.delay_ms,
)  # fmt: skip
PING = TimeQuantity(
    "ping", "Round-trip time of ping", "ms", "The RTTs of echo requests while the flows ran."
)
CPU = TimeQuantity("cpu", "CPU", "%", "All CPUs of a host, and (dashed) the busiest one.")
CORES = TimeQuantity("cores", "CPU by core", "%", "The busy share of each core, by its number.")
BACKLOG = TimeQuantity(
    "backlog", "Queues", "kB", "The backlog of the queues on the path of the data, at each sample."
)
DROPS = TimeQuantity(
    "drops", "Drops and marks of queues", "packets",
    "Packets that queues dropped, and (dashed) marked, between two samples.",
)  # fmt: skip
# In the order of an experiment's page; `of` adds what its hosts counted.
QUANTITIES: Mapping[str, TimeQuantity] = {
    one.name: one
    for one in (
        RATE,
        ACKED_RATE,
        TimeQuantity(
            "cwnd", "Congestion window", "segments", "What TCP allows itself to have in flight.",
            lambda samples: samples.cwnd, is_marked=True,
        ),
        TimeQuantity(
            "unacked", "In flight", "segments", "Sent, and not yet acknowledged.",
            lambda samples: samples.unacked, is_marked=True,
        ),
        RTT,
        MIN_RTT,
        RETRANS,
        LOSS,
        JITTER,
        ONE_WAY,
        PING,
        BACKLOG,
        DROPS,
        CPU,
        CORES,
    )
}  # fmt: skip


def of(series: Series) -> dict[str, TimeQuantity]:
    """The quantities that an experiment may have, by name, in the order of its page."""
    counted = [
        TimeQuantity(
            each.name, each.title, each.units[each.drawn[0]], each.sentence, is_counted=True
        )
        for each in series.counters
    ]
    found: list[TimeQuantity] = []
    for one in QUANTITIES.values():
        found += [*counted, one] if one is CPU else [one]
    return {one.name: one for one in found}


def flow_lines(quantity: TimeQuantity, flow: FlowSeries) -> list[FlowLine]:
    """The lines of a flow: one for goodput, else one for each socket; none for a flow that failed
    without data. One that was killed has them until then."""
    if not flow.has_run:
        return []
    if quantity is RATE:
        points: Points = (flow.goodput.time_s, flow.goodput.mbit_per_s)
        # A rate is of the time around its point, which ends later than the last point.
        return [_marked(points, _retransmissions(flow.sockets))] if points[0] else []
    if quantity.of_datagrams is not None and flow.datagrams is not None:
        points = _known_points(flow.datagrams.time_s, quantity.of_datagrams(flow.datagrams))
        return [FlowLine(points)] if points[0] else []
    found = []
    for socket in flow.sockets:
        points = (
            _known_points(socket.time_s, quantity.column(socket)) if quantity.column else ((), ())
        )
        if points[0]:
            times = _retransmissions([socket]) if quantity.is_marked else []
            inside = [time for time in times if points[0][0] <= time <= points[0][-1]]
            found.append(_marked(points, inside))
    return found


def _marked(points: Points, times_s: Sequence[float]) -> FlowLine:
    return FlowLine(points, curves.on_line(points, times_s) if times_s else ((), ()))


def _retransmissions(sockets: Sequence[SocketSeries]) -> list[float]:
    """When samples saw retransmitted segments, in seconds."""
    return [
        time_s
        for socket in sockets
        for time_s, count in zip(socket.time_s, socket.retransmits, strict=True)
        if count
    ]


@dataclass(frozen=True, slots=True)
class OtherLine:
    """A line of a host, a queue, or pings (of `groups`). The second one of a place is dashed in
    graphs."""

    label: str
    points: Points
    is_second: bool = False
    groups: tuple[int, ...] = ()


def other_lines(quantity: TimeQuantity, series: Series) -> Iterator[OtherLine]:
    """The lines that are not of flows."""
    if quantity is PING:
        for ping in series.pings:
            points, groups = (ping.time_s, ping.rtt_ms), ping.groups or (ping.group,)
            yield OtherLine(f"{ping.host}→{ping.server}", points, groups=groups)
    elif quantity is CPU:
        for cpu in series.cpu:
            yield OtherLine(cpu.host, (cpu.time_s, cpu.mean_percent))
    elif quantity is CORES:
        for cpu in series.cpu:
            for core in cpu.cores:
                yield OtherLine(f"{cpu.host} {core.core}", (cpu.time_s, core.busy_percent))
    elif quantity in {BACKLOG, DROPS} or quantity.is_counted:
        yield from queue_lines(quantity, series)


def queue_lines(quantity: TimeQuantity, series: Series) -> list[OtherLine]:
    """The lines of BACKLOG, DROPS or counters of hosts, without those where nothing ever happened;
    those with most first."""
    found = []
    for each in series.counters:
        for host in each.hosts if quantity.is_counted and each.name == quantity.name else ():
            for place, name in enumerate(each.drawn):
                values = host.values[name]
                found.append(_line(host.host, host.time_s, values, is_second=place > 0))
    for queue in series.queues if not quantity.is_counted else ():
        if quantity is BACKLOG:
            kilobytes = [None if size is None else size / 1000 for size in queue.backlog_bytes]
            found.append(_line(queue.place, queue.time_s, kilobytes))
        else:
            found.append(_line(queue.place, queue.time_s, queue.drops))
            found.append(_line(queue.place, queue.time_s, queue.marks, is_second=True))
    happened = (line for line in found if any(line.points[1]))
    return sorted(happened, key=lambda line: -sum(line.points[1]))


def _line(
    label: str, times: Sequence[float], values: Sequence[float | None], *, is_second: bool = False
) -> OtherLine:
    return OtherLine(label, _known_points(times, values), is_second)


def _known_points(times: Sequence[float], values: Sequence[float | None]) -> Points:
    """The points whose value is known."""
    pairs = [(time, value) for time, value in zip(times, values, strict=True) if value is not None]
    return [time for time, _ in pairs], [value for _, value in pairs]
