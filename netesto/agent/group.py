"""One DO_CLIENT at its client: its flows start at one instant, and are observed from before it
until after their end."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from netesto.agent import routes, spool
from netesto.agent.jobs import FlowJob, Start
from netesto.agent.observation import Observation
from netesto.collectors import hostfacts
from netesto.flowspec import TRACE_TESTS
from netesto.model import Event
from netesto.traces import played
from netesto.transport import channel
from netesto.transport.codec import members

# The first samples and ping take some 50 ms; they begin this long before the instant. Where many
# hosts share one machine they begin up to so much earlier for each pace (transport.channel).
PREPARATION_S = 0.1
EACH_PACE_S = 0.05

# For a tool that connects before its start: the path may be long.
CONNECTION_S = 0.5


def preparation_s(host: str, machine_hosts: int) -> float:
    """How long before START_FLOWS' instant a host begins to take samples. Each of a large lab does
    at another moment: all at once would keep their machine from starting the flows."""
    share = zlib.crc32(host.encode()) / 2**32
    return PREPARATION_S + EACH_PACE_S * (channel.pace(machine_hosts) - 1) * share


class GroupJob:
    """The flows of a DO_CLIENT, through `device`; writes `group.G.json`."""

    def __init__(self, start: Start, *, device: str, observation: Observation) -> None:
        self.request = start.request
        self._start = start
        self._device = device
        self._mtu_bytes: int | None = None
        self._observation = observation
        # If the start is not known yet, prepare now, unless the delay leaves enough time.
        self._is_made_ready = (
            not start.begins.done() and start.request.delay_s <= PREPARATION_S + CONNECTION_S
        )
        *instants_s, _ = start.request.staggered_s
        self._flows = [
            FlowJob(start, number + 1, late_s) for number, late_s in enumerate(instants_s)
        ]

    async def run(self, why_ended: Callable[[], str]) -> None:
        """Run all flows to their ends. If cancelled, end them with the reason `why_ended()`."""
        try:
            connection_s = CONNECTION_S if self._start.tool.connects_early else 0.0
            if not self._is_made_ready:
                self._tell_ready()
                await self._before_start(PREPARATION_S + max(connection_s, self.request.idle_s))
            async with self._observed():
                if not self._is_made_ready:
                    await self._before_start(PREPARATION_S + connection_s)
                async with asyncio.TaskGroup() as tasks:
                    for flow in self._flows:
                        tasks.create_task(flow.run())
                    await asyncio.wait({flow.ready for flow in self._flows})
                    if self._is_made_ready:
                        self._tell_ready()
        except asyncio.CancelledError:
            self.give_up(why_ended())
            raise
        except OSError as error:
            self.give_up(f"the group's files cannot be kept: {error.strerror}")
        finally:
            self.give_up("internal error in the agent; its log has the details")

    def give_up(self, reason: str) -> None:
        """Fail the flows that are not over with this reason."""
        for flow in self._flows:
            flow.give_up(reason)

    @contextlib.asynccontextmanager
    async def _observed(self) -> AsyncIterator[None]:
        """Flush the path's TCP metrics, and observe the group while the body runs."""
        self._forget_paths()
        self._keep_trace()
        ports, interval_s = self._start.ports.data, self.request.interval_s
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._observation.unwatch, ports, interval_s)
            await self._observation.watch(
                ports, interval_s, test=self.request.test, is_held=self._is_made_ready
            )
            await self._observation.watch_links(
                interval_s, group=self.request.group, peer=str(self.request.server_address)
            )
            # Pings would take a share of slow links, and requests would wait for them.
            if self.request.test not in TRACE_TESTS:
                pinging = self._observation.pinging(self.request.group, self.request.server_address)
                await stack.enter_async_context(pinging)
            self._mtu_bytes = hostfacts.mtu_bytes(self._device)
            before = hostfacts.interface_counters(self._device)
            self._write(before, None)
            # The counters are read when the flows end.
            try:
                yield
            finally:
                self._write(before, hostfacts.interface_counters(self._device))
            await asyncio.sleep(self.request.idle_s)

    def _forget_paths(self) -> None:
        """Make the kernel forget what it learnt about the path from earlier flows."""
        try:
            routes.forget()
        except OSError as error:
            self._warn(f"TCP metrics of earlier flows were not flushed: {error.strerror}")

    def _keep_trace(self) -> None:
        """The file that the process of a trace reads: its peers, and what it does."""
        if self.request.test in TRACE_TESTS:
            part = played.read(self.request.trace)
            ports = self._start.ports
            peers = zip(part.peers, part.addresses, ports.control, ports.data, strict=True)
            lines = (f"P {' '.join(map(str, peer))}\n" for peer in peers)
            path = self._start.folder / f"trace.{self.request.group}.txt"
            path.write_text("".join(lines) + part.lines, encoding="utf-8")

    def _tell_ready(self) -> None:
        now_s, of = self._start.clock.now(), self.request
        if not self._start.begins.done():
            self._start.emit(Event(time_s=now_s, kind="ready", exp=of.exp, group=of.group))

    async def _before_start(self, seconds: float) -> None:
        start_s = await self._start.start_s()
        await asyncio.sleep(start_s - seconds - self._start.clock.now())

    def _write(self, before: dict[str, int], after: dict[str, int] | None) -> None:
        record = {
            "request": members(replace(self.request, trace="")),
            "ports": members(self._start.ports),
            "asked_start_s": self._start.known_start_s,
            "device": self._device,
            "mtu_bytes": self._mtu_bytes,
            "counters_before": before,
            "counters_after": after,
        }
        spool.write_json(self._start.folder / f"group.{self.request.group}.json", record)

    def _warn(self, text: str) -> None:
        now_s, of = self._start.clock.now(), self.request
        self._start.emit(Event(time_s=now_s, kind="warning", exp=of.exp, group=of.group, text=text))
