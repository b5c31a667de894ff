"""Socket samples as ss(8) prints them: the raw files of earlier versions, `sockets.ss`.

For each tick a line `@BEFORE AFTER` with the instants (UTC seconds) at which the kernel was asked
and had answered, then a line for each socket in the form of `ss -tiOHn`, perhaps with `-m`.
"""

import re
from ipaddress import ip_address
from pathlib import Path

from netesto.collectors.base import lines
from netesto.collectors.clock import instant
from netesto.errors import OutputError
from netesto.measured import SocketSample, address_of
from netesto.model import SAME_CLOCK, Address, ClockOffset

# State, two queues, two addresses: what precedes tcp_info in a line.
_COLUMNS = 5

# The kernel has counters of 64 bits, and times of 32 bits in microseconds.
_MOST, _MOST_MS = 2**64, 2**32 / 1000

# Words without a value that precede the name of the congestion control.
_FLAGS = frozenset({"ts", "usec_ts", "sack", "ecn", "ecnseen", "fastopen"})

# The limits of the buffers in `skmem:(r0,rb131072,t0,tb87040,…)`.
_BUFFER = re.compile(r"\b(rb|tb)(\d+)")


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> list[SocketSample]:
    """The samples in a file, in time order; a truncated last line is ignored.

    `offset` is that of the file's clock from the one that the samples use. OutputError names an
    invalid line.
    """
    samples: list[SocketSample] = []
    time_s: float | None = None
    for number, line in lines(path):
        try:
            if line.startswith("@"):
                before_s, after_s = map(instant, line[1:].split())
                time_s = offset.controllers(before_s + (after_s - before_s) / 2)
            elif line.strip() and time_s is not None:
                samples.append(parse(line, time_s))
        except (ValueError, OutputError) as error:
            raise OutputError(f"{path}:{number}: {error}") from None
    return samples


def parse(line: str, time_s: float) -> SocketSample:
    """The sample in a line that ss printed at `time_s`. OutputError if the line is not a socket.

    ss omits what is 0. A missing counter is therefore 0; what cannot be 0, such as an RTT, is None.
    """
    words = line.split()
    info = words[_COLUMNS:]
    # The first occurrence of a name counts.
    values = dict(word.split(":", 1) for word in reversed(info) if ":" in word)
    # tcp_info is missing for a socket that closed while ss looked at it.
    absent = "0" if "cwnd" in values else None
    buffers = dict(_BUFFER.findall(values.get("skmem", "")))
    in_flight, _, total = values.get("retrans", "0/0" if absent else "").partition("/")
    try:
        state, unread, _, local, peer = words[:_COLUMNS]
        return SocketSample(
            time_s=time_s,
            local_port=_port(local),
            peer_port=_port(peer),
            peer=_address(peer),
            state=state,
            congestion_control=_congestion_control(info),
            cwnd=_integer(values.get("cwnd")),
            mss_bytes=_integer(values.get("mss")),
            rtt_ms=_decimal(values.get("rtt", "").partition("/")[0]),
            min_rtt_ms=_decimal(values.get("minrtt")),
            unacked=_integer(values.get("unacked", absent)),
            lost=_integer(values.get("lost", absent)),
            retransmits=_integer(in_flight),
            total_retransmits=_integer(total),
            segments_out=_integer(values.get("segs_out", absent)),
            data_segments_out=_integer(values.get("data_segs_out", absent)),
            bytes_sent=_integer(values.get("bytes_sent", absent)),
            bytes_acked=_integer(values.get("bytes_acked", absent)),
            bytes_received=_integer(values.get("bytes_received", absent)),
            unread_bytes=_integer(unread),
            send_buffer_bytes=_integer(buffers.get("tb")),
            receive_buffer_bytes=_integer(buffers.get("rb")),
        )
    except ValueError:
        raise OutputError(f"not a socket as ss prints it: {line.strip()!r}") from None


def _congestion_control(info: list[str]) -> str:
    """The first bare word that is not a flag, before tcp_info begins with `wscale:` or `rto:`."""
    for word in info:
        if word.startswith(("wscale:", "rto:")):
            break
        if ":" not in word and word not in _FLAGS:
            return word
    return ""


def _port(address: str) -> int:
    """The port of `10.0.0.1:80`, `[fe80::1]%eth0:80` or `[::ffff:10.0.0.1]:80`."""
    return int(address.rpartition(":")[2])


def _address(end: str) -> Address:
    """The address in front of a port."""
    found = ip_address(end.rpartition(":")[0].partition("%")[0].strip("[]"))
    return address_of(found.packed, is_ipv4=found.version == 4)


def _integer(text: str | None) -> int | None:
    value = int(text) if text else None
    if value is not None and not 0 <= value < _MOST:
        raise ValueError(text)
    return value


def _decimal(text: str | None) -> float | None:
    value = float(text) if text else None
    if value is not None and not 0 <= value < _MOST_MS:
        raise ValueError(text)
    return value
