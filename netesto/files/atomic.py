"""Atomic replacement of files: a reader sees either the old content or the new. Imports nothing
from netesto."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replaced(path: Path, *, lasting: bool = False) -> Iterator[BinaryIO]:
    """A file to write; it replaces `path` if the body succeeds, and is removed otherwise.
    `lasting`: the new content survives a power failure. All writers use one temporary name, so that
    the next one overwrites the file of a killed one.
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
    """`replaced` for a path from the user: the target of a symbolic link is replaced, and a pipe or
    device gets the bytes."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        with replaced(path.resolve()) as file:
            yield file


def replace(path: Path, text: str | Iterable[str], *, lasting: bool = False) -> None:
    """`replaced` with `text`, or its parts, in UTF-8."""
    with replaced(path, lasting=lasting) as file:
        file.writelines(part.encode() for part in ([text] if isinstance(text, str) else text))


def sync_folder(folder: Path) -> None:
    """Make a new or renamed entry of `folder` survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
