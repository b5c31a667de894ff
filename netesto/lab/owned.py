"""Folders that belong to a running process, and are recognised when it is gone.

Their name is the record: `netesto-running-PID-START-…`. One of this user whose process no longer
runs was left by a killed one, and only such a one is removed. So are the processes whose working
folder it is: a user-mode kernel consists of several, and some outlive the one that was started.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from netesto.lab import teardown

PREFIX = "netesto-running-"


@contextlib.contextmanager
def folder(base: Path) -> Iterator[Path]:
    """A new private folder in `base`, gone when the body ends."""
    pid = os.getpid()
    name = f"{PREFIX}{pid}-{start_ticks(pid)}-"
    path = Path(tempfile.mkdtemp(prefix=name, dir=base))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def start_ticks(pid: int) -> int | None:
    """When a process started, in ticks since the machine did; None if it does not run.

    It tells a process from a later one of the same number.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    # The name, in brackets, may hold anything; the 20th word after it is the start time.
    return int(stat.rpartition(")")[2].split()[19])


def abandoned(base: Path) -> list[Path]:
    """Folders in `base` that a killed process left behind."""
    return [path for path in sorted(base.glob(f"{PREFIX}*")) if _is_abandoned(path)]


def remove_abandoned(base: Path) -> list[Path]:
    """Remove what killed processes left in `base`; end what still works there. What was removed.

    LabError if a process outlives even SIGKILL.
    """
    left = abandoned(base)
    for path in left:
        # What ends last may have started another meanwhile.
        while working := _working_in(path):
            teardown.end_processes(working, grace_s=0)
        shutil.rmtree(path, ignore_errors=True)
    return left


def _working_in(folder: Path) -> list[int]:
    """The processes whose working folder this is, of those that may be looked at."""
    real = folder.resolve()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink() == real:
                    found.append(int(entry.name))
    return found


def _is_abandoned(path: Path) -> bool:
    named = re.fullmatch(rf"{PREFIX}(\d+)-(\d+)-.*", path.name)
    if named is None:
        return False
    try:
        is_ours = path.stat(follow_symlinks=False).st_uid == os.getuid()
    except FileNotFoundError:
        return False
    return is_ours and start_ticks(int(named[1])) != int(named[2])
