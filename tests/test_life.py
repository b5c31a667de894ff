"""Locks that show which processes live."""

import os
import pwd
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import netesto
from netesto.errors import LabError
from netesto.system import life, proc, process


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may read; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="netesto-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_lock_is_held_as_long_as_its_holder_lives(lock):
    with life.held(lock):
        during = life.is_held(lock)
    assert (during, life.is_held(lock)) == (True, False)


def test_a_file_that_is_not_there_is_nobody_s(lock):
    assert (life.is_held(lock), lock.exists()) == (False, False)


def test_a_lock_is_taken_once(lock):
    with life.held(lock):
        assert life.take(lock) is None


def test_a_lock_is_not_inherited_by_a_program(lock):
    with life.held(lock):
        argv = ["sh", "-c", "ls -l /proc/self/fd"]
        assert str(lock) not in process.run(argv, timeout=60).stdout


def test_who_cannot_have_the_lock_is_reported_who_has_it(lock):
    with life.held(lock), pytest.raises(LabError) as caught, life.held(lock, timeout=0):
        pass
    me = life.described(os.getpid())
    assert (caught.value.message, me.startswith(f"process {os.getpid()} (")) == (
        f"{lock}: {me} has had this lock for 0 s",
        True,
    )


def test_a_lock_that_everybody_could_open_is_closed_to_others_when_it_is_taken(lock):
    lock.touch(mode=0o644)
    with life.held(lock):
        assert stat.filemode(lock.stat().st_mode) == "-rw-------"


def test_a_process_that_has_a_lock_and_is_stopped_is_described_so():
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        try:
            sleeper.send_signal(signal.SIGSTOP)
            assert process.wait_until(lambda: proc.is_stopped(sleeper.pid), timeout=60)
            user = pwd.getpwuid(os.getuid()).pw_name
            expected = f"process {sleeper.pid} (sleep) of user {user}, which is stopped,"
            assert life.described(sleeper.pid) == expected
        finally:
            sleeper.kill()


def test_a_link_in_a_lock_s_place_is_not_followed(lock, tmp_path):
    lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LabError, match="lock: "):
        life.take(lock)


@pytest.mark.skipif(os.geteuid() != 0, reason="root: it takes another user")
def test_another_user_leaves_a_lock_alone(open_folder):
    lock = open_folder / "lock"
    looks = "import sys, pathlib, netesto.system.life as life"
    looks += "; print(life.is_held(pathlib.Path(sys.argv[1])))"
    argv = [
        "setpriv",
        "--reuid=nobody",
        "--clear-groups",
        "/usr/bin/python3",
        "-c",
        looks,
        str(lock),
    ]
    lock.touch(mode=0o600)
    path = {**os.environ, "PYTHONPATH": str(Path(netesto.__file__).parent.parent)}
    looked = process.run(argv, timeout=60, env=path, check=False)
    if "ModuleNotFoundError" in looked.stderr:
        pytest.skip(f"user nobody cannot read this checkout: {looked.last_lines(1)}")
    assert looked.stdout == "True\n"
