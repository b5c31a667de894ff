"""Runs that are asked to end at instants that a seed draws, and their outcomes."""

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from places import PATIENCE_S
from processes import wait_for_costly
from promptness import END_S, HURRIED_END_S, slowdown
from whole_runs import command

from netesto.lab import leftovers, records
from netesto.lab.netns import Lab
from netesto.results import csvfile, manifest, store, tablerows
from netesto.system import owned, proc, process

# As many as tests/conftest.py has by default. `make test` runs every other one of a ground.
INSTANTS = 15

# What a run of each ground takes on an idle machine: instants are drawn from it.
TAKES_S: Mapping[str, float] = {"lab": 4.2, "hosts": 3.4, "uml": 12.0, "sim": 12.0}

SIGNALS = (
    ("INT",), ("TERM",), ("HUP",), ("KILL",), ("INT", "INT"), ("HUP", "HUP"), ("TERM", "HUP"),
    ("INT", "KILL"), ("HUP", "INT"),
)  # fmt: skip

# The maximum between two signals.
GAP_S = 0.6

# An agent that lost its controller puts its host back within so much.
PUT_BACK_S = 60.0

# In the environment of all that a run starts.
MARK = "NETESTO_TEST_INSTANT"

SCRIPT = """\
LAB pair rate=20mbit
SET_SYSCTL host=a net.ipv4.tcp_limit_output_bytes=262144
SET_QDISC host=a qdisc=pfifo limit=77
SET exp=COUNTER
DO_SERVER host=b exp=$exp expName=first start=1
DO_CLIENT host=a server=b exp=$exp expName=first test=TCP_STREAM ca=cubic dur=1 stats=1
WAIT_FLOWS
PROCESS_EXP exp=$exp
SET exp=COUNTER
DO_CLIENT host=a server=b exp=$exp expName=second test=TCP_STREAM ca=reno dur=2 tool=iperf3
WAIT_FLOWS
PROCESS_EXP exp=$exp
"""


@dataclass(frozen=True, slots=True)
class Instant:
    """A run on a ground that gets these signals, the first `delay_s` after it can handle any, each
    other `gap_s` after the one before."""

    ground: str
    signals: tuple[str, ...]
    delay_s: float
    gap_s: float

    def __str__(self) -> str:
        return f"{self.ground}-{'+'.join(self.signals)}-{self.delay_s:.2f}s"


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a run: its exit status, the time to its end, and what it did not put back."""

    status: int
    took_s: float
    left: tuple[str, ...]
    said: str

    def fault(self, instant: Instant) -> str:
        """The fault of this outcome; "" if there is none."""
        wanted = {0, 130}
        if "KILL" in instant.signals:
            wanted |= {-signal.SIGKILL}
        faults = list(self.left)
        if self.status not in wanted:
            faults.append(f"exit status {self.status}")
        bound_s = HURRIED_END_S if instant.signals == ("INT", "INT") else END_S
        if self.took_s > bound_s:
            faults.append(f"ended after {self.took_s:.2f} s")
        return "; ".join(faults)


def drawn(count: int, *, seed: int, grounds: Sequence[str]) -> list[Instant]:
    """So many instants, spread over the whole of a run on each ground."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        ground = grounds[number % len(grounds)]
        rank, ranks = number // len(grounds), max(1, count // len(grounds))
        delay_s = (rank + chance.random()) / ranks * TAKES_S[ground]
        gap_s = chance.uniform(0, GAP_S)
        found.append(Instant(ground, chance.choice(SIGNALS), delay_s, gap_s))
    return found


def tried(instant: Instant, hosts: Lab | None) -> Ended:
    """Run one; record everything that it leaves behind, and remove it."""
    folder = Path(tempfile.mkdtemp(prefix="ntinstant-"))
    try:
        return _tried(instant, hosts, folder)
    finally:
        shutil.rmtree(folder)


def _tried(instant: Instant, hosts: Lab | None, folder: Path) -> Ended:
    out, temporary, output = folder / "results", folder / "tmp", folder / "output"
    temporary.mkdir()
    mark = folder.name
    words = _words(instant, hosts, folder)
    before = _state_of(hosts)
    env = {**os.environ, "TMPDIR": str(temporary), MARK: mark}
    with process.background(words, stdout=output, env=env, ready=None, timeout=PATIENCE_S) as run:
        process.wait_until(lambda: _handles_signals(run.pid), timeout=PATIENCE_S)
        process.wait_until(lambda: run.poll() is not None, timeout=instant.delay_s)
        slow = slowdown()
        for number, name in enumerate(instant.signals):
            if number:
                process.wait_until(lambda: run.poll() is not None, timeout=instant.gap_s)
            begun_s = time.monotonic()
            run.send_signal(signal.Signals[f"SIG{name}"])
        status = run.wait(PATIENCE_S)
        took_s = (time.monotonic() - begun_s) / max(slow, slowdown())
    said = output.read_text(errors="replace")
    if status == -signal.SIGKILL:
        # Those whose parent is gone end by themselves.
        wait_for_costly(lambda: not _strangers(mark, run.pid), timeout=PUT_BACK_S)
        leftovers.clean()
        owned.remove_abandoned(temporary)
        temporary_left: list[Path] = []
    else:
        temporary_left = list(temporary.iterdir())
    wait_for_costly(lambda: _state_of(hosts) == before, timeout=PUT_BACK_S)
    left = [
        *(f"process {line}" for line in _strangers(mark, run.pid)),
        *(f"{path} is left" for path in temporary_left),
        *(f"lab {record.lab}" for record in _labs_of(run.pid)),
        *(f"{key} is {value}" for key, value in _state_of(hosts).items() if before[key] != value),
        *_unreadable(out),
    ]
    return Ended(status, took_s, tuple(left), said)


def _words(instant: Instant, hosts: Lab | None, folder: Path) -> list[str]:
    script = folder / "script.nts"
    words = command("run", "--plain", "--yes", "--seed", "1", "--out", str(folder / "results"))
    if instant.ground != "hosts":
        script.write_text(SCRIPT)
        return [*words, "--force", "--ground", instant.ground, str(script)]
    assert hosts is not None, "agents to hold"
    script.write_text(SCRIPT.partition("\n")[2])
    table = "".join(
        f'[{name}]\nagent = "{endpoint.agent}"\n'
        f"addresses = {[str(each) for each in endpoint.addresses.values()]}\n"
        for name, endpoint in hosts.endpoints.items()
    )
    (folder / "hosts.toml").write_text(table)
    return [*words, "--hosts", str(folder / "hosts.toml"), str(script)]


def _handles_signals(pid: int) -> bool:
    """Whether a process has a handler of SIGTERM, or has ended (proc_pid_status(5))."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return True
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    state = next(line.split()[1] for line in lines if line.startswith("State:"))
    return state == "Z" or bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def _strangers(mark: str, run: int) -> list[str]:
    """The processes that a run started and that live, each as its command line."""
    found = []
    for pid in proc.numbers():
        with contextlib.suppress(OSError):
            # A guest has little of the environment, but its folder.
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes() and pid != run:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                found.append(f"{pid} {line.decode(errors='replace')[:80]}")
    return found


def _labs_of(run: int) -> Iterator[records.Record]:
    return (each for each in records.read_all(records.STATE_FOLDER) if each.owner == run)


def _state_of(hosts: Lab | None) -> dict[str, str]:
    """What the script sets on hosts, and who holds their agents' spools."""
    if hosts is None:
        return {}
    found = {}
    for name, host in hosts.record.hosts.items():
        for what, argv in {
            "qdisc": ["tc", "qdisc", "show", "dev", host.device],
            "sysctl": ["sysctl", "-n", "net.ipv4.tcp_limit_output_bytes"],
        }.items():
            said = hosts.exec(name, argv, timeout=20).stdout.split()
            # The handle of a qdisc is a number that counts.
            found[f"{what} of {name}"] = " ".join(word for word in said if not word.endswith(":"))
        journal = Path(hosts.record.files) / name / "journal"
        found[f"journal of {name}"] = str(journal.stat().st_size > 0) if journal.exists() else ""
    return found


def _unreadable(out: Path) -> Iterator[str]:
    """The results that cannot be read."""
    if not out.is_dir():
        return
    try:
        csvfile.read(out / store.TABLE)
        for exp in store.experiments(out):
            manifest.read(out / str(exp) / manifest.NAME)
        yield from tablerows.altered(out)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        yield f"results cannot be read: {error}"
