"""Frozen values that the layers share: requests to hosts, and their reports.

Times: `*_s` are seconds. A `time_s` is a UTC instant, in seconds since 1970, on the clock of the
host that made the value (which has no steps: it reads UTC once and then counts by the monotonic
clock).
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from netesto.schema import registered
from netesto.schema.described import described, descriptions, differing
from netesto.schema.kinds import Argument, Kind
from netesto.schema.registered import Names

Address: TypeAlias = IPv4Address | IPv6Address

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

# The year 5138: no clock is so far ahead, and computations with such instants are exact.
LATEST_S = 1e11

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

# No results folder has a billion experiments.
LARGEST_EXPERIMENT = 999_999_999

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

# The qdiscs that a kernel may have, without those that depend on the interface because they need
# several queues (mq, mqprio, taprio, multiq).
QDISCS = frozenset(
    {
        "bfifo", "cake", "cbs", "choke", "clsact", "codel", "drr", "dualpi2", "etf", "ets", "fq",
        "fq_codel", "fq_pie", "gred", "hfsc", "hhf", "htb", "ingress", "netem", "noqueue", "pfifo",
        "pfifo_fast", "pie", "plug", "prio", "qfq", "red", "sfb", "sfq", "skbprio", "tbf",
    }
)  # fmt: skip

# The iterations of all loops of a script, unless --max-iterations allows more.
MAX_ITERATIONS = 1_000_000

# Of a guest with a lab of up to sixteen hosts, which take about 650 MB with agents and tools.
GUEST_MEMORY_MB = 1024

# The congestion controls of Linux, and the usual ones that are built for it.
CONGESTION_CONTROLS = frozenset(
    {
        "bbr", "bbr1", "bbr2", "bbr3", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla",
        "illinois", "lp", "nv", "prague", "reno", "scalable", "vegas", "veno", "westwood", "yeah",
    }
)  # fmt: skip


# ---- requests to hosts -----------------------------------------------------------------------

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest(FlowSpec):
    """One DO_CLIENT as agents get it: what it says of its flows, and what the controller adds.

    `client` and `server` are short host names; `tool` is the name of one. By `seed` flows draw
    when transfers begin, and which requests read. `is_held`: it waits for START_FLOWS.
    """

    exp: int
    group: int
    exp_name: str
    client: str
    server: str
    client_address: Address
    server_address: Address
    seed: int = 0
    is_held: bool = False

    @property
    def staggered_s(self) -> tuple[float, ...]:
        """When each instance starts, counted from the first; and, last, when the next program of
        the host may start. Each takes `stagger_s`, and up to half of it more or less, by the
        seed."""
        draw = random.Random(self.seed)
        mean_s = self.stagger_s or 0.0
        gaps = (
            mean_s * draw.uniform(2 - STAGGER_MOST, STAGGER_MOST) for _ in range(self.instances)
        )
        return tuple(accumulate(gaps, initial=0.0))

    @property
    def control(self) -> str:
        """What names the flows in displays: their congestion control; datagrams have none."""
        if self.test in LINK_TESTS:
            return "link"
        return "UDP" if self.test in UDP_TESTS else self.congestion_control


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The server's ports for a group, one of each for every instance.

    `control`: the port on which the tool's server listens. `data`: the server's end of the data
    connection (the same as `control` if the tool uses one port for both).
    """

    control: tuple[int, ...]
    data: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """One DO_TCPDUMP: at most `packets` packets to or from `peer` (None: all packets), `snap_bytes`
    of each (0: whole packets). It begins with the experiment's first flow on the host."""

    exp: int
    host: str
    peer: Address | None
    packets: int
    snap_bytes: int = 0


# ---- what hosts report -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """What a host is and can do.

    `tools`: name -> version of the tools found; `unusable_tools`: those that are installed and do
    not tell their version -> why; `tool_options`: what only some versions of a tool can do and
    these can, as `iperf3 skiprx`. `commands` are those that scripts may run. `device` is
    its test interface. `processors` are the numbers of those that its agent may use, as many as
    `cpus`; empty: unknown. `holder` names the controller that holds it; "" without one. `identity`
    is the agent's own, from one start to the next; "": unknown. `allowed_congestion_controls` are
    those that its agent may use, if it may not use all.
    """

    host: str
    version: str
    kernel: str
    cpus: int
    memory_bytes: int
    device: str
    addresses: tuple[str, ...]
    tools: Mapping[str, str]
    congestion_controls: tuple[str, ...]
    qdiscs: tuple[str, ...]
    holder: str = ""
    processors: tuple[int, ...] = ()
    identity: str = ""
    allowed_congestion_controls: tuple[str, ...] = ()
    tool_options: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    unusable_tools: Mapping[str, str] = field(default_factory=dict)

    @property
    def usable_congestion_controls(self) -> tuple[str, ...]:
        return self.allowed_congestion_controls or self.congestion_controls


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceState:
    """An interface as it is now. `offloads`: those of tso, gso, gro and lro that are on. `refusal`:
    why the agent sets no qdisc of it; "" if it does. `lacks_carrier`: it is set up, and not
    connected."""

    name: str
    mtu_bytes: int
    is_up: bool
    offloads: tuple[str, ...] = ()
    refusal: str = ""
    lacks_carrier: bool = False


PathAnswer = Literal[
    "whole",  # a packet of `mtu_bytes` arrived
    "cut",  # small packets arrive, those of `mtu_bytes` do not, and nobody says why
    "silent",  # nothing came back: no such host, or a firewall
    "unreachable",  # the kernel or a router refused: `reason`
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """The path to another host's address, tried with packets that no router may fragment."""

    peer: str
    device: str
    mtu_bytes: int
    answer: PathAnswer
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TimeSync:
    """`error_s` bounds the error of a host's clock against UTC, if it `is_synchronized`; `source`
    is the program that sets it, "" if none was found."""

    is_synchronized: bool
    error_s: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What may be wrong with a host now, and changes while its agent runs.

    `clock_source` is the program that sets the clock, "" if none is known; `clock_error_s` bounds
    the clock's error against UTC while `is_synchronized`. `disk_free_bytes` is where measurements
    are kept, `missing_commands` what agents run and is not installed. `management` are the
    interfaces by which the host itself is reached. `refusals`: why no flow would start there now;
    `keep_refusal`, `setting_refusal`, `capture_refusal`: why nothing can be kept, set or captured
    there, "" if it can. `absent_interfaces`: those that its limits name and it does not have. What
    it allows at most (0: any): seconds of a flow, flows at the same time, bytes of a capture.
    `device` is the interface that it tests through: the one that its agent.toml names, or that of
    all paths; "" if these are several.
    """

    is_synchronized: bool
    clock_error_s: float
    clock_source: str
    disk_free_bytes: int
    missing_commands: tuple[str, ...]
    management: tuple[str, ...]
    interfaces: tuple[InterfaceState, ...]
    paths: tuple[PathState, ...]
    refusals: tuple[str, ...] = ()
    keep_refusal: str = ""
    absent_interfaces: tuple[str, ...] = ()
    setting_refusal: str = ""
    capture_refusal: str = ""
    longest_flow_s: float = 0.0
    most_flows: float = 0.0
    largest_capture_bytes: float = 0.0
    device: str = ""

    @property
    def time_sync(self) -> TimeSync:
        return TimeSync(self.is_synchronized, self.clock_error_s, self.clock_source)


# A run's name becomes a folder, at both ends, so it must not be a path.
RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,99}")


# How many unfetched experiments an agent lists: the maximum that a controller reads
# (transport.codec). The rest is listed when these are fetched.
UNFETCHED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfetched:
    """What an agent has measured for an experiment and no controller has fetched. Nothing of it was
    written for `age_s`."""

    run: str
    exp: int
    files: int
    size_bytes: int
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """Who holds an agent, for which run and for how long ("", 0: nobody), who is `waiting`, in
    their order, and what earlier runs left with it: measurements, `settings` that are still to be
    put back, and those that are not and no controller was told of (`left`), in words."""

    holder: str = ""
    run: str = ""
    held_s: float = 0.0
    unfetched: tuple[Unfetched, ...] = ()
    settings: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


# How the text of an event `left` begins if it is of an earlier run.
EARLIER_RUN = "in an earlier run: "

EventKind = Literal[
    "held",  # first event of a stream: the controller holds the agent
    "accepted",  # a group was accepted and will start
    "ready",  # a group waits for its instant: nothing is left to do but to begin
    "started",  # an instance's tool was started
    "progress",  # an instance's goodput since the last sample
    "ended",  # an instance ended well
    "failed",  # an instance failed: reason, last lines
    "complete",  # all instances of a group have ended and its files are whole
    "warning",  # a warning for the page
    "lost",  # what an experiment measured is not complete, and why
    "left",  # a setting is not as it was before a run, and stays so
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened on a host. `sequence` counts from 1 in each hold of the agent; 0 is
    an event that was not sent yet.

    `exp`, `group`, `instance` (from 1) are 0 where they do not apply. `rate_bps` is goodput.
    """

    sequence: int = 0
    time_s: float
    kind: EventKind
    exp: int = 0
    group: int = 0
    instance: int = 0
    rate_bps: float = 0.0
    text: str = ""
    last_lines: str = ""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of an experiment on a host: path relative to the experiment, size, SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FilePiece:
    """The next bytes of the file at `path`."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class FinishedExperiment:
    """What an agent has of an experiment that is finished: its `files`, which are host statistics
    (`0/…` and `1/…`) and raw data (all others); their `content`, as `fetch` gives it, if they are
    small together, else nothing; and `time_sync`, if it was asked for. `changed` are sentences on
    what is no longer as this run has set it."""

    files: tuple[FileEntry, ...]
    time_sync: TimeSync | None = None
    content: tuple[FilePiece, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClockReading:
    """An agent's clock: when the probe arrived and when its answer left."""

    received_s: float
    sent_s: float


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Agent clock minus controller clock is `offset_s` ± `bound_s` at the instant `at_s` of the
    controller's clock, and grows by `drift_ppm` µs per second, known to ± `drift_bound_ppm`.

    Of an experiment, the bound holds from its begin, `at_s`, to its end.
    """

    offset_s: float
    bound_s: float
    drift_ppm: float = 0.0
    drift_bound_ppm: float | None = None
    at_s: float = 0.0

    def at(self, time_s: float) -> float:
        """The offset at an instant of the controller's clock."""
        return self.offset_s + self.drift_ppm * 1e-6 * (time_s - self.at_s)

    def controllers(self, time_s: float) -> float:
        """An instant of the agent's clock, on the controller's."""
        there_s = time_s - self.offset_s
        return there_s - self.drift_ppm * 1e-6 * (there_s - self.at_s)


# Of two readers of one clock.
SAME_CLOCK = ClockOffset(0.0, 0.0)


# ---- what the controller knows of hosts ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabLink:
    """A direction of a link of a lab: the node that sends and the other one, and its rate in bit/s;
    None if it is not shaped."""

    ends: tuple[str, str]
    rate_bps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A host as the controller reaches it: the agent's address (transport.addresses) and the
    addresses that traffic uses, by family (4 or 6).

    What is known of a lab's hosts: whether their time is simulated, and the links on the path to
    each of these others.
    """

    host: str
    agent: str
    addresses: Mapping[int, Address] = field(default_factory=dict)
    is_simulated: bool = False
    paths: Mapping[str, Sequence[LabLink]] = field(default_factory=dict)
