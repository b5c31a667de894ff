"""Labs for tests: short names for what every test of this folder needs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from netesto.lab import netns, plan, records, topology
from netesto.lab.netns import Lab


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "labs"


Raise = Callable[..., Lab]


@pytest.fixture
def raise_lab(state: Path) -> Iterator[Raise]:
    """Brings labs up without agents, as `LAB name k=v …` would; all are gone after the test."""
    with ExitStack() as stack:

        def raised(name: str, **settings: str) -> Lab:
            lab_plan = plan.plan(topology.build(name, settings), prefix=records.fresh_id(state))
            return stack.enter_context(netns.up(lab_plan, state=state, agents=False))

        yield raised
