"""A run whose parts run side by side, each in a guest of its own."""

from collections.abc import Sequence

from netesto import process
from netesto.lab import drawing
from netesto.lab.kernels import Kernel
from netesto.results.store import FIELDS, Store
from netesto.run import grounds, sidebyside, status
from netesto.run.session import End, Session
from netesto.run.sidebyside import SideBySide, Task


def run(session: Session, kernel: Kernel, *, jobs: int, counter: int) -> End:
    """The parts of the script that are not done yet; `counter` is the number of the last experiment
    before it."""
    return session.held(
        lambda held, results: _carry_out(held, results, kernel, jobs=jobs, counter=counter)
    )


def _carry_out(session: Session, results: Store, kernel: Kernel, *, jobs: int, counter: int) -> End:
    request, rehearsal, watcher = session.request, session.rehearsal, session.watcher
    network = grounds.network(request, rehearsal, session.script.file)
    results.reserve(counter, rehearsal.last_number)
    tasks = sidebyside.tasks(
        rehearsal,
        results.folder,
        run=session.record,
        start=counter,
        is_done=lambda part: (
            request.resume
            and bool(part.cell)
            and results.finished_cell(session.script.name, part.cell) is not None
        ),
    )
    watcher.say(drawing.draw(network))
    at_once = min(jobs, len(tasks))
    watcher.say(
        f"{len(tasks)} parts of the script, each in a guest of its own, {at_once} at once;"
        f" seed {session.record.seed}"
    )
    session.tell_warnings()
    for text in rehearsal.echoes:
        watcher.echo(text)
    if not tasks:
        return End(status.OK, ground=kernel.kind)

    def command(task: Task) -> Sequence[str]:
        """This command line again, for one part; what comes last wins."""
        own = {
            "--ground": kernel.kind,
            "--kernel": kernel.name,
            "--seed": str(session.record.seed),
            "--out": str(task.folder),
            "--part": str(task.assignment),
            # Those of the run's folder may be some more than the script's.
            "--fields": str(session.out / FIELDS),
        }
        words = [word for pair in own.items() for word in pair]
        return process.python("netesto", *request.words, *words, "--plain")

    return SideBySide(
        tasks,
        command=command,
        script=session.script.text.encode() if session.script.path is None else b"",
        run=session.record.name,
        results=results,
        watcher=watcher,
        jobs=at_once,
        on_failure=request.on_failure,
    ).run()
