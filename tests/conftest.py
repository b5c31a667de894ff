"""What a test needs from the machine: skip with the reason, or fail where it is required.

NETESTO_REQUIRE=lab,uml,sim,machines,native names what must not be skipped on this machine.
"""

import asyncio
import functools
import gc
import inspect
import os
import shutil
import signal
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from needs import unmet
from worlds import World, machines

from netesto.__main__ import OBJECTS
from netesto.system import interrupts, process

# As every command does.
process.reach_system_programs()
gc.set_threshold(OBJECTS)

# Tests of whole runs take longest, and wait for flows and hosts: they are handed out first, so
# that no worker is left with one, and mixed, so that some compute while others wait.
SLOWEST = frozenset(
    {"system", "reliability", "machines", "lab_guest", "lab", "agent", "traffic", "libraries"}
)

# Fixtures that cost little beside a whole run, in every worker.
CHEAP = frozenset(
    {"working_folder", "_signals_heeded", "lab_obstacle", "tmp_path_factory", "world"}
)

GROUNDS = ("lab", "uml", "sim")

# No test may depend on the speed of this machine.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

TOOLS = ("ip", "tc", "ss", "ping", "netperf", "netserver", "iperf3", "tcpdump", "ethtool")


def pytest_addoption(parser: pytest.Parser) -> None:
    add = parser.getgroup("netesto").addoption
    add("--instants", type=int, default=15, help="runs told to end at an instant (default: 15)")
    # With this seed 15 instants have all signals, and one host that has to miss its controller.
    add("--instants-seed", type=int, default=34, help="draws these instants (default: 34)")
    add("--instants-grounds", default="hosts,lab", help="of hosts,lab,uml,sim (default: hosts,lab)")
    add("--soak", type=int, default=100, help="experiments of the long run (default: 100)")
    add("--streams", type=int, default=2000, help="what a hostile peer sends (default: 2000)")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay until the end: looking for garbage among them, again and again, takes
    half of the time of their collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers (pytest -n) run the tests of one expensive fixture together, on each ground, and of
    other files whatever comes: what takes long comes first."""
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=place_of)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups that xdist does not respect would build one fixture in several workers at once."""
    has_groups = getattr(session.config.option, "loadgroup", False)
    grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
    if has_groups and grouped and not any("@" in item.nodeid for item in grouped):
        raise pytest.UsageError("this pytest-xdist does not group tests with this pytest")


def place_of(item: pytest.Item) -> tuple[bool, int]:
    """A mixture that is the same in every worker, and keeps the tests of a group together."""
    mixed = zlib.crc32((group_of(item) or item.nodeid).encode())
    return item.path.parent.name not in SLOWEST, mixed


def group_of(item: pytest.Item) -> str:
    """What a test shares with others: its file, or those of a ground in it; "" for a test of whole
    runs or guests that shares nothing."""
    if item.path.parent.name not in {"system", "lab_guest", "reliability"}:
        return str(item.path)
    assert isinstance(item, pytest.Function)
    is_shared = any(
        definitions[-1].scope != "function" and name not in CHEAP
        for name, definitions in item._fixtureinfo.name2fixturedefs.items()
    )
    if not is_shared:
        return ""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return "-".join([str(item.path), *(each for each in parameters if each in GROUNDS)])


@pytest.fixture(scope="session", autouse=True)
def _signals_heeded() -> Iterator[None]:
    """What is started with a request to end ignored passes that on: in the background of a shell
    without job control, or under nohup, no test could interrupt what it starts."""
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_IGN
    ]
    for number in ignored:
        is_interrupt = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Handlers of requests to end are afterwards as before: who was asked to end ignores what comes
    later, to its end."""
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty one: what lies where pytest was started (results of runs, libraries that SOURCE
    would find there) is no fact that a test states."""
    before, folder = Path.cwd(), tmp_path_factory.mktemp("working-folder")
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(autouse=True)
def _leaves_nothing_there(working_folder: Path) -> Iterator[None]:
    yield
    left = [path.name for path in working_folder.iterdir()]
    assert left == [], "a test that writes needs a folder of its own"


@functools.cache
def missing_for_lab() -> str:
    """Why this machine can build no lab, "" if it can."""
    if os.geteuid() != 0:
        return "needs root"
    lacks = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacks:
        return f"needs {', '.join(lacks)}"
    made = process.run(["unshare", "--net", "true"], timeout=60, check=False)
    return "" if made.status == 0 else f"no network namespaces here: {made.last_lines()}"


@pytest.fixture(scope="session")
def lab_obstacle() -> str:
    return missing_for_lab()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture is made, of a module or of all."""
    if item.get_closest_marker("lab") is not None and (obstacle := missing_for_lab()):
        unmet("lab", f"this machine {obstacle}")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two machines, h1 and h2, and a controller, which a test leaves as they were."""
    with machines("h1", "h2", folder=tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(params=[0.5])
def quota_group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A control group with a quota of so many processors."""
    quota_us = round(request.param * 100_000)
    first, second = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    is_first = (first / "cpu.shares").exists()
    group = (first if is_first else second) / f"netesto-test-{os.getpid()}"
    try:
        group.mkdir()
        if is_first:
            (group / "cpu.cfs_quota_us").write_text(f"{quota_us}")
        else:
            (group / "cpu.max").write_text(f"{quota_us} 100000")
    except OSError as error:
        pytest.skip(f"no control group with a quota can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()
