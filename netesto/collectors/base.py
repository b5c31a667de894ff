"""What all collectors share: how they begin, end, keep their ticks, and tell what went wrong."""

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
    """Observes one source while a flow runs, and keeps what it saw in a file.

    What goes wrong never raises: it is added to `errors` and told to `on_warning`, each thing once.
    """

    def __init__(self, *, on_warning: Warn | None = None) -> None:
        self.errors: list[str] = []
        self._on_warning = on_warning

    @abstractmethod
    async def start(self) -> None:
        """Begin; a collector begins once. Returns when it observes."""

    @abstractmethod
    async def stop(self) -> None:
        """End; its files are complete after. May come twice, and without `start`."""

    def _warn(self, message: str) -> None:
        if message in self.errors:
            return
        self.errors.append(message)
        if self._on_warning is not None:
            self._on_warning(message)


class Sampler(Collector):
    """A collector that looks once at every tick and appends what it saw to `path`.

    Ticks stand at fixed instants, `interval_s` apart from the start on, so that lateness does not
    add up. A late look keeps the time it was made at; a tick that was missed leaves nothing.
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
        """Look now; what is to be appended to the file, nothing if there is nothing to tell."""

    def _last(self) -> bytes:
        """What is still to be appended when the ticks are over."""
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
            file.write(seen)
        except OSError as error:
            self._warn(f"{self._path.name}: {error.strerror}")
            return False
        return True


async def ticks(interval_s: float, stopped: asyncio.Event) -> AsyncIterator[int]:
    """Numbers of ticks, from 0 at once, each at its fixed instant, until `stopped` is set.

    Ticks that passed while the caller was busy are left out.
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
    """The tick after `tick` that is not over yet when `elapsed` intervals have passed."""
    return max(tick + 1, math.ceil(elapsed))
