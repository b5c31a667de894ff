"""Lasting servers and their ports."""

import asyncio
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_values import ShellTool, request

from netesto.agent.servers import Servers
from netesto.errors import AgentError
from netesto.traffic.ports import PortRange


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingServer(ShellTool):
    lasting_server: bool = True

    def server_command(self, port: int) -> list[str]:
        return ["sh", "-c", f"echo no luck at {port}; exit 1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningServer(ShellTool):
    lasting_server: bool = False

    def server_command(self, port: int) -> list[str]:
        return [sys.executable, "-c", LISTEN, str(port)]


# None of these ports is in a range that agents, or the kernel, take ports from: other tests use
# the same network, and might begin to listen on a port that was found free.
APART = 30_000 + os.getpid() % 2_000

# Who connects to it kills it.
LISTEN = """
import os, signal, socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    server.accept()
    os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_server_that_somebody_kills_is_reported_and_one_that_is_forgotten_is_not(
    tmp_path: Path,
):
    told: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
    servers = Servers(
        PortRange(APART, 2),
        folder=tmp_path,
        on_death=lambda text, _, group: told.put_nowait((group, text)),
    )
    groups = [request(group=group, tool="iperf3", instances=1) for group in (1, 2)]
    ports = [await servers.expect(each, ListeningServer(), folder=tmp_path) for each in groups]
    await servers.forget(groups[0].exp, 1)
    with socket.create_connection(("127.0.0.1", ports[1].control[0])):
        async with asyncio.timeout(60):
            found = await told.get()
    await servers.close()
    assert (found, told.empty()) == (
        (2, "the server of group 2, flow 1 (iperf3) was ended by SIGKILL"),
        True,
    )


async def test_a_server_that_does_not_start_keeps_no_port(tmp_path: Path):
    ports = PortRange(APART, 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        tool = FailingServer(server_port=other.getsockname()[1])
        with pytest.raises(AgentError, match=f"no luck at {APART}"):
            await Servers(ports, folder=tmp_path).ensure(tool)
    assert ports.take(1) == (APART,)
