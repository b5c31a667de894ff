"""A run whose traffic tools and collectors are killed, terminated or stopped."""

import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
from faults import END, FAILED, MIDDLE, OK, TELLING, Fault, of_tools, tool_of
from processes import inside, is_alive, wait_for_costly
from test_reliability import damaged_in, left, statuses_in

from netesto.lab import records
from netesto.lab.records import Record
from netesto.system import process

RUNS = of_tools()

# Beside the flow of the tool in question runs that of another one.
SCRIPT = """\
LAB pair rate=20mbit
BEGIN two
    DO_SERVER exp=COUNTER host=b expName=two order=0 start=1
    {capture}
    DO_CLIENT host=a server=b tool={tool} test=TCP_STREAM dur=1
    DO_CLIENT host=a server=b tool={other} test=TCP_STREAM dur=1
    WAIT_FLOWS
    GET_DATA host=b
    GET_DATA host=a
    PROCESS_EXP
END two
RUN two,{count}
"""
CAPTURE = "DO_TCPDUMP host=a server=b packets=100000"
OTHER = {"netperf": "iperf3", "iperf3": "native", "native": "netperf"}

# The host of each tool, and the words of its command.
TOOLS = {
    "netperf": ("a", ("netperf",)),
    "netserver": ("b", ("netserver",)),
    "iperf3 client": ("a", ("iperf3", "-c")),
    "iperf3 server": ("b", ("iperf3", "-s")),
    "native client": ("a", ("netesto-flow", "client")),
    "native server": ("b", ("netesto-flow", "server")),
    "ping": ("a", ("ping",)),
    "tcpdump": ("a", ("tcpdump",)),
}
# The other end of a flow; of a collector, the end of the flow that it sees.
PEERS = {
    "netperf": "netserver",
    "netserver": "netperf",
    "iperf3 client": "iperf3 server",
    "iperf3 server": "iperf3 client",
    "native client": "native server",
    "native server": "native client",
    "ping": "netserver",
    "tcpdump": "netserver",
}

# How long a tool is stopped, and how long the other end is, so that a flow of 1 s is over but for
# its result.
STOPPED_S = HELD_S = 1.5

# More than what is exchanged before a flow.
FLOWING_BYTES = 300_000

PATIENCE_S = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one fault: the statuses of its experiment and of the flow beside it."""

    second: str
    beside: str
    said: str


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of a run, in the columns of the table."""

    outcomes: tuple[Outcome, ...]
    third: str
    status: int
    damaged: tuple[str, ...]
    left: tuple[object, ...]


@pytest.mark.lab
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in TELLING else pytest.mark.thorough) for name in RUNS],
)
def test_a_run_comes_through(name: str):
    faults = RUNS[name]
    with tempfile.TemporaryDirectory(prefix="netesto-test-") as folder:
        found, late = run_with(faults, Path(folder))
    outcomes = tuple(
        Outcome("ok", "ok", "") if is_late else Outcome(fault.second, "ok", fault.said)
        for fault, is_late in zip(faults, late, strict=True)
    )
    status = FAILED if any(each.second != "ok" for each in outcomes) else OK
    assert found == Run(outcomes, third="ok", status=status, damaged=(), left=())


def run_with(faults: Sequence[Fault], folder: Path) -> tuple[Run, list[bool]]:
    """Run the script, and inject a fault into each experiment between the first and the last. Also
    whether each fault was late: the flow had ended."""
    tool, count = tool_of(faults[0].target), len(faults) + 2
    capture = CAPTURE if faults[0].target == "tcpdump" else ""
    text = SCRIPT.format(tool=tool, other=OTHER[tool], capture=capture, count=count)
    (folder / "script.nts").write_text(text)
    output, out = folder / "output", folder / "out"
    output.touch()
    argv = [sys.executable, "-m", "netesto", "run", "--plain", "--force", "--ground", "lab"]
    argv += ["--seed", "1", "--no-pages", "--out", str(out), str(folder / "script.nts")]

    def said(exp: int) -> str:
        """What the run printed during an experiment."""
        since = output.read_text().partition(f" experiment {exp} of {count}")[2]
        return since.partition(f" experiment {exp + 1} of {count}")[0]

    injected: list[Injected] = []
    with process.background(
        argv, stdout=output, cwd=folder, ready=lambda: bool(said(1)), timeout=PATIENCE_S
    ) as run:
        [lab] = [one for one in records.read_all(records.STATE_FOLDER) if one.owner == run.pid]
        made = inside(lab.namespaces)
        for exp, fault in enumerate(faults, start=2):
            begins = partial(lambda exp: "#1.1: 1 s" in said(exp), exp)
            assert process.wait_until(begins, timeout=PATIENCE_S), output.read_text()
            injected.append(
                inject(fault, lab, partial(lambda exp: "#1.1: ended" in said(exp), exp))
            )
            made += inside(lab.namespaces)
        status = run.wait(PATIENCE_S)
    wait_for_costly(lambda: not left(lab, made), timeout=60)
    statuses = statuses_in(out)
    outcomes, late = [], []
    for exp, (fault, at) in enumerate(zip(faults, injected, strict=True), start=2):
        record = json.loads((out / str(exp) / "raw" / "a" / "flow.1.1.json").read_text())
        told = fault.said if fault.said in said(exp) else said(exp)
        second, beside = (statuses.get(f"{exp}.{row}", "") for row in (0, 2))
        # Between the look at the clock and the signal the flow may have ended well.
        end_s = at.after_s if second == "ok" else at.before_s
        late.append(record["ended_s"] < end_s)
        outcomes.append(Outcome(second, beside, "" if late[-1] else told))
    third, damaged = statuses.get(f"{count}.0", ""), tuple(damaged_in(out))
    return Run(tuple(outcomes), third, status, damaged, tuple(left(lab, made))), late


@dataclass(frozen=True, slots=True)
class Injected:
    """When a fault was injected: the system's time before its first signal, and after."""

    before_s: float
    after_s: float


def inject(fault: Fault, lab: Record, is_over: Callable[[], bool]) -> Injected:
    """Signal the tool of a fault at its moment. On a busy machine the flow may be over before."""
    before = received(lab)
    victims = found(lab, fault.target, is_over)
    held = found(lab, PEERS[fault.target], is_over) if fault.moment == END else []
    if fault.moment in (MIDDLE, END):
        flows = lambda: is_over() or received(lab) > before + FLOWING_BYTES  # noqa: E731
        assert process.wait_until(flows, timeout=60)
    send("SIGSTOP", held)
    begun_s, after_s = time.time(), 0.0
    if held:
        # Not a wait for anything: this long it is stopped.
        time.sleep(HELD_S)
    for sign in fault.signs:
        if sign == "SIGCONT":
            # Nor is this.
            time.sleep(STOPPED_S)
        send(sign, victims)
        after_s = after_s or time.time()
    send("SIGCONT", held)
    return Injected(begun_s, after_s)


def send(sign: str, victims: Sequence[psutil.Process]) -> None:
    """Signal the groups of processes: netserver has one for each flow, too."""
    for victim in filter(is_alive, victims):
        process.kill_group(victim.pid, signal.Signals[sign])


def found(lab: Record, target: str, is_over: Callable[[], bool]) -> list[psutil.Process]:
    """The processes of a tool, when there are some; none if the flow is over before."""
    host, words = TOOLS[target]
    tools: list[psutil.Process] = []

    def are_there() -> bool:
        here = filter(is_alive, inside([lab.hosts[host].namespace]))
        is_late = is_over()
        tools[:] = [each for each in here if not is_late and runs(each, words)]
        return bool(tools) or is_late

    assert process.wait_until(are_there, timeout=60), f"no {target}"
    return tools


def runs(there: psutil.Process, words: Sequence[str]) -> bool:
    """Whether a process runs a command that begins with these words."""
    with contextlib.suppress(psutil.NoSuchProcess):
        name, *others = there.cmdline() or [""]
        return (Path(name).name, *others[: len(words) - 1]) == tuple(words)
    return False


def received(lab: Record) -> int:
    """The bytes that the server has received."""
    [agent, *_] = inside([lab.hosts["b"].namespace])
    lines = Path(f"/proc/{agent.pid}/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split()[1]) for line in lines if not line.strip().startswith("lo:"))
