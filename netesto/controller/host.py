"""A host of a run: its agent, which is held, its clock and its events."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from netesto.collectors.clock import Clock, Exchange, offset
from netesto.errors import AgentError
from netesto.model import Applied, ClockOffset, Endpoint, Event, HostInfo
from netesto.transport.base import Agent

log = logging.getLogger(__name__)

# Connects to an agent; leaving the context closes the connection.
Connect: TypeAlias = Callable[[Endpoint], Awaitable[AbstractAsyncContextManager[Agent]]]

# The fastest of a few probes bounds the offset; on an idle path more add little.
CLOCK_PROBES = 5


class HostConnection:
    """A held agent. `on_event` gets its events in order, `on_lost` the reason why it was lost.

    `shares_clock`: its host is a namespace of this machine.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect: Connect,
        clock: Clock,
        on_event: Callable[["HostConnection", Event], None],
        on_lost: Callable[["HostConnection", str], None],
        shares_clock: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.name = endpoint.host
        self.offset = ClockOffset(0.0, 0.0)
        self.settings: list[Applied] = []
        self.lost: str | None = None
        self._connect = connect
        self._clock = clock
        self._shares_clock = shares_clock
        self._stack = contextlib.AsyncExitStack()
        self._on_event = on_event
        self._on_lost = on_lost
        self._agent: Agent | None = None
        self._info: HostInfo | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def agent(self) -> Agent:
        """The agent. AgentError if it is lost."""
        if self._agent is None or self.lost is not None:
            raise AgentError(self.lost or "not connected", host=self.name)
        return self._agent

    @property
    def info(self) -> HostInfo:
        """What the host is and can do."""
        if self._info is None:
            raise AgentError("not connected", host=self.name)
        return self._info

    async def open(self, *, run: str) -> None:
        """Connect, take the agent, measure its clock. AgentError if any of it fails.

        Others who want the agent are told `run` and who holds it.
        """
        connection = await self._connect(self.endpoint)
        self._agent = await self._stack.enter_async_context(connection)
        self._info = await self._agent.info()
        user, since = os.environ.get("USER", "root"), time.strftime("%H:%M:%S UTC", time.gmtime())
        holder = f"{user}@{socket.gethostname()} pid {os.getpid()} since {since}"
        events = self._agent.hold(holder, run)
        await anext(events)
        self._reader = asyncio.create_task(self._read(events))
        await self.measure_clock()

    async def measure_clock(self) -> None:
        """Measure the offset of the agent's clock from the controller's."""
        measured = await clock_offset(self.agent, self._clock)
        self.offset = of_one_clock(measured) if self._shares_clock else measured

    def to_agent_clock(self, time_s: float) -> float:
        """An instant of the controller's clock, on the agent's."""
        return time_s + self.offset.offset_s

    def from_agent_clock(self, time_s: float) -> float:
        """An instant of the agent's clock, on the controller's."""
        return time_s - self.offset.offset_s

    async def close(self) -> None:
        """Release the agent; it puts its settings back."""
        if self._reader is not None:
            await self._put_back()
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        self._agent = None
        await self._stack.aclose()

    async def _put_back(self) -> None:
        """Have the agent put its settings back while it can say which it does not."""
        with contextlib.suppress(AgentError):
            for text in await self.agent.put_back():
                event = Event(
                    time_s=self.to_agent_clock(self._clock.now()), kind="warning", text=text
                )
                self._on_event(self, event)

    async def _read(self, events: AsyncGenerator[Event, None]) -> None:
        try:
            # Closing the stream releases the agent, and returns when its settings are put back.
            async with contextlib.aclosing(events):
                async for event in events:
                    self._on_event(self, event)
            self._lose("the agent ended")
        except AgentError as error:
            self._lose(error.message.removeprefix(f"{self.name}: "))
        except asyncio.CancelledError:
            raise
        except BaseException:
            # Nobody must wait for ever for events of this host.
            self._lose("internal error while an event was handled")
            raise

    def _lose(self, reason: str) -> None:
        self.lost = f"agent lost: {reason}"
        log.warning("agent lost", extra={"host": self.name, "reason": reason})
        self._on_lost(self, self.lost)


async def clock_offset(agent: Agent, clock: Clock) -> ClockOffset:
    """The offset of an agent's clock from `clock`. AgentError if the agent does not answer."""
    exchanges = []
    for _ in range(CLOCK_PROBES):
        sent_s = clock.now()
        reading = await agent.probe_clock()
        exchanges.append(Exchange(sent_s, reading, clock.now()))
    return offset(exchanges)


def of_one_clock(measured: ClockOffset) -> ClockOffset:
    """The offset between two readers of the same clock: 0, unless the measurement disagrees,
    because the clock was set between their starts."""
    agrees = abs(measured.offset_s) <= measured.bound_s
    return ClockOffset(0.0, measured.bound_s) if agrees else measured
