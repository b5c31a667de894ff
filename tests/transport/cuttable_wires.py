"""A service, and a connection to it that a test cuts and restores."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeAlias

from memory_agent import MemoryAgent
from recording_service import RecordingService

from netesto.transport.addresses import UnixAddress
from netesto.transport.client import AgentClient, connect
from netesto.transport.gate import Gate
from netesto.transport.server import AgentServer


class Wire(Protocol):
    def cut(self) -> None:
        """From now on nothing passes."""

    def mend(self) -> None:
        """From now on everything passes again."""


@dataclass
class Cuttable:
    """An agent, the gate behind it, and the connection between them."""

    agent: MemoryAgent | AgentClient
    gate: Gate
    wire: Wire


CuttableWire: TypeAlias = Callable[..., contextlib.AbstractAsyncContextManager[Cuttable]]


@contextlib.asynccontextmanager
async def in_memory(
    service: RecordingService, folder: Path, *, lease_s: float = 30.0, patience_s: float = 60.0
) -> AsyncIterator[Cuttable]:
    del folder
    gate = Gate(service, lease_s=lease_s)
    agent = MemoryAgent(gate, host="h1", patience_s=patience_s)
    yield Cuttable(agent, gate, agent)


@contextlib.asynccontextmanager
async def over_sockets(
    service: RecordingService, folder: Path, *, lease_s: float = 30.0, patience_s: float = 60.0
) -> AsyncIterator[Cuttable]:
    gate = Gate(service, lease_s=lease_s)
    server = AgentServer(gate)
    server.listen(UnixAddress(folder / "agent.sock"))
    await server.start()
    async with Relay(folder / "relay.sock", folder / "agent.sock") as relay:
        agent = await connect(
            f"unix:{folder}/relay.sock", host="h1", timeout=60, patience_s=patience_s
        )
        async with agent:
            yield Cuttable(agent, gate, relay)
        await server.stop()


class Relay(contextlib.AbstractAsyncContextManager["Relay"]):
    """Carries bytes between the socket `here` and the one `there`, in both directions."""

    def __init__(self, here: Path, there: Path) -> None:
        self._here, self._there = here, there
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self._here)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_unix_connection(self._there)
        self._writers.add(far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._tasks.add(asyncio.create_task(_copy(source, sink)))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()
