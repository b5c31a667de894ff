"""One service, carried by every transport: in memory, over a Unix socket, over TCP."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from recording_service import RecordingService

from netesto.transport import addresses
from netesto.transport.base import Agent
from netesto.transport.client import connect
from netesto.transport.gate import Gate
from netesto.transport.memory import MemoryAgent
from netesto.transport.server import AgentServer

Connect: TypeAlias = Callable[[], Awaitable[Agent]]
Wire: TypeAlias = Callable[[RecordingService], contextlib.AbstractAsyncContextManager[Connect]]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(params=["memory", "unix", "tcp"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Wire:
    """Serves a service; each connection is that of another controller to host h1."""
    if request.param == "memory":
        return _in_memory
    address = f"unix:{tmp_path}/agent.sock" if request.param == "unix" else "127.0.0.1:0"
    return lambda service: serving(service, address)


@contextlib.asynccontextmanager
async def _in_memory(service: RecordingService) -> AsyncIterator[Connect]:
    gate = Gate(service)

    async def connect_to() -> Agent:
        return MemoryAgent(gate, host="h1")

    yield connect_to


@contextlib.asynccontextmanager
async def serving(service: RecordingService, address: str) -> AsyncIterator[Connect]:
    server = AgentServer(Gate(service))
    reached = server.listen(addresses.parse(address))
    await server.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)

        async def connect_to() -> Agent:
            return await stack.enter_async_context(
                await connect(str(reached), host="h1", timeout=5)
            )

        yield connect_to
