"""Cells of a SWEEP side by side, each in a guest of its own, in simulated time."""

import json
from pathlib import Path

import psutil
import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, command, netesto

from netesto import process

# Several guests, on a machine that may do much else.
pytestmark = [pytest.mark.sim, pytest.mark.timeout(900)]

SWEEP = """\
LAB pair rate=10mbit rtt=10
SOURCE inlib
ECHO two cells
SWEEP ca=reno,cubic DO
    ECHO cell $ca
    RUN OneFlowStream server=b client=a expName=cell ca=$ca dur=1
DONE
"""

TIMEOUT_S = 400

WORDS = ("run", "--plain", "--ground", "sim", "--seed", "7", "--out", "out")


def run_sweep(folder: Path, *options: str) -> Outcome:
    kernel_or_reason("sim")
    (folder / "script.nts").write_text(SWEEP)
    done = netesto(folder, *WORDS, *options, "script.nts", timeout=TIMEOUT_S)
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


def run_record(outcome: Outcome) -> dict[str, object]:
    [path] = (outcome.out / "runs").glob("*.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_sweep(tmp_path_factory.mktemp("one"), "--jobs", "1")


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_sweep(tmp_path_factory.mktemp("two"), "--jobs", "2")


def test_every_cell_has_its_row(side_by_side: Outcome):
    rows = [(row["exp"], row["ca"], row["rep"], row["status"]) for row in side_by_side.rows]
    assert (side_by_side.status, rows[::2]) == (
        0,
        [("1.0", "reno", "1", "ok"), ("2.0", "cubic", "1", "ok")],
    )


def test_results_do_not_change_with_the_number_of_guests(
    one_by_one: Outcome, side_by_side: Outcome
):
    first, second = (run.out / "exp.csv" for run in (one_by_one, side_by_side))
    assert first.read_bytes() == second.read_bytes()


def test_a_plan_gives_what_its_script_gives(one_by_one: Outcome, tmp_path: Path):
    script = str(one_by_one.out.parent / "script.nts")
    netesto(tmp_path, "plan", "--seed", "7", "-o", "plan.json", script)
    words = ("run", "--plain", "--ground", "sim", "--out", "out", "plan.json")
    done = netesto(tmp_path, *words, timeout=TIMEOUT_S)
    first, second = (folder / "exp.csv" for folder in (one_by_one.out, tmp_path / "out"))
    assert (done.status, second.read_bytes()) == (0, first.read_bytes())


def test_what_the_script_prints_comes_once_and_in_order(side_by_side: Outcome):
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


def test_finished_cells_are_not_run_again(side_by_side: Outcome):
    folder = side_by_side.out.parent
    again = netesto(folder, *WORDS, "--resume", "script.nts", timeout=TIMEOUT_S)
    assert (again.status, len(side_by_side.rows)) == (0, 4)


def test_what_a_killed_run_had_measured_is_there_for_the_next(tmp_path: Path):
    kernel_or_reason("sim")
    (tmp_path / "script.nts").write_text(SWEEP)
    argv = command(*WORDS, "--jobs", "1", "script.nts")
    with process.background(argv, stdout=tmp_path / "log", cwd=tmp_path) as child:
        assert process.wait_until((tmp_path / "out" / "1").is_dir, timeout=TIMEOUT_S)
        theirs = psutil.Process(child.pid).children(recursive=True)
        child.kill()
        psutil.wait_procs(theirs, timeout=60)
    left = [each for each in theirs if each.is_running()]
    again = netesto(tmp_path, *WORDS, "--resume", "script.nts", timeout=TIMEOUT_S)
    outcome = Outcome(again.status, again.stdout, again.stderr, tmp_path / "out")
    cells = {row["ca"]: row["status"] for row in outcome.rows if row["exp"].endswith(".0")}
    folders = list((tmp_path / "out" / "runs").glob("*.parts"))
    assert (left, again.status, cells["reno"], cells["cubic"], folders) == (
        [],
        0,
        "ok",
        "ok",
        [],
    )
