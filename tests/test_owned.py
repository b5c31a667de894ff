import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from netesto.system import owned, process

# A folder like that of a netesto which held no locks: named after a process that is gone.
OLDER = f"{owned.PREFIX}{os.getpid()}-1-left0000"

HOLDER = """
import sys, time
from pathlib import Path
from netesto.system import owned
with owned.folder(Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    time.sleep(600)
"""

LOOKER = """
import sys
from pathlib import Path
from netesto.system import owned
print(len(owned.remove_abandoned(Path(sys.argv[1]))))
"""


def apart(program: str, base: Path) -> list[str]:
    """A Python program, given a folder, in a PID namespace of its own."""
    apart = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if process.run([*apart, "true"], timeout=60, check=False).status != 0:
        pytest.skip("unshare: no PID namespace can be made here")
    return [*apart, sys.executable, "-c", program, str(base)]


@contextmanager
def holding(argv: list[str], said: Path) -> Iterator[tuple[Popen[bytes], Path]]:
    """A process that holds a folder, and the folder."""
    said.touch()
    ready = lambda: said.read_text().endswith("\n")  # noqa: E731
    with process.background(argv, stdout=said, ready=ready, timeout=60) as child:
        yield child, Path(said.read_text().strip())


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    return folder


def test_folder_is_private_and_gone_afterwards(tmp_path):
    with owned.folder(tmp_path) as folder:
        mode = folder.stat().st_mode & 0o777
    assert (mode, folder.exists()) == (0o700, False)


def test_folder_of_a_running_process_is_not_abandoned(tmp_path):
    with owned.folder(tmp_path):
        assert owned.remove_abandoned(tmp_path) == []


def test_folder_of_a_killed_process_is_removed(base, tmp_path):
    argv = [sys.executable, "-c", HOLDER, str(base)]
    with holding(argv, tmp_path / "said") as (child, folder):
        os.kill(child.pid, signal.SIGKILL)
        child.wait(60)
        assert (owned.remove_abandoned(base), list(base.iterdir())) == ([folder], [])


def test_folder_of_a_process_of_another_pid_namespace_stays(base, tmp_path):
    with holding(apart(HOLDER, base), tmp_path / "said") as (_, folder):
        assert (owned.remove_abandoned(base), folder.exists()) == ([], True)


def test_who_cleans_in_another_pid_namespace_removes_no_folder_in_use(base):
    with owned.folder(base) as folder:
        said = process.run(apart(LOOKER, base), timeout=60).stdout
        assert (said, folder.exists()) == ("0\n", True)


def test_a_program_that_a_killed_process_had_started_does_not_keep_its_folder(base, tmp_path):
    starts = HOLDER.replace("time.sleep(600)", "os.execvp('sh', ['sh', '-c', 'sleep 600'])")
    argv = [sys.executable, "-c", f"import os\n{starts}", str(base)]
    with holding(argv, tmp_path / "said") as (_, folder):
        gone = process.wait_until(lambda: owned.remove_abandoned(base) == [folder], timeout=60)
    assert gone


def test_a_folder_whose_maker_was_killed_before_it_had_the_lock_is_removed(base):
    left = base / f"{owned.PREFIX}{os.getpid()}-left0000"
    left.mkdir()
    assert (owned.remove_abandoned(base), left.exists()) == ([left], False)


def test_folder_that_an_older_netesto_left_is_removed(base):
    left = base / OLDER
    left.mkdir()
    assert (owned.remove_abandoned(base), left.exists()) == ([left], False)


def test_a_process_that_works_in_an_abandoned_folder_is_ended(tmp_path):
    left = tmp_path / OLDER
    left.mkdir()
    sleep = ["sh", "-c", "trap '' TERM; echo heedless; exec sleep 600"]
    said = tmp_path / "inside"
    heedless = lambda: said.read_text() != ""  # noqa: E731
    with (
        process.background(sleep, stdout=said, cwd=left, ready=heedless, timeout=60) as inside,
        process.background(["sleep", "600"], stdout=tmp_path / "beside", cwd=tmp_path) as beside,
    ):
        owned.remove_abandoned(tmp_path)
        assert (inside.wait(60), beside.poll(), left.exists()) == (-9, None, False)


def test_what_is_not_ours_stays(tmp_path):
    other = tmp_path / "netesto-running-shoes"
    other.mkdir()
    assert (owned.remove_abandoned(tmp_path), other.is_dir()) == ([], True)
