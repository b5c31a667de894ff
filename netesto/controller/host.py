"""A host of a run: its agent, which is held, its clock, its settings and its events.

    opening ──► open ──connection cut─────────► cut ──joined again──► open
                  ▲                              │ the hold is over there, or 60 s have passed
                  └──held again, settings made── lost ──a repeated command failed──► given up

While it is cut nothing is lost, and calls wait. Once it is lost, its work for the run is over; the
controller tries to hold it again until the run ends, or until a repeated command, or a setting
after it, has failed: commands would run again with each attempt.
"""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol, TypeAlias

from netesto.collectors.clock import Clock, ClockTrack, Exchange
from netesto.errors import (
    AgentError,
    ConnectionLostError,
    HoldEndedError,
    MissingError,
    NetestoError,
)
from netesto.hostsettings import Applied, Command, Setting
from netesto.language import steps
from netesto.language.standing import Standing
from netesto.model import (
    SAME_CLOCK,
    Address,
    ClockOffset,
    Endpoint,
    Event,
    FinishedExperiment,
    HostInfo,
    HostState,
    TimeSync,
)
from netesto.results.manifest import SettingRecord
from netesto.transport.base import Agent, Connection

log = logging.getLogger(__name__)

# Connects to an agent; leaving the context closes the connection.
Connect: TypeAlias = Callable[[Endpoint], Awaitable[AbstractAsyncContextManager[Connection]]]

# The fastest of a few probes bounds the offset; on an idle path, more probes add little.
CLOCK_PROBES = 5

# Between two bursts: clocks with the maximum adjustment drift by 5 ms in this time.
CLOCK_INTERVAL_S = 5.0

# How long to wait for a lost agent, from the cut on: the restart of a service takes seconds.
RETURN_S = 60.0

# Between two attempts to hold a lost agent again.
RETRY_S = 0.5


class HostListener(Protocol):
    """Gets what happens at the hosts of a run."""

    def on_event(self, host: "HostConnection", event: Event) -> None:
        """An event of the agent; its events come in order."""

    def on_lost(self, host: "HostConnection", reason: str) -> None:
        """The agent is lost."""

    def on_cut(self, host: "HostConnection", reason: str) -> None:
        """The connection is cut; or, if the reason is "", restored without loss."""

    def on_back(self, host: "HostConnection") -> None:
        """The agent is held again, with its settings."""


class HostConnection:
    """A held agent. `listener` gets what happens to it. `shares_clock`: the agent has `clock`,
    too."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect: Connect,
        clock: Clock,
        listener: HostListener,
        shares_clock: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.name = endpoint.host
        self.offset = SAME_CLOCK
        self.settings: list[SettingRecord] = []
        # Commands that ran again since the agent was lost last.
        self.ran_again: list[str] = []
        self.time_sync: TimeSync | None = None
        self.lost: str | None = None
        # How often it was lost.
        self.losses = 0
        # Whether EXIT ends the agent: its loss is expected.
        self.is_dismissed = False
        # When the last cut ended, on the controller's clock.
        self.joined_s = 0.0
        self._connect = connect
        self._clock = clock
        self._shares_clock = shares_clock
        self._stack = contextlib.AsyncExitStack()
        self._listener = listener
        self._agent: Connection | None = None
        self._info: HostInfo | None = None
        # Of the flows of the run.
        self._peers: tuple[Address, ...] = ()
        self._run = self._ticket = ""
        self._reader: asyncio.Task[None] | None = None
        self._track = ClockTrack()
        self._tracker: asyncio.Task[None] | None = None
        # The settings of the run, by their targets.
        self._wanted = Standing[tuple[Setting, ...]]()
        # The first of each target that is to be put back, and the last.
        self._first: dict[str, Applied] = {}
        self._last: dict[str, Applied] = {}
        self._lost_at_s = 0.0
        # Why the last attempt to hold it again failed.
        self._why_not = ""
        # When the present cut began; None: there is none.
        self._cut_at_s: float | None = None
        self._is_there = asyncio.Event()
        self._given_up = asyncio.Event()

    @property
    def agent(self) -> Connection:
        """The agent. AgentError if it is lost."""
        if self._agent is None or self.lost is not None:
            raise AgentError(self.lost or "not connected", host=self.name)
        return self._agent

    @property
    def info(self) -> HostInfo:
        """The host's facts and capabilities."""
        if self._info is None:
            raise AgentError("not connected", host=self.name)
        return self._info

    @property
    def identity(self) -> str:
        """Of the agent; "" if it is unknown."""
        return "" if self._info is None else self._info.identity

    @property
    def is_cut(self) -> bool:
        """Whether the connection is cut at present; nothing may be lost."""
        return self.lost is None and self._agent is not None and self._agent.is_cut

    async def open(self, *, run: str, ticket: str = "") -> None:
        """Connect, take the agent, measure its clock. AgentError if any of it fails.

        Others who request the agent get `run` and the holder's name. `ticket` is for our place in
        its queue.
        """
        self._run, self._ticket = run, ticket
        events = await self._take()
        self._reader = asyncio.create_task(self._live(events))
        try:
            await self._first_burst(self.agent)
        except AgentError:
            if self.lost is None:
                raise
            raise AgentError(self.lost, host=self.name) from None
        if not self._shares_clock:
            self._tracker = asyncio.create_task(self._follow_clock())

    async def ready(self) -> None:
        """Wait for the end of a cut, or for a lost agent's return. AgentError if it is not back
        in time."""
        if self.is_cut:
            # At its end the agent may be lost, with this call.
            with contextlib.suppress(AgentError):
                await self.agent.probe_clock()
        if self.lost is None or self._given_up.is_set():
            return
        try:
            await asyncio.wait_for(self._is_there.wait(), self.awaited_s)
        except TimeoutError:
            # It says more than the first reason, such as that the host is not reached at all.
            self.lost = f"agent lost: {self._why_not}" if self._why_not else self.lost

    @property
    def awaited_s(self) -> float:
        """How much longer the return of a lost agent is waited for."""
        return max(0.0, self._lost_at_s + RETURN_S - self._clock.now())

    async def examine(self, peers: Sequence[Address]) -> HostState:
        """The state of the host, which from now on tests through the interface that leads to
        `peers`. AgentError if the agent does not answer."""
        self._peers = tuple(peers)
        return await self._examine(self.agent)

    async def _examine(self, agent: Connection) -> HostState:
        state = await agent.examine(self._peers, for_run=True)
        self._info = replace(self.info, device=state.device or self.info.device)
        return state

    async def configure(self, command: steps.Configure) -> None:
        """Make settings, and make them again whenever a lost agent is back. AgentError if the host
        refuses one."""
        earlier = self._wanted.copy()
        self._wanted.add(command, command.settings, command.settings)
        try:
            await self.ready()
            for setting in command.settings:
                await self._make(self.agent, setting)
        except (ConnectionLostError, HoldEndedError):
            await self.ready()
        except (AgentError, MissingError) as error:
            if self.lost is None or isinstance(error, MissingError):
                # An agent that refuses it would refuse it again.
                self._wanted = earlier
                raise
            # The loss may be noticed elsewhere first: the script continues when the setting is made
            # again.
            await self.ready()

    async def _make(self, agent: Connection, setting: Setting, *, why: str = "") -> Applied:
        made_s = self._clock.now()
        try:
            applied = await agent.configure(setting)
        except AgentError as error:
            is_lost = isinstance(error, (ConnectionLostError, HoldEndedError))
            if isinstance(setting, Command) and (is_lost or (self.lost is not None and not why)):
                # It may have begun.
                after = f"not known: {error.message}"
                self.settings.append(SettingRecord(setting, "", after, made_s=made_s, why=why))
            raise
        if applied.made_s is not None:
            made_s = self.from_agent_clock(applied.made_s)
        self.settings.append(
            SettingRecord(
                applied.setting, applied.before, applied.after, made_s, applied.undo, why=why
            )
        )
        target = applied.setting.target
        if setting.keep:
            self._first.pop(target, None)
            self._last.pop(target, None)
        elif applied.undo:
            self._first.setdefault(target, applied)
            self._last[target] = applied
        return applied

    def give_up(self) -> None:
        """Stop waiting for cut connections and lost agents."""
        self._given_up.set()
        self._is_there.set()
        if self._agent is not None:
            self._agent.give_up()

    async def measure_clock(self) -> None:
        """Measure the offset of the agent's clock once more, unless that is ours or the agent does
        not answer: then bounds are larger."""
        if self._shares_clock:
            return
        with contextlib.suppress(AgentError):
            self.offset = await clock_offset(
                self.agent, self._clock, self._track, since_s=CLOCK_INTERVAL_S
            )

    async def finish(self, exp: int) -> FinishedExperiment:
        """Have the agent finish an experiment; what it has of it. Meanwhile, measure the clock once
        more and ask what synchronises it, unless it is this machine's clock."""
        finished, _ = await asyncio.gather(
            self.agent.finish(exp, with_time_sync=not self._shares_clock),
            self.measure_clock(),
        )
        if finished.time_sync is not None:
            self.time_sync = finished.time_sync
        return finished

    def clock_over(self, begin_s: float, end_s: float) -> ClockOffset:
        """The offset of the agent's clock during an experiment, as far as it was measured."""
        return self.offset if self._shares_clock else self._track.over(begin_s, end_s)

    async def _first_burst(self, agent: Connection) -> None:
        """Measure the clock of an agent that has just begun; earlier ones had another."""
        if not self._shares_clock:
            self._track = ClockTrack()
            self.offset = await clock_offset(agent, self._clock, self._track)

    async def _follow_clock(self) -> None:
        """Measure the clock for as long as the agent is held."""
        while True:
            await asyncio.sleep(CLOCK_INTERVAL_S)
            if self.lost is None and not self.is_cut:
                await self.measure_clock()

    def to_agent_clock(self, time_s: float) -> float:
        """An instant of the controller's clock, on the agent's."""
        return time_s + self.offset.at(time_s)

    def from_agent_clock(self, time_s: float) -> float:
        """An instant of the agent's clock, on the controller's."""
        return self.offset.controllers(time_s)

    async def dismiss(self) -> None:
        """End the agent."""
        self.is_dismissed = True
        # It may end before it has replied.
        with contextlib.suppress(ConnectionLostError):
            await self.agent.shut_down()

    async def close(self) -> None:
        """Release the agent; it puts its settings back. One that is cut off does so when its lease
        ends."""
        self.give_up()
        if self._tracker is not None:
            self._tracker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tracker
        if self._reader is not None:
            await self._put_back()
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        self._agent = None
        await self._stack.aclose()

    async def _put_back(self) -> None:
        """Make the agent put its settings back while it can still report which it does not."""
        try:
            for text in await self.agent.put_back():
                self.note_left(text)
        except AgentError as error:
            if not self.is_dismissed:
                self.note_unconfirmed(error.message.removeprefix(f"{self.name}: "))

    def note_unconfirmed(self, reason: str) -> None:
        """Report, if anything is set, that it may not be put back, and how to do it. A lab's
        interfaces vanish with it, and only parameters of modules stay."""
        changed = {
            target: applied
            for target, applied in self._last.items()
            if not self._shares_clock or applied.setting.is_of_machine
        }
        if not changed:
            return
        settings = "; ".join(applied.words for applied in changed.values())
        undo = "; ".join(filter(None, (self._first[target].undo for target in reversed(changed))))
        by_hand = f"; by hand: {undo}" if undo else ""
        self.note_left(
            f"did not confirm that it put its settings back ({reason}); it may still have:"
            f" {settings}. Its agent puts them back when its hold ends, or when it is started"
            f" again{by_hand}"
        )

    def note_left(self, text: str) -> None:
        """Report, as the agent does, a setting that it does not put back."""
        time_s = self.to_agent_clock(self._clock.now())
        self._listener.on_event(self, Event(time_s=time_s, kind="left", text=text))

    async def _take(self) -> AsyncGenerator[Event, None]:
        """Connect to the agent, and hold it; the events of the hold."""
        agent = await self._stack.enter_async_context(await self._connect(self.endpoint))
        agent.on_cut = self._note_cut
        # Its holder was about to end: the hold waits for that.
        self._info = replace(await agent.first_info(), holder="")
        agent.ticket = self._ticket
        events = agent.hold(holder(), self._run)
        await anext(events)
        self._agent = agent
        return events

    async def _live(self, events: AsyncGenerator[Event, None]) -> None:
        """Pass events on, from each hold after the previous one was lost."""
        while True:
            await self._read(events)
            self._is_there.clear()
            await self._stack.aclose()
            while (again := await self._retaken()) is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._given_up.wait(), RETRY_S)
                if self._given_up.is_set():
                    return
            events = again
            self.lost = None
            self._is_there.set()
            log.info("agent is back", extra={"host": self.name})
            self._listener.on_back(self)

    async def _retaken(self) -> AsyncGenerator[Event, None] | None:
        """The events of a new hold, after all settings were made again; None without one. A failure
        after commands ran is the last attempt."""
        try:
            events = await self._take()
            try:
                assert self._agent is not None, "it was just taken"
                await self._first_burst(self._agent)
                if self._peers:
                    await self._examine(self._agent)
                first = dict(self._first)
                for settings in self._wanted:
                    for setting in settings:
                        if isinstance(setting, Command):
                            self.ran_again.append(setting.words)
                        made = await self._make(self._agent, setting, why=self.lost or "")
                        before = first.pop(made.setting.target, made)
                        if before.undo != made.undo:
                            # Its journal was lost, too.
                            self.note_left(
                                f"{before.words}: was not put back when the agent was lost; to"
                                f" undo it: {before.undo}"
                            )
            except BaseException:
                # Also if the run ends meanwhile, or the host stays held until the lease ends.
                await events.aclose()
                raise
        except NetestoError as error:
            log.info("agent is not back", extra={"host": self.name, "reason": error.message})
            self._why_not = error.message.removeprefix(f"{self.name}: ")
            await self._stack.aclose()
            if self.ran_again:
                self._abandon(error)
            return None
        return events

    def _abandon(self, error: NetestoError) -> None:
        """Do not try to hold the agent again: with each attempt, commands would run again."""
        text = error.message.removeprefix(f"{self.name}: ")
        reason = f"its settings could not be made again: {text}"
        self.lost = f"{self.lost}; {reason}"
        self.give_up()
        time_s = self.to_agent_clock(self._clock.now())
        said = Event(time_s=time_s, kind="warning", text=f"not held again: {reason}")
        self._listener.on_event(self, said)

    async def _read(self, events: AsyncGenerator[Event, None]) -> None:
        """Pass events on until the hold is over."""
        try:
            # Closing the stream releases the agent, and returns when its settings are put back.
            async with contextlib.aclosing(events):
                async for event in events:
                    self._listener.on_event(self, event)
            self._lose("the agent ended")
        except HoldEndedError:
            self._lose("it was restarted, or the connection was cut for too long")
        except AgentError as error:
            self._lose(error.message.removeprefix(f"{self.name}: "))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # Nothing must wait forever for events of this host.
            log.exception("an event was not heard", extra={"host": self.name})
            self._lose(f"internal error: {type(error).__name__}: {error}")
            raise

    def _lose(self, reason: str) -> None:
        self.lost = f"agent lost: {reason}"
        self.losses += 1
        self._lost_at_s = self._clock.now() if self._cut_at_s is None else self._cut_at_s
        self._why_not = ""
        self._cut_at_s = None
        self.ran_again.clear()
        log.warning("agent lost", extra={"host": self.name, "reason": reason})
        self._listener.on_lost(self, self.lost)

    def _note_cut(self, reason: str) -> None:
        self._cut_at_s = self._clock.now() if reason else None
        if not reason:
            self.joined_s = self._clock.now()
        log.info("connection", extra={"host": self.name, "reason": reason or "there again"})
        self._listener.on_cut(self, reason.removeprefix(f"{self.name}: "))


def holder() -> str:
    """The name of the holder that others see while we hold an agent."""
    user, since = os.environ.get("USER", "root"), time.strftime("%H:%M:%S UTC", time.gmtime())
    return f"{user}@{socket.gethostname()} pid {os.getpid()} since {since}"


async def clock_offset(
    agent: Agent, clock: Clock, track: ClockTrack, *, since_s: float = 0.0
) -> ClockOffset:
    """The offset of an agent's clock from `clock`, of the last `since_s`, after some exchanges that
    `track` gets. AgentError if the agent does not answer."""
    exchanges = []
    for _ in range(CLOCK_PROBES):
        sent_s = clock.now()
        reading = await agent.probe_clock()
        exchanges.append(Exchange(sent_s, reading, clock.now()))
    track.add(exchanges)
    now_s = clock.now()
    return track.over(now_s - since_s, now_s)
