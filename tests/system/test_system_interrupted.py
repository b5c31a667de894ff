"""A run that is asked to end, at any moment and however often, ends soon, with status 130, keeps
what was measured, and leaves nothing behind. Runs that share a machine do not disturb each other,
whatever process numbers they see."""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import processes
import psutil
import pytest
from places import GUESTS, LAB, PATIENCE_S, Place, place_on, skip_unless_possible
from promptness import END_S, slowdown
from whole_runs import command

from netesto.lab import records
from netesto.system import process

_T = TypeVar("_T")

# Several runs each, on a machine that may be busy.
pytestmark = pytest.mark.timeout(1600)

# Nobody waits for the ends of these flows.
SCRIPT = """\
LAB pair rate=2mbit
SOURCE inlib
RUN OneFlowStream server=b client=a expName=short ca=cubic dur=1
RUN OneFlowStream server=b client=a expName=long ca=cubic dur=90000
"""

NEXT_SCRIPT = """\
LAB pair rate=2mbit
SOURCE inlib
RUN OneFlowStream server=b client=a expName=next ca=cubic dur=1
"""

# What a run says as it goes; between two of them are a lab's building, its measuring, the start of
# agents, experiments and flows, and results.
SAID = ("a ══ b", "seed 1", "experiment 1 of 2", "#1.1: 1 s", "experiment 1: ok", "experiment 2 of")

SECOND_FLOWS = "#1.1: 25 h 0 min"

# The rows of a run that is cut off during its second flows.
CUT_OFF = ["ok", "ok", "failed", "interrupted"]

# When after that: a flow is accepted within some hundredths of a second, paths are measured within
# some tenths. (test_system_instants draws its moments.)
MOMENTS = [
    *((text, 0.0) for text in SAID),
    *((text, after_s) for text in ("a ══ b", "#1.1: 1 s") for after_s in (0.1, 0.4)),
]

# While it measures paths, in mid-flow, between experiments.
TELLING = [("a ══ b", 0.4), ("#1.1: 1 s", 0.1), ("experiment 1: ok", 0.0)]

HANG_UP, TERMINATE, CTRL_C = signal.SIGHUP, signal.SIGTERM, signal.SIGINT

TWICE = [
    pytest.param((TERMINATE, HANG_UP), id="TERM HUP", marks=pytest.mark.thorough),
    pytest.param((TERMINATE, TERMINATE), id="TERM TERM", marks=pytest.mark.thorough),
    pytest.param((CTRL_C, CTRL_C), id="INT INT"),
]


def telling(values: Sequence[_T], chosen: Collection[_T]) -> list[Any]:
    """Parameters of a test; those that are not chosen are of the thorough ones."""
    return [
        pytest.param(each, marks=() if each in chosen else pytest.mark.thorough) for each in values
    ]


@dataclass(frozen=True, slots=True)
class Told:
    """The outcome of a run that was asked to end, and what it left behind."""

    status: int
    left: list[Path]
    statuses: list[str]


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str
) -> Iterator[Place]:
    skip_unless_possible(request.param, lab_obstacle)
    with place_on(request.param, tmp_path_factory) as place:
        yield place


def told(place: Place, text: str, signals: Sequence[int], *, after_s: float = 0.0) -> Told:
    """A run that is asked to end by these signals, the first some time after it has printed `text`,
    the others as soon as the run is about to end."""
    with place.running(SCRIPT, text) as run:
        process.wait_until(lambda: run.poll() is not None, timeout=after_s)
        status = ended_by(signals, place, run, run.pid)
    table = place.out / "exp.csv"
    return Told(status, left_of(run.pid, place), place.statuses if table.exists() else [])


def ended_by(signals: Sequence[int], place: Place, run: process.Child, pid: int) -> int:
    """The exit status of a run in process `pid`, which gets these signals."""
    os.kill(pid, signals[0])
    for again in signals[1:]:
        process.wait_until(lambda: is_ending(place, run), timeout=PATIENCE_S)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, again)
    return run.wait(PATIENCE_S)


def is_ending(place: Place, run: process.Child) -> bool:
    return "interrupted" in place.output.read_text() or run.poll() is not None


def left_of(run: int, place: Place) -> list[Path]:
    """What exists of a run's lab, and of its temporary files."""
    labs = [
        records.path_of(records.STATE_FOLDER, record.lab)
        for record in records.read_all(records.STATE_FOLDER)
        if record.owner == run
    ]
    return [*labs, *place.temporary.iterdir()]


@pytest.mark.lab
@pytest.mark.parametrize("place", ["lab"], indirect=True)
@pytest.mark.parametrize("moment", telling(MOMENTS, TELLING), ids=str)
def test_a_run_ends_at_any_moment(place, moment):
    text, after_s = moment
    ended = told(place, text, [CTRL_C], after_s=after_s)
    assert (ended.status, ended.left) == (130, [])


@pytest.mark.lab
@pytest.mark.parametrize("place", ["lab"], indirect=True)
@pytest.mark.parametrize("signals", TWICE)
def test_a_run_that_is_asked_twice_to_end_leaves_nothing(place, signals):
    ended = told(place, SECOND_FLOWS, signals)
    assert (ended.status, ended.left, ended.statuses[:2]) == (130, [], ["ok", "ok"])


@pytest.mark.lab
@pytest.mark.parametrize("place", ["lab"], indirect=True)
@pytest.mark.parametrize("after_s", telling([0.0, 0.2, 0.5, 0.9], [0.2]))
def test_a_run_killed_while_it_measures_leaves_nothing_that_clean_does_not_find(place, after_s):
    with place.running(SCRIPT, "a ══ b") as run:
        process.wait_until(lambda: run.poll() is not None, timeout=after_s)
        os.kill(run.pid, signal.SIGKILL)
        run.wait(PATIENCE_S)
    assert (place.netesto(command("clean")), left_of(run.pid, place)) == (0, [])


@pytest.mark.lab
@pytest.mark.parametrize("place", ["lab"], indirect=True)
def test_a_run_whose_agent_hangs_ends_within_seconds_too(place):
    with place.running(SCRIPT, SECOND_FLOWS) as run:
        [lab] = [each for each in records.read_all(records.STATE_FOLDER) if each.owner == run.pid]
        for agent in processes.agents_of(lab):
            agent.suspend()
        begun_s, slow = time.monotonic(), slowdown()
        os.kill(run.pid, CTRL_C)
        status = run.wait(PATIENCE_S)
        took_s = (time.monotonic() - begun_s) / max(slow, slowdown())
    assert (status, left_of(run.pid, place), took_s < END_S) == (130, [], True), took_s


# ---- other PID namespaces ------------------------------------------------------------------------

APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child=SIGTERM")


@contextlib.contextmanager
def running_apart(place: Place) -> Iterator[tuple[process.Child, int]]:
    """The script's run in its second experiment, and its process here; in a PID namespace of its
    own where one can be made."""
    apart = APART if process.run([*APART, "true"], timeout=60, check=False).status == 0 else ()
    place.output.write_text("")
    with process.background(
        [*apart, *place.words(SCRIPT)],
        stdout=place.output,
        env=place.environment,
        ready=lambda: SECOND_FLOWS in place.output.read_text(),
        timeout=PATIENCE_S,
    ) as run:
        [pid] = [each.pid for each in psutil.Process(run.pid).children()] if apart else [run.pid]
        yield run, pid


@contextlib.contextmanager
def standing_still(run: int, place: Place) -> Iterator[None]:
    """A guest in simulated time would compute without end meanwhile. Its kernel is stopped, which
    looks after its other processes."""
    guest = psutil.Process(run).children() if place.ground == "sim" else []
    for each in guest:
        each.suspend()
    try:
        yield
    finally:
        for each in guest:
            each.resume()


@dataclass(frozen=True, slots=True)
class Beside:
    """The outcome of netesto beside a run: another run that writes to the same results folder, one
    that does not, and `clean`. `lives`: the run continued; `ended`: how it ended when its terminal
    was closed. `is_apart`: it was in another PID namespace."""

    is_apart: bool
    refused: int
    told: str
    following: int
    cleaned: int
    lives: bool
    ended: Told


@pytest.fixture(scope="module", params=[*GUESTS, LAB])
def beside(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str
) -> Iterator[Beside]:
    skip_unless_possible(request.param, lab_obstacle)
    with place_on(request.param, tmp_path_factory) as place:
        other = Place(place.ground, tmp_path_factory.mktemp("other"), place.temporary)
        with running_apart(place) as (run, pid):
            words = other.words(NEXT_SCRIPT)
            with standing_still(pid, place):
                refused = other.netesto([*words, "--out", str(place.out)])
                told = other.output.read_text()
                following = other.netesto(words)
                cleaned = other.netesto(command("clean"))
            lives = run.poll() is None and place.output.read_text().rstrip().endswith(SECOND_FLOWS)
            status = ended_by((HANG_UP, HANG_UP), place, run, pid)
        ended = Told(status, left_of(pid, place), place.statuses)
        yield Beside(pid != run.pid, refused, told, following, cleaned, lives, ended)


def test_a_run_leaves_one_of_another_pid_namespace_alone(beside: Beside):
    if not beside.is_apart:
        pytest.skip("unshare: no PID namespace can be made here")
    assert (beside.following, beside.cleaned, beside.lives) == (0, 0, True)


def test_two_runs_do_not_write_to_one_results_folder(beside: Beside):
    assert (beside.refused, "another run is writing to this folder" in beside.told) == (3, True)


def test_measurements_of_a_run_whose_terminal_closed_are_kept(beside: Beside):
    assert beside.ended == Told(130, [], CUT_OFF)
