"""Two ends of different versions: they say so before anything happens, and what only one of them
knows crashes neither."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from recording_service import INFO, RecordingService

import netesto
from netesto.errors import AgentError
from netesto.proto import messages as pb
from netesto.transport import channel, codec, methods
from netesto.transport.addresses import UnixAddress
from netesto.transport.client import connect
from netesto.transport.gate import Gate
from netesto.transport.server import AgentServer

NEWER = channel.PROTOCOL + 1


@asynccontextmanager
async def peer_with(folder: Path, info: Callable[[], pb.HostInfo]):
    """The address of an agent of another version."""

    class Peer:
        async def Info(self, *_: object) -> pb.HostInfo:  # noqa: N802 - gRPC's name
            return info()

    server = grpc.aio.server()
    methods.serve(Peer(), server)
    server.add_insecure_port(f"unix:{folder}/peer.sock")
    await server.start()
    try:
        yield f"unix:{folder}/peer.sock"
    finally:
        await server.stop(None)


@asynccontextmanager
async def ours(folder: Path, service: RecordingService):
    """Our agent, and a caller of another version."""
    server = AgentServer(Gate(service))
    server.listen(address := UnixAddress(folder / "agent.sock"))
    await server.start()
    async with grpc.aio.insecure_channel(str(address)) as wire:
        yield methods.calls(wire)
    await server.stop()


def fault_of(error: grpc.aio.AioRpcError) -> tuple[str, str]:
    """The message and the remedy that an agent's refusal carries."""
    [content] = [
        value for key, value in error.trailing_metadata() or () if key == channel.FAULT_KEY
    ]
    assert isinstance(content, bytes)
    fault = codec.decode_fault(content)
    return fault.message, fault.remedy


async def test_agent_of_another_protocol_is_reported_with_both_versions(tmp_path: Path):
    def newer() -> pb.HostInfo:
        return pb.HostInfo(host="h1", version="9.1.0", protocol=NEWER)

    async with peer_with(tmp_path, newer) as address:
        with pytest.raises(AgentError) as caught:
            await connect(address, host="h1", timeout=60)
    assert str(caught.value) == (
        f"h1: the agent has netesto 9.1.0 (protocol {NEWER}), and the controller"
        f" {netesto.__version__} (protocol {channel.PROTOCOL})\n"
        "Install the same version at both ends; the newer one is 9.1.0."
    )


async def test_agent_of_before_protocol_numbers_is_reported(tmp_path: Path):
    async with peer_with(tmp_path, lambda: pb.HostInfo(version="0.0.9")) as address:
        with pytest.raises(AgentError, match=r"^h1: the agent has netesto 0\.0\.9 \(protocol 0\)"):
            await connect(address, host="h1", timeout=60)


async def test_controller_of_another_protocol_is_refused_before_it_holds(tmp_path: Path):
    service = RecordingService()
    async with ours(tmp_path, service) as agent:
        request = pb.HoldRequest(controller="ann", run="r", protocol=NEWER, version="9.1.0")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await agent["Hold"](request).read()
    message = (
        f"the controller has netesto 9.1.0 (protocol {NEWER}), and the agent"
        f" {netesto.__version__} (protocol {channel.PROTOCOL})"
    )
    remedy = "Install the same version at both ends; the newer one is 9.1.0."
    assert (fault_of(caught.value), service.asked) == ((message, remedy), [])


async def test_controller_of_before_protocol_numbers_is_refused(tmp_path: Path):
    async with ours(tmp_path, RecordingService()) as agent:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await agent["Hold"](pb.HoldRequest(controller="ann", run="r")).read()
    assert fault_of(caught.value)[0].startswith(
        "the controller has netesto without a version (protocol 0)"
    )


async def test_agent_with_a_field_and_a_tool_of_a_later_version_is_understood(tmp_path: Path):
    def later() -> pb.HostInfo:
        info = codec.encode(pb.HostInfo, INFO)
        info.tools["later"] = "1"
        info.protocol = channel.PROTOCOL
        # Field 127 with the value 1.
        info.MergeFromString(b"\xf8\x07\x01")
        return info

    async with (
        peer_with(tmp_path, later) as address,
        await connect(address, host="h1", timeout=60) as agent,
    ):
        assert (await agent.info()).tools == {"netperf": "2.7.0", "later": "1"}
