"""Sockets that are asked for one by one, in threads.

The kernel reads a socket at an instant at which no process uses it. A dump waits for one socket
after the other: among a hundred receivers that compete for processors, some hold theirs while they
wait for a processor, for up to 60 ms each. Here a socket that is in use delays no other, and each
sample has its own instant. A request takes 40 µs, of a dump 2 µs: it is for hosts with such waits.
"""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from netesto.collectors import sockdiag
from netesto.collectors.sockdiag import SocketDiagnosis

# The instants before the request and after its reply, and the messages of the reply.
Reply: TypeAlias = tuple[float, float, list[bytes]]

# As many sockets as may be waited for at a time, and how long all threads wait before there is
# another one.
THREADS_MAX = 64
_GROW_S = 0.002

# A reply that took longer has waited for a process. It is asked for again, because it is not known
# when the kernel has read the socket: just after a wait it is rarely in use.
_PROMPT_S, _ATTEMPTS = 0.001, 3


class EachSocket:
    """Asks for sockets on any of these `processors`; `now` is the time of samples."""

    def __init__(
        self,
        now: Callable[[], float],
        processors: Collection[int],
        *,
        opened: Callable[[], SocketDiagnosis] = SocketDiagnosis,
    ) -> None:
        self._now = now
        self._processors = processors
        self._opened = opened
        self._due = queue.SimpleQueue[bytes | None]()
        # What follows is of all threads.
        self._changed = threading.Condition()
        self._awaited = set[bytes]()
        self._replies: list[Reply] = []
        self._threads = 0

    def take(self, found: Iterable[bytes], *, patience_s: float) -> list[Reply]:
        """Ask for the sockets that were `found` (see `SocketDiagnosis.messages`), except those that
        an earlier call still waits for. All replies that are there after at most `patience_s`;
        later ones are among those of the next call."""
        until_s = time.monotonic() + patience_s
        with self._changed:
            for message in found:
                name = sockdiag.identity(message)
                if name not in self._awaited:
                    self._awaited.add(name)
                    self._due.put(message)
            while self._awaited and (left_s := until_s - time.monotonic()) > 0:
                if not self._due.empty() and self._threads < THREADS_MAX:
                    self._threads += 1
                    threading.Thread(target=self._work, daemon=True).start()
                self._changed.wait(min(left_s, _GROW_S))
            replies, self._replies = self._replies, []
        return replies

    def close(self) -> None:
        """End the threads, each when its socket is read."""
        for _ in range(self._threads):
            self._due.put(None)

    def _work(self) -> None:
        # The thread that started this one may be bound to one of them for now.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self._processors)
        with contextlib.closing(self._opened()) as diagnosis:
            while (message := self._due.get()) is not None:
                reply = self._reply(diagnosis, message)
                with self._changed:
                    self._awaited.discard(sockdiag.identity(message))
                    if reply is not None:
                        self._replies.append(reply)
                    if not self._awaited:
                        self._changed.notify()

    def _reply(self, diagnosis: SocketDiagnosis, message: bytes) -> Reply | None:
        """None if the socket is gone."""
        for attempt in range(_ATTEMPTS):
            before_s = self._now()
            try:
                messages = diagnosis.one(message)
            except OSError:
                return None
            after_s = self._now()
            if after_s - before_s < _PROMPT_S or attempt == _ATTEMPTS - 1:
                break
        return before_s, after_s, messages
