"""Links that a program carries, in a lab of this machine, whose kernel needs no netem for them."""

import os
import signal
from pathlib import Path

import psutil
import pytest
from places import PATIENCE_S
from whole_runs import Outcome, command, left_of_labs, run_script

from netesto.emulator import PROGRAM
from netesto.lab import records
from netesto.results import csvfile, manifest
from netesto.system import process

pytestmark = pytest.mark.lab

SCRIPT = """\
LAB corrupting emulator=program rate=20mbit rtt=10 delay=1 loss=2 limit=200p
SWEEP protect=off,ordered,nonblocking DO
    SET_LINK host=s1 to=s2 dir=to protect=$protect
    DO_CLIENT host=h1 server=h2 test=TCP_STREAM ca=cubic dur=1 exp=COUNTER
    WAIT_FLOWS
    PROCESS_EXP
DONE
SHOW_LINK host=s1 to=s2
STRESS_LINK host=s1 to=s2 frames=10K expName=stress
"""


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str) -> Outcome:
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    if not PROGRAM.exists():
        pytest.skip("netesto-link was not compiled: no C compiler")
    return run_script(tmp_path_factory.mktemp("carried"), SCRIPT, ["--force"])


def whole(outcome: Outcome) -> dict[str, dict[str, str]]:
    """The row of each experiment, by its number."""
    return {row["exp"]: row for row in outcome.rows if row["exp"].endswith(".0")}


def test_what_a_protected_link_loses_it_sends_again(carried: Outcome):
    rows = whole(carried)
    assert [rows[f"{exp}.0"]["status"] for exp in (1, 2, 3, 4)] == ["ok"] * 4
    assert [float(rows[f"{exp}.0"]["linkLost"]) > 0 for exp in (1, 2, 3)] == [True] * 3
    assert [float(rows[f"{exp}.0"]["linkResent"]) > 0 for exp in (1, 2, 3)] == [False, True, True]


def test_a_link_shows_the_state_of_both_ends(carried: Outcome):
    assert "s1→s2 nonblocking: rate 20 Mbit/s, loss 2.000e-02 set" in carried.stdout
    assert "s2→s1 not protected: rate 20 Mbit/s, loss 0.000e+00 set" in carried.stdout


def test_lost_frames_are_listed_with_what_was_in_them(carried: Outcome):
    lines = (carried.out / "1/raw/s1/losses.s2.csv").read_text().splitlines()
    assert lines[0] == (
        "time_s,number,copy,bytes,protocol,source,sport,destination,dport,tcp_seq,payload"
    )
    lost = [line.split(",") for line in lines[1:]]
    assert len(lost) == float(whole(carried)["1.0"]["linkLost"])
    with_data = [each for each in lost if each[4] == "tcp" and each[10] != "0"]
    # Counted from the SYN, and no longer than what one flow sent.
    assert all(0 < int(each[9]) < 10**8 for each in with_data)


def test_nothing_is_left_of_the_lab(carried: Outcome):
    assert carried.status == 0
    assert left_of_labs(carried.out) == []


KILLED = """\
LAB corrupting emulator=program rate=20mbit rtt=10
FOR name IN first,second DO
    DO_CLIENT host=h1 server=h2 test=TCP_STREAM ca=cubic dur=3 exp=COUNTER expName=$name
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""


def program_of(run: int) -> int:
    """The process id of the program that carries the link from s1 to s2 of this run's lab."""
    [lab] = [each for each in records.read_all(records.STATE_FOLDER) if each.owner == run]
    [found] = [
        each.pid
        for each in psutil.process_iter(["cmdline"])
        if {"ends=s1,s2", f"control={lab.sockets}"}
        <= {word.rpartition("/.tap")[0] or word for word in each.info["cmdline"] or ()}
    ]
    return found


def test_no_experiment_of_a_link_is_ok_after_its_program_was_killed(
    tmp_path: Path, carried: Outcome
):
    assert carried.status == 0
    script, out, said = (tmp_path / name for name in ("script.nts", "out", "said"))
    script.write_text(KILLED)
    said.touch()
    words = command("run", "--plain", "--force", "--no-pages", "--ground", "lab", "--out", str(out))
    words += ["--on-failure", "continue", str(script)]
    began = lambda: "flow cubic" in said.read_text()  # noqa: E731
    with process.background(words, stdout=said, ready=began, timeout=PATIENCE_S) as run:
        os.kill(program_of(run.pid), signal.SIGKILL)
        status = run.wait(PATIENCE_S)
    known = [manifest.read(out / exp / manifest.NAME) for exp in ("1", "2")]
    reasons = ["; ".join(each.reasons) for each in known]
    statuses = [row["status"] for row in csvfile.read(out / "exp.csv") if row["exp"].endswith(".0")]
    assert (status, "ok" in statuses) == (1, False), said.read_text()
    assert ["the program that carries it has ended" in each for each in reasons] == [True, True]
    assert left_of_labs(out) == []
