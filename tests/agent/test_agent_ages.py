"""How old unfetched data is, whatever the system's time says."""

import json
import os
from pathlib import Path

import pytest

from netesto.agent.spool import Seen, Spool

BEFORE = Seen(written_ns=5, boot="a", at_s=100.0, age_s=40.0)


def test_a_run_ages_by_the_time_since_it_was_seen():
    assert Seen(5, "a", 130.0).after(BEFORE) == Seen(5, "a", 130.0, 70.0)


def test_a_run_that_is_seen_for_the_first_time_has_no_age():
    assert Seen(5, "a", 130.0).after(None) == Seen(5, "a", 130.0, 0.0)


def test_a_run_to_which_something_was_written_is_new():
    assert Seen(6, "a", 130.0).after(BEFORE) == Seen(6, "a", 130.0, 0.0)


def test_over_a_reboot_a_run_does_not_age():
    assert Seen(5, "b", 3000.0).after(BEFORE) == Seen(5, "b", 3000.0, 40.0)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """With a run that an agent has seen."""
    (tmp_path / "spool" / "run" / "1").mkdir(parents=True)
    found = Spool(tmp_path / "spool")
    assert found.remove_older(3600) == []
    return found


def test_dates_remove_no_run(tmp_path: Path):
    """As after a step of the system's time by decades."""
    spool = Spool(tmp_path / "spool")
    (tmp_path / "spool" / "run").mkdir(parents=True)
    os.utime(tmp_path / "spool" / "run", (1e9, 1e9))
    assert (spool.remove_older(3600), spool.remove_older(3600)) == ([], [])


def test_runs_that_nobody_fetched_in_time_are_removed(spool: Spool, tmp_path: Path):
    (tmp_path / "spool" / "new").mkdir()
    record = json.loads((tmp_path / "ages.json").read_text())
    record["run"]["age_s"] = 3601.0
    (tmp_path / "ages.json").write_text(json.dumps(record))
    assert (spool.remove_older(3600), spool.runs()) == (["run"], ["new"])


@pytest.mark.parametrize("text", ["", "[]", '{"run": 1}', '{"run": {"age_s": 1e9}}', "\0"])
def test_a_damaged_record_removes_nothing(text: str, spool: Spool, tmp_path: Path):
    (tmp_path / "ages.json").write_text(text)
    assert (spool.remove_older(3600), spool.runs()) == ([], ["run"])


def test_a_disk_that_cannot_be_written_keeps_no_agent_from_starting(spool: Spool, tmp_path: Path):
    (tmp_path / "ages.json").unlink()
    (tmp_path / "ages.json").mkdir()
    assert (spool.remove_older(3600), spool.runs()) == ([], ["run"])
