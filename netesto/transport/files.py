"""Bringing an experiment's files from a host: each arrives whole, or is not there."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from netesto.errors import AgentError, ResultsError
from netesto.model import FileEntry
from netesto.transport.base import Agent

# Files are mostly small: a few at once hide the round trips, more would only compete.
_AT_ONCE = 4


async def ship(
    agent: Agent, exp: int, destination: Callable[[FileEntry], Path], *, host: str = ""
) -> dict[str, str]:
    """Fetch all files of an experiment; SHA-256 (hex) by path.

    `destination` says where a file goes; its folder is made. Each file is written beside its place
    as `NAME.part`, compared in size and SHA-256 with what the agent announced, and renamed: a file
    that has its name is whole. The caller then tells the agent with `confirm`. AgentError names
    the file that differs; ResultsError if it cannot be written.
    """
    entries = await agent.files(exp)
    for entry in entries:
        _check_path(entry, host)
    places = {entry.path: destination(entry) for entry in entries}
    permits = asyncio.Semaphore(_AT_ONCE)

    async def bring(entry: FileEntry) -> None:
        async with permits:
            await _bring(agent, exp, entry, places[entry.path], host)

    try:
        async with asyncio.TaskGroup() as group:
            for entry in entries:
                group.create_task(bring(entry))
    except ExceptionGroup as errors:
        # Not `except*`: Python 3.11.2, Debian's, wraps again what is raised in it.
        known, others = errors.split((AgentError, ResultsError))
        if known is None or others is not None:
            raise
        raise known.exceptions[0] from None
    return {entry.path: entry.sha256 for entry in entries}


async def _bring(agent: Agent, exp: int, entry: FileEntry, place: Path, host: str) -> None:
    part = place.with_name(f"{place.name}.part")
    digest, size = hashlib.sha256(), 0
    with _writing(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                async with contextlib.aclosing(agent.fetch(exp, entry.path)) as pieces:
                    async for piece in pieces:
                        file.write(piece)
                        digest.update(piece)
                        size += len(piece)
            if size != entry.size:
                raise AgentError(f"{entry.path}: {size} bytes came of {entry.size}", host=host)
            if digest.hexdigest() != entry.sha256:
                raise AgentError(f"{entry.path}: arrived damaged (its SHA-256 differs)", host=host)
            part.rename(place)
        finally:
            part.unlink(missing_ok=True)


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
