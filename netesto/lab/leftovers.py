"""What dead labs left on this machine: found by their records, removed by name."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from netesto.lab import records, teardown


def clean(state: Path = records.STATE_FOLDER) -> list[str]:
    """Take down every lab whose owner is gone; what was removed, in words.

    A lab whose owner lives, one that was brought up to stay, and anything that no record names
    are left alone. LabError if something resists.
    """
    removed: list[str] = []
    if not any(record.abandoned for record in records.read_all(state)):
        return removed
    with _alone(state):
        for record in records.read_all(state):
            if record.abandoned:
                removed += [f"lab {record.lab}: {thing}" for thing in _removed(state, record)]
    return removed


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Two that clean would get into each other's way: the second waits, and finds nothing left."""
    descriptor = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _removed(state: Path, record: records.Record) -> list[str]:
    with teardown.undisturbed():
        return [*teardown.take_down(state, record), "its record"]
