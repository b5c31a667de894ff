"""Runs studies through the command line."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from readings import NotMeasuredError, Results
from studies import Row, Study

from netesto.system import process

# Longer than any study takes, even on a busy machine.
PATIENCE_S = 1500


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run measured of a row, or why it did not."""

    row: Row
    measured: float | None
    reason: str = ""

    @property
    def is_true(self) -> bool:
        return self.measured is not None and self.measured in self.row.interval


@dataclass(frozen=True, slots=True)
class Measured:
    """A study, and what its run found in so many seconds."""

    study: Study
    findings: tuple[Finding, ...]
    took_s: float


def measure(study: Study, folder: Path, kernel: str = "") -> Measured:
    """Run the study in a folder of its own; `kernel` is that of simulated time."""
    started_s = time.monotonic()
    folder.mkdir(parents=True)
    for name, text in study.files.items():
        (folder / name).write_text(text)
    (folder / "script.nts").write_text(study.script)
    # What is wrong with a path is a finding, and no reason to stop.
    options: tuple[str, ...] = (
        "--plain",
        "--no-pages",
        "--force",
        "--seed",
        "1",
        "--ground",
        study.ground,
    )
    if kernel and study.ground == "sim":
        options += ("--kernel", kernel)
    words = [sys.executable, "-m", "netesto", "run", *options, "--out", "out", "script.nts"]
    done = process.run(words, timeout=PATIENCE_S, check=False, cwd=folder, env=dict(os.environ))
    (folder / "output").write_text(done.stdout + done.stderr)
    return read(study, folder, time.monotonic() - started_s)


def read(study: Study, folder: Path, took_s: float = 0.0) -> Measured:
    """What a run in this folder measured."""
    results, output = Results(folder / "out"), folder / "output"
    said = output.read_text() if output.is_file() else "not measured"
    reason = "" if results.has_rows else " ".join(said.split())[-300:]
    return Measured(study, tuple(found(row, results, reason) for row in study.rows), took_s)


def found(row: Row, results: Results, reason: str) -> Finding:
    """`reason`: why there are no results, or ""."""
    if reason:
        return Finding(row, None, reason)
    try:
        return Finding(row, row.measure(results))
    except (NotMeasuredError, OSError, ValueError, ZeroDivisionError, KeyError) as error:
        return Finding(row, None, f"{type(error).__name__}: {error}")


def measure_all(
    studies: Sequence[Study],
    folder: Path,
    *,
    jobs: int,
    kernel: str,
    tell: Callable[[Measured], None],
) -> list[Measured]:
    """So many studies at a time; the results are in the order of the studies."""

    def one(study: Study) -> Measured:
        measured = measure(study, folder / study.name, kernel)
        tell(measured)
        return measured

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, studies))
