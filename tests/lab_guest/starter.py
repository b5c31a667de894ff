"""Starts a guest as a program of its own would: GROUND ARGV… What the command writes in the working
folder remains, if that is named `results`."""

import sys
from pathlib import Path
from typing import Any

from netesto.grounds import GROUNDS
from netesto.lab import guest, kernels

if __name__ == "__main__":
    ground, *argv = sys.argv[1:]
    writable = [Path.cwd()] if Path.cwd().name == "results" else []
    warn: Any = sys.stderr.write
    sys.exit(guest.run(argv, kernel=kernels.need(GROUNDS[ground]), writable=writable, warn=warn))
