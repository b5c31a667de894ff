"""The steps of scripts, and the knowledge about columns, as frozen values.

The interpreter has resolved every variable, default and sticky value before a step gets here, and
checked every type and range. `arguments` of a command are the same as text, all defaults included,
for showing.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, Protocol, TypeAlias

from netesto.errors import Place, ScriptError
from netesto.flowspec import ALWAYS_THERE, OPTIONS, RECEIVERS, FlowSpec
from netesto.hostsettings import Qdisc, Setting
from netesto.limits import amounts
from netesto.limits.needs import Kind, Need

# The `server` of a DO_TCPDUMP that captures packets of all hosts.
EVERYBODY = "X"

_demands_of_flow = attrgetter(
    *(name for name, option in OPTIONS.items() if not option.asks_nothing)
)

# The name of the repetition in a SWEEP cell.
REPETITION = "rep"

# The content of a column of exp.csv: numbers, texts, or values of the script.
ColumnKind: TypeAlias = Literal["number", "text", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCommand:
    """A command that an agent executes. `host` is a name with its suffix applied.

    `exp` is the experiment it belongs to (0: none yet), `group` is 0 except for DO_CLIENT. `suffix`
    is that of HOST_SUFFIX, which host names may carry.
    """

    name: str
    host: str
    exp: int
    exp_name: str
    arguments: Mapping[str, str]
    place: Place = field(compare=False, repr=False)
    chain: tuple[str, ...] = field(default=(), compare=False, repr=False)
    group: int = 0
    suffix: str = field(default="", compare=False, repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of all hosts that it needs to know."""
        return (self.host,)

    @property
    def demands(self) -> Hashable:
        """Equal for commands that need the same of hosts, as far as a check before the run can
        tell."""
        return (self.name, self.host)

    @property
    def extent(self) -> float:
        """Of commands with equal demands, the one with the largest extent may exceed a limit."""
        return 0.0

    @property
    def needs(self) -> Mapping[str, tuple[Need, ...]]:
        """What its hosts must have, by their names."""
        return {}

    def place_of_host(self, name: str) -> Place:
        """The place of a host's name in the command's line, if it comes from there."""
        short = name.removesuffix(f".{self.suffix}") if self.suffix else name
        return self.place.narrowed(f"host={short}", f"server={short}", f"to={short}")


def keep_sort(found: dict[Hashable, RemoteCommand], command: RemoteCommand) -> None:
    """Keep one of each sort of commands, by their demands: the first of those with the largest
    extent."""
    known = found.get(command.demands, command)
    found[command.demands] = max(known, command, key=lambda each: each.extent)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoServer(RemoteCommand):
    order: int
    start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DoClient(RemoteCommand):
    """The test of `flow` is the one that will run: `TCP_RR` with `req=S` has become `TCP_STREAM`.
    Its flows draw random numbers by `seed`, which the plan sets."""

    server: str
    flow: FlowSpec = field(default_factory=FlowSpec)
    hold: bool = False
    seed: int = 0

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host, self.server)

    @property
    def demands(self) -> Hashable:
        return (self.name, self.host, self.server, _demands_of_flow(self.flow))

    @property
    def extent(self) -> float:
        return amounts.whole_s(self.flow)

    @property
    def needs(self) -> Mapping[str, tuple[Need, ...]]:
        sender, receiver = self.flow.congestion_control, self.flow.reverse_congestion_control
        is_chosen = "remoteCa" in self.arguments or receiver not in {RECEIVERS, ALWAYS_THERE}
        of_sender = (Need("congestion control", sender, "ca="),)
        # A receiver's default is replaced on hosts that lack it.
        of_receiver = (Need("congestion control", receiver, "remoteCa="),) if is_chosen else ()
        ends = (self.host, self.server)
        sending, receiving = reversed(ends) if self.flow.is_reverse else ends
        if sending == receiving:
            return {sending: (*of_sender, *of_receiver)}
        return {sending: of_sender, receiving: of_receiver}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoTrace(DoClient):
    """What one host does of a DO_TRACE: all of its flows, or all of its requests, to the `peers`,
    the first of which is the `server`."""

    peers: tuple[str, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host, *self.peers)

    @property
    def demands(self) -> Hashable:
        return (self.name, self.host, self.peers, _demands_of_flow(self.flow))


@dataclass(frozen=True, slots=True, kw_only=True)
class GetData(RemoteCommand):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure(RemoteCommand):
    """A SET_ command, or DO_COMMAND; only SET_SYSCTL, SET_MODULE_PARAMS and SET_LINK can have
    several settings."""

    settings: tuple[Setting, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host, *(host for each in self.settings for host in each.leads_to))

    @property
    def demands(self) -> Hashable:
        return (self.name, self.host, *(each.demand for each in self.settings))

    @property
    def needs(self) -> Mapping[str, tuple[Need, ...]]:
        return {self.host: tuple(need for each in self.settings for need in each.needs)}

    @property
    def target(self) -> tuple[str, ...]:
        """The target of the setting: a later command with the same target replaces this one, unless
        it `is_change`. Limits and metrics that it leaves as they are do not belong to it."""
        given = (name for each in self.settings for name in each.given)
        return (self.host, *(each.target for each in self.settings), *given)

    @property
    def kept(self) -> tuple[str, ...]:
        """What it leaves on the host on purpose: `sysctl net.ipv4.tcp_ecn`, `qdisc`."""
        return tuple(each.target for each in self.settings if each.keep)

    @property
    def is_change(self) -> bool:
        """Whether it changes the qdisc that is there: a SET_QDISC with an action."""
        return any(each.action != "" for each in self._qdiscs)

    @property
    def is_assignment(self) -> bool:
        """Whether it may be executed twice, so that the second time counts."""
        return all(each.action in {"", "change", "replace"} for each in self._qdiscs)

    @property
    def _qdiscs(self) -> list[Qdisc]:
        return [each for each in self.settings if isinstance(each, Qdisc)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoTcpdump(RemoteCommand):
    """`server` is EVERYBODY for all packets; `snap_bytes` 0 means whole packets."""

    server: str
    packets: int
    snap_bytes: int

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host,) if self.server == EVERYBODY else (self.host, self.server)

    @property
    def demands(self) -> Hashable:
        return (self.name, self.host, self.server)

    @property
    def extent(self) -> float:
        return amounts.captured_bytes(self.packets, self.snap_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLink(RemoteCommand):
    """The link of a lab to the node `to`."""

    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Close(RemoteCommand):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(RemoteCommand):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRequest:
    """`LAB topology k=v …`, or `LAB file=PATH` (topology ""); `text` is what such a file says."""

    topology: str
    settings: Mapping[str, str]
    text: str = ""
    place: Place = field(compare=False, repr=False)
    chain: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def refused(self, message: str, remedy: str) -> ScriptError:
        """The error of a LAB that cannot be built, at the setting that `message` is about."""
        written = {key: f"{key}={value}" for key, value in self.settings.items()}
        near = [
            word
            for key, word in written.items()
            if word in message
            or f": {key}" in message
            or repr(key) in message
            or (key == "file" and self.settings[key] in message)
        ]
        near += [self.topology] if self.topology else []
        place = self.place.narrowed(*near)
        return ScriptError(message, place=place, remedy=remedy, chain=self.chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One condition of REQUIRE: `kernel>=6.1` is ("kernel", ">=", "6.1")."""

    what: str
    operator: str
    value: str
    place: Place = field(compare=False, repr=False)

    @property
    def needs(self) -> tuple[Need, ...]:
        """What every host must have; with the operator != none of it."""
        kinds: Mapping[str, Kind] = {"ca": "congestion control", "qdisc": "qdisc", "tool": "tool"}
        names = self.value.split(",") if self.what in kinds else ()
        return tuple(Need(kinds[self.what], name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentNotes:
    """The script's notes on an experiment.

    `columns` are OTHER's and the SWEEP factors. `cell` is the SWEEP cell it belongs to (factors
    and `rep`), empty outside of a SWEEP.
    """

    exp_name: str = ""
    description: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    cell: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """WAIT and RAND_WAIT. `seconds` was drawn when the script was planned; estimates count
    `mean_s`, which does not depend on the seed."""

    seconds: float
    mean_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFlows:
    """Until every flow of the experiment has ended and its files are complete."""

    exp: int
    timeout_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFlows:
    """Start all flows held back since the last one, at one instant."""

    lead_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExperiment:
    """Finish the experiment: turn its data into results. `place` is that of PROCESS_EXP, or of the
    last DO_CLIENT of an experiment without one."""

    exp: int
    notes: ExperimentNotes
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """ASSERT, about the columns of experiment `exp`, which was processed last. `text` has its
    variables filled in; `message` is the author's, or empty."""

    exp: int
    text: str
    message: str
    place: Place = field(compare=False, repr=False)
    chain: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """ECHO, and traces of DEBUG."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterPart:
    """A part of the script begins: `index` is its place among the parts of the plan."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavePart:
    """The part ends. It is `whole` if it ran to its end, and not if END stopped it."""

    index: int
    whole: bool


# The steps of a script, in order.
Step: TypeAlias = (
    RemoteCommand
    | Wait
    | WaitFlows
    | StartFlows
    | ProcessExperiment
    | Claim
    | Echo
    | EnterPart
    | LeavePart
)


class ColumnTable(Protocol):
    """The columns of exp.csv, as results know them. As text they are a fields.txt."""

    @property
    def source(self) -> str:
        """The file that names them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""

    def has(self, name: str) -> bool:
        """Whether there is one for a key of OTHER. ScriptError if scripts must not set it."""

    def nearest(self, name: str) -> str:
        """A similar column; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ColumnKnowledge:
    """The knowledge about columns when a script is planned: those of exp.csv, and the content of
    each that ASSERT may name."""

    table: ColumnTable
    kinds: Mapping[str, ColumnKind]


def spellings(host: str, suffixes: Iterable[str]) -> list[str]:
    """`host` as given, and without each of the suffixes of HOST_SUFFIX."""
    ends = [f".{suffix}" for suffix in suffixes if suffix]
    return [host, *(host.removesuffix(end) for end in ends if host.endswith(end))]
