"""Who is at the other end of a connection, as far as this machine can know."""

import contextlib
import os
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import unquote

# Looking at each of more descriptors would cost more than the answer is worth.
_DESCRIPTORS_MAX = 256

# struct ucred of <sys/socket.h>: process, user, group.
_CREDENTIALS = struct.Struct("3i")


def who(peer: str, paths: Collection[str], callers: Mapping[str, str]) -> str:
    """The address in gRPC's name of a peer, or who is connected to the Unix sockets at `paths`.
    `callers` are those who come by TLS, by the socket that is connected for them.

    gRPC does not say which of these connections a call came by. The kernel knows the process that
    opened each: that of ssh's own server, for a tunnel, with the user who logged in.
    """
    kind, _, rest = unquote(peer).partition(":")
    if kind != "unix":
        return rest
    if rest in callers:
        return callers[rest]
    return " or ".join(sorted(set(_connected(paths)))) or "a process that is gone"


def _connected(paths: Collection[str]) -> Iterator[str]:
    for name in os.listdir("/proc/self/fd")[:_DESCRIPTORS_MAX]:  # noqa: PTH208 - names are numbers
        # gRPC's threads open and close descriptors meanwhile.
        with contextlib.suppress(OSError), _copy_of(int(name)) as end:
            if end.family != socket.AF_UNIX or end.getsockname() not in paths:
                continue
            raw = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, user, _ = _CREDENTIALS.unpack(raw)
            is_listening = end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if pid != os.getpid() and not is_listening:
                yield f"uid {user} pid {pid}"


@contextlib.contextmanager
def _copy_of(descriptor: int) -> Iterator[socket.socket]:
    """A socket of ours, by a descriptor of its own. OSError if `descriptor` is none of a socket."""
    copy = os.dup(descriptor)
    try:
        end = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with end:
        yield end
