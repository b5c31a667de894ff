"""Ask the kernel for TCP sockets by netlink, as ss(8) does.

One request takes some ten microseconds; starting an ss takes milliseconds, and in a guest kernel
twenty times as long. Messages and their layout: sock_diag(7), <linux/inet_diag.h>, <linux/tcp.h>.
"""

import socket
import struct
from collections.abc import Sequence

from netesto.collectors.netlink import Netlink, attribute, opened

# <linux/sock_diag.h>, <linux/inet_diag.h>
NETLINK_SOCK_DIAG = 4
# The older request gives IPv4 and IPv6 at once: the kernel walks its table of all sockets (of all
# namespaces) once per request, which takes longer than a hundred sockets.
TCPDIAG_GETSOCK = 18
# One socket by its identity.
SOCK_DIAG_BY_FAMILY = 20
REQ_BYTECODE = 1
DIAG_INFO, DIAG_VEGASINFO, DIAG_CONG, DIAG_SKMEMINFO = 2, 3, 4, 7
DIAG_DCTCPINFO, DIAG_BBRINFO, DIAG_ULP_INFO = 9, 16, 19

# DCTCP and BBR are requested as VEGASINFO. MPTCP is reported to CAP_NET_ADMIN without a request.
_REQUESTED = (DIAG_INFO, DIAG_VEGASINFO, DIAG_CONG, DIAG_SKMEMINFO)
_EXTENSIONS = sum(1 << (each - 1) for each in _REQUESTED)

# Of a filter's bytecode: jump; compare the local or the peer's port.
JUMP, LOCAL_AT_LEAST, LOCAL_AT_MOST, PEER_AT_LEAST, PEER_AT_MOST = 1, 2, 3, 4, 5

# Forty bytes for each range: an attribute has 65,535 at most.
_RANGES_MAX = 1600

# <net/tcp_states.h>, in the words of ss. CLOSE: the socket is destroyed.
STATES = {
    1: "ESTAB", 2: "SYN-SENT", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2", 7: "CLOSE", 8: "CLOSE-WAIT",
    9: "LAST-ACK", 11: "CLOSING",
}  # fmt: skip

# Connected, as ss means it: not LISTEN, CLOSE, TIME-WAIT, SYN-RECV.
_CONNECTED = sum(1 << number for number, name in STATES.items() if name != "CLOSE")

LISTEN = 10


# struct inet_diag_msg; attributes follow it.
MESSAGE_BYTES = 72

# struct inet_diag_req: family, lengths of addresses, extensions, sockets, states, tables.
_REQUEST = struct.Struct("=BBBB48sII")


# struct inet_diag_req_v2 before the identity: family, protocol, extensions, states.
_ONE = struct.Struct("=BBBxI")
_ALL_STATES = 0xFFFFFFFF

# struct inet_diag_sockid in an inet_diag_msg.
_IDENTITY = slice(4, 52)


class SocketDiagnosis(Netlink):
    """A netlink socket of this network namespace. Raises OSError if the kernel refuses."""

    def __init__(self) -> None:
        super().__init__(opened(NETLINK_SOCK_DIAG), refusal="the kernel does not report sockets")

    def sockets(self, filter_: bytes) -> list[bytes]:
        """A netlink message with an inet_diag_msg and its attributes for each connected TCP socket
        that passes `filter_` (see `with_ports`); many in one `bytes` (see `netlink.runs`)."""
        return self.dump_runs(TCPDIAG_GETSOCK, _request(_CONNECTED, _EXTENSIONS) + filter_)

    def messages(self, filter_: bytes) -> list[bytes]:
        """An inet_diag_msg for each of these sockets, without what the kernel reads only when no
        process uses the socket."""
        return self.dump(TCPDIAG_GETSOCK, _request(_CONNECTED, 0) + filter_)

    def one(self, message: bytes) -> list[bytes]:
        """What `sockets` returns, of the socket of an inet_diag_msg. OSError if it is gone."""
        head = _ONE.pack(message[0], socket.IPPROTO_TCP, _EXTENSIONS, _ALL_STATES)
        return self.ask_runs(SOCK_DIAG_BY_FAMILY, head + identity(message))

    def listeners(self) -> list[bytes]:
        """An inet_diag_msg for each listening TCP socket."""
        return self.dump(TCPDIAG_GETSOCK, _request(1 << LISTEN, 0))


def identity(message: bytes) -> bytes:
    """The identity of the socket of an inet_diag_msg, which no other socket has."""
    return message[_IDENTITY]


def tcp_info_bytes() -> int:
    """The size of this kernel's struct tcp_info, which grows from version to version."""
    with socket.socket() as any_socket:
        return len(any_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1024))


def _request(states: int, extensions: int) -> bytes:
    return _REQUEST.pack(0, 0, 0, extensions, bytes(48), states, 0)


def listener(message: bytes) -> tuple[int, int, int]:
    """Of a listening socket's inet_diag_msg: its port, how many connections wait to be accepted,
    and its inode."""
    (port,) = struct.unpack_from(">H", message, 4)
    waiting, _, _, inode = struct.unpack_from("=IIII", message, 56)
    return port, waiting, inode


def no_more_than(count: int, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """`ranges` of ports (first and last), or one from the first to the last port if they are more
    than a filter can hold."""
    if len(ranges) <= count:
        return ranges
    return [(min(first for first, _ in ranges), max(last for _, last in ranges))]


def with_ports(ranges: Sequence[tuple[int, int]]) -> bytes:
    """The filter that passes sockets with a port of `ranges` (first and last) at either end. With a
    thousand ranges it takes milliseconds to make.

    An operation is a code and two distances, for yes and no; the end of the code is yes, four
    bytes beyond it is no. (inet_diag_bc_run in net/ipv4/inet_diag.c.)
    """
    ends = ((LOCAL_AT_LEAST, LOCAL_AT_MOST), (PEER_AT_LEAST, PEER_AT_MOST))
    terms = [(*codes, *ports) for ports in no_more_than(_RANGES_MAX, ranges) for codes in ends]
    size = 20
    code = b""
    for place, (at_least, at_most, first, last) in enumerate(terms):
        is_last = place == len(terms) - 1
        beyond = 4 if is_last else 0
        code += struct.pack("=BBHBBH", at_least, 8, size + beyond, 0, 0, first)
        code += struct.pack("=BBHBBH", at_most, 8, size - 8 + beyond, 0, 0, last)
        code += struct.pack("=BBH", JUMP, 4, size * (len(terms) - place) - 16)
    return attribute(REQ_BYTECODE, code)
