"""After `kill -9` of any process of a run, on any ground: the kill is reported, measurements are
kept, what the run made is gone, nothing else is touched, and the next run succeeds.

Runs are expensive: on each ground there is one story, in one results folder. A run's agent is
killed; then a run's guest, where there is one; then a run itself, and `clean` tidies up; then
another run, after which the next one tidies up and succeeds.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from places import GUESTS, LAB, PATIENCE_S, UML, Place, place_on, skip_unless_possible
from processes import inside, is_alive, wait_for_costly
from whole_runs import command, left_of_labs

from netesto import hostsettings
from netesto.lab import records
from netesto.system import owned, proc, process

# A whole story, several runs on a machine that may do much else. Each run is bounded by itself.
pytestmark = pytest.mark.timeout(1600)

# A process that a command leaves, known by a time that nobody else sleeps. The command ends when
# it is out of the command's session: what is still in there then, the agent ends.
LINGERING = ["sleep", str(10_000_000 + os.getpid())]
COMMANDS = f"""\
[commands.linger]
run = [
    "sh", "-c",
    "(setsid sh -c 'echo; exec {" ".join(LINGERING)} >/dev/null 2>&1' &) | read line",
]
"""

# Two flows as in the demo, which last until the agent is killed; client2 has all that can be set
# of links and routes.
TOPOLOGY = """\
[nodes]
client1 = "host"
client2 = "host"
server1 = "host"
switch = "switch"

[[links]]
between = ["client1", "switch"]

[[links]]
between = ["client2", "switch"]
rate = "20mbit"

[[links]]
between = ["switch", "server1"]
rate = "10mbit"
"""
SET_SCRIPT = """\
LAB file=lab.toml
SOURCE inlib
SET_LINK host=client2 mtu=1400
SET_LINK host=client2 rate=15mbit limit=200K
SET_ROUTE host=client2 to=server1 initcwnd=20 rto_min=100
DO_COMMAND host=client2 name=linger
RUN TwoFlowBaseStream server=server1 client1=client1 client2=client2 expName=two \\
    ca1=cubic ca2=bbr dur1=200 dur2=200 delay2=0.5
"""

# One experiment that ends, and one that ends only if somebody ends it.
SCRIPT = """\
LAB pair rate=2mbit
SOURCE inlib
SET_LINK host=a rate=1900kbit limit=20K
SET_LINK host=a mtu=1400
SET_ROUTE host=a to=b initcwnd=20
DO_COMMAND host=a name=linger
RUN OneFlowStream server=b client=a expName=short ca=cubic dur=1
RUN OneFlowStream server=b client=a expName=long ca=cubic dur=90000
"""

SECOND_FLOWS = "#1.1: 25 h 0 min"

# The guest first: pytest tells apart by their places what tests share.
GROUNDS = [*GUESTS, LAB]

NEXT_SCRIPT = """\
LAB pair rate=2mbit
SOURCE inlib
RUN OneFlowStream server=b client=a expName=next ca=cubic dur=1
"""

STARTER = Path(__file__).parents[1] / "lab_guest" / "starter.py"
AGENT_KILLER = Path(__file__).with_name("agent_killer.py")


# ---- what a run has made -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Made:
    """What a run in progress has on this machine."""

    paths: tuple[Path, ...]
    processes: tuple[psutil.Process, ...]

    @property
    def remaining(self) -> list[object]:
        """What remains of it when processes that were asked to end have ended."""
        wait_for_costly(lambda: not self._now(), timeout=60)
        return self._now()

    def _now(self) -> list[object]:
        alive = list(filter(is_alive, self.processes))
        mounts = Path("/proc/self/mountinfo").read_text().split()
        mounted = [word for word in mounts for path in self.paths if word.startswith(str(path))]
        return [*(path for path in self.paths if path.exists()), *mounted, *alive, *lingering()]


def made_by(run: int, place: Place) -> Made:
    """What the run with that process number has made; something of each kind."""
    made = lab_of(run) if place.ground == "lab" else guest_of(run, place)
    assert made.paths, "it has made no files?"
    assert len(made.processes) > 1, "it has started nothing?"
    # Processes of a guest have other names here.
    assert place.ground != "lab" or lingering(), "its command has left nothing?"
    return made


def lab_of(run: int) -> Made:
    """Namespaces, record, sockets and files of its lab; agents and all that they have started."""
    [record] = [record for record in records.read_all(records.STATE_FOLDER) if record.owner == run]
    return Made(
        (
            *(records.NAMESPACE_FOLDER / name for name in record.namespaces),
            records.path_of(records.STATE_FOLDER, record.lab),
            Path(record.sockets),
            Path(record.files),
        ),
        tuple(inside(record.namespaces)),
    )


def guest_folders(run: int, place: Place) -> tuple[Path, ...]:
    """That of its job, and that of its guest."""
    return tuple(place.temporary.glob(f"{owned.PREFIX}{run}-*"))


def guest_pid(run: int, place: Place) -> int:
    [file] = place.temporary.glob(f"{owned.PREFIX}{run}-*/guest/pid")
    return int(file.read_text())


def guest_of(run: int, place: Place) -> Made:
    """Its folders; the guest's kernel, and every process that is one of the guest's."""
    return Made(guest_folders(run, place), tuple(session(guest_pid(run, place))))


def session(leader: int) -> list[psutil.Process]:
    """The processes of a session."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            found += [each] if os.getsid(each.pid) == leader else []
    return found


def lingering() -> list[psutil.Process]:
    """What commands have left behind; in a guest, inside it."""
    return [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == LINGERING]


# ---- what it has not made ------------------------------------------------------------------------


@dataclass(slots=True)
class Foreign:
    """Objects of others that look like those of a run."""

    namespaces: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    processes: list[psutil.Process] = field(default_factory=list)

    @property
    def lost(self) -> list[object]:
        """What is missing of it."""
        return [
            *(name for name in self.namespaces if not is_wired(name)),
            *(path for path in self.paths if not path.exists()),
            *(one for one in self.processes if not is_alive(one)),
        ]


def is_wired(namespace: str) -> bool:
    """Whether the namespace is there, with the link that `foreign_lab` made in it."""
    argv = ["ip", "-netns", namespace, "link", "show", "dev", "a"]
    return process.run(argv, timeout=60, check=False).status == 0


@contextlib.contextmanager
def foreign_in(place: Place) -> Iterator[Foreign]:
    """A namespace with a link and a process, where one can be made; a file and a folder beside
    those of the guests, the folder that of a process that runs."""
    notes = place.temporary / f"{owned.PREFIX}notes"
    notes.mkdir()
    with contextlib.ExitStack() as stack:
        foreign = Foreign(paths=[notes, stack.enter_context(owned.folder(place.temporary))])
        if place.ground == "lab":
            foreign_lab(foreign, stack, place)
        yield foreign


def foreign_lab(foreign: Foreign, stack: contextlib.ExitStack, place: Place) -> None:
    name = f"nt{os.getpid():x}-a"
    process.run(["ip", "netns", "add", name], timeout=60)
    stack.callback(process.run, ["ip", "netns", "del", name], timeout=60, check=False)
    foreign.namespaces.append(name)
    cable = ["link", "add", "name", "a", "type", "veth", "peer", "name", "b"]
    process.run(["ip", "-netns", name, *cable], timeout=60)
    sleep = ["ip", "netns", "exec", name, "sleep", "1000"]
    sleeper = stack.enter_context(process.background(sleep, stdout=place.folder / "sleeper"))
    foreign.processes += [psutil.Process(sleeper.pid)]


# ---- an agent ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Maimed:
    """A run with two flows; the agent of the lab was killed."""

    status: int
    statuses: list[str]
    kept: list[str]
    left: list[object]
    settings: list[dict[str, Any]]


@pytest.fixture(scope="module", params=GROUNDS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str
) -> Iterator[Place]:
    skip_unless_possible(request.param, lab_obstacle)
    with place_on(request.param, tmp_path_factory) as place:
        place.commands.write_text(COMMANDS)
        (place.folder / "lab.toml").write_text(TOPOLOGY)
        yield place


@pytest.fixture(scope="module")
def maimed(place: Place) -> Maimed:
    status = place.netesto(killing_agent(place, "flow bbr client2→server1"))
    kept = [path.name for path in place.out.glob("*/0/client2.snmp")]
    left = [*place.temporary.iterdir(), *left_of_labs(place.out), *lingering()]
    [manifest] = place.out.glob("*/manifest.json")
    settings = json.loads(manifest.read_text())["hosts"]["client2"]["settings"]
    return Maimed(status, place.statuses, kept, left, settings)


def killing_agent(place: Place, text: str) -> list[str]:
    """The run, and the killer of the agent, both where the agents are."""
    argv = [sys.executable, str(AGENT_KILLER), text, str(place.out / "killer.log")]
    argv += place.words(SET_SCRIPT)
    if place.ground == "lab":
        return argv
    mark = f"{proc.GROUND_MARK}={place.ground}"
    return [sys.executable, str(STARTER), place.ground, "env", mark, *argv]


def test_a_killed_agent_fails_the_flows_of_its_hosts(maimed: Maimed):
    whole, *flows = maimed.statuses
    lost = [": agent lost: " in each for each in flows]
    assert (maimed.status, whole, lost) == (1, "failed", [True, True])


def test_what_a_killed_agent_had_measured_is_kept(maimed: Maimed):
    assert maimed.kept == ["client2.snmp"]


def test_settings_of_a_killed_agent_are_put_back_before_they_are_made_again(maimed: Maimed):
    count = len(maimed.settings) // 2
    first, again = maimed.settings[:count], maimed.settings[count:]
    assert [hostsettings.read(each["setting"]).target for each in first] == [
        "link switch mtu", "link switch", "link from switch", "route to server1", "command linger",
    ]  # fmt: skip
    same = ("setting", "before", "after")
    assert [[one[key] for key in same] for one in again] == [
        [one[key] for key in same] for one in first
    ]
    assert {one["why"].partition(":")[0] for one in again} == {"agent lost"}


def test_a_run_with_a_killed_agent_leaves_nothing(maimed: Maimed):
    assert maimed.left == []


@pytest.fixture(scope="module")
def foreign(place: Place, maimed: Maimed) -> Iterator[Foreign]:
    """What is somebody else's, from when the first run has left nothing."""
    with foreign_in(place) as foreign:
        yield foreign


# ---- the guest -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Crashed:
    """A run whose guest was killed in its second experiment."""

    status: int
    told: str
    left: list[object]
    lost: list[object]
    statuses: list[str]
    experiments: list[str]


@pytest.fixture(scope="module")
def crashed(place: Place, maimed: Maimed, foreign: Foreign) -> Crashed:
    with place.running(SCRIPT, SECOND_FLOWS) as run:
        made = made_by(run.pid, place)
        os.kill(guest_pid(run.pid, place), signal.SIGKILL)
        status = run.wait(PATIENCE_S)
    told = place.output.read_text()
    statuses = place.statuses[len(maimed.statuses) :]
    return Crashed(status, told, made.remaining, foreign.lost, statuses, place.experiments)


@pytest.mark.parametrize("place", GUESTS, indirect=True)
def test_a_killed_guest_is_reported(crashed: Crashed):
    assert (crashed.status, "netesto: the guest kernel was killed (SIGKILL)" in crashed.told) == (
        3,
        True,
    )


@pytest.mark.parametrize("place", GUESTS, indirect=True)
def test_a_killed_guest_leaves_nothing(crashed: Crashed):
    assert (crashed.left, crashed.lost) == ([], [])


@pytest.mark.parametrize("place", GUESTS, indirect=True)
def test_a_killed_guest_loses_nothing_that_was_measured(crashed: Crashed):
    assert (crashed.statuses, crashed.experiments) == (["ok", "ok"], ["1", "2", "3.partial"])


# ---- the controller ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Orphaned:
    """A run that was killed in its second experiment, and the outcome of the next command: its
    status, what is left of the run, and what was lost of what is not ours. `statuses` and
    `experiments` are those of the run."""

    status: int
    left: list[object]
    lost: list[object]
    statuses: list[str]
    experiments: list[str]


def orphaned(place: Place, foreign: Foreign, script: str = "") -> Orphaned:
    """A killed run, and the outcome of `clean`, or of the run of a script."""
    rows, folders = len(place.statuses), place.experiments
    with place.running(SCRIPT, SECOND_FLOWS) as run:
        made = made_by(run.pid, place)
        os.kill(run.pid, signal.SIGKILL)
        run.wait(PATIENCE_S)
    statuses = place.statuses[rows:]
    experiments = [name for name in place.experiments if name not in folders]
    status = place.netesto(place.words(script) if script else command("clean"))
    return Orphaned(status, made.remaining, foreign.lost, statuses, experiments)


@pytest.fixture(scope="module")
def foreign_still(request: pytest.FixtureRequest, place: Place, foreign: Foreign) -> Foreign:
    """What is somebody else's, when the runs above are over."""
    if place.ground != "lab":
        request.getfixturevalue("crashed")
    return foreign


@pytest.fixture(scope="module")
def cleaned(place: Place, foreign_still: Foreign) -> Orphaned:
    return orphaned(place, foreign_still)


@pytest.fixture(scope="module")
def followed(place: Place, foreign_still: Foreign) -> Orphaned:
    return orphaned(place, foreign_still, NEXT_SCRIPT)


# In guests both do the same.
@pytest.mark.parametrize(
    "place",
    [pytest.param("sim", marks=[pytest.mark.sim, pytest.mark.thorough]), UML, LAB],
    indirect=True,
)
def test_clean_removes_what_a_killed_run_left(cleaned: Orphaned):
    assert (cleaned.status, cleaned.left, cleaned.lost) == (0, [], [])


def test_the_next_run_removes_what_a_killed_run_left(followed: Orphaned):
    assert (followed.status, followed.left) == (0, [])


def test_objects_of_others_that_resemble_those_of_a_run_stay(followed: Orphaned):
    assert followed.lost == []


def test_a_killed_run_keeps_what_it_had_measured(followed: Orphaned):
    whole, partial = followed.experiments
    assert (followed.statuses, partial) == (["ok", "ok"], f"{int(whole) + 1}.partial")


def test_every_run_goes_on_in_the_folder_of_those_before(
    place: Place, maimed: Maimed, followed: Orphaned
):
    assert set(place.statuses[len(maimed.statuses) :]) == {"ok"}
