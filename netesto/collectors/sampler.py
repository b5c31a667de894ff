"""The process that samples sockets for an agent, so that no work of the agent delays a sample.

    agent ── an order (JSON): open, watch, close ──► sampler ── at each tick ──► sockets.bin.gz
          ◄── done, or a warning ──

It is forked from the agent before that starts threads, and ends when the agent has: then the other
end of its socket is closed. Ticks are those of a timer of the kernel at fixed instants, so that
delays do not add up. A delayed sample has the time at which it was taken; a missed tick has none.
"""

import asyncio
import contextlib
import ctypes
import gc
import itertools
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from netesto import process
from netesto.collectors import sockdiag
from netesto.collectors.base import Collector, Warn
from netesto.collectors.clock import Clock
from netesto.collectors.sockets import SocketRecording

# An order may name a thousand ports that are not neighbours.
_ORDER_BYTES = 1 << 20

# Before all that is not of a real-time class: a sample takes some hundred microseconds, and others
# that compute would delay it by milliseconds. A niceness does so less reliably.
_PRIORITY, _NICENESS = 1, -10

# Whoever ends the agent's group waits for its files, which are completed when the agent says so.
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

# How long it may take to end: it completes nothing.
_END_S = 2.0

# How long an order may take. Whoever does not answer is frozen, or hangs.
_ANSWER_S = 10.0
_KILLED = "no socket samples any more: the sampler was killed; the agent needs to be restarted"

# <linux/timerfd.h>
_CLOEXEC_NONBLOCK, _ABSOLUTE = 0o2000000 | 0o4000, 1
# struct itimerspec: the interval and the first expiration, each in seconds and nanoseconds.
_ITIMERSPEC = struct.Struct("@llll")
_NS = 10**9


class SocketSampler:
    """The agent's end of its sampler process."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._channel = channel
        self._pid = pid
        self._numbers = itertools.count(1)
        self._collectors: dict[int, SocketCollector] = {}

    @classmethod
    def forked(cls) -> "SocketSampler":
        """A new process. Call it before this one has threads, of which a fork has only one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Until it ignores them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
        pid = os.fork()
        if pid == 0:
            _be_the_sampler(theirs)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ORDER_BYTES)
        return cls(ours, pid)

    @property
    def pid(self) -> int:
        return self._pid

    def kill(self) -> None:
        """End a process that does not answer; its collectors hear of it."""
        os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        with contextlib.suppress(ChildProcessError):
            process.wait_until(lambda: os.waitpid(self._pid, os.WNOHANG) != (0, 0), timeout=_END_S)

    def join(self, collector: "SocketCollector") -> int:
        """The number of a collector, which hears from now on what the process says of it."""
        if not self._collectors:
            asyncio.get_running_loop().add_reader(self._channel, self._hear)
        number = next(self._numbers)
        self._collectors[number] = collector
        return number

    def leave(self, number: int) -> None:
        """Nobody is interested in what the process says of this collector."""
        del self._collectors[number]
        if not self._collectors:
            asyncio.get_running_loop().remove_reader(self._channel)

    def order(self, number: int, do: str, **values: object) -> None:
        """Send an order. OSError if the process has ended, or does not read any more."""
        self._channel.send(json.dumps({"do": do, "number": number} | values).encode())

    def _hear(self) -> None:
        try:
            message = self._channel.recv(_ORDER_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            message = b""
        if not message:
            asyncio.get_running_loop().remove_reader(self._channel)
            for collector in self._collectors.values():
                collector.hear(_KILLED, is_done=True)
            return
        said = json.loads(message)
        if said["number"] in self._collectors:
            self._collectors[said["number"]].hear(said["warning"], is_done=said["is_done"])


class SocketCollector(Collector):
    """Has the sampler record the TCP sockets of all watched ports in a file."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        interval_s: float,
        sampler: SocketSampler,
        *,
        on_warning: Warn | None = None,
    ) -> None:
        super().__init__(on_warning=on_warning)
        self._path = path
        self._clock = clock
        self._interval_s = interval_s
        self._sampler = sampler
        self._number: int | None = None
        self._ports: set[int] = set()
        # The ports whose sockets' ends the kernel reports.
        self._ending_ports: set[int] = set()
        self._done = asyncio.Event()

    def watch(self, ports: Iterable[int], *, to_the_end: bool = True) -> None:
        """From the next tick on, sample the sockets with one of these ports at either end.

        `to_the_end`: record their final counts, too, until the collector stops; not for tests that
        close thousands of sockets per second.
        """
        ports = set(ports)
        self._ports |= ports
        self._ending_ports = (
            self._ending_ports | ports if to_the_end else self._ending_ports - ports
        )
        self._send_ports()

    def unwatch(self, ports: Iterable[int]) -> None:
        """No longer sample these ports."""
        self._ports.difference_update(ports)
        self._send_ports()

    async def start(self) -> None:
        self._number = self._sampler.join(self)
        interval_ns, anchor_ns = round(self._interval_s * _NS), self._clock.anchor_ns
        path = str(self._path.absolute())
        self._order("open", path=path, interval_ns=interval_ns, anchor_ns=anchor_ns)
        self._send_ports()
        await self._carried_out()

    async def stop(self) -> None:
        if self._number is None:
            return
        self._done.clear()
        self._order("close")
        await self._carried_out()
        if self._number is not None:
            self._sampler.leave(self._number)
            self._number = None

    def hear(self, warning: str, *, is_done: bool) -> None:
        """What the sampler says: a warning, if it is not "", and whether an order is carried out
        that was waited for."""
        if warning:
            self._warn(warning)
        if is_done:
            self._done.set()

    async def _carried_out(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._done.wait(), _ANSWER_S)
        if not self._done.is_set():
            self._warn(f"the sampler of sockets did not answer for {_ANSWER_S:g} s")
            self._sampler.kill()
            await self._done.wait()

    def _send_ports(self) -> None:
        ports, ending = ranges(self._ports), ranges(self._ending_ports)
        self._order("watch", ports=ports, to_the_end=ending)

    def _order(self, do: str, **values: object) -> None:
        if self._number is None:
            return
        try:
            self._sampler.order(self._number, do, **values)
        except ConnectionError:
            self.hear(_KILLED, is_done=True)
        except OSError as error:
            self.hear(f"socket samples are missing: {error.strerror}", is_done=True)


def ranges(ports: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive ports, for a short filter: 5, 7, 6, 9 are (5, 7) and (9, 9)."""
    found: list[tuple[int, int]] = []
    for port in sorted(set(ports)):
        if found and port == found[-1][1] + 1:
            found[-1] = (found[-1][0], port)
        else:
            found.append((port, port))
    return found


# ---- the process -----------------------------------------------------------------------------


def _be_the_sampler(channel: socket.socket) -> NoReturn:
    """Carry out orders in the forked child, until there will be no more."""
    status = 1
    try:
        for sign in _IGNORED:
            signal.signal(sign, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)
        with Path(os.devnull).open("r+b") as nowhere:
            for number in (0, 1):
                os.dup2(nowhere.fileno(), number)
        # Others learn of the agent's end when its files are closed.
        for descriptor in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
            if descriptor not in {0, 1, 2, channel.fileno()}:
                with contextlib.suppress(OSError):
                    os.close(descriptor)  # that of the listing itself is closed
        Path("/proc/self/comm").write_text("netesto-sampler", encoding="utf-8")
        _come_first()
        # The pages of present objects stay shared with the agent.
        gc.freeze()
        _Orders(channel).obey()
        status = 0
    except BaseException:  # noqa: BLE001 - the top of a process; the agent's log has the traceback
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _come_first() -> None:
    """Run before others that compute, as far as this process may."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    except PermissionError:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)


class _Orders:
    """Carries out the orders that arrive at `channel`, until its other end is closed."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._info_bytes = sockdiag.tcp_info_bytes()
        self._open: dict[int, tuple[SocketRecording, int]] = {}

    def obey(self) -> None:
        """Return when the agent has ended."""
        self._selector.register(self._channel, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._sample(*key.data)
                elif not self._carry_out(self._channel.recv(_ORDER_BYTES)):
                    return

    def _sample(self, number: int, timer: int | None) -> None:
        """At a tick of `timer`, or (None) when a socket has ceased to exist."""
        if number not in self._open:
            return  # closed by an order that arrived at the same time
        recording, _ = self._open[number]
        if timer is None:
            recording.hear()
            return
        # It is readable until the number of its expirations is read.
        with contextlib.suppress(BlockingIOError):
            os.read(timer, 8)
            recording.look()

    def _carry_out(self, message: bytes) -> bool:
        if not message:
            return False
        order = json.loads(message)
        number = order["number"]
        match order["do"]:
            case "open":
                self._begin(number, order)
            case "watch":
                recording, _ = self._open[number]
                recording.watch(order["ports"], to_the_end=order["to_the_end"])
            case "close":
                self._end(number)
        if order["do"] != "watch":
            self._say(number, is_done=True)
        return True

    def _begin(self, number: int, order: dict[str, object]) -> None:
        path, anchor_ns, interval_ns = (order[key] for key in ("path", "anchor_ns", "interval_ns"))
        assert isinstance(anchor_ns, int), "orders come from SocketCollector"
        assert isinstance(interval_ns, int), "orders come from SocketCollector"
        said: set[str] = set()

        def warn(text: str) -> None:
            if text not in said:
                said.add(text)
                self._say(number, warning=text)

        recording = SocketRecording(Path(str(path)), Clock(anchor_ns), self._info_bytes, warn)
        timer = timer_of(interval_ns)
        self._open[number] = (recording, timer)
        self._selector.register(timer, selectors.EVENT_READ, (number, timer))
        if recording.closed_sockets is not None:
            closed = recording.closed_sockets
            self._selector.register(closed, selectors.EVENT_READ, (number, None))

    def _end(self, number: int) -> None:
        recording, timer = self._open.pop(number)
        self._selector.unregister(timer)
        os.close(timer)
        if recording.closed_sockets is not None:
            self._selector.unregister(recording.closed_sockets)
        recording.close()

    def _say(self, number: int, *, warning: str = "", is_done: bool = False) -> None:
        said = {"number": number, "warning": warning, "is_done": is_done}
        # Whoever has ended is not interested.
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps(said).encode())


def timer_of(interval_ns: int) -> int:
    """A descriptor that becomes readable now, and after each multiple of `interval_ns` from now.

    timerfd_create(2), which `os` of Python 3.12 does not have.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.timerfd_create(time.CLOCK_MONOTONIC, _CLOEXEC_NONBLOCK)
    times = _ITIMERSPEC.pack(*divmod(interval_ns, _NS), *divmod(time.monotonic_ns(), _NS))
    if descriptor < 0 or libc.timerfd_settime(descriptor, _ABSOLUTE, times, None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"timerfd: {os.strerror(number)}")
    return int(descriptor)
