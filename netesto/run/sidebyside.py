"""`netesto run --jobs N`: the parts of a script side by side, each in a guest of its own.

    this process ─┬─ netesto job PART/job ── guest ── one cell of the SWEEP
                  ├─ netesto job PART/job ── guest ── another one
                  └─ …

Each writes to its own results folder, `runs/RUN.parts/PART` in the run's, which contains its job.
The results of a part are taken over when all earlier parts are done, so that they do not depend on
how many run at once. If this process is killed, the others end, and the next run takes over their
results.

A study has some ten thousand parts: what one of them takes here does not depend on how many there
are.
"""

import asyncio
import heapq
import math
import os
import shutil
import signal
import time
from bisect import insort
from collections import defaultdict
from collections.abc import Hashable, Sequence
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
from netesto.run.workers import Task, Workers
from netesto.system import interrupts

# The memory of a guest with a lab of some hosts; a long fat path takes more.
GUEST_BYTES = 1_500_000_000

# How much to show of the output of a part that failed without a record.
_LAST_LINES = 8

# Results are taken over together if they come faster: a disk takes some ms to keep a file.
_PAUSE_S = 0.2

# A part with this exit status means that the others would fail, too.
_HOPELESS = frozenset({status.WRONG, status.NOT_READY, status.INTERRUPTED})


def default_jobs() -> int:
    """As many guests as this machine has processors, and memory for."""
    room = psutil.virtual_memory().available // GUEST_BYTES
    return max(1, min(len(os.sched_getaffinity(0)), room))


class Guests(Protocol):
    """Plan parts."""

    def job(self, task: Task) -> Path:
        """Write the job of a part, whose folder exists, into it; its path."""

    def again(self, part: Part, *, before: int) -> Part:
        """The next attempt at a failed part; its experiments have the numbers after `before`."""


class SideBySide:
    """Parts of the script of a session, which `workers` carry out; `results` holds the results
    folder."""

    def __init__(
        self,
        session: RunSession,
        parts: Sequence[Part],
        guests: Guests,
        results: Store,
        *,
        workers: Workers,
        rounds: Rounds,
    ) -> None:
        self._session = session
        self._run = session.record.name
        self._folder = partfolders.of_run(results.folder, self._run)
        self._tasks = [self._task(part) for part in parts]
        self._guests = guests
        self._results = results
        self._watcher = session.watcher
        self._workers = workers
        self._rounds = rounds
        # Tasks that wait to begin, a heap of how urgent each is and its place in the script; those
        # of cells whose earlier repetitions decide about them, and those that turned out to be
        # unnecessary.
        self._places = {task: place for place, task in enumerate(self._tasks)}
        self._waiting = [(-math.inf, place, task) for task, place in self._places.items()]
        self._budget_s = session.request.budget_s
        self._undecided = defaultdict[Hashable, list[Task]](list)
        self._omitted: set[Task] = set()
        # Set when a task has ended; and when results may be taken over.
        self._progress = asyncio.Event()
        self._has_results = asyncio.Event()
        self._on_failure = session.request.on_failure
        self._index = Index() if session.request.pages else None
        # The names of tasks that run, in the order of their begin.
        self._running: dict[str, None] = {}
        self._ended: dict[Task, int] = {}
        self._killed: dict[Task, str] = {}
        self._retried: set[Task] = set()
        # How many tasks, from the first on, have been taken over.
        self._taken_count = 0
        # The estimated durations of all tasks but those omitted, and of those that have ended.
        self._planned_s = sum(part.seconds for part in parts)
        self._done_s = 0.0
        self._statuses: list[int] = []
        self._failures: list[str] = []
        self._record: RunRecord | None = None
        self._settings = defaultdict[str, list[SettingRecord]](list)
        self._began_s = time.monotonic()
        self._is_ending = False
        self._was_interrupted = False

    def run(self) -> RunEnd:
        """Until all have ended, or one shows that the others would fail, too."""
        durable.make_folder(self._folder)
        with partfolders.held(self._folder) as lock:
            try:
                with interrupts.handed_over() as requests:
                    asyncio.run(self._all(lock, requests))
            finally:
                # Ended parts are kept, even if an earlier one has not ended.
                self._take_over(
                    [task for task in self._tasks[self._taken_count :] if task in self._ended]
                )
        shutil.rmtree(self._folder, ignore_errors=True)
        return RunEnd(
            self._status(),
            failures=tuple(self._failures),
            ground=self._record.ground if self._record else "",
            hosts=self._record.hosts if self._record else {},
            settings={host: tuple(settings) for host, settings in self._settings.items()},
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
        async with self._workers.connected():
            at_once = min(self._workers.places, len(self._tasks))
            places = {asyncio.create_task(self._work(lock)) for _ in range(at_once)}
            others = {
                asyncio.create_task(self._adopt()),
                asyncio.create_task(self._grow(lock, places)),
            }
            try:
                while places:
                    done, _ = await asyncio.wait(
                        places | others, return_when=asyncio.FIRST_COMPLETED
                    )
                    for each in done:
                        each.result()
                    places -= done
                    others -= done
            finally:
                # If one cannot continue (for example because of a full disk), the others end early.
                for each in places | others:
                    each.cancel()
                await asyncio.gather(*places, *others, return_exceptions=True)

    async def _grow(self, lock: int, places: set[asyncio.Task[None]]) -> None:
        """Use places that come later."""
        while more := await self._workers.more():
            places.update(asyncio.create_task(self._work(lock)) for _ in range(more))

    def _interrupt(self, number: signal.Signals, requests: interrupts.Requests) -> None:
        """Every part keeps its measurements; at a second Ctrl-C its guest is ended immediately."""
        if self._was_interrupted and number != signal.SIGINT:
            return
        self._is_ending = self._was_interrupted = requests.is_shutting_down = True
        self._workers.interrupt(number)

    async def _next(self) -> Task | None:
        """The next task that is needed, as soon as that is known; None if there is none."""
        while not self._is_ending:
            if self._waiting:
                urgency, _, task = heapq.heappop(self._waiting)
                if urgency != self._urgency(task):
                    # Its cell was measured meanwhile.
                    self._await(task)
                    continue
                is_late = self._is_too_late(task.part)
                is_needed = False if is_late else self._rounds.needs(task.part)
                if is_needed:
                    return task
                if is_needed is None:
                    insort(self._undecided[_cell(task.part)], task, key=_repetition)
                else:
                    self._omitted.add(task)
                    self._planned_s -= task.part.seconds
                    self._look_again(task.part)
            elif any(self._undecided.values()):
                # Another worker carries out what they depend on.
                await self._progress.wait()
            else:
                return None
        return None

    def _look_again(self, part: Part) -> None:
        """Whether the next repetition of this cell is needed may be known now."""
        if undecided := self._undecided[_cell(part)]:
            self._await(undecided.pop(0))

    def _await(self, task: Task) -> None:
        heapq.heappush(self._waiting, (self._urgency(task), self._places[task], task))

    def _urgency(self, task: Task) -> float:
        """The lower, the sooner a task begins: with a budget, that of the widest interval."""
        return -math.inf if self._budget_s is None else -self._rounds.width(task.part)

    def _is_too_late(self, part: Part) -> bool:
        """Whether the budget is used up that a part would need."""
        if self._budget_s is None or not self._rounds.is_optional(part):
            return False
        return time.monotonic() - self._began_s >= self._budget_s

    async def _work(self, lock: int) -> None:
        while (task := await self._next()) is not None:
            attempt: Task | None = task
            while attempt is not None:
                code = await self._carry_out(attempt, lock)
                if code in _HOPELESS or (code and self._on_failure.stops):
                    self._is_ending = True
                again = self._again(attempt, code)
                self._ended[attempt] = code
                self._done_s += attempt.part.seconds
                if again is None:
                    self._rounds.add(attempt.part, self._measured(attempt))
                    self._look_again(attempt.part)
                self._has_results.set()
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
        self._planned_s += another.seconds
        self._retried.add(task)
        return again

    async def _carry_out(self, task: Task, lock: int) -> int:
        durable.make_folder(task.folder)
        if task.part.cell:
            self._results.note_try(
                self._session.name, task.part.cell, part_hash=self._session.hash_of(task.part)
            )
        self._running[task.part.name] = None
        self._show()
        try:
            end = await self._workers.carry_out(task, self._guests.job(task), lock)
        finally:
            del self._running[task.part.name]
        if end.reason and self._was_interrupted:
            # Before it could treat that as Ctrl-C.
            return status.INTERRUPTED
        if end.reason:
            self._killed[task] = end.reason
        return end.status

    def _show(self) -> None:
        left_s = None
        if self._done_s:
            passed_s = time.monotonic() - self._began_s
            left_s = passed_s * max(0.0, self._planned_s / self._done_s - 1)
        self._watcher.parts(
            list(self._running),
            done=len(self._ended),
            of=len(self._tasks) - len(self._omitted),
            left_s=left_s,
        )

    # ---- taking over ---------------------------------------------------------------------

    async def _adopt(self) -> None:
        """Take over results as they come; those that come fast together."""
        while await self._has_results.wait():
            self._has_results.clear()
            self._take_over_in_order()
            await asyncio.sleep(_PAUSE_S)

    def _take_over_in_order(self) -> None:
        """Take over all parts that are next."""
        found, end = [], self._taken_count
        while end < len(self._tasks):
            task = self._tasks[end]
            if task in self._ended:
                found.append(task)
            elif task not in self._omitted:
                break
            end += 1
        self._take_over(found)
        self._taken_count = end

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

    def _take_over(self, tasks: Sequence[Task]) -> None:
        """Take over the results and messages of parts."""
        if not tasks:
            return
        for task in tasks:
            self._take_over_messages(task)
        rows = partfolders.take_over(self._results, [task.folder for task in tasks])
        # If hurried, the index is drawn once, at the end.
        if rows and self._index and not self._was_interrupted:
            self._index.update(self._results.folder)
        for exp, own in csvfile.by_experiment(rows).items():
            folder = self._results.whole(exp)
            status_there = tablerows.status_of(own[0], folder) or OK
            self._watcher.experiment_ended(exp, status_there, own, str(folder / "exp.html"))

    def _take_over_messages(self, task: Task) -> None:
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
            self._settings[host] += settings
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


def _cell(part: Part) -> Hashable:
    """What the repetitions of a cell have in common, if some of them may be omitted."""
    return part.until.key(part.cell) if part.until is not None else None


def _repetition(task: Task) -> int:
    return task.part.repetition


def _last_words(said: Sequence[str]) -> str:
    """The last output of a part that failed without a record: its error, or the end of its
    output."""
    errors = [at for at, line in enumerate(said) if line.startswith("netesto: ")]
    begin = errors[-1] if errors else len(said)
    words = said[begin:] or said[-_LAST_LINES:]
    return "\n".join(words).removeprefix("netesto: ")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
