"""What is measured of flows, paths and hosts: samples and results, as frozen values.

Times are those of `model`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath, PurePosixPath

from netesto.model import Address


@dataclass(frozen=True, slots=True)
class LinkFile:
    """A file of one direction of a link, which the program that carries the link writes. It is with
    the raw data of the sending end, and has the name of the receiving one."""

    kind: str
    suffix: str

    def name(self, receiver: str) -> str:
        """The name of the file."""
        return f"{self.kind}.{receiver}.{self.suffix}"

    def receiver(self, path: PurePath) -> str:
        """The receiving end that the name of a file has; "" if it is another file."""
        begin, end = f"{self.kind}.", f".{self.suffix}"
        is_one = path.name.startswith(begin) and path.name.endswith(end)
        return path.name[len(begin) : -len(end)] if is_one else ""

    def is_raw(self, path: str) -> bool:
        """Whether a path in the folder of an experiment is such a file of a node."""
        parts = PurePosixPath(path).parts
        return len(parts) == 3 and parts[0] == "raw" and bool(self.receiver(PurePath(parts[2])))


LINK_STATES = LinkFile("link", "jsonl")
LINK_LOSSES = LinkFile("losses", "csv")

# An agent records such files also of other nodes of its lab: for each of these, in a folder of its
# name in this one.
OF_NODES = "nodes"


@lru_cache(maxsize=4096)
def address_of(raw: bytes, *, is_ipv4: bool) -> Address:
    """The address in the kernel's 16 bytes; IPv4 over an IPv6 socket (`::ffff:10.0.0.1`) is an
    address of IPv4."""
    if is_ipv4:
        return IPv4Address(raw[:4])
    found = IPv6Address(raw)
    return found if found.ipv4_mapped is None else found.ipv4_mapped


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketSample:
    """The state of one TCP socket at one instant. Field meanings: tcp_info of linux/tcp.h.

    None: the kernel did not report it. `state` is TCP's, in the words of ss; CLOSE: the socket is
    gone, and this is the last that the kernel reported. IPv4 in an IPv6 socket is a `peer` of IPv4.
    """

    time_s: float
    local_port: int
    peer_port: int
    peer: Address | None = None
    cookie: int | None = None  # the kernel's number of the socket: ports are used again
    state: str = "ESTAB"
    congestion_control: str = ""
    cwnd: int | None = None
    mss_bytes: int | None = None
    rtt_ms: float | None = None
    min_rtt_ms: float | None = None
    unacked: int | None = None
    lost: int | None = None
    retransmits: int | None = None  # in flight now
    total_retransmits: int | None = None
    segments_out: int | None = None
    data_segments_out: int | None = None
    bytes_sent: int | None = None
    bytes_acked: int | None = None
    bytes_received: int | None = None
    unread_bytes: int | None = None  # received, and not yet read by the application
    # The kernel's limits, twice what setsockopt() gets: socket(7).
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    # Since the start, the time with data to send (Linux 4.10), and what of it the sender waited for
    # the receiver's window, and for the application because the send buffer was full.
    busy_us: int | None = None
    window_limited_us: int | None = None
    buffer_limited_us: int | None = None


@dataclass(frozen=True, slots=True)
class GoodputInterval:
    """Goodput of a flow between two instants."""

    start_s: float
    end_s: float
    rate_bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagramInterval:
    """What became of the datagrams that were sent between two instants; None is unknown.

    `transits_s`: shortest, mean and longest time from the begin of the flow, less the time at which
    it was sent in it, to the arrival on the server's monotonic clock. `delays_ms` are the one-way
    delays that these are on one clock, if clocks allow it.
    """

    start_s: float
    end_s: float
    sent: int
    lost: int
    jitter_ms: float | None = None
    reordered: int | None = None
    duplicates: int | None = None
    transits_s: tuple[float, float, float] | None = None
    delays_ms: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Datagrams:
    """What became of the datagrams of a UDP_STREAM; None is unknown. docs/measurements.md defines
    each.

    `received`: arrived, as the receiver counted. `numbered`: the highest number that it saw.
    `skipped`: the sender was too late for them. `dropped`: of those lost, the ones that found the
    receiver's socket full. `marked`: arrived with the mark CE of RFC 3168. `delay_bound_ms`: the
    error of the clocks in one-way delays. `counts_late`: the rate is all that arrived, also after
    the sender's end, divided by the sender's time.
    """

    sent: int | None
    lost: int | None
    sent_bps: float | None
    received: int | None = None
    numbered: int | None = None
    jitter_ms: float | None = None
    reordered: int | None = None
    duplicates: int | None = None
    skipped: int | None = None
    dropped: int | None = None
    marked: int | None = None
    delay_bound_ms: float | None = None
    intervals: tuple[DatagramInterval, ...] = ()
    counts_late: bool = False

    @property
    def delays_ms(self) -> tuple[float, float, float] | None:
        """Shortest, mean and longest one-way delay."""
        found = [
            (each.delays_ms, max(1, each.sent - each.lost))
            for each in self.intervals
            if each.delays_ms is not None
        ]
        if not found:
            return None
        total = sum(delays[1] * arrived for delays, arrived in found)
        mean = total / sum(arrived for _, arrived in found)
        least, most = min(delays[0] for delays, _ in found), max(delays[2] for delays, _ in found)
        # The sum of equal delays is rounded.
        return least, min(max(mean, least), most), most


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """What a traffic tool reports of a flow that ended well. Latencies are in microseconds.

    `rate_bps` of a stream is goodput; of a request/reply test it is the goodput of requests, which
    is transactions per second times the bits of a request, as in the classic tool. None: the output
    does not say. `sent_bps` is what a stream's sender passed to its socket, if the tool reports it.
    `transactions_per_s` is None for streams. `client_ports` are the client's ends of the data
    connections, if the tool reports them.

    `reverse_rate_bps` is goodput from the server to the client, of a test in both directions.
    `latencies` is the number of transactions or transfers that were timed, `unfinished` that of the
    transfers that were not completed, `unanswered` that of the datagrams without a reply.

    `has_exact_begin`: the measured time begins when the first of `intervals` or, without them, the
    flow begins. `counts_omitted`: the retransmissions are those since the connection began, also of
    the omitted time. `doubts` are contradictions in what the tool reports, in words:
    `results.consistency` finds them.
    """

    rate_bps: float | None
    elapsed_s: float
    sent_bps: float | None = None
    intervals: tuple[GoodputInterval, ...] = ()
    transactions_per_s: float | None = None
    local_cpu_percent: float | None = None
    remote_cpu_percent: float | None = None
    local_retransmits: int | None = None
    remote_retransmits: int | None = None
    local_data_segments: int | None = None
    remote_data_segments: int | None = None
    min_latency_us: float | None = None
    max_latency_us: float | None = None
    mean_latency_us: float | None = None
    p50_latency_us: float | None = None
    p90_latency_us: float | None = None
    p99_latency_us: float | None = None
    p999_latency_us: float | None = None
    p9999_latency_us: float | None = None
    p99999_latency_us: float | None = None
    latencies: int | None = None
    unfinished: int | None = None
    unanswered: int | None = None
    reverse_rate_bps: float | None = None
    local_congestion_control: str = ""
    remote_congestion_control: str = ""
    mss_bytes: int | None = None
    client_ports: tuple[int, ...] = ()
    datagrams: Datagrams | None = None
    has_exact_begin: bool = False
    counts_omitted: bool = False
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PingSample:
    """One echo: the arrival of the reply, the round-trip time, and the number of the request, from
    1 (0: unknown)."""

    time_s: float
    rtt_ms: float
    number: int = 0


@dataclass(frozen=True, slots=True)
class CpuSample:
    """Busy share of every core since the previous sample, in percent.

    `states`: the share of each core in each of CPU_STATES; empty where only the sum is known.
    `cores`: the numbers of these cores; empty: 0, 1, 2 …
    """

    time_s: float
    busy_percent: tuple[float, ...]
    states: tuple[tuple[float, ...], ...] = ()
    cores: tuple[int, ...] = ()

    @property
    def by_core(self) -> dict[int, float]:
        """The busy share of each core by its number."""
        numbers = self.cores or range(len(self.busy_percent))
        return dict(zip(numbers, self.busy_percent, strict=True))


# The fields of mpstat(1), in its order. Guest time is not part of usr and nice here.
CPU_STATES = (
    "usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CounterSamples:
    """Samples of counters: a column for each, as long as `time_s`; None is unknown."""

    time_s: tuple[float, ...]
    counts: Mapping[str, tuple[int | None, ...]]

    def at(self, place: int, name: str) -> int | None:
        """A count of one sample. A host says which counters its file has: others are unknown."""
        return self.counts[name][place] if name in self.counts else None


# The names of counters are those of files and graphs, and none is that of other ones.
_NAME = re.compile(r"[a-z][a-z0-9_]*")
TAKEN = frozenset(
    {
        "capture", "completions", "cpu", "events", "flow", "group", "links", "ping", "server",
        "sockets", "times",
        "rate", "acked_rate", "cwnd", "unacked", "rtt", "minrtt", "retrans", "loss", "jitter",
        "oneway", "backlog", "drops", "cores",
        "linklost", "linkcopies", "linkbuffers", "linkpauses",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterKind:
    """What is counted over time: all that its series, graph and manual need.

    `units` are those of the counters in series.json. Totals only grow, and are shown as increase
    per second; `are_levels`: values of the instant. `title` is that of the graph, and `drawn` one
    or two counters in it, of which the second is dashed. `sentence` explains it. ValueError if the
    name is invalid.
    """

    name: str
    title: str
    sentence: str
    units: Mapping[str, str]
    drawn: tuple[str, ...]
    are_levels: bool = False

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ValueError(f"counters cannot have the name {self.name!r}")
        if not 1 <= len(self.drawn) <= 2 or not {*self.drawn} <= self.units.keys():
            raise ValueError(f"drawn: {self.drawn} are not one or two of {[*self.units]}")

    def unit(self, name: str) -> str:
        """The unit in which a counter is shown."""
        return self.units[name] if self.are_levels else f"{self.units[name]}/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters(CounterKind):
    """What a host counts, read once a second while flows run.

    `read` gives the values of this host (in a lab: of its network namespace) now, as whole numbers
    by name. It is called between the samples of sockets, so it must not take more than some ten
    microseconds; OSError if there are none. What is read beside `units` is in the file alone.
    ValueError if the name is taken.
    """

    read: Callable[[], Mapping[str, int]]

    def __post_init__(self) -> None:
        CounterKind.__post_init__(self)
        if self.name in TAKEN:
            raise ValueError(f"counters cannot have the name {self.name!r}")


@dataclass(frozen=True, slots=True)
class InstalledQdisc:
    """A qdisc of an interface. `parent` and `handle` as tc writes them (`root`, `1:`, `1:1`);
    `rate_bps` is that of a shaper, None if it has none. `is_lossless`: a delay line that drops
    packets only if it is full."""

    device: str
    kind: str
    handle: str
    parent: str
    rate_bps: float | None
    is_lossless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSamples:
    """What interfaces and their queues counted, since they exist. `devices`: the interface by which
    each group's packets left the host."""

    qdiscs: Mapping[InstalledQdisc, CounterSamples] = field(default_factory=dict)
    interfaces: Mapping[str, CounterSamples] = field(default_factory=dict)
    devices: Mapping[int, str] = field(default_factory=dict)
