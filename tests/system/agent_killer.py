"""Runs a command and kills the agent of its lab, once the command has printed a text.

    agent_killer.py TEXT OUTPUT ARGV…

A program of its own because it has to be where the agents are: on this machine, or in a guest.
Its exit status is the command's; the command's output goes to the file OUTPUT.
"""

import sys
from pathlib import Path

from netesto.lab import records
from netesto.system import process

sys.path.insert(0, str(Path(__file__).parents[1]))

from processes import agents_of

# Longer than any working start takes.
PATIENCE_S = 350


def main(text: str, output: Path, argv: list[str]) -> int:
    output.touch()
    said = lambda: text in output.read_text()  # noqa: E731
    with process.background(argv, stdout=output, ready=said, timeout=PATIENCE_S) as run:
        labs = records.read_all(records.STATE_FOLDER)
        [lab] = [each for each in labs if each.owner == run.pid]
        for agent in agents_of(lab):
            agent.kill()
        return run.wait(PATIENCE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
