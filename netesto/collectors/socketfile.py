"""The file of socket samples: what the kernel reported of each socket, in its own structs.

A compressed stream (gzip): a line of JSON that names the fields, then records of fixed size. Each
piece that a recorder gives can be read without what follows. See docs/data-formats.md.
"""

import json
import operator
import struct
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netesto.collectors import sockdiag, sstext
from netesto.collectors.clock import instant
from netesto.errors import OutputError
from netesto.model import SAME_CLOCK, ClockOffset, SocketSample

FORMAT = "netesto socket samples 1"

_ORDER = "<" if sys.byteorder == "little" else ">"

# Names and formats are numpy's: u4 is an unsigned number of four bytes, S16 text, V16 raw bytes.
# An instant before the kernel was asked and one after it had answered, UTC seconds, in full µs;
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

_SKMEM_BYTES = 36

# The attributes of congestion controls: the fields before theirs, and the bytes of theirs. What a
# newer kernel appends is in `cc_rest`.
_CONTROLS: Mapping[int, tuple[bytes, int]] = {
    sockdiag.DIAG_VEGASINFO: (bytes(0), 16),
    sockdiag.DIAG_DCTCPINFO: (bytes(16), 16),
    sockdiag.DIAG_BBRINFO: (bytes(32), 20),
}
_CONTROL_BYTES, _CONTROL_REST_BYTES = 52, 32
_NO_CONTROL = bytes(2 + _CONTROL_BYTES + _CONTROL_REST_BYTES)

# <linux/inet_diag.h>, <linux/mptcp.h>: attributes within attributes.
_ULP_MPTCP = 3
_TOKEN_REM, _TOKEN_LOC, _FLAGS, _ID_REM, _ID_LOC = 1, 2, 8, 9, 10
_NO_MPTCP = bytes(14)

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

# What a SocketSample is made of, with codes of `struct`, in the order that `_samples` expects.
_READ: Mapping[str, str] = {
    "before_s": "d", "after_s": "d", "idiag_sport": "2s", "idiag_dport": "2s", "idiag_state": "B",
    "congestion_control": "16s", "tcpi_snd_cwnd": "I", "tcpi_snd_mss": "I", "tcpi_rtt": "I",
    "tcpi_min_rtt": "I", "tcpi_unacked": "I", "tcpi_lost": "I", "tcpi_retrans": "I",
    "tcpi_total_retrans": "I", "tcpi_segs_out": "I", "tcpi_data_segs_out": "I",
    "tcpi_bytes_sent": "Q", "tcpi_bytes_acked": "Q", "tcpi_bytes_received": "Q",
}  # fmt: skip

# A host may send what it likes. Its samples become values that take ten times as much memory.
CONTENT_BYTES_MAX = 2**30
_INVALID = (
    *(zlib.error, struct.error, ValueError, OverflowError, LookupError, TypeError, AttributeError),
    *(ZeroDivisionError, RecursionError, MemoryError),
)

# A minimum RTT that is not known yet.
_NO_RTT = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the attributes of a message are: what `unpack` gives are their headers, as `headers`,
    and contents by turns. `pick` takes those that matter from them and an empty one behind.
    `control` is the attribute of the congestion control, 0 without one."""

    unpack: Callable[[bytes], tuple[bytes, ...]]
    headers: tuple[bytes, ...]
    pick: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]
    control: int

    @classmethod
    def of(cls, message: bytes) -> "_Layout":
        found = list(sockdiag.each_attribute(message))
        sizes = [(len(content), -len(content) % 4) for _, content in found]
        codes = "".join(f"4s{size}s{padding}x" for size, padding in sizes)
        unpack = struct.Struct(f"={sockdiag.MESSAGE_BYTES}x{codes}").unpack
        places = {kind: 2 * number + 1 for number, (kind, _) in enumerate(found)}
        control = next((kind for kind in _CONTROLS if kind in places), 0)
        wanted = (
            *(sockdiag.DIAG_SKMEMINFO, sockdiag.DIAG_ULP_INFO),
            *(control, sockdiag.DIAG_CONG, sockdiag.DIAG_INFO),
        )
        return cls(
            unpack=unpack,
            headers=unpack(message)[::2],
            pick=operator.itemgetter(*(places.get(kind, -1) for kind in wanted)),
            control=control,
        )


class Recorder:
    """Makes the bytes of a file, a piece at a time, from what sockdiag reports.

    `info_bytes` is the size of the kernel's tcp_info; what this module cannot name of it is kept
    raw, as `tcpi_rest`.
    """

    def __init__(self, info_bytes: int) -> None:
        header = {"format": FORMAT, "dtype": dtype_of(info_bytes)}
        self._pending = [json.dumps(header).encode() + b"\n"]
        fixed = (sockdiag.MESSAGE_BYTES, _SKMEM_BYTES, len(_NO_MPTCP), len(_NO_CONTROL))
        sizes = "s".join(map(str, (*fixed, 16, info_bytes)))
        self._pack = struct.Struct(f"=dd{sizes}s").pack
        # Level 1 takes 1 µs for a record, and leaves a third to an eighth of its bytes; level 6
        # takes three times as long, and saves a quarter of what is left.
        self._compressor = zlib.compressobj(level=1, wbits=31)
        self._layouts: defaultdict[int, list[_Layout]] = defaultdict(list)

    def add(self, before_s: float, after_s: float, messages: Iterable[bytes]) -> None:
        """Add a record for each message."""
        before_s, after_s = round(before_s, 6), round(after_s, 6)
        pack, append, parts_of = self._pack, self._pending.append, self._parts
        for message in messages:
            append(pack(before_s, after_s, message, *parts_of(message)))

    def _parts(self, message: bytes) -> tuple[bytes, ...]:
        """The fields of a message that are in attributes. Most messages of a length have the same
        attributes at the same places, or those of few others (congestion controls with names as
        long as one another), so that these need not be looked for."""
        for layout in self._layouts[len(message)]:
            if (values := layout.unpack(message))[::2] == layout.headers:
                break
        else:
            layout = _Layout.of(message)
            self._layouts[len(message)].append(layout)
            values = layout.unpack(message)
        memory, ulp, own, control, info = layout.pick((*values, b""))
        return memory, _mptcp(ulp) if ulp else b"", _own(layout.control, own), control, info

    def piece(self) -> bytes:
        """What was added since the last piece; b"" if nothing was."""
        if not self._pending:
            return b""
        records = b"".join(self._pending)
        self._pending.clear()
        return self._compressor.compress(records) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        """The last piece; nothing can be added any more."""
        return self.piece() + self._compressor.flush()


def _own(attribute: int, content: bytes) -> bytes:
    """What a congestion control reports, as the fields of a record; the rest of them is 0."""
    if not attribute:
        return b""
    before, size = _CONTROLS[attribute]
    fields = before + content
    if len(content) > size:
        fields = (before + content[:size]).ljust(_CONTROL_BYTES, b"\0") + content[size:]
    return attribute.to_bytes(2, sys.byteorder) + fields


def _mptcp(ulp: bytes) -> bytes:
    """What MPTCP reports of a subflow, as the fields of a record; nothing of another protocol."""
    subflow = sockdiag.attributes(ulp, 0).get(_ULP_MPTCP)
    if subflow is None:
        return b""
    found = sockdiag.attributes(subflow, 0)
    numbers = (_TOKEN_REM, _TOKEN_LOC, _FLAGS)
    return b"".join(
        [found.get(each, bytes(4))[:4] for each in numbers]
        + [found.get(each, bytes(1))[:1] for each in (_ID_REM, _ID_LOC)]
    )


def dtype_of(info_bytes: int) -> dict[str, list[str]]:
    """Names and formats of a record's fields, as numpy.dtype takes them."""
    fields = [(name, each) for each, names in _FIXED for name in names.split()]
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


def _bytes(format_: str) -> int:
    return int(format_.lstrip("<>fuSV"))


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> list[SocketSample]:
    """The samples in a file, in time order; an incomplete last record is ignored.

    The time of a sample is the middle between the two instants. `offset` is that of the file's
    clock from the one that the samples use. Files of earlier versions (`.ss`) hold text.
    OutputError if the file is invalid.
    """
    if path.suffix == ".ss":
        return sstext.read(path, offset=offset)
    try:
        # Unlike gzip.open, this reads all that a killed agent has written.
        content = zlib.decompressobj(wbits=31).decompress(path.read_bytes(), CONTENT_BYTES_MAX + 1)
        if len(content) > CONTENT_BYTES_MAX:
            raise ValueError(f"it has more than {CONTENT_BYTES_MAX} bytes")
        begin = content.find(b"\n") + 1
        if not begin:
            return []
        dtype = json.loads(content[:begin])["dtype"]
        return list(_samples(memoryview(content)[begin:], dtype, offset))
    except _INVALID as error:
        raise OutputError(f"{path}: not a file of socket samples: {error}") from None


def _samples(
    records: memoryview, dtype: Mapping[str, Sequence[str]], offset: ClockOffset
) -> Iterator[SocketSample]:
    names, formats = dtype["names"], dtype["formats"]
    codes = (_READ.get(name, f"{_bytes(each)}x") for name, each in zip(names, formats, strict=True))
    record = struct.Struct(formats[0][0] + "".join(codes))
    there = [name for name in names if name in _READ]
    # What this file does not have is the None behind its values.
    pick = operator.itemgetter(*(there.index(name) if name in there else -1 for name in _READ))
    for values in record.iter_unpack(records[: len(records) // record.size * record.size]):
        before_s, after_s, local, peer, state, control, cwnd, *info = pick((*values, None))
        if not cwnd:
            # A socket that closed while the kernel looked at it has no tcp_info: all of it is 0.
            cwnd, info = None, [None] * len(info)
        mss, rtt_us, min_rtt_us, unacked, lost, retrans, total_retrans, *counters = info
        segs_out, data_segs_out, bytes_sent, bytes_acked, bytes_received = counters
        yield SocketSample(
            time_s=offset.controllers(instant(before_s) + (instant(after_s) - before_s) / 2),
            local_port=int.from_bytes(local),
            peer_port=int.from_bytes(peer),
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
        )
