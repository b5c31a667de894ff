"""A SWEEP, and `--resume`."""

import json
from pathlib import Path

import pytest
from whole_runs import netesto, run_script

pytestmark = pytest.mark.lab

SWEEP = """\
LAB pair rate=50mbit
SOURCE inlib
SWEEP ca=reno,cubic reps=2 DO
    RUN OneFlowStream server=b client=a expName=sweep ca=$ca dur=1
DONE
"""

# Takes up the run of a script's text.
RESUME = ("run", "--plain", "--no-pages", "--resume", "--out", "out", "script.nts")


def test_a_sweep_fills_its_columns_and_is_not_run_twice(tmp_path: Path):
    first = run_script(tmp_path, SWEEP)
    cells = [(row["exp"], row["ca"], row["rep"]) for row in first.rows if row["group"] == "0"]
    again = netesto(tmp_path, *RESUME)
    assert (first.status, again.status, len(first.rows)) == (0, 0, 8)
    assert cells == [
        ("1.0", "reno", "1"),
        ("2.0", "cubic", "1"),
        ("3.0", "reno", "2"),
        ("4.0", "cubic", "2"),
    ]


CLAIMED = """\
LAB pair rate=50mbit
SOURCE inlib
SWEEP outer=1 DO
    SWEEP ca=reno,cubic DO
        RUN OneFlowStream server=b client=a ca=$ca dur=1
        ASSERT ca == reno: only reno
    DONE
DONE
"""


def test_a_claim_that_was_false_keeps_its_status_until_it_holds(tmp_path: Path):
    first = run_script(tmp_path, CLAIMED)
    again = netesto(tmp_path, *RESUME)
    (tmp_path / "script.nts").write_text(CLAIMED.replace("== reno", "!= bbr"))
    mended = netesto(tmp_path, *RESUME)
    told = (
        "netesto: outer=1 rep=1, of an earlier run: script.nts:6: experiment 2: only reno:"
        " ca == reno, but ca is cubic"
    )
    assert (first.status, again.status, mended.status, again.stderr.splitlines()[-1]) == (
        1,
        1,
        0,
        told,
    )


def test_a_cell_with_a_failed_flow_is_run_again_within_another_cell_too(tmp_path: Path):
    script = CLAIMED.replace("        ASSERT ca == reno: only reno\n", "")
    failing = script.replace("RUN OneFlowStream", "RUN Two").replace(
        "SWEEP outer",
        "BEGIN Two\n"
        "    DO_SERVER host=b exp=COUNTER start=1\n"
        "    DO_CLIENT host=a server=b exp=PREV ca=$ca dur=1 req=S\n"
        "    IF $ca == reno: WAIT_FLOWS timeout=0.2\n"
        "    PROCESS_EXP\n"
        "END Two\n"
        "SWEEP outer",
        1,
    )
    first = run_script(tmp_path, failing)
    (tmp_path / "script.nts").write_text(failing.replace("timeout=0.2", "timeout=60"))
    again = netesto(tmp_path, *RESUME)
    lines = again.stderr.splitlines()
    passed = [line for line in lines if line.startswith("skipped")]
    begun = [line for line in lines if " experiment 1 of 1: " in line]
    assert (first.status, again.status, passed, len(begun)) == (
        1,
        0,
        ["skipped outer=1 rep=1 ca=cubic rep2=1: finished by an earlier run"],
        1,
    )


# So wide that three rates are within it, whatever else the machine does.
UNTIL = SWEEP.replace("reps=2", "reps=3..4 until=rate:90%")


def test_a_sweep_ends_when_it_is_certain_and_is_not_continued_then(tmp_path: Path):
    first = run_script(tmp_path, UNTIL)
    [path] = (first.out / "runs").glob("*.json")
    again = netesto(tmp_path, *RESUME)
    ends = json.loads(path.read_text())["certainty"]
    assert [(end["cell"], end["ended"], end["repetitions"]) for end in ends] == [
        ({"ca": "reno"}, "certain", 3),
        ({"ca": "cubic"}, "certain", 3),
    ]
    assert [row["exp"] for row in first.rows if row["group"] == "0"] == [
        f"{exp}.0" for exp in range(1, 7)
    ]
    said = [line for line in again.stdout.splitlines() if "certain after 3 repetitions" in line]
    assert (again.status, len(said)) == (0, 2)
