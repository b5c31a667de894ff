"""What the hosts lack is told before any traffic, with its place."""

from pathlib import Path

import pytest
from whole_runs import run_script

pytestmark = pytest.mark.lab


def test_requirement_after_an_experiment_stops_the_run_before_it(tmp_path: Path):
    outcome = run_script(
        tmp_path,
        "LAB pair\n"
        "DO_CLIENT host=a server=b ca=cubic dur=0.5\n"
        "WAIT_FLOWS\n"
        "PROCESS_EXP\n"
        "REQUIRE ca=nonesuch\n",
    )
    assert (outcome.status, "(needed at script.nts:5:9)" in outcome.stderr) == (3, True)
    assert not (outcome.out / "1").exists()
