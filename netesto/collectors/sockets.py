"""The state of TCP sockets at every tick, and when they are destroyed.

Samples go to a file as the kernel reports them (see socketfile). Between two ticks there are
records of destroyed sockets, in the state CLOSE, with their final counts (see sockclosed) and the
instant of the notification.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netesto.collectors import sockdiag
from netesto.collectors.base import Recording, Warn
from netesto.collectors.clock import Clock
from netesto.collectors.sockclosed import ClosedSockets
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.collectors.socketfile import Recorder


class SocketRecording(Recording):
    """Samples of sockets: one request to the kernel for each `look`. `info_bytes` is the size of
    the kernel's tcp_info."""

    def __init__(self, path: Path, clock: Clock, info_bytes: int, warn: Warn) -> None:
        super().__init__(path, clock, warn)
        self._filter = b""
        self._diagnosis: SocketDiagnosis | None = None
        self._closed: ClosedSockets | None = None
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
                before_s = self._clock.now()
                messages = self._diagnosis.sockets(self._filter)
                self._recorder.add(before_s, self._clock.now(), messages)
        return self._recorder.piece()

    def hear(self) -> None:
        if self._closed is not None:
            time_s = self._clock.now()
            # Messages before an error are recorded.
            with self._warning("the final counts of some sockets are missing"):
                self._recorder.add(time_s, time_s, self._closed.heard())

    def last(self) -> bytes:
        self.hear()
        return self._recorder.end()

    def close(self) -> None:
        super().close()
        for each in (self._diagnosis, self._closed):
            if each is not None:
                each.close()
