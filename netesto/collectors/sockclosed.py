"""The final counts of TCP sockets, which the kernel reports by netlink when it destroys them.

Between the last tick and its end a flow may send and retransmit for most of a sampling interval.
`ss -E` uses the same: the group SKNLGRP_INET_TCP_DESTROY of <linux/sock_diag.h>, Linux 4.2.
"""

import contextlib
import ctypes
import socket
import struct
from collections.abc import Iterator, Sequence

from netesto.collectors import netlink, sockdiag

_GROUPS = 1 << 0 | 1 << 2  # SKNLGRP_INET_TCP_DESTROY, SKNLGRP_INET6_TCP_DESTROY

# A thousand flows that end together are a thousand messages, each of a page or less.
_RECEIVE_BUFFER_BYTES = 4 << 20
_SO_RCVBUFFORCE, _SO_ATTACH_FILTER = 33, 26

# Classic BPF, <linux/filter.h>: load a half word, compare, return.
_LOAD, _AT_LEAST, _MORE_THAN, _RETURN = 0x28, 0x35, 0x25, 0x06
_INSTRUCTION = struct.Struct("=HBBI")
# The ports of an inet_diag_msg, after the netlink header, and the peer's without that header.
_PORT_OFFSETS = (20, 22)
_PEER_PORT, _NO_PORT = slice(22, 24), b"\0\0"
# Six instructions for each range: well below what net.core.optmem_max allows a socket.
_RANGES_MAX = 100


class ClosedSockets:
    """A netlink socket of this network namespace. Raises OSError if the kernel refuses."""

    def __init__(self) -> None:
        self._netlink = socket.socket(
            socket.AF_NETLINK,
            socket.SOCK_RAW | socket.SOCK_NONBLOCK,
            sockdiag.NETLINK_SOCK_DIAG,
        )
        try:
            self.listen_to([])
            # Ordinary users have the default size.
            with contextlib.suppress(PermissionError):
                self._netlink.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
            self._netlink.bind((0, _GROUPS))
        except OSError:
            self._netlink.close()
            raise

    def fileno(self) -> int:
        return self._netlink.fileno()

    def close(self) -> None:
        self._netlink.close()

    def listen_to(self, ranges: Sequence[tuple[int, int]]) -> None:
        """From now on receive reports of sockets with a port of `ranges` (first and last) at either
        end. The kernel filters out all others: a busy host closes thousands per second."""
        code = _filter(sockdiag.no_more_than(_RANGES_MAX, ranges))
        buffer = ctypes.create_string_buffer(code)
        # struct sock_fprog: the number of instructions, and their address.
        program = struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(buffer))
        self._netlink.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    def reports(self) -> Iterator[bytes]:
        """A netlink message with an inet_diag_msg and its attributes for each socket destroyed
        since the last call.

        OSError (ENOBUFS) if reports were lost; the next call has those that were not.
        """
        while True:
            try:
                data = self._netlink.recv(netlink.BUFFER_BYTES)
            except BlockingIOError:
                return
            # A listening socket has no peer.
            if data[_PEER_PORT] != _NO_PORT:
                yield data


def _filter(ranges: Sequence[tuple[int, int]]) -> bytes:
    """Classic BPF that passes messages with one of the ports in a range."""
    code = b""
    for offset in _PORT_OFFSETS if ranges else ():
        code += _INSTRUCTION.pack(_LOAD, 0, 0, offset)
        for first, last in ranges:
            code += _INSTRUCTION.pack(_AT_LEAST, 0, 2, first)
            code += _INSTRUCTION.pack(_MORE_THAN, 1, 0, last)
            code += _INSTRUCTION.pack(_RETURN, 0, 0, 0xFFFFFFFF)
    return code + _INSTRUCTION.pack(_RETURN, 0, 0, 0)
