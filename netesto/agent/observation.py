"""The collectors of an experiment on a host: sockets, CPU, captures."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from netesto.collectors.base import Collector
from netesto.collectors.capture import Capture
from netesto.collectors.clock import Clock
from netesto.collectors.cpu import CpuCollector
from netesto.collectors.sockets import SocketCollector
from netesto.model import MANY_CONNECTIONS, CaptureRequest


class Observation:
    """The collectors of one experiment, begun and ended together; they write into `folder`.

    Each sampling interval that groups ask for has its own file: `sockets.bin.gz`,
    `sockets.2.bin.gz` …
    """

    def __init__(self, folder: Path, clock: Clock, *, on_warning: Callable[[str], None]) -> None:
        self._folder = folder
        self._clock = clock
        self._on_warning = on_warning
        self._sockets: dict[float, SocketCollector] = {}
        self._captures: list[Capture] = []
        self._cpu: CpuCollector | None = None
        self._turn = asyncio.Lock()

    async def watch(self, ports: Iterable[int], interval_s: float, *, test: str) -> None:
        """Sample the sockets of these ports from now on; the first call begins all observation."""
        async with self._turn:
            await self._begin()
            if interval_s not in self._sockets:
                number = f".{len(self._sockets) + 1}" if self._sockets else ""
                path = self._folder / f"sockets{number}.bin.gz"
                collector = SocketCollector(
                    path, self._clock, interval_s, on_warning=self._on_warning
                )
                self._sockets[interval_s] = collector
                await collector.start()
            self._sockets[interval_s].watch(ports, to_the_end=test not in MANY_CONNECTIONS)

    def unwatch(self, ports: Iterable[int], interval_s: float) -> None:
        """Stop sampling these sockets."""
        if interval_s in self._sockets:
            self._sockets[interval_s].unwatch(ports)

    async def add_capture(self, request: CaptureRequest, device: str) -> None:
        """Capture from the first watched flow on; from now on if there was one."""
        async with self._turn:
            path = self._folder / f"capture.{len(self._captures) + 1}.pcap"
            capture = Capture(path, request, device, on_warning=self._on_warning)
            self._captures.append(capture)
            if self._cpu is not None:
                await capture.start()

    async def end_captures(self) -> None:
        """End the captures alone."""
        async with self._turn:
            await _stop(self._captures)

    async def end(self) -> None:
        """End everything; the files are then complete."""
        async with self._turn:
            if self._cpu is None and self._captures:
                self._on_warning("no flow ran here: the capture did not begin")
            cpu = [] if self._cpu is None else [self._cpu]
            await _stop([*self._captures, *self._sockets.values(), *cpu])

    async def _begin(self) -> None:
        if self._cpu is not None:
            return
        self._cpu = CpuCollector(
            self._folder / "cpu.jsonl", self._clock, on_warning=self._on_warning
        )
        await self._cpu.start()
        for capture in self._captures:
            await capture.start()


async def _stop(collectors: Iterable[Collector]) -> None:
    await asyncio.gather(*(collector.stop() for collector in collectors))
