"""Cells of a SWEEP side by side, each in a guest of its own, in simulated time, which is
repeatable: one script and one seed give one result, whatever else the machine does."""

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import containers
import psutil
import pytest
from needs import kernel_or_reason
from processes import is_alive
from seccomp import refusing
from whole_runs import Outcome, command, netesto

import netesto as netesto_package
from netesto.results import packed as packed_results
from netesto.results import store
from netesto.system import process

# Several guests, on a machine that may be busy.
pytestmark = [pytest.mark.sim, pytest.mark.timeout(900)]

# Chance is in the delay and the loss of every packet, and in when each flow begins.
SWEEP = """\
LAB pair rate=10mbit delay=5 jitter=1 loss=0.2
SOURCE inlib
DEFAULT cas=reno,cubic
ECHO two cells
SWEEP ca=$cas DO
    ECHO cell $ca
    RUN OneFlowStream server=b client=a expName=cell ca=$ca dur=1 randDelay=0.5
DONE
"""

# One cell, which is not certain after three repetitions.
UNTIL = SWEEP.replace("ca=$cas", "ca=reno reps=3..4 until=rate:0.01%")

# The first cell alone, whose results are the same with and without the others.
FIRST_CELL = ("-D", "cas=reno")

TIMEOUT_S = 400

WORDS = ("run", "--plain", "--ground", "sim", "--seed", "7", "--out", "out")

# Computes for 10 ms, ten times a second. It ends by itself should nobody end it.
SPIN = f"""
import time
for _ in range({TIMEOUT_S} * 10):
    time.sleep(0.09)
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        pass
"""


def run_sweep(folder: Path, *words: str, script: str = SWEEP) -> Outcome:
    kernel_or_reason("sim")
    (folder / "script.nts").write_text(script)
    done = netesto(folder, *words, timeout=TIMEOUT_S)
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


def run_records(outcome: Outcome) -> list[dict[str, Any]]:
    """Those of its runs, the last one last: their names are times."""
    paths = sorted((outcome.out / "runs").glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]


def run_record(outcome: Outcome) -> dict[str, Any]:
    [record] = run_records(outcome)
    return record


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    words = (*WORDS, "--no-pages", "--jobs", "2", "script.nts")
    return run_sweep(tmp_path_factory.mktemp("two"), *words)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    words = (*WORDS, "--no-pages", "--jobs", "2", "--pack", "script.nts")
    return run_sweep(tmp_path_factory.mktemp("packed"), *words, script=UNTIL)


@contextlib.contextmanager
def elsewhere(folder: Path) -> Iterator[None]:
    """Another user's environment, and processors that are briefly unavailable again and again.
    `folder` is empty."""
    # As of another version of Python: other random numbers were used before, and more calls failed.
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import os\nos.urandom(1000)\n")
    nowhere = [str(folder / f"nowhere{number}") for number in range(20)]
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("A_VARIABLE_OF_SOMEBODY", "with a value of some length")
        # Every module is compiled again, in the guest, which then has more files.
        patch.setenv("PYTHONDONTWRITEBYTECODE", "")
        patch.setenv("PYTHONPYCACHEPREFIX", str(folder / "nothing is compiled here"))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(site), *nowhere]))
        for _ in range(os.cpu_count() or 1):
            argv = [sys.executable, "-I", "-c", SPIN]
            stack.enter_context(process.background(argv, stdout=folder / "spinner"))
        yield


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A run of the script's plan, one guest after another, that was killed after its first
    experiment, and taken up again elsewhere, under other names. `left`: processes of the first that
    did not end with it."""

    left: list[psutil.Process]
    outcome: Outcome


@pytest.fixture(scope="module")
def taken_up(tmp_path_factory: pytest.TempPathFactory) -> TakenUp:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("a folder of another name")
    (folder / "script.nts").write_text(SWEEP)
    netesto(folder, "plan", "--seed", "7", "-o", "plan.json", "script.nts")
    words = ("run", "--plain", "--no-pages", "--ground", "sim", "--out", "out", "--jobs", "1")
    with process.background(
        command(*words, "plan.json"), stdout=folder / "log", cwd=folder
    ) as child:
        first = folder / "out" / "1"
        assert process.wait_until(
            lambda: first.is_dir() or child.poll() is not None, timeout=TIMEOUT_S
        )
        theirs = psutil.Process(child.pid).children(recursive=True)
        child.kill()
        psutil.wait_procs(theirs, timeout=60)
    left = [each for each in theirs if is_alive(each)]
    with elsewhere(tmp_path_factory.mktemp("elsewhere")):
        return TakenUp(left, run_sweep(folder, *words, "--resume", "plan.json"))


def test_every_cell_has_its_row(side_by_side: Outcome):
    rows = [(row["exp"], row["ca"], row["rep"], row["status"]) for row in side_by_side.rows]
    assert (side_by_side.status, rows[::2]) == (
        0,
        [("1.0", "reno", "1", "ok"), ("2.0", "cubic", "1", "ok")],
    )


def test_results_do_not_change_with_the_number_of_guests_nor_on_busy_processors_under_other_names(
    taken_up: TakenUp, side_by_side: Outcome
):
    assert taken_up.outcome.status == 0
    assert unnumbered(taken_up.outcome) == unnumbered(side_by_side)


@pytest.mark.thorough
def test_another_seed_gives_other_numbers(side_by_side: Outcome, tmp_path: Path):
    other = run_sweep(tmp_path, *WORDS, "--seed", "8", "script.nts")
    assert unnumbered(other) != unnumbered(side_by_side)


def unnumbered(run: Outcome, **cell: str) -> list[tuple[dict[str, str], list[bytes]]]:
    """The rows of exp.csv, of a cell alone if it is given, each with the ports of its experiment's
    flows; without the numbers of experiments, for each run takes new ones."""
    found = []
    for row in run.rows:
        if cell.items() <= row.items():
            with packed_results.opened(run.out / row["expNumber"]) as folder:
                files = sorted(folder.glob("raw/*/flow.*.out"))
                said = b"".join(path.read_bytes() for path in files)
            ports = re.findall(rb"_PORT=\d+", said)
            assert ports
            found.append((row | {"exp": "", "expNumber": ""}, ports))
    assert found
    return found


def test_what_the_script_prints_appears_once_and_in_order(side_by_side: Outcome):
    assert side_by_side.stdout.splitlines()[:3] == ["two cells", "cell reno", "cell cubic"]


def test_there_is_one_record_of_the_run(side_by_side: Outcome):
    record = run_record(side_by_side)
    assert (record["jobs"], record["ground"], record["experiments"], record["exit_status"]) == (
        2,
        "sim",
        [1, 2],
        0,
    )


def test_experiments_name_the_run(side_by_side: Outcome):
    names = {side_by_side.manifest(exp)["run"] for exp in (1, 2)}
    assert names == {run_record(side_by_side)["name"]}


def test_finished_cells_are_not_run_again_and_take_no_numbers(side_by_side: Outcome):
    folder, counter = side_by_side.out.parent, store.counter(side_by_side.out)
    again = netesto(folder, *WORDS, "--resume", "script.nts", timeout=TIMEOUT_S)
    said = [line for line in again.stderr.splitlines() if not line.startswith("ground ")]
    assert (again.status, len(side_by_side.rows), said) == (
        0,
        4,
        ["skipped 2 cells, ca=reno rep=1 … ca=cubic rep=1: finished by an earlier run"],
    )
    assert (counter, store.counter(side_by_side.out)) == (2, 2)


def test_measurements_of_a_killed_run_are_available_to_the_next(taken_up: TakenUp):
    out = taken_up.outcome.out
    first, *others = [row["exp"] for row in taken_up.outcome.rows if row["group"] == "0"]
    assert (first, len(others), list((out / "runs").glob("*.parts"))) == ("1.0", 1, [])


def test_a_run_without_pages_draws_none_of_parts_nor_of_what_a_killed_run_left(taken_up: TakenUp):
    assert list(taken_up.outcome.out.rglob("exp.html")) == []


def test_the_guests_of_a_killed_run_end(taken_up: TakenUp):
    assert taken_up.left == []


# ---- a guest that crashes ------------------------------------------------------------------------

CRASH = """\
LAB pair rate=10mbit
SWEEP kind=good,bad DO
    SET exp=COUNTER
    DO_CLIENT host=a server=b exp=$exp expName=cell test=TCP_STREAM dur=1
    IF $kind == bad: DO_COMMAND host=a name=crash
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("crashed")
    (folder / "script.nts").write_text(CRASH)
    crash = '[commands.crash]\nrun = ["sh", "-c", "echo c >/proc/sysrq-trigger"]\n'
    (folder / "agent.toml").write_text(crash)
    words = (*WORDS, "--no-pages", "--jobs", "1", "--commands", "agent.toml", "script.nts")
    done = netesto(folder, *words, timeout=TIMEOUT_S)
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


def test_a_cell_whose_guest_crashes_has_failed_with_a_row_and_the_others_are_measured(
    crashed: Outcome,
):
    told = [(row["kind"], row["status"]) for row in crashed.rows]
    assert (crashed.status, told) == (
        1,
        [("good", "ok"), ("good", "ok"), ("bad", "failed"), ("bad", "the guest kernel crashed")],
    )


def test_a_crashed_cell_has_the_last_lines_of_its_kernel(crashed: Outcome):
    [reason] = crashed.manifest(int(crashed.rows[-1]["expNumber"]))["reasons"]
    assert reason.splitlines()[:2] == [
        "the guest kernel crashed:", "Kernel panic - not syncing: sysrq triggered crash",
    ]  # fmt: skip


def test_manifests_have_the_guest_s_memory_and_the_hash_of_its_kernel(side_by_side: Outcome):
    facts = side_by_side.manifest(1)["facts"]
    told = (facts["guest memory"], facts["kernel hash"])
    assert told == ("1024 MiB", kernel_or_reason("sim").sha256())


# ---- another machine -----------------------------------------------------------------------------

# Little shared memory, and a machine of $MEMORY_KB.
MACHINE = """
mount --make-rprivate /
mount -t tmpfs -o size=64M,mode=1777 tmpfs /dev/shm
sed "s/^MemTotal:.*/MemTotal: $MEMORY_KB kB/" /proc/meminfo >meminfo
mount --bind meminfo /proc/meminfo
exec "$@"
"""

# An ordinary user. Root's home is closed to others, and may have what a run needs: $PARTS of it.
USER = """
mkdir home
mount --rbind ~ home
mount -t tmpfs -o mode=755 tmpfs ~
for part in $PARTS; do mkdir -p ~/"$part"; mount --rbind home/"$part" ~/"$part"; done
exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
"""


# As containers do: personality(2).
CONTAINER = refusing(135)


def on_a_machine(folder: Path, memory_gib: int, *user: str) -> Outcome:
    """The sweep's first cell as `user` of another machine that refuses personality(2)."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts of another machine's memory")
    (folder / "script.nts").write_text(SWEEP)
    machine = ["unshare", "--mount", "sh", "-e", "-c", MACHINE, "sh"]
    words = (*WORDS, *FIRST_CELL, "--no-pages", "script.nts")
    argv = [*machine, *user, sys.executable, "-c", CONTAINER, *command(*words)]
    env = {**os.environ, "MEMORY_KB": str(memory_gib << 20), "PARTS": " ".join(needed_of_home())}
    done = process.run(argv, cwd=folder, env=env, timeout=TIMEOUT_S, check=False)
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


def needed_folders() -> list[Path]:
    kernel = kernel_or_reason("sim").path.parent
    checkout = Path(netesto_package.__file__).parents[1]
    return [Path(sys.base_prefix), Path(sys.prefix), checkout, kernel]


def needed_of_home() -> list[str]:
    paths = [path for path in needed_folders() if path.is_relative_to(Path.home())]
    return [str(path.relative_to(Path.home())) for path in paths]


def test_results_are_the_same_on_another_machine(side_by_side: Outcome, tmp_path: Path):
    outcome = on_a_machine(tmp_path, 6)
    assert outcome.status == 0
    assert unnumbered(outcome) == unnumbered(side_by_side, ca="reno")


def test_results_are_the_same_for_an_ordinary_user_of_a_large_machine(side_by_side: Outcome):
    # pytest's own folders are closed to others.
    with tempfile.TemporaryDirectory(prefix="netesto-test-") as scratch:
        shutil.chown(scratch, "nobody")
        outcome = on_a_machine(Path(scratch), 64, "sh", "-e", "-c", USER, "sh")
        assert outcome.status == 0
        assert (outcome.out / "exp.csv").owner() == "nobody"
        assert unnumbered(outcome) == unnumbered(side_by_side, ca="reno")


def in_a_container(folder: Path, *words: str, user: int = 0) -> Outcome:
    """A command with the sweep, as `user` in a container."""
    if lack := containers.lack():
        pytest.skip(lack)
    (folder / "script.nts").write_text(SWEEP)
    words = (*command(*words), "script.nts")
    done = containers.run_in_container(
        folder, words, needed_folders(), user=user, timeout=TIMEOUT_S
    )
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


# ADDR_NO_RANDOMIZE, <linux/personality.h>; the size of /dev/shm.
ASK = """
import ctypes, os
memory = os.statvfs("/dev/shm")
print(ctypes.CDLL(None).personality(0x0040000), memory.f_blocks * memory.f_frsize)
"""


def test_the_container_refuses_personality_and_has_little_shared_memory(tmp_path: Path):
    if lack := containers.lack():
        pytest.skip(lack)
    argv = [sys.executable, "-c", ASK]
    done = containers.run_in_container(tmp_path, argv, needed_folders(), user=0, timeout=TIMEOUT_S)
    assert (done.status, done.stdout.split()) == (0, ["-1", str(64 << 20)])


@pytest.mark.parametrize("user", [0, containers.NOBODY])
def test_results_are_the_same_in_a_container(side_by_side: Outcome, user: int, tmp_path: Path):
    outcome = in_a_container(tmp_path, *WORDS, *FIRST_CELL, "--no-pages", user=user)
    assert outcome.status == 0, outcome.stderr
    assert (outcome.out / "exp.csv").stat().st_uid == user
    assert unnumbered(outcome) == unnumbered(side_by_side, ca="reno")


def test_a_cell_is_the_same_beside_cells_with_other_hosts(tmp_path: Path):
    script = SWEEP.replace("pair rate", "star hosts=3 rate").replace("server=b", "server=$server")
    script = script.replace("client=a", "client=h1").replace("ca=$cas", "ca=reno server=$servers")
    runs = []
    for name, servers in (("alone", "h2"), ("beside", "h2,h3")):
        folder = tmp_path / name
        folder.mkdir()
        words = (*WORDS, "--no-pages", "-D", f"servers={servers}", "script.nts")
        runs.append(run_sweep(folder, *words, script=script))
    alone, beside = runs
    assert unnumbered(alone) == unnumbered(beside, server="h2")


REFUSED = """\
netesto: a lab in this machine's kernel needs CAP_SYS_ADMIN and CAP_NET_ADMIN, which this \
container does not have: it creates network namespaces
Start the container with --privileged. A lab of `netesto run --ground uml` needs no capability.
"""


def test_a_lab_in_this_machine_s_kernel_is_refused_in_a_container_with_the_remedy(tmp_path: Path):
    outcome = in_a_container(tmp_path, "run", "--plain", "--ground", "lab", "--out", "out")
    assert (outcome.status, outcome.stderr) == (3, REFUSED)


def test_a_cell_is_repeated_until_it_is_certain(packed: Outcome):
    ends = run_records(packed)[0]["certainty"]
    assert [(end["cell"]["ca"], end["ended"], end["repetitions"]) for end in ends] == [
        ("reno", "bound", 4)
    ]


@pytest.mark.thorough
def test_a_cell_is_repeated_in_the_same_way_by_one_guest_after_the_other(
    packed: Outcome, tmp_path: Path
):
    words = (*WORDS, "--no-pages", "--jobs", "1", "script.nts")
    one = run_sweep(tmp_path, *words, script=UNTIL)
    assert run_record(one)["certainty"] == run_records(packed)[0]["certainty"]
    assert (one.out / "exp.csv").read_bytes() == (packed.out / "exp.csv").read_bytes()


def test_packed_cells_are_read_and_resumed_as_if_they_had_folders(packed: Outcome):
    folder, out = packed.out.parent, packed.out
    names = [path.name for path in out.iterdir()]
    assert {name for name in names if name[0].isdecimal()} == {"1.zip", "2.zip", "3.zip", "4.zip"}
    table = (out / "exp.csv").read_bytes()
    second = (out / "2.zip").read_bytes()
    netesto(folder, "report", "out", timeout=TIMEOUT_S).checked()
    assert (out / "exp.csv").read_bytes() == table
    assert (out / "2.zip").read_bytes() == second
    again = netesto(folder, *WORDS, "--pack", "--resume", "script.nts", timeout=TIMEOUT_S)
    assert "skipped 4 cells" in again.stderr
    netesto(folder, "report", "out", "2", timeout=TIMEOUT_S).checked()
    assert (out / "2" / "exp.html").is_file()
    assert not (out / "2.zip").exists()


def test_what_does_not_run_in_parts_is_not_packed(tmp_path: Path):
    (tmp_path / "script.nts").write_text(SWEEP)
    done = netesto(tmp_path, "run", "-n", "--ground", "lab", "--pack", "script.nts")
    assert (done.status, done.stderr.splitlines()[0]) == (
        2,
        "netesto: --pack: on ground lab a script does not run in parts",
    )
