"""What every real run has: its results folder held, its record kept, its end told."""

import argparse
import contextlib
import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from netesto import log
from netesto.cli import console, partfolders, printing, settings, status, tables
from netesto.cli.display import Display
from netesto.cli.settings import Script, Settings
from netesto.controller import resume, wallclock
from netesto.controller.wallclock import Stopwatch
from netesto.errors import NetestoError
from netesto.lab import guest
from netesto.language.parts import Rehearsal
from netesto.language.resume import PassedOver
from netesto.results import runs
from netesto.results.fields import Fields
from netesto.results.runs import RunRecord
from netesto.results.store import Store


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: its exit status, what failed, and where it was."""

    status: int
    failures: tuple[str, ...] = ()
    ground: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)

    def with_failures(self, failures: Sequence[str]) -> "End":
        """The same end, with what had failed before."""
        if not failures:
            return self
        outcome = status.FAILED if self.status == status.OK else self.status
        return replace(self, status=outcome, failures=(*failures, *self.failures))


class Session(ABC):
    """One real run, from the results folder to the exit status."""

    def __init__(
        self,
        options: argparse.Namespace,
        *,
        rehearsal: Rehearsal,
        run_record: RunRecord,
        fields: Fields,
        out: Path,
        script: Script,
        settings: Settings,
    ) -> None:
        self.options = options
        self.script = script
        self.settings = settings
        self.rehearsal = rehearsal
        self.record = run_record
        self.out = out
        self.fields = fields
        self.display = Display(console.to_stderr(), plain=options.plain, quiet=options.quiet)

    @abstractmethod
    def carry_out(self, results: Store) -> End:
        """The run itself. Errors before the first experiment are raised."""

    def run(self) -> int:
        """The exit status. Errors before the first experiment are raised."""
        configure_log(self.options.verbose)
        end = End(status.FAILED)
        with Store(self.out) as results:
            self._tidy(results)
            wanted = self.fields
            self.fields = results.take_fields(wanted)
            stopwatch = Stopwatch(self.out / ".wall", ground=guest.ground_inside() or "")
            results.write_run(self.record)
            self._tell_columns(wanted)
            try:
                with self.display:
                    passed = self._pass_over(results)
                    end = self.carry_out(results).with_failures(passed)
            except KeyboardInterrupt:
                end = End(status.INTERRUPTED)
                raise
            except NetestoError as error:
                end = End(status.of(error), (error.message,))
                raise
            finally:
                results.write_run(self._ended(end, stopwatch))
        # Nobody may read it any more; what was measured does not depend on that.
        with contextlib.suppress(BrokenPipeError):
            self._tell(end)
        return end.status

    def _tidy(self, results: Store) -> None:
        """What killed runs left in the results folder."""
        for said in partfolders.take_over_left(results):
            self.display.warn(said)
        missing = results.without_rows()
        if missing:
            numbers = ", ".join(map(str, missing))
            self.display.warn(
                f"experiments without rows in exp.csv: {numbers};"
                f" netesto report {results.folder} adds them"
            )

    def _pass_over(self, results: Store) -> list[str]:
        """Say which cells `--resume` passes over; what is claimed of them and false."""
        if not self.options.resume or self.options.part:
            return []
        claimable = settings.claimable(self.fields)
        warn = self.display.warn
        passed = PassedOver(resume.earlier(results, self.script.name, claimable, warn=warn))
        self.script.run(self.settings.interpreter(passed))
        failures = []
        for each in passed.cells:
            self.display.say(f"passed over {each.name}: finished by an earlier run")
            if how := resume.otherwise(results, self.script.name, each.cell, each.flows):
                warn(f"{each.name} was measured with {how}; without --resume it is run again")
            failures += [f"{each.name}, of an earlier run: {text}" for text in each.failures]
        for failure in failures:
            self.display.warn(f"assertion failed: {failure}")
        return failures

    def tell_warnings(self) -> None:
        """What looks wrong in the script, before it takes time. A part's was told by the run."""
        for warned in () if self.options.part else self.rehearsal.warnings:
            self.display.warn(f"{warned.place.file}:{warned.place.line}: {warned.message}")

    def _tell_columns(self, wanted: Fields) -> None:
        """Which columns there are, where that is not the usual."""
        if self.options.part:
            return
        if not settings.are_ours(wanted):
            self.display.say(f"columns of exp.csv: {wanted.source}")

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
            experiments=tuple(self.display.experiments),
            ground=end.ground,
            hosts=dict(end.hosts),
        )

    def _tell(self, end: End) -> None:
        # What a part has to say is said by the process that started it.
        if self.display.rows and not self.options.quiet and not self.options.part:
            printing.out()
            tables.print_rows(self.display.rows)
            printing.out()
            if len(self.display.pages) == 1:
                printing.out(f"page     {self.display.pages[0]}")
            printing.out(f"results  {self.out}/exp.html")
        for failure in end.failures:
            printing.err(f"netesto: {failure}")
        if end.status == status.INTERRUPTED:
            printing.err("netesto: interrupted; what was measured is kept")


def configure_log(verbosity: int) -> None:
    """Log to stderr as often as -v was given: warnings of the log are on the display already."""
    levels = (logging.ERROR, logging.INFO, logging.DEBUG)
    log.configure(level=levels[min(verbosity, 2)], stream=sys.stderr)
