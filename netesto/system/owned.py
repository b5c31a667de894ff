"""Folders that belong to a running process, and are recognised when it is gone.

    netesto-running-PID-XXXXXXXX/lock    held by the process while it lives (life)

The number is for people only. A folder of this user whose lock nobody holds was left by a killed
process; only such folders are removed, and the processes ended whose working folder it is: a
user-mode kernel consists of several, and some outlive the first one.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from netesto.errors import LabError
from netesto.system import life, proc

PREFIX = "netesto-running-"
LOCK = "lock"

# mkdtemp appends eight characters.
_NAME = re.compile(rf"{PREFIX}(\d+-)+[a-z0-9_]{{8}}")


# What ssh can be told without quoting, and leaves room for the name of a socket.
_PLAIN = re.compile(r"/[A-Za-z0-9_./-]{1,50}")


@contextlib.contextmanager
def folder(base: Path) -> Iterator[Path]:
    """A new private folder in `base`, gone when the body ends. First what killed processes left
    there is removed: LabError as of `remove_abandoned`."""
    remove_abandoned(base)
    path, lock = _claimed(base)
    try:
        yield path
    finally:
        # First the folder: anybody may remove one whose lock is free.
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def temporary_folder() -> contextlib.AbstractContextManager[Path]:
    """The same where temporary files are."""
    return folder(Path(tempfile.gettempdir()))


def folder_for_sockets() -> contextlib.AbstractContextManager[Path]:
    """The same with a short path, which ssh need not quote."""
    base = Path(tempfile.gettempdir())
    is_plain = _PLAIN.fullmatch(str(base)) is not None
    return folder(base if is_plain else Path("/tmp"))  # noqa: S108 - mkdtemp makes the folder in it


def _claimed(base: Path) -> tuple[Path, int]:
    """A new folder and its lock; another one if a process that cleans up took the first for a
    leftover before it was locked."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
        try:
            lock = life.take(path / LOCK)
        except LabError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        if lock is not None:
            return path, lock


def remove_abandoned(base: Path) -> list[Path]:
    """Remove what killed processes left in `base`, and end what still works there; the folders.

    LabError if a process outlives SIGKILL.
    """
    removed = []
    for path in _candidates(base):
        lock = life.take(path / LOCK)
        if lock is None:
            continue
        try:
            # A process may start another before it ends.
            while working := _working_in(path):
                life.end_processes(working, grace_s=0)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
        finally:
            os.close(lock)
    return removed


def _candidates(base: Path) -> list[Path]:
    """This user's folders with such a name."""
    found = []
    for path in sorted(base.glob(f"{PREFIX}*")):
        with contextlib.suppress(FileNotFoundError):
            is_ours = path.stat(follow_symlinks=False).st_uid == os.getuid()
            if is_ours and path.is_dir() and _NAME.fullmatch(path.name):
                found.append(path)
    return found


def _working_in(folder: Path) -> list[int]:
    """The processes whose working folder this is, as far as we may look."""
    real = folder.resolve()
    found = []
    for pid in proc.numbers():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cwd").readlink() == real:
                found.append(pid)
    return found
