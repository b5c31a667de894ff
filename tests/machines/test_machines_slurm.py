"""`netesto run --on slurm`: Slurm's daemons on machines of their own, a controller and one node,
which have nothing in common but the network."""

import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import kernel_or_reason, unmet
from processes import wait_for_costly
from worlds import Machine, World, machines

from netesto.files import paths
from netesto.system import process

pytestmark = [pytest.mark.sim, pytest.mark.timeout(1200)]

# Only keeps a broken test from hanging.
PATIENCE_S = 400

SWEEP = """\
LAB pair rate=10mbit delay=5 jitter=1 loss=0.2
SOURCE inlib
DEFAULT cas=reno,cubic
SWEEP ca=$cas DO
    RUN OneFlowStream server=b client=a expName=cell ca=$ca dur=1 randDelay=0.5
DONE
"""

# The node has a processor for each cell.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=controller(10.81.1.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
KillWait=5
ReturnToService=2
StateSaveLocation=/var/lib/slurm
SlurmdSpoolDir=/var/lib/slurm
NodeName=lab1 NodeAddr=10.81.1.2 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=fast Nodes=ALL Default=YES State=UP
"""

RUN = ("netesto", "run", "--plain", "--ground", "sim", "--seed", "7", "--no-pages", "--out")


def slurm() -> Path:
    """Where .ci/slurm has put it."""
    return paths.cache_folder() / "slurm"


def root_of(machine: Machine) -> Path:
    """The files of a machine."""
    return Path("/proc", str(machine.pid), "root")


def start_slurm(machine: Machine, *daemon: str) -> None:
    shutil.copytree(slurm() / "usr", root_of(machine) / "usr", symlinks=True, dirs_exist_ok=True)
    machine.write("/etc/slurm/slurm.conf", CONFIGURATION)
    machine.write("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
    machine.write("/etc/munge/munge.key", "k" * 64, mode=0o400)
    machine.run(["mkdir", "-p", "/run/munge", "/var/lib/munge", "/var/log/munge", "/var/lib/slurm"])
    machine.run(["munged", "--force"])
    machine.start([*daemon, "-D"], stdout=machine.folder / daemon[0])


def jobs(world: World) -> list[str]:
    """What is queued, or runs."""
    queue = world.controller.run(["squeue", "--noheader", "--array", "--format", "%j %T"])
    return queue.stdout.splitlines()


def has_jobs(world: World, expected: list[str]) -> bool:
    """Whether these are queued, or run, in the end."""
    return wait_for_costly(lambda: jobs(world) == expected, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    kernel = kernel_or_reason("sim").path.parent
    if not slurm().is_dir():
        unmet("slurm", "Slurm is not there: .ci/slurm fetches it, and installs nothing")
    with machines("lab1", folder=tmp_path_factory.mktemp("slurm")) as made:
        start_slurm(made.controller, "slurmctld")
        start_slurm(made["lab1"], "slurmd", "-N", "lab1")
        home = root_of(made.controller) / "root"
        shutil.copytree(kernel, home / ".cache/netesto/kernels" / kernel.name)
        made.controller.write("/root/sweep.nts", SWEEP)
        ready = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        assert wait_for_costly(
            lambda: made.controller.run(ready, check=False).stdout.strip() == "1",
            timeout=PATIENCE_S,
        )
        yield made


def test_cells_run_on_nodes_as_here_and_the_job_ends_with_the_run(world):
    # Its first cell alone.
    words = ("here", "-D", "cas=reno", "sweep.nts")
    here = world.controller.run([*RUN, *words], timeout=PATIENCE_S)
    there = world.controller.run(
        [*RUN, "there", "--on", "slurm:fast", "sweep.nts"], timeout=PATIENCE_S
    )
    tables = [world.controller.read(f"/root/{name}/exp.csv") for name in ("here", "there")]
    alone, both = (table.splitlines() for table in tables)
    assert (here.status, there.status, len(alone), len(both)) == (0, 0, 3, 5)
    assert alone == both[:3]
    # Only the node was sent a kernel.
    assert world["lab1"].exists("/root/.cache/netesto/received")
    assert has_jobs(world, []), jobs(world)
    assert not list((root_of(world["lab1"]) / "tmp").glob("netesto-*"))


def test_ctrl_c_ends_the_job(world):
    log = world.controller.folder / "interrupted"
    run = world.controller.start([*RUN, "interrupted", "--on", "slurm", "sweep.nts"], stdout=log)
    assert has_jobs(world, ["netesto RUNNING"]), jobs(world)
    process.kill_group(run.pid, signal.SIGINT)
    assert run.wait(PATIENCE_S) == 130, log.read_text()
    assert has_jobs(world, []), jobs(world)


def test_a_killed_run_leaves_no_job(world):
    log = world.controller.folder / "killed"
    run = world.controller.start([*RUN, "killed", "--on", "slurm", "sweep.nts"], stdout=log)
    assert has_jobs(world, ["netesto RUNNING"]), jobs(world)
    world.controller.run(["pkill", "-KILL", "-f", "netesto run"])
    run.wait(PATIENCE_S)
    assert has_jobs(world, []), jobs(world)


def test_a_partition_that_does_not_exist_is_reported(world):
    done = world.controller.run([*RUN, "none", "--on", "slurm:none", "sweep.nts"], check=False)
    assert (done.status, done.stderr.splitlines()[1]) == (
        3,
        "netesto: --on slurm: no node of partition none responds",
    )


def test_workers_that_do_not_start_are_reported(world):
    """Of netesto there is nothing on the node."""
    world["lab1"].run(["mount", "-t", "tmpfs", "nothing", sys.prefix])
    try:
        done = world.controller.run(
            [*RUN, "unstarted", "--on", "slurm", "sweep.nts"], check=False, timeout=PATIENCE_S
        )
    finally:
        world["lab1"].run(["umount", sys.prefix])
    # Killed workers of other tests have left theirs.
    [output] = re.findall(r"/(tmp/netesto-slurm-\d+_)\*\.out", done.stderr)
    text = (root_of(world["lab1"]) / f"{output}1.out").read_text()
    assert (done.status, "no usable worker" in done.stderr, "netesto: not found" in text) == (
        3,
        True,
        True,
    )
