"""Runs plans in guests: as a whole, or part by part, side by side."""

from dataclasses import replace
from pathlib import Path

from netesto.lab import drawing, guest
from netesto.lab.kernels import Kernel
from netesto.language.plan import Part, Plan, seed_of
from netesto.results import durable
from netesto.results.store import Store
from netesto.run import behindlinks, earlier, job, status
from netesto.run.inguest import GuestRequest
from netesto.run.job import Job
from netesto.run.session import RunEnd, RunSession, only_part, tell
from netesto.run.sidebyside import SideBySide
from netesto.run.workers import Task, Workers
from netesto.schema import registered
from netesto.system import owned


def run_whole(session: RunSession, kernel: Kernel) -> RunEnd:
    """Run a plan in a guest, which reports how it ended."""
    # Locks of a guest belong to its own kernel, and exclude nobody outside.
    with Store(session.out) as results, owned.folder(guest.base_folder()) as folder:
        # Here, because a guest takes seconds to refuse them.
        results.take_fields(session.fields)
        results.write_run(session.record)
        session.keep_plan()
        path, made = folder / job.NAME, _job(session, kernel, session.out, session.plan)
        made.write(path, session.plan)
        return RunEnd(made.guest.carry_out(path, session.watcher.warn))


def run_parts(session: RunSession, kernel: Kernel, workers: Workers) -> RunEnd:
    """Let workers carry out the parts that are not done yet, each in a guest of its own."""
    return session.held(
        lambda held, results: _Guests(held, kernel, results).run(workers),
    )


def _job(session: RunSession, kernel: Kernel, out: Path, plan: Plan) -> Job:
    """The job to carry out a plan with the request of a session, in another results folder."""
    request, head = session.request, plan.head
    return Job(
        guest=GuestRequest(
            kernel=kernel,
            kernel_hash=session.kernel_hash,
            out=out,
            memory_mb=head.memory_mb,
            seed=head.seed if head.sources else seed_of(head.seed, only_part(plan).drawn),
            max_wall_s=request.max_wall_s,
            max_stall_s=request.max_stall_s,
            # A page is a file of its own, and a packed experiment has one file.
            pages=request.pages and not request.packs,
            packs=request.packs,
            added=registered.points(),
        ),
        request=replace(request, run=session.record.name, out=out),
        fields=session.fields,
    )


class _Guests:
    """Guests for the parts of a plan."""

    def __init__(self, session: RunSession, kernel: Kernel, results: Store) -> None:
        self._session = session
        self._kernel = kernel
        self._results = results
        # Repeated parts, by their numbers.
        self._again: dict[int, Plan] = {}

    def run(self, workers: Workers) -> RunEnd:
        """Until all parts have ended, or one shows that the others would fail, too."""
        results, watcher = self._results, self._session.watcher
        passed = earlier.pass_over(self._session, results, nested=False)
        session = self._session = earlier.without_numbers(self._session, passed)
        rounds = earlier.rounds_of(session, results, passed)
        head = session.plan.head
        network = behindlinks.network_of(head)
        results.reserve(head.counter, head.last_number)
        parts = [
            *([head.rest] if head.rest is not None else []),
            *(
                part
                for part in session.plan.outer
                if not part.is_idle
                and part.index not in passed.parts
                and rounds.needs(part) is not False
            ),
        ]
        parts = earlier.untried_first(session, results, parts)
        at_once = min(workers.places, len(parts))
        if parts:
            watcher.say(drawing.draw(network))
            most = "at most " if head.at_least is not None else ""
            watcher.say(
                f"{most}{len(parts)} parts of the script, each in a guest of its own, {at_once} at"
                f" once; seed {head.seed}"
            )
        tell(watcher, head.warnings)
        for text in head.echoes:
            watcher.echo(text)
        end = RunEnd(status.OK, ground=session.ground.name)
        if parts:
            end = SideBySide(session, parts, self, results, workers=workers, rounds=rounds).run()
        end = replace(end, certainty=rounds.ends())
        return end.with_failures(passed.failures)

    def job(self, task: Task) -> Path:
        """Write the job of a part, whose folder exists, into it; its path."""
        path = task.folder / job.NAME
        plan = self._again.get(task.part.before, self._session.plan)
        with plan.slice(task.part) as alone, durable.writing(path):
            # Its output is read line by line.
            shown = replace(self._session.request.shown, plain=True)
            own = replace(self._session, request=replace(self._session.request, shown=shown))
            _job(own, self._kernel, task.folder, alone).write(path, alone)
        return path

    def again(self, part: Part, *, before: int) -> Part:
        from netesto.language import planner

        made = planner.again(self._session.plan, part, attempt=part.attempt + 1, before=before)
        again = only_part(made)
        self._again[again.before] = made
        return again
