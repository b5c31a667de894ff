"""Admits one holder of an agent at a time, identified by the token of its hold.

    free ──hold──► held ──its connection is cut──► leased ──the lease ends──► ending ──► free
                    ▲ ◄────────rejoin──────────────┘                          ▲  all is put back
                    └──────────────────release────────────────────────────────┘

The gate reads the service's stream in a separate task, whether or not a connection carries it to
the holder. The service's work at the end of a hold therefore runs once and completely, however
abruptly the holder ended. Events are kept until the holder has acknowledged them, and results of
calls until it has them: requests and reports during a cut are neither lost nor executed twice.

Controllers that wait have places in a queue, first come, first served. While somebody waits, a free
service is reserved for the first of them.
"""

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from netesto.errors import AgentBusyError, AgentError, HoldEndedError
from netesto.model import AgentStatus, Event, HostInfo
from netesto.transport.base import Agent, QueuePlace, Stamp

# A line for each hold and its end; the server logs changes and refusals.
audit = logging.getLogger("netesto.audit")

Answer = TypeVar("Answer")

# A holder with more unread events gets no progress events; it gets all others.
_BACKLOG_MAX = 10_000

# The limits of a holder's unacknowledged calls and events, and of its connections. Runs of a
# thousand flows stay below; more would exhaust the memory of the host.
CALLS_MAX, EVENTS_MAX, CONNECTIONS_MAX = 10_000, 50_000, 32

# More would only be attempts to fill the memory.
WAITING_MAX = 100

# How long a hold outlives its connection: the restart of a switch takes less, and nobody else can
# use the host meanwhile.
LEASE_S = 30.0


@dataclass(slots=True, eq=False)
class _Hold:
    """One holder.

    connections  the pending events of each of its connections; None after the last one
    unseen       events that it has not acknowledged, by their numbers; progress is not kept
    calls        its calls by number, until it has the results
    lease        the end of the lease, while it has no connection
    """

    controller: str
    run: str
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    connections: set[asyncio.Queue[Event | None]] = field(default_factory=set)
    unseen: dict[int, Event] = field(default_factory=dict)
    calls: dict[int, asyncio.Task[Any]] = field(default_factory=dict)
    reader: asyncio.Task[None] | None = None
    lease: asyncio.TimerHandle | None = None
    is_ending: bool = False
    # Set when everything is put back.
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def has(self, token: str) -> bool:
        """Whether this is its token; the time that takes says nothing about it."""
        return secrets.compare_digest(self.token.encode(), token.encode())

    def put(self, event: Event) -> None:
        """Keep and pass on an event. AgentError if the holder reads or acknowledges none."""
        unread = max((queue.qsize() for queue in self.connections), default=0)
        if max(len(self.unseen), unread) >= EVENTS_MAX:
            self.is_ending = True
            raise AgentError(f"hold ended: {EVENTS_MAX} events are not acknowledged")
        is_progress = event.kind == "progress"
        if not is_progress:
            self.unseen[event.sequence] = event
        for queue in self.connections:
            if not is_progress or queue.qsize() < _BACKLOG_MAX:
                queue.put_nowait(event)

    def acknowledge(self, stamp: Stamp) -> None:
        """Note that the holder has these events, and the results of calls before these."""
        for number in [number for number in self.unseen if number <= stamp.acknowledged]:
            del self.unseen[number]
        for number in [number for number in self.calls if number < stamp.pending]:
            del self.calls[number]


class Gate:
    """Guards a service that has the shape of an agent, on behalf of the adapters that carry it."""

    def __init__(self, service: Agent, *, lease_s: float = LEASE_S) -> None:
        self.service = service
        self._lease_s = lease_s
        self._hold: _Hold | None = None
        # Waiting controllers, by ticket, in the order of arrival.
        self._waiting: dict[str, str] = {}
        self._is_closed = False
        # Set, and replaced, when the service may have become free.
        self._changed = asyncio.Event()

    def check(self, token: str) -> None:
        """AgentError unless `token` is that of the present hold."""
        self._hold_of(token)

    def claimed(self, token: str) -> str:
        """Who the holder with this token says it is; "" for anybody else."""
        hold = self._hold
        return hold.controller if hold is not None and hold.has(token) else ""

    async def call(
        self,
        token: str,
        stamp: Stamp,
        work: Callable[[], Awaitable[Answer]],
        *,
        keep: bool = True,
    ) -> Answer:
        """The result of `work`, which the holder requests. Once begun it runs to its end, also
        without its connection; a repeated request with the same number does not repeat it, unless
        the result is too large to `keep`, and `work` gives it as well a second time."""
        hold = self._hold_of(token)
        hold.acknowledge(stamp)
        task: asyncio.Task[Answer] | None = hold.calls.get(stamp.call) if stamp.call else None
        if task is None:
            if len(hold.calls) >= CALLS_MAX:
                raise AgentError(f"refused: the results of {CALLS_MAX} calls are not acknowledged")
            task = asyncio.ensure_future(work())
            # If its caller is gone, nobody else retrieves the error.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            if stamp.call:
                hold.calls[stamp.call] = task
                if not keep:
                    task.add_done_callback(lambda _: hold.calls.pop(stamp.call, None))
        return await asyncio.shield(task)

    async def info(self) -> HostInfo:
        """The service's reply, with the holder."""
        info = await self.service.info()
        return replace(info, holder=self._hold.controller if self._hold else "")

    async def status(self) -> AgentStatus:
        """The service's reply, with those who wait."""
        return replace(await self.service.status(), waiting=tuple(self._waiting.values()))

    async def queue(self, controller: str) -> AsyncGenerator[QueuePlace, None]:
        """A place in the queue until the generator is closed: yield who is ahead, whenever it
        changes."""
        if len(self._waiting) >= WAITING_MAX:
            raise AgentError(f"refused: {WAITING_MAX} controllers wait already")
        ticket = secrets.token_hex(16)
        self._waiting[ticket] = controller
        audit.info("waits", extra={"claims": controller, "before": len(self._waiting) - 1})
        reported: QueuePlace | None = None
        try:
            while not self._is_closed:
                changed = self._changed
                place = QueuePlace(ticket, self._ahead(ticket))
                if place != reported:
                    reported = place
                    yield place
                await changed.wait()
        finally:
            del self._waiting[ticket]
            self._note_change()
        raise AgentError("the agent is ending")

    def _ahead(self, ticket: str) -> tuple[str, ...]:
        """Those served before the place with this ticket."""
        earlier = itertools.takewhile(lambda each: each != ticket, self._waiting)
        holder = [self._hold.controller] if self._hold is not None else []
        return (*holder, *(self._waiting[each] for each in earlier))

    async def hold(
        self, controller: str, run: str, ticket: str = ""
    ) -> AsyncGenerator[tuple[str, Event], None]:
        """Take the service and yield its events, each with the token of this hold.

        Waits while the changes of the last holder are put back, and while the connection of the
        holder is cut; AgentBusyError if another holds the service, or waits for it with another
        `ticket`. The hold outlives the generator by its lease.
        """
        hold = await self._take(controller, run, ticket)
        reader = asyncio.create_task(self._read(hold, run), name=f"hold of {controller}")
        reader.add_done_callback(lambda _: self._free(hold))
        hold.reader = reader
        with self._connected(hold) as events:
            async for event in self._events(hold, events):
                yield hold.token, event

    async def rejoin(self, token: str, seen: int) -> AsyncGenerator[tuple[str, Event | None], None]:
        """Continue the hold of `token` after a cut: yield nothing at first, then the events after
        number `seen`. HoldEndedError if that hold is over."""
        hold = self._hold_of(token)
        if len(hold.connections) >= CONNECTIONS_MAX:
            raise AgentError(f"refused: this hold has {CONNECTIONS_MAX} connections")
        hold.acknowledge(Stamp(acknowledged=seen))
        with self._connected(hold) as events:
            for event in hold.unseen.values():
                events.put_nowait(event)
            yield token, None
            async for event in self._events(hold, events):
                yield token, event

    async def release(self, token: str) -> None:
        """End the hold of `token`, if it is not over; return when everything is put back."""
        hold = self._hold
        if hold is not None and hold.has(token):
            self._end(hold)
            await hold.over.wait()

    async def close(self) -> None:
        """Refuse new holds; return when the last one, which the service ends, is over."""
        self._is_closed = True
        self._note_change()
        if self._hold is not None:
            await self._hold.over.wait()

    def _hold_of(self, token: str) -> _Hold:
        hold = self._hold
        if hold is None:
            raise HoldEndedError("the hold has ended")
        if hold.is_ending or not hold.has(token):
            if not token:
                raise AgentBusyError(hold.controller)
            raise HoldEndedError(
                "the hold has ended" if hold.is_ending else f"now held by {hold.controller}"
            )
        return hold

    @contextlib.contextmanager
    def _connected(self, hold: _Hold) -> Iterator[asyncio.Queue[Event | None]]:
        """A connection of the holder while the body runs; without any the lease runs."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        hold.connections.add(events)
        if hold.lease is not None:
            hold.lease.cancel()
            hold.lease = None
        self._note_change()
        try:
            yield events
        finally:
            hold.connections.discard(events)
            if not hold.connections and not hold.over.is_set():
                loop = asyncio.get_running_loop()
                hold.lease = loop.call_later(self._lease_s, self._end, hold)
                self._note_change()

    @staticmethod
    async def _events(
        hold: _Hold, events: asyncio.Queue[Event | None]
    ) -> AsyncGenerator[Event, None]:
        while (event := await events.get()) is not None:
            yield event
        if hold.reader is not None and not hold.reader.cancelled():
            hold.reader.result()  # raises what the service ended the stream with

    def _end(self, hold: _Hold) -> None:
        if not hold.is_ending and hold.reader is not None:
            hold.is_ending = True
            hold.reader.cancel()

    async def _take(self, controller: str, run: str, ticket: str) -> _Hold:
        while (hold := self._hold) is not None:
            if hold.connections and not hold.is_ending:
                raise AgentBusyError(hold.controller)
            await self._changed.wait()
        if self._is_closed:
            raise AgentError("the agent is ending")
        first = next(iter(self._waiting), ticket)
        if first != ticket:
            raise AgentBusyError(f"{self._waiting[first]}, who came first")
        self._hold = _Hold(controller, run)
        return self._hold

    async def _read(self, hold: _Hold, run: str) -> None:
        async with contextlib.aclosing(self.service.hold(hold.controller, run)) as events:
            async for event in events:
                hold.put(event)

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _free(self, hold: _Hold) -> None:
        self._hold = None
        audit.info("hold ended", extra={"run": hold.run, "claims": hold.controller})
        if hold.lease is not None:
            hold.lease.cancel()
        hold.over.set()
        self._note_change()
        for events in hold.connections:
            events.put_nowait(None)
