"""Headers that carry packets inside others: tags of Ethernet, and tunnels over IP.

IEEE 802.1Q (VLAN), 802.2 (LLC, SNAP), RFC 2516 (PPPoE), 3032 (MPLS), 4385 (control word of MPLS),
2784 and 2890 (GRE), 2003 and 4213 (IP in IP), 7348 (VXLAN), 8926 (Geneve), 3GPP TS 29.281 (GTP-U).
"""

import numpy as np

from netesto.packets.octets import Flags, Integers, Octets

IPV4, IPV6, BRIDGED = 0x0800, 0x86DD, 0x6558
"""EtherTypes; the last is that of Ethernet inside GRE and Geneve."""
TCP, UDP = 6, 17

_IP_IN_IP, _IPV6_IN_IP, _GRE = 4, 41, 47
_VLAN, _PPPOE, _MPLS = (0x8100, 0x88A8, 0x9100), 0x8864, (0x8847, 0x8848)
# Smaller values are lengths (IEEE 802.3).
_TYPES_FROM = 0x0600
_SNAP = 0xAAAA0300
_PPP_IPV4, _PPP_IPV6 = 0x0021, 0x0057
# No packet of a flow has more tags.
_TAGS_MAX = 8

# The second is that of Linux before RFC 7348.
_VXLAN, _GENEVE, _GTP = (4789, 8472), 6081, 2152
_GTP_DATA = 255


def network(octets: Octets, kind: Integers, at: Integers) -> tuple[Integers, Integers]:
    """The EtherType and the place of the network header behind the tags at `at`, which are of these
    EtherTypes; -1 if what they carry is not IP."""
    kind, at = kind.copy(), at.copy()
    for _ in range(_TAGS_MAX):
        left = np.flatnonzero((kind != IPV4) & (kind != IPV6) & (kind != -1))
        if not len(left):
            break
        kind[left], at[left] = _untagged(octets, kind[left], at[left])
    return np.where((kind == IPV4) | (kind == IPV6), kind, -1), at


def _untagged(octets: Octets, kind: Integers, at: Integers) -> tuple[Integers, Integers]:
    """The EtherType and the place behind one tag."""
    is_bridged, is_vlan = kind == BRIDGED, np.isin(kind, _VLAN)
    found = np.where(is_bridged, octets.u16(at + 12), -1)
    found = np.where(is_vlan, octets.u16(at + 2), found)
    size = np.where(is_bridged, 14, np.where(is_vlan, 4, 0))
    rest = ~is_bridged & ~is_vlan
    if rest.any():
        ppp = octets.u16(at + 6)
        ppp_kind = np.where(ppp == _PPP_IPV4, IPV4, np.where(ppp == _PPP_IPV6, IPV6, -1))
        is_pppoe = kind == _PPPOE
        found, size = np.where(is_pppoe, ppp_kind, found), np.where(is_pppoe, 8, size)
        is_snap = (kind < _TYPES_FROM) & (octets.u32(at) == _SNAP) & (octets.u16(at + 4) == 0)
        found = np.where(rest & is_snap, octets.u16(at + 6), found)
        size = np.where(rest & is_snap, 8, size)
        is_mpls = np.isin(kind, _MPLS)
        is_last = (octets.u8(at + 2) & 1) != 0
        version = octets.u8(at + 4) >> 4
        inner = np.where(version == 4, IPV4, np.where(version == 6, IPV6, -1))
        # A control word begins with 0; what it carries is Ethernet.
        inner = np.where(version == 0, BRIDGED, inner)
        found = np.where(is_mpls, np.where(is_last, inner, kind), found)
        size = np.where(is_mpls, np.where(is_last & (version == 0), 8, 4), size)
    return found, at + size


def inside(
    octets: Octets, protocol: Integers, at: Integers, over: Integers, end: Integers
) -> tuple[Integers, Integers, Integers]:
    """The indexes of packets whose header at `at` may be that of a tunnel, and the EtherType and
    the place of the network header in each; -1 if it is none."""
    which = np.flatnonzero(
        (protocol == _IP_IN_IP) | (protocol == _IPV6_IN_IP) | (protocol == _GRE) | (protocol == UDP)
    )
    which = which[at[which] + 8 <= end[which]]
    own, at, room = protocol[which], at[which], over[which] - at[which]
    kind, place = np.full(len(which), -1), at.copy()
    kind[own == _IP_IN_IP], kind[own == _IPV6_IN_IP] = IPV4, IPV6

    def put(chosen: Flags, found: Integers, size: Integers) -> None:
        kind[chosen], place[chosen] = found[chosen], (at + size)[chosen]

    flags = octets.u16(at)
    # Version 0, without routing; checksum, key and number of 4 bytes each.
    options = 4 * (((flags >> 15) & 1) + ((flags >> 13) & 1) + ((flags >> 12) & 1))
    put((own == _GRE) & ((flags & 0x4007) == 0), octets.u16(at + 2), 4 + options)
    is_udp = own == UDP
    to, body = octets.u16(at + 2), at + 8
    first = octets.u8(body)
    ethernet = np.full(len(which), BRIDGED)
    is_vxlan = is_udp & np.isin(to, _VXLAN) & ((first & 0x08) != 0)
    put(is_vxlan, ethernet, np.full(len(which), 16))
    is_geneve = is_udp & (to == _GENEVE) & ((first >> 6) == 0)
    put(is_geneve, octets.u16(body + 2), 16 + (first & 0x3F) * 4)
    # Version 1 of GTP, whose length counts from its ninth byte.
    is_gtp = (
        is_udp & (to == _GTP) & ((first & 0xF0) == 0x30) & (octets.u8(body + 1) == _GTP_DATA)
        & (octets.u16(body + 2) + 16 == room)
    )  # fmt: skip
    if is_gtp.any():
        size = np.where((first & 0x07) != 0, 20, 16)
        # Each extension header gives its length in units of 4 bytes and, at its end, the next type.
        following = np.where((first & 0x04) != 0, octets.u8(at + 19), 0)
        for _ in range(_TAGS_MAX):
            extended = is_gtp & (following != 0)
            if not extended.any():
                break
            size = np.where(extended, size + octets.u8(at + size) * 4, size)
            following = np.where(extended, octets.u8(at + size - 1), 0)
        version = octets.u8(at + size) >> 4
        put(is_gtp, np.where(version == 4, IPV4, np.where(version == 6, IPV6, -1)), size)
    kind, place = network(octets, kind, place)
    return which, kind, place
