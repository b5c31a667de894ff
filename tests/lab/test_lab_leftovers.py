"""The leftovers of a killed lab are removed, and nothing else."""

import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import inside
from typed import returned

from netesto import life, process
from netesto.lab import leftovers, netns, records


@pytest.mark.lab
def test_a_killed_lab_is_removed_by_its_record(state: Path, hold, left_of):
    holder = hold()
    record = records.read_all(state)[0]
    # What starts it must first enter the namespace.
    process.wait_until(lambda: inside(record.namespaces) != [], timeout=20)
    [sleeper] = inside(record.namespaces)
    holder.kill()
    holder.wait(10)
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
    holder.wait(10)
    leftovers.clean(state)
    assert leftovers.clean(state) == []


@pytest.mark.lab
def test_two_that_clean_do_not_meet(state: Path, hold):
    holder = hold()
    [record] = records.read_all(state)
    # What it starts must first enter the namespace, or there is less to remove.
    assert process.wait_until(lambda: inside(record.namespaces) != [], timeout=20)
    holder.kill()
    holder.wait(10)
    descriptor = os.open(state, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as other:
        cleaning = other.submit(leftovers.clean, state)
        waits = process.wait_until(lambda: is_waited_for(state), timeout=20)
        left_meanwhile = len(records.read_all(state))
        os.close(descriptor)
        removed = cleaning.result(60)
    assert (waits, left_meanwhile, len(removed)) == (True, 1, 4)


def is_waited_for(folder: Path) -> bool:
    """True if a process waits for a lock on the folder (proc_locks(5))."""
    number = f":{folder.stat().st_ino} "
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and number in line for line in lines)


@pytest.mark.lab
def test_cleaning_leaves_a_living_lab_alone(state: Path, hold, raise_lab, left_of):
    living = raise_lab("pair")
    holder = hold()
    holder.kill()
    holder.wait(10)
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
        lab.exec("a", [sys.executable, "-c", JOURNAL, str(folder), str(changed)], timeout=20)
    assert changed.read_text() == "as before"


JOURNAL = """
import sys
from pathlib import Path
from netesto.agent.journal import Journal, Write
Journal(Path(sys.argv[1], "journal")).begin("a change", [Write(sys.argv[2], "as before")])
"""


def test_a_process_that_ignores_a_polite_end_is_ended_all_the_same():
    argv = ["sh", "-c", "trap '' TERM; echo ready; exec sleep 600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        life.end_processes([stubborn.pid], grace_s=0.05)
        assert stubborn.wait(5) == -signal.SIGKILL


def test_a_process_that_is_gone_already_is_no_harm():
    with subprocess.Popen(["true"]) as child:
        child.wait(5)
    assert returned(lambda: life.end_processes([child.pid], grace_s=0.05)) is None
