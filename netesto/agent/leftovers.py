"""Processes that a killed agent left running: found by the mark they carry, and ended.

An agent notes a mark in its journal, then puts it into its own environment before it starts
anything; so every process that it or its children start carries `NETESTO_LIFE=MARK`, also one that
was started an instant before the kill, or that left its process group. A mark is random and used
once: no other process carries it, whatever process number it got.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIFE_VARIABLE = "NETESTO_LIFE"

# After each signal: tcpdump writes its last packets, and the kernel needs a moment to kill.
GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Leftover:
    """A running process, held by a descriptor that no other process can take over."""

    pid: int
    descriptor: int


def end(life: str, *, grace_s: float = GRACE_S) -> list[int]:
    """End every process that carries the mark, politely first; the numbers they had.

    Blocks for at most `grace_s` after each of the two signals. Processes of other users that we
    may not look into are not ours.
    """
    ended: list[int] = []
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.ExitStack() as stack:
            found = list(_find(life, stack))
            for leftover in found:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(leftover.descriptor, sign)
            ended += [leftover.pid for leftover in found if leftover.pid not in ended]
            _wait_for_end([leftover.descriptor for leftover in found], grace_s)
    return ended


def _find(life: str, stack: contextlib.ExitStack) -> Iterator[Leftover]:
    wanted = f"{LIFE_VARIABLE}={life}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            descriptor = os.pidfd_open(int(folder.name))
        except OSError:
            continue
        # The descriptor came first: what it names is the process whose mark is read now, or gone.
        stack.callback(os.close, descriptor)
        if wanted in _environment(folder):
            yield Leftover(int(folder.name), descriptor)


def _environment(folder: Path) -> list[bytes]:
    try:
        return (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _wait_for_end(descriptors: list[int], patience_s: float) -> None:
    """A process descriptor becomes readable when the process has ended (pidfd_open(2))."""
    deadline = time.monotonic() + patience_s
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    running = len(descriptors)
    while running and (left_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left_s * 1000):
            poll.unregister(descriptor)
            running -= 1
