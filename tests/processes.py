"""Processes of a lab, and servers."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import psutil

from netesto.agent import listening
from netesto.lab import records
from netesto.lab.records import Record
from netesto.system import proc, process


def inside(namespaces: Iterable[str]) -> list[psutil.Process]:
    """The processes in these network namespaces."""
    found = []
    for name in namespaces:
        for pid in process.run(["ip", "netns", "pids", name], timeout=60).stdout.split():
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(int(pid)))
    return found


def agents_of(lab: Record) -> list[psutil.Process]:
    """The agent of a lab, if it runs."""
    return _named("netesto-agent", lab)


def samplers_of(lab: Record) -> list[psutil.Process]:
    """Its samplers."""
    return _named("netesto-sampler", lab)


def _named(name: str, lab: Record) -> list[psutil.Process]:
    """Those with this name that write to the log of the lab's agent."""
    found = []
    for pid in proc.numbers():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if Path(f"/proc/{pid}/fd/2").readlink() == records.log_of(lab):
                found.append(psutil.Process(pid))
    return [each for each in found if is_alive(each) and each.name() == name]


@contextlib.contextmanager
def serving(argv: Sequence[str], port: int, log: Path) -> Iterator[process.Child]:
    """A server that listens on `port`. The kernel says so: a connection would use up a server that
    serves only one."""
    with process.background(
        argv, stdout=log, ready=lambda: port in listening.ports(), timeout=60
    ) as child:
        yield child


# Looking takes at most a fifth of a processor. On a busy machine a look takes long.
_PAUSES_BY_LOOK, _LONGEST_PAUSE_S = 4, 1.0


def wait_for_costly(fact: Callable[[], bool], *, timeout: float) -> bool:
    """Wait as `process.wait_until` does, for a fact that takes long to look at, such as one of all
    processes, or one that a command tells: others have the processor in between."""
    deadline = time.monotonic() + timeout
    while True:
        begun_s = time.monotonic()
        if fact():
            return True
        ended_s = time.monotonic()
        if ended_s >= deadline:
            return False
        time.sleep(min(_LONGEST_PAUSE_S, _PAUSES_BY_LOOK * (ended_s - begun_s)))


def is_alive(process: psutil.Process) -> bool:
    """A zombie, whose status nobody has read yet, does not count."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
