"""What a cell of a SWEEP costs in simulated time: processor time of each further cell of two hosts
and one simulated second, without and with pages.

    python bench/lab/bench_cell.py [PYTHON …]

Each PYTHON is the interpreter of another checkout's environment, with which this one alternates:
the processor time of a machine varies more than that of two versions.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from bench_carried import measured_s, tell

REPEATS = 3
FEW, MANY = 1, 5

# The limits, in seconds.
LIMITS = {"without pages": 1.5, "with pages": 2.0}
WORDS = {"without pages": ["--no-pages"], "with pages": []}

SCRIPT = """\
SOURCE inlib
LAB pair rate=100mbit rtt=10
SWEEP ca={} DO
  RUN OneFlowStream server=a client=b expName=cell ca=$ca dur=1
DONE
"""
CONTROLS = ("cubic", "reno", "vegas", "bbr", "htcp")


def sweep_s(python: str, folder: Path, cells: int, words: list[str]) -> float:
    path = folder / "sweep.nts"
    path.write_text(SCRIPT.format(",".join(CONTROLS[:cells])))
    out = tempfile.mkdtemp(dir=folder)
    run = ["run", "--plain", "--seed", "1", "--ground", "sim", "--out", out, *words, str(path)]
    return measured_s([python, "-P", "-m", "netesto", *run])


def cell_s(python: str, words: list[str]) -> float:
    """The processor time of a further cell."""
    with tempfile.TemporaryDirectory() as scratch:
        few_s, many_s = (sweep_s(python, Path(scratch), cells, words) for cells in (FEW, MANY))
    return (many_s - few_s) / (MANY - FEW)


def main() -> int:
    pythons = [sys.executable, *sys.argv[1:]]
    all_kept = True
    for kind, limit_s in LIMITS.items():
        took: dict[str, list[float]] = {python: [] for python in pythons}
        for _ in range(REPEATS):
            for python, found in took.items():
                found.append(cell_s(python, WORDS[kind]))
        medians = [statistics.median(found) for found in took.values()]
        all_kept &= tell(f"a further cell, {kind}", medians[0], limit_s, " s")
        for python, median_s in zip(pythons[1:], medians[1:], strict=True):
            print(f"{medians[0] / median_s:.2f} times that of {python}, {median_s:.2f} s")
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
