"""Parts of a script that depend on nothing but what was set before: they may run side by side.

A part is a cell of a SWEEP, or one repetition of `RUN macro,n`; a part within a part belongs to it.
`Rehearsal` finds the parts of a script. `OnePart` carries one of them out as if the whole script
ran: variables and numbers are what they would be then, and so is what is set on hosts.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from netesto.errors import Place
from netesto.language import ports
from netesto.language.counter import ExperimentCounter
from netesto.language.dryrun import Columns, DryRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a script, as a rehearsal found it.

    `cell` is that of a SWEEP, with `rep`; empty for a repetition of a RUN. `before` is the number
    last taken when it begins, `numbers` how many it takes. `seconds` is how long it should take.
    One that `is_idle` asks no host for an experiment.
    """

    name: str
    before: int
    numbers: int
    seconds: float
    is_idle: bool = False
    cell: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Open:
    """A part that runs, and what there was when it began."""

    name: str
    cell: Mapping[str, str]
    before: int
    asked: int
    seconds: float


class Rehearsal(DryRun):
    """A dry run that also finds the parts. `has_rest`: experiments belong to none of them; `echoes`
    is what the script prints outside of them, and in idle ones. `entangled` is an experiment that
    belongs to more than one part, or to one and the rest: they cannot run apart. 0 if none does."""

    def __init__(
        self,
        write: Callable[[str], None] | None = None,
        *,
        counter: int = 0,
        known: Columns | None = None,
    ) -> None:
        super().__init__(write, counter=counter, known=known)
        self.parts: list[Part] = []
        self.has_rest = False
        self.echoes: list[str] = []
        self._open: _Open | None = None
        self._said: list[str] = []
        # How often a host was asked for a piece of an experiment.
        self._asked = 0
        self.entangled = 0
        # The part that an experiment began in, by its place; None for the rest.
        self._owners: dict[int, int | None] = {}

    @property
    def last_number(self) -> int:
        """The number of the last experiment that the script takes."""
        return self.previous_experiment()

    def enter_part(self, name: str, cell: Mapping[str, str]) -> None:
        self._open = _Open(name, cell, self.last_number, self._asked, self.totals().seconds)

    def leave_part(self, *, whole: bool) -> bool:
        assert self._open is not None, "a part is left that was not entered"
        begun, self._open = self._open, None
        is_idle = self._asked == begun.asked
        self.echoes += self._said if is_idle else []
        self._said = []
        self.parts.append(
            Part(
                name=begun.name,
                before=begun.before,
                numbers=self.last_number - begun.before,
                seconds=self.totals().seconds - begun.seconds,
                is_idle=is_idle,
                cell=dict(begun.cell),
            )
        )
        return super().leave_part(whole=whole)

    def remote(self, command: ports.RemoteCommand) -> None:
        if isinstance(command, ports.DoServer | ports.DoClient):
            self._asked += 1
            self._own(command.exp)
            self.has_rest = self.has_rest or self._open is None
        super().remote(command)

    def process_experiment(
        self, exp: int, notes: ports.ExperimentNotes
    ) -> Mapping[str, str] | ports.Expected:
        self._own(exp)
        return super().process_experiment(exp, notes)

    def _own(self, exp: int) -> None:
        place = None if self._open is None else len(self.parts)
        if self._owners.setdefault(exp, place) != place:
            self.entangled = self.entangled or exp

    def echo(self, text: str) -> None:
        (self.echoes if self._open is None else self._said).append(text)
        super().echo(text)


class OnePart(ExperimentCounter):
    """A Port that passes one part on to `real`, or (`index` None) all that belongs to no part.

    Of the rest it passes on only what is set on hosts, once it matters and as far as it still holds
    then. `start` is the experiment number last taken when the script begins, `before` when the part
    does.
    """

    def __init__(self, real: ports.Port, *, index: int | None, start: int, before: int) -> None:
        super().__init__(start)
        self._real = real
        self._wanted = index
        self._before = before
        self._inside: int | None = None
        self._entered = 0
        self._has_begun = False
        # What was set on hosts and not passed on yet, in the order it would have to be.
        self._pending: dict[Hashable, list[ports.RemoteCommand]] = {}

    @property
    def _is_on(self) -> bool:
        return self._inside == self._wanted

    # ---- parts ---------------------------------------------------------------------------

    def enter_part(self, name: str, cell: Mapping[str, str]) -> None:
        self._inside, self._entered = self._entered, self._entered + 1
        if self._is_on:
            if not self._has_begun:
                self._counter, self._has_begun = self._before, True
            self._catch_up()
            self._real.enter_part(name, cell)

    def leave_part(self, *, whole: bool) -> bool:
        again = self._is_on and self._real.leave_part(whole=whole)
        if again:
            # It is the same part that is entered next.
            self._entered -= 1
        self._inside = None
        if self._is_on:
            self._catch_up()
        return again

    def _catch_up(self) -> None:
        pending, self._pending = self._pending, {}
        for commands in pending.values():
            for command in commands:
                self._real.remote(command)

    def _keep(self, command: ports.RemoteCommand) -> None:
        """Remember what is set on a host; what it replaces is forgotten."""
        if not isinstance(command, ports.Configure):
            return  # it belongs to an experiment of another part
        if not command.is_change:
            self._pending.pop(command.target, None)
        self._pending.setdefault(command.target, []).append(command)

    # ---- what only this part does --------------------------------------------------------

    def remote(self, command: ports.RemoteCommand) -> None:
        if self._is_on:
            self._real.remote(command)
        else:
            self._keep(command)

    def wait(self, seconds: float) -> None:
        if self._is_on:
            self._real.wait(seconds)

    def random_wait(self, seconds: float, *, mean_s: float) -> None:
        if self._is_on:
            self._real.random_wait(seconds, mean_s=mean_s)

    def wait_flows(self, exp: int, timeout_s: float | None) -> None:
        if self._is_on:
            self._real.wait_flows(exp, timeout_s)

    def start_flows(self, lead_s: float) -> None:
        if self._is_on:
            self._real.start_flows(lead_s)

    def process_experiment(
        self, exp: int, notes: ports.ExperimentNotes
    ) -> Mapping[str, str] | ports.Expected:
        return self._real.process_experiment(exp, notes) if self._is_on else {}

    def cell_finished(self, cell: Mapping[str, str]) -> None:
        if self._is_on:
            self._real.cell_finished(cell)

    def echo(self, text: str) -> None:
        # What the script prints outside of its parts is known from the rehearsal.
        if self._is_on and self._wanted is not None:
            self._real.echo(text)

    # ---- what the whole script does ------------------------------------------------------

    def lab(self, request: ports.LabRequest) -> None:
        self._real.lab(request)

    def require(self, requirements: Sequence[ports.Requirement]) -> None:
        self._real.require(requirements)

    def need_column(self, name: str, place: Place, *, factor: bool) -> None:
        """The rehearsal has looked at it."""

    def claim(self, claim: ports.Claim) -> None:
        self._real.claim(claim)

    def assert_failed(self, message: str, place: Place) -> None:
        """The columns it is about are those of this part's last experiment, also after the part."""
        self._real.assert_failed(message, place)

    def is_cell_done(self, cell: Mapping[str, str]) -> bool:  # noqa: ARG002
        """Whoever chose this part has left out what is done."""
        return False

    def warn(self, message: str, place: Place) -> None:
        """The rehearsal has told it."""
