"""`netesto job FILE`: how a run carries out a part of its script in another process, and everything
in a guest."""

import math
from functools import partial
from pathlib import Path

from netesto.cli import guarded, printing
from netesto.errors import GuestError
from netesto.run import inguest
from netesto.schema import registered
from netesto.system import proc


def run(path: Path) -> int:
    """Carry out the job in a file; the exit status."""
    if proc.ground_inside() is None:
        return inguest.run_part(path, printing.warn, partial(_record_crash, path))
    registered.take(inguest.request_of(path).added)
    # The process that starts a guest does without.
    from netesto.cli import displayed
    from netesto.run import job, whole

    made, plan = job.read(path)
    with plan:
        return guarded(
            lambda: displayed.run(
                made.request, lambda shown: whole.run(job.session_of(made, plan, shown))
            ),
            debug=made.request.shown.debug,
        )


def _record_crash(path: Path, error: GuestError) -> None:
    """Keep the results of a part whose guest has crashed."""
    from netesto.cli.display import Display
    from netesto.results.store import Store
    from netesto.run import crashed, job
    from netesto.run.drawer import Drawer

    made, plan = job.read(path)
    watcher = Display(quiet=False)
    with plan, Store(made.guest.out) as results:
        crashed.record(job.session_of(made, plan, watcher), results, error)
    if made.guest.pages:
        Drawer(made.guest.out, has_index=False).finish(within_s=math.inf)
