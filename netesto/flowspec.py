"""A flow's options, each described where it is defined, and the rules that no tool can break."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from netesto.schema import registered
from netesto.schema.described import described, descriptions, differing
from netesto.schema.kinds import Argument, Kind
from netesto.schema.registered import Names

STREAM_TESTS = frozenset({"TCP_STREAM", "TCP_MAERTS", "TCP_BIDI", "UDP_STREAM"})
# KV_RR: requests to a key-value store, over TCP.
REQUEST_TESTS = frozenset({"TCP_RR", "TCP_CRR", "UDP_RR", "KV_RR"})
# Transfers of a given size, each of them timed: with a connection each, all on one connection, or
# all in packets of UDP, as RDMA adapters send them.
COMPLETION_TESTS = frozenset({"TCP_FLOWS", "TCP_MESSAGES", "GBN_MESSAGES"})
# These measure the time of each request or transfer.
TIMED_TESTS = REQUEST_TESTS | COMPLETION_TESTS

# Without a duration in the script, consecutive transfers last until all are done, but at most this
# long: after that, something is wrong with the path.
UNTIL_DONE_S = 3600.0

# Of flows that start one after the other the largest gap, as a multiple of the mean; the smallest
# is as much below it. Equal gaps would keep step with the ticks of the kernel's clock.
STAGGER_MOST = 1.5

# What a host does in a trace: its flows, or its requests. Each such group is one process.
TRACE_TESTS = frozenset({"TRACE_TCP", "TRACE_UDP", "TRACE_KV"})
# A stress test of a link by its engine, in virtual time: STRESS_LINK, not DO_CLIENT.
LINK_TESTS = frozenset({"LINK_STRESS"})
# What a frame of it takes of a processor: bench/lab measures it.
STRESSED_FRAME_S = 5e-7

TESTS = STREAM_TESTS | TIMED_TESTS | TRACE_TESTS
UDP_TESTS = frozenset({"UDP_STREAM", "UDP_RR", "TRACE_UDP", "GBN_MESSAGES"})
# The default of KV_RR.
VALUE_BYTES = 100
# Each transfer has its own connection, and samples catch only some of them.
MANY_CONNECTIONS = frozenset({"TCP_CRR", "TCP_FLOWS"})
# Requests and replies of given sizes.
_EXCHANGES = REQUEST_TESTS - {"KV_RR"}
_TCP = TESTS - UDP_TESTS
_TCP_STREAMS = STREAM_TESTS - UDP_TESTS

# The traffic tools, in the order in which `tool=auto` prefers them.
TRAFFIC_TOOLS = Names(registered.TOOLS, "netperf", "iperf3", "native")

# The congestion control that every kernel has and every user may use; and the one that receivers of
# data use.
ALWAYS_THERE, RECEIVERS = "reno", "cubic"

# A week: longer than any experiment, but it reveals milliseconds given as seconds.
MAX_SECONDS = 604_800.0
# The ports that a server has for flows (traffic.ports.DATA_PORTS).
MAX_INSTANCES = 1000
# Linux refuses values below 88 (TCP_MIN_MSS); 65495 fills an IP packet.
MIN_MSS, MAX_MSS = 88, 65_495
# setsockopt(2) takes an int.
LARGEST_BUFFER = 2**31 - 1
# The payload of the largest packet of IP and UDP.
LARGEST_DATAGRAM = 65_507
# Of packets of GBN_MESSAGES: their header, the usual bytes of a message in each, and how many may
# be unacknowledged.
GBN_HEADER, GBN_LENGTH, GBN_WINDOW = 16, 1024, 128
# The limit of memcached, with room for its overhead.
LARGEST_VALUE = 1_000_000

# Of options that have a field for each end.
_CPU = (
    "the processors on which the traffic tool runs: those of the client (`2`), or `client,server`"
    " (`0,1`). Each may be a set: `8-15`, `2+4`, `0-3+8`. A run does not start if a host has no"
    " such processor"
)
_CORES = (
    "processors whose load is recorded in the columns localCores and remoteCores: one set for both"
    " ends (`8-15`) or `client,server`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Argument):
    """An option of a flow: an argument of DO_CLIENT and the description of a field of FlowSpec.

    It has a meaning for `tests`. For others it is refused, except for `ignored`: to these, classic
    scripts give it, and it changes nothing. `by`: who honours it; the tool that makes the flow must
    declare it (`traffic.base.Tool.honours`). With `asks_nothing` it needs the same of every host
    and tool, whatever its value. `shown` is its clause on pages, with {} for its value and {each}
    for " each" of several flows; "" if pages say it elsewhere, or not at all.
    """

    tests: frozenset[str] = TESTS
    ignored: frozenset[str] = frozenset()
    by: Literal["tool", "netesto"] = "tool"
    asks_nothing: bool = False
    shown: str | None = None

    def clause(self, value: object, each: str = "") -> str:
        """The clause of a page about a value; "" without one."""
        pattern = f"{self.name} {{}}" if self.shown is None else self.shown
        words = pattern.format(self.kind.show(value), each=each)
        return f"no {words}" if words and value is False else words


def _of(value: Any, /, name: str, kind: Kind, sentence: str, **more: Any) -> Any:
    """A field whose default is `value`; `default` is its text in scripts, where they show it."""
    return described(value, Option(name, kind, sentence, **more))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpec:
    """The options of a flow: the one list of them, from the script to the tool that makes the flow.

    DO_CLIENT, its manual, its errors and its words on pages derive from the descriptions of the
    fields. Agents, plans, the hashes of cells and manifest.json have the fields that differ from
    their defaults, by name: an option that is added changes none of these for flows without it, and
    the default of an option never changes.

    `tool` may be "auto". 0 for a buffer is the kernel's own default, None for anything else the
    tool's; no processors are all of them. `reverse_congestion_control` is that of the receiver of
    the data, or of the server if both ends send. `bitrate_bps` is kept by the tool, `pacing_bps` by
    the kernel. `count` 0: as many transfers as begin within the duration; `gap_s` 0: the next
    begins when the one before is complete. Processors of `client_cpus` and `server_cpus` run the
    tool, those of `client_cores` and `server_cores` are watched. `idle_s` is how long pings show
    the path without the flows, before and after them. Flows that a host starts at one instant start
    `stagger_s` apart on average (`staggered_s`), None: as is usual for the tool.
    """

    congestion_control: str = _of(
        ALWAYS_THERE,
        "ca",
        Kind.WORD,
        "congestion control of the sender; in a script with LAB the default is cubic. The server"
        " uses the same for dctcp and nv, otherwise cubic",
        default="reno",
        tests=_TCP,
        ignored=UDP_TESTS,
        shown="",
    )
    reverse_congestion_control: str = _of(
        RECEIVERS,
        "remoteCa",
        Kind.WORD,
        "congestion control of the receiver; of TCP_BIDI, that with which the server sends (without"
        " it: `ca`)",
        tests=_TCP,
        shown="",
    )
    duration_s: float = _of(
        20.0,
        "dur",
        Kind.TIME,
        "duration of the flows",
        default="20",
        low=0.001,
        high=MAX_SECONDS,
        asks_nothing=True,
        shown="",
    )
    delay_s: float = _of(
        0.0,
        "delay",
        Kind.TIME,
        "time until the flows start, from this command or from START_FLOWS",
        default="0",
        low=0,
        high=MAX_SECONDS,
        by="netesto",
        asks_nothing=True,
        shown="",
    )
    instances: int = _of(
        1,
        "instances",
        Kind.INTEGER,
        "number of flows, each with a connection of its own",
        default="1",
        low=1,
        high=MAX_INSTANCES,
        by="netesto",
        shown="",
    )
    request_bytes: int = _of(
        1_000_000,
        "req",
        Kind.REQUEST,
        "size of a request; `S` makes the flow a stream",
        default="1M",
        low=1,
        high=2**40,
        tests=_EXCHANGES,
        ignored=STREAM_TESTS | COMPLETION_TESTS,
        shown="",
    )
    reply_bytes: int = _of(
        1,
        "reply",
        Kind.SIZE,
        "size of a reply",
        default="1",
        low=1,
        high=2**40,
        tests=_EXCHANGES,
        ignored=STREAM_TESTS | COMPLETION_TESTS,
        shown="",
    )
    test: str = _of(
        "TCP_RR",
        "test",
        Kind.WORD,
        "type of traffic, see the next table. In a script with LAB it has no default: it must be"
        " named, unless `req=S` makes the flow a stream",
        default="TCP_RR",
        choices=tuple(sorted(TESTS | LINK_TESTS)),
        by="netesto",
        shown="",
    )
    stats: bool = _of(
        False,
        "stats",
        Kind.FLAG,
        "1: also take the statistics of the host before and after",
        default="0",
        by="netesto",
        asks_nothing=True,
        shown="",
    )
    local_buffer_bytes: int = _of(
        0,
        "localBuffer",
        Kind.SIZE,
        "socket buffer of the client, a size; 0: the kernel chooses. If `net.core.wmem_max` or"
        " `rmem_max` makes it smaller, a warning says so",
        default="0",
        low=0,
        high=LARGEST_BUFFER,
        shown="a socket buffer of {} bytes at the client",
    )
    remote_buffer_bytes: int = _of(
        0,
        "remoteBuffer",
        Kind.SIZE,
        "socket buffer of the server",
        default="0",
        low=0,
        high=LARGEST_BUFFER,
        shown="a socket buffer of {} bytes at the server",
    )
    tool: str = _of(
        "auto",
        "tool",
        Kind.WORD,
        "`netperf`, `iperf3`, `native`, or one that [another Python package]"
        "(extending.md#a-traffic-tool) adds; auto: the first that supports the arguments",
        default="auto",
        choices=Names(registered.TOOLS, "auto", "netperf", "iperf3", "native"),
        by="netesto",
        shown="",
    )
    interval_s: float = _of(
        0.2,
        "interval",
        Kind.TIME,
        "time between two samples, 0.01 to 60 s",
        default="0.2",
        # Faster sampling would mostly measure itself.
        low=0.01,
        high=60,
        asks_nothing=True,
        shown="",
    )
    parallel: int = _of(
        1,
        "parallel",
        Kind.INTEGER,
        "streams of one flow",
        default="1",
        low=1,
        high=128,
        tests=STREAM_TESTS,
        shown="{} connections in each flow",
    )
    omit_s: float = _of(
        0.0,
        "omit",
        Kind.TIME,
        "time at the start, before `dur`, that is excluded from the results: the flow lasts `omit`"
        " and then `dur`",
        default="0",
        low=0,
        high=MAX_SECONDS,
        tests=STREAM_TESTS | REQUEST_TESTS,
        shown="without the first {}",
    )
    zerocopy: str = _of(
        "0",
        "zerocopy",
        Kind.WORD,
        "`sendfile` or `msg`: send without copying",
        default="0",
        choices=("0", "sendfile", "msg"),
        tests=_TCP_STREAMS,
        shown="zero copy by {}",
    )
    bitrate_bps: float | None = _of(
        None,
        "bitrate",
        Kind.RATE,
        "maximum rate of each flow, shared by its `parallel` streams, at least 1 kbit/s; also"
        " called `pace`",
        # A smaller one lacks its unit: one segment in ten seconds.
        low=1000,
        alias="pace",
        tests=STREAM_TESTS | {"TRACE_TCP", "TRACE_UDP"},
        shown="at most {}{each}",
    )
    pacing_bps: float | None = _of(
        None,
        "pacing",
        Kind.RATE,
        "maximum rate at which the kernel sends on each connection, at least 1 kbit/s",
        low=1000,
        tests=TESTS - {"UDP_RR", "GBN_MESSAGES"},
        shown="paced by the kernel at {} a connection",
    )
    requests_per_s: int | None = _of(
        None,
        "rate",
        Kind.INTEGER,
        "requests per second, at fixed instants, from which latencies count",
        low=1,
        high=100_000_000,
        tests=REQUEST_TESTS,
        shown="{:,} requests/s{each}",
    )
    get_percent: float = _of(
        90.0,
        "get",
        Kind.PERCENT,
        "percentage of gets among the requests of `KV_RR` (90); the others are sets",
        low=0,
        high=100,
        tests=frozenset({"KV_RR"}),
        shown="",
    )
    size_bytes: int | None = _of(
        None,
        "size",
        Kind.SIZE,
        "bytes of each transfer of `TCP_FLOWS`, `TCP_MESSAGES` and `GBN_MESSAGES`, and of each"
        " value of `KV_RR` (100)",
        low=1,
        high=2**30,
        tests=COMPLETION_TESTS | LINK_TESTS | {"KV_RR"},
        shown="",
    )
    count: int = _of(
        0,
        "count",
        Kind.INTEGER,
        "number of transfers, all of which must begin within `dur`; without it, as many as fit. A"
        " `gap` with which the last would begin later is an error. With `count` and without `gap`"
        " and `dur` the flow lasts until all are done, at most an hour",
        low=1,
        high=100_000_000,
        tests=COMPLETION_TESTS | LINK_TESTS,
        shown="",
    )
    gap_s: float = _of(
        0.0,
        "gap",
        Kind.TIME,
        "time from the start of one transfer to that of the next; without it, the next starts when"
        " the previous one is complete",
        low=0,
        high=MAX_SECONDS,
        tests=COMPLETION_TESTS | LINK_TESTS,
        shown="",
    )
    arrivals: str = _of(
        "constant",
        "arrivals",
        Kind.WORD,
        "`constant`, or `poisson`: `gap` is the mean of exponential gaps, drawn by the seed of the"
        " run and the name of the cell, also from the start to the first transfer",
        choices=("constant", "poisson"),
        tests=COMPLETION_TESTS,
        shown="",
    )
    skip_receive: bool = _of(
        False,
        "skiprx",
        Kind.FLAG,
        "1: the receiver discards data without copying it",
        tests=STREAM_TESTS,
        shown="received data is discarded without copying it",
    )
    length_bytes: int | None = _of(
        None,
        "len",
        Kind.SIZE,
        "size of one write, or of a UDP packet; of GBN_MESSAGES the most bytes of a message in one"
        " packet (1024), behind a header of 16 bytes",
        low=1,
        high=2**30,
        tests=STREAM_TESTS | {"GBN_MESSAGES"},
        shown="{} bytes in each write",
    )
    mss_bytes: int | None = _of(
        None,
        "mss",
        Kind.INTEGER,
        f"largest segment, {MIN_MSS} to {MAX_MSS} bytes",
        low=MIN_MSS,
        high=MAX_MSS,
        tests=_TCP,
        shown="segments of at most {} bytes",
    )
    dscp: int | None = _of(
        None,
        "dscp",
        Kind.INTEGER,
        "code point of the packets, 0 to 63",
        low=0,
        high=63,
        shown="DSCP {}",
    )
    ecn: bool | None = _of(
        None,
        "ecn",
        Kind.FLAG,
        "1: datagrams are sent as ECT(0), and the receiver counts those that were marked. No tool"
        " sets it for one flow of TCP: use `SET_SYSCTL … net.ipv4.tcp_ecn=1` to set it for a host",
        tests=UDP_TESTS - {"GBN_MESSAGES"},
        shown="ECN",
    )
    client_cpus: tuple[int, ...] = _of((), "cpu", Kind.PROCESSORS, _CPU, shown="client on CPU {}")
    server_cpus: tuple[int, ...] = _of((), "cpu", Kind.PROCESSORS, _CPU, shown="server on CPU {}")
    client_cores: tuple[int, ...] = _of(
        (), "cores", Kind.CORES, _CORES, by="netesto", shown="CPU {} of the client watched"
    )
    server_cores: tuple[int, ...] = _of(
        (), "cores", Kind.CORES, _CORES, by="netesto", shown="CPU {} of the server watched"
    )
    idle_s: float = _of(
        0.0,
        "idle",
        Kind.TIME,
        "time before and after the flows in which only pings run: [latency under load]"
        "(measurements.md#latency-under-load). It also delays the other flows that START_FLOWS"
        " starts together with these",
        low=0,
        high=MAX_SECONDS,
        by="netesto",
        asks_nothing=True,
        shown="pings {} before and after",
    )
    stagger_s: float | None = _of(
        None,
        "stagger",
        Kind.TIME,
        "mean time between flows that the client starts at one instant, each half of it more or"
        " less by the seed; 0: all at once. Without it 1 ms in simulated time for the programs of"
        " netperf and iperf3, else 0: [flows that start together]"
        "(labs.md#flows-that-start-together)",
        low=0,
        high=60,
        by="netesto",
        asks_nothing=True,
        shown="",
    )
    window_packets: int = _of(
        GBN_WINDOW,
        "window",
        Kind.INTEGER,
        "most packets of `GBN_MESSAGES` that may be unacknowledged (128)",
        low=1,
        high=65_536,
        tests=frozenset({"GBN_MESSAGES"}),
        shown="at most {} packets unacknowledged",
    )
    timeout_s: float = _of(
        0.001,
        "rto",
        Kind.TIME,
        "time without progress after which `GBN_MESSAGES` goes back to its oldest unacknowledged"
        " packet (1 ms)",
        low=0.00001,
        high=60,
        tests=frozenset({"GBN_MESSAGES"}),
        shown="a timeout of {}",
    )

    trace: str = _of(
        "",
        "trace",
        Kind.TEXT,
        "what the host does in a trace (traces.played): DO_TRACE sets it",
        tests=TRACE_TESTS,
        by="netesto",
        asks_nothing=True,
        shown="",
    )

    @property
    def lasts_until_done(self) -> bool:
        """Whether it ends with the last of its transfers; nobody knows when that is."""
        return (
            self.test in COMPLETION_TESTS
            and self.count > 0
            and not self.gap_s
            and self.duration_s == UNTIL_DONE_S
        )

    @property
    def whole_s(self) -> float:
        """From its start to its end: what is omitted precedes the duration. A stress test of a link
        lasts as long as it computes."""
        if self.test in LINK_TESTS:
            return max(1.0, self.count * STRESSED_FRAME_S)
        return self.omit_s + self.duration_s

    @property
    def spread_s(self) -> float:
        """The longest time from the start of its first instance to that of its last one."""
        return STAGGER_MOST * (self.stagger_s or 0.0) * (self.instances - 1)

    @property
    def is_reverse(self) -> bool:
        """Whether the server sends the data."""
        return self.test == "TCP_MAERTS"

    @property
    def congestion_controls(self) -> tuple[str, str]:
        """The client's and the server's. The one under test is that of the sender of the data."""
        sender, receiver = self.congestion_control, self.reverse_congestion_control
        return (receiver, sender) if self.is_reverse else (sender, receiver)


# The options of flows by the names of their fields, and the fields of each argument of DO_CLIENT.
OPTIONS: Mapping[str, Option] = descriptions(FlowSpec, Option)
FIELDS: Mapping[str, tuple[str, ...]] = {
    argument: tuple(name for name, option in OPTIONS.items() if option.name == argument)
    for argument in dict.fromkeys(option.name for option in OPTIONS.values())
}


def fault(flow: FlowSpec) -> str:
    """Which field of a flow has a value that it cannot have, and why; "" if none has."""
    for name, value in differing(flow).items():
        option = OPTIONS[name]
        if why := option.fault(value):
            return f"{name}={value} {why}: {option.span or ', '.join(option.choices)}"
    return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What no tool can do: `broken` says it of a flow, "" if the flow has nothing of it.
    `arguments` of DO_CLIENT, separated by spaces, are to blame; `remedy` is what to write."""

    arguments: str
    broken: Callable[[FlowSpec], str]
    remedy: str

    @property
    def near(self) -> tuple[str, ...]:
        """The words of a script that are to blame."""
        return tuple(f"{name}=" for name in self.arguments.split())


def _too_large(datagram: str, *sizes: int | None) -> str:
    is_larger = max(size or 0 for size in sizes) > LARGEST_DATAGRAM
    return f"no tool can do {datagram} with datagrams above {LARGEST_DATAGRAM} bytes" * is_larger


# Of these the language says it where the argument is missing.
INCOMPLETE = (
    Rule(
        "test",
        lambda f: (
            f"test={f.test} without size="
            if f.test in COMPLETION_TESTS and f.size_bytes is None
            else ""
        ),
        "Add the bytes of each transfer, for example size=10K.",
    ),
    Rule(
        "arrivals",
        lambda f: (
            "arrivals=poisson without gap="
            if f.test in COMPLETION_TESTS and f.arrivals == "poisson" and not f.gap_s
            else ""
        ),
        "Add the mean gap, for example gap=100ms.",
    ),
)
RULES = (
    *INCOMPLETE,
    Rule(
        "req reply",
        lambda f: _too_large(f.test, f.request_bytes, f.reply_bytes) if f.test == "UDP_RR" else "",
        "Write: req=64 reply=64 (without req a request has 1 MB)",
    ),
    Rule(
        "len",
        lambda f: _too_large(f.test, f.length_bytes) if f.test == "UDP_STREAM" else "",
        "Write: len=1400",
    ),
    Rule(
        "len",
        lambda f: (
            _too_large(f.test, f.length_bytes and f.length_bytes + GBN_HEADER)
            if f.test == "GBN_MESSAGES"
            else ""
        ),
        f"Write: len={GBN_LENGTH}",
    ),
    Rule(
        "req reply",
        lambda f: (
            f"no tool can do {f.test} with req or reply"
            if f.test == "KV_RR" and {"request_bytes", "reply_bytes"} & differing(f).keys()
            else ""
        ),
        "size= is the size of its values.",
    ),
    Rule(
        "size",
        lambda f: (
            f"no tool can do {f.test} with values above {LARGEST_VALUE} bytes"
            if f.test == "KV_RR" and (f.size_bytes or 0) > LARGEST_VALUE
            else ""
        ),
        f"Write: size={LARGEST_VALUE}",
    ),
)
