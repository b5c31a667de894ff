"""Writing that is whole or did not happen, and says in words why it could not."""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from netesto import atomic
from netesto.errors import ResultsError

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
    """Turn what the system says while `path` is written into a ResultsError with a remedy."""
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"{path}: cannot write: {error.strerror or error}",
            remedy=_REMEDIES.get(error.errno or 0, ""),
        ) from error


def check_folder(path: Path) -> None:
    """ResultsError if a file is where this folder, or one above it, should be; nothing is made."""
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    if there.exists() and not there.is_dir():
        raise ResultsError(
            f"{path}: cannot write: {there} is a file", remedy=_REMEDIES[errno.ENOTDIR]
        )


def make_folder(path: Path) -> None:
    """Make a folder and those above it; one that exists is fine."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def replace(path: Path, text: str, *, lasting: bool = True) -> None:
    """Write `path` so that a reader sees the old content or the new.

    `lasting`: also after a power cut. What can be derived again need not wait for the disk.
    """
    with writing(path):
        atomic.replace(path, text, lasting=lasting)


def append(path: Path, text: str) -> None:
    """Add `text` to the end of `path` in one write; if it does not fit, the file is as before."""
    data = text.encode()
    with writing(path), path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            written = file.write(data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
            if size == 0:
                atomic.sync_folder(path.parent)
        except OSError:
            # What stopped the write is what the user must know, not that this failed too.
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise
