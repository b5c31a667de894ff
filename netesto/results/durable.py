"""Writes that are complete or have no effect, with a ResultsError that says why."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from netesto.errors import ResultsError
from netesto.files import atomic

_REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: "Make room on the disk, or choose another results folder with --out.",
    errno.EDQUOT: "Your disk quota is used up: make room, or choose another folder with --out.",
    errno.EACCES: "Choose a folder you may write to with --out.",
    errno.EPERM: "Choose a folder you may write to with --out.",
    errno.EROFS: "The file system is read-only; choose another results folder with --out.",
    errno.ENOTDIR: "A file is where a folder should be; choose another results folder with --out.",
    errno.EEXIST: "A file is where a folder should be; choose another results folder with --out.",
}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the system while `path` is written into a ResultsError with a remedy."""
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"{path}: cannot write: {error.strerror or error}",
            remedy=_REMEDIES.get(error.errno or 0, ""),
        ) from error


def check_folder(path: Path) -> None:
    """ResultsError if this path, or one above it, is a file; nothing is created."""
    existing = next((each for each in (path, *path.parents) if each.exists()), path)
    if existing.exists() and not existing.is_dir():
        raise ResultsError(
            f"{path}: cannot write: {existing} is a file", remedy=_REMEDIES[errno.ENOTDIR]
        )


def lock(path: Path) -> int:
    """An exclusive lock on a file, which is created if necessary, as a descriptor to close.
    BlockingIOError if another process holds it."""
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            raise BlockingIOError(error.errno, error.strerror) from None
        raise ResultsError(f"{path}: cannot be locked: {error.strerror}") from error
    return descriptor


def make_folder(path: Path) -> None:
    """Create a folder and its parents, unless they exist."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def replace(path: Path, text: str | Iterable[str], *, lasting: bool = True) -> None:
    """Write `path`, a text or its parts, so that a reader sees the old content or the new.

    `lasting`: also after a power failure. Derived files need not wait for the disk.
    """
    with writing(path):
        atomic.replace(path, text, lasting=lasting)


def append(path: Path, text: str, *, lasting: bool = True) -> None:
    """Add `text` to the end of `path` in one write; if it does not fit, the file is unchanged.
    `lasting`: as for `replace`."""
    data = text.encode()
    with writing(path), path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            written = file.write(data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if lasting:
                os.fsync(file.fileno())
            if lasting and size == 0:
                atomic.sync_folder(path.parent)
        except OSError:
            # The first error matters to the user, not this one.
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise
