"""A long run uses no more resources at its end than at its beginning."""

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from processes import agents_of, is_alive

from netesto.lab import records
from netesto.system import process

SCRIPT = """\
LAB pair rate=100mbit
FOR n IN 1..{count} DO
  DO_SERVER host=a exp=COUNTER order=0
  DO_SERVER host=b exp=PREV order=0
  DO_TCPDUMP host=a server=b exp=PREV packets=1000
  DO_CLIENT host=a server=b exp=PREV tool=native dur=0.1 test=TCP_RR
  WAIT_FLOWS
  PROCESS_EXP exp=PREV
DONE
"""

ENDED = re.compile(r"experiment (\d+): (\w+)")

# Measured over so many experiments, and first when what is needed once has been loaded.
WINDOW = 10
MEMORY_GROWTH = 1.10

PATIENCE_S = 3600


@dataclass(slots=True)
class Use:
    """The least that a process uses during some experiments: between two of them."""

    memory: int = sys.maxsize
    descriptors: int = sys.maxsize

    def see(self, one: psutil.Process) -> None:
        self.memory = min(self.memory, one.memory_info().rss)
        self.descriptors = min(self.descriptors, one.num_fds())


@pytest.mark.lab
@pytest.mark.thorough
@pytest.mark.timeout(PATIENCE_S)
def test_a_long_run_does_not_grow(pytestconfig: pytest.Config, tmp_path: Path):
    count = pytestconfig.getoption("--soak")
    assert count >= 4 * WINDOW, "too short to tell"
    early, late, seconds = used(count, tmp_path)
    # Printed only: the other load of the machine may change.
    print(f"{seconds[0]:.2f} s for an experiment at first, {seconds[1]:.2f} at last; {late}")  # noqa: T201
    grown = [
        f"{name}: {early[name]} at first, {late[name]} at last"
        for name in early
        if late[name].descriptors > early[name].descriptors
        or late[name].memory > early[name].memory * MEMORY_GROWTH
    ]
    assert (sorted(early), grown) == (["agent", "controller"], [])


def used(
    count: int, folder: Path
) -> tuple[Mapping[str, Use], Mapping[str, Use], tuple[float, float]]:
    """The use of controller and agents in an early window and in the last one, and the seconds that
    an experiment takes then."""
    (folder / "script.nts").write_text(SCRIPT.format(count=count))
    output = folder / "output"
    options = ("--plain", "--force", "--ground", "lab", "--seed", "1", "--out", str(folder / "out"))
    argv = [sys.executable, "-m", "netesto", "run", *options, str(folder / "script.nts")]
    windows = ((WINDOW, 2 * WINDOW), (count - WINDOW, count))
    found: list[dict[str, Use]] = []
    seconds: list[float] = []
    with process.background(
        argv,
        stdout=output,
        cwd=folder,
        env=dict(os.environ),
        ready=lambda: done(output) > 0,
        timeout=PATIENCE_S,
    ) as run:
        [lab] = [one for one in records.read_all(records.STATE_FOLDER) if one.owner == run.pid]
        watched = {"controller": psutil.Process(run.pid)}
        # A child has the agent's name until it executes its program.
        watched["agent"] = min(agents_of(lab), key=psutil.Process.create_time)
        for first, last in windows:
            while done(output) < first and run.poll() is None:
                time.sleep(process.POLL_INTERVAL_S)
            begun, uses = time.monotonic(), {name: Use() for name in watched}
            while done(output) < last and run.poll() is None:
                for name, one in watched.items():
                    if is_alive(one):
                        uses[name].see(one)
                time.sleep(process.POLL_INTERVAL_S)
            found.append(uses)
            seconds.append((time.monotonic() - begun) / WINDOW)
        assert run.wait(PATIENCE_S) == 0, output.read_text()[-2000:]
    early, late = found
    return early, late, (seconds[0], seconds[1])


def done(output: Path) -> int:
    """The number of experiments that have succeeded."""
    text = output.read_text() if output.exists() else ""
    return sum(status == "ok" for _, status in ENDED.findall(text))
