"""The listening TCP sockets of this network namespace and their processes.

A netlink request takes some ten microseconds. Reading /proc/net/tcp takes milliseconds, because the
kernel walks the connections of all namespaces; it is the fallback without sock_diag.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from netesto.collectors import sockdiag
from netesto.collectors.sockdiag import SocketDiagnosis

# State 0A is LISTEN (include/net/tcp_states.h).
_LISTEN = "0A"

# Columns of the table. The second queue of a listening socket is that of connections to accept.
_LOCAL, _STATE, _QUEUES, _INODE = 1, 3, 4, 9

_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A listening socket: its port, its inode, and how many connections wait to be accepted."""

    port: int
    inode: str
    waiting: int = 0


def listeners() -> frozenset[ListeningSocket]:
    """All listening sockets, of both address families."""
    try:
        with contextlib.closing(SocketDiagnosis()) as diagnosis:
            found = map(sockdiag.listener, diagnosis.listeners())
            return frozenset(
                ListeningSocket(port, str(inode), count) for port, count, inode in found
            )
    except OSError:
        return from_proc()


def from_proc() -> frozenset[ListeningSocket]:
    """The same, from /proc/net."""
    found: set[ListeningSocket] = set()
    for table in ("tcp", "tcp6"):
        path = Path("/proc/thread-self/net", table)
        if path.exists():
            found.update(parse(path.read_text(encoding="utf-8").splitlines()))
    return frozenset(found)


def parse(lines: Iterable[str]) -> Iterator[ListeningSocket]:
    """The listening sockets in /proc/net/tcp or tcp6 (proc_net_tcp of the kernel's documents)."""
    for line in lines:
        words = line.split()
        if len(words) > _INODE and words[_STATE] == _LISTEN:
            port = int(words[_LOCAL].rpartition(":")[2], 16)
            yield ListeningSocket(port, words[_INODE], int(words[_QUEUES].rpartition(":")[2], 16))


def ports() -> frozenset[int]:
    """The ports with a listening socket."""
    return frozenset(listener.port for listener in listeners())


def listens(pid: int, port: int) -> bool:
    """Whether the process `pid` itself listens on `port`."""
    wanted = {listener.inode for listener in listeners() if listener.port == port}
    return bool(wanted) and not wanted.isdisjoint(_sockets_of(pid))


def waiting(port: int) -> int:
    """How many connections wait to be accepted at `port`."""
    return sum(listener.waiting for listener in listeners() if listener.port == port)


def _sockets_of(pid: int) -> set[str]:
    """The inodes of the sockets that a process has open; none if it has ended."""
    folder = Path("/proc", str(pid), "fd")
    found: set[str] = set()
    try:
        for entry in folder.iterdir():
            match = _SOCKET.fullmatch(str(entry.readlink()))
            if match is not None:
                found.add(match[1])
    except OSError:
        # A descriptor was closed, or the process ended, meanwhile.
        return found
    return found
