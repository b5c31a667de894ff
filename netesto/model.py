"""Frozen values that the layers share: requests to hosts, and their reports.

Times: `*_s` are seconds. A `time_s` is a UTC instant, in seconds since 1970, on the clock of the
host that made the value (which has no steps: it reads UTC once and then counts by the monotonic
clock).
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from itertools import accumulate
from typing import Literal, TypeAlias

from netesto.flowspec import LINK_TESTS, STAGGER_MOST, UDP_TESTS, FlowSpec

Address: TypeAlias = IPv4Address | IPv6Address


# The year 5138: no clock is so far ahead, and computations with such instants are exact.
LATEST_S = 1e11

# No results folder has a billion experiments.
LARGEST_EXPERIMENT = 999_999_999

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
    "changed",  # another program has changed what was set for an experiment
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
    """A direction of a link of a lab: the node that sends and the other one, its rate in bit/s,
    None if it is not shaped, and whether the script `changes` the link."""

    ends: tuple[str, str]
    rate_bps: float | None
    changes: bool = False


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
