import os

from netesto import process
from netesto.lab import owned


def test_folder_is_private_and_gone_afterwards(tmp_path):
    with owned.folder(tmp_path) as folder:
        mode = folder.stat().st_mode & 0o777
    assert (mode, folder.exists()) == (0o700, False)


def test_folder_of_a_running_process_is_not_abandoned(tmp_path):
    with owned.folder(tmp_path):
        assert owned.abandoned(tmp_path) == []


def test_folder_of_a_process_that_is_gone_is_removed(tmp_path):
    left = tmp_path / f"{owned.PREFIX}{os.getpid()}-1-left"
    left.mkdir()
    assert (owned.remove_abandoned(tmp_path), left.exists()) == ([left], False)


def test_a_process_that_works_in_an_abandoned_folder_is_ended(tmp_path):
    left = tmp_path / f"{owned.PREFIX}{os.getpid()}-1-left"
    left.mkdir()
    sleep = ["sh", "-c", "trap '' TERM; sleep 600"]
    with (
        process.background(sleep, stdout=tmp_path / "inside", cwd=left) as inside,
        process.background(["sleep", "600"], stdout=tmp_path / "beside", cwd=tmp_path) as beside,
    ):
        owned.remove_abandoned(tmp_path)
        assert (inside.wait(10), beside.poll(), left.exists()) == (-9, None, False)


def test_what_is_not_ours_stays(tmp_path):
    other = tmp_path / "netesto-running-shoes"
    other.mkdir()
    assert (owned.remove_abandoned(tmp_path), other.is_dir()) == ([], True)


def test_a_process_that_does_not_run_has_no_start():
    assert owned.start_ticks(2**22 + 1) is None
