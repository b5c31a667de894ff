"""The state of TCP sockets at every tick, and when they cease to exist.

Samples go to a file as the kernel reports them (see socketfile). Between two ticks come sockets
that ceased to exist, in the state CLOSE, with their final counts (see sockclosed) and the instant
at which the sampler was notified.
"""

import contextlib
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from netesto.collectors.base import Warn
from netesto.collectors.clock import Clock
from netesto.collectors.sockclosed import ClosedSockets
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.collectors.socketfile import Recorder


class SocketRecording:
    """A file of socket samples while it is written: one request to the kernel for each `look`.

    What is missing is said to `warn`, which may hear the same sentence many times. Ports are ranges
    (first and last). `info_bytes` is the size of the kernel's tcp_info.
    """

    def __init__(self, path: Path, clock: Clock, info_bytes: int, warn: Warn) -> None:
        self._warn = warn
        self._clock = clock
        self._ports: Sequence[tuple[int, int]] = ()
        self._diagnosis: SocketDiagnosis | None = None
        self._closed: ClosedSockets | None = None
        self._recorder = Recorder(info_bytes)
        self._name = path.name
        self._file: FileIO | None = None
        with self._warning("socket samples are missing"):
            self._diagnosis = SocketDiagnosis()
        with self._warning("the final counts of sockets are missing"):
            self._closed = ClosedSockets()
        with self._warning(self._name):
            self._file = path.open("ab", buffering=0)

    @property
    def closed_sockets(self) -> ClosedSockets | None:
        """What becomes readable when a socket has ceased to exist, which `hear` records."""
        return self._closed

    def watch(
        self, ports: Sequence[tuple[int, int]], *, to_the_end: Sequence[tuple[int, int]]
    ) -> None:
        """From now on, sample the sockets with one of `ports` at either end, and record the final
        counts of those with one of `to_the_end`."""
        self._ports = ports
        if self._closed is not None:
            with self._warning("the final counts of some sockets are missing"):
                self._closed.listen_to(to_the_end)

    def look(self) -> None:
        """Take a sample, and write it."""
        self.hear()
        if self._diagnosis is not None and self._ports:
            with self._warning("socket samples are missing"):
                before_s = self._clock.now()
                messages = self._diagnosis.sockets(self._ports)
                self._recorder.add(before_s, self._clock.now(), messages)
        self._write(self._recorder.piece())

    def hear(self) -> None:
        """Record the sockets that have ceased to exist."""
        if self._closed is not None:
            time_s = self._clock.now()
            # What came before an error is recorded.
            with self._warning("the final counts of some sockets are missing"):
                self._recorder.add(time_s, time_s, self._closed.heard())

    def close(self) -> None:
        """Complete the file."""
        self.hear()
        self._write(self._recorder.end())
        for each in (self._diagnosis, self._closed, self._file):
            if each is not None:
                each.close()

    def _write(self, data: bytes) -> None:
        with self._warning(self._name):
            # A full disk takes a part, and refuses the next.
            while data and self._file is not None:
                data = data[self._file.write(data) :]

    @contextlib.contextmanager
    def _warning(self, text: str) -> Iterator[None]:
        """Warn if the system refuses what the body does."""
        try:
            yield
        except OSError as error:
            self._warn(f"{text}: {error.strerror}")
