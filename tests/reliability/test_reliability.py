"""What becomes of a run whose agent, tool or controller is killed, frozen or interrupted."""

import csv
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from faults import FAULTS, FROZEN_S, KILLED, MOMENTS, TELLING, Fault, table
from processes import inside, is_alive

from netesto import process
from netesto.lab import records
from netesto.lab.records import Record
from netesto.results import integrity, manifest

SCRIPT = """\
LAB pair rate=20mbit
SOURCE inlib
RUN OneFlowStream server=b client=a expName=one ca=cubic dur=1
RUN OneFlowStream server=b client=a expName=two ca=cubic dur=2
RUN OneFlowStream server=b client=a expName=three ca=cubic dur=1
"""

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"

# Longer than any honest run; nothing waits it out.
PATIENCE_S = 100

HOSTS = {
    "agent of the client": ("a", "netesto-agent"),
    "agent of the server": ("b", "netesto-agent"),
    "netperf": ("a", "netperf"),
    "netserver": ("b", "netserver"),
}

injected = FAULTS if os.environ.get("NETESTO_FAULTS") == "all" else sorted(TELLING)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the table says of a fault, as it was."""

    left: tuple[object, ...]
    damaged: tuple[str, ...]
    second: str
    third: str
    is_told: bool
    status: int


@pytest.fixture
def folder() -> Iterator[Path]:
    # pytest's own folders have names too long for a socket's path.
    with tempfile.TemporaryDirectory(prefix="netesto-test-") as name:
        yield Path(name)


@pytest.mark.lab
@pytest.mark.parametrize("name", injected)
def test_a_run_comes_through(name: str, folder: Path):
    fault = FAULTS[name]
    outcome = run_with(fault, folder)
    second = outcome.second if outcome.second in fault.second else fault.second[0]
    status = 0 if (second, fault.third) == ("ok", "ok") else fault.status
    assert outcome == Outcome(
        left=(), damaged=(), second=second, third=fault.third, is_told=True, status=status
    )


def test_the_page_lists_the_faults_that_are_injected():
    assert PAGE.read_text(encoding="utf-8") == table()


def run_with(fault: Fault, folder: Path) -> Outcome:
    """Run the script, and inject the fault."""
    (folder / "script.nts").write_text(SCRIPT)
    output, out = folder / "output", folder / "out"
    output.touch()
    options = ("--plain", "--force", "--ground", "lab", "--seed", "1")
    argv = [sys.executable, "-m", "netesto", "run", *options, "--on-failure", fault.on_failure]
    argv += ["--out", str(out), str(folder / "script.nts")]
    text, count = MOMENTS[fault.moment]
    with process.background(
        argv,
        stdout=output,
        cwd=folder,
        ready=lambda: output.read_text().count(text) >= count,
        timeout=PATIENCE_S,
    ) as run:
        [lab] = [one for one in records.read_all(records.STATE_FOLDER) if one.owner == run.pid]
        made = inside(lab.namespaces)
        inject(fault, lab, psutil.Process(run.pid))
        status = run.wait(PATIENCE_S)
    if fault.status == KILLED:
        process.run([sys.executable, "-m", "netesto", "clean"], timeout=PATIENCE_S)
    process.wait_until(lambda: not left(lab, made), timeout=10)
    statuses = statuses_in(out)
    return Outcome(
        left=tuple(left(lab, made)),
        damaged=tuple(damaged_in(out)),
        second=statuses.get("2.0", ""),
        third=statuses.get("3.0", ""),
        is_told=fault.said in output.read_text(),
        status=status,
    )


def inject(fault: Fault, lab: Record, run: psutil.Process) -> None:
    """Send the signals of a fault to all that it means."""
    victims = [run]
    if fault.target in HOSTS:
        host, name = HOSTS[fault.target]
        found = inside([lab.hosts[host].namespace])
        victims = [one for one in found if is_alive(one) and one.name() == name]
        assert victims, f"no {name} at {host}"
    for number, sign in enumerate(fault.signs):
        if number:
            # Not a wait for anything: this long is the fault.
            time.sleep(FROZEN_S if sign == "SIGCONT" else 0.1)
        for victim in victims:
            if is_alive(victim):
                victim.send_signal(signal.Signals[sign])


def left(lab: Record, made: list[psutil.Process]) -> list[object]:
    """What there still is of a lab."""
    paths = [
        *(records.NAMESPACE_FOLDER / name for name in lab.namespaces),
        records.path_of(records.STATE_FOLDER, lab.lab),
        Path(lab.sockets),
        Path(lab.files),
    ]
    return [*(path for path in paths if path.exists()), *filter(is_alive, made)]


def statuses_in(out: Path) -> dict[str, str]:
    """The statuses of experiments, by the numbers of their rows."""
    with (out / "exp.csv").open(newline="") as file:
        return {row["exp"]: row["status"] for row in csv.DictReader(file)}


def damaged_in(out: Path) -> Iterator[str]:
    """What is wrong with the experiments that had ended before the fault."""
    if statuses_in(out).get("1.0") != "ok":
        yield "experiment 1 has no good row"
    whole = out / "1"
    for damage in integrity.check(whole, manifest.read(whole / manifest.NAME)):
        yield str(damage)
