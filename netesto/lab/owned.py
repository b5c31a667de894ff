"""Folders that belong to a running process, and are recognised when it is gone.

    netesto-running-PID-XXXXXXXX/lock    held by the process while it lives (lab.life)

The number is for people: it tells nothing. A folder of this user whose lock nobody holds was left
by a killed process, and only such a one is removed. So are the processes whose working folder it
is: a user-mode kernel consists of several, and some outlive the one that was started.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from netesto import proc
from netesto.errors import LabError
from netesto.lab import life, teardown

PREFIX = "netesto-running-"
LOCK = "lock"

# What mkdtemp puts at the end of a name.
_RANDOM = "[a-z0-9_]{8}"

# Before there were locks, the name was the record: PID-START-….
_NAME = re.compile(rf"{PREFIX}(?P<pid>\d+)-(?:(?P<start_ticks>\d+)-)?{_RANDOM}")


@contextlib.contextmanager
def folder(base: Path) -> Iterator[Path]:
    """A new private folder in `base`, gone when the body ends."""
    path, lock = _claimed(base)
    try:
        yield path
    finally:
        # First the folder: one whose lock is free is anybody's to remove.
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _claimed(base: Path) -> tuple[Path, int]:
    """A new folder and its lock. Who cleans up may have come in between, and taken it for one that
    was left; then there is another."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))
        try:
            lock = life.take(path / LOCK)
        except LabError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        if lock is not None:
            return path, lock


def abandoned(base: Path) -> list[Path]:
    """Folders in `base` that a killed process left behind."""
    found = []
    for path in _candidates(base):
        with _dead(path) as is_dead:
            found += [path] if is_dead else []
    return found


def remove_abandoned(base: Path) -> list[Path]:
    """Remove what killed processes left in `base`; end what still works there. What was removed.

    LabError if a process outlives even SIGKILL.
    """
    removed = []
    for path in _candidates(base):
        with _dead(path) as is_dead:
            if not is_dead:
                continue
            # What ends last may have started another meanwhile.
            while working := _working_in(path):
                teardown.end_processes(working, grace_s=0)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def _candidates(base: Path) -> list[Path]:
    """This user's folders of such a name."""
    found = []
    for path in sorted(base.glob(f"{PREFIX}*")):
        with contextlib.suppress(FileNotFoundError):
            is_ours = path.stat(follow_symlinks=False).st_uid == os.getuid()
            if is_ours and path.is_dir() and _NAME.fullmatch(path.name):
                found.append(path)
    return found


@contextlib.contextmanager
def _dead(path: Path) -> Iterator[bool]:
    """Whether a folder's process is gone. Nobody else takes it for theirs while the body runs."""
    if not (path / LOCK).exists() and _has_older_owner(path):
        yield False
        return
    lock = life.take(path / LOCK)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _has_older_owner(path: Path) -> bool:
    """Whether a netesto made it that held no locks, and runs."""
    named = _NAME.fullmatch(path.name)
    if named is None or named["start_ticks"] is None:
        return False
    owner = proc.identity_of(int(named["pid"]))
    return owner is not None and owner.start_ticks == int(named["start_ticks"])


def _working_in(folder: Path) -> list[int]:
    """The processes whose working folder this is, of those that may be looked at."""
    real = folder.resolve()
    found = []
    for pid in proc.numbers():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cwd").readlink() == real:
                found.append(pid)
    return found
