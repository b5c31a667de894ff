"""Parts on the workers of a cluster: a real scheduler and real workers of Dask on this machine,
each with a cache of its own and nothing in common with the controller but TCP. The process of a
part is a small program that writes what a guest would."""

import asyncio
import contextlib
import hashlib
import itertools
import json
import lzma
import os
import platform
import re
import signal
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from distributed import Client

from netesto.agent import tools
from netesto.cli.display import Display
from netesto.errors import MissingError, UsageError, WorldError
from netesto.files import paths
from netesto.grounds import LAB, SIM
from netesto.lab.kernels import Kernel
from netesto.language.plan import SourceFile
from netesto.language.steps import DoClient, RemoteCommand
from netesto.results import csvfile, fields
from netesto.results.runs import RunRecord
from netesto.run import guests, onworker, start
from netesto.run.cluster import Cluster, address_of
from netesto.run.request import RunRequest
from netesto.run.session import RunEnd, RunSession
from netesto.run.settings import RunSettings
from netesto.run.workers import LocalWorkers
from netesto.system import process

# The name of each run, with its number.
RUN = "2026-11-20T121500.{:03}Z"
SETTINGS = RunSettings(libraries=(), definitions={}, max_iterations=1000, seed=1)
FIELDS = fields.parse("exp:one\nstatus:one\nrate:sum\n", source=str(paths.fields_file()))
PATIENCE_S = 60

SCRIPT = """\
LAB pair
SWEEP ca=reno,cubic,bbr reps=2 DO
    DO_SERVER host=b exp=COUNTER
    DO_CLIENT host=a server=b ca=$ca test=TCP_STREAM
    PROCESS_EXP
DONE
"""

# Its arguments are the job, and a folder. Each execution adds a line to `executed` there, and the
# process id of its worker to `worker-N`. While there is a file `hold-N`, experiment N does not end,
# but by as many signals as the file says.
PART = """
import json, os, signal, sys, time
from pathlib import Path
job, common = map(Path, sys.argv[1:])
guest, _, _, head, *_ = job.read_bytes().split(b"\\n")
number = json.loads(head[len(b'"head": '):-1])["parts"][0]["before"] + 1
folder = job.parent
assert json.loads(guest)["out"] == str(folder)
assert Path(json.loads(guest)["kernel"]["path"]).read_text() == "a kernel"
hold = common / f"hold-{number}"
signals, needed = [], int(hold.read_text()) if hold.exists() else 1
def note(*_):
    signals.append(1)
    (common / f"signals-{number}").write_text(str(len(signals)))
signal.signal(signal.SIGINT, note)
(common / f"worker-{number}").write_text(os.environ["WORKER"])
# Signals may come from now on.
with (common / "executed").open("a") as file:
    file.write(f"{number}\\n")
print(f"warning: cell {number}", file=sys.stderr, flush=True)
deadline = time.monotonic() + 100
while hold.exists() and len(signals) < needed and time.monotonic() < deadline:
    time.sleep(0.01)
ended = len(signals) >= needed
status = "failed" if ended else "ok"
(folder / str(number)).mkdir()
(folder / str(number) / "raw").write_bytes(bytes(range(256)) * number)
(folder / "exp.csv").write_text(f"exp,status,rate\\n{number}.0,{status},{number}\\n")
(folder / "runs").mkdir()
record = {"failures": [], "ground": "sim", "hosts": {}, "name": "RUN", "argv": [], "seed": 1}
record |= {"script_path": "", "script": "", "started": ""}
(folder / "runs" / "RUN.json").write_text(json.dumps(record))
print(f"part {number}")
sys.exit(130 if ended else 0)
"""

# Workers of Dask, each with its resources of the last argument.
OTHER_WORKERS = """
import asyncio, contextlib, json, sys
from distributed import Worker
async def serve():
    async with contextlib.AsyncExitStack() as stack:
        for each in json.loads(sys.argv[2]):
            worker = Worker(sys.argv[1], host="127.0.0.1", resources=each)
            await stack.enter_async_context(worker)
        print("started", flush=True)
        await worker.finished()
asyncio.run(serve())
"""

# Its last argument is how many results it sends damaged, before the others.
WORKER = """
import asyncio, os, sys
from netesto.run import onworker
from netesto.run.workers import LocalWorkers
address, common, part, damaged = sys.argv[1:]
os.environ["WORKER"] = str(os.getpid())
onworker.CONNECT_S = 60
left = int(damaged)
def sent(result):
    global left
    content, left = (b"?" + result.content[1:] if left else result.content), max(0, left - 1)
    return onworker.PartResult, (result.status, result.reason, content, result.sha256)
onworker.PartResult.__reduce__ = sent
command = lambda job: [sys.executable, "-S", "-c", part, str(job), common]
say = lambda text: print(text, flush=True)
asyncio.run(onworker.serve(
    address, LocalWorkers(1, command), host="127.0.0.1", port=0, security=None, say=say
))
"""


_numbers = itertools.count()


@dataclass
class World:
    """The workers of a scheduler, and the folder that programs of parts write to."""

    folder: Path
    stack: contextlib.ExitStack
    address: str
    name: str = field(default_factory=lambda: RUN.format(next(_numbers)))
    workers: list[process.Child] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def start_worker(self, *, damaged: int = 0) -> process.Child:
        name = f"worker{len(self.workers)}"
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        env = {"XDG_CACHE_HOME": str(self.folder / f"{name}-cache"), "TMPDIR": str(temporary)}
        words = [self.address, str(self.folder), PART.replace("RUN", self.name), str(damaged)]
        argv = [sys.executable, "-P", "-c", WORKER, *words]
        child = started(self.stack, argv, self.folder / name, env, "1 place,")
        self.workers.append(child)
        return child

    def start_other_workers(self, *resources: Mapping[str, float]) -> None:
        """Workers with these resources, all in one process."""
        words = [self.address, json.dumps(resources)]
        argv = [sys.executable, "-P", "-c", OTHER_WORKERS, *words]
        started(self.stack, argv, self.folder / "others", {}, "started")

    @property
    def executed(self) -> list[int]:
        path = self.folder / "executed"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def hold(self, number: int, *, signals: int = 1) -> Path:
        path = self.folder / f"hold-{number}"
        path.write_text(str(signals))
        return path

    def cluster(
        self,
        *,
        memory_mb: int = 64,
        limit: int | None = None,
        commands: Sequence[RemoteCommand] = (),
        modules: Path | None = None,
    ) -> Cluster:
        """For guests with a kernel that no worker has."""
        path = self.folder / "linux"
        path.write_text("a kernel")
        kernel = Kernel(
            name="sim-6.12", kind="sim", path=path, modules=modules, version="6.12", config_hash="c"
        )
        return Cluster(
            address_of(self.address, insecure=False),
            run=self.name,
            kernel=kernel,
            sha256=kernel.sha256(),
            memory_mb=memory_mb,
            limit=limit,
            commands=commands,
            warn=self.warnings.append,
        )

    def run(self, out: Path) -> RunEnd:
        """Run SCRIPT."""
        found = self.cluster()
        found.examine()
        request = RunRequest(script="a.nts", settings=SETTINGS, out=out, pages=False)
        with (
            SETTINGS.plan(SourceFile("a.nts", SCRIPT), FIELDS) as plan,
            (self.folder / "said").open("w") as said,
        ):
            session = RunSession(
                request=request,
                plan=plan,
                record=RunRecord(
                    name=self.name, argv=(), script_path="a.nts", script="", seed=1, started=""
                ),
                fields=FIELDS.with_names(plan.head.columns),
                ground=SIM,
                out=out,
                watcher=Display(quiet=False, stream=said),
                kernel_hash=found.kernel.sha256(),
            )
            return guests.run_parts(session, found.kernel, found)


def started(
    stack: contextlib.ExitStack, argv: list[str], log: Path, env: dict[str, str], ready: str
) -> process.Child:
    return stack.enter_context(
        process.background(
            argv,
            stdout=log,
            env=os.environ | env,
            ready=lambda: ready in log.read_text(),
            timeout=PATIENCE_S,
        )
    )


def started_scheduler(stack: contextlib.ExitStack, log: Path) -> tuple[str, process.Child]:
    """A scheduler, and its address."""
    env = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    words = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    child = started(stack, [*process.python("dask"), *words], log, env, "Scheduler at:")
    return log.read_text().partition("Scheduler at:")[2].split()[0], child


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler."""
    with contextlib.ExitStack() as stack:
        yield started_scheduler(stack, tmp_path_factory.mktemp("scheduler") / "log")[0]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that is there may take its time to answer."""
    monkeypatch.setattr(onworker, "CONNECT_S", PATIENCE_S)


@pytest.fixture
def world(tmp_path: Path, scheduler: str) -> Iterator[World]:
    """A world whose workers are the only ones of the scheduler."""
    with contextlib.ExitStack() as stack:
        yield World(tmp_path, stack, scheduler)
    with Client(scheduler, set_as_default=False) as client:
        process.wait_until(lambda: not client.scheduler_info()["workers"], timeout=PATIENCE_S)


def rows(out: Path) -> list[str]:
    return [f"{row['exp']} {row['status']}" for row in csvfile.read(out / "exp.csv")]


def soon(fact: Callable[[], bool], then: Callable[[], object]) -> None:
    """In a thread: wait for a fact, then do something."""

    def wait() -> None:
        process.wait_until(fact, timeout=PATIENCE_S)
        then()

    threading.Thread(target=wait).start()


OK_ROWS = [f"{exp}.0 ok" for exp in range(1, 7)]


def test_parts_run_on_workers_and_their_results_are_the_runs(world, tmp_path, capfd):
    world.start_worker()
    world.start_worker()
    end = world.run(tmp_path / "out")
    assert (end.status, rows(tmp_path / "out"), sorted(world.executed)) == (
        0,
        OK_ROWS,
        [1, 2, 3, 4, 5, 6],
    )
    assert (tmp_path / "out" / "3" / "raw").read_bytes() == bytes(range(256)) * 3
    assert capfd.readouterr().out == "".join(f"part {number}\n" for number in range(1, 7))
    assert "warning: ca=reno rep=1: cell 1" in (tmp_path / "said").read_text()


def test_the_kernel_is_sent_once_to_each_worker_that_lacks_it(world, tmp_path, monkeypatch):
    compressed = []

    def compress(kernel: Path) -> bytes:
        compressed.append(kernel)
        return lzma.compress(kernel.read_bytes())

    monkeypatch.setattr(onworker, "compressed", compress)
    for _ in range(2):
        world.start_worker()
    ends = [world.run(tmp_path / name).status for name in ("first", "second")]
    assert (ends, compressed) == ([0, 0], [tmp_path / "linux"])


def test_a_worker_that_cannot_keep_the_kernel_is_named(world, tmp_path):
    world.start_worker()
    (tmp_path / "worker0-cache").write_text("not a folder")
    end = world.run(tmp_path / "out")
    assert (end.status, len(end.failures), world.executed) == (1, 6, [])
    assert re.search(r"worker tcp://127\S+ cannot keep the kernel: \S", end.failures[0])


def test_a_killed_worker_s_part_runs_on_another_and_no_finished_part_twice(world, tmp_path):
    first, _ = world.start_worker(), world.start_worker()
    held = [world.hold(number) for number in range(1, 7)]

    def kill() -> None:
        # Both hold a part; the one of the first runs again on a worker that joins.
        first.kill()
        world.start_worker()
        for path in held:
            path.unlink()

    soon(lambda: len(world.executed) == 2, kill)
    end = world.run(tmp_path / "out")
    assert (end.status, rows(tmp_path / "out")) == (0, OK_ROWS)
    again = [number for number in (1, 2) if world.executed.count(number) == 2]
    assert (len(again), len(world.executed)) == (1, 7)
    # The one that joined has removed what the killed one left.
    assert len([*(tmp_path / "temporary").iterdir()]) == 2


def test_a_result_that_arrives_damaged_is_fetched_again_and_its_part_does_not_run_again(
    world, tmp_path
):
    world.start_worker(damaged=1)
    end = world.run(tmp_path / "out")
    assert (end.status, rows(tmp_path / "out"), world.executed) == (0, OK_ROWS, [1, 2, 3, 4, 5, 6])
    assert (tmp_path / "out" / "1" / "raw").read_bytes() == bytes(range(256))


def test_a_part_whose_result_arrives_damaged_twice_has_failed_and_the_others_run(world, tmp_path):
    world.start_worker(damaged=2)
    end = world.run(tmp_path / "out")
    assert (end.status, end.failures, rows(tmp_path / "out"), world.executed) == (
        1,
        ("ca=reno rep=1: its results arrived damaged, twice",),
        OK_ROWS[1:],
        [1, 2, 3, 4, 5, 6],
    )


def test_a_worker_that_joins_gets_parts_at_once(world, tmp_path):
    world.start_worker()
    held = [world.hold(number) for number in range(1, 7)]

    def join() -> None:
        world.start_worker()
        # The first worker holds a part; only the second one begins another.
        process.wait_until(lambda: len(world.executed) == 2, timeout=PATIENCE_S)
        for path in held:
            path.unlink()

    soon(lambda: len(world.executed) == 1, join)
    end = world.run(tmp_path / "out")
    assert (end.status, rows(tmp_path / "out"), len(world.executed)) == (0, OK_ROWS, 6)


def test_a_part_that_ends_two_workers_has_failed_with_its_last_lines(world, tmp_path):
    for _ in range(3):
        world.start_worker()
    world.hold(1)

    def kill() -> None:
        with Client(world.address, set_as_default=False) as client:
            for count in (1, 2):
                process.wait_until(partial(has_told, client, count), timeout=PATIENCE_S)
                os.kill(int((tmp_path / "worker-1").read_text()), signal.SIGKILL)

    soon(lambda: 1 in world.executed, kill)
    end = world.run(tmp_path / "out")
    said = f"ca=reno rep=1: it ended the workers that carried it out: {platform.node()}"
    assert (end.status, end.failures, rows(tmp_path / "out")) == (
        1,
        (f"{said}\nwarning: cell 1",),
        OK_ROWS[1:],
    )
    assert world.executed.count(1) == 2


def has_told(client: Client, count: int) -> bool:
    """Whether the last lines of the first part were told so often."""
    topics = client.get_events()
    told = sum(
        [*event["lines"]] == ["warning: cell 1"]
        for topic, events in topics.items()
        if topic.endswith("ca=reno rep=1")
        for _, event in events
    )
    return told == count


@pytest.mark.parametrize("signals", [1, 2], ids=["once", "twice"])
def test_ctrl_c_ends_parts_on_workers_as_here_and_keeps_what_they_have(world, tmp_path, signals):
    world.start_worker()
    world.hold(1, signals=signals)

    def interrupt() -> None:
        for count in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
            process.wait_until(partial(has_signals, tmp_path, count + 1), timeout=PATIENCE_S)

    soon(lambda: world.executed == [1], interrupt)
    end = world.run(tmp_path / "out")
    assert (end.status, rows(tmp_path / "out"), world.executed) == (130, ["1.0 failed"], [1])


def has_signals(folder: Path, count: int) -> bool:
    """Whether the first part got so many."""
    path = folder / "signals-1"
    return path.exists() and int(path.read_text() or 0) == count


# ---- before anything is sent -----------------------------------------------------------------


def faults(error: MissingError) -> list[str]:
    """The table of workers in an error, without their addresses."""
    return sorted(line.partition("): ")[2] for line in error.message.splitlines()[1:])


OWN = {onworker.places_name(): 1.0, onworker.MEMORY: 1000.0}


def test_workers_that_cannot_be_used_are_all_listed_with_remedies(world):
    world.start_other_workers(
        {},
        {"netesto 0.0.1, 00000000, x86_64": 1, "netesto MiB": 1000},
        {onworker.places_name(): 0, onworker.MEMORY: 1000, f"{onworker.FAULT}no ptrace. Ask": 1},
    )
    with pytest.raises(MissingError, match="no usable worker") as caught:
        world.cluster().examine()
    assert faults(caught.value) == [
        (
            f"netesto 0.0.1, 00000000, x86_64 differs from {onworker.places_name()} here."
            " Install the same version on both"
        ),
        "no ptrace. Ask",
        "not a worker of netesto. Start it by: netesto worker",
    ]
    assert caught.value.remedy.endswith(f"netesto worker {world.address}")


def flow_command(tool: str) -> list[RemoteCommand]:
    """A flow of a tool."""
    with SETTINGS.plan(SourceFile("a.nts", SCRIPT), FIELDS) as plan:
        flow = next(each for each in plan.head.commands if isinstance(each, DoClient))
    return [replace(flow, flow=replace(flow.flow, tool=tool))]


def test_workers_need_the_installed_version_of_each_tool_that_may_make_a_flow(world, monkeypatch):
    monkeypatch.setattr(tools, "versions", lambda _: {"iperf3": "3.12"})
    older = OWN | {onworker.tool_name("iperf3", "3.9"): 1}
    world.start_other_workers(OWN, older)
    with pytest.raises(MissingError, match="no usable worker") as caught:
        world.cluster(commands=flow_command("auto")).examine()
    assert faults(caught.value) == [
        "iperf3 3.12: not installed. In Debian: apt install iperf3",
        "iperf3 3.9 differs from 3.12. Install the same version on all",
    ]
    # Netperf cannot be replaced, and another one is not asked for.
    with pytest.raises(MissingError, match="no usable worker") as caught:
        world.cluster(commands=flow_command("netperf")).examine()
    assert faults(caught.value) == ["netperf: not installed. In Debian: apt install netperf"] * 2
    world.cluster().examine()


def test_without_a_tool_here_workers_need_the_version_that_most_of_them_have(world, monkeypatch):
    monkeypatch.setattr(tools, "versions", lambda _: {})
    world.start_other_workers(
        *(OWN | {onworker.tool_name("iperf3", each): 1} for each in ("3.9", "3.12", "3.12"))
    )
    found = world.cluster(commands=flow_command("iperf3"))
    found.examine()
    [warning] = world.warnings
    assert (found.places, warning.partition("): ")[2]) == (
        2,
        "iperf3 3.9 differs from 3.12. Install the same version on all",
    )


def test_an_installed_kernel_must_be_the_same_on_workers(world):
    world.start_other_workers(OWN)
    with pytest.raises(MissingError, match="no usable worker") as caught:
        world.cluster(modules=Path("/usr/lib/uml/modules")).examine()
    assert faults(caught.value) == [
        (
            "kernel sim-6.12: not installed, or another build. Install the same version on both:"
            " sudo apt-get install user-mode-linux"
        )
    ]


def test_a_worker_with_too_little_memory_is_not_used(world):
    world.start_worker()
    with pytest.raises(MissingError, match=r"a guest needs 1000000100 MiB, and it has \d+ MiB"):
        world.cluster(memory_mb=10**9).examine()


def test_no_more_places_are_used_than_the_jobs_that_were_requested(world):
    for _ in range(2):
        world.start_worker()
    found, limited = world.cluster(), world.cluster(limit=1)
    for each in (found, limited):
        each.examine()
    assert (found.places, limited.places, world.warnings) == (2, 1, [])


def test_a_scheduler_that_is_not_there_is_reported(tmp_path):
    nowhere = World(tmp_path, contextlib.ExitStack(), "127.0.0.1:9")
    with pytest.raises(MissingError) as caught:
        nowhere.cluster().examine()
    assert caught.value.message == "no scheduler at tcp://127.0.0.1:9: Connection refused"


def test_a_scheduler_that_ends_during_a_run_ends_it_and_what_was_measured_is_kept(tmp_path):
    with contextlib.ExitStack() as stack:
        address, scheduler = started_scheduler(stack, tmp_path / "scheduler")
        world = World(tmp_path, stack, address)
        world.start_worker()
        held = world.hold(3)
        soon(lambda: world.executed == [1, 2, 3], scheduler.kill)
        with pytest.raises(WorldError) as caught:
            world.run(tmp_path / "out")
        held.unlink()
    message = f"the scheduler at {address} has gone, and the cells that ran are lost"
    assert caught.value.message == message
    assert rows(tmp_path / "out") == OK_ROWS[:2]


def test_a_host_whose_name_is_unknown_is_reported(monkeypatch, tmp_path):
    async def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio, "open_connection", unknown)
    other = World(tmp_path, contextlib.ExitStack(), "localhost:9")
    with pytest.raises(MissingError) as caught:
        other.cluster().examine()
    message = "no scheduler at tcp://localhost:9: Name or service not known"
    assert caught.value.message == message


@pytest.fixture
def other_server() -> Iterator[str]:
    """The address of a server that is none of Dask."""

    class Greeting(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
            self.request.recv(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_server_that_is_no_scheduler_is_reported(other_server, tmp_path):
    other = World(tmp_path, contextlib.ExitStack(), other_server)
    with pytest.raises(MissingError) as caught:
        other.cluster().examine()
    message = f"no scheduler at tcp://{other_server}: another program listens there"
    assert caught.value.message == message


def serving(address: str, *, port: int = 0) -> Coroutine[object, object, None]:
    """A worker for the scheduler at an address."""
    return onworker.serve(
        f"tcp://{address}", LocalWorkers(1), host="127.0.0.1", port=port, security=None, say=print
    )


def test_a_worker_whose_port_another_program_has_ends(scheduler, other_server):
    port = other_server.rpartition(":")[2]
    with pytest.raises(WorldError) as caught:
        asyncio.run(serving(scheduler.removeprefix("tcp://"), port=int(port)))
    assert caught.value.message == f"cannot listen on port {port}: Address already in use"


def test_a_worker_without_a_scheduler_ends(monkeypatch):
    monkeypatch.setattr(onworker, "CONNECT_S", 0.2)
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9"):
        asyncio.run(serving("127.0.0.1:9"))


def test_a_worker_with_another_server_than_a_scheduler_ends(other_server):
    with pytest.raises(onworker.NO_SCHEDULER):
        asyncio.run(serving(other_server))


@pytest.mark.parametrize(
    ("text", "address", "is_local"),
    [
        ("127.0.0.1", "tcp://127.0.0.1:8786", True),
        ("localhost:99", "tcp://localhost:99", True),
        ("[::1]:99", "tcp://[::1]:99", True),
    ],
)
def test_addresses_of_this_machine_need_no_tls(text, address, is_local):
    found = address_of(text, insecure=False)
    assert (found.text, found.is_local, found.security) == (address, is_local, None)


def test_without_tls_a_scheduler_elsewhere_is_refused_unless_it_is_permitted():
    with pytest.raises(UsageError, match="can run programs on all of them"):
        address_of("10.1.1.1", insecure=False)
    assert address_of("10.1.1.1", insecure=True).text == "tcp://10.1.1.1:8786"


def test_tls_without_certificates_is_refused():
    with pytest.raises(UsageError, match="TLS needs certificates"):
        address_of("tls://10.1.1.1", insecure=False)


@pytest.mark.parametrize("text", ["", "tcp://", "http://a:1", "a:b", "a:99999", "tcp://a/b"])
def test_what_is_not_the_address_of_a_scheduler_is_refused(text):
    with pytest.raises(UsageError, match="not the address of a scheduler"):
        address_of(text, insecure=True)


def test_a_result_that_differs_from_what_was_sent_is_damaged():
    sent = onworker.PartResult(0, "", b"zip", hashlib.sha256(b"zip").hexdigest())
    assert (sent.is_damaged, replace(sent, content=b"zap").is_damaged) == (False, True)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"on": "127.0.0.1", "ground": LAB}, "--on: on ground lab a script does not run in parts"),
        ({"insecure": True}, "--insecure needs --on"),
        ({"budget_s": 60.0}, "--budget: no SWEEP of the script has until="),
        ({"on": "127.0.0.1", "commands": Path("c.toml")}, "--commands c.toml: workers"),
        ({"on": "10.1.1.1"}, "without TLS"),
    ],
)
def test_a_dry_run_refuses_what_a_run_would_refuse(tmp_path, request_, message):
    (tmp_path / "a.nts").write_text(SCRIPT)
    script, out = str(tmp_path / "a.nts"), tmp_path / "out"
    request = RunRequest(script=script, settings=SETTINGS, out=out, **request_)
    display = Display(quiet=True)
    with pytest.raises(UsageError, match=message), start.plan(request, display, lambda _: None):
        pass
