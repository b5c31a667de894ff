"""`make truth`: measure all studies, and write docs/truth.md.

usage: python tests/truth/truth.py [--only NAME …] [--jobs N] [--keep FOLDER] [--page FILE]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from all_studies import STUDIES
from measuring import Measured, measure_all, read, table

from netesto import process


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="keep the results there")
    parser.add_argument("--read", type=Path, help="read results that were kept there")
    given = parser.parse_args()
    process.reach_system_programs()
    chosen = [study for study in STUDIES if not given.only or study.name in given.only]
    if given.read:
        for study in chosen:
            if (given.read / study.name / "output").is_file():
                tell(read(study, given.read / study.name))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        found = measure_all(chosen, given.keep or Path(scratch), jobs=given.jobs, tell=tell)
    return 0 if all(each.is_true for one in found for each in one.findings) else 1


def tell(measured: Measured) -> None:
    print(f"## {measured.study.name}: {measured.took_s:.0f} s")
    print("\n".join(table(measured.findings)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
