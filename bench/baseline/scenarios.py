"""exp.csv of every scenario in simulated time, against that of an earlier state of the sources.

    scenarios.py              run all, and print each column that differs from the baseline
    scenarios.py --write      make what they give now the baseline
    scenarios.py --only NAME  those alone

Each scenario is run as the first lines of its script say: the command behind `--ground sim`, with
seed 1. The exit status is 1 if a column differs. The baseline is that of Python 3.11.7: with
another interpreter some columns differ (docs/labs.md, Repeatability).
"""

import argparse
import csv
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from netesto.system import process

BASELINE = Path(__file__).with_name("scenarios")
SCRIPTS = Path(__file__).parents[2] / "scripts"

# An hour: a busy machine may take long.
PATIENCE_S = 3600

Row = dict[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="make the results the baseline")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    given = parser.parse_args()
    different = False
    for script in sorted(SCRIPTS.glob("*.nts")):
        words = command(script.read_text(encoding="utf-8"))
        if not words or (given.only and script.stem not in given.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            table = run(script, words, Path(folder))
            kept = BASELINE / f"{script.stem}.csv"
            if given.write:
                BASELINE.mkdir(exist_ok=True)
                kept.write_bytes(table.read_bytes())
                continue
            told = ["no baseline"]
            if kept.exists():
                told = differences(rows(kept), rows(table))
        different |= bool(told)
        sys.stdout.write(f"{script.stem}: {'; '.join(told) or 'the same'}\n")
        sys.stdout.flush()
    return 1 if different else 0


def command(text: str) -> Sequence[str]:
    """The arguments of `netesto run` that the first lines of a script give for simulated time, and
    that are not those of a loop of the shell; none if they give none."""
    head = "\n".join(line[1:] for line in text.splitlines() if line.startswith("#"))
    found = re.findall(r"netesto run (--ground sim (?:\\\n|[^\n])*)", head)
    plain = next((each for each in found if "$" not in each), "")
    return shlex.split(plain.replace("\\\n", " "))[:-1]


def run(script: Path, words: Sequence[str], folder: Path) -> Path:
    """The table of a run of a scenario."""
    own = ("--seed", "1", "--no-pages", "--plain", "--jobs", str(os.cpu_count() or 1))
    argv = process.python("netesto", "run", *words, *own, "--out", str(folder), str(script))
    process.run(argv, timeout=PATIENCE_S)
    return folder / "exp.csv"


def rows(table: Path) -> list[Row]:
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def differences(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """A sentence for each column that differs."""
    if len(before) != len(after):
        return [f"{len(after)} rows, and {len(before)} before"]
    told = []
    for name in dict.fromkeys(name for row in (*before[:1], *after[:1]) for name in row):
        pairs = [(a.get(name), b.get(name)) for a, b in zip(before, after, strict=True)]
        changed = [(a, b) for a, b in pairs if a != b]
        if changed:
            first, then = changed[0]
            told.append(f"{name} in {len(changed)} of {len(pairs)} rows, first {first} → {then}")
    return told


if __name__ == "__main__":
    sys.exit(main())
