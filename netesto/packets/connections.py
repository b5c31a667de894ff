"""Sorts packets into connections: TCP from SYN to SYN, UDP by addresses and ports."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv6Address

import numpy as np
from numpy.typing import NDArray

from netesto.packets.decode import ACK, FIN, SYN, Blocks, Decoded, Packets, joined
from netesto.packets.octets import Flags, Integers
from netesto.packets.tunnels import TCP

# The limits of a capture in memory: packets, of 66 bytes each, and pairs of addresses and ports. A
# larger capture is analysed up to there, with a remark.
PACKETS_MAX = 20_000_000
PAIRS_MAX = 50_000

# A packet is no copy of one that was captured elsewhere so much earlier: the minimum timeout of
# Linux. A later one with the same timestamp does not exist.
_TRANSIT_NS = 200_000_000
# Nothing was retransmitted in a shorter handshake (RFC 6298, section 2.1).
_SYN_TIMEOUT_NS = 1_000_000_000
# If the RTT is unknown: that of a short path.
_RTT_UNKNOWN_NS = 1_000_000

# A time before the first.
_NEVER = -(2**62)

# Odd, with bits everywhere: products with it spread over all 64 bits (Knuth, volume 3, 6.4).
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class CapturedConnection:
    """The packets between two ends, in the order of time.

    `from_client` is true for those of the client: the end that sent the first SYN or, if the
    connection began before the capture, the likely one. `client` and `server` are `address:port`
    and the port.
    `blocks.packet` is an index of `packets`. `copies` further packets are copies of earlier ones,
    and not among `packets`.
    """

    protocol: int
    client: tuple[str, int]
    server: tuple[str, int]
    packets: Packets
    from_client: Flags
    blocks: Blocks
    copies: int


class ConnectionTable:
    """All packets of a capture, by connection."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._pieces: list[Packets] = []
        self._pairs: list[NDArray[np.int32]] = []
        self._blocks: list[Blocks] = []
        self.count = self.left_out = 0
        # As Decoded has them.
        self.other_packets = self.fragments = self.cut = 0
        # Packets whose time is before that of an earlier one, and the largest difference.
        self.disordered = 0
        self.disorder_ns = 0
        self._newest_ns = _NEVER

    def add(self, decoded: Decoded) -> None:
        """Add the packets of a piece, up to the limits."""
        self.other_packets += decoded.other_packets
        self.fragments += decoded.fragments
        self.cut += decoded.cut
        packets = decoded.packets
        if not len(packets):
            return
        pairs = self._pair(packets)
        keep = np.flatnonzero((pairs >= 0) & (np.cumsum(pairs >= 0) <= PACKETS_MAX - self.count))
        self.left_out += len(packets) - len(keep)
        # The new place of each packet; -1 for omitted ones.
        place = np.full(len(packets), -1, np.int64)
        place[keep] = np.arange(len(keep)) + self.count
        blocks = replace(decoded.blocks, packet=place[decoded.blocks.packet])
        self._blocks.append(blocks.chosen(blocks.packet >= 0))
        kept_packets = packets.chosen(keep)
        self._note_order(kept_packets.time_ns)
        self._pieces.append(kept_packets)
        self._pairs.append(pairs[keep])
        self.count += len(keep)

    def _note_order(self, time_ns: Integers) -> None:
        if not len(time_ns):
            return
        newest_ns = np.maximum(np.maximum.accumulate(time_ns), self._newest_ns)
        behind_ns = newest_ns - time_ns
        self.disordered += int(np.count_nonzero(behind_ns))
        self.disorder_ns = max(self.disorder_ns, int(behind_ns.max()))
        self._newest_ns = int(newest_ns[-1])

    def _pair(self, packets: Packets) -> NDArray[np.int32]:
        """The number of the two ends of each packet; -1 if there are too many of them."""
        ends = _ends(packets)
        mixed = _mixed(ends)
        _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
        numbers = np.array([self._number(ends, at) for at in first.tolist()], np.int32)[inverse]
        # Two pairs with the same product do not occur unless they were constructed.
        differs = np.zeros(len(packets), np.bool_)
        for column in ends:
            differs |= column != column[first][inverse]
        for at in np.flatnonzero(differs).tolist():
            numbers[at] = self._number(ends, at)
        return numbers

    def _number(self, ends: list[NDArray[np.uint64]], at: int) -> int:
        key = tuple(int(column[at]) for column in ends)
        if key not in self._numbers and len(self._numbers) >= PAIRS_MAX:
            return -1
        return self._numbers.setdefault(key, len(self._numbers))

    def connections(self) -> Iterator[CapturedConnection]:
        """Every connection, in the order of their first packets. The table is empty afterwards.

        A file made at several interfaces, or of several files, may not be in the order of time.
        """
        if not self._pieces:
            return
        pair = np.concatenate(self._pairs)
        keys = [pair]
        if self.disordered:
            keys.insert(0, np.concatenate([piece.time_ns for piece in self._pieces]))
        order = np.lexsort(keys)
        pair = pair[order]
        packets = joined(self._pieces, order)
        forward = _is_forward(packets)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        blocks = _by_packet(self._blocks, place)
        self._pieces, self._pairs, self._blocks = [], [], []
        starts = _starts(packets, pair, forward)
        found = list(zip(starts.tolist(), [*starts[1:].tolist(), len(pair)], strict=True))
        for begin, end in sorted(
            found, key=lambda each: (packets.time_ns[each[0]], order[each[0]])
        ):
            yield _connection(packets, forward, blocks, begin, end)


def _mixed(columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """A number for each row: equal rows have the same, others hardly ever."""
    mixed = np.zeros_like(columns[0])
    for column in columns:
        mixed = (mixed ^ column) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _ends(p: Packets) -> list[NDArray[np.uint64]]:
    """The lower end of each packet, the upper one and the protocol, as columns."""
    forward = _is_forward(p)
    ports = p.source_port.astype(np.uint64), p.target_port.astype(np.uint64)
    both = ((p.source_high, p.target_high), (p.source_low, p.target_low), ports)
    lower = [np.where(forward, source, target) for source, target in both]
    upper = [np.where(forward, target, source) for source, target in both]
    return [*lower, *upper, p.protocol.astype(np.uint64)]


def _is_forward(p: Packets) -> Flags:
    """Whether a packet goes from the lower of its ends to the upper one."""
    same_high, same_low = p.source_high == p.target_high, p.source_low == p.target_low
    by_low = (p.source_low < p.target_low) | (same_low & (p.source_port <= p.target_port))
    found: Flags = (p.source_high < p.target_high) | (same_high & by_low)
    return found


def _by_packet(pieces: list[Blocks], place: Integers) -> Blocks:
    """All SACK blocks, in the order of the sorted packets."""
    packet = place[np.concatenate([each.packet for each in pieces])]
    rank = np.lexsort((np.concatenate([each.order for each in pieces]), packet))
    return replace(joined(pieces, rank), packet=packet[rank])


def _starts(packets: Packets, pair: NDArray[np.int32], forward: Flags) -> Integers:
    """Where connections begin among packets that are sorted by pair.

    A SYN begins one, because ports are reused, unless it repeats the previous SYN in its direction,
    or answers a SYN (simultaneous open).
    """
    begins = np.ones(len(pair), np.bool_)
    begins[1:] = pair[1:] != pair[:-1]
    is_syn = (packets.flags & (SYN | ACK)) == SYN
    repeats = np.zeros(len(pair), np.bool_)
    for way in (forward, ~forward):
        syns = np.flatnonzero(is_syn & way)
        before, after = syns[:-1], syns[1:]
        repeats[after] = (pair[before] == pair[after]) & (
            packets.sequence[before] == packets.sequence[after]
        )
    follows_syn = np.zeros(len(pair), np.bool_)
    follows_syn[1:] = is_syn[:-1]
    return np.flatnonzero(begins | (is_syn & ~repeats & ~follows_syn))


def _connection(
    packets: Packets, forward: Flags, blocks: Blocks, begin: int, end: int
) -> CapturedConnection:
    own = packets.chosen(slice(begin, end))
    of_own = blocks.chosen(slice(*np.searchsorted(blocks.packet, (begin, end))))
    own_blocks = replace(of_own, packet=of_own.packet - begin)
    way = forward[begin:end]
    is_copy = _copies(own, way)
    copies = int(is_copy.sum())
    if copies:
        place = np.cumsum(~is_copy) - 1
        kept = own_blocks.chosen(~is_copy[own_blocks.packet])
        own, way = own.chosen(~is_copy), way[~is_copy]
        own_blocks = replace(kept, packet=place[kept.packet])
    is_from_client = _client_is_forward(own, way)
    from_client = way if is_from_client else ~way
    source = _end(own.source_high[0], own.source_low[0], own.source_port[0])
    target = _end(own.target_high[0], own.target_low[0], own.target_port[0])
    client, server = (source, target) if from_client[0] else (target, source)
    return CapturedConnection(
        int(own.protocol[0]), client, server, own, from_client, own_blocks, copies
    )


def _copies(own: Packets, forward: Flags) -> Flags:
    """Which packets of a connection are copies of earlier ones: captured at several places, or
    duplicated by the network.

    A copy differs at most in what routers change. So does a retransmission, but
    - it has another IPv4 identification (RFC 6864, section 4.3), if its sender gives each packet
      another one;
    - it was captured at a place where its first transmission was, too;
    - it follows this after at least an RTT;
    - its timestamp is later, if they are not within one tick of the clock.
    """
    identification = np.where(_is_named(own, forward), own.identification, np.uint16(0))
    mixed = _mixed(_content(own, forward, identification))
    _, first, inverse, counts = np.unique(
        mixed, return_index=True, return_inverse=True, return_counts=True
    )
    found = np.zeros(len(own), np.bool_)
    repeated = counts[inverse] > 1
    found[repeated & (identification > 0)] = True
    found[first] = False
    unnamed = np.flatnonzero(repeated & (identification == 0))
    if len(unnamed):
        # Acknowledgements repeat each other.
        is_once = (own.protocol == TCP) & ((own.payload > 0) | ((own.flags & (SYN | FIN)) != 0))
        found[unnamed] = _sightings(
            inverse[unnamed].tolist(), own.place[unnamed].tolist(), own.time_ns[unnamed].tolist(),
            is_once[unnamed].tolist(), _rtt_ns(own),
        )  # fmt: skip
    return found


def _sightings(
    contents: list[int], places: list[int], times_ns: list[int], once: list[bool], rtt_ns: int
) -> list[bool]:
    """Which packets, in the order of time, are further sightings of a transmission of the same
    content: at another place, or, of what is sent only `once` within an RTT, anywhere."""
    # When each content was transmitted, and how many of these times each place knows.
    sent_ns: defaultdict[int, list[int]] = defaultdict(list)
    seen: defaultdict[tuple[int, int], int] = defaultdict(int)
    found: list[bool] = []
    for content, place, time_ns, is_once in zip(contents, places, times_ns, once, strict=True):
        sent, count = sent_ns[content], seen[content, place]
        while count < len(sent) and time_ns - sent[count] > _TRANSIT_NS:
            count += 1
        is_new = count == len(sent) and not (is_once and sent and time_ns - sent[-1] < rtt_ns)
        if is_new:
            sent.append(time_ns)
        seen[content, place] = min(count + 1, len(sent))
        found.append(not is_new)
    return found


def _content(
    own: Packets, forward: Flags, identification: NDArray[np.uint16]
) -> list[NDArray[np.uint64]]:
    """Columns that a copy has in common with its original."""
    high = np.uint64(32)
    return [
        own.sequence.astype(np.uint64) << high | own.acknowledged,
        own.stamp.astype(np.uint64) << high | own.echo,
        own.payload.astype(np.uint64) << high
        | own.window.astype(np.uint64) << np.uint64(16)
        | own.flags.astype(np.uint64) << np.uint64(1)
        | forward,
        identification.astype(np.uint64),
    ]


def _is_named(own: Packets, forward: Flags) -> Flags:
    """Whether packets have an identification that distinguishes them from others of their sender:
    not if most of its packets have that of the previous one."""
    found = own.identification > 0
    for way in (forward, ~forward):
        sent = np.flatnonzero(way & found)
        before, after = sent[:-1], sent[1:]
        differs = (own.sequence[before] != own.sequence[after]) | (
            own.acknowledged[before] != own.acknowledged[after]
        )
        same = own.identification[before] == own.identification[after]
        if same.all() or 2 * np.count_nonzero(differs & same) > np.count_nonzero(differs):
            found[way] = False
    return found


def _rtt_ns(own: Packets) -> int:
    """The time that a retransmission needs at least: that of the handshake."""
    kind = own.flags & (SYN | ACK)
    syn, reply, ack = (np.flatnonzero(kind == each) for each in (SYN, SYN | ACK, ACK))
    if len(syn) and len(reply) and (later := ack[ack > reply[0]]).size:
        took_ns = int(own.time_ns[later[0]] - own.time_ns[syn[0]])
        if 0 < took_ns < _SYN_TIMEOUT_NS:
            return took_ns
    return _RTT_UNKNOWN_NS


def _client_is_forward(own: Packets, forward: Flags) -> bool:
    is_tcp = own.protocol[0] == TCP
    for flags, is_client in ((SYN, True), (SYN | ACK, False)):
        found = np.flatnonzero((own.flags & (SYN | ACK)) == flags)
        if is_tcp and len(found):
            return bool(forward[found[0]]) == is_client
    if not is_tcp:
        return bool(forward[0])
    # The port of a client is chosen by its kernel, mostly from the upper ones.
    return bool(forward[0]) == bool(own.source_port[0] >= own.target_port[0])


def _end(high: np.uint64, low: np.uint64, port: np.uint16) -> tuple[str, int]:
    """`10.0.0.1:5201` or `[fe80::1]:5201`, and the port"""
    address = IPv6Address(int(high) << 64 | int(low))
    return f"{address.ipv4_mapped or f'[{address}]'}:{port}", int(port)
