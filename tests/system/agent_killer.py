"""Runs a command and kills the agent of one host, once the command has printed a text.

    agent_killer.py HOST TEXT OUTPUT ARGV…

A program of its own because it has to be where the agents are: on this machine, or in a guest.
Its exit status is the command's; the command's output goes to the file OUTPUT.
"""

import os
import signal
import sys
from pathlib import Path

from netesto.lab import records
from netesto.system import process

# Longer than any working start takes.
PATIENCE_S = 350


def agent_of(host: str, runner: int) -> int:
    """The process id of the agent of `host` in the lab that the run `runner` has built."""
    labs = records.read_all(records.STATE_FOLDER)
    [lab] = [each for each in labs if each.owner == runner]
    inside = process.run(["ip", "netns", "pids", lab.hosts[host].namespace], timeout=10)
    # All else there is started by it.
    return min(map(int, inside.stdout.split()))


def main(host: str, text: str, output: Path, argv: list[str]) -> int:
    output.touch()
    said = lambda: text in output.read_text()  # noqa: E731
    with process.background(argv, stdout=output, ready=said, timeout=PATIENCE_S) as run:
        os.kill(agent_of(host, run.pid), signal.SIGKILL)
        return run.wait(PATIENCE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:]))
