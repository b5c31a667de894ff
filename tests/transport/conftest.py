"""One service, carried by every transport: in memory, over a Unix socket."""

from pathlib import Path

import pytest
from transport_wires import Wire, in_memory, serving

from netesto.transport.addresses import UnixAddress


@pytest.fixture(params=["memory", "unix"])
def wire(request: pytest.FixtureRequest, tmp_path: Path) -> Wire:
    """Serves a service; each connection is that of another controller to host h1."""
    if request.param == "memory":
        return in_memory
    return lambda service: serving(service, UnixAddress(tmp_path / "agent.sock"))
