"""Who may act on an agent: one holder at a time, known by the token of its hold.

    free ──hold──► held ──the stream ends──► ending ──all is put back──► free

The gate reads the service's stream in a separate task. What the service does when a hold ends
therefore runs once, to its end, however abruptly the holder went.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

from netesto.errors import AgentBusyError, AgentError
from netesto.model import Event, HostInfo
from netesto.transport.base import Agent

# With more unread events than these a holder gets no progress; it gets all others.
_BACKLOG_MAX = 10_000


@dataclass(slots=True, eq=False)
class _Hold:
    """One holder. `events` ends with None when the service has ended the stream."""

    controller: str
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    events: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)
    reader: asyncio.Task[None] | None = None
    is_ending: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Gate:
    """Guards a service that has the shape of an agent, on behalf of the adapters that carry it."""

    def __init__(self, service: Agent) -> None:
        self.service = service
        self._hold: _Hold | None = None
        self._is_closed = False

    def check(self, token: str) -> None:
        """AgentError unless `token` is that of the present hold."""
        hold = self._hold
        if hold is None:
            raise AgentError("the hold has ended")
        if hold.is_ending or not secrets.compare_digest(hold.token.encode(), token.encode()):
            if not token:
                raise AgentBusyError(hold.controller)
            raise AgentError(
                "the hold has ended" if hold.is_ending else f"now held by {hold.controller}"
            )

    async def info(self) -> HostInfo:
        """The service's answer, and who holds it."""
        info = await self.service.info()
        return replace(info, holder=self._hold.controller if self._hold else "")

    async def hold(self, controller: str, run: str) -> AsyncGenerator[tuple[str, Event], None]:
        """Take the service and yield its events, each with the token of this hold.

        Waits while the changes of the last holder are put back; AgentBusyError if another holds the
        service. Closing the generator ends the hold and returns when all is put back.
        """
        hold = await self._take(controller)
        reader = asyncio.create_task(self._read(hold, run), name=f"hold of {controller}")
        reader.add_done_callback(lambda _: self._free(hold))
        hold.reader = reader
        try:
            while (event := await hold.events.get()) is not None:
                yield hold.token, event
            if not reader.cancelled():
                reader.result()  # raises what the service ended the stream with
        finally:
            self._end(hold)
            await asyncio.wait({reader})

    async def release(self, token: str) -> None:
        """End the hold of `token`, if it is not over; returns when all is put back."""
        hold = self._hold
        if hold is not None and secrets.compare_digest(hold.token.encode(), token.encode()):
            self._end(hold)
            await hold.over.wait()

    async def close(self) -> None:
        """Refuse new holds; returns when the last one, which the service ends, is over."""
        self._is_closed = True
        if self._hold is not None:
            await self._hold.over.wait()

    def _end(self, hold: _Hold) -> None:
        if not hold.is_ending and hold.reader is not None:
            hold.is_ending = True
            hold.reader.cancel()

    async def _take(self, controller: str) -> _Hold:
        while self._hold is not None:
            if not self._hold.is_ending:
                raise AgentBusyError(self._hold.controller)
            await self._hold.over.wait()
        if self._is_closed:
            raise AgentError("the agent is ending")
        self._hold = _Hold(controller)
        return self._hold

    async def _read(self, hold: _Hold, run: str) -> None:
        async with contextlib.aclosing(self.service.hold(hold.controller, run)) as events:
            async for event in events:
                if event.kind != "progress" or hold.events.qsize() < _BACKLOG_MAX:
                    hold.events.put_nowait(event)

    def _free(self, hold: _Hold) -> None:
        self._hold = None
        hold.over.set()
        hold.events.put_nowait(None)
