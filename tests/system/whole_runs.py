"""Whole runs: the command line, a lab in this machine's kernel, real tools."""

import csv
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netesto.lab import records
from netesto.system import process

# Two flows as in the demo, and short: the second from 1 s to 4 s. The queue is so short that each
# of them loses packets, and that little waits in it when they end.
TWO_FLOWS = """\
LAB dumbbell clients=2 servers=1 rate=100mbit limit=50p
SOURCE inlib
RUN TwoFlowBaseStream server=server1 client1=client1 client2=client2 expName=two \\
    ca1=cubic ca2=bbr dur1=5 dur2=3 delay2=1
"""

# Longer than any working run takes, even on a busy machine.
PATIENCE_S = 400


@dataclass(frozen=True)
class Outcome:
    """A run of netesto that ended, and what it wrote."""

    status: int
    stdout: str
    stderr: str
    out: Path

    @property
    def rows(self) -> list[dict[str, str]]:
        with (self.out / "exp.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def manifest(self, exp: int) -> dict[str, Any]:
        return json.loads((self.out / str(exp) / "manifest.json").read_text())


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "netesto", *words]


def netesto(
    folder: Path, *words: str, timeout: float = PATIENCE_S, path: str | None = None
) -> process.CompletedCommand:
    """Run netesto in `folder`; `path` replaces PATH."""
    env = {**os.environ, **({"PATH": path} if path is not None else {})}
    return process.run(command(*words), timeout=timeout, check=False, cwd=folder, env=env)


def run_script(
    folder: Path, text: str, options: Sequence[str] = (), *, pages: bool = False
) -> Outcome:
    """Run a script's text in a lab; its results are in `folder/out`, with `pages` for who looks at
    them."""
    (folder / "script.nts").write_text(text)
    words = ["run", "--plain", "--out", "out", *([] if pages else ["--no-pages"])]
    done = netesto(folder, *words, *options, "script.nts")
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


def left_of_labs(out: Path) -> list[Path]:
    """What exists of the sockets and namespaces of the agents that the records of runs name."""
    runs = [json.loads(path.read_text()) for path in out.glob("runs/*.json")]
    agents = [agent for run in runs for agent in run["hosts"].values()]
    folders = {Path(agent.removeprefix("unix:")).parent for agent in agents}
    assert folders, "the runs name no agents?"
    return [
        path
        for folder in folders
        for path in (folder, *records.NAMESPACE_FOLDER.glob(f"{folder.name}-*"))
        if path.exists()
    ]
