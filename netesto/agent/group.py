"""One DO_CLIENT at its client: its flows start at one instant, observed from before to after."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path

from netesto import process
from netesto.agent import spool
from netesto.agent.jobs import Emit, Flow
from netesto.agent.observation import Observation
from netesto.collectors import hostfacts
from netesto.collectors.clock import Clock
from netesto.collectors.ping import PingCollector
from netesto.errors import ProcessError
from netesto.model import GroupRequest, Ports
from netesto.traffic.base import Tool

# Flushing metrics, the first ss and ping take some 50 ms; they begin this long before the instant.
PREPARATION_S = 0.1

_FLUSH_TIMEOUT_S = 2.0


class Group:
    """The flows of `request`, to start at `asked_start_s`; writes `group.G.json`, `ping.G.out`."""

    def __init__(
        self,
        request: GroupRequest,
        ports: Ports,
        *,
        asked_start_s: float,
        tool: Tool,
        version: str,
        folder: Path,
        device: str,
        clock: Clock,
        observation: Observation,
        emit: Emit,
    ) -> None:
        self.number = request.group
        self.wants_stats = request.stats
        self._request = request
        self._ports = ports
        self._asked_start_s = asked_start_s
        self._folder = folder
        self._device = device
        self._clock = clock
        self._observation = observation
        self._emit = emit
        self._flows = [
            Flow(
                request,
                ports,
                instance,
                asked_start_s=asked_start_s,
                tool=tool,
                version=version,
                folder=folder,
                clock=clock,
                emit=emit,
            )
            for instance in range(1, request.instances + 1)
        ]

    async def run(self, why_ended: Callable[[], str]) -> None:
        """Run all flows to their ends. Cancelled, it ends them; `why_ended` tells the reason."""
        try:
            await self._until(self._asked_start_s - PREPARATION_S)
            async with self._observed():
                await self._until(self._asked_start_s)
                async with asyncio.TaskGroup() as tasks:
                    for flow in self._flows:
                        tasks.create_task(flow.run())
        except asyncio.CancelledError:
            self._give_up(why_ended())
            raise
        except OSError as error:
            self._give_up(f"the group's files cannot be kept: {error.strerror}")
        finally:
            self._give_up("fault in the agent; its log has the details")

    def _give_up(self, reason: str) -> None:
        """Flows that are not over have failed, for this reason."""
        for flow in self._flows:
            flow.give_up(reason)

    @contextlib.asynccontextmanager
    async def _observed(self) -> AsyncIterator[None]:
        """Everything that observes this group alone, and what its path remembers forgotten."""
        await self._flush_metrics()
        ports, interval_s = self._ports.data, self._request.interval_s
        ping = PingCollector(
            self._folder / f"ping.{self.number}.out",
            self._clock,
            self._request.server_address,
            on_warning=self._warn,
        )
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(ping.stop)
            stack.callback(self._observation.unwatch, ports, interval_s)
            await self._observation.watch(ports, interval_s, test=self._request.test)
            await ping.start()
            before = hostfacts.interface_counters(self._device)
            self._write(before, None)
            # The last one in is the first one out: the counters are read when the flows end.
            stack.callback(self._write_after, before)
            yield

    async def _flush_metrics(self) -> None:
        """What the kernel learnt of the path from earlier flows would help this one."""
        try:
            await process.run_async(["ip", "tcp_metrics", "flush"], timeout=_FLUSH_TIMEOUT_S)
        except ProcessError as error:
            self._warn(f"TCP metrics of earlier flows were not flushed: {error}")

    async def _until(self, instant_s: float) -> None:
        await asyncio.sleep(instant_s - self._clock.now())

    def _write_after(self, before: dict[str, int]) -> None:
        self._write(before, hostfacts.interface_counters(self._device))

    def _write(self, before: dict[str, int], after: dict[str, int] | None) -> None:
        record = {
            "request": asdict(self._request),
            "ports": asdict(self._ports),
            "asked_start_s": self._asked_start_s,
            "device": self._device,
            "counters_before": before,
            "counters_after": after,
        }
        spool.write_json(self._folder / f"group.{self.number}.json", record)

    def _warn(self, text: str) -> None:
        self._emit("warning", exp=self._request.exp, group=self.number, text=text)
