"""Runs on the workers of a cluster: a scheduler of Dask and workers on machines of their own, with
nothing in common but TLS. The cells are real ones, in guests."""

import contextlib
import gzip
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from needs import kernel_or_reason
from seccomp import refusing
from worlds import Machine, World, machines

from netesto.system import process

pytestmark = [pytest.mark.sim, pytest.mark.timeout(1200)]

# Only keeps a broken test from hanging.
PATIENCE_S = 400

ADDRESS = "tls://10.81.1.1:8786"

# Chance is in the delay and the loss of every packet, and in when each flow begins.
SWEEP = """\
LAB pair rate=10mbit delay=5 jitter=1 loss=0.2
SOURCE inlib
DEFAULT cas=reno,cubic
SWEEP ca=$cas DO
    RUN OneFlowStream server=b client=a expName=cell ca=$ca dur=1 randDelay=0.5
DONE
"""

UNTIL = """\
LAB pair rate=10mbit delay=5
SOURCE inlib
SWEEP loss=0,0.5 reps=3..4 until=rate:0.1% DO
    SET_LINK host=a to=b loss=$loss
    RUN OneFlowStream server=b client=a ca=cubic dur=1
DONE
"""

ONE = """\
LAB pair rate=10mbit delay=5
SOURCE inlib
SWEEP ca=cubic DO
    RUN OneFlowStream server=b client=a ca=$ca dur=1
DONE
"""

# One certificate for all: who has its key belongs to the cluster.
CERTIFICATE = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    *("-nodes", "-days", "2", "-subj", "/CN=cluster", "-keyout", "-"),
)

CONFIGURATION = """\
distributed:
  comm:
    tls:
      ca-file: /root/tls.pem
      scheduler: {cert: /root/tls.pem}
      worker: {cert: /root/tls.pem}
      client: {cert: /root/tls.pem}
"""

# As containers did before Docker 19.03: ptrace(2).
NO_PTRACE = refusing(101)


PTRACE = (
    "processes may not trace others (ptrace), as user-mode Linux does. In a container: --cap-add"
    " SYS_PTRACE; else sysctl kernel.yama.ptrace_scope=1"
)


@dataclass
class Cluster:
    """Machines, and the folder with the logs of what was started on them."""

    world: World
    folder: Path
    workers: int = 0

    @contextlib.contextmanager
    def worker(self, name: str, *launcher: str) -> Iterator[Path]:
        """A worker with one place on a machine; its log."""
        self.workers += 1
        log = self.folder / f"worker-{self.workers}"
        argv = [*launcher, "netesto", "worker", ADDRESS, "--jobs", "1"]
        child = self.world[name].start(argv, stdout=log)
        try:
            await_text(log, " MiB, for ")
            yield log
        finally:
            process.end(child)

    def start(self, out: str, *words: str) -> process.Child:
        """Start a run of the controller; `words` end with its script, in /root."""
        argv = ["netesto", "run", "--plain", "--ground", "sim", "--seed", "7", "--no-pages"]
        log = self.folder / f"{out}.log"
        return self.world.controller.start([*argv, "--out", out, *words], stdout=log)

    def run(self, out: str, *words: str) -> tuple[int, str]:
        """The exit status of such a run, and what it printed."""
        child = self.start(out, *words)
        try:
            status = child.wait(PATIENCE_S)
        finally:
            process.end(child)
        return status, (self.folder / f"{out}.log").read_text()

    def measured(self, out: str) -> dict[str, bytes]:
        """The files of a run's experiments that have no date, and exp.csv."""
        folder = root_of(self.world.controller) / "root" / out
        found = {"exp.csv": (folder / "exp.csv").read_bytes()}
        for path in folder.glob("[0-9]*/**/*"):
            if path.is_file():
                found[str(path.relative_to(folder))] = path.read_bytes()
        for path in folder.glob("[0-9]*.zip"):
            with zipfile.ZipFile(path) as file:
                found |= {f"{path.name}/{name}": file.read(name) for name in file.namelist()}
        kept = {name: content for name, content in found.items() if not has_date(name, content)}
        # A table, for each experiment series, and what tools and commands have printed.
        assert len(kept) > len(found) // 2
        return kept


# Seconds since 1970, or a date of ISO 8601.
DATE = re.compile(rb"\b1[0-9]{9}\.|20[0-9]{2}-[0-9]{2}-[0-9]{2}T")


def has_date(name: str, content: bytes) -> bool:
    """Whether a file says when it was made."""
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    return name.endswith(".bin.gz") or DATE.search(content) is not None


def root_of(machine: Machine) -> Path:
    """The files of a machine."""
    return Path("/proc", str(machine.pid), "root")


def await_text(log: Path, text: str, count: int = 1) -> None:
    def has_it() -> bool:
        return log.exists() and log.read_text().count(text) >= count

    assert process.wait_until(has_it, timeout=PATIENCE_S), log.read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kernel = kernel_or_reason("sim").path.parent
    folder = tmp_path_factory.mktemp("cluster")
    with machines("lab1", "lab2", "lab3", folder=folder) as world:
        pem = process.run([*CERTIFICATE], timeout=PATIENCE_S).stdout
        for machine in world:
            machine.write("/root/tls.pem", pem, mode=0o600)
            machine.write("/root/.config/dask/tls.yaml", CONFIGURATION)
        home = root_of(world.controller) / "root"
        shutil.copytree(kernel, home / ".cache/netesto/kernels" / kernel.name)
        for name, script in (("sweep", SWEEP), ("until", UNTIL), ("one", ONE)):
            world.controller.write(f"/root/{name}.nts", script)
        log = folder / "scheduler"
        words = ["scheduler", "--host", ADDRESS.rpartition(":")[0], "--no-dashboard"]
        scheduler = world.controller.start(
            [
                "env",
                "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=1",
                *process.python("dask"),
                *words,
            ],
            stdout=log,
        )
        try:
            await_text(log, ADDRESS)
            yield Cluster(world, folder)
        finally:
            process.end(scheduler)


@pytest.fixture(scope="module")
def local(cluster: Cluster) -> dict[str, bytes]:
    """What the sweep measures on the controller itself."""
    assert cluster.run("local", "--jobs", "2", "sweep.nts")[0] == 0
    return cluster.measured("local")


def test_a_killed_worker_is_replaced_by_one_that_joins_and_no_finished_cell_runs_twice(
    cluster, local
):
    with cluster.worker("lab1") as first:
        run = cluster.start("killed", "--on", ADDRESS, "sweep.nts")
        # It has returned a cell, and carries out the other.
        await_text(first, ": begins", 2)
        cluster.world["lab1"].run(["pkill", "-KILL", "-f", "netesto worker"])
        with cluster.worker("lab3") as second:
            status = run.wait(PATIENCE_S)
    logs = [log.read_text() for log in (first, second)]
    begun = [log.count(": begins") for log in logs]
    ended = [log.count(": ended") for log in logs]
    assert (status, begun, ended) == (0, [2, 1], [1, 1])
    assert cluster.measured("killed") == local


def test_without_tls_a_scheduler_elsewhere_is_refused(cluster):
    address = ADDRESS.replace("tls", "tcp")
    status, said = cluster.run("refused", "--on", address, "sweep.nts")
    assert (status, "whoever reaches a scheduler or a worker can run programs" in said) == (2, True)


def test_workers_without_ptrace_or_a_tool_are_listed_and_not_used(cluster, local):
    """lab2 has another netperf, which tells no version."""
    cluster.world["lab2"].run(["sh", "-c", "ln -s /bin/true /usr/local/bin/netperf"])
    try:
        with (
            cluster.worker("lab1", "python3", "-c", NO_PTRACE) as traced,
            cluster.worker("lab2") as toolless,
            cluster.worker("lab3") as good,
        ):
            words = ("-D", "cas=reno", "--on", ADDRESS, "sweep.nts")
            status, said = cluster.run("listed", *words)
    finally:
        cluster.world["lab2"].run(["rm", "/usr/local/bin/netperf"])
    faults = re.findall(r"not used: 10\.81\.1\.(\d) \(\S+\): (.*)", said)
    assert (status, sorted(faults)) == (
        0,
        [
            ("2", PTRACE),
            ("3", "netperf 2.7.0: not installed. In Debian: apt install netperf"),
        ],
    )
    assert PTRACE in traced.read_text()
    begun = [log.read_text().count(": begins") for log in (traced, toolless, good)]
    assert begun == [0, 0, 1]
    assert cluster.measured("listed") == first_of(local)


def first_of(measured: dict[str, bytes]) -> dict[str, bytes]:
    """What is measured when there is no cell but the first."""
    header, *rows = measured["exp.csv"].splitlines(keepends=True)
    table = b"".join([header, *(row for row in rows if row.startswith(b"1."))])
    files = {name: content for name, content in measured.items() if name.startswith("1/")}
    return {"exp.csv": table, **files}


def test_without_a_usable_worker_nothing_is_sent(cluster):
    with cluster.worker("lab1", "python3", "-c", NO_PTRACE) as log:
        status, said = cluster.run("unusable", "--on", ADDRESS, "sweep.nts")
    assert (status, "no usable worker" in said, log.read_text().count("begins")) == (3, True, 0)


@pytest.mark.thorough
def test_repetitions_until_certain_are_the_same_on_workers(cluster):
    assert cluster.run("until-here", "--jobs", "2", "until.nts")[0] == 0
    with cluster.worker("lab1"), cluster.worker("lab2"):
        assert cluster.run("until-there", "--on", ADDRESS, "until.nts")[0] == 0
    assert cluster.measured("until-there") == cluster.measured("until-here")


@pytest.mark.thorough
def test_packed_cells_of_workers_are_the_same_files(cluster):
    assert cluster.run("packed-here", "--pack", "one.nts")[0] == 0
    with cluster.worker("lab1"):
        assert cluster.run("packed-there", "--pack", "--on", ADDRESS, "one.nts")[0] == 0
    packed = cluster.measured("packed-there")
    assert {name.partition("/")[0] for name in packed} == {"exp.csv", "1.zip"}
    assert packed == cluster.measured("packed-here")


@pytest.mark.thorough
@pytest.mark.uml
def test_cells_in_real_time_run_on_workers(cluster):
    kernel_or_reason("uml")
    with cluster.worker("lab1") as log:
        status, said = cluster.run("uml", "--ground", "uml", "--on", ADDRESS, "one.nts")
    assert (status, log.read_text().count(": ended")) == (0, 1), said
