"""The collectors of an experiment on a host: sockets, queues, counters of TCP, CPU, captures."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from netesto.collectors.base import Collector
from netesto.collectors.capture import Capture
from netesto.collectors.clock import Clock
from netesto.collectors.cpu import CpuCollector
from netesto.collectors.links import LinkCollector
from netesto.collectors.sampler import SocketCollector, SocketSampler
from netesto.collectors.tcpcounters import TcpCounters
from netesto.model import MANY_CONNECTIONS, Address, CaptureRequest


class Observation:
    """The collectors of one experiment, begun and ended together; they write into `folder`.

    Each sampling interval that groups ask for has its own file: `sockets.bin.gz`,
    `sockets.2.bin.gz` …
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        sampler: SocketSampler,
        *,
        on_warning: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._sampler = sampler
        self._clock = clock
        self._on_warning = on_warning
        self._sockets: dict[float, SocketCollector] = {}
        self._links: LinkCollector | None = None
        self._captures: list[Capture] = []
        self._counters: list[Collector] = []
        self._turn = asyncio.Lock()

    async def watch(self, ports: Iterable[int], interval_s: float, *, test: str) -> None:
        """Sample the sockets of these ports from now on; the first call begins all observation."""
        async with self._turn:
            await self._begin()
            if interval_s not in self._sockets:
                number = f".{len(self._sockets) + 1}" if self._sockets else ""
                path = self._folder / f"sockets{number}.bin.gz"
                collector = SocketCollector(
                    path, self._clock, interval_s, self._sampler, on_warning=self._on_warning
                )
                self._sockets[interval_s] = collector
                await collector.start()
            self._sockets[interval_s].watch(ports, to_the_end=test not in MANY_CONNECTIONS)

    def unwatch(self, ports: Iterable[int], interval_s: float) -> None:
        """Stop sampling these sockets."""
        if interval_s in self._sockets:
            self._sockets[interval_s].unwatch(ports)

    async def watch_interface(self, group: int, peer: Address, interval_s: float) -> None:
        """Sample the interface that leads to a group's `peer`, and its queues, from now on; at the
        interval of the first group here."""
        async with self._turn:
            (await self._sample_links(interval_s)).watch(group, peer)

    async def watch_node(self, node: str, namespace: str, interval_s: float) -> None:
        """Sample all interfaces and queues of another node of a lab from now on."""
        async with self._turn:
            (await self._sample_links(interval_s)).watch_node(node, namespace)

    async def _sample_links(self, interval_s: float) -> LinkCollector:
        if self._links is None:
            path = self._folder / "links.jsonl.gz"
            self._links = LinkCollector(path, self._clock, interval_s, on_warning=self._on_warning)
            await self._links.start()
        return self._links

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
        for kind, name in ((CpuCollector, "cpu.jsonl"), (TcpCounters, "tcp.jsonl")):
            path = self._folder / name
            self._counters.append(kind(path, self._clock, on_warning=self._on_warning))
        for collector in (*self._counters, *self._captures):
            await collector.start()


async def _stop(collectors: Iterable[Collector]) -> None:
    await asyncio.gather(*(collector.stop() for collector in collectors))
