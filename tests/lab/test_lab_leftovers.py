"""The leftovers of a killed lab are removed, and nothing else."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import agents_of, inside, is_alive
from typed import returned

from netesto.errors import LabError
from netesto.lab import leftovers, netns, records
from netesto.system import life, process


@pytest.mark.lab
def test_a_killed_lab_is_removed_by_its_record(state: Path, hold, left_of):
    holder = hold()
    record = records.read_all(state)[0]
    # What starts it must first enter the namespace.
    process.wait_until(lambda: inside(record.namespaces) != [], timeout=60)
    [sleeper] = inside(record.namespaces)
    holder.kill()
    holder.wait(60)
    assert leftovers.clean(state) == [
        f"lab {record.lab}: process {sleeper.pid}",
        f"lab {record.lab}: namespace {record.lab}-a",
        f"lab {record.lab}: namespace {record.lab}-b",
        f"lab {record.lab}: its record",
    ]
    assert left_of(record) == []
    assert list(state.iterdir()) == []


@pytest.mark.lab
def test_cleaning_twice_finds_nothing_more(state: Path, hold):
    holder = hold()
    holder.kill()
    holder.wait(60)
    leftovers.clean(state)
    assert leftovers.clean(state) == []


@pytest.mark.lab
def test_two_that_clean_do_not_meet(state: Path, hold, monkeypatch):
    holder = hold()
    [record] = records.read_all(state)
    # What it starts must first enter the namespace, or there is less to remove.
    assert process.wait_until(lambda: inside(record.namespaces) != [], timeout=60)
    holder.kill()
    holder.wait(60)
    with ThreadPoolExecutor(1) as other:
        with life.held(state / leftovers.LOCK):
            looked = threading.Event()
            monkeypatch.setattr(life, "take", noting(life.take, looked))
            cleaning = other.submit(leftovers.clean, state)
            waits = looked.wait(60)
            left_meanwhile = len(records.read_all(state))
        removed = cleaning.result(60)
    assert (waits, left_meanwhile, len(removed)) == (True, 1, 4)


def noting(
    take: Callable[[Path], int | None], looked: threading.Event
) -> Callable[[Path], int | None]:
    """`life.take`, which notes that somebody could not have the lock of those who clean."""

    def taken(path: Path) -> int | None:
        found = take(path)
        if path.name == leftovers.LOCK and found is None:
            looked.set()
        return found

    return taken


@pytest.mark.lab
def test_one_that_cleans_and_hangs_is_named_after_a_time(state: Path, hold, monkeypatch):
    holder = hold()
    holder.kill()
    holder.wait(60)
    monkeypatch.setattr(leftovers, "OTHER_S", 0.0)
    lock = state / leftovers.LOCK
    me = life.described(os.getpid())
    with life.held(lock), pytest.raises(LabError) as caught:
        leftovers.clean(state)
    assert caught.value.message == f"{lock}: {me} has had this lock for 0 s"
    leftovers.clean(state)


@pytest.mark.lab
def test_agents_end_with_the_process_that_built_their_lab(state: Path, hold):
    holder = hold("agents")
    [record] = records.read_all(state)
    agents = agents_of(record)
    holder.kill()
    assert len(agents) == 1
    assert process.wait_until(lambda: not any(map(is_alive, agents)), timeout=60)
    holder.wait(60)
    leftovers.clean(state)


@pytest.mark.lab
def test_agents_end_with_the_process_that_they_were_forked_from(state: Path, hold):
    holder = hold("agents")
    [record] = records.read_all(state)
    agents = agents_of(record)
    [agent] = agents
    os.kill(agent.ppid(), signal.SIGKILL)
    assert process.wait_until(lambda: not any(map(is_alive, agents)), timeout=60)
    holder.kill()
    holder.wait(60)
    leftovers.clean(state)


@pytest.mark.lab
def test_agents_of_a_lab_that_stays_outlive_the_process_that_built_it(state: Path, planned):
    bring_up = "import pickle, sys; from pathlib import Path; from netesto.lab import netns; "
    bring_up += "netns.bring_up(pickle.load(sys.stdin.buffer), state=Path(sys.argv[1]))"
    wanted = planned("pair")
    subprocess.run(
        [sys.executable, "-c", bring_up, str(state)], input=pickle.dumps(wanted), check=True
    )
    lab = netns.attach(wanted.prefix, state=state)
    try:
        assert len(agents_of(lab.record)) == 1
    finally:
        netns.take_down(lab)


@pytest.mark.lab
def test_cleaning_leaves_a_living_lab_alone(state: Path, hold, raise_lab, left_of):
    living = raise_lab("pair")
    holder = hold()
    holder.kill()
    holder.wait(60)
    leftovers.clean(state)
    assert left_of(living.record) == list(living.record.namespaces)


@pytest.mark.lab
def test_what_a_killed_agent_changed_is_put_back(state: Path, planned, tmp_path: Path):
    changed = tmp_path / "changed"
    changed.write_text("by agents")
    with netns.up(planned("pair"), state=state, agents=False) as lab:
        folder = Path(lab.record.files, "a")
        folder.mkdir(parents=True)
        # Inside the namespace: a journal knows the one that its changes were made in.
        lab.exec("a", [sys.executable, "-c", JOURNAL, str(folder), str(changed)], timeout=60)
    assert changed.read_text() == "as before"


JOURNAL = """
import sys
from pathlib import Path
from netesto.agent.journal import Journal
from netesto.agent.steps import Write
from netesto.agent.things import KernelFile
from netesto.hostsettings import Sysctl
journal, changed = Journal(Path(sys.argv[1], "journal")), sys.argv[2]
journal.begin(Sysctl("a", "1"), KernelFile(changed), [Write(changed, "as before")])
"""


def test_a_process_that_ignores_a_polite_end_is_ended_all_the_same():
    argv = ["sh", "-c", "trap '' TERM; echo ready; exec sleep 600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        life.end_processes([stubborn.pid], grace_s=0.05)
        assert stubborn.wait(60) == -signal.SIGKILL


def test_a_process_that_is_gone_already_is_no_harm():
    with subprocess.Popen(["true"]) as child:
        child.wait(60)
    assert returned(lambda: life.end_processes([child.pid], grace_s=0.05)) is None
