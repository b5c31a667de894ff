"""Links that a program carries, in a lab of this machine, whose kernel needs no netem for them."""

import pytest
from whole_runs import Outcome, left_of_labs, run_script

from netesto.emulator import PROGRAM

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
