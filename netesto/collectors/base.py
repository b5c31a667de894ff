"""What all collectors have in common: start and stop, ticks, and warnings."""

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

from netesto.collectors.clock import Clock

Warn = Callable[[str], None]


class Collector(ABC):
    """Observes one source while a flow runs, and writes a file.

    Failures do not raise: each is added to `errors` and reported to `on_warning` once.
    """

    def __init__(self, *, on_warning: Warn | None = None) -> None:
        self.errors: list[str] = []
        self._on_warning = on_warning

    @abstractmethod
    async def start(self) -> None:
        """Begin; returns when it observes. May be called once."""

    @abstractmethod
    async def stop(self) -> None:
        """End; its files are complete then. May be called twice, and without `start`."""

    def _warn(self, message: str) -> None:
        if message in self.errors:
            return
        self.errors.append(message)
        if self._on_warning is not None:
            self._on_warning(message)


class Sampler(Collector):
    """A collector that takes a sample at every tick and appends it to `path`.

    Ticks are at fixed instants, `interval_s` apart from the start on, so that delays do not add up.
    A delayed sample has the time at which it was taken; a missed tick has none.
    """

    def __init__(
        self, path: Path, clock: Clock, interval_s: float, *, on_warning: Warn | None = None
    ) -> None:
        super().__init__(on_warning=on_warning)
        self._path = path
        self._clock = clock
        self._interval_s = interval_s
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def _look(self) -> bytes:
        """Take a sample; the bytes to append to the file."""

    def _last(self) -> bytes:
        """The bytes to append after the last tick."""
        return b""

    async def start(self) -> None:
        try:
            file = self._path.open("ab", buffering=0)
        except OSError as error:
            self._warn(f"{self._path.name}: {error.strerror}")
            return
        self._task = asyncio.create_task(self._run(file))

    async def stop(self) -> None:
        self._stopped.set()
        if self._task is not None:
            await self._task

    async def _run(self, file: BinaryIO) -> None:
        with file:
            async for _ in ticks(self._interval_s, self._stopped):
                if not self._keep(file, await self._look()):
                    return
            self._keep(file, self._last())

    def _keep(self, file: BinaryIO, seen: bytes) -> bool:
        try:
            # A full disk takes a part, and refuses the next.
            while seen:
                seen = seen[file.write(seen) :]
        except OSError as error:
            self._warn(f"{self._path.name}: {error.strerror}")
            return False
        return True


async def ticks(interval_s: float, stopped: asyncio.Event) -> AsyncIterator[int]:
    """Yield the numbers of ticks, each at its fixed instant, until `stopped` is set; 0 at once.

    Ticks that passed while the caller was busy are omitted.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time()
    tick = 0
    while not stopped.is_set():
        yield tick
        tick = next_tick(tick, (loop.time() - begin) / interval_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(begin + tick * interval_s):
                await stopped.wait()


def next_tick(tick: int, elapsed: float) -> int:
    """The first tick after `tick` that is not over when `elapsed` intervals have passed."""
    return max(tick + 1, math.ceil(elapsed))
