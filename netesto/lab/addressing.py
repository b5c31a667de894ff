"""Which networks a lab has, and which addresses the ends of its links."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from typing import TypeAlias

from netesto.errors import UsageError
from netesto.lab.graph import LONGEST_NODE_NAME, Link, Node, Topology
from netesto.links.settings import LinkSettings

Network: TypeAlias = IPv4Network | IPv6Network

# Every network of a lab is one /24 and one /64 of these; one /22, if that is too small for one of
# them. They exist only in namespaces, so they cannot clash with the machine's own; the second has
# "Netes" in its ULA digits.
IPV4_BASE = IPv4Network("10.0.0.0/8")
IPV6_BASE = IPv6Network("fd4e:6574:6573::/48")

# The usual and the largest IPv4 network, by the bits of a number in it. Hosts count up from 1,
# routers down from the last number but one.
USUAL_BITS, MOST_BITS = 8, 10
MOST_NETWORKS = 16_383


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of one link: its place among the ends of all links, the network that it is in, and
    its number there (0 for a switch, which has no addresses), which has so many `bits`."""

    node: Node
    name: str
    link: Link
    index: int
    network: int
    number: int
    bits: int

    @property
    def settings(self) -> LinkSettings:
        """Those of what leaves by this end."""
        return self.link.sent_by(self.node.name)

    @property
    def addresses(self) -> tuple[IPv4Interface | IPv6Interface, ...]:
        """IPv4, then IPv6."""
        if not self.number:
            return ()
        ipv4, ipv6 = of_network(self.network, self.bits)
        return (
            IPv4Interface((int(ipv4.network_address) + self.number, ipv4.prefixlen)),
            IPv6Interface((int(ipv6.network_address) + self.number, 64)),
        )


def ends_of(topology: Topology) -> tuple[LinkEnd, ...]:
    """Both ends of every link, link by link. UsageError if the topology has too many nodes for its
    addresses."""
    networks = _networks(topology)
    bits = _bits(topology, networks)
    taken: dict[str, set[str]] = {node.name: set() for node in topology.nodes}
    last: dict[tuple[int, str], int] = {}
    ends: list[LinkEnd] = []
    for link, network in zip(topology.links, networks, strict=True):
        for here in (link.a, link.b):
            node, name = topology.node(here), free_name(link.other(here), taken[here])
            taken[here].add(name)
            number = 0
            if node.kind != "switch":
                is_host = node.kind == "host"
                step, start = (1, 0) if is_host else (-1, 2**bits - 1)
                number = last[network, node.kind] = last.get((network, node.kind), start) + step
            ends.append(LinkEnd(node, name, link, len(ends), network, number, bits))
    return tuple(ends)


def _bits(topology: Topology, networks: Sequence[int]) -> int:
    """The bits of numbers in the networks. UsageError if one has too many hosts and routers."""
    members = Counter[int]()
    for link, network in zip(topology.links, networks, strict=True):
        members[network] += sum(topology.node(end).kind != "switch" for end in (link.a, link.b))
    most = max(members.values(), default=0)
    if most > 2**MOST_BITS - 2:
        raise UsageError(f"more than {2**MOST_BITS - 2} hosts and routers in one network")
    return USUAL_BITS if most <= 2**USUAL_BITS - 2 else MOST_BITS


def free_name(wanted: str, taken: set[str]) -> str:
    """An interface has the name of the neighbour: `right`, a second one `right.2`."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted[: LONGEST_NODE_NAME - len(f'.{count}')]}.{count}"
    return name


def _networks(topology: Topology) -> list[int]:
    """The number (from 1) of the network that each link belongs to: switches join links."""
    switched: dict[str, list[int]] = {
        node.name: [] for node in topology.nodes if node.kind == "switch"
    }
    for at, link in enumerate(topology.links):
        for end in {link.a, link.b} & switched.keys():
            switched[end].append(at)
    numbers = [0] * len(topology.links)
    count = 0
    for start, number in enumerate(numbers):
        if number:
            continue
        count += 1
        pending = [start]
        while pending:
            at = pending.pop()
            numbers[at] = count
            for end in (topology.links[at].a, topology.links[at].b):
                # Once for each switch.
                pending += (other for other in switched.pop(end, ()) if not numbers[other])
    if count > MOST_NETWORKS:
        raise UsageError(f"{topology.name}: more than {MOST_NETWORKS} networks")
    return numbers


def of_network(network: int, bits: int) -> tuple[IPv4Network, IPv6Network]:
    """The addresses of a network, by its number, and the bits of numbers in it."""
    ipv4 = IPv4Network((int(IPV4_BASE.network_address) + (network << bits), 32 - bits))
    ipv6 = IPv6Network((int(IPV6_BASE.network_address) + (network << 64), 64))
    return ipv4, ipv6
