"""Fetch an experiment's files from a host: each arrives whole, or not at all."""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path, PurePosixPath

from netesto import atomic
from netesto.errors import AgentError, ResultsError
from netesto.model import FileEntry, FilePiece
from netesto.transport.base import Agent


async def ship(
    agent: Agent,
    exp: int,
    destination: Callable[[FileEntry], Path],
    *,
    host: str = "",
    on_arrival: Callable[[FileEntry], None] | None = None,
) -> dict[str, str]:
    """Fetch all files of an experiment; SHA-256 (hex) by path.

    `destination` gives the path of each; its folder is made. A file is written as `NAME.part`,
    compared in size and SHA-256 with what the agent announced, and renamed: a file with its name is
    whole. Then `on_arrival` is called. The caller confirms to the agent. AgentError names a file
    that differs; ResultsError if it cannot be written.
    """
    entries = await agent.files(exp)
    for entry in entries:
        _check_path(entry, host)
    # One call for all: most files are so small that a call for each would take longer.
    pieces = agent.fetch(exp, [entry.path for entry in entries])
    async with contextlib.aclosing(pieces):
        arriving = _Arriving(pieces)
        for entry in entries:
            await _write(arriving, entry, destination(entry), host)
            if on_arrival is not None:
                on_arrival(entry)
    return {entry.path: entry.sha256 for entry in entries}


class _Arriving:
    """The pieces of many files, one file after the other."""

    def __init__(self, pieces: AsyncIterator[FilePiece]) -> None:
        self._pieces = pieces
        self._next: FilePiece | None = None

    async def of(self, path: str) -> AsyncIterator[bytes]:
        """The pieces of `path`, if they are the next."""
        if self._next is None:
            self._next = await anext(self._pieces, None)
        while self._next is not None and self._next.path == path:
            yield self._next.content
            self._next = await anext(self._pieces, None)


async def _write(arriving: _Arriving, entry: FileEntry, place: Path, host: str) -> None:
    digest, size = hashlib.sha256(), 0
    with _writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic.replaced(place) as file:
            async for piece in arriving.of(entry.path):
                file.write(piece)
                digest.update(piece)
                size += len(piece)
            if size != entry.size:
                raise AgentError(f"{entry.path}: {size} of {entry.size} bytes arrived", host=host)
            if digest.hexdigest() != entry.sha256:
                raise AgentError(
                    f"{entry.path}: damaged on arrival (its SHA-256 differs)", host=host
                )


def _check_path(entry: FileEntry, host: str) -> None:
    """An agent may not choose where on this machine its files go."""
    path = PurePosixPath(entry.path)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise AgentError(f"announces a file outside the experiment: {entry.path!r}", host=host)


@contextlib.contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{place}: {error.strerror}") from error
