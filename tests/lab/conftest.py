"""Labs for tests: built for the test, removed after it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from netesto.lab import netns, plan, records, topology
from netesto.lab.netns import Lab
from netesto.lab.plan import LabPlan
from netesto.lab.records import NAMESPACE_FOLDER, Record

Planner = Callable[..., LabPlan]
Raise = Callable[..., Lab]
Hold = Callable[..., subprocess.Popen[str]]

# Holds a lab with a process inside until it is asked, or forced, to end.
HOLDER = """
import subprocess, sys
from pathlib import Path
from netesto.lab import netns, plan, records, topology
state, agents = Path(sys.argv[1]), "agents" in sys.argv
planned = plan.plan(topology.build("pair", {}), prefix=records.fresh_id(state))
with netns.up(planned, state=state, agents=agents) as lab:
    with subprocess.Popen(lab.command("a", ["sleep", "600"]), start_new_session=True):
        print("up", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "labs"


@pytest.fixture
def planned(state: Path) -> Planner:
    """The plan of `LAB name k=v …`, under a name that no other lab has."""

    def of(name: str, **settings: str) -> LabPlan:
        return plan.plan(topology.build(name, settings), prefix=records.fresh_id(state))

    return of


@pytest.fixture
def raise_lab(state: Path, planned: Planner) -> Iterator[Raise]:
    """Brings labs up without agents; all are removed after the test."""
    with ExitStack() as stack:

        def raised(name: str, **settings: str) -> Lab:
            return stack.enter_context(
                netns.up(planned(name, **settings), state=state, agents=False)
            )

        yield raised


@pytest.fixture
def hold(state: Path) -> Iterator[Hold]:
    """Another process that holds a lab, with agents if asked, and is there by the time this
    returns."""
    with ExitStack() as stack:

        def held(*words: str) -> subprocess.Popen[str]:
            return stack.enter_context(_holder(state, *words))

        yield held


@contextmanager
def _holder(state: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
            yield child
        finally:
            child.kill()


@pytest.fixture
def left_of() -> Callable[[Record], list[str]]:
    """The objects in a record that exist on this machine."""

    def left(record: Record) -> list[str]:
        names = [name for name in record.namespaces if (NAMESPACE_FOLDER / name).exists()]
        return names + [path for path in (record.sockets, record.files) if Path(path).exists()]

    return left
