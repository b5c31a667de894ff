"""The state of TCP sockets at every tick, and when they are destroyed.

One request returns all sockets. Once that has waited for processes that used their sockets, each is
asked for by itself (see eachsocket).

Samples go to a file as the kernel reports them (see socketfile). Between two ticks there are
records of destroyed sockets, in the state CLOSE, with their final counts (see sockclosed) and the
instant of the notification.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netesto.collectors import sockdiag
from netesto.collectors.base import Recording, Warn
from netesto.collectors.clock import Clock
from netesto.collectors.eachsocket import EachSocket
from netesto.collectors.sockclosed import ClosedSockets
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.collectors.socketfile import Recorder

# A request that slept for longer has waited for processes.
_WAITED_NS = 2_000_000

# The time for sockets that are asked for one by one; the samples of others come with the next look.
_PATIENCE_S = 0.01


class SocketRecording(Recording):
    """Samples of sockets. `info_bytes` is the size of the kernel's tcp_info."""

    def __init__(self, path: Path, clock: Clock, info_bytes: int, warn: Warn) -> None:
        super().__init__(path, clock, warn)
        self._filter = b""
        self._diagnosis: SocketDiagnosis | None = None
        self._closed: ClosedSockets | None = None
        self._each: EachSocket | None = None
        self._processors = os.sched_getaffinity(0)
        self._recorder = Recorder(info_bytes)
        with self._warning("socket samples are missing"):
            self._diagnosis = SocketDiagnosis()
        with self._warning("the final counts of sockets are missing"):
            self._closed = ClosedSockets()

    @property
    def reports(self) -> int | None:
        """Of destroyed sockets."""
        return None if self._closed is None else self._closed.fileno()

    def watch(self, what: Mapping[str, Any]) -> None:
        """Sample the sockets with one of `ports` at either end, and record the final counts of
        those with one of `to_the_end`; both are ranges, first and last."""
        self._filter = sockdiag.with_ports(what["ports"]) if what["ports"] else b""
        if self._closed is not None:
            with self._warning("the final counts of some sockets are missing"):
                self._closed.listen_to(what["to_the_end"])

    def look(self) -> bytes:
        self.hear()
        if self._diagnosis is not None and self._filter:
            with self._warning("socket samples are missing"):
                if self._each is None:
                    self._look_at_all(self._diagnosis)
                else:
                    found = self._diagnosis.messages(self._filter)
                    self._add(self._each, found, patience_s=_PATIENCE_S)
        return self._recorder.piece()

    def _look_at_all(self, diagnosis: SocketDiagnosis) -> None:
        slept_ns = _slept_ns()
        before_s = self._clock.now()
        messages = diagnosis.sockets(self._filter)
        self._recorder.add(before_s, self._clock.now(), messages)
        if _slept_ns() - slept_ns > _WAITED_NS:
            self._each = EachSocket(self._clock.now, self._processors)

    def _add(self, each: EachSocket, found: list[bytes], *, patience_s: float) -> None:
        for reply in each.take(found, patience_s=patience_s):
            self._recorder.add(*reply)

    def hear(self) -> None:
        if self._closed is not None:
            time_s = self._clock.now()
            # Messages before an error are recorded.
            with self._warning("the final counts of some sockets are missing"):
                self._recorder.add(time_s, time_s, self._closed.reports())

    def last(self) -> bytes:
        if self._each is not None:
            self._add(self._each, [], patience_s=0.0)
        self.hear()
        return self._recorder.end()

    def close(self) -> None:
        super().close()
        if self._each is not None:
            self._each.close()
        for each in (self._diagnosis, self._closed):
            if each is not None:
                each.close()


def _slept_ns() -> int:
    """A clock that stands while this thread computes."""
    return time.monotonic_ns() - time.thread_time_ns()
