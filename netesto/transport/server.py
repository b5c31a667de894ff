"""The agent's end: gRPC calls become calls of a service that has the shape of an agent.

gRPC wakes every event loop of a process for each of its events, so that it works in one loop,
whatever the number of hosts; the service of a host has another, in the host's thread.
"""
# ruff: noqa: N802 - methods have the names of agent.proto

import asyncio
import contextlib
import logging
import os
import re
import socket
import stat
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import grpc

from netesto.errors import UsageError
from netesto.hostsettings import Applied
from netesto.model import (
    AgentStatus,
    CaptureRequest,
    ClockReading,
    FinishedExperiment,
    GroupRequest,
    HostState,
    Ports,
)
from netesto.proto import messages as pb
from netesto.transport import channel, codec, faults, methods
from netesto.transport.addresses import UnixAddress
from netesto.transport.base import Stamp
from netesto.transport.gate import Gate

log = logging.getLogger(__name__)

# One line for each hold, change and refusal, with who the caller claims to be: the folder of a
# socket decides who may call, and nothing else is known of them.
audit = logging.getLogger("netesto.audit")

Answer = TypeVar("Answer")
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

# The numbers of a stamp: call, pending, seen.
_STAMP = re.compile(r"(\d{1,18}) (\d{1,18}) (\d{1,18})", re.ASCII)

# Pieces are combined up to the size of the largest one, so that other calls on the same connection
# need not wait. The length of the path is added to each.
_MESSAGE_BYTES, _PATH_BYTES = 256 * 1024, 1024

# The time for calls to end when the server stops; holds have ended by then.
_STOP_GRACE_S = 2.0

# The time for the server to say that it has stopped, after that.
_STOP_S = 1.0

_STATUS = {
    "agent": grpc.StatusCode.FAILED_PRECONDITION,
    "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "ended": grpc.StatusCode.NOT_FOUND,
    "missing": grpc.StatusCode.UNIMPLEMENTED,
}


class AgentServer:
    """Serves `gate` on any number of Unix sockets.

    The caller has prepared their folders (agent.access). `machine_hosts` share one machine
    (channel.server_options). The gate works in `loop`; all else here in the one that runs now.
    """

    def __init__(
        self, gate: Gate, *, loop: asyncio.AbstractEventLoop | None = None, machine_hosts: int = 1
    ) -> None:
        self._gate = gate
        self._service = gate.service
        self._own = asyncio.get_running_loop()
        self._loop = loop or self._own
        self._sockets: list[Path] = []
        self._server = grpc.aio.server(options=channel.server_options(machine_hosts))
        methods.serve(self, self._server)

    def listen(self, address: UnixAddress, *, group: int | None = None) -> None:
        """Add a socket before `start`, for our user and `group`. UsageError if the address cannot
        be used."""
        try:
            with _made_for(address.path, 0o600 if group is None else 0o660):
                self._server.add_insecure_port(str(address))
                if group is not None:
                    os.chown(address.path, -1, group)
        except RuntimeError:
            raise UsageError(f"cannot listen on {address}: {_why_not(address)}") from None
        except OSError as error:
            raise UsageError(f"cannot listen on {address}: {error.strerror}") from None
        self._sockets.append(address.path)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        """Refuse new calls, end the running ones, remove the sockets."""
        stopping = asyncio.create_task(self._server.stop(_STOP_GRACE_S))
        # gRPC never says the end of a server that a `:path` without UTF-8 has left deaf.
        await asyncio.wait({stopping}, timeout=_STOP_GRACE_S + _STOP_S)
        if stopping.done():
            stopping.result()
        for path in self._sockets:
            path.unlink(missing_ok=True)

    # ---- methods of agent.proto; their meaning is that of transport.base.Agent -----------------

    def _note(self, context: Context, what: str, level: int = logging.INFO, **keys: object) -> None:
        claims = self._gate.claimed(_token(context))
        audit.log(level, what, extra={"claims": claims, **keys})

    async def Info(self, _: pb.Nothing, context: Context) -> pb.HostInfo:
        info = codec.encode(pb.HostInfo, await self._answer(context, self._gate.info))
        info.protocol = channel.PROTOCOL
        return info

    async def ProbeClock(self, _: pb.Nothing, context: Context) -> ClockReading:
        return await self._answer(context, self._service.probe_clock)

    async def Examine(self, message: pb.ExamineRequest, context: Context) -> HostState:
        def examine() -> Awaitable[HostState]:
            peers = codec.to_addresses(message.peers)
            return self._service.examine(peers, for_run=message.for_run)

        if message.for_run:
            return await self._for_holder(context, examine)
        return await self._answer(context, examine)

    async def Status(self, _: pb.Nothing, context: Context) -> AgentStatus:
        return await self._answer(context, self._gate.status)

    async def Queue(self, message: pb.HoldRequest, context: Context) -> None:
        async def queue() -> None:
            channel.check("controller", message.protocol, message.version)
            async with contextlib.aclosing(self._gate.queue(message.controller)) as places:
                async for place in places:
                    await self._write(context, codec.encode(pb.QueueReply, place))

        await self._answer(context, queue, claims=message.controller)

    async def Hold(self, message: pb.HoldRequest, context: Context) -> None:
        async def hold() -> None:
            channel.check("controller", message.protocol, message.version)
            events = (
                self._gate.rejoin(message.token, message.seen)
                if message.token
                else self._gate.hold(message.controller, message.run, message.ticket)
            )
            async with contextlib.aclosing(events):
                async for token, event in events:
                    if event is None:
                        self._note(context, "hold joined again", claims=message.controller)
                    elif event.kind == "held":
                        self._note(context, "hold", claims=message.controller, run=message.run)
                    said = None if event is None else codec.encode(pb.Event, event)
                    await self._write(context, pb.HoldReply(token=token, event=said))

        await self._answer(context, hold, claims=message.controller)

    async def Release(self, _: pb.Nothing, context: Context) -> None:
        await self._answer(context, lambda: self._gate.release(_token(context)))

    async def Configure(self, message: pb.Setting, context: Context) -> Applied:
        applied = await self._for_holder(
            context, lambda: self._service.configure(codec.to_setting(message))
        )
        self._note(context, "change", setting=applied.words)
        return applied

    async def TakeStats(self, message: pb.TakeStatsRequest, context: Context) -> None:
        tests, tools = tuple(message.tests), tuple(message.tools)
        await self._for_holder(
            context,
            lambda: self._service.take_stats(message.exp, message.order, tests=tests, tools=tools),
        )

    async def Expect(self, message: pb.GroupRequest, context: Context) -> Ports:
        return await self._for_holder(
            context, lambda: self._service.expect(codec.decode_request(GroupRequest, message))
        )

    async def Forget(self, message: pb.GroupName, context: Context) -> None:
        await self._for_holder(context, lambda: self._service.forget(message.exp, message.group))

    async def Start(self, message: pb.StartRequest, context: Context) -> None:
        await self._for_holder(context, lambda: self._service.start(*codec.to_start(message)))

    async def Begin(self, message: pb.BeginRequest, context: Context) -> None:
        groups = tuple(message.groups)
        await self._for_holder(
            context, lambda: self._service.begin(message.exp, groups, message.start_at_s)
        )

    async def StartCapture(self, message: pb.CaptureRequest, context: Context) -> None:
        await self._for_holder(
            context,
            lambda: self._service.start_capture(codec.decode_request(CaptureRequest, message)),
        )

    async def Finish(self, message: pb.FinishRequest, context: Context) -> FinishedExperiment:
        return await self._for_holder(
            context,
            lambda: self._service.finish(message.exp, with_time_sync=message.with_time_sync),
            # The names of all files, or small ones themselves.
            keep=False,
        )

    async def Fetch(self, message: pb.FetchRequest, context: Context) -> None:
        async def fetch() -> None:
            self._gate.check(_token(context))
            async with contextlib.aclosing(
                self._service.fetch(message.exp, tuple(message.paths))
            ) as pieces:
                some = pb.Pieces()
                size = 0
                async for piece in pieces:
                    piece_bytes = len(piece.content) + _PATH_BYTES
                    if some.pieces and size + piece_bytes > _MESSAGE_BYTES:
                        await self._write(context, some)
                        some, size = pb.Pieces(), 0
                    some.pieces.append(codec.encode(pb.Piece, piece))
                    size += piece_bytes
                if some.pieces:
                    await self._write(context, some)

        await self._answer(context, fetch)

    async def Confirm(self, message: pb.ExperimentName, context: Context) -> None:
        await self._for_holder(context, lambda: self._service.confirm(message.exp))

    async def Abort(self, message: pb.AbortRequest, context: Context) -> None:
        exp = message.exp if message.HasField("exp") else None
        await self._for_holder(context, lambda: self._service.abort(exp))

    async def PutBack(self, _: pb.Nothing, context: Context) -> pb.Left:
        return pb.Left(sentences=await self._for_holder(context, self._service.put_back))

    async def ShutDown(self, _: pb.Nothing, context: Context) -> None:
        await self._for_holder(context, self._service.shut_down)

    async def _for_holder(
        self, context: Context, call: Callable[[], Awaitable[Answer]], *, keep: bool = True
    ) -> Answer:
        """The result of `call` for the holder."""
        token, stamp = _token(context), _stamp(context)
        return await self._answer(context, lambda: self._gate.call(token, stamp, call, keep=keep))

    async def _answer(
        self, context: Context, call: Callable[[], Awaitable[Answer]], **claims: str
    ) -> Answer:
        """The RPC border: the result of `call`, or its error as a status with a fault. `claims`:
        who the caller says it is, without a token of a hold."""

        async def answer() -> Answer:
            return await call()

        try:
            return await within(self._loop, answer())
        except Exception as error:  # this is the RPC border
            if not faults.is_foreseen(error):
                log.exception("call failed")
            fault = faults.of(error)
            self._note(context, "refused", logging.WARNING, reason=fault.message, **claims)
        metadata = ((channel.FAULT_KEY, codec.encode_fault(fault)),)
        await context.abort(_STATUS[fault.kind], fault.message, metadata)
        raise AssertionError("abort raises")

    async def _write(self, context: Context, message: object) -> None:
        async def write() -> None:
            await context.write(message)

        await within(self._own, write())


async def within(
    loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, Answer]
) -> Answer:
    """The result of `work` in the loop of another thread. If this is cancelled, so is that."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


@contextlib.contextmanager
def _made_for(path: Path, mode: int) -> Iterator[None]:
    """The body makes a socket at `path`, where an earlier agent may have left one. UsageError if it
    is in use, or not a socket."""
    _remove_dead_socket(path)
    # The socket is private from the start, not only after chmod.
    mask = os.umask(0o177)
    try:
        yield
        path.chmod(mode)
    finally:
        os.umask(mask)


def _remove_dead_socket(path: Path) -> None:
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise UsageError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        else:
            raise UsageError(f"{path}: another agent listens there")


def _why_not(address: UnixAddress) -> str:
    """The system's reason, which gRPC does not give."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(address.path))
        address.path.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return "refused by the system"


def _token(context: Context) -> str:
    """The token that the caller sent; "" without one."""
    return _metadata(context, channel.HOLD_KEY)


def _stamp(context: Context) -> Stamp:
    """The stamp that the caller sent; one without numbers if it sent none."""
    match = _STAMP.fullmatch(_metadata(context, channel.STAMP_KEY))
    if match is None:
        return Stamp()
    call, pending, seen = map(int, match.groups())
    return Stamp(call=call, pending=pending, acknowledged=seen)


def _metadata(context: Context, key: str) -> str:
    return str(dict(context.invocation_metadata() or ()).get(key, ""))
