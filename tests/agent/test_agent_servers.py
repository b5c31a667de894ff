"""Lasting servers and their ports."""

import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_values import ShellTool

from netesto.agent.servers import Servers
from netesto.errors import AgentError
from netesto.traffic.ports import PortRange


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingServer(ShellTool):
    lasting_server: bool = True

    def server_command(self, port: int) -> list[str]:
        return ["sh", "-c", f"echo no luck at {port}; exit 1"]


async def test_a_server_that_does_not_start_keeps_no_port(tmp_path: Path):
    ports = PortRange(count=1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        tool = FailingServer(server_port=other.getsockname()[1])
        with pytest.raises(AgentError, match="no luck at 12900"):
            await Servers(ports, folder=tmp_path).ensure(tool)
    assert ports.take(1) == (12900,)
