"""The controller's end: calls become gRPC calls, and failures of gRPC become AgentErrors."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias, TypeVar, cast

import grpc

import netesto
from netesto.errors import (
    AgentError,
    ConnectionLostError,
    HoldEndedError,
    MissingError,
    NetestoError,
    NoAnswerError,
)
from netesto.hostsettings import Applied, Setting
from netesto.model import (
    Address,
    AgentStatus,
    CaptureRequest,
    ClockReading,
    Event,
    FilePiece,
    FinishedExperiment,
    GroupRequest,
    HostInfo,
    HostState,
    Ports,
)
from netesto.proto import messages as pb
from netesto.transport import addresses, channel, codec, faults, methods
from netesto.transport.addresses import SshAddress, UnixAddress
from netesto.transport.base import QueuePlace, Stamp
from netesto.transport.holding import Holding, Replies
from netesto.transport.ssh import Tunnel

# Rebuilds the connection to an agent; AgentError if that fails.
Reopen: TypeAlias = Callable[[], Awaitable[None]]

Message = TypeVar("Message")

# For calls that are immediate, unless the agent has just started.
_QUICK_S = 10.0

# For calls that start processes or wait for them to end.
_WORK_S = 30.0

# To hash or remove the files of an experiment, with captures of ten gigabytes.
_FILES_S = 120.0

# The number of files per call, whose names take less than channel.REQUEST_BYTES_MAX.
_FETCHED_TOGETHER = 500

# Between two pieces of a file.
_PIECE_S = 30.0

# Until the hold is granted: the agent may first have to put back the changes of the last holder.
_HOLD_S = 60.0

# For each attempt to join a hold again: an agent that was stopped may not respond yet.
_REJOIN_S = 5.0

# A Unix socket answers at once, unless its queue is full.
_PROBE_S = 1.0

# Why a connection to a socket ends that no agent has.
_OTHERS = "Does an agent listen there? If it is stunnel, the logs of both its ends have the reason."


async def connect(
    address: str,
    *,
    host: str,
    timeout: float,
    patience_s: float = 0.0,
    reopen: Reopen | None = None,
    machine_hosts: int = 1,
) -> "AgentClient":
    """Connect to the agent of `host` at its address (transport.addresses), for ssh through a
    separate tunnel.

    Returns when the agent has responded. AgentError immediately if none listens there, or after
    `timeout` seconds without a response or a tunnel; UsageError if the address is invalid. A hold
    whose connection is cut is joined again for `patience_s`; `reopen` is called before each
    attempt. `machine_hosts` share one machine (channel.client_options).
    """
    tunnel: Tunnel | None = None
    match addresses.parse(address):
        case SshAddress() as found:
            tunnel = Tunnel(found, host=host)
            await tunnel.open(timeout=timeout)
            local = tunnel.local
        case local:
            pass
    client = AgentClient(
        local,
        host=host,
        tunnel=tunnel,
        patience_s=patience_s,
        reopen=reopen,
        machine_hosts=machine_hosts,
    )
    try:
        await client.reach(timeout=timeout)
    except BaseException as error:
        await client.close()
        if isinstance(error, AgentError) and tunnel is not None and tunnel.elsewhere:
            endpoint = tunnel.elsewhere
            return await connect(endpoint, host=host, timeout=timeout, patience_s=patience_s)
        raise
    return client


class AgentClient:
    """An agent at the other end of a connection, which may lead through a tunnel. Close it, or use
    it with `async with`."""

    def __init__(
        self,
        address: UnixAddress,
        *,
        host: str,
        tunnel: Tunnel | None = None,
        patience_s: float = 0.0,
        reopen: Reopen | None = None,
        machine_hosts: int = 1,
    ) -> None:
        self.host = host
        self._options = channel.client_options(machine_hosts)
        self._pace = channel.pace(machine_hosts)
        self._reopen = reopen
        self._patience_s = patience_s
        self._address = address
        self.tunnel = tunnel
        self._channels: list[grpc.aio.Channel] = []
        self._streams: set[Any] = set()
        self._methods = self._dial(address)
        self._info: HostInfo | None = None
        self.on_cut: Callable[[str], None] = lambda _: None
        self.ticket = ""
        self._holding = self._new_holding("", "")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. A hold that was not ended ends with its lease."""
        try:
            # With grpcio 1.62, a stream that nobody reads would keep its connection open.
            for stream in tuple(self._streams):
                stream.cancel()
            for each in self._channels:
                await each.close()
        finally:
            if self.tunnel is not None:
                await self.tunnel.close()

    def _dial(self, address: UnixAddress) -> methods.Calls:
        """The calls of the agent over a new connection."""
        # Earlier ones stay open: closing one would cancel the tasks that have calls there.
        self._channels.append(grpc.aio.insecure_channel(str(address), options=self._options))
        return methods.calls(self._channels[-1])

    def _stream(self, method: str, request: object, **more: Any) -> Any:
        """Begin a call with a stream of replies; `close` ends it."""
        stream = self._methods[method](request, **more)
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        return stream

    async def _open_again(self) -> None:
        """Rebuild the connection to the agent after a cut. ConnectionLostError if that fails."""
        try:
            if self._reopen is not None:
                await self._reopen()
            if self.tunnel is not None:
                await self.tunnel.close()
                await self.tunnel.open(timeout=_REJOIN_S)
                self._methods = self._dial(self.tunnel.local)
        except AgentError as error:
            raise ConnectionLostError(error.message) from error

    async def reach(self, *, timeout: float) -> None:
        """Make the first call, whose result is `first_info`. Errors say why no agent responds at
        the address, or that its protocol differs."""
        kind = ConnectionLostError
        remedy = f"Is it running there? netesto-agent --listen {self._address}"
        try:
            timeout *= self._pace
            message = await self._methods["Info"](pb.Nothing(), timeout=timeout)
        except grpc.aio.AioRpcError as error:
            match error.code():
                case grpc.StatusCode.DEADLINE_EXCEEDED:
                    kind, reason = NoAnswerError, f"no answer within {timeout:g} s"
                case grpc.StatusCode.UNAVAILABLE if self.tunnel is not None:
                    raise await self.tunnel.unreachable() from None
                case grpc.StatusCode.UNAVAILABLE if _accepts(self._address):
                    reason, remedy = "it ends the connection", _OTHERS
                case grpc.StatusCode.UNAVAILABLE:
                    reason = _cause(error.details() or "")
                case _:
                    self._raise(error)
            raise kind(
                f"agent unreachable at {self.tunnel.address if self.tunnel else self._address}:"
                f" {reason}",
                host=self.host,
                remedy=remedy,
            ) from None
        channel.check("agent", message.protocol, message.version, host=self.host)
        self._info = codec.decode_reply(HostInfo, message, host=self.host)

    async def first_info(self) -> HostInfo:
        assert self._info is not None, "`connect` has reached it"
        return self._info

    async def info(self) -> HostInfo:
        message = await self._call("Info", pb.Nothing(), _QUICK_S)
        return codec.decode_reply(HostInfo, message, host=self.host)

    async def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        self._holding = holding = self._new_holding(controller, run)
        is_ours = False
        try:
            async with contextlib.aclosing(holding.events()) as events:
                async for event in events:
                    is_ours = True
                    yield event
            is_ours = False
        except NetestoError:
            is_ours = False
            raise
        finally:
            if is_ours:
                await self._release()

    @property
    def is_cut(self) -> bool:
        return self._holding.is_cut

    def give_up(self) -> None:
        self._holding.give_up()

    def _new_holding(self, controller: str, run: str) -> Holding:
        return Holding(
            lambda token, seen: self._join(controller, run, token, seen),
            patience_s=self._patience_s,
            on_cut=self.on_cut,
        )

    async def _join(self, controller: str, run: str, token: str, seen: int) -> Replies:
        """The stream of a new hold, or of the hold with this token."""
        if token:
            await self._open_again()
        request = _hold_request(controller, run, token=token, seen=seen, ticket=self.ticket)
        first_s = self._pace * (_REJOIN_S if token else _HOLD_S)
        with self._border():
            # A closed connection refuses the call itself.
            call: grpc.aio.UnaryStreamCall[Any, pb.HoldReply] = self._stream("Hold", request)
            try:
                async for reply in _replies(call, first_s=first_s, next_s=None):
                    yield reply.token, codec.to_event(reply.event)
            finally:
                call.cancel()

    async def queue(self, controller: str, run: str) -> AsyncGenerator[QueuePlace, None]:
        call: grpc.aio.UnaryStreamCall[Any, pb.QueueReply] = self._stream(
            "Queue", _hold_request(controller, run)
        )
        try:
            with self._border():
                async for reply in _replies(call, first_s=_QUICK_S, next_s=None):
                    yield codec.decode_reply(QueuePlace, reply, host=self.host)
        finally:
            call.cancel()

    async def _release(self) -> None:
        """End the hold and wait until all settings are put back, unless the agent is gone."""
        metadata = self._metadata(Stamp())
        with contextlib.suppress(grpc.aio.AioRpcError):
            await self._methods["Release"](pb.Nothing(), timeout=_WORK_S, metadata=metadata)

    async def probe_clock(self) -> ClockReading:
        message = await self._call("ProbeClock", pb.Nothing(), _QUICK_S)
        return codec.decode_reply(ClockReading, message, host=self.host)

    async def examine(self, peers: Sequence[Address], *, for_run: bool = False) -> HostState:
        request = pb.ExamineRequest(peers=map(str, peers), for_run=for_run)
        message = await self._call("Examine", request, _QUICK_S)
        return codec.decode_reply(HostState, message, host=self.host)

    async def status(self) -> AgentStatus:
        message = await self._call("Status", pb.Nothing(), _QUICK_S)
        return codec.decode_reply(AgentStatus, message, host=self.host)

    async def configure(self, setting: Setting) -> Applied:
        message = await self._call("Configure", codec.from_setting(setting), _WORK_S)
        return codec.decode_reply(Applied, message, host=self.host)

    async def take_stats(
        self, exp: int, order: int, *, tests: Sequence[str] = (), tools: Sequence[str] = ()
    ) -> None:
        request = pb.TakeStatsRequest(exp=exp, order=order, tests=tests, tools=tools)
        await self._call("TakeStats", request, _WORK_S)

    async def expect(self, request: GroupRequest) -> Ports:
        message = codec.encode(pb.GroupRequest, request)
        return codec.decode(Ports, await self._call("Expect", message, _WORK_S))

    async def forget(self, exp: int, group: int) -> None:
        await self._call("Forget", pb.GroupName(exp=exp, group=group), _WORK_S)

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        message = codec.from_start(request, ports, start_at_s)
        await self._call("Start", message, _WORK_S)

    async def begin(self, exp: int, groups: Sequence[int], start_at_s: float) -> None:
        message = pb.BeginRequest(exp=exp, groups=groups, start_at_s=start_at_s)
        await self._call("Begin", message, _WORK_S)

    async def start_capture(self, request: CaptureRequest) -> None:
        message = codec.encode(pb.CaptureRequest, request)
        await self._call("StartCapture", message, _WORK_S)

    async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
        request = pb.FinishRequest(exp=exp, with_time_sync=with_time_sync)
        return codec.to_finished(await self._call("Finish", request, _FILES_S), host=self.host)

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        for start in range(0, len(paths), _FETCHED_TOGETHER):
            some = paths[start : start + _FETCHED_TOGETHER]
            async with contextlib.aclosing(self._fetch(exp, some)) as pieces:
                async for piece in pieces:
                    yield piece

    async def _fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        call: grpc.aio.UnaryStreamCall[Any, pb.Pieces] = self._stream(
            "Fetch", pb.FetchRequest(exp=exp, paths=paths), metadata=self._metadata(Stamp())
        )
        try:
            with self._border():
                async for message in _replies(call, first_s=_PIECE_S, next_s=_PIECE_S):
                    for piece in message.pieces:
                        yield codec.decode(FilePiece, piece)
        except HoldEndedError:
            await self._holding.ended()
            raise
        finally:
            call.cancel()

    async def confirm(self, exp: int) -> None:
        await self._call("Confirm", pb.ExperimentName(exp=exp), _FILES_S)

    async def abort(self, exp: int | None = None) -> None:
        await self._call("Abort", pb.AbortRequest(exp=exp), _WORK_S)

    async def put_back(self) -> list[str]:
        return list((await self._call("PutBack", pb.Nothing(), _WORK_S)).sentences)

    async def shut_down(self) -> None:
        await self._call("ShutDown", pb.Nothing(), _WORK_S)

    def _metadata(self, stamp: Stamp) -> tuple[tuple[str, str], ...]:
        numbers = f"{stamp.call} {stamp.pending} {stamp.acknowledged}"
        return ((channel.HOLD_KEY, self._holding.token), (channel.STAMP_KEY, numbers))

    async def _call(self, method: str, request: object, timeout: float) -> Any:
        async def ask(stamp: Stamp) -> Any:
            with self._border():
                try:
                    return await once(stamp)
                except grpc.aio.AioRpcError as error:
                    is_late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                    if not is_late or not self._holding.token:
                        raise
                # This process may have been stopped meanwhile, and the reply may be there.
                return await once(stamp, _QUICK_S)

        async def once(stamp: Stamp, most_s: float = timeout) -> Any:
            metadata = self._metadata(stamp)
            call = self._methods[method]
            return await call(request, timeout=most_s * self._pace, metadata=metadata)

        return await self._holding.call(ask)

    @contextlib.contextmanager
    def _border(self) -> Iterator[None]:
        """Failures of gRPC become errors that name the host."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            self._raise(error)
        except TimeoutError:
            raise ConnectionLostError("no reply in time", host=self.host) from None
        except grpc.aio.UsageError:
            raise AgentError("the connection was closed", host=self.host) from None
        except asyncio.CancelledError:
            # gRPC also cancels a call that waits for its reply while another task closes the
            # connection.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise ConnectionLostError("the connection was closed", host=self.host) from None

    def _raise(self, error: grpc.aio.AioRpcError) -> None:
        for key, value in error.trailing_metadata() or ():
            if key == channel.FAULT_KEY and isinstance(value, bytes):
                faults.throw(codec.decode_fault(value), host=self.host)
        match error.code():
            case grpc.StatusCode.UNAVAILABLE:
                words = self.tunnel.last_words() if self.tunnel is not None else ""
                message = f"connection lost: {words or _cause(error.details() or '')}"
                raise ConnectionLostError(message, host=self.host) from None
            case grpc.StatusCode.UNIMPLEMENTED:
                raise MissingError(
                    f"{self.host}: its agent is older, and does not know this call",
                    remedy=f"Install netesto {netesto.__version__} there.",
                ) from None
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                message = "no reply in time"
            case code:
                message = f"{code.name.lower().replace('_', ' ')}: {error.details()}"
        raise AgentError(message, host=self.host) from None


def _hold_request(controller: str, run: str, **more: Any) -> pb.HoldRequest:
    return pb.HoldRequest(
        controller=controller,
        run=run,
        protocol=channel.PROTOCOL,
        version=netesto.__version__,
        **more,
    )


async def _replies(
    call: "grpc.aio.UnaryStreamCall[Any, Message]", *, first_s: float, next_s: float | None
) -> AsyncGenerator[Message, None]:
    """The messages of a stream; TimeoutError if the first or the next takes too long."""
    deadline: float | None = first_s
    while True:
        reply = await asyncio.wait_for(call.read(), deadline)
        if reply is grpc.aio.EOF:
            return
        yield cast("Message", reply)
        deadline = next_s


def _accepts(address: UnixAddress) -> bool:
    """Whether something accepts connections there."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_S)
        return probe.connect_ex(str(address.path)) == 0


def _cause(details: str) -> str:
    """The system's reason in a text of gRPC, such as "Connection refused"."""
    text = details.rsplit(": ", 1)[-1].strip(" ]")
    # Of a bracket that begins before it.
    text = text.removesuffix(")") if text.count(")") > text.count("(") else text
    return text or "the agent is gone"
