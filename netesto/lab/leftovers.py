"""Finds remains of labs whose process is gone by their records, and removes them by name."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from netesto.errors import LabError
from netesto.lab import records, teardown
from netesto.system import interrupts, life

# The time for another process that cleans: agents have 10 s to put their hosts back.
OTHER_S = 60.0

LOCK = ".clean"


def clean(state: Path = records.STATE_FOLDER) -> list[str]:
    """Take down every lab whose owner is gone; return what was removed, in words.

    Labs of live owners, labs that stay, and anything without a record are not touched.
    LabError if something cannot be removed, after everything else was tried.
    """
    removed: list[str] = []
    resisting: list[LabError] = []
    records.forget_unrecorded(state)
    if not _abandoned(state):
        return removed
    with _alone(state):
        for record in _abandoned(state):
            try:
                with interrupts.undisturbed():
                    things = [*teardown.take_down(state, record), "its record"]
                removed += [f"lab {record.lab}: {thing}" for thing in things]
            except LabError as error:
                resisting.append(error)
    if resisting:
        raise LabError(
            "; ".join(error.message for error in resisting),
            remedy="netesto clean tries again. If a lab was made in another PID namespace, call it "
            "there.",
        )
    return removed


def _abandoned(state: Path) -> list[records.Record]:
    return [record for record in records.read_all(state) if records.is_abandoned(state, record)]


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Wait until no other process cleans; then it finds nothing left. LabError if it takes longer
    than OTHER_S."""
    with life.held(state / LOCK, timeout=OTHER_S):
        try:
            yield
        finally:
            (state / LOCK).unlink(missing_ok=True)
