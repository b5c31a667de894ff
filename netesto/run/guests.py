"""Runs plans in guests: as a whole, or part by part, side by side."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from netesto.errors import GuestError
from netesto.lab import drawing, guest
from netesto.lab.kernels import Kernel
from netesto.lab.watch import STALL_S
from netesto.language.plan import Part, Plan, seed_of
from netesto.results import durable
from netesto.results.store import Store
from netesto.run import earlier, grounds, job, status
from netesto.run.drawer import Drawer
from netesto.run.job import Job
from netesto.run.session import RunEnd, RunSession, only_part, tell
from netesto.run.sidebyside import SideBySide, Task
from netesto.system import interrupts, owned

# The time for pages after a request to end. After a second one there is none.
PAGES_S = 1.0


def run_whole(session: RunSession, kernel: Kernel) -> RunEnd:
    """Run a plan in a guest, which reports how it ended."""
    # Locks of a guest belong to its own kernel, and exclude nobody outside.
    with Store(session.out) as results, owned.folder(guest.base_folder()) as folder:
        # Here, because a guest takes seconds to refuse them.
        results.take_fields(session.fields)
        results.write_run(session.record)
        session.keep_plan()
        path = folder / job.NAME
        _job(session, kernel, session.out).write(path, session.plan)
        return RunEnd(_run_inside(kernel, session, path, seed=session.plan.head.seed))


def run_part(session: RunSession, kernel: Kernel, path: Path) -> RunEnd:
    """Run a part of a plan, the job in a file, in a guest, which reports how it ended."""
    seed = seed_of(session.plan.head.seed, only_part(session.plan).drawn)
    with Store(session.out) as results:
        try:
            job.check_kernel(kernel, session.kernel_hash)
            return RunEnd(_run_inside(kernel, session, path, seed=seed))
        except GuestError as error:
            # What makes its rows takes a moment to import, and is rarely needed.
            from netesto.run import crashed

            # The others go on.
            crashed.record(session, results, error)
            if session.request.pages:
                Drawer(session.out).finish(within_s=math.inf)
            return RunEnd(status.FAILED)


def run_parts(session: RunSession, kernel: Kernel, *, jobs: int) -> RunEnd:
    """Run the parts that are not done yet, `jobs` of them at a time, each in a guest of its own."""
    return session.held(
        lambda held, results: _Guests(held, kernel, results).run(jobs),
    )


def _job(session: RunSession, kernel: Kernel, out: Path) -> Job:
    """The request of a session as a job for a guest, with another results folder."""
    return Job(
        request=replace(session.request, run=session.record.name, out=out),
        fields=session.fields,
        kernel=kernel,
        kernel_hash=session.kernel_hash,
    )


def _run_inside(kernel: Kernel, session: RunSession, path: Path, *, seed: int) -> int:
    """Carry out the job in a file inside a guest; the exit status."""
    request, out = session.request, session.out
    drawer = Drawer(out) if request.pages else None
    # In real time a guest must not share its processor.
    draws_beside = kernel.ground.is_simulated or len(os.sched_getaffinity(0)) > 1
    outcome = None
    pages_s = math.inf
    try:
        outcome = guest.run(
            job.command(path),
            kernel=kernel,
            writable=[out],
            max_wall_s=request.max_wall_s,
            stall_s=request.max_stall_s or STALL_S,
            memory_mb=session.plan.head.memory_mb,
            warn=session.watcher.warn,
            seed=seed,
            meanwhile=drawer.look if drawer and draws_beside else None,
            defers_interrupts=True,
        )
        if outcome != status.OK and interrupts.is_shutting_down():
            outcome, pages_s = status.INTERRUPTED, PAGES_S
    except KeyboardInterrupt:
        interrupts.begin_shutdown()
        outcome, pages_s = status.INTERRUPTED, 0
    finally:
        if drawer and not drawer.finish(within_s=pages_s):
            session.watcher.warn(f"no time to draw all pages; netesto report {out} draws them")
    return outcome


class _Guests:
    """Guests for the parts of a plan."""

    def __init__(self, session: RunSession, kernel: Kernel, results: Store) -> None:
        self._session = session
        self._kernel = kernel
        self._results = results
        # Repeated parts, by their numbers.
        self._again: dict[int, Plan] = {}

    def run(self, jobs: int) -> RunEnd:
        """Until all parts have ended, or one shows that the others would fail, too."""
        session, results, watcher = self._session, self._results, self._session.watcher
        head = session.plan.head
        network = grounds.network(head)
        results.reserve(head.counter, head.last_number)
        passed = earlier.pass_over(session, results, nested=False)
        parts = [
            *([head.rest] if head.rest is not None else []),
            *(
                part
                for part in session.plan.outer
                if not part.is_idle and part.index not in passed.parts
            ),
        ]
        parts = earlier.untried_first(session, results, parts)
        at_once = min(jobs, len(parts))
        if parts:
            watcher.say(drawing.draw(network))
            watcher.say(
                f"{len(parts)} parts of the script, each in a guest of its own, {at_once} at once;"
                f" seed {head.seed}"
            )
        tell(watcher, head.warnings)
        for text in head.echoes:
            watcher.echo(text)
        end = RunEnd(status.OK, ground=session.ground.name)
        if parts:
            end = SideBySide(session, parts, self, results, jobs=at_once).run()
        return end.with_failures(passed.failures)

    def command(self, task: Task) -> Sequence[str]:
        path = task.folder / job.NAME
        plan = self._again.get(task.part.before, self._session.plan)
        with plan.slice(task.part) as alone, durable.writing(path):
            self._job(task.folder).write(path, alone)
        return job.command(path)

    def _job(self, out: Path) -> Job:
        """The part of a run that goes on in `out`; its output is read line by line."""
        made = _job(self._session, self._kernel, out)
        shown = replace(made.request.shown, plain=True)
        return replace(made, request=replace(made.request, shown=shown))

    def again(self, part: Part, *, before: int) -> Part:
        from netesto.language import planner

        made = planner.again(self._session.plan, part, attempt=part.attempt + 1, before=before)
        again = only_part(made)
        self._again[again.before] = made
        return again
