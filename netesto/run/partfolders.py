"""The folders of parts that run side by side, and the adoption of their results by the run.

RESULTS/runs/RUN.parts/PART/    a results folder of its own for each part
RESULTS/runs/RUN.parts/.lock    held as long as a process may write there
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from netesto.results import csvfile, durable
from netesto.results.store import Store

# The name for everything that belongs to no cell and no repetition.
REST = "rest"

_SUFFIX = ".parts"


def of_run(results: Path, run: str) -> Path:
    """The folder of all parts of a run."""
    return results / "runs" / f"{run}{_SUFFIX}"


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """A lock on the folder of a run's parts, as a descriptor: processes that inherit it hold it,
    too, so it shows whether any of them still lives. BlockingIOError if somebody holds it."""
    lock = durable.lock(folder / ".lock")
    try:
        yield lock
    finally:
        os.close(lock)


def take_over(results: Store, parts: Sequence[Path]) -> list[dict[str, str]]:
    """Move the results of parts into the run's folder, and remove the parts' folders; return their
    rows of exp.csv."""
    rows = results.adopt(parts)
    for part in parts:
        for kept in part.glob("runs/*-unfetched"):
            with durable.writing(results.folder):
                kept.rename(results.folder / "runs" / f"{kept.name}-{part.name}")
        shutil.rmtree(part, ignore_errors=True)
    return rows


def take_over_left(results: Store) -> Iterator[str]:
    """Take over the results of parts of killed runs, like `take_over`; return messages for the
    user."""
    for folder in sorted((results.folder / "runs").glob(f"*{_SUFFIX}")):
        try:
            with held(folder):
                parts = sorted((part for part in folder.iterdir() if part.is_dir()), key=_order)
                rows = take_over(results, parts)
                results.order()
        except BlockingIOError:
            yield f"{folder}: its parts are still ending; a later run takes them over"
            continue
        shutil.rmtree(folder, ignore_errors=True)
        numbers = ", ".join(map(str, csvfile.by_experiment(rows)))
        if numbers:
            yield f"took over the measurements of a killed run: experiments {numbers}"


def _order(part: Path) -> tuple[int, int]:
    """First the rest, then the parts in the script's order, each attempt separately."""
    index, _, attempt = part.name.partition("-")
    return (-1 if index == REST else int(index), int(attempt or 1))
