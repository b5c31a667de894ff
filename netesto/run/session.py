"""What every run has: its results folder held, its record kept, the cells it passes over."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from netesto.controller import resume, wallclock
from netesto.controller.wallclock import Stopwatch
from netesto.errors import NetestoError
from netesto.lab import guest
from netesto.language.parts import Rehearsal
from netesto.language.plan import Warned
from netesto.language.resume import PassedOver
from netesto.results import runs
from netesto.results.fields import Fields
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.run import partfolders, settings, status
from netesto.run.request import Request, Watcher
from netesto.run.settings import Script


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: its exit status, what failed, and where it was. `is_told`: a guest has said
    so already."""

    status: int
    failures: tuple[str, ...] = ()
    ground: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)
    out: Path | None = None
    is_told: bool = False

    def with_failures(self, failures: Sequence[str]) -> "End":
        """The same end, with what had failed before."""
        if not failures:
            return self
        outcome = status.FAILED if self.status == status.OK else self.status
        return replace(self, status=outcome, failures=(*failures, *self.failures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What is known of a run before it begins. `fields` are the columns of exp.csv, `ground` is
    where it happens."""

    request: Request
    script: Script
    rehearsal: Rehearsal
    record: RunRecord
    fields: Fields
    ground: str
    out: Path
    watcher: Watcher

    def held(self, carry_out: Callable[["Session", Store], End]) -> End:
        """Carry the run out while its results folder is held, and keep its record. Errors before
        the first experiment are raised."""
        end = End(status.FAILED)
        with Store(self.out) as results:
            self._tidy(results)
            own = replace(self, fields=results.take_fields(self.fields))
            stopwatch = Stopwatch(self.out / ".wall", ground=guest.ground_inside() or "")
            results.write_run(self.record)
            if not (self.request.part or settings.are_ours(self.fields)):
                self.watcher.say(f"columns of exp.csv: {self.fields.source}")
            self.watcher.start()
            try:
                passed = own.pass_over(results)
                end = replace(carry_out(own, results).with_failures(passed), out=self.out)
            except KeyboardInterrupt:
                end = End(status.INTERRUPTED)
                raise
            except NetestoError as error:
                end = End(status.of(error), (error.message,))
                raise
            finally:
                self.watcher.stop()
                results.write_run(self._ended(end, stopwatch))
        return end

    def _tidy(self, results: Store) -> None:
        """What killed runs left in the results folder."""
        for said in partfolders.take_over_left(results):
            self.watcher.warn(said)
        missing = results.without_rows()
        if missing:
            numbers = ", ".join(map(str, missing))
            self.watcher.warn(
                f"experiments without rows in exp.csv: {numbers};"
                f" netesto report {results.folder} adds them"
            )

    def pass_over(self, results: Store) -> list[str]:
        """Say which cells `--resume` passes over; what is claimed of them and false."""
        if not self.request.resume or self.request.part:
            return []
        claimable = settings.claimable(self.fields)
        warn = self.watcher.warn
        passed = PassedOver(resume.earlier(results, self.script.name, claimable, warn=warn))
        self.script.run(self.request.settings.interpreter(passed))
        failures = []
        for each in passed.cells:
            self.watcher.say(f"passed over {each.name}: finished by an earlier run")
            if how := resume.otherwise(results, self.script.name, each.cell, each.flows):
                warn(f"{each.name} was measured with {how}; without --resume it is run again")
            failures += [f"{each.name}, of an earlier run: {text}" for text in each.failures]
        for failure in failures:
            self.watcher.warn(f"assertion failed: {failure}")
        return failures

    def tell_warnings(self) -> None:
        """What looks wrong in the script, before it takes time. A part's was told by the run."""
        if not self.request.part:
            tell(self.watcher, self.rehearsal.warnings)

    def _ended(self, end: End, stopwatch: Stopwatch) -> RunRecord:
        speed = stopwatch.speed()
        return replace(
            self.record,
            simulated_time=guest.ground_inside() == wallclock.SIMULATED,
            wall_s=stopwatch.wall_s(),
            speed_up=None if speed is None else speed.speed_up,
            ended=runs.utc(time.time()),
            exit_status=end.status,
            failures=end.failures,
            experiments=tuple(self.watcher.experiments),
            ground=end.ground,
            hosts=dict(end.hosts),
        )


def tell(watcher: Watcher, warnings: Iterable[Warned]) -> None:
    """Warn the author of a script."""
    for warned in warnings:
        watcher.warn(f"{warned.place.file}:{warned.place.line}: {warned.message}")
