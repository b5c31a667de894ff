"""Whether somebody still lives, told by a lock that the living hold; never by a process number.

A number means something else in another PID namespace, and a container may share the folder where
it stands. A lock is the kernel's: it ends with the process that holds it, however that ends, and
counts for all who reach the file. It is not inherited by programs that the process starts, so none
of them keeps up what is dead. On another machine it counts as far as the file system carries locks
there: NFS does, unless it is mounted with `nolock` or `local_lock`.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from netesto import process
from netesto.errors import LabError

# Who looks whether a lock is held has it for an instant.
LOOK_S = 5.0


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Live for as long as the body runs; `path`, a file made if need be, tells it.

    LabError if another has the lock, or none can be had there.
    """
    taken: list[int] = []

    def is_taken() -> bool:
        lock = take(path)
        taken.extend(() if lock is None else (lock,))
        return bool(taken)

    if not process.wait_until(is_taken, timeout=LOOK_S):
        raise LabError(f"{path}: another process has this lock")
    try:
        yield
    finally:
        os.close(taken[0])


def take(path: Path) -> int | None:
    """The lock of a file, made if need be, as a descriptor to close; None if another has it, also
    another user, or the file is gone meanwhile. LabError if no lock can be had there."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who removed the file before may have had the lock of the one that we opened.
        if os.path.samestat(os.fstat(lock), path.stat(follow_symlinks=False)):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(lock)
        raise LabError(
            f"{path}: cannot be locked: {error.strerror}",
            remedy="Its file system must know locks; TMPDIR names another temporary folder.",
        ) from error
    os.close(lock)
    return None


def is_held(path: Path) -> bool:
    """Whether somebody lives by this file; a file that is not there is nobody's."""
    if not path.exists():
        return False
    lock = take(path)
    if lock is not None:
        os.close(lock)
    return lock is None and path.exists()
