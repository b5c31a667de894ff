"""Decodes the bytes of packets into columns of their headers, for all packets of a piece at once.

RFC 791, 8200 (IP), 9293 (TCP), 7323 (window scale, time stamps), 2018 (SACK), 768 (UDP); link types
of tcpdump.org/linktypes.html. Values outside the captured bytes are ignored. The packets inside
tunnels are those of flows (`netesto.packets.tunnels`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from netesto.packets import tunnels
from netesto.packets.octets import Flags, Integers, Octets
from netesto.packets.reader import Records
from netesto.packets.tunnels import BRIDGED, IPV4, IPV6, TCP, UDP

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

# No packet of a flow has more extension headers, or is in more tunnels.
_EXTENSIONS_MAX, _TUNNELS_MAX = 8, 4

_NULL, _ETHERNET, _LOOP, _RAW, _COOKED, _IP4, _IP6, _COOKED_2 = 0, 1, 108, 101, 113, 228, 229, 276
# DLT_RAW differs between systems, and some files contain its number.
_RAWS = (_RAW, 12, 14, _IP4, _IP6)
LINKS = frozenset({_NULL, _ETHERNET, _LOOP, _COOKED, _COOKED_2, *_RAWS})

# Hop-by-hop, routing, fragment, authentication, destination options.
_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_EXTENSIONS = (_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION)

# IPv4 addresses are stored as IPv4-mapped IPv6 addresses.
_MAPPED = np.uint64(0xFFFF << 32)

_END, _NOTHING, _MSS, _SCALE, _SACK, _STAMPS = 0, 1, 2, 3, 5, 8
# NOP, NOP, time stamps of 10 bytes: the options of nearly every segment.
_STAMPS_ALONE = 0x0101080A
_OPTION_BYTES_MAX = 40


@dataclass(frozen=True, slots=True)
class PacketColumns:
    """PacketColumns of the same length, which subclasses have as fields."""

    def chosen(self, which: Integers | Flags | slice) -> Self:
        """The rows at these indexes, or where this mask is true."""
        return type(self)(*(getattr(self, each.name)[which] for each in fields(self)))


Table = TypeVar("Table", bound=PacketColumns)


def joined(pieces: Sequence[Table], order: Integers) -> Table:
    """The rows of all pieces, of which there is at least one, in this order."""
    columns = ([getattr(each, name.name) for each in pieces] for name in fields(pieces[0]))
    return type(pieces[0])(*(np.concatenate(column)[order] for column in columns))


@dataclass(frozen=True, slots=True)
class Packets(PacketColumns):
    """Columns of the packets of TCP and UDP, in the order of the capture.

    `payload` is the length of the data according to the headers, even if it was not captured.
    Addresses are two columns of 64 bits. `identification` is that of IPv4, 0 for IPv6. `place` is
    where a packet was captured: another number at another interface, in another direction or after
    another number of routers. `scale` and `mss` are -1 where there is no such option. The
    `sequence` of a datagram is its checksum.
    """

    time_ns: Integers
    protocol: NDArray[np.uint8]
    place: NDArray[np.uint32]
    identification: NDArray[np.uint16]
    source_high: NDArray[np.uint64]
    source_low: NDArray[np.uint64]
    target_high: NDArray[np.uint64]
    target_low: NDArray[np.uint64]
    source_port: NDArray[np.uint16]
    target_port: NDArray[np.uint16]
    payload: NDArray[np.uint32]
    sequence: NDArray[np.uint32]
    acknowledged: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    window: NDArray[np.uint16]
    is_stamped: Flags
    stamp: NDArray[np.uint32]
    echo: NDArray[np.uint32]
    scale: NDArray[np.int8]
    mss: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, slots=True)
class Blocks(PacketColumns):
    """The SACK blocks of a piece, in the order of the capture; `packet` is an index of Packets,
    `order` the place of the block in its packet."""

    packet: Integers
    order: Integers
    left: Integers
    right: Integers


@dataclass(frozen=True, slots=True)
class Decoded:
    """The content of a piece. `other_packets` are those that are not TCP or UDP over IP,
    `fragments` those without the header of TCP or UDP, `cut` those whose headers were not captured
    completely."""

    packets: Packets
    blocks: Blocks
    other_packets: int
    fragments: int
    cut: int


def decode(records: Records) -> Decoded:
    """The packets of a piece of a file."""
    octets = Octets(records.data)
    end = records.start + records.captured
    kind, network, point = _link(octets, records)
    # Where the packet ends, by the link's length: the IP header of a super-packet may say 0.
    beyond = records.start + np.maximum(records.length, records.captured)
    found = _network(octets, kind, network, end, beyond)
    for _ in range(_TUNNELS_MAX):
        which, kind, network = tunnels.inside(
            octets, found.protocol, found.transport, found.over, end
        )
        inner = _network(octets, kind, network, end[which], found.over[which])
        # Datagrams without IP inside, or whose bytes only look like a tunnel's, stay what they are.
        if not inner.is_ip.any():
            break
        found.replace(which[inner.is_ip], inner.chosen(inner.is_ip))
    is_first = found.is_ip & ~found.is_fragment
    is_known = is_first & ((found.protocol == TCP) | (found.protocol == UDP))
    is_whole = is_known & (found.transport + np.where(found.protocol == TCP, 20, 8) <= end)
    keep = np.flatnonzero(is_whole)
    own = found.chosen(keep)
    hops = octets.u8(own.network + np.where(own.is_4, 8, 7))
    packets, blocks = _transport(
        octets,
        own.transport,
        time_ns=records.time_ns[keep],
        protocol=own.protocol,
        place=(records.interface[keep] << 16) + (point[keep] << 8) + hops,
        identification=np.where(own.is_4, octets.u16(own.network + 4), 0),
        over=own.over,
        end=end[keep],
        addresses=_addresses(octets, own.network, own.is_4),
    )
    is_cut = (is_first & (found.protocol == -1)) | (is_known & ~is_whole)
    fragments, cut = int((found.is_ip & found.is_fragment).sum()), int(is_cut.sum())
    others = len(end) - len(packets) - fragments - cut
    return Decoded(packets, blocks, others, fragments, cut)


def _link(octets: Octets, records: Records) -> tuple[Integers, Integers, Integers]:
    """The EtherType of each packet (0 where only the IP header tells, -1 if the link type is
    unknown), where its network header begins, and the interface and the direction in cooked
    headers, as one number."""
    start = records.start
    kind, network, point = np.full(len(start), -1, np.int64), start.copy(), np.zeros_like(start)
    for link in np.unique(records.link).tolist():
        chosen = np.flatnonzero(records.link == link)
        at = start[chosen]
        if link in _RAWS:
            kind[chosen] = 0
        elif link in {_NULL, _LOOP}:
            # An address family whose number and byte order depend on the system.
            kind[chosen] = 0
            network[chosen] += 4
        elif link in {_ETHERNET, _COOKED, _COOKED_2}:
            if link == _ETHERNET:
                found, behind = np.full(len(at), BRIDGED), at
            elif link == _COOKED:
                found, behind, point[chosen] = octets.u16(at + 14), at + 16, octets.u16(at)
            else:
                found, behind = octets.u16(at), at + 20
                point[chosen] = (octets.u32(at + 4) << 3) + octets.u8(at + 10)
            kind[chosen], network[chosen] = tunnels.network(octets, found, behind)
    return kind, network, point


@dataclass(frozen=True, slots=True)
class _IpHeaders(PacketColumns):
    """The IP header of each packet: its place, whether it is one and of which version, the protocol
    (-1 if it was not captured), where the header of this begins, where the data end, and whether
    the packet is a later fragment."""

    network: Integers
    is_ip: Flags
    is_4: Flags
    protocol: Integers
    transport: Integers
    over: Integers
    is_fragment: Flags

    def replace(self, which: Integers, inner: "_IpHeaders") -> None:
        """Put the headers of `inner` in the place of these."""
        for each in fields(self):
            getattr(self, each.name)[which] = getattr(inner, each.name)


def _network(
    octets: Octets, kind: Integers, network: Integers, end: Integers, beyond: Integers
) -> _IpHeaders:
    """The IP headers at these places."""
    version = octets.u8(network) >> 4
    is_4 = (version == 4) & (kind != IPV6)
    is_ip = (is_4 | ((version == 6) & (kind != IPV4))) & (kind >= 0) & (network < end)
    total = octets.u16(network + 2)
    header = (octets.u8(network) & 0x0F) * 4
    protocol = octets.u8(network + 9)
    transport = network + np.maximum(header, 20)
    over = np.where(total > 0, np.minimum(network + total, beyond), beyond)
    is_fragment = (octets.u16(network + 6) & 0x1FFF) != 0
    is_whole = (header >= 20) & (transport <= end)
    six = np.flatnonzero(~is_4)
    if len(six):
        at = network[six]
        following, place = octets.u8(at + 6), at + 40
        length, later = octets.u16(at + 4), np.zeros(len(six), np.bool_)
        for _ in range(_EXTENSIONS_MAX):
            extended = np.isin(following, _EXTENSIONS) & (place + 8 <= end[six]) & ~later
            if not extended.any():
                break
            later |= extended & (following == _FRAGMENT) & ((octets.u16(place + 2) & 0xFFF8) != 0)
            words = octets.u8(place + 1)
            size = np.where(following == _FRAGMENT, 8, (words + 1) * 8)
            size = np.where(following == _AUTHENTICATION, (words + 2) * 4, size)
            following = np.where(extended, octets.u8(place), following)
            place = np.where(extended, place + size, place)
        protocol[six], transport[six], is_fragment[six] = following, place, later
        is_whole[six] = place <= end[six]
        over[six] = np.where(length > 0, np.minimum(at + 40 + length, beyond[six]), beyond[six])
    protocol = np.where(is_ip & is_whole, protocol, -1)
    return _IpHeaders(network, is_ip, is_4, protocol, transport, over, is_fragment)


def _addresses(octets: Octets, network: Integers, is_4: Flags) -> dict[str, NDArray[np.uint64]]:
    """Both halves of the source's address and of the target's, as columns of Packets."""
    found: dict[str, NDArray[np.uint64]] = {}
    four, six = network[is_4], network[~is_4]
    for name, at_4, at_6 in (("source", 12, 8), ("target", 16, 24)):
        high, low = np.zeros((2, len(network)), np.uint64)
        low[is_4] = octets.u32(four + at_4).astype(np.uint64) | _MAPPED
        high[~is_4], low[~is_4] = octets.u64(six + at_6), octets.u64(six + at_6 + 8)
        found |= {f"{name}_high": high, f"{name}_low": low}
    return found


def _transport(
    octets: Octets,
    at: Integers,
    *,
    time_ns: Integers,
    protocol: Integers,
    place: Integers,
    identification: Integers,
    over: Integers,
    end: Integers,
    addresses: Mapping[str, NDArray[np.uint64]],
) -> tuple[Packets, Blocks]:
    is_tcp = protocol == TCP
    header = np.where(is_tcp, np.maximum((octets.u8(at + 12) >> 4) * 4, 20), 8)
    options = _Options(octets, np.where(is_tcp, at + 20, at), np.minimum(at + header, end))
    if is_tcp.any():
        options.read()
    only_tcp = is_tcp.astype(np.int64)
    packets = Packets(
        time_ns=time_ns,
        protocol=protocol.astype(np.uint8),
        place=(place & 0xFFFFFFFF).astype(np.uint32),
        identification=identification.astype(np.uint16),
        **addresses,
        source_port=octets.u16(at).astype(np.uint16),
        target_port=octets.u16(at + 2).astype(np.uint16),
        payload=np.maximum(over - at - header, 0).astype(np.uint32),
        sequence=np.where(is_tcp, octets.u32(at + 4), octets.u16(at + 6)).astype(np.uint32),
        acknowledged=(octets.u32(at + 8) * only_tcp).astype(np.uint32),
        flags=(octets.u8(at + 13) * only_tcp).astype(np.uint8),
        window=(octets.u16(at + 14) * only_tcp).astype(np.uint16),
        is_stamped=options.is_stamped,
        stamp=options.stamp.astype(np.uint32),
        echo=options.echo.astype(np.uint32),
        scale=options.scale.astype(np.int8),
        mss=options.mss.astype(np.int32),
    )
    return packets, options.blocks()


class _Options:
    """The options of TCP headers that lie between `at` and `end`."""

    def __init__(self, octets: Octets, at: Integers, end: Integers) -> None:
        count = len(at)
        self._octets, self._at, self._end = octets, at, end
        self.is_stamped = np.zeros(count, np.bool_)
        self.stamp, self.echo = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.scale, self.mss = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        self._blocks: list[tuple[Integers, int, Integers]] = []

    def read(self) -> None:
        """Read the options of all headers, the first of each, then the second, and so on."""
        octets, end = self._octets, self._end
        which = np.flatnonzero(self._at < end)
        place = self._at[which]
        usual = (octets.u32(place) == _STAMPS_ALONE) & (place + 12 <= end[which])
        self._stamps(which[usual], place[usual] + 2)
        place = np.where(usual, place + 12, place)
        # Each round advances at least one byte, and a header has at most 40 bytes of options.
        for _ in range(_OPTION_BYTES_MAX):
            left = place < end[which]
            which, place = which[left], place[left]
            if not len(which):
                return
            kind, size = octets.u8(place), octets.u8(place + 1)
            is_one = kind == _NOTHING
            is_whole = (kind > _NOTHING) & (size >= 2) & (place + size <= end[which])
            for option, length, take in (
                (_STAMPS, 10, self._stamps),
                (_MSS, 4, self._mss),
                (_SCALE, 3, self._scales),
            ):
                chosen = is_whole & (kind == option) & (size == length)
                take(which[chosen], place[chosen])
            chosen = is_whole & (kind == _SACK)
            if chosen.any():
                self._sack(which[chosen], place[chosen], size[chosen])
            # After an invalid option, nothing can be read.
            goes_on = is_one | is_whole
            place = (place + np.where(is_one, 1, size))[goes_on]
            which = which[goes_on]

    def _stamps(self, which: Integers, at: Integers) -> None:
        self.is_stamped[which] = True
        self.stamp[which] = self._octets.u32(at + 2)
        self.echo[which] = self._octets.u32(at + 6)

    def _mss(self, which: Integers, at: Integers) -> None:
        self.mss[which] = self._octets.u16(at + 2)

    def _scales(self, which: Integers, at: Integers) -> None:
        # RFC 7323, section 2.3: higher values are used as 14.
        self.scale[which] = np.minimum(self._octets.u8(at + 2), 14)

    def _sack(self, which: Integers, at: Integers, size: Integers) -> None:
        for order in range(4):
            has = size >= 2 + 8 * (order + 1)
            if not has.any():
                return
            self._blocks.append((which[has], order, at[has] + 2 + 8 * order))

    def blocks(self) -> Blocks:
        if not self._blocks:
            nothing = np.zeros(0, np.int64)
            return Blocks(nothing, nothing, nothing, nothing)
        packet = np.concatenate([which for which, _, _ in self._blocks])
        order = np.concatenate([np.full(len(which), order) for which, order, _ in self._blocks])
        at = np.concatenate([at for _, _, at in self._blocks])
        rank = np.lexsort((order, packet))
        packet, order, at = packet[rank], order[rank], at[rank]
        return Blocks(packet, order, self._octets.u32(at), self._octets.u32(at + 4))
