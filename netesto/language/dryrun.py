"""A port that only listens: it prints what would be asked of hosts, and counts simulated time."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Literal, Protocol, TypeAlias

from netesto.allowed import NAMING_SYSCTLS
from netesto.errors import Place, ScriptError
from netesto.language import ports
from netesto.language.counter import ExperimentCounter
from netesto.language.duration import NOTHING, REAL_TIME, Timeline
from netesto.language.plan import Totals, Warned
from netesto.language.ports import REPETITION
from netesto.language.scope import ColumnError, MisuseError
from netesto.model import FlowSpec, ModuleParameter, Netem, Qdisc, Setting, Sysctl
from netesto.units import format_time

Form: TypeAlias = Literal["plain", "json", "quiet"]


class Table(Protocol):
    """The columns of exp.csv, as results know them."""

    @property
    def source(self) -> str:
        """The file that names them."""

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called, in their order."""

    def has(self, name: str) -> bool:
        """Whether one is there for a key of OTHER. ScriptError if no script may fill it."""

    def nearest(self, name: str) -> str:
        """The one that may have been meant; empty if none is like it."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a dry run must know of columns: those of exp.csv, and what each that ASSERT may speak
    of holds."""

    table: Table
    kinds: Mapping[str, ports.ColumnKind]


class Printer:
    """Prints the steps of a plan that ask for something, each with the moment when it begins: the
    flows and waits before it, of RAND_WAIT the mean."""

    def __init__(self, write: Callable[[str], None], *, form: Form = "plain") -> None:
        self._write = write
        self._form = form
        self._clock = Timeline(NOTHING)

    def show(self, step: ports.Step) -> None:
        """Print the next step."""
        match step:
            case ports.RemoteCommand():
                self._print(step.name, step, step.arguments, step.place)
            case ports.ProcessExperiment(exp=exp, notes=notes):
                arguments = {"exp": str(exp), "expName": notes.exp_name}
                if notes.description:
                    arguments["desc"] = notes.description
                place = notes.place or Place("", 0)
                self._print("PROCESS_EXP", step, arguments | dict(notes.columns), place)
            case ports.Echo(text=text) if self._form == "plain":
                self._write(f"# {text}")
        self._clock.take(step)

    def finish(self, totals: Totals) -> None:
        """Print the totals."""
        if self._form == "json":
            summary = {
                "experiments": totals.experiments,
                "flows": totals.flows,
                "seconds": round(totals.seconds, 1),
            }
            self._write(json.dumps({"summary": summary}))
        else:
            self._write(
                f"# {_count(totals.experiments, 'experiment')}, {_count(totals.flows, 'flow')}, "
                f"about {format_time(_whole(totals.seconds))}"
            )

    def _print(
        self,
        name: str,
        step: ports.RemoteCommand | ports.ProcessExperiment,
        arguments: Mapping[str, str],
        place: Place,
    ) -> None:
        at = f"{place.file}:{place.line}"
        if self._form == "json":
            remote = step if isinstance(step, ports.RemoteCommand) else None
            fields = {
                "command": name,
                "host": remote.host if remote else "",
                "args": dict(arguments),
                "at": at,
                "exp": step.exp,
                "group": remote.group if remote else 0,
            }
            self._write(json.dumps(fields))
        else:
            words = [f"{key}={quoted(text)}" for key, text in arguments.items()]
            self._write(f"{' '.join([name, *words])}  # {format_time(self._clock.now_s)}, {at}")


class DryRun(ExperimentCounter):
    """A Port without hosts, waits or files.

    WAIT adds to a simulated clock, RAND_WAIT adds its mean, WAIT_FLOWS lets it go on to the end of
    the experiment's last flow: exact, and printed beside each command. A second clock goes on by
    the work around flows and waits as well, and gives the total. (It cannot be known here whether
    the script will run in simulated time.) Experiment numbers follow `counter`, the last one taken.

    `commands` keeps one command of each sort: same host, and same demands on it. It is what
    pre-flight has to look at, and it does not grow with the length of a run. With `known`
    columns those that OTHER, SWEEP and ASSERT name are looked at as well.
    """

    def __init__(
        self,
        write: Callable[[str], None] | None = None,
        *,
        form: Form = "plain",
        counter: int = 0,
        known: Columns | None = None,
    ) -> None:
        super().__init__(counter)
        self._write = write or (lambda _: None)
        self._form: Form = form if write else "quiet"
        self._simulated = Timeline(NOTHING)
        self._real = Timeline(REAL_TIME)
        self._commands: dict[Hashable, ports.RemoteCommand] = {}
        self._experiments = 0
        self._flows = 0
        self._requirements: dict[ports.Requirement, None] = {}
        self.lab_request: ports.LabRequest | None = None
        self.warnings: list[Warned] = []
        # The first commands of experiments whose number the script itself gives, and of those that
        # would write to one that is processed.
        self.numbered: dict[int, ports.RemoteCommand] = {}
        self.rewriting: dict[int, ports.RemoteCommand] = {}
        self._counted: set[int] = set()
        self._finished: set[int] = set()
        # What waits for START_FLOWS.
        self._held: list[ports.DoClient] = []
        # The names of the columns that OTHER and SWEEP fill.
        self.columns: dict[str, None] = {}
        self._known = known
        self._named: set[str] = set()

    @property
    def commands(self) -> tuple[ports.RemoteCommand, ...]:
        return tuple(self._commands.values())

    @property
    def requirements(self) -> tuple[ports.Requirement, ...]:
        return tuple(self._requirements)

    def totals(self) -> Totals:
        """Experiments processed, flows started, seconds passed on both clocks."""
        return Totals(self._experiments, self._flows, self._real.now_s, self._simulated.now_s)

    def finish(self) -> None:
        """Print the totals."""
        totals = self.totals()
        if self._form == "json":
            summary = {
                "experiments": totals.experiments,
                "flows": totals.flows,
                "seconds": round(totals.seconds, 1),
            }
            self._write(json.dumps({"summary": summary}))
        elif self._form == "plain":
            self._write(
                f"# {_count(totals.experiments, 'experiment')}, {_count(totals.flows, 'flow')}, "
                f"about {format_time(_whole(totals.seconds))}"
            )

    # ---- the port ------------------------------------------------------------------------

    def next_experiment(self) -> int:
        number = super().next_experiment()
        self._counted.add(number)
        return number

    def remote(self, command: ports.RemoteCommand) -> None:
        if isinstance(command, ports.DoServer | ports.DoClient):
            if command.exp not in self._counted:
                self.numbered.setdefault(command.exp, command)
            if command.exp in self._finished:
                self.rewriting.setdefault(command.exp, command)
        if isinstance(command, ports.DoClient) and command.hold:
            self._held.append(command)
        self._commands.setdefault(demands(command), command)
        if isinstance(command, ports.DoClient):
            self._flows += command.flow.instances
        # What is printed beside a command is when it begins.
        self._show(command)
        for timeline in self._timelines:
            timeline.remote(command)

    def lab(self, request: ports.LabRequest) -> None:
        self.lab_request = request
        for timeline in self._timelines:
            timeline.lab()

    def require(self, requirements: Sequence[ports.Requirement]) -> None:
        self._requirements.update(dict.fromkeys(requirements))

    def wait(self, seconds: float) -> None:
        for timeline in self._timelines:
            timeline.wait(seconds)

    def random_wait(self, seconds: float, *, mean_s: float) -> None:  # noqa: ARG002
        self.wait(mean_s)

    def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        for timeline in self._timelines:
            timeline.wait_flows(exp, timeout_s)

    def start_flows(self, lead_s: float) -> None:
        self._held = []
        for timeline in self._timelines:
            timeline.start_flows(lead_s)

    def need_column(self, name: str, place: Place, *, factor: bool) -> None:
        if self._known is None or name in self._named:
            return
        table = self._known.table
        try:
            there = table.has(name)
        except ScriptError as error:
            column = ColumnError(error.message, remedy=error.remedy)
            column.place = place
            raise column from None
        self._named.add(name)
        if not there and not factor:
            near = table.nearest(name)
            meant = f"; is {near} meant?" if near else ""
            self.warn(
                f"{table.source} has no column {name}: exp.csv has it as the last{meant}", place
            )

    def process_experiment(
        self, exp: int, notes: ports.ExperimentNotes
    ) -> Mapping[str, str] | ports.Expected:
        self._refuse_held(exp)
        self._experiments += 1
        self._finished.add(exp)
        self.columns.update(dict.fromkeys(notes.columns))
        if REPETITION in notes.cell:
            self.columns[REPETITION] = None
        arguments = {"exp": str(exp), "expName": notes.exp_name}
        if notes.description:
            arguments["desc"] = notes.description
        self._show(
            ports.RemoteCommand(
                name="PROCESS_EXP",
                host="",
                exp=exp,
                exp_name=notes.exp_name,
                arguments=arguments | dict(notes.columns),
                place=notes.place or Place("", 0),
            )
        )
        for timeline in self._timelines:
            timeline.process(exp)
        if self._known is None:
            return {}
        own: dict[str, ports.ColumnKind] = dict.fromkeys(self.columns, "any")
        return ports.Expected(own | dict(self._known.kinds))

    def _refuse_held(self, exp: int) -> None:
        """MisuseError, at their command, if flows of the experiment would never start."""
        for command in self._held:
            if command.exp == exp:
                self._held = []
                error = MisuseError(
                    f"hold={command.arguments['hold']}, but no START_FLOWS comes before the end"
                    f" of experiment {exp}",
                    remedy="START_FLOWS starts, at one instant, what hold=1 has held back.",
                )
                error.place, error.chain = command.place.narrowed("hold="), command.chain
                raise error

    def claim(self, claim: ports.Claim) -> None:
        """Its columns were looked at."""

    def assert_failed(self, message: str, place: Place) -> None:
        """Never: without columns no claim is checked."""

    def is_cell_done(self, cell: Mapping[str, str]) -> bool:  # noqa: ARG002
        return False

    def cell_finished(self, cell: Mapping[str, str]) -> None:
        """Nothing is kept of it."""

    def enter_part(self, name: str, cell: Mapping[str, str]) -> None:
        """Parts are shown one after the other."""

    def leave_part(self, *, whole: bool) -> bool:  # noqa: ARG002
        return False

    def echo(self, text: str) -> None:
        if self._form == "plain":
            self._write(f"# {text}")

    def warn(self, message: str, place: Place) -> None:
        self.warnings.append(Warned(message, place))

    # ---- its own -------------------------------------------------------------------------

    @property
    def _timelines(self) -> tuple[Timeline, Timeline]:
        return self._simulated, self._real

    def _show(self, command: ports.RemoteCommand) -> None:
        at = f"{command.place.file}:{command.place.line}"
        if self._form == "json":
            fields = {
                "command": command.name,
                "host": command.host,
                "args": dict(command.arguments),
                "at": at,
                "exp": command.exp,
                "group": command.group,
            }
            self._write(json.dumps(fields))
        elif self._form == "plain":
            words = [f"{key}={quoted(text)}" for key, text in command.arguments.items()]
            line = " ".join([command.name, *words])
            self._write(f"{line}  # {format_time(self._simulated.now_s)}, {at}")


def quoted(text: str) -> str:
    """`text` as a word of a script that has this value."""
    text = text.replace("$", "$$")
    if text and not any(character in ' \t"#\\' for character in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text else ""


# What is the same to every host and tool, whatever its value.
_ANYWHERE = {"duration_s", "delay_s", "instances", "interval_s", "stats"}
_demands_of_flow = attrgetter(
    *(each.name for each in fields(FlowSpec) if each.name not in _ANYWHERE)
)


def _whole(seconds: float) -> float:
    """An estimate without digits that it cannot have."""
    return round(seconds) if seconds >= 1 else round(seconds, 1)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def demands(command: ports.RemoteCommand) -> Hashable:
    """What a command asks of its host, as far as it can be looked at before."""
    match command:
        case ports.DoClient():
            flow: Hashable = _demands_of_flow(command.flow)
            return (command.name, command.host, command.server, flow)
        case ports.DoTcpdump():
            return (command.name, command.host, command.server)
        case ports.Configure():
            return (command.name, command.host, *map(_demand, command.settings))
        case _:
            return (command.name, command.host)


def _demand(setting: Setting) -> Hashable:
    match setting:
        case Qdisc():
            return setting.kind, setting.action
        case Netem():
            return bool(setting.delay_ms or setting.loss_percent)
        case Sysctl():
            return setting.name, setting.value if setting.name in NAMING_SYSCTLS else ""
        case ModuleParameter():
            return setting.module, setting.name
