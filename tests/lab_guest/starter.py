"""Starts a guest as a program of its own would: GROUND ARGV… What the command writes in the working
folder remains, if that is named `results`."""

import sys
from pathlib import Path

from netesto.grounds import GROUNDS
from netesto.lab import guest, kernels


def warn(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    ground, *argv = sys.argv[1:]
    writable = [Path.cwd()] if Path.cwd().name == "results" else []
    sys.exit(guest.run(argv, kernel=kernels.need(GROUNDS[ground]), writable=writable, warn=warn))
