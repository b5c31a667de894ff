import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from recording_service import RecordingService
from transport_wires import Wire, in_memory

from netesto.errors import AgentError, ResultsError
from netesto.model import FileEntry, FilePiece
from netesto.system import process
from netesto.transport import files
from netesto.transport.base import Agent
from netesto.transport.files import ship

FILES = {"flow.1.1.out": b"MIGRATED", "0/h1.snmp": b"Ip: 1\n", "empty": b""}


def entry(path: str, content: bytes, *, announced: bytes | None = None) -> FileEntry:
    """An agent's description of a file; with `announced`, of another content."""
    told = content if announced is None else announced
    return FileEntry(path, len(told), hashlib.sha256(told).hexdigest())


def everything_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@asynccontextmanager
async def held_agent(wire: Wire, service: RecordingService):
    async with AsyncExitStack() as stack:
        connect = await stack.enter_async_context(wire(service))
        agent = await connect()
        events = agent.hold("ann", "run")
        stack.push_async_callback(events.aclose)
        await anext(events)
        yield agent


async def fetch(agent: Agent, destination: Callable[[FileEntry], Path]) -> dict[str, str]:
    announced = (await agent.finish(3)).files
    return await ship(agent, 3, announced, destination, host="h1")


async def test_files_arrive_whole_in_their_places(wire: Wire, tmp_path: Path):
    async with held_agent(wire, RecordingService(files_by_path=FILES)) as agent:
        await fetch(agent, lambda entry: tmp_path / "raw" / entry.path)
    assert everything_below(tmp_path / "raw") == FILES


async def test_a_host_that_sends_a_byte_at_a_time_is_given_up(tmp_path: Path, monkeypatch):
    """However large the file is that it announced."""
    monkeypatch.setattr(files, "PATIENCE_S", 0.05)
    monkeypatch.setattr(files, "LEAST_BYTES_PER_S", 10**9)

    class Dripping(RecordingService):
        async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
            while True:
                yield FilePiece(paths[0], b"x")
                await asyncio.sleep(0)

    announced = FileEntry("large", 10**8, "0" * 64)
    with pytest.raises(AgentError) as caught:
        await ship(Dripping(), 3, [announced], lambda _: tmp_path / "large", host="h1")
    assert caught.value.message == "h1: sends its files too slowly"


async def test_files_that_came_with_their_list_are_not_fetched(wire: Wire, tmp_path: Path):
    content = tuple(FilePiece(path, content) for path, content in FILES.items() if content)
    service = RecordingService(files_by_path=FILES, content=content)
    async with held_agent(wire, service) as agent:
        finished = await agent.finish(3)
        service.files_by_path = {}
        await ship(
            *(agent, 3, finished.files, lambda entry: tmp_path / entry.path),
            content=finished.content,
        )
    assert everything_below(tmp_path) == FILES


async def test_damaged_file_that_came_with_its_list_is_named(wire: Wire, tmp_path: Path):
    async with held_agent(wire, RecordingService()) as agent:
        with pytest.raises(AgentError) as caught:
            await ship(
                *(agent, 3, [entry("cpu.jsonl", b"content")], lambda entry: tmp_path / entry.path),
                host="h1",
                content=[FilePiece("cpu.jsonl", b"CONTENT")],
            )
    assert (str(caught.value), everything_below(tmp_path)) == (
        "h1: cpu.jsonl: damaged on arrival (its SHA-256 differs)",
        {},
    )


async def test_hashes_are_reported_by_path(wire: Wire, tmp_path: Path):
    async with held_agent(wire, RecordingService(files_by_path=FILES)) as agent:
        hashes = await fetch(agent, lambda entry: tmp_path / entry.path)
    assert hashes == {path: hashlib.sha256(content).hexdigest() for path, content in FILES.items()}


async def test_damaged_file_is_named_and_not_kept(wire: Wire, tmp_path: Path):
    liar = RecordingService(
        files_by_path={"cpu.jsonl": b"content"},
        announced=[entry("cpu.jsonl", b"content", announced=b"CONTENT")],
    )
    async with held_agent(wire, liar) as agent:
        with pytest.raises(AgentError) as caught:
            await fetch(agent, lambda entry: tmp_path / "raw" / entry.path)
    assert (str(caught.value), everything_below(tmp_path / "raw")) == (
        "h1: cpu.jsonl: damaged on arrival (its SHA-256 differs)",
        {},
    )


async def test_files_that_came_are_reported_also_if_a_later_one_does_not(
    wire: Wire, tmp_path: Path
):
    told: list[str] = []
    liar = RecordingService(
        files_by_path={"a": b"first", "b": b"content"},
        announced=[entry("a", b"first"), entry("b", b"content", announced=b"CONTENT")],
    )
    async with held_agent(wire, liar) as agent:
        with pytest.raises(AgentError):
            await ship(
                agent,
                3,
                (await agent.finish(3)).files,
                lambda entry: tmp_path / entry.path,
                on_arrival=lambda entry, _: told.append(entry.path),
            )
    assert told == ["a"]


async def test_short_file_is_named_and_not_kept(wire: Wire, tmp_path: Path):
    liar = RecordingService(
        files_by_path={"cpu.jsonl": b"content"},
        announced=[entry("cpu.jsonl", b"content", announced=b"content and more")],
    )
    async with held_agent(wire, liar) as agent:
        with pytest.raises(AgentError) as caught:
            await fetch(agent, lambda entry: tmp_path / "raw" / entry.path)
    assert (str(caught.value), everything_below(tmp_path / "raw")) == (
        "h1: cpu.jsonl: 7 of 16 bytes arrived",
        {},
    )


class Forgetful(RecordingService):
    """Sends the last file alone."""

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        async for piece in super().fetch(exp, paths[-1:]):
            yield piece


async def test_file_that_never_comes_is_named(wire: Wire, tmp_path: Path):
    async with held_agent(wire, Forgetful(files_by_path={"a": b"first", "b": b"last"})) as agent:
        with pytest.raises(AgentError) as caught:
            await fetch(agent, lambda entry: tmp_path / "raw" / entry.path)
    assert (str(caught.value), everything_below(tmp_path / "raw")) == (
        "h1: a: 0 of 5 bytes arrived",
        {},
    )


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside", ""])
async def test_agent_cannot_choose_a_place_outside(path: str, wire: Wire, tmp_path: Path):
    liar = RecordingService(announced=[entry(path, b"")])
    async with held_agent(wire, liar) as agent:
        with pytest.raises(AgentError, match="announces a file outside the experiment"):
            await fetch(agent, lambda entry: tmp_path / entry.path)


async def test_place_that_cannot_be_written_is_the_results_fault(wire: Wire, tmp_path: Path):
    (tmp_path / "raw").write_text("a file where a folder should be")
    async with held_agent(wire, RecordingService(files_by_path={"a": b"content"})) as agent:
        with pytest.raises(ResultsError) as caught:
            await fetch(agent, lambda entry: tmp_path / "raw" / entry.path)
    assert str(caught.value) == f"{tmp_path}/raw/a: File exists"


def names(*paths: str) -> list[FileEntry]:
    empty = entry("", b"")
    return [FileEntry(path, empty.size, empty.sha256) for path in paths]


# What an agent announces that no agent of ours would, and what is told.
ANNOUNCED = {
    "a file that is a folder": (names("a", "a/b"), "announces a file that is also a folder: 'a'"),
    "a file twice": (names("a/b", "a//b"), "announces a file twice: 'a//b'"),
    "an escape": (names("a\x1b[2J"), r"announces a file with an invalid name: 'a\x1b[2J'"),
    "a line end": (names("a\nb"), r"announces a file with an invalid name: 'a\nb'"),
    "a long name": (
        names("a" * 300),
        f"announces a file with an invalid name: {'a' * 255!r}",
    ),
    "deep folders": (names("a/b/c/d/e"), "announces a file with an invalid name: 'a/b/c/d/e'"),
    "too many files": (
        names(*map(str, range(files.FILES_MAX + 1))),
        "announces 100001 files; an experiment has at most 100000",
    ),
}


@pytest.mark.parametrize("trick", ANNOUNCED)
async def test_what_no_agent_of_ours_announces_is_refused(trick: str, tmp_path: Path):
    announced, told = ANNOUNCED[trick]
    liar = RecordingService(announced=announced)
    async with held_agent(in_memory, liar) as agent:
        with pytest.raises(AgentError) as caught:
            await fetch(agent, lambda entry: tmp_path / "raw" / entry.path)
    assert (str(caught.value), everything_below(tmp_path)) == (f"h1: {told}", {})


async def test_more_than_the_disk_has_room_for_is_not_begun(wire: Wire, tmp_path: Path):
    liar = RecordingService(announced=[FileEntry("a", 10**18, "")])
    async with held_agent(wire, liar) as agent:
        with pytest.raises(AgentError, match=r"^h1: has 1e\+06 TB of data; .* GB are free"):
            await fetch(agent, lambda entry: tmp_path / entry.path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    path = tmp_path / "disk"
    path.mkdir()
    process.run(["mount", "-t", "tmpfs", "-o", "size=1M", "small", str(path)], timeout=60)
    yield path
    process.run(["umount", str(path)], timeout=60)


async def test_a_small_disk_takes_what_leaves_its_share_free(small_disk: Path):
    async with held_agent(in_memory, RecordingService(files_by_path=FILES)) as agent:
        (small_disk / "other").write_bytes(b"o" * 900_000)
        assert (await fetch(agent, lambda entry: small_disk / entry.path)).keys() == FILES.keys()
        (small_disk / "other").write_bytes(b"o" * 1_000_000)
        with pytest.raises(ResultsError, match=r"^36.9 kB are free in .*; 52.4 kB must be\n"):
            await fetch(agent, lambda entry: small_disk / entry.path)


async def test_two_files_do_not_share_a_place(wire: Wire, tmp_path: Path):
    liar = RecordingService(announced=names("0/h1.sysctl", "0/other.sysctl"))
    async with held_agent(wire, liar) as agent:
        with pytest.raises(AgentError, match=r"^h1: announces two files for one place$"):
            await fetch(agent, lambda _: tmp_path / "0" / "h1.sysctl")


class Endless(RecordingService):
    """Announces a small file, and never stops sending it."""

    def __init__(self, piece: bytes) -> None:
        super().__init__(announced=[entry("a", b"content")])
        self.piece = piece

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        del exp, paths
        while True:
            yield FilePiece("a", self.piece)


async def test_fetching_stops_at_the_announced_size(wire: Wire, tmp_path: Path):
    async with held_agent(wire, Endless(b"x" * 1000)) as agent:
        with pytest.raises(AgentError) as caught:
            await fetch(agent, lambda entry: tmp_path / "raw" / entry.path)
    told = "h1: a: more than its 7 bytes arrived"
    assert (str(caught.value), everything_below(tmp_path)) == (told, {})


async def test_pieces_without_content_are_refused(wire: Wire, tmp_path: Path):
    async with held_agent(wire, Endless(b"")) as agent:
        with pytest.raises(AgentError, match=r"^h1: a: sends a piece without content$"):
            await fetch(agent, lambda entry: tmp_path / entry.path)
