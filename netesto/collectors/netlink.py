"""Ask the kernel by netlink: netlink(7), <linux/netlink.h>."""

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator

BUFFER_BYTES = 65536

_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_DUMP, _NLM_F_DUMP_INTR = 0x1, 0x4, 0x300, 0x10
_NLMSG_ERROR, _NLMSG_DONE = 2, 3

# struct nlmsghdr: length, type, flags, sequence number, port.
_HEADER = struct.Struct("=IHHII")
HEADER_BYTES = _HEADER.size
_ATTRIBUTE = struct.Struct("=HH")
# Of qdiscs: struct tcmsg has family, interface, handle, parent and info.
RTM_GETQDISC = 38
TCMSG = struct.Struct("=BxxxiIII")
# Without the flags NLA_F_NESTED and NLA_F_NET_BYTEORDER.
_NUMBER = 0x3FFF

# The objects of a dump may change between two of its parts; it is then repeated.
_DUMPS_MAX = 5


class Netlink:
    """Requests and replies by a netlink socket.

    A refusal by the kernel is an OSError with the text `refusal`, or the kernel's.
    """

    def __init__(self, opened: socket.socket, *, refusal: str = "") -> None:
        self._socket = opened
        self._refusal = refusal
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def ask(self, kind: int, request: bytes) -> list[bytes]:
        """The contents of the replies to a request, after its execution."""
        return _contents(self._exchange(kind, request, _NLM_F_ACK)[0])

    def ask_runs(self, kind: int, request: bytes) -> list[bytes]:
        """The replies to a request with their headers, many in one `bytes` (see `runs`)."""
        return self._exchange(kind, request, _NLM_F_ACK)[0]

    def dump(self, kind: int, request: bytes) -> list[bytes]:
        """The contents of the messages of a dump: all objects of a request, at one instant."""
        return _contents(self.dump_runs(kind, request))

    def dump_runs(self, kind: int, request: bytes) -> list[bytes]:
        """The messages of a dump with their headers, many in one `bytes` (see `runs`)."""
        for _ in range(_DUMPS_MAX):
            found, is_interrupted = self._exchange(kind, request, _NLM_F_DUMP)
            if not is_interrupted:
                return found
        raise OSError(errno.EINTR, "the kernel's state changed during the dump")

    def _exchange(self, kind: int, request: bytes, flags: int) -> tuple[list[bytes], int]:
        """The runs of replies, and whether something changed between two of them (not 0)."""
        self._sequence += 1
        length, flags = _HEADER.size + len(request), flags | _NLM_F_REQUEST
        self._socket.send(_HEADER.pack(length, kind, flags, self._sequence, 0) + request)
        replies: list[bytes] = []
        is_interrupted = 0
        while True:
            for run in runs(self._socket.recv(BUFFER_BYTES)):
                _, reply, its_flags, sequence, _ = _HEADER.unpack_from(run)
                if sequence != self._sequence:
                    continue
                is_interrupted |= its_flags & _NLM_F_DUMP_INTR
                if reply in (_NLMSG_ERROR, _NLMSG_DONE):
                    # 0 acknowledges; the end of a dump has its status.
                    if error := -struct.unpack_from("=i", run, HEADER_BYTES)[0]:
                        raise OSError(error, self._refusal or os.strerror(error))
                    return replies, is_interrupted
                replies.append(run)


def opened(protocol: int) -> socket.socket:
    """A netlink socket of this network namespace. Raises OSError if the kernel refuses."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)


def runs(data: bytes) -> Iterator[bytes]:
    """The messages in what was received: all in one if their headers are equal, as nearly always in
    a dump of many objects, or one by one."""
    if data and len(data) == message_bytes(data):
        yield data
        return
    if data and not len(data) % message_bytes(data):
        words = memoryview(data).cast("I")
        step = message_bytes(data) // words.itemsize
        columns = (words[place::step].tolist() for place in range(HEADER_BYTES // words.itemsize))
        if all(column.count(column[0]) == len(column) for column in columns):
            yield data
            return
    begin = 0
    while begin < len(data):
        size = message_bytes(data, begin)
        yield data[begin : begin + size]
        begin += size


def message_bytes(data: bytes, begin: int = 0) -> int:
    """The size of the message that begins there, with its header and padding."""
    length: int = _HEADER.unpack_from(data, begin)[0]
    return (length + 3) & ~3


def _contents(found: Iterable[bytes]) -> list[bytes]:
    """The contents of each message in runs."""
    return [
        run[begin + HEADER_BYTES : begin + _HEADER.unpack_from(run, begin)[0]]
        for run in found
        for begin in range(0, len(run), message_bytes(run))
    ]


def attribute(number: int, content: bytes) -> bytes:
    """An attribute of a request, whose content needs no padding."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(content), number) + content


def attributes(message: bytes, begin: int = 0) -> dict[int, bytes]:
    """The attributes in a message from `begin` on, by their numbers."""
    return {
        number: message[first:last] for number, first, last in places(message, begin, len(message))
    }


def places(message: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The number of each attribute in a part of a message, and where its content begins and ends.
    Padding may come twice."""
    unpack = _ATTRIBUTE.unpack_from
    while begin + _ATTRIBUTE.size <= end:
        length, number = unpack(message, begin)
        yield number & _NUMBER, begin + _ATTRIBUTE.size, begin + length
        begin += (length + 3) & ~3
