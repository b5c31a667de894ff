"""A SWEEP, and taking it up again."""

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


def test_a_sweep_fills_its_columns_and_is_not_run_twice(tmp_path: Path):
    first = run_script(tmp_path, SWEEP)
    cells = [(row["exp"], row["ca"], row["rep"]) for row in first.rows if row["group"] == "0"]
    again = netesto(tmp_path, "run", "--plain", "--resume", "--out", "out", "script.nts")
    assert (first.status, again.status, len(first.rows)) == (0, 0, 8)
    assert cells == [
        ("1.0", "reno", "1"),
        ("2.0", "cubic", "1"),
        ("3.0", "reno", "2"),
        ("4.0", "cubic", "2"),
    ]
