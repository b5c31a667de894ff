"""The records of labs."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from netesto.errors import LabError
from netesto.lab import leftovers, records
from netesto.lab.netns import Lab
from netesto.lab.records import MEMORY_FOLDER as MEMORY
from netesto.lab.records import LabHost, Record
from netesto.system import life

RECORD = Record(
    lab="nt3f",
    topology="pair",
    owner=os.getpid(),
    namespaces=("nt3f-a", "nt3f-b"),
    sockets="/run/netesto/nt3f",
    files="/var/labs/nt3f",
    hosts={"a": LabHost("nt3f-a", "/run/netesto/nt3f/a", "b", ("10.0.1.1", "fd4e::1"))},
    places={"10.0.1.1": ("a", "b"), "10.0.1.2": ("b", "a")},
)


def test_a_record_is_read_back(tmp_path: Path):
    records.create(tmp_path, RECORD)
    assert records.read(tmp_path / "nt3f.json") == RECORD


def test_a_lab_that_stays_has_no_owner(tmp_path: Path):
    stays = replace(RECORD, owner=None)
    records.create(tmp_path, stays)
    assert records.read(tmp_path / "nt3f.json") == stays


def test_a_name_is_taken_once(tmp_path: Path):
    records.create(tmp_path, RECORD)
    with pytest.raises(LabError, match="a lab nt3f exists already"):
        records.create(tmp_path, replace(RECORD, topology="star"))
    assert records.read(tmp_path / "nt3f.json") == RECORD


def test_a_person_may_name_hosts_by_their_aliases(tmp_path: Path):
    hosts = {
        name: LabHost(f"nt3f-{name}", "", "b", (f"10.0.1.{number}",))
        for number, name in enumerate(("a", "b"), start=1)
    }
    named = {"10.4.2.2": "b", "10.0.1.1": "b"}
    lab = Lab(replace(RECORD, hosts=hosts, aliases=named, files=str(tmp_path / "x")), tmp_path)
    # 10.0.1.1 is an address of the lab itself.
    words = lab.shell("10.4.2.2", ["ping", "-c", "1", "10.4.2.2", "10.0.1.1", "10.4.2.3"])
    assert words[3] == "nt3f-b"
    assert words[5:] == ["-c", "1", "10.0.1.2", "10.0.1.1", "10.4.2.3"]


def test_nothing_but_the_record_is_left_in_the_folder(tmp_path: Path):
    records.create(tmp_path, RECORD)
    records.update(tmp_path, replace(RECORD, owner=None))
    assert [path.name for path in tmp_path.iterdir()] == ["nt3f.json"]


def test_files_of_a_lab_are_in_memory_if_its_record_is_on_a_disk(tmp_path: Path):
    if os.major(tmp_path.stat().st_dev) == 0 or os.major(MEMORY.stat().st_dev) != 0:
        pytest.skip("needs a temporary folder on a disk, and /dev/shm in memory")
    assert records.files_of(tmp_path / "labs", "nt3f") == MEMORY / "netesto-nt3f"


def test_files_of_a_lab_are_beside_a_record_in_memory():
    assert records.files_of(MEMORY / "labs", "nt3f") == MEMORY / "labs/nt3f"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to own a file as another user")
def test_files_of_another_user_are_not_those_of_a_lab(tmp_path: Path):
    os.chown(tmp_path, 65534, 65534)
    lab = Lab(replace(RECORD, files=str(tmp_path)), tmp_path)
    with pytest.raises(LabError, match="belongs to another user"), lab.scratch():
        pass


def test_a_lab_of_a_living_process_is_not_abandoned(tmp_path: Path):
    with records.living(tmp_path, RECORD.lab):
        assert not records.is_abandoned(tmp_path, RECORD)


def test_a_lab_of_a_dead_process_is_abandoned_whoever_has_its_number_now(tmp_path: Path):
    (tmp_path / f"{RECORD.lab}.lock").touch()
    assert records.is_abandoned(tmp_path, RECORD)


def test_a_record_without_a_lock_is_abandoned(tmp_path: Path):
    assert records.is_abandoned(tmp_path, RECORD)


def test_a_name_that_is_recorded_is_not_answered_for_anew(tmp_path: Path):
    records.create(tmp_path, RECORD)
    with pytest.raises(LabError, match="exists already"), records.living(tmp_path, RECORD.lab):
        records.create(tmp_path, RECORD)


def test_a_lab_that_was_never_recorded_leaves_no_lock(tmp_path: Path):
    with records.living(tmp_path, RECORD.lab):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_of_a_lab_that_was_never_recorded_is_removed(tmp_path: Path):
    for name in ("nt3f.lock", ".nt3f.draft"):
        (tmp_path / name).touch()
    leftovers.clean(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_lab_that_is_about_to_be_recorded_keeps_its_lock(tmp_path: Path):
    with records.living(tmp_path, RECORD.lab):
        leftovers.clean(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["nt3f.lock"]


def test_a_lab_that_may_stay_is_nobody_s(tmp_path: Path):
    with records.living(tmp_path, RECORD.lab):
        records.create(tmp_path, RECORD)
        lasting = records.let_stay(tmp_path, RECORD)
    assert (records.read_all(tmp_path), records.is_abandoned(tmp_path, lasting)) == (
        [replace(RECORD, owner=None)],
        False,
    )


def test_a_lab_that_stays_is_never_abandoned(tmp_path: Path):
    assert not records.is_abandoned(tmp_path, replace(RECORD, owner=None))


def test_a_file_that_is_no_record_is_named(tmp_path: Path):
    (tmp_path / "nt3f.json").write_text("{}")
    with pytest.raises(LabError, match=r"nt3f\.json: not the record of a lab"):
        records.read_all(tmp_path)


def test_a_record_of_a_newer_version_is_left_alone(tmp_path: Path):
    records.create(tmp_path, replace(RECORD, format=records.FORMAT + 1))
    with pytest.raises(LabError, match="written by another version"):
        records.read_all(tmp_path)


def test_fresh_names_are_not_recorded(tmp_path: Path):
    assert not records.path_of(tmp_path, records.fresh_id(tmp_path)).exists()


def test_no_folder_means_no_labs(tmp_path: Path):
    assert records.read_all(tmp_path / "none") == []


def test_cleaning_leaves_living_labs_and_those_that_stay(tmp_path: Path):
    records.create(tmp_path, RECORD)
    records.create(tmp_path, replace(RECORD, lab="nt40", owner=None))
    with life.held(tmp_path / "nt3f.lock"):
        assert leftovers.clean(tmp_path) == []
    assert [record.lab for record in records.read_all(tmp_path)] == ["nt3f", "nt40"]


def test_labs_in_a_folder_that_is_closed_to_a_user_are_not_theirs(tmp_path: Path):
    """A user without rights plans a lab for a user-mode kernel, and cleans, beside labs of root."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    (tmp_path / "labs").mkdir()
    records.create(tmp_path / "labs", RECORD)
    tmp_path.chmod(0o700)
    os.seteuid(65534)
    try:
        found = records.read_all(tmp_path / "labs")
        records.forget_unrecorded(tmp_path / "labs")
        name = records.fresh_id(tmp_path / "labs")
    finally:
        os.seteuid(0)
    assert (found, name[:2]) == ([], "nt")
