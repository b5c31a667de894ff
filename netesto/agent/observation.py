"""The collectors of an experiment on a host: sockets, queues, CPU, counters, captures."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from netesto.collectors.base import Collector
from netesto.collectors.capture import CaptureCollector
from netesto.collectors.clock import Clock
from netesto.collectors.counters import COUNTERS
from netesto.collectors.ping import PingCollector
from netesto.collectors.sampler import Sampled, Sampler, SocketCollector
from netesto.flowspec import MANY_CONNECTIONS
from netesto.model import Address, CaptureRequest

C = TypeVar("C", bound=Sampled)

# How often the states of cores and counters are sampled.
COUNTERS_S = 1.0


class Observation:
    """The collectors of one experiment, begun and ended together; they write into `folder`.

    Each sampling interval that groups ask for has its own file: `sockets.bin.gz`,
    `sockets.2.bin.gz` … `on_loss` is called if a collector ended early.
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
        self._captures: list[CaptureCollector] = []
        self._counters: list[Sampled] = []
        # Pending until the first flow that does not wait for START_FLOWS, or has its start instant.
        self._is_held = True
        # By destination, with the number of groups that use them.
        self._pings: dict[Address, PingCollector] = {}
        self._pinging: Counter[Address] = Counter()
        self._turn = asyncio.Lock()

    async def watch(
        self, ports: Iterable[int], interval_s: float, *, test: str, is_held: bool
    ) -> None:
        """Sample the sockets of these ports from now on, or (`is_held`) from `begin` on. The first
        call opens all files."""
        async with self._turn:
            if not is_held:
                self.begin(time.monotonic_ns())
            await self._begin()
            if interval_s not in self._sockets:
                number = f".{len(self._sockets) + 1}" if self._sockets else ""
                collector = self._collector(SocketCollector, f"sockets{number}.bin.gz", interval_s)
                self._sockets[interval_s] = collector
                await collector.start()
            self._sockets[interval_s].watch_ports(ports, to_the_end=test not in MANY_CONNECTIONS)

    def begin(self, first_tick_ns: int) -> None:
        """Sample from this instant of the monotonic clock on, unless samples are taken already."""
        if self._is_held:
            self._is_held = False
            for sampled in self._samplers:
                sampled.begin(first_tick_ns)

    @property
    def _samplers(self) -> tuple[Sampled, ...]:
        links = () if self._links is None else (self._links,)
        return (*self._sockets.values(), *links, *self._counters)

    def unwatch(self, ports: Iterable[int], interval_s: float) -> None:
        """Stop sampling these sockets."""
        if interval_s in self._sockets:
            self._sockets[interval_s].unwatch(ports)

    async def watch_links(self, interval_s: float, **what: object) -> None:
        """Sample interfaces and their queues from now on, at the interval of the first call: the
        one that leads to the `peer` of a `group`, or all in the `namespace` of another `node` of a
        lab."""
        async with self._turn:
            if self._links is not None:
                self._links.watch(**what)
                return
            # Before its first tick, which comes at once.
            self._links = self._collector(Sampled, "links.jsonl.gz", interval_s)
            self._links.watch(**what)
            await self._links.start()

    def _collector(self, kind: Callable[..., C], name: str, interval_s: float) -> C:
        return kind(
            self._folder / name,
            self._clock,
            interval_s,
            self._sampler,
            is_held=self._is_held,
            on_warning=self._on_warning,
            on_loss=self._on_loss,
        )

    @contextlib.asynccontextmanager
    async def pinging(self, group: int, destination: Address) -> AsyncIterator[None]:
        """Ping a host while the body runs. All groups share one ping: `ping.G.out` of the first of
        them."""
        self._pinging[destination] += 1
        try:
            async with self._turn:
                if destination not in self._pings:
                    path = self._folder / f"ping.{group}.out"
                    collector = PingCollector(path, destination, on_warning=self._on_warning)
                    self._pings[destination] = collector
                    await collector.start()
            yield
        finally:
            self._pinging[destination] -= 1
            if not self._pinging[destination] and destination in self._pings:
                await self._pings.pop(destination).stop()

    async def add_capture(self, request: CaptureRequest, device: str, *, most_bytes: float) -> None:
        """Capture from the first watched flow on; from now on if there was one. The file stays
        below `most_bytes`."""
        async with self._turn:
            path = self._folder / f"capture.{len(self._captures) + 1}.pcap"
            capture = CaptureCollector(
                path, request, device, most_bytes, on_warning=self._on_warning
            )
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
            await _stop([*self._captures, *self._samplers])

    async def _begin(self) -> None:
        if self._counters:
            return
        for name in ("cpu", *COUNTERS):
            self._counters.append(self._collector(Sampled, f"{name}.jsonl", COUNTERS_S))
        for collector in (*self._counters, *self._captures):
            await collector.start()


async def _stop(collectors: Iterable[Collector]) -> None:
    await asyncio.gather(*(collector.stop() for collector in collectors))
