"""`netesto run --jobs N`: the parts of a script side by side, each in a guest of its own.

    this process ─┬─ netesto job PART/job ── guest ── one cell of the SWEEP
                  ├─ netesto job PART/job ── guest ── another one
                  └─ …

Each writes to its own results folder, `runs/RUN.parts/PART` in the run's, which contains its job.
The results of a part are taken over when all earlier parts are done, so that they do not depend on
how many run at once. If this process is killed, the others end, and the next run takes over their
results.
"""

import asyncio
import os
import shutil
import signal
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from netesto.language.plan import Part
from netesto.results import csvfile, durable, runs, store, tablerows
from netesto.results.evidence import OK
from netesto.results.manifest import SettingRecord
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.run import partfolders, status
from netesto.run.drawer import Index
from netesto.run.earlier import columns_in
from netesto.run.rounds import Rounds, Row
from netesto.run.session import RunEnd, RunSession
from netesto.run.settings import claimable
from netesto.system import interrupts, process

# The memory of a guest with a lab of some hosts; a long fat path takes more.
GUEST_BYTES = 1_500_000_000

# How much to show of the output of a part that failed without a record.
_LAST_LINES = 8

# A part with this exit status means that the others would fail, too.
_HOPELESS = frozenset({status.WRONG, status.NOT_READY, status.INTERRUPTED})


def default_jobs() -> int:
    """As many guests as this machine has processors, and memory for."""
    room = psutil.virtual_memory().available // GUEST_BYTES
    return max(1, min(len(os.sched_getaffinity(0)), room))


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A part that is to run, and its own folder."""

    part: Part
    folder: Path


class Guests(Protocol):
    """Runs parts."""

    def command(self, task: Task) -> Sequence[str]:
        """A command that runs a part, whose folder exists."""

    def again(self, part: Part, *, before: int) -> Part:
        """The next attempt at a failed part; its experiments have the numbers after `before`."""


class SideBySide:
    """Parts of the script of a session, `jobs` at a time; `results` holds the results folder."""

    def __init__(
        self,
        session: RunSession,
        parts: Sequence[Part],
        guests: Guests,
        results: Store,
        *,
        jobs: int,
        rounds: Rounds,
    ) -> None:
        self._session = session
        self._run = session.record.name
        self._folder = partfolders.of_run(results.folder, self._run)
        self._tasks = [self._task(part) for part in parts]
        self._guests = guests
        self._results = results
        self._watcher = session.watcher
        self._jobs = jobs
        self._rounds = rounds
        # Tasks that wait to begin, and those that turned out to be unnecessary.
        self._waiting: OrderedDict[Task, None] = OrderedDict.fromkeys(self._tasks)
        self._omitted: set[Task] = set()
        # Set when a task has ended.
        self._progress = asyncio.Event()
        self._on_failure = session.request.on_failure
        self._index = Index() if session.request.pages else None
        self._running: dict[str, process.Job] = {}
        self._ended: dict[Task, int] = {}
        self._killed: dict[Task, str] = {}
        self._retried: set[Task] = set()
        # How many tasks, from the first on, have been taken over.
        self._taken = 0
        self._statuses: list[int] = []
        self._failures: list[str] = []
        self._record: RunRecord | None = None
        self._settings: dict[str, tuple[SettingRecord, ...]] = {}
        self._began_s = time.monotonic()
        self._is_ending = False
        self._was_interrupted = False
        self._requested = signal.SIGINT

    def run(self) -> RunEnd:
        """Until all have ended, or one shows that the others would fail, too."""
        durable.make_folder(self._folder)
        with partfolders.held(self._folder) as lock:
            try:
                with interrupts.handed_over() as requests:
                    asyncio.run(self._all(lock, requests))
            finally:
                # Ended parts are kept, even if an earlier one has not ended.
                for task in self._tasks[self._taken :]:
                    if task in self._ended:
                        self._take_over(task)
        shutil.rmtree(self._folder, ignore_errors=True)
        return RunEnd(
            self._status(),
            failures=tuple(self._failures),
            ground=self._record.ground if self._record else "",
            hosts=self._record.hosts if self._record else {},
            settings=self._settings,
        )

    def _task(self, part: Part) -> Task:
        place = partfolders.REST if part.index is None else str(part.index)
        return Task(
            part, self._folder / (place if part.attempt == 1 else f"{place}-{part.attempt}")
        )

    def _status(self) -> int:
        if self._was_interrupted:
            return status.INTERRUPTED
        hopeless = (each for each in self._statuses if each in _HOPELESS)
        return next(hopeless, max(self._statuses, default=status.OK))

    # ---- running -------------------------------------------------------------------------

    async def _all(self, lock: int, requests: interrupts.Requests) -> None:
        loop = asyncio.get_running_loop()
        for number in interrupts.not_ignored():
            loop.add_signal_handler(number, self._interrupt, number, requests)
        # Each on its own processor, as long as there are enough: a guest uses only one.
        cpus = sorted(os.sched_getaffinity(0))
        workers = [
            asyncio.create_task(self._work(lock, cpus[place % len(cpus)]))
            for place in range(self._jobs)
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            # If one cannot continue (for example because of a full disk), the others end early.
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _interrupt(self, number: signal.Signals, requests: interrupts.Requests) -> None:
        """Every part keeps its measurements; at a second Ctrl-C its guest is ended immediately."""
        if self._was_interrupted and number != signal.SIGINT:
            return
        self._is_ending = self._was_interrupted = requests.is_shutting_down = True
        self._requested = number
        for job in self._running.values():
            # The same signal, because parts inherit our ignored signals (`netesto run … &`).
            job.send(number)

    async def _next(self) -> Task | None:
        """The next task that is needed, as soon as that is known; None if there is none."""
        while not self._is_ending:
            progress = self._progress
            for task in self._waiting:
                is_needed = self._rounds.needs(task.part)
                if is_needed is not None:
                    break
            else:
                if not self._waiting:
                    return None
                # Another worker carries out what it depends on.
                await progress.wait()
                continue
            del self._waiting[task]
            if is_needed:
                return task
            self._omitted.add(task)
        return None

    async def _work(self, lock: int, cpu: int) -> None:
        while (task := await self._next()) is not None:
            attempt: Task | None = task
            while attempt is not None:
                code = await self._carry_out(attempt, lock, cpu)
                if code in _HOPELESS or (code and self._on_failure.stops):
                    self._is_ending = True
                again = self._again(attempt, code)
                self._ended[attempt] = code
                if again is None:
                    self._rounds.add(attempt.part, self._measured(attempt))
                self._take_over_in_order()
                self._show()
                attempt = again
            self._progress.set()
            self._progress = asyncio.Event()

    def _again(self, task: Task, code: int) -> Task | None:
        """The repetition of a failed task, with new numbers; None if it is not repeated."""
        part = task.part
        if code != status.FAILED or self._is_ending or part.attempt > self._on_failure.retries:
            return None
        before = self._results.counter()
        another = self._guests.again(part, before=before)
        # As many as this attempt takes: NEXT_COUNTER skips others than before.
        self._results.reserve(before, before + another.numbers)
        again = self._task(another)
        self._tasks.insert(self._tasks.index(task) + 1, again)
        self._retried.add(task)
        return again

    async def _carry_out(self, task: Task, lock: int, cpu: int) -> int:
        durable.make_folder(task.folder)
        if task.part.cell:
            self._results.note_try(
                self._session.name, task.part.cell, part_hash=self._session.hash_of(task.part)
            )
        job = await process.start(
            process.tethered(["taskset", "--cpu-list", str(cpu), *self._guests.command(task)]),
            stdout=task.folder / "stdout",
            stderr=task.folder / "stderr",
            pass_fds=[lock],
        )
        self._running[task.part.name] = job
        if self._was_interrupted:
            # While it was being started.
            job.send(self._requested)
        self._show()
        try:
            code = await job.wait()
        finally:
            del self._running[task.part.name]
            await job.end()
        if code >= 0:
            return code
        if self._was_interrupted:
            # Before it could treat that as Ctrl-C.
            return status.INTERRUPTED
        self._killed[task] = f"it was ended by {signal.Signals(-code).name}"
        return status.FAILED

    def _show(self) -> None:
        done = sum(task.part.seconds for task in self._ended)
        passed_s = time.monotonic() - self._began_s
        left_s = None
        if done:
            planned = (task for task in self._tasks if task not in self._omitted)
            left_s = passed_s * (sum(task.part.seconds for task in planned) / done - 1)
        self._watcher.parts(
            list(self._running),
            done=len(self._ended),
            of=len(self._tasks) - len(self._omitted),
            left_s=left_s,
        )

    # ---- taking over ---------------------------------------------------------------------

    def _take_over_in_order(self) -> None:
        while self._taken < len(self._tasks):
            task = self._tasks[self._taken]
            if task in self._ended:
                self._take_over(task)
            elif task not in self._omitted:
                break
            self._taken += 1

    def _measured(self, task: Task) -> list[Row]:
        """What the experiments of a part have measured, if that decides about others."""
        until, folder = task.part.until, task.folder
        if until is None:
            return []
        columns_of = columns_in(folder, claimable(self._session.fields), until.columns)
        found: list[Row] = []
        for exp, rows in sorted(csvfile.by_experiment(csvfile.read(folder / store.TABLE)).items()):
            outcome = tablerows.status_of(rows[0], folder / str(exp)) or OK
            found.append((outcome, columns_of(exp) if outcome == OK else {}))
        return found

    def _take_over(self, task: Task) -> None:
        """Take over the results and messages of a part."""
        for line in _lines(task.folder / "stdout"):
            self._watcher.echo(line)
        said = _lines(task.folder / "stderr")
        for line in said:
            kind, _, text = line.partition(": ")
            if kind == "warning":
                self._watcher.warn(f"{task.part.name}: {text}")
        code = self._ended[task]
        # None if it did not come to that.
        record = runs.read(task.folder, self._run)
        self._record = self._record or record
        told = list(record.failures) if record is not None else []
        for host, settings in (record.settings if record is not None else {}).items():
            self._settings[host] = (*self._settings.get(host, ()), *settings)
        if self._was_interrupted and record is None:
            # It ended before it could treat that as Ctrl-C.
            code = status.INTERRUPTED
        if code not in {status.OK, status.INTERRUPTED} and not told:
            told = [self._killed.get(task) or _last_words(said) or f"exit status {code}"]
        if task in self._retried:
            self._watcher.warn(f"{task.part.name}: {'; '.join(told)}; it was run again")
        else:
            self._failures += [f"{task.part.name}: {failure}" for failure in told]
            self._statuses.append(code)
        rows = partfolders.take_over(self._results, task.folder)
        # If hurried, the index is drawn once, at the end.
        if rows and self._index and not self._was_interrupted:
            self._index.update(self._results.folder)
        for exp, own in csvfile.by_experiment(rows).items():
            folder = self._results.whole(exp)
            status_there = tablerows.status_of(own[0], folder) or OK
            self._watcher.experiment_ended(exp, status_there, own, str(folder / "exp.html"))


def _last_words(said: Sequence[str]) -> str:
    """The last output of a part that failed without a record: its error, or the end of its
    output."""
    errors = [at for at, line in enumerate(said) if line.startswith("netesto: ")]
    begin = errors[-1] if errors else len(said)
    words = said[begin:] or said[-_LAST_LINES:]
    return "\n".join(words).removeprefix("netesto: ")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
