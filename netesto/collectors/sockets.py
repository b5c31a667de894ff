"""The state of TCP sockets at every tick, and when they cease to exist.

Samples go to a file as the kernel reports them (see socketfile). Between two ticks come sockets
that ceased to exist, in the state CLOSE, with their final counts (see sockclosed) and the instant
at which the agent was notified.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from netesto.collectors import sockdiag
from netesto.collectors.base import Sampler, Warn
from netesto.collectors.clock import Clock
from netesto.collectors.sockclosed import ClosedSockets
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.collectors.socketfile import Recorder


class SocketCollector(Sampler):
    """Samples the TCP sockets of all watched ports with one request for each tick."""

    def __init__(
        self, path: Path, clock: Clock, interval_s: float, *, on_warning: Warn | None = None
    ) -> None:
        super().__init__(path, clock, interval_s, on_warning=on_warning)
        self._ports: set[int] = set()
        self._diagnosis: SocketDiagnosis | None = None
        # The ports whose sockets' ends the kernel reports to us.
        self._ending_ports: set[int] = set()
        self._closed: ClosedSockets | None = None
        self._recorder = Recorder(sockdiag.tcp_info_bytes())

    def watch(self, ports: Iterable[int], *, to_the_end: bool = True) -> None:
        """From the next tick on, sample the sockets with one of these ports at either end.

        `to_the_end`: record their final counts, too, until the collector stops; not for tests that
        close thousands of sockets per second.
        """
        ports = set(ports)
        self._ports |= ports
        self._listen(self._ending_ports | ports if to_the_end else self._ending_ports - ports)

    def unwatch(self, ports: Iterable[int]) -> None:
        """No longer sample these ports."""
        self._ports.difference_update(ports)

    async def start(self) -> None:
        with self._warning("socket samples are missing"):
            self._diagnosis = SocketDiagnosis()
        with self._warning("the final counts of sockets are missing"):
            self._closed = ClosedSockets()
            asyncio.get_running_loop().add_reader(self._closed.fileno(), self._hear)
        self._listen(self._ending_ports)
        await super().start()

    @contextlib.contextmanager
    def _warning(self, text: str) -> Iterator[None]:
        """Warn if the kernel refuses what the body does."""
        try:
            yield
        except OSError as error:
            self._warn(f"{text}: {error.strerror}")

    def _listen(self, ports: set[int]) -> None:
        self._ending_ports = ports
        if self._closed is not None:
            with self._warning("the final counts of some sockets are missing"):
                self._closed.listen_to(_ranges(ports))

    def _hear(self) -> None:
        if self._closed is not None:
            time_s = self._clock.now()
            # What came before an error is recorded.
            with self._warning("the final counts of some sockets are missing"):
                self._recorder.add(time_s, time_s, self._closed.heard())

    def _last(self) -> bytes:
        self._hear()
        return self._recorder.end()

    async def _look(self) -> bytes:
        self._hear()
        if self._diagnosis is not None and self._ports:
            with self._warning("socket samples are missing"):
                before_s = self._clock.now()
                messages = self._diagnosis.sockets(_ranges(self._ports))
                self._recorder.add(before_s, self._clock.now(), messages)
        return self._recorder.piece()

    async def stop(self) -> None:
        await super().stop()
        if self._closed is not None:
            asyncio.get_running_loop().remove_reader(self._closed.fileno())
            self._closed.close()
            self._closed = None
        if self._diagnosis is not None:
            self._diagnosis.close()
            self._diagnosis = None


def _ranges(ports: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive ports, for a short filter: 5, 7, 6, 9 are (5, 7) and (9, 9)."""
    ranges: list[tuple[int, int]] = []
    for port in sorted(set(ports)):
        if ranges and port == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], port)
        else:
            ranges.append((port, port))
    return ranges
