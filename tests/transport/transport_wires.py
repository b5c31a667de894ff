"""Transports between a service and its callers."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from memory_agent import MemoryAgent
from recording_service import RecordingService

from netesto.model import Event
from netesto.transport.addresses import UnixAddress
from netesto.transport.base import Connection
from netesto.transport.client import connect
from netesto.transport.gate import Gate
from netesto.transport.server import AgentServer

Connect: TypeAlias = Callable[[], Awaitable[Connection]]
Wire: TypeAlias = Callable[[RecordingService], contextlib.AbstractAsyncContextManager[Connect]]


@contextlib.asynccontextmanager
async def held(
    agent: Connection, user: str = "ann", run: str = "run"
) -> AsyncIterator[AsyncGenerator[Event, None]]:
    """The agent is held while the body runs; the events after the first."""
    async with contextlib.aclosing(agent.hold(user, run)) as events:
        await anext(events)
        yield events


@contextlib.asynccontextmanager
async def in_memory(service: RecordingService) -> AsyncIterator[Connect]:
    gate = Gate(service)

    async def connect_to() -> Connection:
        return MemoryAgent(gate, host="h1")

    yield connect_to


@contextlib.asynccontextmanager
async def serving(service: RecordingService, address: UnixAddress) -> AsyncIterator[Connect]:
    server = AgentServer(Gate(service))
    server.listen(address)
    await server.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)

        async def connect_to() -> Connection:
            return await stack.enter_async_context(
                await connect(str(address), host="h1", timeout=60)
            )

        yield connect_to
