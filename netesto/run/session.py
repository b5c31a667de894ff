"""The common part of every run: it holds its results folder and keeps its record."""

import gzip
import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

from netesto import __version__
from netesto.controller.wallclock import Stopwatch
from netesto.errors import NetestoError, repeated, told_place, written_line
from netesto.files import atomic
from netesto.grounds import Ground
from netesto.language.plan import STANDARD_INPUT, Part, Plan, Warned
from netesto.model import EARLIER_RUN
from netesto.results import durable, runs
from netesto.results.certainty import CellEnd
from netesto.results.fields import Fields
from netesto.results.manifest import SettingRecord
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.run import drawer, partfolders, settings, status
from netesto.run.request import RunRequest, Watcher
from netesto.system import proc


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run: its exit status, its failures, its ground, and the settings that are in no
    manifest (RunRecord.settings). `certainty` is as in the record. `out` is its results folder;
    None if another process reports it."""

    status: int
    failures: tuple[str, ...] = ()
    ground: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, tuple[SettingRecord, ...]] = field(default_factory=dict)
    certainty: tuple[CellEnd, ...] = ()
    out: Path | None = None

    def with_failures(self, failures: Sequence[str]) -> "RunEnd":
        """The same end, with earlier failures."""
        if not failures:
            return self
        outcome = status.FAILED if self.status == status.OK else self.status
        return replace(self, status=outcome, failures=(*failures, *self.failures))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSession:
    """The data of a run before it begins. `fields` are the columns of exp.csv, `ground` is where it
    runs."""

    request: RunRequest
    plan: Plan
    record: RunRecord
    fields: Fields
    ground: Ground
    out: Path
    watcher: Watcher
    # The hash of the guest's kernel; "" without a guest.
    kernel_hash: str = ""

    def hash_of(self, part: Part) -> str:
        """A hash of all that decides the results of a part here, also of the kernel of a guest."""
        if not self.kernel_hash:
            return part.hash
        return hashlib.sha256(f"{part.hash} {self.kernel_hash}".encode()).hexdigest()

    @property
    def is_part(self) -> bool:
        """Whether this is a part of a script; the process that started it reports for all."""
        return not self.plan.head.sources

    @property
    def name(self) -> str:
        """The script's name in results: that of its file."""
        return script_name(self.plan.head.script)

    def keep_plan(self) -> Path:
        """Keep the plan with the record of the run; its path."""
        path = self.out / "runs" / f"{self.record.name}.plan.gz"
        durable.make_folder(path.parent)
        with (
            durable.writing(path),
            atomic.replaced(path) as file,
            # The same plan gives the same bytes. Its lines are so similar that the lowest level
            # compresses them to a twentieth.
            gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as compressed,
        ):
            self.plan.write(cast("BinaryIO", compressed))
        return path

    def held(self, carry_out: Callable[["RunSession", Store], RunEnd]) -> RunEnd:
        """Execute the run while its results folder is held, and keep its record. Errors before the
        first experiment are raised."""
        end = RunEnd(status.FAILED)
        with Store(self.out) as results:
            self._tidy(results)
            own = replace(self, fields=results.take_fields(self.fields))
            stopwatch = Stopwatch(self.out / ".wall", is_simulated=proc.is_in_simulated_time())
            results.write_run(self.record)
            if not (self.is_part or settings.are_ours(self.fields)):
                self.watcher.say(f"columns of exp.csv: {self.fields.source}")
            self.watcher.start()
            try:
                if proc.ground_inside() is None:
                    self.keep_plan()
                end = carry_out(own, results)
                results.check_untouched()
                # Of earlier runs, others have failed.
                left = [text for text in self.watcher.differences if EARLIER_RUN not in text]
                end = end.with_failures(left)
            except KeyboardInterrupt:
                end = RunEnd(status.INTERRUPTED)
                raise
            except NetestoError as error:
                end = RunEnd(status.of(error), (error.message,))
                raise
            finally:
                self.watcher.stop()
                results.order()
                results.write_run(self._ended(end, stopwatch))
                if self.request.pages and proc.ground_inside() is None:
                    # Differences left on hosts are known after the last experiment.
                    drawer.finish_index(
                        self.out, is_changed=bool(self.watcher.differences or end.certainty)
                    )
        return end if self.is_part else replace(end, out=self.out)

    def _tidy(self, results: Store) -> None:
        """Handle leftovers of killed runs in the results folder."""
        for said in partfolders.take_over_left(results):
            self.watcher.warn(said)
        missing = results.without_rows()
        if missing:
            numbers = ", ".join(map(str, missing))
            self.watcher.warn(
                f"experiments without rows in exp.csv: {numbers};"
                f" netesto report {results.folder} adds them"
            )

    def _ended(self, end: RunEnd, stopwatch: Stopwatch) -> RunRecord:
        return replace(
            self.record,
            simulated_time=proc.is_in_simulated_time(),
            wall_s=stopwatch.wall_s(),
            speed_up=stopwatch.speed().speed_up,
            ended=runs.utc(time.time()),
            exit_status=end.status,
            failures=end.failures,
            left=tuple(self.watcher.differences),
            experiments=tuple(self.watcher.experiments),
            ground=end.ground,
            hosts=dict(end.hosts),
            settings=dict(end.settings),
            certainty=end.certainty,
        )


def record_of(request: RunRequest, plan: Plan, out: Path) -> RunRecord:
    """The record of a run that begins; inside a guest, the one that was begun outside."""
    versions = {
        "netesto": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
    }
    started = runs.utc(time.time())
    begun = runs.read(out, request.run) if request.run else None
    if begun is not None:
        return replace(begun, started=started, versions=versions)
    head = plan.head
    return RunRecord(
        name=request.run or runs.name_at(time.time()),
        argv=tuple(os.fsencode(word).decode("utf-8", "backslashreplace") for word in sys.argv),
        script_path=head.script,
        script=head.sources[0].text if head.sources else "",
        seed=head.seed,
        started=started,
        sources={file.path: file.text for file in head.sources[1:]},
        versions=versions,
    )


def only_part(alone: Plan) -> Part:
    """The part in a slice of a plan."""
    [part] = [each for each in (*alone.outer, alone.head.rest) if each is not None]
    return part


def script_name(script: str) -> str:
    """A script's name in results: that of its file."""
    if script == STANDARD_INPUT:
        return "stdin"
    name = Path(script).stem
    # A plan may claim any script's name, so its results are in a separate folder.
    return name if name not in {"", ".."} else "plan"


def tell(watcher: Watcher, warnings: Iterable[Warned]) -> None:
    """Warn the author of a script, of what is the same once."""
    alike: dict[str, list[Warned]] = {}
    for warned in warnings:
        alike.setdefault(warned.message, []).append(warned)
    for message, several in alike.items():
        where = told_place(several[0].place, several[0].chain, columns=False)
        lines = [written_line(each.place, each.chain) for each in several]
        watcher.warn(f"{where}: {repeated(message, lines)}")
