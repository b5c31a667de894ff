"""Parts on the workers of a cluster: a real scheduler and real workers of Dask on this machine,
each with a cache of its own and nothing in common with the controller but TCP. The process of a
part is a small program that writes what a guest would."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("distributed")

from netesto.cli.display import Display
from netesto.files import paths
from netesto.grounds import SIM
from netesto.lab.kernels import Kernel
from netesto.language.plan import SourceFile
from netesto.results import csvfile, fields
from netesto.results.runs import RunRecord
from netesto.run import guests
from netesto.run.cluster import Cluster, address_of
from netesto.run.request import CONTINUE, OnFailure, RunRequest
from netesto.run.session import RunEnd, RunSession
from netesto.run.settings import RunSettings
from netesto.system import process

RUN = "2026-11-20T121500.250Z"
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

# Its arguments are the job, and a folder. Each execution adds a line to `executed` there. While
# there is a file `hold-N`, experiment N does not end; with `kill-N` it kills the worker.
PART = """
import json, os, signal, sys, time
from pathlib import Path
job, common = map(Path, sys.argv[1:])
guest, _, _, head, *_ = job.read_bytes().split(b"\\n")
number = json.loads(head[len(b'"head": '):-1])["parts"][0]["before"] + 1
folder = job.parent
assert json.loads(guest)["out"] == str(folder)
assert Path(json.loads(guest)["kernel"]["path"]).read_text() == "a kernel"
with (common / "executed").open("a") as file:
    file.write(f"{number}\\n")
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
print(f"warning: cell {number}", file=sys.stderr, flush=True)
if (common / f"kill-{number}").exists():
    (common / "killed").open("a").write(f"{number}\\n")
    time.sleep(1.5)
    os.kill(int(os.environ["WORKER"]), signal.SIGKILL)
deadline = time.monotonic() + 50
while (common / f"hold-{number}").exists() and not ended and time.monotonic() < deadline:
    time.sleep(0.01)
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
""".replace("RUN", RUN)

WORKER = """
import asyncio, os, sys
from netesto.run import onworker
from netesto.run.workers import Processors
address, common, part = sys.argv[1:]
os.environ["WORKER"] = str(os.getpid())
command = lambda job: [sys.executable, "-S", "-c", part, str(job), common]
say = lambda text: print(text, flush=True)
asyncio.run(onworker.serve(
    address, Processors(1, command), host="127.0.0.1", port=0, security=None, say=say
))
"""


@dataclass
class World:
    """A scheduler, its workers, and the folder that programs of parts write to."""

    folder: Path
    stack: contextlib.ExitStack
    address: str = ""
    workers: list[process.Child] = field(default_factory=list)

    def start_scheduler(self) -> None:
        log, env = self.folder / "scheduler", {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
        words = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self._start([*process.python("dask"), *words], log, env, "Scheduler at:")
        self.address = log.read_text().partition("Scheduler at:")[2].split()[0]

    def start_worker(self) -> process.Child:
        name = f"worker{len(self.workers)}"
        env = {"XDG_CACHE_HOME": str(self.folder / f"{name}-cache")}
        argv = [sys.executable, "-P", "-c", WORKER, self.address, str(self.folder), PART]
        child = self._start(argv, self.folder / name, env, "1 places")
        self.workers.append(child)
        return child

    def _start(self, argv: list[str], log: Path, env: dict[str, str], ready: str) -> process.Child:
        return self.stack.enter_context(
            process.background(
                argv,
                stdout=log,
                env=os.environ | env,
                ready=lambda: ready in log.read_text(),
                timeout=PATIENCE_S,
            )
        )

    @property
    def executed(self) -> list[int]:
        path = self.folder / "executed"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def hold(self, number: int) -> Path:
        path = self.folder / f"hold-{number}"
        path.touch()
        return path

    def run(
        self, out: Path, *, on_failure: OnFailure = CONTINUE, limit: int | None = None
    ) -> RunEnd:
        """Run SCRIPT, whose guests have a kernel that no worker has."""
        kernel_file = self.folder / "linux"
        kernel_file.write_text("a kernel")
        kernel = Kernel(
            name="sim-6.12", kind="sim", path=kernel_file, modules=None, version="6.12",
            config_hash="c",
        )  # fmt: skip
        found = Cluster(
            address_of(self.address, insecure=False),
            run=RUN,
            kernel=kernel,
            sha256=kernel.sha256(),
            memory_mb=64,
            limit=limit,
        )
        found.examine()
        request = RunRequest(
            script="a.nts", settings=SETTINGS, out=out, on_failure=on_failure, pages=False
        )
        with (
            SETTINGS.plan(SourceFile("a.nts", SCRIPT), FIELDS) as plan,
            (self.folder / "said").open("w") as said,
        ):
            session = RunSession(
                request=request,
                plan=plan,
                record=RunRecord(
                    name=RUN, argv=(), script_path="a.nts", script="", seed=1, started=""
                ),
                fields=FIELDS.with_names(plan.head.columns),
                ground=SIM,
                out=out,
                watcher=Display(Console(file=said, width=200), plain=True, quiet=False),
                kernel_hash=kernel.sha256(),
            )
            return guests.run_parts(session, kernel, found)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with contextlib.ExitStack() as stack:
        made = World(tmp_path, stack)
        made.start_scheduler()
        yield made


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
