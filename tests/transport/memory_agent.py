"""The transport within one process: the same holds, tokens and errors, without bytes."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from netesto.errors import ConnectionLostError, NetestoError
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
from netesto.transport import faults
from netesto.transport.base import QueuePlace, Stamp
from netesto.transport.gate import Gate
from netesto.transport.holding import Holding, Replies

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class MemoryAgent:
    """An agent in this process, behind `gate`. Agents that share a gate share the service.

    Between `cut` and `mend` nothing reaches it, and nothing of it reaches us.
    """

    def __init__(self, gate: Gate, *, host: str, patience_s: float = 0.0) -> None:
        self.host = host
        self._gate = gate
        self._service = gate.service
        self._patience_s = patience_s
        self.on_cut: Callable[[str], None] = lambda _: None
        self._holding = self._new_holding("", "")
        self._cut = asyncio.Event()
        self.ticket = ""

    def give_up(self) -> None:
        self._holding.give_up()

    def cut(self) -> None:
        self._cut.set()

    def mend(self) -> None:
        self._cut = asyncio.Event()

    async def first_info(self) -> HostInfo:
        return await self.info()

    async def info(self) -> HostInfo:
        with self._border():
            return await self._gate.info()

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
            if is_ours and not self._cut.is_set():
                await self._gate.release(holding.token)

    def _new_holding(self, controller: str, run: str) -> Holding:
        return Holding(
            lambda token, seen: self._join(controller, run, token, seen),
            patience_s=self._patience_s,
            on_cut=self.on_cut,
        )

    @property
    def is_cut(self) -> bool:
        return self._holding.is_cut

    async def _join(self, controller: str, run: str, token: str, seen: int) -> Replies:
        gate = self._gate
        with self._border():
            held = gate.rejoin(token, seen) if token else None
            replies = held or gate.hold(controller, run, self.ticket)
            async with contextlib.aclosing(replies) as events:
                while True:
                    reply = await self._through(anext(events, None))
                    if reply is None:
                        return
                    yield reply

    async def queue(self, controller: str, run: str) -> AsyncGenerator[QueuePlace, None]:
        del run
        with self._border():
            async with contextlib.aclosing(self._gate.queue(controller)) as places:
                while True:
                    place = await self._through(anext(places, None))
                    if place is None:
                        return
                    yield place

    async def _through(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """The result of a call, unless the connection is cut before it has arrived."""
        asked = asyncio.ensure_future(call)
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            await asyncio.wait({asked, cut}, return_when=asyncio.FIRST_COMPLETED)
            if self._cut.is_set():
                raise ConnectionLostError("connection lost: cut", host=self.host)
            return asked.result()
        finally:
            for task in (asked, cut):
                task.cancel()
            await asyncio.wait({asked, cut})

    async def probe_clock(self) -> ClockReading:
        with self._border():
            return await self._service.probe_clock()

    async def examine(self, peers: Sequence[Address], *, for_run: bool = False) -> HostState:
        assert not for_run, "no test of this agent asks for it"
        with self._border():
            return await self._service.examine(peers)

    async def status(self) -> AgentStatus:
        with self._border():
            return await self._gate.status()

    async def configure(self, setting: Setting) -> Applied:
        return await self._held(lambda: self._service.configure(setting))

    async def take_stats(
        self, exp: int, order: int, *, tests: Sequence[str] = (), tools: Sequence[str] = ()
    ) -> None:
        await self._held(lambda: self._service.take_stats(exp, order, tests=tests, tools=tools))

    async def expect(self, request: GroupRequest) -> Ports:
        return await self._held(lambda: self._service.expect(request))

    async def forget(self, exp: int, group: int) -> None:
        await self._held(lambda: self._service.forget(exp, group))

    async def start(self, request: GroupRequest, ports: Ports, start_at_s: float | None) -> None:
        await self._held(lambda: self._service.start(request, ports, start_at_s))

    async def begin(self, exp: int, groups: Sequence[int], start_at_s: float) -> None:
        await self._held(lambda: self._service.begin(exp, groups, start_at_s))

    async def start_capture(self, request: CaptureRequest) -> None:
        await self._held(lambda: self._service.start_capture(request))

    async def finish(self, exp: int, *, with_time_sync: bool = False) -> FinishedExperiment:
        return await self._held(lambda: self._service.finish(exp, with_time_sync=with_time_sync))

    async def fetch(self, exp: int, paths: Sequence[str]) -> AsyncGenerator[FilePiece, None]:
        with self._border():
            self._gate.check(self._holding.token)
            async with contextlib.aclosing(self._service.fetch(exp, paths)) as pieces:
                async for piece in pieces:
                    yield piece

    async def confirm(self, exp: int) -> None:
        await self._held(lambda: self._service.confirm(exp))

    async def abort(self, exp: int | None = None) -> None:
        await self._held(lambda: self._service.abort(exp))

    async def put_back(self) -> list[str]:
        return await self._held(self._service.put_back)

    async def shut_down(self) -> None:
        await self._held(self._service.shut_down)

    async def _held(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        async def ask(stamp: Stamp) -> Answer:
            with self._border():
                return await self._through(self._gate.call(self._holding.token, stamp, call))

        return await self._holding.call(ask)

    @contextlib.contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except ConnectionLostError:
            raise
        except Exception as error:  # this is the RPC border
            if not faults.is_foreseen(error):
                log.exception("call failed", extra={"host": self.host})
            fault = faults.of(error)
        else:
            return
        faults.throw(fault, host=self.host)
