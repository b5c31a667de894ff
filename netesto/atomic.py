"""Replacing a file whole: a reader sees the old content or the new. Imports nothing of ours."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replaced(path: Path, *, lasting: bool = False) -> Iterator[BinaryIO]:
    """A file to write; it takes the place of `path` when the body ends well, else it is removed.

    `lasting`: the new content survives a power cut. One name for the drafts of all writers, so that
    the next one overwrites what a killed one left.
    """
    fresh = path.with_name(f".{path.name}.new")
    try:
        with fresh.open("wb") as file:
            yield file
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


@contextlib.contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """`replaced` for a path that a user names: a link stays a link, and its target is replaced; a
    pipe or a device gets the bytes."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        with replaced(path.resolve()) as file:
            yield file


def replace(path: Path, text: str, *, lasting: bool = False) -> None:
    """`replaced` with `text` in UTF-8."""
    with replaced(path, lasting=lasting) as file:
        file.write(text.encode())


def sync_folder(folder: Path) -> None:
    """Make a new or renamed entry of `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
