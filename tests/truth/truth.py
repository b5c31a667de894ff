"""`make truth`: measure all studies, and write docs/truth.md.

With --only NAME … those, and no page; with --ci those of `.ci/run`. --keep FOLDER keeps scripts and
results, --read FOLDER shows what an earlier run has kept there.
"""

import argparse
import os
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from all_studies import STUDIES
from measuring import Measured, measure_all, read
from page import page, section

from netesto.system import process

PAGE = Path(__file__).parents[2] / "docs" / "truth.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kernel", default="", help="of your own, for simulated time")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--read", type=Path)
    given = parser.parse_args()
    process.reach_system_programs()
    names = given.only + [study.name for study in STUDIES if given.ci and study.run == "ci"]
    chosen = [study for study in STUDIES if not names or study.name in names]
    if given.read:
        measured = [read(study, given.read / study.name) for study in chosen]
        for each in measured:
            tell(each)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            folder = given.keep or Path(scratch)
            measured = measure_all(chosen, folder, jobs=given.jobs, kernel=given.kernel, tell=tell)
    if not names:
        PAGE.write_text(page(measured), encoding="utf-8")
    false = sum(not finding.is_true for each in measured for finding in each.findings)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    say(f"{false} false rows; {used.ru_utime + used.ru_stime:.0f} s of processor time")
    return 1 if false else 0


def tell(measured: Measured) -> None:
    """Print what a study has found."""
    say("\n".join([*section(measured.study, measured.findings), f"{measured.took_s:.0f} s"]))


def say(text: str) -> None:
    """Print it at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
