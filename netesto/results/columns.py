"""How each column is computed, for a group and for an experiment, and shown.

`netesto.schema.columns` describes what it is. fields.txt chooses columns of exp.csv, their order
and how groups are aggregated; OTHER, SWEEP and a user's own fields.txt can add others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from netesto.measured import Datagrams, SocketSample, TransferResult
from netesto.results import flows, formulas, numbers, overall
from netesto.results.evidence import Source
from netesto.results.formulas import MeasuredGroup, Rate
from netesto.results.queues import Column as QueueColumn
from netesto.results.queues import Queue
from netesto.schema.columns import canonical, description
from netesto.units import format_size

# A name is a text even if it looks like a number: an experiment may be called 2017. ASSERT can
# compare it with numbers, too.
Holds: TypeAlias = Literal["number", "text", "name", "any"]
# The script: requested, or from OTHER and SWEEP. Netesto: numbers of experiments and groups.
By: TypeAlias = Literal["script", "netesto", "outcome", "flows"]
Fill: TypeAlias = Callable[[MeasuredGroup], str | float | None]


@dataclass(frozen=True, slots=True)
class Column:
    """How one column is computed and shown.

    `fill` computes the value of a group, None if unknown; a number is written with at most
    `decimals`. `overall` computes the value of an experiment from its groups, instead of the
    operation of fields.txt, and without `fill` that of a group, too. A column with neither comes
    from OTHER or SWEEP. `sources` are the files of the value: if one is damaged, it is unknown.
    `rate`: the column is the sum of this rate over flows that ran together.

    `show` formats a value for people. `better` says which values are better, for columns that
    `compare` can judge. `is_factor`: it may differ between experiments on purpose.
    """

    name: str
    fill: Fill | None = None
    decimals: int = 0
    sources: tuple[Source, ...] = ()
    by: By = "script"
    holds: Holds = "any"
    overall: Callable[[Sequence[MeasuredGroup]], str | float | None] | None = None
    rate: Rate | None = None
    better: Literal["more", "less"] | None = None
    is_factor: bool = True
    show: Callable[[str], str] = numbers.text

    @property
    def is_measured(self) -> bool:
        """Whether it is measured, and the script cannot set it."""
        return self.by in {"flows", "outcome"}

    @property
    def is_of_groups(self) -> bool:
        """Whether groups have a value of their own, and not only one from OTHER or SWEEP."""
        return (self.fill or self.overall) is not None

    @property
    def in_ms(self) -> bool:
        """Whether it is shown in ms although the value is in µs."""
        return self.show is numbers.milliseconds

    @property
    def unit(self) -> str:
        """The unit of its values, in headings."""
        return description(self.name).unit

    @property
    def shown_unit(self) -> str:
        """The unit of numbers that people see."""
        return "ms" if self.in_ms else self.unit

    def value(self, group: MeasuredGroup) -> str:
        """The text of a group's value; "" if it is not known, or no flow ended well."""
        if self.by == "flows" and not group.good:
            return ""
        found = self.fill(group) if self.fill else self.overall([group]) if self.overall else None
        return found if isinstance(found, str) else numbers.short(found, self.decimals)


def column(name: str) -> Column:
    """A column; one that is not in the table comes from the script."""
    return COLUMNS.get(canonical(name)) or Column(name)


WARNINGS, SEVERITY = "warnings", "severity"
"""The columns of the number of warnings, and of the severity of the worst of them."""

REPETITION = "rep"
"""The column of the number of a repetition."""

NO_VARIANT = frozenset({REPETITION, "testNote"})
"""Columns that the script fills, and that are not part of what was requested."""


def distinguishes(name: str, whole: Sequence[Mapping[str, str]]) -> bool:
    """Whether the script sets a column, and differently in these rows of experiments."""
    # A delay usually differs between groups.
    if not column(name).is_factor or name == "delay":
        return False
    return len({row.get(name) for row in whole}) > 1


_SOCKETS: tuple[Source, ...] = ("client sockets", "server sockets")
_PACKETS: tuple[Source, ...] = (*_SOCKETS, "counters")

_name = partial(Column, holds="text", is_factor=False)
_number = partial(Column, by="netesto", holds="name", is_factor=False)
_outcome = partial(Column, by="outcome", is_factor=False)
_measured = partial(Column, by="flows", holds="number", is_factor=False)
_tool = partial(_measured, sources=("tool",))
_socket = partial(_measured, sources=_SOCKETS)
_queue = partial(_measured, sources=("queues",))
_captured = partial(_measured, sources=("captures",), show=numbers.count)
_counted = partial(_measured, sources=("counters",), show=numbers.count)


def _latency(
    which: str,
    get: Callable[[TransferResult], float | None],
    over: Callable[[Iterable[float | None]], float | None] = numbers.mean,
    better: Literal["less"] | None = "less",
) -> Column:
    """Percentiles are means over flows, with equal weights: those of all flows together cannot be
    computed from those of each."""
    return _tool(f"{which}Latency", lambda group: over(map(get, group.results)), 3, better=better)


def _rate(name: str, get: Rate, decimals: int) -> Column:
    fill = partial(overall.rate, get=get)
    return _tool(name, fill, decimals, rate=get, better="more")


def _datagrams(
    name: str, get: Callable[[Datagrams], int | None], better: Literal["less"] | None = None
) -> Column:
    """A count, summed over the flows."""
    return _tool(
        name,
        lambda group: numbers.total(map(get, group.datagrams)),
        show=numbers.count,
        better=better,
    )


def _latency_of(
    name: str,
    get: Callable[[Datagrams], float | None],
    over: Callable[[Iterable[float | None]], float | None] = numbers.mean,
    better: Literal["less"] | None = None,
) -> Column:
    """A time that is kept in ms, over the flows."""

    def fill(group: MeasuredGroup) -> float | None:
        found = over(map(get, group.datagrams))
        return None if found is None else found * 1000

    return _tool(name, fill, 3, better=better, show=numbers.milliseconds)


def _ping(name: str, fill: Callable[[MeasuredGroup], float | None]) -> Column:
    return _measured(name, fill, 3, ("ping",), better="less", show=numbers.milliseconds)


def _interval(
    name: str,
    over: Callable[[Iterable[float | None]], float | None],
    get: Callable[[flows.Gaps], float],
) -> Column:
    """Of the achieved sampling intervals of a group's flows."""

    def fill(group: MeasuredGroup) -> float | None:
        return over(get(gaps) for gaps in map(flows.gaps, group.samples) if gaps is not None)

    return _socket(name, fill, 3, show=numbers.figure)


def _limited(name: str, get: Callable[[SocketSample], int | None]) -> Column:
    """A time of a flow from its start to its end."""
    return _socket(name, lambda group: group.final_mean(get), show=numbers.milliseconds)


def _sum(get: Callable[[TransferResult], int | None]) -> Fill:
    return lambda group: numbers.total(map(get, group.results))


def _feature(name: str, **other: Any) -> Column:
    return _measured(name, lambda group: group.evidence.features.get(name), **other)


def _offload(name: str) -> Column:
    """A script that sets it may record it: a factor `tso` fills the column if there are no
    statistics."""

    def fill(group: MeasuredGroup) -> str | None:
        return group.evidence.features.get(name) if group.good else None

    return Column(name, fill=fill, sources=("ethtool-k",), holds="text")


def _counter(name: str, counter: str) -> Column:
    """Of the client's interface, which groups may share."""

    def count(groups: Iterable[MeasuredGroup]) -> float | None:
        return overall.counted_once(
            each for group in groups for each in group.interface_counts(counter)
        )

    return _counted(name, overall=count)


def _of_queues(name: str, get: Callable[[Queue], QueueColumn]) -> Column:
    """Of the queues on the path, which groups may share."""

    def count(groups: Iterable[MeasuredGroup]) -> float | None:
        return overall.counted_once(each for group in groups for each in group.queue_counts(get))

    return _queue(name, show=numbers.count, overall=count)


def _packet_bytes(name: str, way: str) -> Column:
    return _counted(name, decimals=1, overall=partial(overall.packet_bytes, way=way))


def _size(size_bytes: int) -> str | None:
    return format_size(size_bytes) if size_bytes else None


def _mbit(bps: float | None) -> float | None:
    return None if bps is None else bps / 1e6


def _sent_mbit_per_s(result: TransferResult) -> float | None:
    return None if result.datagrams is None else _mbit(result.datagrams.sent_bps)


# In the order of a group's key:value file.
_TABLE: tuple[Column, ...] = (
    # ---- requested values
    _number("exp", fill=lambda g: f"{g.request.exp}.{g.request.group}"),
    _number("expNumber", fill=lambda g: g.request.exp),
    Column("expName", fill=lambda g: g.request.exp_name, holds="text"),
    _name("desc", fill=lambda g: g.description),
    Column("test", fill=lambda g: g.request.test, holds="text"),
    _name("host", fill=lambda g: g.request.client),
    _name("fullHost", fill=lambda g: g.evidence.full_host),
    _name("server", fill=lambda g: g.request.server),
    _name("fullServer", fill=lambda g: g.evidence.full_server),
    _number("group", fill=lambda g: g.request.group),
    _name("kernel", fill=lambda g: g.evidence.kernel),
    Column("instances", fill=lambda g: g.request.instances),
    # In the classic tool, the numbers of a group could start elsewhere than at 1.
    Column("instance", is_factor=False,
           fill=lambda g: min((flow.instance for flow in g.evidence.instances), default=1)),
    Column("dur", lambda g: formulas.requested_duration_s(g.request), 3),
    Column("delay", lambda g: g.request.delay_s, 3),
    # Of imported runs they may be unknown.
    Column("req", lambda g: _size(g.request.request_bytes)),
    Column("reply", lambda g: _size(g.request.reply_bytes)),
    Column("ca", holds="text", fill=lambda g: formulas.requested_control(g.request)),
    Column("ecn", fill=lambda g: g.request.ecn),
    Column("parallel", fill=lambda g: g.request.parallel),
    Column("bitrate", lambda g: _mbit(g.request.bitrate_bps), 6),
    Column("pacing", lambda g: _mbit(g.request.pacing_bps), 6),
    Column("zerocopy", fill=lambda g: g.request.zerocopy, holds="text"),
    Column("omit", lambda g: g.request.omit_s, 3),
    # The actual value of the test interface: a script that changes it may record the request.
    Column("mtu", lambda g: g.evidence.mtu_bytes, sources=("counters",)),
    _name("tool", fill=lambda g: g.request.tool),
    # ---- outcome of the flows
    _outcome("status", fill=lambda g: g.status, holds="text"),
    _outcome("flowsFailed", fill=lambda g: g.flows_failed, holds="number"),
    _outcome(WARNINGS, overall=overall.warnings, holds="number"),
    _outcome(SEVERITY, overall=overall.severity_of_worst, holds="text"),
    _outcome("warning", overall=overall.first_warning, holds="text"),
    # ---- what the traffic tool reports; decimals down to bit/s and ns
    _rate("rate", formulas.goodput_mbit_per_s, 6),
    _tool("rateMin", lambda g: numbers.least(g.rates), 6, better="more"),
    _tool("rateMean", lambda g: numbers.mean(g.rates), 6),
    _tool("rateMax", lambda g: numbers.greatest(g.rates), 6),
    _rate("reverseRate", lambda r: _mbit(r.reverse_rate_bps), 6),
    _rate("transactionRate", lambda r: r.transactions_per_s, 3),
    _tool("fairness", overall.fairness, 6, better="more", overall=overall.fairness_of_all),
    _tool("localRetrans", show=numbers.count,
          fill=lambda g: numbers.total(r.local_retransmits for r in g.results)),
    _tool("remoteRetrans", show=numbers.count,
          fill=lambda g: numbers.total(r.remote_retransmits for r in g.results)),
    _latency("min", lambda r: r.min_latency_us, numbers.least, better=None),
    _latency("max", lambda r: r.max_latency_us, numbers.greatest),
    _latency("mean", lambda r: r.mean_latency_us),
    _latency("p50", lambda r: r.p50_latency_us),
    _latency("p90", lambda r: r.p90_latency_us),
    _latency("p99", lambda r: r.p99_latency_us),
    _latency("p999", lambda r: r.p999_latency_us),
    _latency("p9999", lambda r: r.p9999_latency_us),
    _latency("p99999", lambda r: r.p99999_latency_us),
    _tool("latencies", _sum(lambda r: r.latencies), show=numbers.count),
    _tool("latencyTail", overall=overall.latency_tail),
    _tool("unfinished", _sum(lambda r: r.unfinished), better="less", show=numbers.count),
    # ---- what tcp_info reports at the end that sends the data
    _socket("cwnd", lambda g: g.mean(lambda s: s.cwnd), 3, show=numbers.figure),
    _socket("unacked", lambda g: g.mean(lambda s: s.unacked), 3),
    _socket("rtt", lambda g: g.rtt_us, 3, better="less", show=numbers.milliseconds),
    _socket("lost", lambda g: g.peak(lambda s: s.lost), show=numbers.count),
    _socket("retrans", lambda g: g.peak(lambda s: s.retransmits), show=numbers.count),
    _socket("retrans_total", lambda g: g.retransmitted, better="less", show=numbers.count),
    _socket("data_segs_out", lambda g: g.data_segments),
    # What limited the sender, as tcp_info calls it.
    _limited("tcpi_busy_time", lambda s: s.busy_us),
    _limited("rwnd_limited", lambda s: s.window_limited_us),
    _limited("sndbuf_limited", lambda s: s.buffer_limited_us),
    _socket("effCa", holds="text", fill=lambda g: formulas.distinct(
        each for samples in g.samples for each in flows.congestion_controls(samples))),
    _socket("effMss", lambda g: formulas.distinct(
        str(size) for size in map(flows.last_mss_bytes, g.samples) if size)),
    _interval("sampleInterval", numbers.mean, lambda gaps: gaps.mean_ms),
    _interval("sampleIntervalP99", numbers.greatest, lambda gaps: gaps.p99_ms),
    _interval("sampleIntervalWorst", numbers.greatest, lambda gaps: gaps.worst_ms),
    # ---- datagrams, where they are sent and where they arrive
    replace(_rate("sentRate", _sent_mbit_per_s, 6), better=None, show=numbers.figure),
    _datagrams("udpSent", lambda d: d.sent),
    _datagrams("udpSkipped", lambda d: d.skipped),
    _datagrams("udpLost", lambda d: d.lost, better="less"),
    _tool("udpLost%", overall=overall.lost_percent, better="less", show=numbers.figure),
    _datagrams("udpDropped", lambda d: d.dropped),
    _datagrams("udpReordered", lambda d: d.reordered),
    _datagrams("udpDuplicates", lambda d: d.duplicates),
    _datagrams("udpMarked", lambda d: d.marked),
    _latency_of("udpJitter", lambda d: d.jitter_ms, better="less"),
    _latency_of("oneWayMin", lambda d: d.delays_ms and d.delays_ms[0], numbers.least),
    _latency_of("oneWayMean", lambda d: d.delays_ms and d.delays_ms[1], better="less"),
    _latency_of("oneWayMax", lambda d: d.delays_ms and d.delays_ms[2], numbers.greatest),
    _latency_of("oneWayBound", lambda d: d.delay_bound_ms, numbers.greatest),
    # ---- the queues on the path of the data
    _queue("backlog", lambda g: g.backlog_bytes, show=numbers.count),
    _queue("backlogMax", lambda g: g.backlog_max_bytes, show=numbers.count),
    _queue("queueDelay", lambda g: g.queue_delay_us, 3, better="less", show=numbers.milliseconds),
    _of_queues("queueDrops", lambda q: q.drops),
    _of_queues("queueMarks", lambda q: q.marks),
    # ---- the links of a lab
    _queue("maxLinkUtil%", lambda g: g.evidence.links.max_utilisation_percent, 2,
           show=numbers.hundredths),
    _measured("sharedFlows", lambda g: g.evidence.links.shared_flows, show=numbers.count),
    _measured("uplinkVariation", lambda g: g.evidence.links.uplink_variation, 3,
              show=numbers.figure),
    # ---- the links that programs carry
    _measured("linkFrames", lambda g: g.evidence.programs.total("wire_frames"), show=numbers.count),
    _measured("linkLost", lambda g: g.evidence.programs.total("wire_lost"), show=numbers.count),
    _measured("linkLoss%", lambda g: g.evidence.programs.loss_percent, 4, show=numbers.hundredths),
    _measured("linkResent", lambda g: g.evidence.programs.total("resent"), show=numbers.count),
    _measured("linkGivenUp", lambda g: g.evidence.programs.total("given_up"), show=numbers.count),
    _measured(
        "linkPaused%", lambda g: g.evidence.programs.paused_percent, 2, show=numbers.hundredths
    ),
    # ---- other sources
    _measured("localCpu", lambda g: g.cpu[0], 3, ("tool", "client cpu"), better="less",
              show=numbers.hundredths),
    _measured("remoteCpu", lambda g: g.cpu[1], 3, ("tool", "server cpu"), better="less",
              show=numbers.hundredths),
    _measured("localCores", lambda g: g.cores[0], 3, ("client cpu",), better="less",
              show=numbers.hundredths),
    _measured("remoteCores", lambda g: g.cores[1], 3, ("server cpu",), better="less",
              show=numbers.hundredths),
    _ping("pingRtt", lambda g: g.pings.mean_us),
    _ping("pingIdle", lambda g: g.pings.idle_us),
    _ping("pingP50", lambda g: g.pings.quantile_us(0.5)),
    _ping("pingP95", lambda g: g.pings.quantile_us(0.95)),
    _ping("pingMax", lambda g: g.pings.quantile_us(1)),
    _ping("pingAfter", lambda g: g.pings.after_us),
    _measured("pingLost", overall=overall.pings_lost, sources=("ping",), better="less",
              show=numbers.count),
    _measured("rpm", lambda g: g.pings.per_minute, 1, ("ping",), better="more",
              show=numbers.figure),
    _measured("startSkew", lambda g: g.start_skew_ms, 3, show=numbers.figure),
    _feature("tcpRmem", sources=("sysctl",)),
    _feature("tcpWmem", sources=("sysctl",)),
    _offload("tso"),
    _offload("lro"),
    _offload("gro"),
    _offload("gso"),
    _feature("rx-frames", sources=("ethtool-c",)),
    _feature("tx-frames", sources=("ethtool-c",)),
    _feature("adaptive-rx", sources=("ethtool-c",), show=numbers.switch),
    _counter("client-rx-packets", "rx_packets"),
    _counter("client-rx-bytes", "rx_bytes"),
    _packet_bytes("client-rx-packet-len", "rx"),
    _counter("client-tx-packets", "tx_packets"),
    _counter("client-tx-bytes", "tx_bytes"),
    _packet_bytes("client-tx-packet-len", "tx"),
    _measured("retransPkts%", overall=overall.retransmitted_packets_percent, sources=_PACKETS,
              better="less", show=numbers.hundredths),
    _measured("retransPktsReason", lambda g: g.packets_fault, sources=_PACKETS, holds="text"),
    _socket("retransSegs%", overall=overall.retransmitted_segments_percent, better="less",
            show=numbers.figure),
    # ---- captures at the hosts that send
    _captured("pktRetrans", lambda g: numbers.total(
        flow.segments_again for flow in g.captured), better="less"),
    _captured("pktTimeouts", lambda g: numbers.total(
        (flow.by_kind or {}).get("timeout") for flow in g.captured), better="less"),
    _captured("pktSpurious", lambda g: numbers.total(
        (flow.by_kind or {}).get("spurious") for flow in g.captured), better="less"),
    _captured("pktRtt", lambda g: numbers.mean(
        flow.rtt.mean_ms * 1000 if flow.rtt else None for flow in g.captured), 3, better="less",
        show=numbers.milliseconds),
    _captured("synSkew", lambda g: g.first_packet_skew_ms(lambda flow: flow.syn_s), 3,
              show=numbers.figure),
    _captured("dataSkew", lambda g: g.first_packet_skew_ms(lambda flow: flow.start_s), 3,
              show=numbers.figure),
    # ---- from OTHER and SWEEP
    Column("testType", holds="name"),
    Column("testNote", holds="name"),
    Column("netem"),
    Column("qdisc"),
    Column("bw"),
    Column("buffers"),
    Column(REPETITION),
)  # fmt: skip

COLUMNS: Mapping[str, Column] = {canonical(each.name): each for each in _TABLE}
"""By their canonical names."""
