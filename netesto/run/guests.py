"""Runs plans in guests: as a whole, or part by part, side by side."""

import math
import os
from collections.abc import Sequence

from netesto.errors import GuestError
from netesto.lab import drawing, guest
from netesto.lab.kernels import Kernel
from netesto.lab.watch import STALL_S
from netesto.language.plan import Part, Plan, seed_of
from netesto.results import durable
from netesto.results.store import FIELDS, Store
from netesto.run import crashed, earlier, grounds, status
from netesto.run.drawer import Drawer
from netesto.run.session import RunEnd, RunSession, only_part, tell
from netesto.run.sidebyside import SideBySide, Task
from netesto.system import interrupts, process

PLAN = "plan.json"

# The time for pages after a request to end. After a second one there is none.
PAGES_S = 1.0


def run_whole(session: RunSession, kernel: Kernel) -> RunEnd:
    """Run a plan, or a part of one, in a guest, which reports how it ended."""
    request, head = session.request, session.plan.head
    # Locks of a guest belong to its own kernel, and exclude nobody outside.
    with Store(session.out) as results:
        if session.is_part:
            words = ["--fields", str(request.fields)]
            seed = seed_of(head.seed, only_part(session.plan).drawn)
            path = request.script
        else:
            # Here, because a guest takes seconds to refuse them.
            results.take_fields(session.fields)
            results.write_run(session.record)
            path = str(session.keep_plan())
            words = ["--on-failure", str(request.on_failure)]
            words += ["--resume"] if request.resume else []
            seed = head.seed
        words = [*_words(session, path), *words, "--out", str(session.out)]
        try:
            return RunEnd(_run_inside(kernel, session, words, seed=seed))
        except GuestError as error:
            if not session.is_part:
                raise
            # The others go on.
            crashed.record(session, results, error)
            if request.pages:
                Drawer(session.out).finish(within_s=math.inf)
            return RunEnd(status.FAILED)


def run_parts(session: RunSession, kernel: Kernel, *, jobs: int) -> RunEnd:
    """Run the parts that are not done yet, `jobs` of them at a time, each in a guest of its own."""
    return session.held(
        lambda held, results: _Guests(held, kernel, results).run(jobs),
    )


def _words(session: RunSession, plan: str) -> list[str]:
    """The arguments of `netesto` that execute a plan in a guest."""
    request = session.request
    aliases = ",".join(f"{name}={host}" for name, host in request.aliases.items())
    words = ["run", plan, "--run", session.record.name, "--family", str(request.family)]
    words += ["--map", aliases] if aliases else []
    words += ["--force"] if request.force else []
    words += [] if request.pages else ["--no-pages"]
    words += ["--commands", str(request.commands.absolute())] if request.commands else []
    return [*words, *request.shown]


def _run_inside(kernel: Kernel, session: RunSession, words: Sequence[str], *, seed: int) -> int:
    """Run `netesto` with other words inside a guest; its exit status."""
    request, out = session.request, session.out
    drawer = Drawer(out) if request.pages else None
    # In real time a guest must not share its processor.
    draws_beside = kernel.ground.is_simulated or len(os.sched_getaffinity(0)) > 1
    outcome = None
    pages_s = math.inf
    try:
        outcome = guest.run(
            process.python("netesto", *words),
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
        request = self._session.request
        path = task.folder / PLAN
        plan = self._again.get(task.part.before, self._session.plan)
        with plan.slice(task.part) as alone, durable.writing(path), path.open("wb") as file:
            alone.write(file)
        own = {
            "--ground": self._kernel.kind,
            "--kernel": self._kernel.name,
            "--out": str(task.folder),
            # The run's folder may have more columns than the script.
            "--fields": str(self._session.out / FIELDS),
        }
        if request.max_wall_s is not None:
            own["--max-wall"] = str(request.max_wall_s)
        if request.max_stall_s is not None:
            own["--max-stall"] = str(request.max_stall_s)
        words = [word for pair in own.items() for word in pair]
        return process.python("netesto", *_words(self._session, str(path)), *words, "--plain")

    def again(self, part: Part, *, before: int) -> Part:
        from netesto.language import planner

        made = planner.again(self._session.plan, part, attempt=part.attempt + 1, before=before)
        again = only_part(made)
        self._again[again.before] = made
        return again
