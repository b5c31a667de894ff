"""Executes the steps of a plan, and evaluates the claims of the script."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from netesto.controller.controller import Processed
from netesto.errors import StoppedError
from netesto.language import steps
from netesto.language.plan import Part, Plan
from netesto.language.standing import Standing
from netesto.results.evidence import OK
from netesto.results.store import Store
from netesto.run.request import CONTINUE
from netesto.run.rounds import Rounds, Row
from netesto.run.session import RunSession, only_part


@dataclass(slots=True)
class _RunningPart:
    """A running part, the counts of processed experiments and failures before it, and what its
    experiments have measured, if it may be repeated until that is certain."""

    part: Part
    processed: int
    failures: int
    rows: list[Row] = field(default_factory=list)


class StepExecutor(Protocol):
    """Executes single steps (see controller.Controller)."""

    @property
    def open_experiments(self) -> Sequence[int]: ...

    def remote(self, command: steps.RemoteCommand) -> None: ...

    def wait(self, seconds: float) -> None: ...

    def wait_flows(self, exp: int, timeout_s: float | None) -> None: ...

    def start_flows(self, lead_s: float) -> None: ...

    def process_experiment(self, exp: int, notes: steps.ExperimentNotes) -> Processed: ...

    def interrupt(
        self, reason: str, notes: Mapping[int, steps.ExperimentNotes], *, in_haste: bool
    ) -> Iterator[Processed]: ...


class Executor:
    """Executes the plan of a session, except the parts with the indices `passed`, which earlier
    runs have finished with these experiments, and those that `rounds` does not need. `failures`
    lists what failed, in words."""

    def __init__(
        self,
        session: RunSession,
        hosts: StepExecutor,
        results: Store,
        *,
        passed: Mapping[int, Sequence[int]],
        rounds: Rounds,
    ) -> None:
        self.failures: list[str] = []
        self._session = session
        self._plan = session.plan
        self._hosts = hosts
        self._results = results
        self._watcher = session.watcher
        self._passed = passed
        self._rounds = rounds
        self._earlier = {exp for experiments in passed.values() for exp in experiments}
        # Settings of skipped parts that have not been made again yet.
        self._owed = Standing[steps.Configure]()
        self._keeps = not session.ground.is_built
        # The process that started a failed part repeats it, in a new guest.
        self._on_failure = CONTINUE if session.is_part else session.request.on_failure
        self._steps: Iterator[steps.Step] = iter(())
        self._open: list[_RunningPart] = []
        # Numbers and statuses only: a long run keeps them all.
        self._processed: list[tuple[int, str]] = []
        # The experiment of claims: the one processed last.
        self._columns: Mapping[int, Mapping[str, str]] = {}
        head = session.plan.head
        # The numbers of a part are taken already.
        self._counter = head.last_number if session.is_part else head.counter
        self._last = head.last_number
        # The attempts of failed parts.
        self._attempts: dict[int, int] = {}
        self._numbered = {command.exp for command in head.numbered}

    def run(self) -> None:
        """Execute all steps. StoppedError if something failed and the run must then end."""
        self._steps = self._plan.steps()
        # A repeated part adds steps.
        while (step := next(self._steps, None)) is not None:
            self._carry_out(step)
        # END skips numbers, so that the next run begins a new ten.
        if self._last > self._counter:
            self._results.take(self._last)

    def interrupt(self, reason: str, *, in_haste: bool = False) -> None:
        """End everything now and keep what was measured: each open experiment stays partial. If
        `in_haste`, skip what takes long."""
        notes = {}
        left = set(self._hosts.open_experiments)
        while left:
            step = next(self._steps, None)
            if step is None:
                break
            if isinstance(step, steps.ProcessExperiment) and step.exp in left:
                notes[step.exp] = step.notes
                left.discard(step.exp)
        for processed in self._hosts.interrupt(reason, notes, in_haste=in_haste):
            self._add(processed)

    def _carry_out(self, step: steps.Step) -> None:
        match step:
            case steps.RemoteCommand():
                self._make_up(step)
                self._take(step.exp)
                self._hosts.remote(step)
            case steps.Wait(seconds=seconds):
                self._hosts.wait(seconds)
            case steps.WaitFlows(exp=exp, timeout_s=timeout_s):
                self._hosts.wait_flows(exp, timeout_s)
            case steps.StartFlows(lead_s=lead_s):
                self._hosts.start_flows(lead_s)
            case steps.ProcessExperiment(exp=exp, notes=notes):
                self._add(self._hosts.process_experiment(exp, notes))
                self._stop_at_failure()
            case steps.Claim():
                self._judge(step)
            case steps.Echo(text=text):
                self._watcher.echo(text)
            case steps.EnterPart(index=index):
                self._enter(index)
            case steps.LeavePart(whole=whole):
                self._leave(whole=whole)

    def _take(self, exp: int) -> None:
        """Take the number of an experiment from the counter, if it comes from there."""
        if self._counter < exp <= self._plan.head.last_number and exp not in self._numbered:
            self._results.take(exp)
            self._counter = exp

    def _add(self, processed: Processed) -> None:
        self._processed.append((processed.exp, processed.status))
        self._columns = {processed.exp: processed.columns}
        if self._open and self._open[0].part.until is not None:
            self._open[0].rows.append((processed.status, processed.columns))
        if processed.status != OK:
            self.failures.append(f"experiment {processed.exp}: {processed.status}")

    def _judge(self, claim: steps.Claim) -> None:
        # The parser of expressions takes a moment to import, and is rarely needed.
        from netesto.language.claims import falsehood

        # Its cell may be skipped.
        said = falsehood(claim, self._columns.get(claim.exp, {}))
        if said:
            self.failures.append(said)
            place, _, text = said.partition(": ")
            self._watcher.warn(f"{place}: assertion failed: {text}")
            self._stop_at_failure()

    def _stop_at_failure(self) -> None:
        if self.failures and self._on_failure.stops:
            raise StoppedError(f"the run ends here: {self.failures[-1]}")

    # ---- parts ---------------------------------------------------------------------------

    def _enter(self, index: int) -> None:
        part = self._plan.part(index)
        if index not in self._passed and self._rounds.needs(part):
            self._open.append(_RunningPart(part, len(self._processed), len(self.failures)))
            return
        # They belong to the surrounding part, too.
        self._processed += [(exp, OK) for exp in self._passed.get(index, ())]
        for step in self._steps:
            if isinstance(step, steps.LeavePart) and step.index == index:
                return
            # Real hosts still have what they keep; those of a lab are new.
            if isinstance(step, steps.Configure) and not (self._keeps and step.kept):
                self._owed.add(step, step.settings, step)

    def _make_up(self, command: steps.RemoteCommand) -> None:
        """Before a command, make the settings that it would find if no part were skipped."""
        if isinstance(command, steps.Configure):
            self._owed.replace(command)
        owed, self._owed = self._owed, Standing()
        for each in owed:
            self._watcher.say(f"set again, as finished cells left it: {each.name} host={each.host}")
            self._hosts.remote(each)

    def _leave(self, *, whole: bool) -> None:
        left = self._open.pop()
        part, own = left.part, self._processed[left.processed :]
        if not whole or part.index is None:
            return
        if part.cell and all(status == OK for _, status in own):
            experiments = [exp for exp, _ in own]
            self._results.note_cell(
                self._session.name,
                part.cell,
                experiments,
                part_hash=self._session.hash_of(part),
                run="" if self._earlier.intersection(experiments) else self._session.record.name,
            )
        if part.within is None and self.failures[left.failures :] and self._retry(left):
            return
        self._rounds.add(part, left.rows)

    def _retry(self, failed: _RunningPart) -> bool:
        """Repeat a part, with numbers after all others, if permitted."""
        part = failed.part
        assert part.index is not None, "the rest is not left"
        attempt = self._attempts.get(part.index, 1) + 1
        if attempt > self._on_failure.retries + 1:
            return False
        failures = "; ".join(self.failures[failed.failures :])
        self._watcher.warn(f"{part.name}: {failures}; running it again")
        del self.failures[failed.failures :]
        # The interpreter takes a moment to import, and is rarely needed.
        from netesto.language import planner

        again = planner.again(self._plan, part, attempt=attempt, before=self._last)
        late = dict.fromkeys(f"{each.name} host={each.host}" for each in _late(again.steps()))
        if late:
            self._watcher.warn(
                f"{part.name}: hosts still have what it set only after its first flows:"
                f" {', '.join(late)}"
            )
        self._attempts[part.index] = attempt
        # As many as this attempt takes: NEXT_COUNTER skips others than before.
        self._last += only_part(again).numbers
        self._results.take(self._last)
        self._counter = self._last
        self._steps = itertools.chain(_all_of(again), self._steps)
        return True


def _all_of(plan: Plan) -> Iterator[steps.Step]:
    """Its steps; it is closed behind them."""
    with plan:
        yield from plan.steps()


def _late(made: Iterable[steps.Step]) -> Iterator[steps.Configure]:
    """The settings of a part that its first flows did not have, and those of its repetition do."""
    known: set[tuple[str, str]] = set()
    has_flows = False
    for step in made:
        if isinstance(step, steps.Configure):
            host, *things = step.target
            own = {(host, thing) for thing in things}
            if has_flows and not own <= known:
                yield step
            known |= own
        has_flows = has_flows or isinstance(step, steps.DoClient)
