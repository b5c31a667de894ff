"""Runs are expensive: tests of the same run share it."""

import pytest
from whole_runs import TWO_FLOWS, Outcome, run_script


@pytest.fixture(scope="session")
def two_flows(tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str) -> Outcome:
    """The paper's experiment, run once."""
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    return run_script(tmp_path_factory.mktemp("two-flows"), TWO_FLOWS, pages=True)
