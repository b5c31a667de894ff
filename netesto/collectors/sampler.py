"""The agent's end of the process that takes samples (see sampling): sockets, queues, CPU, TCP.

    agent ── an order (JSON): open, watch, close, answer ──► sampler ── at each tick ──► files
          ◄── done, or a warning ──

It is forked from the agent before the agent starts threads. One for each host, because threads of a
process wait for each other; hosts of large labs are dealt round. A sampler that ends, or does not
respond, is replaced by another one for each of its hosts, which continues in new files.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from netesto.collectors.base import Collector, Warn
from netesto.collectors.clock import Clock
from netesto.collectors.sampling import IGNORED, ORDER_BYTES, SampledHost, run_sampler
from netesto.errors import ProcessError
from netesto.files import jsontext
from netesto.system import proc, process

log = logging.getLogger(__name__)

# The time for its end: it has nothing to complete.
_END_S = 2.0

# Each takes 3 MB. With a process for 20 hosts, samples of one at 10 ms came after 15 ms (p99).
PROCESSES_MAX = 64

# How often it is polled, and how many unanswered polls in a row mean that it is frozen or hangs.
# More than one, because the whole machine may have been frozen.
_QUESTION_S = 1.0
_QUESTIONS = 2
# The time for a restarted one: Python starts slowly on a busy machine.
_FIRST_QUESTIONS = 30

# How often it is restarted while it samples; after more failures, another would not help.
_STARTED_AGAIN_MAX = 3

# The number for orders without a collector.
_NOBODY = 0
_NS = 10**9


class SamplerProcess:
    """A process that samples some `hosts`, whose threads use this. `wait` waits for its exit
    status."""

    def __init__(self, pid: int, wait: Callable[[], int], *, hosts: int = 1) -> None:
        self.pid = pid
        self._wait = wait
        self._hosts = hosts
        self._lock = threading.Lock()
        self._status: int | None = None

    def exit_status(self) -> int:
        """When it has ended."""
        with self._lock:
            if self._status is None:
                self._status = self._wait()
            return self._status

    def kill(self) -> None:
        """Kill it, unless it has ended: who waits for its status knows that it does."""
        if self._lock.acquire(blocking=False):
            try:
                if self._status is None:
                    os.kill(self.pid, signal.SIGKILL)
            finally:
                self._lock.release()

    def leave(self) -> None:
        """A host has closed its channel. After the last one, wait for the end of the process."""
        self._hosts -= 1
        if not self._hosts:
            with contextlib.suppress(ChildProcessError):
                process.wait_until(
                    lambda: os.waitpid(self.pid, os.WNOHANG) != (0, 0), timeout=_END_S
                )


def forked(joins: Sequence[Callable[[], None]]) -> "list[Sampler]":
    """New processes, and a sampler for each host: `joins` put a thread on it. Call it before this
    process has threads: only the calling thread survives a fork."""
    # Where computing takes no time, none waits for another.
    count = 1 if proc.is_in_simulated_time() else min(len(joins), PROCESSES_MAX)
    channels = [_channel() for _ in joins]
    # Until it ignores them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    processes = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            dealt = zip(channels, joins, strict=True)
            hosts = [SampledHost(theirs, join) for (_, theirs), join in dealt]
            run_sampler(hosts[number::count])
        shared = len(joins[number::count])
        processes.append(SamplerProcess(pid, partial(_status, pid), hosts=shared))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    samplers = []
    for number, (ours, theirs) in enumerate(channels):
        theirs.close()
        samplers.append(Sampler(ours, processes[number % count]))
    return samplers


def _status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Sampler:
    """The end of a host at its sampler process."""

    def __init__(self, channel: socket.socket, child: SamplerProcess) -> None:
        self._channel = channel
        self._child = child
        self._has_ended = False
        self._numbers = itertools.count(_NOBODY + 1)
        self._collectors: dict[int, Sampled] = {}
        self._end = ""
        self._ends = 0
        self._heard_s = 0.0
        self._is_frozen = False
        self._questions: asyncio.Task[None] | None = None
        self._replacement: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        return self._child.pid

    def close(self) -> None:
        """End the process, unless it samples other hosts, too."""
        self._channel.close()
        self._child.leave()

    def join(self, collector: "Sampled") -> int:
        """The number of a collector, which from now on receives the messages of the process about
        it."""
        number = next(self._numbers)
        self._collectors[number] = collector
        if len(self._collectors) == 1:
            self._ends = 0
            if self._channel.fileno() < 0:
                self._replace()
            else:
                self._attend()
        return number

    def leave(self, number: int) -> None:
        """Ignore further messages of the process about this collector."""
        del self._collectors[number]
        if not self._collectors:
            self._ignore()

    def order(self, number: int, do: str, **values: object) -> None:
        """Send an order. ConnectionError if the process has ended, another OSError if it has
        stopped reading."""
        if self._channel.fileno() < 0:
            raise ConnectionError
        self._channel.send(json.dumps({"do": do, "number": number} | values).encode())

    def _attend(self, questions: int = _QUESTIONS) -> None:
        """Read messages of the process, and poll it; first this many times."""
        asyncio.get_running_loop().add_reader(self._channel, self._hear)
        self._questions = asyncio.create_task(self._ask(questions))

    def _ignore(self) -> None:
        if self._questions is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._questions.cancel()
            self._questions = None

    def _hear(self) -> None:
        try:
            message = self._channel.recv(ORDER_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            message = b""
        before_s, now_s = self._heard_s, time.monotonic()
        if not message:
            # A frozen process has not sampled since its last reply.
            self._heard_s = before_s if self._is_frozen else now_s
            self._ignore()
            self._channel.close()
            self._replace()
            return
        self._heard_s = now_s
        said = jsontext.parse(message)
        collector = self._collectors.get(said["number"])
        if self._end and collector is not None:
            text = f"the sampler {self._end} and was restarted"
            collector.hear(f"{text}: no samples for {now_s - before_s:.2g} s", is_done=False)
            self._end = ""
        if collector is not None:
            collector.hear(said["warning"], is_done=said["is_done"])

    async def _ask(self, questions: int) -> None:
        """Kill the process if it does not respond."""
        missed, self._is_frozen = 0, False
        while missed < questions:
            asked_s = time.monotonic()
            with contextlib.suppress(OSError):
                self.order(_NOBODY, "answer")
            await asyncio.sleep(_QUESTION_S)
            missed += 1
            if self._heard_s >= asked_s:
                missed, questions = 0, _QUESTIONS
        self._is_frozen = True
        self._child.kill()

    def _replace(self) -> None:
        if self._replacement is None or self._replacement.done():
            self._replacement = asyncio.create_task(self._start_again())

    async def _start_again(self) -> None:
        """Start another process in place of one that has ended, or give up its samples."""
        if not self._has_ended:
            status = await asyncio.to_thread(self._child.exit_status)
            self._end = _in_words(status, is_frozen=self._is_frozen)
            self._has_ended = True
            log.error("the sampler has ended", extra={"reason": self._end})
        self._ends += 1
        if self._ends > _STARTED_AGAIN_MAX:
            self._lose(f"{self._end}, as {self._ends - 1} before it")
            return
        try:
            self._channel, self._child = launched()
        except ProcessError as error:
            self._lose(f"{self._end}; another one: {error.message}")
            return
        self._has_ended = False
        if self._collectors:
            self._attend(_FIRST_QUESTIONS)
        for collector in self._collectors.values():
            collector.open_again(self._ends)

    def _lose(self, why: str) -> None:
        for collector in self._collectors.values():
            collector.lose(f"no further samples: the sampler {why}")


def launched() -> tuple[socket.socket, SamplerProcess]:
    """A sampler of the host where this thread is, that shares nothing with this process, which has
    threads. ProcessError if it cannot start."""
    ours, theirs = _channel()
    with contextlib.ExitStack() as failed, theirs:
        failed.callback(ours.close)
        argv = process.python("netesto.collectors.sampling", str(theirs.fileno()))
        child = process.launch(argv, stdout=Path(os.devnull), pass_fds=[theirs.fileno()])
        failed.pop_all()
    return ours, SamplerProcess(child.pid, child.wait)


def _in_words(status: int, *, is_frozen: bool) -> str:
    if is_frozen:
        return "did not respond"
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else "failed"


def _channel() -> tuple[socket.socket, socket.socket]:
    """Ours and theirs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ORDER_BYTES)
    return ours, theirs


@dataclass(eq=False, slots=True)
class Sampled(Collector):
    """Makes the sampler write samples to a file, whose name begins with their kind: `cpu.jsonl`,
    `sockets.2.bin.gz`.

    If held, it takes none before `begin`. `on_loss` gets the reason if samples are lost
    permanently.
    """

    path: Path
    clock: Clock
    interval_s: float
    sampler: Sampler
    is_held: bool = field(default=False, kw_only=True)
    on_loss: Warn = field(default=lambda _: None, kw_only=True)
    _number: int | None = field(default=None, init=False)
    _watched: list[dict[str, object]] = field(default_factory=list, init=False)
    _is_ending: bool = field(default=False, init=False)
    _done: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def watch(self, **what: object) -> None:
        """From the next tick on, sample this, too: see `watch` of the kind's Recording."""
        self._watched.append(what)
        self._order("watch", **what)

    def begin(self, first_tick_ns: int) -> None:
        """Take samples from this instant of the monotonic clock on."""
        self.is_held = False
        self._order("begin", first_tick_ns=first_tick_ns)

    async def start(self) -> None:
        self._number = self.sampler.join(self)
        self._open(self.path)
        await self._done.wait()

    async def stop(self) -> None:
        if self._number is None:
            return
        self._is_ending = True
        self._done.clear()
        if self._order("close"):
            await self._done.wait()
        self.sampler.leave(self._number)
        self._number = None

    def hear(self, warning: str, *, is_done: bool) -> None:
        """A message of the sampler: a warning, if not "", and whether the awaited order is done."""
        if warning:
            self._warn(warning)
        if is_done:
            self._done.set()

    def open_again(self, number: int) -> None:
        """Continue with another process. The compressed files of the previous one are not
        terminated."""
        if self._is_ending:
            self._done.set()
        elif self.path.suffix == ".gz" and self.path.exists():
            first, _, rest = self.path.name.partition(".")
            self._open(self.path.with_name(f"{first}.again{number}.{rest}"))
        else:
            self._open(self.path)

    def lose(self, why: str) -> None:
        """There will be no more samples."""
        self.on_loss(why)
        self._done.set()

    def _open(self, path: Path) -> None:
        self._order(
            "open",
            kind=path.name.partition(".")[0],
            path=str(path.absolute()),
            interval_ns=round(self.interval_s * _NS),
            anchor_ns=self.clock.anchor_ns,
            is_held=self.is_held,
            watched=self._watched,
        )

    def _order(self, do: str, **values: object) -> bool:
        """Whether the order was sent."""
        if self._number is None:
            return False
        try:
            self.sampler.order(self._number, do, **values)
        except ConnectionError:
            return False  # another process will open the file
        except OSError as error:
            self.hear(f"samples are missing: {error.strerror}", is_done=True)
            return False
        return True


@dataclass(eq=False, slots=True)
class SocketCollector(Sampled):
    """Makes the sampler record the TCP sockets of all watched ports."""

    # By how many groups: servers may have reserved the same one for two groups of a client.
    _ports: Counter[int] = field(default_factory=Counter, init=False)
    # The ports for which the kernel reports the end of sockets.
    _ending_ports: set[int] = field(default_factory=set, init=False)

    def watch_ports(self, ports: Iterable[int], *, to_the_end: bool = True) -> None:
        """From the next tick on, sample the sockets with one of these ports at either end.

        `to_the_end`: record their final counts, too, until the collector stops; not for tests that
        close thousands of sockets per second.
        """
        ports = set(ports)
        self._ports.update(ports)
        self._ending_ports = (
            self._ending_ports | ports if to_the_end else self._ending_ports - ports
        )
        self._watch_all()

    def unwatch(self, ports: Iterable[int]) -> None:
        """Stop sampling these ports, except those that others watch."""
        self._ports.subtract(ports)
        self._watch_all()

    def _watch_all(self) -> None:
        self._watched.clear()
        self.watch(ports=ranges(+self._ports), to_the_end=ranges(self._ending_ports))


def ranges(ports: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of consecutive ports, for a short filter: 5, 7, 6, 9 are (5, 7) and (9, 9)."""
    found: list[tuple[int, int]] = []
    for port in sorted(set(ports)):
        if found and port == found[-1][1] + 1:
            found[-1] = (found[-1][0], port)
        else:
            found.append((port, port))
    return found
