"""The base of collectors: start and stop, files of samples, and warnings."""

import asyncio
import contextlib
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from netesto.collectors.clock import Clock
from netesto.errors import OutputError, ProcessError
from netesto.files import jsontext
from netesto.system import process

Warn = Callable[[str], None]
Parsed = TypeVar("Parsed")


@dataclass(eq=False, slots=True)
class Collector(ABC):
    """Observes one source while flows run, and writes a file.

    Failures do not raise: each is added to `errors` and reported to `on_warning` once.
    """

    errors: list[str] = field(default_factory=list, init=False)
    on_warning: Warn = field(default=lambda _: None, kw_only=True)

    @abstractmethod
    async def start(self) -> None:
        """Begin; return when it observes. May be called once."""

    @abstractmethod
    async def stop(self) -> None:
        """End, and complete the files. May be called twice, and without `start`."""

    def _warn(self, message: str) -> None:
        if message not in self.errors:
            self.errors.append(message)
            self.on_warning(message)


@dataclass(eq=False, slots=True)
class ByProgram(Collector):
    """Observes by a program, which `end_sign` ends, and whose output has the system's time."""

    path: Path
    end_sign: ClassVar = signal.SIGTERM
    _is_stopping: bool = field(default=False, init=False)
    _job: process.BackgroundCommand | None = field(default=None, init=False)
    _watch: asyncio.Task[None] | None = field(default=None, init=False)

    async def _launch(
        self, argv: Sequence[str], without: str, *, stdout: Path | None = None
    ) -> process.BackgroundCommand | None:
        """Start the program; if that fails, None and a warning that begins with `without`."""
        try:
            self._job = await process.start(argv, stdout=stdout)
        except ProcessError as error:
            self._warn(f"{without}: {error}")
            return None
        self._watch = asyncio.create_task(self._follow(self._job))
        return self._job

    @abstractmethod
    async def _follow(self, job: process.BackgroundCommand) -> None:
        """Complete the files when the program has ended."""

    async def stop(self) -> None:
        self._is_stopping = True
        if self._job is not None and self._watch is not None:
            await self._job.end(self.end_sign)
            await self._watch


def count(value: object) -> int:
    """A kernel counter in a file of a host, which is not trusted. ValueError if the value is not a
    count."""
    if type(value) is not int or not 0 <= value < 2**64:
        raise ValueError(f"{value!r} is not a count")
    return value


def entries(path: Path, parse: Callable[[Any], Parsed], *, what: str) -> Iterator[Parsed]:
    """What `parse` makes of each line of a host's file of JSON; a truncated last one is ignored.
    OutputError names a line that is not `what`."""
    whole = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            yield parse(jsontext.parse(line))
        except jsontext.INVALID as error:
            raise OutputError(f"{path}:{number}: not {what}: {error}") from None


class Recording(ABC):
    """A file of samples while the sampler's process writes it (see sampling).

    Missing samples are reported to `warn`, possibly many times in the same words.
    """

    def __init__(self, path: Path, clock: Clock, warn: Warn) -> None:
        self._warn = warn
        self._clock = clock
        self._name = path.name
        # Until its first tick is known: nothing is sampled before.
        self.is_held = False
        self._file: FileIO | None = None
        self._bytes = 0
        with self._warning(self._name):
            self._file = path.open("ab", buffering=0)
            self._bytes = self._file.tell()

    @property
    def reports(self) -> int | None:
        """A descriptor that becomes readable between ticks when there is something to `hear`."""
        return None

    def hear(self) -> None:
        """Record what was reported between ticks."""
        raise NotImplementedError

    def watch(self, what: Mapping[str, Any]) -> None:
        """From now on, sample what an order of the agent names."""
        raise NotImplementedError

    @abstractmethod
    def look(self) -> bytes:
        """Take a sample; the bytes to append to the file."""

    def last(self) -> bytes:
        """The bytes to append after the last tick."""
        return b""

    def sample(self) -> None:
        """At a tick."""
        self._write(self.look())

    def close(self) -> None:
        """Complete the file."""
        self._write(self.last())
        if self._file is not None:
            with self._warning(self._name):
                if os.fstat(self._file.fileno()).st_size < self._bytes:
                    self._warn(
                        f"{self._name}: another program has truncated it: samples are missing"
                    )
            self._file.close()

    def _write(self, data: bytes) -> None:
        with self._warning(self._name):
            # A full disk accepts a part, and refuses the rest.
            while data and self._file is not None:
                written = self._file.write(data)
                self._bytes += written
                data = data[written:]

    @contextlib.contextmanager
    def _warning(self, text: str) -> Iterator[None]:
        """Warn of an OSError in the body."""
        try:
            yield
        except OSError as error:
            self._warn(f"{text}: {error.strerror}")
