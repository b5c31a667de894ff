"""What ss(8) prints of sockets, to compare it with what we read from the kernel."""

import re
from ipaddress import ip_address

from netesto.measured import SocketSample, address_of

# State, two queues, two addresses: what precedes tcp_info in a line.
_COLUMNS = 5

# Words without a value that precede the name of the congestion control.
_FLAGS = frozenset({"<->", "ts", "usec_ts", "sack", "ecn", "ecnseen", "fastopen"})


def parse(line: str, time_s: float) -> SocketSample:
    """The sample in a line of `ss -tmieOHn`, which omits what is 0."""
    words = line.split()
    state, unread, _, local, peer = words[:_COLUMNS]
    info = words[_COLUMNS:]
    # The first occurrence of a name counts.
    values = dict(word.split(":", 1) for word in reversed(info) if ":" in word)
    buffers = dict(re.findall(r"\b(rb|tb)(\d+)", values.get("skmem", "")))
    in_flight, _, total = values.get("retrans", "0/0").partition("/")
    address, _, peer_port = peer.rpartition(":")
    ip = ip_address(address.strip("[]"))
    return SocketSample(
        time_s=time_s,
        local_port=int(local.rpartition(":")[2]),
        peer_port=int(peer_port),
        peer=address_of(ip.packed, is_ipv4=ip.version == 4),
        cookie=int(values["sk"], 16),
        state=state,
        congestion_control=next(w for w in info if ":" not in w and w not in _FLAGS),
        cwnd=int(values["cwnd"]),
        mss_bytes=int(values["mss"]),
        rtt_ms=float(values["rtt"].partition("/")[0]),
        min_rtt_ms=float(values["minrtt"]) if "minrtt" in values else None,
        unacked=int(values.get("unacked", 0)),
        lost=int(values.get("lost", 0)),
        retransmits=int(in_flight),
        total_retransmits=int(total),
        segments_out=int(values.get("segs_out", 0)),
        data_segments_out=int(values.get("data_segs_out", 0)),
        bytes_sent=int(values.get("bytes_sent", 0)),
        bytes_acked=int(values.get("bytes_acked", 0)),
        bytes_received=int(values.get("bytes_received", 0)),
        unread_bytes=int(unread),
        send_buffer_bytes=int(buffers["tb"]),
        receive_buffer_bytes=int(buffers["rb"]),
    )
