"""Asks the kernel for TCP sockets by netlink, as ss(8) does, and says what it knows in ss's words.

One question takes some ten microseconds; starting an ss takes milliseconds, and in a guest kernel
twenty times as long. Messages and their layout: sock_diag(7), <linux/inet_diag.h>, <linux/tcp.h>.
"""

import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address

# <linux/netlink.h>, <linux/sock_diag.h>, <linux/inet_diag.h>
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
REQ_BYTECODE = 1
DIAG_INFO, DIAG_CONG = 2, 4

# Of a filter's bytecode: jump; compare the local or the peer's port.
JUMP, LOCAL_AT_LEAST, LOCAL_AT_MOST, PEER_AT_LEAST, PEER_AT_MOST = 1, 2, 3, 4, 5

# <net/tcp_states.h>; connected, as ss means it: not LISTEN, CLOSE, TIME-WAIT, SYN-RECV.
STATES = {
    1: "ESTAB", 2: "SYN-SENT", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2", 8: "CLOSE-WAIT", 9: "LAST-ACK",
    11: "CLOSING",
}  # fmt: skip

# The state of a socket that is gone.
CLOSE = 7

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48s")
_MESSAGE = struct.Struct("=BBBB2s2s16s16sIII IIIII")
_ATTRIBUTE = struct.Struct("=HH")

# struct tcp_info up to bytes_retrans, which Linux 4.19 added; what an older kernel lacks is 0.
_INFO = struct.Struct("=8B 24I 4Q 6I 4Q 2I 2Q")
_INFO_NAMES = (
    *("state", "ca_state", "retransmits", "probes", "backoff", "options", "wscale", "flags"),
    *("rto", "ato", "snd_mss", "rcv_mss", "unacked", "sacked", "lost", "retrans", "fackets"),
    *("last_data_sent", "last_ack_sent", "last_data_recv", "last_ack_recv", "pmtu"),
    *("rcv_ssthresh", "rtt", "rttvar", "snd_ssthresh", "snd_cwnd", "advmss", "reordering"),
    *("rcv_rtt", "rcv_space", "total_retrans", "pacing_rate", "max_pacing_rate", "bytes_acked"),
    *("bytes_received", "segs_out", "segs_in", "notsent_bytes", "min_rtt", "data_segs_in"),
    *("data_segs_out", "delivery_rate", "busy_time", "rwnd_limited", "sndbuf_limited"),
    *("delivered", "delivered_ce", "bytes_sent", "bytes_retrans"),
)

# An ssthresh, an RTT, a rate that is not known yet.
_INFINITE_SSTHRESH = 0x7FFFFFFF
_NO_RTT, _NO_RATE = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF

# Counters that ss tells under the kernel's own names, where they are not 0.
_COUNTERS = (
    *("unacked", "sacked", "lost", "notsent_bytes", "segs_out", "segs_in", "data_segs_out"),
    *("data_segs_in", "delivered", "delivered_ce", "bytes_sent", "bytes_acked", "bytes_received"),
    *("bytes_retrans", "rcv_space", "rcv_ssthresh"),
)

BUFFER_BYTES = 65536


class SocketDiagnosis:
    """A netlink socket of this network namespace. Raises OSError where the kernel refuses."""

    def __init__(self) -> None:
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
        self._sequence = 0

    def close(self) -> None:
        self._netlink.close()

    def sockets(self, ranges: Sequence[tuple[int, int]]) -> list[str]:
        """A line for each connected TCP socket with a port of `ranges` (first and last) at either
        end: state, queues, addresses and what the kernel tells of it, as `ss -tiOHn` has them."""
        found: list[str] = []
        for family in (socket.AF_INET, socket.AF_INET6):
            self._sequence += 1
            self._netlink.send(_question(family, ranges, self._sequence))
            found += [line(message) for message in self._answers()]
        return found

    def _answers(self) -> Iterator[bytes]:
        while True:
            data = self._netlink.recv(BUFFER_BYTES)
            begin = 0
            while begin < len(data):
                length, kind, _, sequence, _ = _HEADER.unpack_from(data, begin)
                body = data[begin + _HEADER.size : begin + length]
                begin += _aligned(length)
                if sequence != self._sequence:
                    continue
                if kind == NLMSG_ERROR:
                    error = -struct.unpack_from("=i", body)[0]
                    raise OSError(error, "the kernel tells nothing of sockets")
                if kind == NLMSG_DONE:
                    return
                yield body


def bodies(data: bytes) -> Iterator[bytes]:
    """What the netlink messages in `data` hold."""
    while len(data) >= _HEADER.size:
        length = _HEADER.unpack_from(data)[0]
        yield data[_HEADER.size : length]
        data = data[max(_aligned(length), _HEADER.size) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _question(family: int, ranges: Sequence[tuple[int, int]], sequence: int) -> bytes:
    extensions = 1 << (DIAG_INFO - 1) | 1 << (DIAG_CONG - 1)
    states = sum(1 << state for state in STATES)
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, extensions, 0, states, bytes(48))
    code = bytecode(ranges)
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(code), REQ_BYTECODE) + code
    length = _HEADER.size + len(request) + len(attribute)
    flags = NLM_F_REQUEST | NLM_F_DUMP
    header = _HEADER.pack(length, SOCK_DIAG_BY_FAMILY, flags, sequence, 0)
    return header + request + attribute


def bytecode(ranges: Sequence[tuple[int, int]]) -> bytes:
    """The filter that lets through what has a port of `ranges` at either end.

    An operation is a code and two distances, for yes and no; the end of the code is yes, four
    bytes beyond it is no. (inet_diag_bc_run in net/ipv4/inet_diag.c.)
    """
    ends = ((LOCAL_AT_LEAST, LOCAL_AT_MOST), (PEER_AT_LEAST, PEER_AT_MOST))
    terms = [(*codes, *ports) for ports in ranges for codes in ends]
    size = 20
    code = b""
    for place, (at_least, at_most, first, last) in enumerate(terms):
        is_last = place == len(terms) - 1
        beyond = 4 if is_last else 0
        code += struct.pack("=BBHBBH", at_least, 8, size + beyond, 0, 0, first)
        code += struct.pack("=BBHBBH", at_most, 8, size - 8 + beyond, 0, 0, last)
        code += struct.pack("=BBH", JUMP, 4, size * (len(terms) - place) - 16)
    return code


def line(message: bytes) -> str:
    """What an inet_diag_msg with its attributes says, as ss prints it."""
    fields = _MESSAGE.unpack_from(message)
    family, state = fields[0], fields[1]
    local_port, peer_port = (int.from_bytes(port) for port in fields[4:6])
    width = 4 if family == socket.AF_INET else 16
    local, peer = (ip_address(address[:width]) for address in fields[6:8])
    receive_queue, send_queue = fields[12], fields[13]
    words = [
        "CLOSE" if state == CLOSE else STATES.get(state, str(state)),
        str(receive_queue),
        str(send_queue),
        f"{local}:{local_port}" if width == 4 else f"[{local}]:{local_port}",
        f"{peer}:{peer_port}" if width == 4 else f"[{peer}]:{peer_port}",
    ]
    attributes = dict(_attributes(message[_MESSAGE.size :]))
    if name := attributes.get(DIAG_CONG, b"").rstrip(b"\0").decode():
        words.append(name)
    if DIAG_INFO in attributes:
        words += _info_words(attributes[DIAG_INFO])
    return " ".join(words)


def _attributes(data: bytes) -> Iterable[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : length]
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]


def _info_words(data: bytes) -> Iterator[str]:
    values = _INFO.unpack_from(data.ljust(_INFO.size, b"\0"))
    info = dict(zip(_INFO_NAMES, values, strict=True))
    yield f"rto:{info['rto'] / 1000:g}"
    if info["rtt"]:
        yield f"rtt:{info['rtt'] / 1000:.10g}/{info['rttvar'] / 1000:.10g}"
    yield f"mss:{info['snd_mss']} pmtu:{info['pmtu']} cwnd:{info['snd_cwnd']}"
    if info["snd_ssthresh"] < _INFINITE_SSTHRESH:
        yield f"ssthresh:{info['snd_ssthresh']}"
    if info["retrans"] or info["total_retrans"]:
        yield f"retrans:{info['retrans']}/{info['total_retrans']}"
    for name in _COUNTERS:
        if info[name]:
            yield f"{name}:{info[name]}"
    if info["min_rtt"] not in {0, _NO_RTT}:
        yield f"minrtt:{info['min_rtt'] / 1000:.10g}"
    if info["pacing_rate"] not in {0, _NO_RATE}:
        yield f"pacing_rate {info['pacing_rate'] * 8}bps"
    if info["delivery_rate"]:
        yield f"delivery_rate {info['delivery_rate'] * 8}bps"
