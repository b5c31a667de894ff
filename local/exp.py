#!/usr/bin/env python3
"""The classic command line of report scripts, for old Makefiles and habits.

    exp.py --file=SCRIPT,var=value Key=value doTable > report.html

The page goes to standard output, warnings and errors to standard error; exit status 2 tells that a
script is wrong. `netesto exp` is the same with options of its own.
"""

import sys

# netesto.py beside this file has the package's name: this folder is not where to look for it.
sys.path.pop(0)

from netesto.cli import status
from netesto.errors import NetestoError
from netesto.report import expscript


def main() -> int:
    """Run the words of the command line."""
    try:
        report = expscript.run_words(sys.argv[1:], warn=tell)
        report.write()
    except NetestoError as error:
        tell(str(error))
        return status.of(error)
    sys.stdout.write(report.html)
    return status.OK


def tell(line: str) -> None:
    """A line to standard error."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
