import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from recording_service import HELD, INFO, RecordingService
from transport_wires import held

from netesto.errors import AgentError, ConnectionLostError, UsageError
from netesto.model import Address, HostState
from netesto.transport.addresses import UnixAddress
from netesto.transport.client import connect
from netesto.transport.gate import Gate
from netesto.transport.server import AgentServer

# Nothing here takes long; the deadlines only keep a broken test from hanging.
DEADLINE_S = 60


class SlowService(RecordingService):
    """Never ends its examination."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = asyncio.Event()

    async def examine(self, peers: Sequence[Address], *, for_run: bool = False) -> HostState:
        self.is_asked.set()
        await asyncio.Event().wait()
        return await super().examine(peers, for_run=for_run)


def server_at(path: Path, service: RecordingService | None = None, *, lease_s: float = 30.0):
    """A server that is not started yet, and its address."""
    server = AgentServer(Gate(service or RecordingService(), lease_s=lease_s))
    server.listen(address := UnixAddress(path))
    return server, address


def names_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


async def test_agent_that_is_not_there_is_reported_with_its_address(tmp_path: Path):
    with pytest.raises(AgentError) as caught:
        await connect(f"unix:{tmp_path}/agent.sock", host="h1", timeout=DEADLINE_S)
    assert str(caught.value) == (
        f"h1: agent unreachable at unix:{tmp_path}/agent.sock: No such file or directory\n"
        f"Is it running there? netesto-agent --listen unix:{tmp_path}/agent.sock"
    )


async def test_refused_connection_is_reported_at_once(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/agent.sock")
    address = f"unix:{tmp_path}/agent.sock"
    with pytest.raises(AgentError, match=f"unreachable at {address}: Connection refused"):
        await asyncio.wait_for(connect(address, host="h1", timeout=1e6), DEADLINE_S)


async def test_silent_peer_is_given_up_at_the_deadline(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/agent.sock")
        silent.listen()
        with pytest.raises(AgentError, match=r"no answer within 0\.1 s"):
            await connect(f"unix:{tmp_path}/agent.sock", host="h1", timeout=0.1)


async def test_peer_that_ends_the_connection_is_reported(tmp_path: Path):
    """As stunnel does, if it refuses a certificate."""

    def end(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    address = f"unix:{tmp_path}/agent.sock"
    async with await asyncio.start_unix_server(end, f"{tmp_path}/agent.sock"):
        with pytest.raises(AgentError) as caught:
            await connect(address, host="h1", timeout=DEADLINE_S)
    assert str(caught.value) == (
        f"h1: agent unreachable at {address}: it ends the connection\n"
        "Does an agent listen there? If it is stunnel, the logs of both its ends have the reason."
    )


async def test_ninety_calls_at_a_time_are_answered(tmp_path: Path):
    server, address = server_at(tmp_path / "agent.sock")
    await server.start()
    # gRPC refuses some calls only now and then.
    for _ in range(10):
        async with await connect(str(address), host="h1", timeout=DEADLINE_S) as agent:
            readings = await asyncio.gather(*(agent.probe_clock() for _ in range(90)))
        assert readings == [await RecordingService().probe_clock()] * 90
    await server.stop()


async def test_hold_tells_that_the_agent_is_gone(tmp_path: Path):
    server, address = server_at(tmp_path / "agent.sock")
    await server.start()
    async with await connect(str(address), host="h1", timeout=DEADLINE_S) as agent:
        events = agent.hold("ann", "run")
        assert await anext(events) == HELD
        stopping = asyncio.create_task(server.stop())
        with pytest.raises(AgentError, match=r"^h1: connection lost: "):
            await asyncio.wait_for(anext(events), DEADLINE_S)
        await stopping


async def test_call_after_the_agent_is_gone_names_the_host(tmp_path: Path):
    server, address = server_at(tmp_path / "agent.sock")
    await server.start()
    async with await connect(str(address), host="h1", timeout=DEADLINE_S) as agent:
        await server.stop()
        with pytest.raises(AgentError, match=r"^h1: connection lost: "):
            await agent.info()


async def test_closed_connection_ends_the_hold_with_its_lease(tmp_path: Path):
    service = RecordingService()
    server, address = server_at(tmp_path / "agent.sock", service, lease_s=0.1)
    await server.start()
    agent = await connect(str(address), host="h1", timeout=DEADLINE_S)
    events = agent.hold("ann", "1")
    await anext(events)
    await agent.close()
    await asyncio.wait_for(service.is_ending.wait(), DEADLINE_S)
    async with await connect(str(address), host="h1", timeout=DEADLINE_S) as other:
        assert await anext(other.hold("bob", "2")) == HELD
    await server.stop()


async def test_who_waits_loses_the_place_with_the_connection(tmp_path: Path):
    server, address = server_at(tmp_path / "agent.sock")
    await server.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        holder, waits, behind = [
            await stack.enter_async_context(
                await connect(str(address), host="h1", timeout=DEADLINE_S)
            )
            for _ in range(3)
        ]
        await anext(await stack.enter_async_context(aclosing(holder.hold("ann", "1"))))
        first, second = waits.queue("bob", "2"), behind.queue("cem", "3")
        await anext(first)
        before = await anext(second)
        await waits.close()
        after = await asyncio.wait_for(anext(second), DEADLINE_S)
        await second.aclose()
    assert (before.ahead, after.ahead) == (("ann", "bob"), ("ann",))


async def test_a_call_under_way_fails_when_the_connection_is_closed(tmp_path: Path):
    service = SlowService()
    server, address = server_at(tmp_path / "agent.sock", service)
    await server.start()
    agent = await connect(str(address), host="h1", timeout=DEADLINE_S)
    asking = asyncio.create_task(agent.examine([]))
    await asyncio.wait_for(service.is_asked.wait(), DEADLINE_S)
    await agent.close()
    with pytest.raises(ConnectionLostError, match=r"^h1: the connection was closed$"):
        await asyncio.wait_for(asking, DEADLINE_S)
    await server.stop()


async def test_socket_is_for_its_user_alone(tmp_path: Path):
    server, _ = server_at(tmp_path / "agent.sock")
    mode = (tmp_path / "agent.sock").stat().st_mode & 0o777
    await server.stop()
    assert mode == 0o600


async def test_socket_goes_away_with_its_server(tmp_path: Path):
    server, _ = server_at(tmp_path / "agent.sock")
    await server.start()
    await server.stop()
    assert names_in(tmp_path) == []


async def test_socket_of_a_dead_server_is_taken_over(tmp_path: Path):
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    server, address = server_at(path)
    await server.start()
    async with await connect(str(address), host="h1", timeout=DEADLINE_S) as agent:
        assert await agent.info() == INFO
    await server.stop()


async def test_socket_of_a_living_server_is_left_alone(tmp_path: Path):
    server, _ = server_at(tmp_path / "agent.sock")
    await server.start()
    with pytest.raises(UsageError) as caught:
        server_at(tmp_path / "agent.sock")
    await server.stop()
    assert str(caught.value) == f"{tmp_path}/agent.sock: another agent listens there"


async def test_file_that_is_no_socket_is_left_alone(tmp_path: Path):
    path = tmp_path / "results"
    path.write_text("precious")
    with pytest.raises(UsageError) as caught:
        server_at(path)
    assert (str(caught.value), path.read_text()) == (
        f"{path} exists and is not a socket",
        "precious",
    )


async def test_folder_that_is_not_there_is_reported(tmp_path: Path):
    with pytest.raises(UsageError) as caught:
        server_at(tmp_path / "no" / "agent.sock")
    assert str(caught.value) == (
        f"cannot listen on {UnixAddress(tmp_path / 'no/agent.sock')}: No such file or directory"
    )


async def test_large_file_comes_in_pieces(tmp_path: Path):
    content = bytes(range(256)) * 4096
    service = RecordingService(files_by_path={"capture.1.pcap": content})
    server, address = server_at(tmp_path / "agent.sock", service)
    await server.start()
    async with await connect(str(address), host="h1", timeout=DEADLINE_S) as agent, held(agent):
        pieces = [piece.content async for piece in agent.fetch(1, ["capture.1.pcap"])]
    await server.stop()
    assert b"".join(pieces) == content


async def test_more_files_are_fetched_than_one_request_can_name(tmp_path: Path):
    files = {f"flow.{number}.{'x' * 90}": b"%d" % number for number in range(2_000)}
    service = RecordingService(files_by_path=files)
    server, address = server_at(tmp_path / "agent.sock", service)
    await server.start()
    async with await connect(str(address), host="h1", timeout=DEADLINE_S) as agent, held(agent):
        fetched = [piece.path async for piece in agent.fetch(1, list(files))]
    await server.stop()
    assert list(dict.fromkeys(fetched)) == list(files)
