"""Folders for the sockets of tunnels, which this user alone can enter."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "netesto-tunnel-"

# What ssh can be told without quoting, and leaves room for the name of a socket.
_PLAIN = re.compile(r"/[A-Za-z0-9_./-]{1,60}")

# A folder without an owner is removed when it is older: its owner may not have claimed it yet.
_CLAIMED_AFTER_S = 60.0


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for the body, with a short path. A process that was killed leaves its own, which the
    next one removes: the lock of a folder ends with its owner."""
    base = Path(tempfile.gettempdir())
    if _PLAIN.fullmatch(str(base)) is None:
        base = Path("/tmp")  # noqa: S108 - the folder in it is made by mkdtemp
    _sweep(base)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _sweep(base: Path) -> None:
    """Remove the folders of processes that were killed."""
    for folder in base.glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            # Another user's, or just removed.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(descriptor)
            is_old = time.time() - found.st_mtime > _CLAIMED_AFTER_S
            if found.st_uid == os.geteuid() and is_old:
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)
