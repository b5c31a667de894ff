"""The collectors of an experiment on a host: sockets, queues, counters of TCP, CPU, captures."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from netesto.collectors.base import Collector
from netesto.collectors.capture import Capture
from netesto.collectors.clock import Clock
from netesto.collectors.ping import PingCollector
from netesto.collectors.sampler import Sampled, Sampler, SocketCollector
from netesto.model import MANY_CONNECTIONS, Address, CaptureRequest

C = TypeVar("C", bound=Sampled)

# How often the states of cores and the counters of TCP are sampled.
COUNTERS_S = 1.0


class Observation:
    """The collectors of one experiment, begun and ended together; they write into `folder`.

    Each sampling interval that groups ask for has its own file: `sockets.bin.gz`,
    `sockets.2.bin.gz` … `on_loss` hears what was not measured to the end.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        sampler: Sampler,
        *,
        on_warning: Callable[[str], None],
        on_loss: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._sampler = sampler
        self._on_warning = on_warning
        self._on_loss = on_loss
        self._sockets: dict[float, SocketCollector] = {}
        self._links: Sampled | None = None
        self._captures: list[Capture] = []
        self._counters: list[Collector] = []
        # By destination, with the number of groups that use them.
        self._pings: dict[Address, PingCollector] = {}
        self._pinging: Counter[Address] = Counter()
        self._turn = asyncio.Lock()

    async def watch(self, ports: Iterable[int], interval_s: float, *, test: str) -> None:
        """Sample the sockets of these ports from now on; the first call begins all observation."""
        async with self._turn:
            await self._begin()
            if interval_s not in self._sockets:
                number = f".{len(self._sockets) + 1}" if self._sockets else ""
                collector = self._collector(SocketCollector, f"sockets{number}.bin.gz", interval_s)
                self._sockets[interval_s] = collector
                await collector.start()
            self._sockets[interval_s].watch_ports(ports, to_the_end=test not in MANY_CONNECTIONS)

    def unwatch(self, ports: Iterable[int], interval_s: float) -> None:
        """Stop sampling these sockets."""
        if interval_s in self._sockets:
            self._sockets[interval_s].unwatch(ports)

    async def watch_interface(self, group: int, peer: Address, interval_s: float) -> None:
        """Sample the interface that leads to a group's `peer`, and its queues, from now on; at the
        interval of the first group here."""
        await self._watch_links(interval_s, group=group, peer=str(peer))

    async def watch_node(self, node: str, namespace: str, interval_s: float) -> None:
        """Sample all interfaces and queues of another node of a lab from now on."""
        await self._watch_links(interval_s, node=node, namespace=namespace)

    async def _watch_links(self, interval_s: float, **what: object) -> None:
        async with self._turn:
            if self._links is not None:
                self._links.watch(**what)
                return
            # Before its first tick, which comes at once.
            self._links = self._collector(partial(Sampled, "links"), "links.jsonl.gz", interval_s)
            self._links.watch(**what)
            await self._links.start()

    def _collector(self, kind: Callable[..., C], name: str, interval_s: float) -> C:
        return kind(
            self._folder / name,
            self._clock,
            interval_s,
            self._sampler,
            on_warning=self._on_warning,
            on_loss=self._on_loss,
        )

    @contextlib.asynccontextmanager
    async def pinging(self, group: int, destination: Address) -> AsyncIterator[None]:
        """Ping a host while the body runs, once for all groups that do: `ping.G.out` of the first
        of them."""
        self._pinging[destination] += 1
        try:
            async with self._turn:
                if destination not in self._pings:
                    path = self._folder / f"ping.{group}.out"
                    collector = PingCollector(
                        path, self._clock, destination, on_warning=self._on_warning
                    )
                    self._pings[destination] = collector
                    await collector.start()
            yield
        finally:
            self._pinging[destination] -= 1
            if not self._pinging[destination] and destination in self._pings:
                await self._pings.pop(destination).stop()

    async def add_capture(self, request: CaptureRequest, device: str) -> None:
        """Capture from the first watched flow on; from now on if there was one."""
        async with self._turn:
            path = self._folder / f"capture.{len(self._captures) + 1}.pcap"
            capture = Capture(path, request, device, on_warning=self._on_warning)
            self._captures.append(capture)
            if self._counters:
                await capture.start()

    async def end_captures(self) -> None:
        """End the captures alone."""
        async with self._turn:
            await _stop(self._captures)

    async def end(self) -> None:
        """End everything; the files are then complete."""
        async with self._turn:
            if self._captures and not self._counters:
                self._on_warning("no flow ran here: the capture did not begin")
            links = [] if self._links is None else [self._links]
            samplers = (*self._sockets.values(), *links, *self._counters)
            await _stop([*self._captures, *samplers])

    async def _begin(self) -> None:
        if self._counters:
            return
        for kind in ("cpu", "tcp"):
            sampled = partial(Sampled, kind)
            self._counters.append(self._collector(sampled, f"{kind}.jsonl", COUNTERS_S))
        for collector in (*self._counters, *self._captures):
            await collector.start()


async def _stop(collectors: Iterable[Collector]) -> None:
    await asyncio.gather(*(collector.stop() for collector in collectors))
