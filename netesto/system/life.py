"""Whether a process is alive, known by the lock that it holds and not by its PID; and how to end
it.

A PID is different in another PID namespace, and a container may share the folder. The kernel
releases a lock when its process ends, however it ends, and everybody who can open the file sees the
lock. Programs that the process starts do not inherit it. Other machines see the lock if the file
system supports locks: NFS does, unless it is mounted with `nolock` or `local_lock`.
"""

import contextlib
import fcntl
import os
import pwd
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from netesto.errors import LabError
from netesto.system import proc, process
from netesto.text.printable import printable

# `is_held` takes the lock for an instant.
LOOK_S = 5.0

# A lock that is held, not one that is waited for (proc_locks(5)): the process, and the file by its
# device and inode.
_HELD = re.compile(r"\d+: FLOCK .* (\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) 0 EOF")


@contextlib.contextmanager
def held(path: Path, *, timeout: float = LOOK_S) -> Iterator[None]:
    """Hold the lock of the file `path`, which is created if necessary, while the body runs.

    LabError if another process still has it after `timeout` seconds, or the file cannot be locked.
    """
    taken: list[int] = []

    def is_taken() -> bool:
        lock = take(path)
        taken.extend(() if lock is None else (lock,))
        return bool(taken)

    if not process.wait_until(is_taken, timeout=timeout):
        raise LabError(f"{path}: {holder(path)} has had this lock for {timeout:g} s")
    try:
        yield
    finally:
        os.close(taken[0])


def take(path: Path) -> int | None:
    """Lock a file, which is created if necessary; a descriptor to close. None if another process or
    user has it, or the file was removed meanwhile. LabError if it cannot be locked."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error
    with contextlib.suppress(PermissionError):
        os.fchmod(lock, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file that we opened may have been removed by the process that had its lock.
        if os.path.samestat(os.fstat(lock), path.stat(follow_symlinks=False)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(lock)
        raise LabError(
            f"{path}: cannot be locked: {error.strerror}",
            remedy="Its file system must support locks; TMPDIR names another temporary folder.",
        ) from error
    os.close(lock)
    return None


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of this file; False if the file does not exist."""
    if not path.exists():
        return False
    lock = take(path)
    if lock is not None:
        os.close(lock)
    return lock is None and path.exists()


def holder(path: Path) -> str:
    """Who has the lock of a file, for people, as far as the kernel says it: a process of another
    PID namespace has no number here, and some file systems report another device (btrfs)."""
    try:
        state = path.stat()
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return "another process"
    for found in filter(None, map(_HELD.fullmatch, lines)):
        device = os.makedev(int(found[2], 16), int(found[3], 16))
        if (device, int(found[4])) == (state.st_dev, state.st_ino):
            return described(int(found[1]))
    return "another process"


def described(pid: int) -> str:
    """A process for people: its number, name and user, and whether it is stopped."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return f"process {pid}"
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    stopped = ", which is stopped," if proc.is_stopped(pid) else ""
    return f"process {pid} ({printable(name)}) of user {user}{stopped}"


def end_processes(pids: Iterable[int], *, grace_s: float) -> None:
    """End processes, which need not be our children: SIGTERM, after `grace_s` SIGKILL. LabError if
    one survives."""
    surviving = proc.end(pids, grace_s=grace_s).surviving
    if surviving:
        raise LabError(f"processes that do not end: {', '.join(map(str, surviving))}")
