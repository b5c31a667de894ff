"""A port that only listens: it prints what would be asked of hosts, and counts simulated time."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from netesto.errors import Place
from netesto.language import ports
from netesto.units import format_time

Form: TypeAlias = Literal["plain", "json", "quiet"]


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning to the author."""

    message: str
    place: Place


@dataclass(frozen=True, slots=True)
class Totals:
    """What a script asks for altogether. `seconds` is the estimated duration."""

    experiments: int
    flows: int
    seconds: float


class DryRun:
    """A Port without hosts, waits or files.

    WAIT adds to a simulated clock, RAND_WAIT adds its mean, WAIT_FLOWS lets it go on to the end of
    the experiment's last flow. Experiment numbers follow `counter`, the last one taken.

    `commands` keeps one command of each sort: same host, and same demands on it. It is what
    pre-flight has to look at, and it does not grow with the length of a run.
    """

    def __init__(
        self, write: Callable[[str], None] | None = None, *, form: Form = "plain", counter: int = 0
    ) -> None:
        self._write = write or (lambda _: None)
        self._form: Form = form if write else "quiet"
        self._counter = counter
        self._clock_s = 0.0
        self._ends_s: dict[int, float] = {}
        self._held: list[ports.DoClient] = []
        self._commands: dict[Hashable, ports.RemoteCommand] = {}
        self._experiments = 0
        self._flows = 0
        self.requirements: list[ports.Requirement] = []
        self.lab_request: ports.LabRequest | None = None
        self.warnings: list[Warned] = []
        # The names of the columns that OTHER and SWEEP fill.
        self.columns: dict[str, None] = {}

    @property
    def commands(self) -> tuple[ports.RemoteCommand, ...]:
        return tuple(self._commands.values())

    def totals(self) -> Totals:
        """Experiments processed, flows started, seconds passed on the simulated clock."""
        return Totals(self._experiments, self._flows, self._clock_s)

    def finish(self) -> None:
        """Print the totals."""
        totals = self.totals()
        if self._form == "json":
            summary = {
                "experiments": totals.experiments,
                "flows": totals.flows,
                "seconds": round(totals.seconds, 3),
            }
            self._write(json.dumps({"summary": summary}))
        elif self._form == "plain":
            self._write(
                f"# {_count(totals.experiments, 'experiment')}, {_count(totals.flows, 'flow')}, "
                f"about {format_time(totals.seconds)}"
            )

    # ---- the port ------------------------------------------------------------------------

    def next_experiment(self) -> int:
        self._counter += 1
        return self._counter

    def previous_experiment(self) -> int:
        return self._counter

    def round_counter(self) -> None:
        self._counter = rounded_counter(self._counter)

    def remote(self, command: ports.RemoteCommand) -> None:
        self._commands.setdefault(_demands(command), command)
        if isinstance(command, ports.DoClient):
            self._flows += command.instances
            if command.hold:
                self._held.append(command)
            else:
                self._start(command, self._clock_s)
        self._show(command)

    def lab(self, request: ports.LabRequest) -> None:
        self.lab_request = request

    def require(self, requirements: Sequence[ports.Requirement]) -> None:
        self.requirements += requirements

    def wait(self, seconds: float) -> None:
        self._clock_s += seconds

    def random_wait(self, seconds: float, *, mean_s: float) -> None:  # noqa: ARG002
        self._clock_s += mean_s

    def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        end_s = max(self._clock_s, self._ends_s.get(exp, 0.0))
        self._clock_s = end_s if timeout_s is None else min(end_s, self._clock_s + timeout_s)

    def start_flows(self, lead_s: float) -> None:
        for command in self._held:
            self._start(command, self._clock_s + lead_s)
        self._held.clear()

    def process_experiment(self, exp: int, notes: ports.ExperimentNotes) -> Mapping[str, str]:
        self._experiments += 1
        self.columns.update(dict.fromkeys(notes.columns))
        self._ends_s.pop(exp, None)
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
        return {}

    def assert_failed(self, message: str, place: Place) -> None:
        """Never: without columns no claim is checked."""

    def is_cell_done(self, cell: Mapping[str, str]) -> bool:  # noqa: ARG002
        return False

    def cell_finished(self, cell: Mapping[str, str]) -> None:
        """Nothing is kept of it."""

    def echo(self, text: str) -> None:
        if self._form == "plain":
            self._write(f"# {text}")

    def warn(self, message: str, place: Place) -> None:
        self.warnings.append(Warned(message, place))

    # ---- its own -------------------------------------------------------------------------

    def _start(self, command: ports.DoClient, at_s: float) -> None:
        end_s = at_s + command.delay_s + command.duration_s
        self._ends_s[command.exp] = max(end_s, self._ends_s.get(command.exp, 0.0))

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
            self._write(json.dumps(fields, ensure_ascii=False))
        elif self._form == "plain":
            words = [f"{key}={quoted(text)}" for key, text in command.arguments.items()]
            line = " ".join([command.name, *words])
            self._write(f"{line}  # {format_time(self._clock_s)}, {at}")


def rounded_counter(counter: int) -> int:
    """The counter after NEXT_COUNTER: the next number that is taken begins a new ten.

    `counter` is the last number taken. After 13 the next experiment is 20; after 19 it is 30,
    because 20 would have come anyway.
    """
    return ((counter + 1) // 10 + 1) * 10 - 1


def quoted(text: str) -> str:
    """`text` as a word of a script that has this value."""
    text = text.replace("$", "$$")
    if text and not any(character in ' \t"#\\' for character in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _demands(command: ports.RemoteCommand) -> Hashable:
    """What a command asks of its host, as far as it can be looked at before."""
    match command:
        case ports.DoClient():
            return (
                command.name,
                command.host,
                command.server,
                command.test,
                command.tool,
                command.ca,
            )
        case ports.DoTcpdump():
            return (command.name, command.host, command.server)
        case ports.SetQdisc():
            return (command.name, command.host, command.qdisc, command.action)
        case ports.SetNetem():
            return (command.name, command.host, bool(command.delay_ms or command.loss_percent))
        case ports.SetSysctl():
            return (command.name, command.host, tuple(command.values))
        case ports.SetModuleParams():
            return (command.name, command.host, command.module, tuple(command.values))
        case _:
            return (command.name, command.host)
