"""Fetches an experiment's files from a host: each arrives completely or not at all.

Hosts are not trusted: their announcements and data are limited, far above the needs of any
experiment.
"""

import asyncio
import contextlib
import hashlib
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from netesto import units
from netesto.errors import AgentError, ResultsError
from netesto.files import atomic
from netesto.model import FileEntry, FilePiece
from netesto.transport.base import Agent

# An instance has four files, and a group at most 1000 instances.
FILES_MAX = 100_000
PATH_BYTES_MAX, DEPTH_MAX = 400, 4

# The limit of file systems.
NAME_BYTES_MAX = 255

# The space that stays free on the disk, and its share on a small disk.
DISK_RESERVE_BYTES, DISK_RESERVE_SHARE = 100_000_000, 0.05

# A host that has sent less on average is given up, at any time after the first minute.
LEAST_BYTES_PER_S, PATIENCE_S = 10_000, 60.0


async def ship(
    agent: Agent,
    exp: int,
    entries: Sequence[FileEntry],
    destination: Callable[[FileEntry], Path],
    *,
    host: str = "",
    content: Sequence[FilePiece] = (),
    on_arrival: Callable[[FileEntry, Path], None] = lambda _, __: None,
    lasting: bool = False,
) -> dict[str, str]:
    """Fetch the files `entries` of an experiment, or write their `content` if it came with them;
    SHA-256 (hex) by path.

    `destination` gives the path of each; its folder is made. A file is written beside its place,
    compared in size and SHA-256 with the announcement, and renamed: a file with its final name is
    complete, and if `lasting` also after a power failure. Then `on_arrival` is called. The caller
    confirms to the agent. AgentError names a file that differs or is implausible; ResultsError if
    it cannot be written.
    """
    check(entries, host)
    places = [destination(entry) for entry in entries]
    if len(set(places)) < len(places):
        raise AgentError("announces two files for one place", host=host)
    for folder, place in {place.parent: place for place in places}.items():
        with _writing(place):
            folder.mkdir(parents=True, exist_ok=True)
    total = sum(entry.size for entry in entries)
    if entries:
        _check_room(total, places[0], host)
    # One call for all, because most files are so small that separate calls would take longer.
    pieces = _as_stream(content) if content else agent.fetch(exp, [entry.path for entry in entries])
    try:
        async with contextlib.aclosing(pieces), asyncio.timeout(PATIENCE_S) as limit:
            arriving = _Arriving(pieces, host, limit)
            for entry, place in zip(entries, places, strict=True):
                await _write(arriving, entry, place, host, lasting=lasting)
                on_arrival(entry, place)
    except TimeoutError:
        raise AgentError("sends its files too slowly", host=host) from None
    return {entry.path: entry.sha256 for entry in entries}


async def _as_stream(content: Sequence[FilePiece]) -> AsyncGenerator[FilePiece, None]:
    for piece in content:
        yield piece


class _Arriving:
    """The pieces of many files, one file after the other."""

    def __init__(self, pieces: AsyncIterator[FilePiece], host: str, limit: asyncio.Timeout) -> None:
        self._pieces = pieces
        self._host = host
        self._next: FilePiece | None = None
        # What arrives gives more time for the rest.
        self._limit = limit

    async def of(self, path: str) -> AsyncIterator[bytes]:
        """The pieces of `path`, if they are the next."""
        if self._next is None:
            self._next = await anext(self._pieces, None)
        while self._next is not None and self._next.path == path:
            if not self._next.content:
                raise AgentError(f"{path}: sends a piece without content", host=self._host)
            yield self._next.content
            if (until_s := self._limit.when()) is not None:
                more_s = len(self._next.content) / LEAST_BYTES_PER_S
                self._limit.reschedule(until_s + more_s)
            self._next = await anext(self._pieces, None)


async def _write(
    arriving: _Arriving, entry: FileEntry, place: Path, host: str, *, lasting: bool
) -> None:
    digest, size = hashlib.sha256(), 0
    with _writing(place), atomic.replaced(place, lasting=lasting) as file:
        async for piece in arriving.of(entry.path):
            size += len(piece)
            if size > entry.size:
                raise AgentError(
                    f"{entry.path}: more than its {entry.size} bytes arrived", host=host
                )
            file.write(piece)
            digest.update(piece)
        if size != entry.size:
            raise AgentError(f"{entry.path}: {size} of {entry.size} bytes arrived", host=host)
        if digest.hexdigest() != entry.sha256:
            raise AgentError(f"{entry.path}: damaged on arrival (its SHA-256 differs)", host=host)


def check(entries: Sequence[FileEntry], host: str) -> None:
    """AgentError if an agent chooses where on this machine its files go, or announces too many."""
    if len(entries) > FILES_MAX:
        raise AgentError(
            f"announces {len(entries)} files; an experiment has at most {FILES_MAX}", host=host
        )
    # As their parts: comparing those takes a fifth of the time of comparing paths.
    paths: set[tuple[str, ...]] = set()
    folders: set[tuple[str, ...]] = set()
    for entry in entries:
        path = PurePosixPath(entry.path)
        # The repr of the name: without control characters, and of limited length.
        shown = f"{entry.path[:NAME_BYTES_MAX]!r}"
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise AgentError(f"announces a file outside the experiment: {shown}", host=host)
        if not _is_proper(entry.path, path):
            raise AgentError(f"announces a file with an invalid name: {shown}", host=host)
        if path.parts in paths:
            raise AgentError(f"announces a file twice: {shown}", host=host)
        paths.add(path.parts)
        folders.update(path.parts[:depth] for depth in range(1, len(path.parts)))
    for parts in sorted(paths & folders):
        raise AgentError(f"announces a file that is also a folder: {'/'.join(parts)!r}", host=host)


def _is_proper(text: str, path: PurePosixPath) -> bool:
    return (
        text.isprintable()
        and len(text.encode(errors="replace")) <= PATH_BYTES_MAX
        and len(path.parts) <= DEPTH_MAX
        and all(len(part.encode(errors="replace")) <= NAME_BYTES_MAX for part in path.parts)
    )


def _check_room(total: int, place: Path, host: str) -> None:
    with _writing(place):
        disk = shutil.disk_usage(place.parent)
    reserve = min(DISK_RESERVE_BYTES, round(disk.total * DISK_RESERVE_SHARE))
    free = f"{units.format_bytes(disk.free)} are free in {place.parent}"
    if disk.free < reserve:
        # Other experiments would fail in the same way.
        raise ResultsError(
            f"{free}; {units.format_bytes(reserve)} must be",
            remedy="Make room there, or choose another results folder with --out.",
        )
    if total + reserve > disk.free:
        raise AgentError(
            f"has {units.format_bytes(total)} of data; {free}, of which "
            f"{units.format_bytes(reserve)} must stay free",
            host=host,
            remedy="Make room there; the host keeps the data until it is fetched.",
        )


@contextlib.contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{place}: {error.strerror}") from error
