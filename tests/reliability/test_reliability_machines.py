"""What becomes of a run on two machines whose disks, networks or hosts fail."""

import contextlib
import csv
import io
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest
from faults import BEFORE, BROUGHT, FAULTS, MOMENTS, Fault, injected
from worlds import AGENT_SOCKET, Machine, World

from netesto import process
from netesto.process import Child

SCRIPT = """\
SOURCE inlib
SET_SYSCTL host=h1 net.ipv4.tcp_ecn=1
RUN OneFlowStream server=h1 client=h2 expName=one ca=cubic dur=1
RUN OneFlowStream server=h1 client=h2 expName=two ca=cubic dur=2
RUN OneFlowStream server=h1 client=h2 expName=three ca=cubic dur=1
"""

# An agent that says it speaks another protocol.
OTHER_AGENT = """\
import sys
from netesto.agent import daemon
from netesto.transport import channel
channel.PROTOCOL = 99
sys.exit(daemon.main())
"""

# The agent's own limit would refuse what is to fail on a full disk.
CONFIG = "[limits]\ndisk_reserve = 0\n"

PATIENCE_S = 120
HOSTS = ("h1", "h2")
ECN = ("sysctl", "-n", "net.ipv4.tcp_ecn")
RUN = ("netesto", "run", "--plain", "--yes", "--no-pages", "--seed", "1")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the table says of a fault, as it was."""

    left: tuple[str, ...]
    statuses: tuple[str, ...]
    said: str
    status: int


@pytest.mark.parametrize("name", [name for name in injected() if FAULTS[name].target == "machines"])
def test_a_run_comes_through(name: str, world: World):
    fault = FAULTS[name]
    finished = () if fault.moment == BEFORE else ("ok",)
    statuses = (*finished, *filter(None, (fault.second, fault.third)))
    assert run_with(fault, world) == Outcome((), statuses, fault.said, fault.status)


def run_with(fault: Fault, world: World) -> Outcome:
    """Run the script on h1 and h2, inject the fault, and look at what it came to."""
    [what] = fault.signs
    case = Case(what, world, is_before=fault.moment == BEFORE)
    with case.agents():
        if case.is_before:
            case.inject()
        log = world.controller.folder / "reliability.log"
        log.write_text("")
        run = world.controller.start([*case.argv, "--out", case.out, "/root/a.nts"], stdout=log)
        try:
            if not case.is_before:
                text, count = MOMENTS[fault.moment]
                assert process.wait_until(
                    lambda: log.read_text().count(text) >= count, timeout=PATIENCE_S
                )
                case.inject()
            status = run.wait(PATIENCE_S)
        finally:
            process.end(run)
        said = log.read_text() + case.said
        case.mend()
        left = tuple(case.left())
        return Outcome(left, case.statuses(), fault.said if fault.said in said else said, status)


class Case:
    """The machines of one fault. What it mounts and starts there is gone after `agents`."""

    def __init__(self, what: str, world: World, *, is_before: bool) -> None:
        self.what = what
        self.world = world
        self.is_before = is_before
        self.controller, self.host = world.controller, world["h1"]
        self.out = "/mnt/results/out"
        self.argv = [*RUN, "--ssh" if BROUGHT in what else "--hosts", "hosts.toml"]
        self.said = ""
        self._place = "host" if "host" in what else "results"
        self._is_covered = False
        self._children: list[Child] = []
        self._ecn = self.host.run(ECN).stdout

    @contextlib.contextmanager
    def agents(self) -> Iterator[None]:
        """Disks of their own for the results and for h1's agent, and an agent on each host."""
        self.controller.write("/root/a.nts", SCRIPT)
        hosts = (
            f'[{host}]\naddresses = ["{self.world[host].address("data")}"]\n' for host in HOSTS
        )
        self.controller.write("/root/hosts.toml", "".join(hosts))
        self.controller.run(["rm", "-rf", "/root/other"])
        disks = ((self.controller, "/mnt/results"), (self.host, "/mnt/state"))
        for machine, path in disks:
            machine.run(["mkdir", "-p", path])
            machine.run(["mount", "-t", "tmpfs", "-o", "size=200M", "results", path])
        self.controller.run(["mkdir", self.out])
        if not (self.is_before and "host full" in self.what):
            self.host.write("/root/agent.toml", CONFIG)
        else:
            self.host.write("/root/agent.toml", "")
        with self.world["h2"].agent("--device", "eth1"):
            self._start_agent()
            try:
                yield
            finally:
                self.mend()
                for child in self._children:
                    process.end(child)
                for machine, path in disks:
                    machine.run(["umount", "-l", path])

    def _start_agent(self) -> None:
        words = ["--listen", f"unix:{AGENT_SOCKET}", "--host", "h1", "--device", "eth1"]
        words += ["--state", "/mnt/state/agent", "--config", "/root/agent.toml"]
        program = ["netesto-agent"]
        if "protocol" in self.what:
            program = [sys.executable, "-c", OTHER_AGENT]
        self.host.run(["install", "-d", "-m", "700", str(AGENT_SOCKET.parent)])
        log = self.host.folder / "h1-agent.log"
        child = self.host.start([*program, *words], stdout=log)
        self._children.append(child)
        self.host.await_socket(AGENT_SOCKET, child, log)

    def inject(self) -> None:
        """Do it; what lasts for a while is over on return."""
        match self.what.split():
            case [("data" | "management") as plane, "network", "cut", "for", seconds, *_]:
                self.world.cut("h1", plane)
                # Not a wait for anything: this long is the fault.
                time.sleep(float(seconds))
                self.world.restore("h1", plane)
            case ["host", "killed", *_]:
                self._kill()
                self._start_agent()
            case ["second", "controller", *_]:
                self._run_another("/root/other")
            case ["second", "run", *_]:
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
            case ["agent", *_]:
                pass
            case _:
                raise AssertionError(self.what)

    def _disk(self, place: str) -> tuple[Machine, str]:
        return (self.host, "/mnt/state") if place == "host" else (self.controller, "/mnt/results")

    def _kill(self) -> None:
        """SIGKILL to the agent of h1 and all that it has started."""
        for each in psutil.Process(self._children[-1].pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()

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

    def statuses(self) -> tuple[str, ...]:
        """Those of experiments, in order."""
        path = f"{self.out}/exp.csv"
        if not self.controller.exists(path):
            return ()
        rows = csv.DictReader(io.StringIO(self.controller.read(path)))
        return tuple(row["status"] for row in rows if row["exp"].endswith(".0"))

    def left(self) -> Iterator[str]:
        """What is not as before the run."""
        if self.host.run(ECN).stdout != self._ecn:
            yield "the sysctl of h1"
        if "protocol" in self.what:
            return
        shown = self.controller.run(["netesto", "hosts", "status", "-f", "json", "h1,h2"]).stdout
        for host in json.loads(shown)["hosts"]:
            for key in ("holder", "settings", "left"):
                if host["status"][key]:
                    yield f"{host['host']}: {key}: {host['status'][key]}"
