"""The file of socket samples: what the kernel reported of each socket, in its own structs.

A compressed stream (gzip): a line of JSON that names the fields, then records of fixed size. Each
piece of a recorder can be read without later ones. See docs/data-formats.md.
"""

import itertools
import json
import operator
import socket
import struct
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.collectors import netlink, sockdiag
from netesto.collectors.clock import instant
from netesto.errors import OutputError
from netesto.files import compressed, jsontext
from netesto.measured import SocketSample, address_of
from netesto.model import SAME_CLOCK, ClockOffset

FORMAT = "netesto socket samples 1"

_ORDER = "<" if sys.byteorder == "little" else ">"

# Names and formats are numpy's: u4 is an unsigned number of four bytes, S16 text, V16 raw bytes.
# The instants before the request to the kernel and after its reply, UTC seconds, in whole µs;
# struct inet_diag_msg of <linux/inet_diag.h>, ports in network byte order; SK_MEMINFO_* of
# <linux/sock_diag.h>; MPTCP_SUBFLOW_ATTR_* of <linux/mptcp.h>; what the congestion control reports,
# with the number of its attribute; TCP_CONG_NAME.
_FIXED = (
    ("f8", "before_s after_s"),
    ("u1", "idiag_family idiag_state idiag_timer idiag_retrans"),
    (">u2", "idiag_sport idiag_dport"),
    ("V16", "idiag_src idiag_dst"),
    ("u4", "idiag_if"),
    ("u8", "idiag_cookie"),
    ("u4", "idiag_expires idiag_rqueue idiag_wqueue idiag_uid idiag_inode"),
    ("u4", "skmem_rmem_alloc skmem_rcvbuf skmem_wmem_alloc skmem_sndbuf skmem_fwd_alloc"),
    ("u4", "skmem_wmem_queued skmem_optmem skmem_backlog skmem_drops"),
    ("u4", "mptcp_token_rem mptcp_token_loc mptcp_flags"),
    ("u1", "mptcp_id_rem mptcp_id_loc"),
    ("u2", "cc_attribute"),
    ("u4", "vegas_enabled vegas_rttcnt vegas_rtt vegas_minrtt"),
    ("u2", "dctcp_enabled dctcp_ce_state"),
    ("u4", "dctcp_alpha dctcp_ab_ecn dctcp_ab_tot"),
    ("u4", "bbr_bw_lo bbr_bw_hi bbr_min_rtt bbr_pacing_gain bbr_cwnd_gain"),
    ("V32", "cc_rest"),
    ("S16", "congestion_control"),
)

# What is copied from the attributes of a message: the field, and the maximum of bytes. Those of
# MPTCP are nested in two others.
_MPTCP = (sockdiag.DIAG_ULP_INFO, 3)
_COPIED: Mapping[tuple[int, ...], tuple[str, int]] = {
    (sockdiag.DIAG_SKMEMINFO,): ("skmem_rmem_alloc", 36),
    (sockdiag.DIAG_VEGASINFO,): ("vegas_enabled", 16),
    (sockdiag.DIAG_DCTCPINFO,): ("dctcp_enabled", 16),
    (sockdiag.DIAG_BBRINFO,): ("bbr_bw_lo", 20),
    (sockdiag.DIAG_CONG,): ("congestion_control", 16),
    (*_MPTCP, 1): ("mptcp_token_rem", 4),
    (*_MPTCP, 2): ("mptcp_token_loc", 4),
    (*_MPTCP, 8): ("mptcp_flags", 4),
    (*_MPTCP, 9): ("mptcp_id_rem", 1),
    (*_MPTCP, 10): ("mptcp_id_loc", 1),
}
# Of these `cc_attribute` is the number; what a newer kernel appends is in `cc_rest`.
_CONTROLS = frozenset({sockdiag.DIAG_VEGASINFO, sockdiag.DIAG_DCTCPINFO, sockdiag.DIAG_BBRINFO})
_CONTROL_REST_BYTES = 32

# struct tcp_info of <linux/tcp.h>, without `tcpi_`, up to Linux 6.18.
_TCP_INFO = (
    ("u1", "state ca_state retransmits probes backoff options wscale flags"),
    ("u4", "rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent"),
    ("u4", "last_ack_sent last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh"),
    ("u4", "snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans"),
    ("u8", "pacing_rate max_pacing_rate bytes_acked bytes_received"),
    ("u4", "segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out"),
    ("u8", "delivery_rate busy_time rwnd_limited sndbuf_limited"),
    ("u4", "delivered delivered_ce"),
    ("u8", "bytes_sent bytes_retrans"),
    ("u4", "dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash"),
    ("u2", "total_rto total_rto_recoveries"),
    ("u4", "total_rto_time"),
    ("u4", "received_ce delivered_e1_bytes delivered_e0_bytes delivered_ce_bytes"),
    ("u4", "received_e1_bytes received_e0_bytes received_ce_bytes"),
    ("u2", "accecn_fail_mode accecn_opt_seen"),
)

# The fields of a SocketSample, with codes of `struct`, in the order that `_samples` expects.
_READ: Mapping[str, str] = {
    "before_s": "d", "after_s": "d", "idiag_sport": "2s", "idiag_dport": "2s", "idiag_dst": "16s",
    "idiag_cookie": "Q", "idiag_family": "B", "idiag_state": "B", "idiag_rqueue": "I",
    "skmem_sndbuf": "I", "skmem_rcvbuf": "I", "congestion_control": "16s",
    "tcpi_snd_cwnd": "I", "tcpi_snd_mss": "I", "tcpi_rtt": "I", "tcpi_min_rtt": "I",
    "tcpi_unacked": "I", "tcpi_lost": "I", "tcpi_retrans": "I", "tcpi_total_retrans": "I",
    "tcpi_segs_out": "I", "tcpi_data_segs_out": "I",
    "tcpi_bytes_sent": "Q", "tcpi_bytes_acked": "Q", "tcpi_bytes_received": "Q",
    "tcpi_busy_time": "Q", "tcpi_rwnd_limited": "Q", "tcpi_sndbuf_limited": "Q",
}  # fmt: skip

_INVALID = (zlib.error, struct.error, MemoryError, *jsontext.INVALID)

# The value of an unknown minimum RTT.
_NO_RTT = 0xFFFFFFFF


def _bytes(format_: str) -> int:
    return int(format_.lstrip("<>fuSV"))


# before_s and after_s.
_TIMES = struct.Struct("=dd")

# The header of an attribute: its length and its number.
_WORD = struct.Struct("=I")

# How many messages are converted at once: more than the kernel gives at once.
_BLOCK = 128

_FIELDS = [(name, each) for each, names in _FIXED for name in names.split()]
_OFFSETS = dict(
    zip(
        [*(name for name, _ in _FIELDS), "tcp_info"],
        itertools.accumulate((_bytes(each) for _, each in _FIELDS), initial=0),
        strict=True,
    )
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Converts messages that have the same attributes at the same places into records: `fixed` are
    the words of four bytes that identify them (headers of attributes, by their number in the
    message). A record has the two times and then the copied parts in this `order`."""

    size: int
    fixed: tuple[tuple[int, int], ...]
    copied: str
    order: tuple[int, ...]
    packed: str
    # By the number of messages: to unpack their copied parts, and to pack their records.
    _structs: dict[int, tuple[struct.Struct, struct.Struct]]

    @classmethod
    def of(cls, message: bytes, info_bytes: int) -> "_Layout":
        copied = {**_COPIED, (sockdiag.DIAG_INFO,): ("tcp_info", info_bytes)}
        fixed = []
        # By the offset of a field: the offset of its content in the message, and its size.
        first = netlink.HEADER_BYTES
        parts = {_OFFSETS["idiag_family"]: (first, sockdiag.MESSAGE_BYTES)}
        for path, begin, end in _attributes(message, first + sockdiag.MESSAGE_BYTES, len(message)):
            word = begin // _WORD.size - 1
            fixed.append((word, *_WORD.unpack_from(message, word * _WORD.size)))
            name, most = copied.get(path, ("", 0))
            if name:
                parts[_OFFSETS[name]] = (begin, min(end - begin, most))
            if path[0] in _CONTROLS:
                # The number is in the header.
                parts[_OFFSETS["cc_attribute"]] = (begin - 2, 2)
            if path[0] in _CONTROLS and end > begin + most:
                rest = (begin + most, min(end - begin - most, _CONTROL_REST_BYTES))
                parts[_OFFSETS["cc_rest"]] = rest
        contents = sorted(parts.values())
        fields = [(offset, parts[offset][1]) for offset in sorted(parts)]
        record_bytes = _OFFSETS["tcp_info"] + info_bytes
        return cls(
            size=len(message),
            fixed=tuple(fixed),
            copied=_codes(contents, len(message)),
            order=tuple(contents.index(parts[offset]) for offset, _ in fields),
            packed=_codes([(0, _TIMES.size), *fields], record_bytes),
            _structs={},
        )

    def parted(self, messages: bytes) -> tuple[bytes, bytes]:
        """The messages that have this layout, among those of its size, and the others."""
        others = b""
        for place, word in self.fixed:
            column = memoryview(messages).cast("I")[place :: self.size // _WORD.size].tolist()
            if column.count(word) < len(column):
                parts: tuple[list[bytes], list[bytes]] = ([], [])
                for begin, each in zip(range(0, len(messages), self.size), column, strict=True):
                    parts[each != word].append(messages[begin : begin + self.size])
                messages, others = b"".join(parts[0]), others + b"".join(parts[1])
        return messages, others

    def records(self, times: bytes, messages: bytes) -> bytes:
        """The records of messages that have this layout."""
        count, width = len(messages) // self.size, len(self.order)
        if count not in self._structs:
            codes = (self.copied, self.packed)
            unpacked, packed = (struct.Struct(f"={each * count}") for each in codes)
            self._structs[count] = (unpacked, packed)
        unpacked, packed = self._structs[count]
        parts = unpacked.unpack(messages)
        fields = [times] * (count * (width + 1))
        for place, part in enumerate(self.order, start=1):
            fields[place :: width + 1] = parts[part::width]
        return packed.pack(*fields)


def _attributes(
    message: bytes, begin: int, end: int, outer: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """The numbers of each attribute and those around it, and where its content begins and ends."""
    for number, first, last in netlink.places(message, begin, end):
        path = (*outer, number)
        yield path, first, last
        if path == _MPTCP[: len(path)]:
            yield from _attributes(message, first, last, path)


def _codes(parts: Iterable[tuple[int, int]], size: int) -> str:
    """A format of `struct`: the parts of `size` bytes by offset."""
    codes, end = "", 0
    for offset, part_bytes in parts:
        codes += f"{offset - end}x{part_bytes}s"
        end = offset + part_bytes
    return f"{codes}{size - end}x"


class Recorder:
    """Makes the bytes of a file, piece by piece, from the messages of sockdiag. `info_bytes` is the
    size of the kernel's tcp_info; fields that this module does not know are kept raw, as
    `tcpi_rest`.
    """

    def __init__(self, info_bytes: int) -> None:
        header = {"format": FORMAT, "dtype": dtype_of(info_bytes)}
        self._pending = [json.dumps(header).encode() + b"\n"]
        self._info_bytes = info_bytes
        # Level 1 takes 1 µs for a record, and leaves a third to an eighth of its bytes; level 6
        # takes three times as long, and saves a quarter of what is left. zlib moves its table of
        # hashes for each 32 KiB; one of half the default size saves 6 % of its time.
        self._compressor = zlib.compressobj(level=1, wbits=31, memLevel=7)
        self._layouts: defaultdict[int, list[_Layout]] = defaultdict(list)

    def add(self, before_s: float, after_s: float, runs: Iterable[bytes]) -> None:
        """Add a record for each message in runs of messages (see netlink), in any order."""
        times = _TIMES.pack(round(before_s, 6), round(after_s, 6))
        single = defaultdict(list)
        for run in runs:
            size = netlink.message_bytes(run)
            if len(run) == size:
                single[size].append(run)
            else:
                self._add(times, size, run)
        for size, messages in single.items():
            self._add(times, size, b"".join(messages))

    def _add(self, times: bytes, size: int, messages: bytes) -> None:
        """Add the records of messages of one size."""
        for begin in range(0, len(messages), size * _BLOCK):
            rest = messages[begin : begin + size * _BLOCK]
            # Nearly always all have one layout; the name of another congestion control may have the
            # same length.
            while rest:
                layout, alike, rest = self._parted(size, rest)
                self._pending.append(layout.records(times, alike))

    def _parted(self, size: int, messages: bytes) -> tuple[_Layout, bytes, bytes]:
        """A layout, the messages that have it, of which there is at least one, and the others."""
        known = self._layouts[size]
        for layout in known:
            alike, others = layout.parted(messages)
            if alike:
                return layout, alike, others
        known.append(_Layout.of(messages[:size], self._info_bytes))
        return known[-1], *known[-1].parted(messages)

    def piece(self) -> bytes:
        """The bytes added since the last piece."""
        if not self._pending:
            return b""
        compressed = [*map(self._compressor.compress, self._pending)]
        self._pending.clear()
        return b"".join(compressed) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        """The last piece; nothing can be added any more."""
        return self.piece() + self._compressor.flush()


def dtype_of(info_bytes: int) -> dict[str, list[str]]:
    """Names and formats of a record's fields, as numpy.dtype takes them."""
    fields = [*_FIELDS]
    rest = info_bytes
    for each, name in ((each, name) for each, names in _TCP_INFO for name in names.split()):
        if rest < _bytes(each):
            break
        fields.append((f"tcpi_{name}", each))
        rest -= _bytes(each)
    if rest:
        fields.append(("tcpi_rest", f"V{rest}"))
    return {
        "names": [name for name, _ in fields],
        "formats": [_ORDER + each if each[0] in "fu" else each for _, each in fields],
    }


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> list[SocketSample]:
    """The samples in a file, in time order; an incomplete last record is ignored.

    The time of a sample is the middle between the two instants. `offset` is that of the file's
    clock from the one that the samples use. OutputError if the file is invalid.
    """
    try:
        content = compressed.read(path)
        begin = content.find(b"\n") + 1
        if not begin:
            return []
        dtype = jsontext.parse(content[:begin])["dtype"]
        samples = _samples(memoryview(content)[begin:], dtype, offset)
        # One that waited for a process comes after later ones of other sockets.
        return sorted(samples, key=operator.attrgetter("time_s"))
    except _INVALID as error:
        raise OutputError(f"{path}: not a file of socket samples: {error}") from None


def _samples(
    records: memoryview, dtype: Mapping[str, Sequence[str]], offset: ClockOffset
) -> Iterator[SocketSample]:
    names, formats = dtype["names"], dtype["formats"]
    codes = (_READ.get(name, f"{_bytes(each)}x") for name, each in zip(names, formats, strict=True))
    record = struct.Struct(formats[0][0] + "".join(codes))
    present = [name for name in names if name in _READ]
    # Fields that this file lacks are the None at the end.
    pick = operator.itemgetter(*(present.index(name) if name in present else -1 for name in _READ))
    for values in record.iter_unpack(records[: len(records) // record.size * record.size]):
        before_s, after_s, local, port, *others = pick((*values, None))
        peer, cookie, family, state, unread, send_buffer, receive_buffer, *more = others
        control, cwnd, *info = more
        if not cwnd:
            # A socket that closed while the kernel looked at it has no tcp_info: all of it is 0.
            cwnd, info = None, [None] * len(info)
        mss, rtt_us, min_rtt_us, unacked, lost, retrans, total_retrans, *counters = info
        segs_out, data_segs_out, bytes_sent, bytes_acked, bytes_received, *limited_us = counters
        busy_us, window_limited_us, buffer_limited_us = limited_us
        yield SocketSample(
            time_s=offset.controllers(instant(before_s) + (instant(after_s) - before_s) / 2),
            local_port=int.from_bytes(local),
            peer_port=int.from_bytes(port),
            peer=address_of(peer, is_ipv4=family == socket.AF_INET),
            cookie=cookie,
            state=sockdiag.STATES.get(state, str(state)),
            congestion_control=control.rstrip(b"\0").decode(errors="replace"),
            cwnd=cwnd,
            mss_bytes=mss,
            rtt_ms=rtt_us / 1000 if rtt_us else None,
            min_rtt_ms=min_rtt_us / 1000 if min_rtt_us and min_rtt_us != _NO_RTT else None,
            unacked=unacked,
            lost=lost,
            retransmits=retrans,
            total_retransmits=total_retrans,
            segments_out=segs_out,
            data_segments_out=data_segs_out,
            bytes_sent=bytes_sent,
            bytes_acked=bytes_acked,
            bytes_received=bytes_received,
            unread_bytes=unread,
            send_buffer_bytes=send_buffer or None,
            receive_buffer_bytes=receive_buffer or None,
            busy_us=busy_us,
            window_limited_us=window_limited_us,
            buffer_limited_us=buffer_limited_us,
        )
