"""The in-process twin of the wire: the same holds, tokens and errors, without bytes."""

import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from netesto.model import (
    Address,
    Applied,
    CaptureRequest,
    ClockReading,
    Event,
    FileEntry,
    FilePiece,
    GroupRequest,
    HostInfo,
    HostState,
    Ports,
    Setting,
)
from netesto.transport import faults
from netesto.transport.gate import Gate

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class MemoryAgent:
    """An agent in this process, behind `gate`. Agents that share a gate share the service."""

    def __init__(self, gate: Gate, *, host: str) -> None:
        self.host = host
        self._gate = gate
        self._service = gate.service
        self._token = ""

    async def info(self) -> HostInfo:
        with self._border():
            return await self._gate.info()

    async def hold(self, controller: str, run: str) -> AsyncGenerator[Event, None]:
        with self._border():
            async with contextlib.aclosing(self._gate.hold(controller, run)) as events:
                async for self._token, event in events:
                    yield event

    async def probe_clock(self) -> ClockReading:
        with self._border():
            return await self._service.probe_clock()

    async def examine(self, peers: Sequence[Address]) -> HostState:
        with self._border():
            return await self._service.examine(peers)

    async def configure(self, setting: Setting) -> Applied:
        return await self._held(lambda: self._service.configure(setting))

    async def start_servers(self, tests: tuple[str, ...], tools: tuple[str, ...]) -> None:
        await self._held(lambda: self._service.start_servers(tests, tools))

    async def take_stats(self, exp: int, order: int) -> None:
        await self._held(lambda: self._service.take_stats(exp, order))

    async def expect(self, request: GroupRequest) -> Ports:
        return await self._held(lambda: self._service.expect(request))

    async def forget(self, exp: int, group: int) -> None:
        await self._held(lambda: self._service.forget(exp, group))

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        await self._held(lambda: self._service.start(request, ports, start_at_s))

    async def start_capture(self, request: CaptureRequest) -> None:
        await self._held(lambda: self._service.start_capture(request))

    async def finish(self, exp: int) -> None:
        await self._held(lambda: self._service.finish(exp))

    async def files(self, exp: int) -> list[FileEntry]:
        return await self._held(lambda: self._service.files(exp))

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        with self._border():
            self._gate.check(self._token)
            async with contextlib.aclosing(self._service.fetch(exp, paths)) as pieces:
                async for piece in pieces:
                    yield piece

    async def confirm(self, exp: int) -> None:
        await self._held(lambda: self._service.confirm(exp))

    async def abort(self) -> None:
        await self._held(self._service.abort)

    async def put_back(self) -> list[str]:
        return await self._held(self._service.put_back)

    async def shut_down(self) -> None:
        await self._held(self._service.shut_down)

    async def _held(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        with self._border():
            self._gate.check(self._token)
            return await call()

    @contextlib.contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # this is the RPC border
            if not faults.is_foreseen(error):
                log.exception("call failed", extra={"host": self.host})
            fault = faults.of(error)
        else:
            return
        faults.throw(fault, host=self.host)
