"""What dead labs left on this machine: found by their records, removed by name."""

from pathlib import Path

from netesto.lab import records, teardown


def clean(state: Path = records.STATE_FOLDER) -> list[str]:
    """Take down every lab whose owner is gone; what was removed, in words.

    A lab whose owner lives, one that was brought up to stay, and anything that no record names
    are left alone. LabError if something resists.
    """
    removed: list[str] = []
    for record in records.read_all(state):
        if record.abandoned:
            removed += [f"lab {record.lab}: {thing}" for thing in _removed(state, record)]
    return removed


def _removed(state: Path, record: records.Record) -> list[str]:
    with teardown.undisturbed():
        return [*teardown.take_down(state, record), "its record"]
