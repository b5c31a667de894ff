"""Round-trip times of a connection: of its handshake, and of echoed timestamps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netesto.packets.connections import CapturedConnection
from netesto.packets.decode import ACK, RST, SYN
from netesto.packets.octets import Integers


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """The round-trip times of a connection (ns), as far as the capture has them: those of its
    `handshake`, and the shortest of echoed timestamps, from the point of capture `to_server` and
    `to_client`. `syn_ns` is the time of the client's first SYN."""

    handshake: tuple[int, int] | None
    to_server: int | None
    to_client: int | None
    syn_ns: int | None

    @property
    def path_ns(self) -> int | None:
        """The RTT of the whole path, wherever packets were captured."""
        if self.handshake is not None:
            return sum(self.handshake)
        if self.to_server is None or self.to_client is None:
            return None
        return self.to_server + self.to_client


def measure(connection: CapturedConnection) -> RoundTrips:
    """The round-trip times of a connection of TCP."""
    packets = connection.packets
    is_syn = ((packets.flags & (SYN | ACK)) == SYN) & connection.from_client
    return RoundTrips(
        handshake=_handshake(connection),
        to_server=_nearest_echo(connection, from_client=True),
        to_client=_nearest_echo(connection, from_client=False),
        syn_ns=int(packets.time_ns[is_syn].min()) if is_syn.any() else None,
    )


def _handshake(connection: CapturedConnection) -> tuple[int, int] | None:
    """From SYN to SYN-ACK, and from this to the client's ACK: the round-trip times from the point
    of capture to the server and to the client. None if a packet was retransmitted."""
    packets, from_client = connection.packets, connection.from_client
    kind = packets.flags & (SYN | ACK)
    syn = np.flatnonzero((kind == SYN) & from_client)
    reply = np.flatnonzero((kind == SYN | ACK) & ~from_client)
    if len(syn) != 1 or len(reply) != 1:
        return None
    reset = (packets.flags & RST) != 0
    ack = np.flatnonzero((kind == ACK) & from_client & ~reset)
    ack = ack[ack > reply[0]]
    if not len(ack) or reply[0] < syn[0]:
        return None
    time_ns = packets.time_ns
    first, second = (
        int(time_ns[reply[0]] - time_ns[syn[0]]), int(time_ns[ack[0]] - time_ns[reply[0]]),
    )  # fmt: skip
    return (first, second) if first >= 0 and second >= 0 else None


def _nearest_echo(connection: CapturedConnection, *, from_client: bool) -> int | None:
    """The shortest time (ns) from a packet of one side to the first one of the other that echoes
    its timestamp: the round trip from the point of capture to the other side."""
    packets = connection.packets
    usable = packets.is_stamped & ((packets.flags & RST) == 0)
    sent = np.flatnonzero(usable & (connection.from_client == from_client))
    # The first SYN has nothing to echo.
    echoing = (packets.flags & ACK) != 0
    back = np.flatnonzero(usable & echoing & (connection.from_client != from_client))
    _, took_ns = echoed(
        packets.stamp[sent], packets.time_ns[sent], packets.echo[back], packets.time_ns[back]
    )
    return int(took_ns.min()) if len(took_ns) else None


def echoed(
    stamps: NDArray[np.integer], sent_ns: Integers, echoes: NDArray[np.integer], back_ns: Integers
) -> tuple[Integers, Integers]:
    """From the first packet with each timestamp to the first that echoes it: time and duration."""
    stamps, first = np.unique(stamps, return_index=True)
    echoes, reply = np.unique(echoes, return_index=True)
    _, of_stamp, of_echo = np.intersect1d(stamps, echoes, assume_unique=True, return_indices=True)
    time_ns = back_ns[reply[of_echo]]
    took_ns = time_ns - sent_ns[first[of_stamp]]
    # Wrapped timestamps, or a clock that was set, give other values.
    fits = took_ns >= 0
    time_ns, took_ns = time_ns[fits], took_ns[fits]
    rank = np.argsort(time_ns, kind="stable")
    return time_ns[rank], took_ns[rank]
