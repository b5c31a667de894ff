"""One service, carried by every transport: in memory, over a Unix socket, over TCP."""

from pathlib import Path

import pytest
from transport_wires import Wire, in_memory, serving


@pytest.fixture(params=["memory", "unix", "tcp"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Wire:
    """Serves a service; each connection is that of another controller to host h1."""
    if request.param == "memory":
        return in_memory
    address = f"unix:{tmp_path}/agent.sock" if request.param == "unix" else "127.0.0.1:0"
    return lambda service: serving(service, address)
