"""What a killed lab leaves, and that it alone is removed."""

import signal
import subprocess
from pathlib import Path

import pytest

from netesto.lab import leftovers, records, teardown


@pytest.mark.lab
def test_a_killed_lab_is_removed_by_its_record(state: Path, hold, left_of):
    holder = hold()
    record = records.read_all(state)[0]
    [sleeper] = teardown.processes_inside(record.namespaces)
    holder.kill()
    holder.wait(10)
    assert leftovers.clean(state) == [
        f"lab {record.lab}: process {sleeper}",
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
def test_cleaning_leaves_a_living_lab_alone(state: Path, hold, raise_lab, left_of):
    living = raise_lab("pair")
    holder = hold()
    holder.kill()
    holder.wait(10)
    leftovers.clean(state)
    assert left_of(living.record) == list(living.record.namespaces)


def test_a_process_that_ignores_a_polite_end_is_ended_all_the_same():
    argv = ["sh", "-c", "trap '' TERM; echo ready; exec sleep 600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as stubborn:
        stubborn.stdout.readline()
        teardown.end_processes([stubborn.pid], grace_s=0.05)
        assert stubborn.wait(5) == -signal.SIGKILL


def test_a_process_that_is_gone_already_is_no_harm():
    with subprocess.Popen(["true"]) as child:
        child.wait(5)
    assert teardown.end_processes([child.pid], grace_s=0.05) is None
