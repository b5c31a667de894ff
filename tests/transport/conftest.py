"""One service, carried by every transport: in memory, over a Unix socket, over TCP."""

import asyncio
import inspect
from pathlib import Path

import pytest
from transport_wires import Wire, in_memory, serving


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
        return in_memory
    address = f"unix:{tmp_path}/agent.sock" if request.param == "unix" else "127.0.0.1:0"
    return lambda service: serving(service, address)
