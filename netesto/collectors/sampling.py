"""The process that takes samples for the hosts of an agent, so that no work of the agent delays
them. Each host has a thread in it.

It executes the orders of `sampler`, and ends with the agent, when the other ends of its sockets are
closed. Ticks come from a kernel timer at fixed instants, so that delays do not add up. A delayed
sample has the time at which it was taken; a missed tick has none.
"""

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from netesto.collectors import sockdiag
from netesto.collectors.base import Recording, Warn
from netesto.collectors.clock import Clock
from netesto.collectors.counters import COUNTERS, CountersRecording
from netesto.collectors.cpu import CpuRecording
from netesto.collectors.links import LinkRecording
from netesto.collectors.sockets import SocketRecording
from netesto.files import jsontext

# An order may name a thousand ports that are not consecutive.
ORDER_BYTES = 1 << 20

# These signals come to the agent's whole group; files are completed when the agent says so.
IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

# It precedes all processes outside the real-time classes: a sample takes some hundred microseconds,
# and others would delay it by milliseconds. A niceness is less reliable.
_PRIORITY, _NICENESS = 1, -10

# The share of an interval that a sample may wait for the kernel, and the time that it waits on one
# processor before it changes to the next.
_WAITING_MAX = 0.1
_PATIENCE_S = 0.0002

# <linux/timerfd.h>
_CLOEXEC_NONBLOCK, _ABSOLUTE = 0o2000000 | 0o4000, 1
# struct itimerspec: the interval and the first expiration, each in seconds and nanoseconds.
_ITIMERSPEC = struct.Struct("@llll")
_NS = 10**9

# A thread that has a sample to take does not wait for others to give way, which by default they do
# after 5 ms.
_SWITCH_S = 0.0001


@dataclass(frozen=True, slots=True)
class SampledHost:
    """A host: the socket of its orders, and what puts a thread of this process on it."""

    channel: socket.socket
    join: Callable[[], None]


def main() -> NoReturn:
    """A sampler of the host where it is, which gets its orders from an inherited socket, the first
    argument."""
    run_sampler([SampledHost(socket.socket(fileno=int(sys.argv[1])), join=lambda: None)])


def run_sampler(hosts: Sequence[SampledHost]) -> NoReturn:
    """Execute the orders of these hosts until their channels are closed, in a separate process."""
    status = 1
    try:
        for sign in IGNORED:
            signal.signal(sign, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)
        with Path(os.devnull).open("r+b") as nowhere:
            for number in (0, 1):
                os.dup2(nowhere.fileno(), number)
        Path("/proc/self/comm").write_text("netesto-sampler", encoding="utf-8")
        _raise_priority()
        # The pages of existing objects stay shared with the agent.
        gc.freeze()
        sys.setswitchinterval(_SWITCH_S)
        together = threading.Barrier(len(hosts) + 1)
        threads = [threading.Thread(target=_serve, args=(each, together)) for each in hosts]
        for thread in threads:
            thread.start()
        together.wait()
        # Other processes notice the agent's end when its descriptors are closed.
        kept = {0, 1, 2, *(each.channel.fileno() for each in hosts)}
        for descriptor in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
            if descriptor not in kept:
                with contextlib.suppress(OSError):
                    os.close(descriptor)  # that of the listing itself is closed
        together.wait()
        for thread in threads:
            thread.join()
        status = 0
    except BaseException:  # noqa: BLE001 - the top of a process; the agent's log has the traceback
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _serve(host: SampledHost, together: threading.Barrier) -> None:
    """Execute the orders of a host in this thread. It opens nothing before all have joined theirs,
    and descriptors of the agent are closed."""
    try:
        host.join()
        together.wait()
        together.wait()
        with host.channel:
            _Orders(host.channel).obey()
    except BaseException:  # noqa: BLE001 - the top of a thread, without which there is no process
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _raise_priority() -> None:
    """Set the highest priority that this process may have."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    except OSError:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)


@dataclass(frozen=True, slots=True, order=True)
class _Due:
    """The order of handling what becomes readable: of ticks at the same instant, those of the
    shortest interval come first, then sockets, whose samples suffer most from a delay. Orders and
    reports (without a `timer`) can wait."""

    interval_ns: int = sys.maxsize
    kind: int = 0
    number: int = 0
    timer: int | None = field(default=None, compare=False)


class Processors:
    """The processors on which this process may run, and among which it moves when it has to wait.

    The kernel reads a socket at an instant at which no process uses it. A socket that sends
    continuously leaves no such instant to a process on another processor, which has to wake up
    first. On the sender's processor, the sampler runs next when a system call of the sender ends.
    So a thread watches the sampling one: if that sleeps, it is moved to the next processor.
    """

    def __init__(self) -> None:
        self._thread = threading.get_native_id()
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._is_sampling = threading.Event()
        self._lock = threading.Lock()
        self._allowed: set[int] = set()
        self._turn = 0
        self._is_watched = len(os.sched_getaffinity(0)) == 1

    @contextlib.contextmanager
    def attended(self, waiting_ns: int) -> Iterator[None]:
        """Watch this thread in the body, after one in which it slept for longer than that."""
        if not self._is_watched:
            before_ns = time.monotonic_ns() - time.thread_time_ns()
            yield
            slept_ns = time.monotonic_ns() - time.thread_time_ns() - before_ns
            if slept_ns > waiting_ns:
                self._is_watched = True
                # Where there are too many threads already, samples are later, and go on.
                with contextlib.suppress(RuntimeError):
                    threading.Thread(target=self._watch, daemon=True).start()
            return
        self._is_sampling.set()
        try:
            yield
        finally:
            with self._lock:
                self._is_sampling.clear()
                if self._allowed:
                    self._run_on(self._allowed)
                    self._allowed = set()

    def _watch(self) -> None:
        while self._is_sampling.wait():
            before_ns = time.clock_gettime_ns(self._clock)
            time.sleep(_PATIENCE_S)
            is_asleep = time.clock_gettime_ns(self._clock) - before_ns < _PATIENCE_S * _NS / 2
            with self._lock:
                if is_asleep and self._is_sampling.is_set():
                    self._go_on()

    def _go_on(self) -> None:
        """Until the end of the body, run on the processor where the last body ended, because the
        sender stays there; then on the next."""
        if self._allowed:
            self._turn += 1
        else:
            self._allowed = os.sched_getaffinity(self._thread)
        self._run_on({sorted(self._allowed)[self._turn % len(self._allowed)]})

    def _run_on(self, processors: set[int]) -> None:
        # Permission may be withdrawn meanwhile.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._thread, processors)


class _Orders:
    """Carries out the orders that arrive at `channel`, until its other end is closed."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        # By number, each with its timer and interval.
        self._open: dict[int, tuple[Recording, int, int]] = {}
        self._processors = Processors()
        # All ticks are multiples of intervals after this instant, so that recordings share them: a
        # wake-up costs more than most samples.
        self._first_tick_ns = 0
        info_bytes = sockdiag.tcp_info_bytes()
        self._kinds: Mapping[str, Callable[[Path, Clock, Warn], Recording]] = {
            "sockets": lambda path, clock, warn: SocketRecording(path, clock, info_bytes, warn),
            "links": LinkRecording,
            "cpu": CpuRecording,
            **{name: partial(CountersRecording, each) for name, each in COUNTERS.items()},
        }

    def obey(self) -> None:
        """Return when the agent has ended."""
        self._selector.register(self._channel, selectors.EVENT_READ, _Due())
        while True:
            for key, _ in sorted(self._selector.select(), key=lambda ready: ready[0].data):
                if key.fileobj is not self._channel:
                    self._sample(key.data)
                elif not self._carry_out(self._order()):
                    return

    def _order(self) -> bytes:
        """The next order; None when the agent has ended, perhaps without reading all replies."""
        try:
            return self._channel.recv(ORDER_BYTES)
        except ConnectionResetError:
            return b""

    def _sample(self, due: _Due) -> None:
        """At a tick of its timer, or (None) when there is something to hear."""
        if due.number not in self._open:
            return  # closed by an order that arrived at the same time
        recording, timer, interval_ns = self._open[due.number][0], due.timer, due.interval_ns
        if timer is None:
            recording.hear()
            return
        # It is readable until the number of its expirations is read.
        with contextlib.suppress(BlockingIOError):
            os.read(timer, 8)
            with self._processors.attended(round(interval_ns * _WAITING_MAX)):
                recording.sample()

    def _carry_out(self, message: bytes) -> bool:
        if not message:
            return False
        order = jsontext.parse(message)
        number = order["number"]
        match order["do"]:
            case "open":
                self._begin(number, order)
            case "begin":
                self._first_tick_ns = order["first_tick_ns"]
                recording, timer, interval_ns = self._open[number]
                recording.is_held = False
                tick(timer, interval_ns, self._first_tick_ns)
            case "watch":
                self._open[number][0].watch(order)
            case "close":
                self._end(number)
        if order["do"] not in {"begin", "watch"}:
            self._say(number, is_done=True)
        return True

    def _begin(self, number: int, order: Mapping[str, Any]) -> None:
        said: set[str] = set()

        def warn(text: str) -> None:
            if text not in said:
                said.add(text)
                self._say(number, warning=text)

        clock = Clock(order["anchor_ns"])
        recording = self._kinds[order["kind"]](Path(order["path"]), clock, warn)
        recording.is_held = order["is_held"]
        for each in order["watched"]:
            recording.watch(each)
        if not self._open:
            self._first_tick_ns = time.monotonic_ns()
        timer, interval_ns = timer_without_ticks(), order["interval_ns"]
        if not order["is_held"]:
            tick(timer, interval_ns, self._first_tick_ns)
        self._open[number] = (recording, timer, interval_ns)
        due = _Due(interval_ns, [*self._kinds].index(order["kind"]), number, timer)
        self._selector.register(timer, selectors.EVENT_READ, due)
        if recording.reports is not None:
            self._selector.register(recording.reports, selectors.EVENT_READ, _Due(number=number))

    def _end(self, number: int) -> None:
        recording, timer, _ = self._open.pop(number)
        self._selector.unregister(timer)
        os.close(timer)
        if recording.reports is not None:
            self._selector.unregister(recording.reports)
        recording.close()

    def _say(self, number: int, *, warning: str = "", is_done: bool = False) -> None:
        said = {"number": number, "warning": warning, "is_done": is_done}
        # The agent has ended and does not need the reply.
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps(said).encode())


def timer_without_ticks() -> int:
    """A descriptor that becomes readable by `tick`.

    timerfd_create(2), which `os` of Python 3.12 does not have.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return _timer_result(libc.timerfd_create(time.CLOCK_MONOTONIC, _CLOEXEC_NONBLOCK))


def tick(timer: int, interval_ns: int, first_ns: int) -> None:
    """Make the timer readable at the monotonic time `first_ns`, or now if that is past, and at each
    multiple of `interval_ns` after `first_ns`."""
    libc = ctypes.CDLL(None, use_errno=True)
    times = _ITIMERSPEC.pack(*divmod(interval_ns, _NS), *divmod(first_ns, _NS))
    _timer_result(libc.timerfd_settime(timer, _ABSOLUTE, times, None))


def _timer_result(value: int) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"timerfd: {os.strerror(number)}")
    return value


if __name__ == "__main__":
    main()
