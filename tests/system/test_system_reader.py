"""The reader of a run's output may end."""

import os
from pathlib import Path

import pytest
from whole_runs import PATIENCE_S, Outcome, command

from netesto.system import process

pytestmark = pytest.mark.lab

SCRIPT = """\
LAB pair rate=50mbit
SOURCE inlib
RUN OneFlowStream server=b client=a expName=x ca=cubic dur=1
"""


def test_a_run_goes_on_when_nobody_reads_its_progress(tmp_path: Path):
    (tmp_path / "script.nts").write_text(SCRIPT)
    out = tmp_path / "out"
    words = ("run", "--plain", "--no-pages", "--out", str(out), str(tmp_path / "script.nts"))
    netesto = " ".join(command(*words))
    # The pipe's reader ends at once; status is that of the run.
    script = f"{{ {netesto} 2>&1 >/dev/null; echo $? >{tmp_path}/status; }} | true"
    process.run(["sh", "-c", script], timeout=PATIENCE_S, env=dict(os.environ))
    status = int((tmp_path / "status").read_text())
    assert (status, Outcome(status, "", "", out).rows[0]["status"]) == (0, "ok")
