"""A run on two machines whose disks, networks or hosts fail."""

import contextlib
import csv
import io
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from faults import (
    BEFORE,
    BETWEEN,
    BROUGHT,
    FAULTS,
    FROZEN_S,
    MIDDLE,
    OF_MACHINES,
    ON_MACHINES,
    STEPS_S,
    Fault,
    expected,
    facts_in,
    injected,
)
from worlds import AGENT_SOCKET, Machine, Plane, World

from netesto.controller import digest
from netesto.files import atomic
from netesto.results import manifest
from netesto.system import process
from netesto.system.process import Child

SCRIPT = """\
SOURCE inlib
SET_SYSCTL host=h1 net.ipv4.tcp_ecn=1
RUN OneFlowStream server=h1 client=h2 expName=one ca=cubic dur=1
RUN OneFlowStream server=h1 client=h2 expName=two ca=cubic dur=2
RUN OneFlowStream server=h1 client=h2 expName=three ca=cubic dur=1
"""
FROM_H1 = SCRIPT.replace("server=h1 client=h2", "server=h2 client=h1")

# Long enough for an agent to start.
STARTED_S = 8

# Longer than a host takes to be there again, and others to notice that it was not.
PAUSE_S = 8

# More than what is exchanged before a flow.
FLOWING_BYTES = 1_000_000

# An agent that says it speaks another protocol.
OTHER_AGENT = """\
import sys
from netesto.agent import daemon
from netesto.transport import channel
channel.PROTOCOL = 99
sys.exit(daemon.main())
"""

# A program of Netesto whose system time is ahead of this machine's by the nanoseconds in a file.
SETTABLE = """\
import pathlib, sys, time
kernels, ahead = time.time_ns, pathlib.Path("/root/ahead")
time.time_ns = lambda: kernels() + int(ahead.read_text())
from netesto{module} import main
sys.exit(main())
"""

# The agent's own limit would refuse what is to fail on a full disk.
CONFIG = "[limits]\ndisk_reserve = 0\n"

# Where a results folder is moved to.
MOVED = "/mnt/results/moved"

PATIENCE_S = 200
HOSTS = ("h1", "h2")
ECN = ("sysctl", "-n", "net.ipv4.tcp_ecn")
RUN = ("run", "--plain", "--yes", "--no-pages", "--seed", "1")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The actual outcome of a fault, in the columns of the table."""

    left: tuple[str, ...]
    statuses: tuple[str, ...]
    said: str
    status: int
    off: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


# The longest cuts, and what follows from them.
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", injected(on_machines=True))
def test_a_run_comes_through(name: str, world: World):
    fault = FAULTS[name]
    finished = ("ok",) if fault.begins else ()
    outcome = run_with(fault, world)
    second = expected(fault, outcome.facts)
    statuses = (*finished, *filter(None, (second, fault.third)))
    status = 0 if (second, fault.third) == ("ok", "ok") and fault.instead else fault.status
    assert outcome == Outcome((), statuses, fault.said, status, facts=outcome.facts)


def run_with(fault: Fault, world: World) -> Outcome:
    """Run the script on h1 and h2, inject the fault, and return the outcome."""
    case = Case(fault, world)
    with case.agents():
        if case.is_before:
            case.inject()
        log = world.controller.folder / "reliability.log"
        log.write_text("")
        options = ("--on-failure", fault.on_failure)
        argv = [*case.argv, *options, "--out", case.out, "/root/a.nts"]
        run = world.controller.start(argv, stdout=log)
        try:
            if not case.is_before:
                await_moment(fault.moment, log, world)
                case.inject(run)
            status = run.wait(PATIENCE_S)
        finally:
            process.end(run)
        said = log.read_text() + case.said
        case.mend()
        left, told = tuple(case.left()), fault.said if fault.said in said else said
        facts = tuple(case.facts(said)) if fault.instead else ()
        return Outcome(left, case.statuses(), told, status, tuple(case.off()), facts)


def await_moment(moment: str, log: Path, world: World) -> None:
    def has_come() -> bool:
        return log.read_text().count(text) >= count

    text, count = OF_MACHINES[moment]
    assert process.wait_until(has_come, timeout=PATIENCE_S)
    if moment == MIDDLE:
        # A flow is announced a moment before its tools are started.
        before = received(world)
        process.wait_until(lambda: received(world) > before + FLOWING_BYTES, timeout=60)


def received(world: World) -> int:
    """The bytes that the hosts have received from the data network."""
    tables = [Path(f"/proc/{world[host].pid}/net/dev").read_text() for host in HOSTS]
    lines = [line for table in tables for line in table.splitlines() if "eth1:" in line]
    return sum(int(line.split()[1]) for line in lines)


@contextlib.contextmanager
def frozen(run: Child) -> Iterator[None]:
    """A program of a machine is stopped. Its nsenter(1) stops when it sees that, and continues it
    when it is continued itself."""
    nsenter = psutil.Process(run.pid)
    [program] = nsenter.children()
    program.suspend()
    assert process.wait_until(lambda: nsenter.status() == psutil.STATUS_STOPPED, timeout=60)
    try:
        yield
    finally:
        nsenter.resume()


class Case:
    """The machines of one fault. What it mounts and starts there is gone after `agents`."""

    def __init__(self, fault: Fault, world: World) -> None:
        is_agent = fault.target in ON_MACHINES
        self.what = " ".join([fault.target, *fault.signs] if is_agent else fault.signs)
        self.moment = fault.moment
        self.world = world
        self.controller = world.controller
        self.out = "/mnt/results/out"
        # Whose clock is set.
        self._clock = {"client": "h1", "server": "h1", "controller": "controller"}.get(
            self.what.split()[3] if self.what.startswith("clock") else ""
        )
        option = "--ssh" if BROUGHT in self.what else "--hosts"
        self.argv = [*self._program("controller"), *RUN, option, "hosts.toml"]
        self.said = ""
        self._place = "host" if "host" in self.what else "results"
        self._is_covered = False
        self._children: list[Child] = []
        self._ecn = self.host.run(ECN).stdout
        self._log = self.host.folder / "h1-agent.log"
        self._logged = 0

    @property
    def is_before(self) -> bool:
        return self.moment == BEFORE

    @property
    def host(self) -> Machine:
        """h1, which is another one when it was rebooted."""
        return self.world["h1"]

    @contextlib.contextmanager
    def agents(self) -> Iterator[None]:
        """Disks of their own for the results and for h1's agent, and an agent on each host."""
        is_client = self.what.startswith(("clock of the client", ON_MACHINES[0]))
        script = FROM_H1 if is_client else SCRIPT
        if self.what.startswith("second controller"):
            script = script.replace("dur=2\n", f"dur=2\nWAIT {STARTED_S}\n")
        one, end, others = script.partition("expName=one ca=cubic dur=1\n")
        pause = f"WAIT {PAUSE_S}\n" if self.moment == BETWEEN else ""
        self.controller.write("/root/a.nts", f"{one}{end}{pause}{others}")
        hosts = [
            f'[{host}]\naddresses = ["{self.world[host].address("data")}"]\n' for host in HOSTS
        ]
        self.controller.write("/root/hosts.toml", "".join(hosts))
        self.controller.run(["rm", "-rf", "/root/other"])
        disks = (("controller", "/mnt/results"), ("h1", "/mnt/state"))
        for name, path in disks:
            machine = self.world[name]
            machine.run(["mkdir", "-p", path])
            machine.run(["mount", "-t", "tmpfs", "-o", "size=200M", "results", path])
        self.controller.run(["mkdir", self.out])
        config = "" if self.is_before and "host full" in self.what else CONFIG
        self.host.write("/root/agent.toml", config)
        with contextlib.ExitStack() as stack:
            self._set_time(0)
            stack.enter_context(self.world["h2"].agent("--device", "eth1"))
            self._start_agent()
            try:
                yield
            finally:
                self.mend()
                for child in self._children:
                    process.end(child)
                for name, path in disks:
                    self.world[name].run(["umount", "-l", path])

    def _start_agent(self) -> None:
        words = ["--listen", f"unix:{AGENT_SOCKET}", "--host", "h1", "--device", "eth1"]
        words += ["--state", "/mnt/state/agent", "--config", "/root/agent.toml"]
        program = self._program("h1")
        if "protocol" in self.what:
            program = [sys.executable, "-c", OTHER_AGENT]
        self.host.run(["install", "-d", "-m", "700", str(AGENT_SOCKET.parent)])
        child = self.host.start([*program, *words], stdout=self._log)
        self._children.append(child)
        self.host.await_socket(AGENT_SOCKET, child, self._log)

    def _program(self, machine: str) -> list[str]:
        """How to start the controller or an agent on a machine."""
        is_controller = machine == "controller"
        if machine == self._clock:
            module = ".__main__" if is_controller else ".agent.daemon"
            return [sys.executable, "-c", SETTABLE.format(module=module)]
        return ["netesto" if is_controller else "netesto-agent"]

    def _set_time(self, ahead_s: float) -> None:
        if self._clock is not None:
            path = Path(f"/proc/{self.world[self._clock].pid}/root/root/ahead")
            atomic.replace(path, str(round(ahead_s * 10**9)))

    def inject(self, run: Child | None = None) -> None:
        """Inject it, into `run` if it is under way; a temporary fault is over on return."""
        match self.what.split():
            case [("data" | "management") as plane, "network", "cut", "for", seconds, *_]:
                self._cut("data" if plane == "data" else "management", float(seconds))
            case ["ssh", "process", "killed,", *_]:
                self.controller.run(["pkill", "-KILL", "-f", "^ssh .* h1 python3"])
            case ["setting", *_]:
                self.host.run(["sysctl", "-w", "net.ipv4.tcp_ecn=0"])
            case ["data", "of", *_]:
                self.host.run(["sh", "-c", "rm -r /mnt/state/agent/spool/*"])
            case ["journal", "of", "the", "host", *how]:
                take = "rm" if how[0].startswith("deleted") else "truncate --size 0"
                self.host.run(["sh", "-c", f"{take} /mnt/state/agent/journal"])
                if "killed" in how:
                    self._kill()
                    self._start_agent()
            case ["results", "folder", "written", *_]:
                self.controller.run(["sh", "-c", f"echo >> {self.out}/exp.csv"])
            case ["results", "folder", "moved" | "replaced" as how]:
                again = f"; mkdir {self.out}" if how == "replaced" else ""
                self.controller.run(["sh", "-c", f"mv {self.out} {MOVED}{again}"])
            case ["host", "killed", *how]:
                self._kill()
                if "for" not in how:
                    self._start_agent()
            case ["host", "rebooted", *_]:
                with self._run_cut_off() if self.is_before else contextlib.nullcontext():
                    self.world.reboot("h1")
                self._logged = self._log.stat().st_size
                self._start_agent()
            case ["second", "controller", *_]:
                self._run_another("/root/other")
            case ["second", "run", *_]:
                assert run is not None
                # On a busy machine the first would have ended before the second looks.
                with frozen(run):
                    self._run_another(self.out)
            case ["disk", "of", "the", _, "full"]:
                machine, path = self._disk(self._place)
                fill = f"dd if=/dev/zero of={path}/filler bs=1M 2>/dev/null; sync"
                machine.run(["sh", "-c", fill], check=False)
            case [*_, "read-only"]:
                machine, path = self._disk(self._place)
                # Not the file system: it is busy while files there are open for writing.
                machine.run(["mount", "--bind", path, path])
                machine.run(["mount", "-o", "remount,bind,ro", path])
                self._is_covered = True
            case ["clock", "of", "the", _, "set", "by", *step]:
                self._set_time(STEPS_S[" ".join(step[:2])])
                if step[2:] == ["and", "back"]:
                    # Not a wait for anything: this long the time is wrong, which an agent looks at
                    # ten times per second.
                    time.sleep(1)
                    self._set_time(0)
            case ["agent", "of", "the", _, *signs]:
                for sign in signs:
                    self._signal(sign)
            case ["agent", *_]:
                pass
            case _:
                raise AssertionError(self.what)

    def _cut(self, plane: Plane, seconds: float) -> None:
        self.world.cut("h1", plane)
        # Not a wait for anything: this long is the fault.
        time.sleep(seconds)
        self.world.restore("h1", plane)

    def _disk(self, place: str) -> tuple[Machine, str]:
        return (self.host, "/mnt/state") if place == "host" else (self.controller, "/mnt/results")

    def _kill(self) -> None:
        """SIGKILL to the agent of h1 and all that it has started."""
        for each in psutil.Process(self._children[-1].pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

    def _signal(self, sign: str) -> None:
        """Send a signal to the agent of h1, and start another one after its end."""
        [agent] = agents_among(psutil.Process(self._children[-1].pid).children(recursive=True))
        agent.send_signal(signal.Signals[sign])
        if sign == "SIGSTOP":
            # Not a wait for anything: this long is the fault.
            time.sleep(FROZEN_S)
        elif sign != "SIGCONT":
            self._children[-1].wait(PATIENCE_S)
            self._start_agent()

    @contextlib.contextmanager
    def _run_cut_off(self) -> Iterator[None]:
        """A run that loses h1 during a flow."""
        log = self.controller.folder / "cut-off.log"
        log.write_text("")
        run = self.controller.start([*self.argv, "--out", "/root/other", "/root/a.nts"], stdout=log)
        try:
            await_moment(MIDDLE, log, self.world)
            yield
        finally:
            process.end(run)

    def _run_another(self, out: str) -> None:
        finished = self.controller.run(
            [*self.argv, "--out", out, "/root/a.nts"], check=False, timeout=PATIENCE_S
        )
        self.said = finished.stdout + finished.stderr

    def mend(self) -> None:
        """Give the disks room again, and let them be written."""
        for place in ("host", "results"):
            machine, path = self._disk(place)
            if self._is_covered and place == self._place:
                machine.run(["umount", path])
                self._is_covered = False
            machine.run(["rm", "-f", f"{path}/filler"])
        if self.controller.exists(MOVED):
            self.controller.run(["rm", "-rf", self.out])
            self.controller.run(["mv", MOVED, self.out])
        if (
            self.what.startswith("setting")
            or "killed and started again" in self.what.partition(",")[2]
        ):
            # What another program has changed stays so, and what no agent knows of.
            self.host.run(["sysctl", "-w", f"net.ipv4.tcp_ecn={self._ecn.strip()}"])
        if self.what == "host killed for good" and self._children[-1].poll() is not None:
            self._start_agent()

    def facts(self, said: str) -> Iterator[str]:
        """Which condition decides the outcome of the second experiment."""
        client = "h1" if self.what.startswith(ON_MACHINES[0]) else "h2"
        path = f"/proc/{self.controller.pid}/root{self.out}"
        return facts_in(Path(path), said, client=client)

    def statuses(self) -> tuple[str, ...]:
        """Those of experiments, in order."""
        path = f"{self.out}/exp.csv"
        if not self.controller.exists(path):
            return ()
        rows = csv.DictReader(io.StringIO(self.controller.read(path)))
        return tuple(row["status"] for row in rows if row["exp"].endswith(".0"))

    def off(self) -> Iterator[str]:
        """What was measured by a clock that was set, and is in the results all the same; and what
        was not, and is missing."""
        if self._clock is None:
            return
        place = Path(f"/proc/{self.controller.pid}/root{self.out}/2")
        found = manifest.read(place / manifest.NAME)
        [group] = digest.evidence(place, found).groups
        [flow] = group.instances
        assert flow.result is not None
        is_known = {
            "rate": flow.result.rate_bps is not None,
            "interim results": bool(flow.result.intervals),
            "client CPU": flow.result.local_cpu_percent is not None,
            "server CPU": flow.result.remote_cpu_percent is not None,
            "pings": bool(group.pings),
            "sockets of the client": bool(flow.client_samples),
            "sockets of the server": bool(flow.server_samples),
        }
        whose = self.what.split()[3]
        of_client = {"rate", "interim results", "client CPU", "server CPU", "pings"}
        unknown = {"client": of_client, "server": {"server CPU"}, "controller": set()}[whose]
        for name, known in is_known.items():
            if known == (name in unknown):
                yield f"{name}: {'known' if known else 'unknown'}"

    def left(self) -> Iterator[str]:
        """The differences from the state before the run."""
        if self.host.run(ECN).stdout != self._ecn:
            yield "the sysctl of h1"
        if "rebooted" in self.what:
            # Its settings have gone by themselves.
            lines = self._log.read_text()[self._logged :].splitlines()
            yield from (line for line in lines if "of a killed agent" in line)
        if "protocol" in self.what:
            return
        shown = self.controller.run(["netesto", "hosts", "status", "-f", "json", "h1,h2"]).stdout
        for host in json.loads(shown)["hosts"]:
            for key in ("holder", "settings", "left"):
                if host["status"][key]:
                    yield f"{host['host']}: {key}: {host['status'][key]}"


def agents_among(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Their agents: those with threads that are no samplers."""
    found = []
    for each in processes:
        # Some end meanwhile.
        with contextlib.suppress(psutil.Error):
            is_agent = "netesto-agent" in " ".join(each.cmdline())
            if is_agent and each.name() != "netesto-sampler" and each.num_threads() > 1:
                found.append(each)
    return found
