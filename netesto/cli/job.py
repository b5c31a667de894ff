"""`netesto job FILE`: how a run carries out a part of its script in another process, and everything
in a guest."""

from functools import partial
from pathlib import Path

from netesto.cli import displayed, guarded
from netesto.run import job, start


def run(path: Path) -> int:
    """Carry out the job in a file; the exit status."""
    made, plan = job.read(path)
    with plan:
        carry_out = partial(start.carry_out, path, made, plan)
        return guarded(
            lambda: displayed.run(made.request, carry_out), debug=made.request.shown.debug
        )
