"""A run whose agent, tool or controller is killed, frozen or interrupted."""

import contextlib
import csv
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from faults import (
    BEGIN,
    FAULTS,
    FOR_GOOD,
    FROZEN_S,
    INTERRUPTED,
    KILLED,
    LOOP,
    MIDDLE,
    MOMENTS,
    OF_LAB,
    START,
    UNDER_NOHUP,
    Fault,
    expected,
    facts_in,
    injected,
    table,
)
from processes import agents_of, inside, is_alive, samplers_of, wait_for_costly
from promptness import END_S, HURRIED_END_S, slowdown

from netesto.lab import records
from netesto.lab.records import Record
from netesto.results import integrity, manifest
from netesto.system import process

SCRIPT = """\
LAB pair rate=20mbit
SOURCE inlib
RUN OneFlowStream server=b client=a expName=one ca=cubic dur=1
RUN OneFlowStream server=b client=a expName=two ca=cubic dur=2
RUN OneFlowStream server=b client=a expName=three ca=cubic dur=1
"""

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"

# <linux/ptrace.h>, <linux/wait.h>
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000

# Longer than any run takes, even on a busy machine; no test waits that long.
PATIENCE_S = 400

LOOPS = {f"{LOOP} of the client": "a", f"{LOOP} of the server": "b"}

# The behaviour of the program that replaces netperf in the second experiment.
UNFIT = {
    "prints 100 MB": "yes | head -c 100000000",
    "prints no result": "true",
    "prints binary data": "head -c 5000 /bin/sh",
    "fails at once": "echo broken >&2; exit 1",
    "is killed by a signal": "kill -SEGV $$",
    "hangs": "exec sleep 300",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The actual outcome, in the columns of the table."""

    left: tuple[object, ...]
    damaged: tuple[str, ...]
    second: str
    third: str
    said: str
    status: int
    facts: tuple[str, ...]
    is_late: bool


@pytest.fixture
def folder() -> Iterator[Path]:
    # pytest's own folders have names too long for a socket's path.
    with tempfile.TemporaryDirectory(prefix="netesto-test-") as name:
        yield Path(name)


@pytest.mark.lab
@pytest.mark.parametrize("name", injected(on_machines=False))
def test_a_run_comes_through(name: str, folder: Path):
    fault = FAULTS[name]
    outcome = run_with(fault, folder)
    status = 0 if (outcome.second, fault.third) == ("ok", "ok") else fault.status
    assert outcome == Outcome(
        left=(),
        damaged=(),
        second=expected(fault, outcome.facts),
        third=fault.third,
        said=fault.said,
        status=status,
        facts=outcome.facts,
        is_late=False,
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
    if fault.target == UNDER_NOHUP:
        argv = ["nohup", *argv]
    text, count = MOMENTS[BEGIN if fault.moment == START else fault.moment]
    if fault.moment == START:
        put_unfit(fault, folder / "bin")
    with process.background(
        argv,
        stdout=output,
        cwd=folder,
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        ready=lambda: MOMENTS[BEGIN][0] in output.read_text(),
        timeout=PATIENCE_S,
    ) as run:
        said = output.read_text
        [lab] = [one for one in records.read_all(records.STATE_FOLDER) if one.owner == run.pid]
        victims = [psutil.Process(run.pid)]
        # Before the moment: to look for them takes long on a busy machine.
        # A child has the agent's name until it executes its program.
        agent = min(agents_of(lab), key=psutil.Process.create_time)
        if fault.target == OF_LAB:
            victims = [agent]
        made = [agent, *samplers_of(lab), *inside(lab.namespaces)]
        slow = slowdown()
        assert process.wait_until(lambda: said().count(text) >= count, timeout=PATIENCE_S), said()
        if fault.moment == MIDDLE:
            # A flow is announced a moment before its tools are started.
            await_alive(lab, "a", "netperf")
            made += inside(lab.namespaces)
        if fault.target in LOOPS:
            with stopped_loop(agent, lab, LOOPS[fault.target]):
                if fault.signs[1] == FOR_GOOD:
                    run.wait(PATIENCE_S)
                else:
                    # Not a wait for anything: this long is the fault.
                    time.sleep(float(fault.signs[1].removesuffix(" s")))
        elif fault.moment != START:
            inject(fault, victims)
        begun_s = time.monotonic()
        status = run.wait(PATIENCE_S)
        took_s = (time.monotonic() - begun_s) / max(slow, slowdown())
    if fault.status == KILLED:
        process.run([sys.executable, "-m", "netesto", "clean"], timeout=PATIENCE_S)
    wait_for_costly(lambda: not left(lab, made), timeout=60)
    statuses = statuses_in(out)
    return Outcome(
        left=tuple(left(lab, made)),
        damaged=tuple(damaged_in(out)),
        second=statuses.get("2.0", ""),
        third=statuses.get("3.0", ""),
        said=fault.said if fault.said in said() else said(),
        status=status,
        facts=tuple(facts_in(out, said(), client="a")),
        is_late=status == INTERRUPTED and took_s > soon_s(fault),
    )


def put_unfit(fault: Fault, folder: Path) -> None:
    """A netperf that does something else in the flow of 2 s."""
    [what] = fault.signs
    real = shutil.which("netperf")
    folder.mkdir()
    path = folder / "netperf"
    case = f'case " $* " in *" -l 2 "*) {UNFIT[what]}; exit;; esac'
    path.write_text(f'#!/bin/sh\n{case}\nexec {real} "$@"\n')
    path.chmod(0o755)


def soon_s(fault: Fault) -> float:
    """How long a run may take to end on request, on an idle machine."""
    return HURRIED_END_S if fault.signs == ("SIGINT", "SIGINT") else END_S


def inject(fault: Fault, victims: Sequence[psutil.Process]) -> None:
    """Send the signals of a fault to all of its targets."""
    for before, sign in zip(("", *fault.signs), fault.signs, strict=False):
        # Not a wait for anything: this long is the fault.
        if sign.endswith(" s"):
            time.sleep(float(sign.removesuffix(" s")))
            continue
        if before and not before.endswith(" s"):
            time.sleep(FROZEN_S if sign == "SIGCONT" else 0.1)
        for victim in victims:
            if is_alive(victim):
                victim.send_signal(signal.Signals[sign])


@contextlib.contextmanager
def stopped_loop(agent: psutil.Process, lab: Record, host: str) -> Iterator[None]:
    """The thread of a host's event loop is stopped while the body runs, by ptrace(2): signals stop
    a whole process."""
    namespace = records.NAMESPACE_FOLDER / lab.hosts[host].namespace
    tasks = sorted(Path(f"/proc/{agent.pid}/task").iterdir(), key=lambda path: int(path.name))
    # It has started the other threads that are there.
    loop = next(
        task for task in tasks if (task / "ns/net").stat().st_ino == namespace.stat().st_ino
    )
    thread = int(loop.name)
    # While it waits for events it has not Python's lock, which all threads need.
    waits = lambda: (loop / "wchan").read_text() in {"ep_poll", "do_epoll_wait"}  # noqa: E731
    assert process.wait_until(waits, timeout=60), (loop / "wchan").read_text()
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        assert trace(request, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        trace(PTRACE_DETACH, thread, None, None)
        # If it has ended, it is ours to reap.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(thread, WALL | os.WNOHANG)


def await_alive(lab: Record, host: str, name: str) -> list[psutil.Process]:
    """The processes of a program on a host, when there are some."""

    def found() -> list[psutil.Process]:
        here = inside([lab.hosts[host].namespace])
        return [one for one in here if is_alive(one) and one.name() == name]

    assert process.wait_until(lambda: bool(found()), timeout=60), f"no {name} at {host}"
    return found()


def left(lab: Record, made: list[psutil.Process]) -> list[object]:
    """What remains of a lab."""
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
    """The faults of experiments that had ended before the injected one."""
    if statuses_in(out).get("1.0") != "ok":
        yield "experiment 1 has no good row"
    whole = out / "1"
    for damage in integrity.check(whole, manifest.read(whole / manifest.NAME)):
        yield str(damage)
