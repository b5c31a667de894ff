"""Experiments that a script leaves unfinished, in a run."""

from pathlib import Path

import pytest
from whole_runs import run_script

pytestmark = pytest.mark.lab

LEFT = """\
LAB pair rate=50mbit
DO_TCPDUMP host=b server=a packets=100
DO_CLIENT host=a server=b test=TCP_STREAM ca=cubic dur=1
"""


def test_what_a_script_leaves_unfinished_is_measured_captured_and_reported(tmp_path: Path):
    run = run_script(tmp_path, LEFT)
    [row] = [row for row in run.rows if row["exp"] == "1.0"]
    captured = run.out / "1" / "raw" / "b" / "capture.1.pcap"
    told = (
        "warning: script.nts:3: experiment 1 has no PROCESS_EXP:"
        " it is finished where the script ends"
    )
    assert (
        run.status,
        row["status"],
        captured.stat().st_size > 0,
        (run.out / "0.partial").exists(),
        told in run.stderr.splitlines(),
    ) == (0, "ok", True, False, True)
