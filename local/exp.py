#!/usr/bin/env python3
"""The classic command line of report scripts, for old Makefiles and habits.

    exp.py --file=SCRIPT,var=value Key=value doTable > report.html

The page goes to standard output, warnings and errors to standard error; exit status 2 tells that a
script is wrong. `netesto exp` is the same with options of its own.
"""

import sys

# netesto.py beside this file has the package's name: this folder is not where to look for it.
sys.path.pop(0)

from netesto import cli
from netesto.cli import reports

if __name__ == "__main__":
    sys.exit(cli.guarded(lambda: reports.classic(sys.argv[1:])))
