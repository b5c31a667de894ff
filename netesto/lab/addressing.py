"""Which networks a lab has, and which addresses the ends of its links."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network
from typing import TypeAlias

from netesto.errors import UsageError
from netesto.lab.graph import LONGEST_NODE_NAME, Link, Node, Topology

Network: TypeAlias = IPv4Network | IPv6Network

# Every network of a lab is one /24 and one /64 of these. They exist only in namespaces, so they
# cannot clash with the machine's own; the second has "Netes" in its ULA digits.
IPV4_BASE = IPv4Network("10.0.0.0/8")
IPV6_BASE = IPv6Network("fd4e:6574:6573::/48")

# Hosts count up from 1, routers down from here.
FIRST_ROUTER_NUMBER = 254
MOST_NETWORKS = 65_535


@dataclass(frozen=True, slots=True)
class End:
    """One end of one link, its place among the ends of all links, and the network that it is
    in."""

    node: Node
    name: str
    link: Link
    index: int
    network: int


def ends_of(topology: Topology) -> tuple[End, ...]:
    """Both ends of every link, link by link."""
    networks = _networks(topology)
    taken: dict[str, set[str]] = {node.name: set() for node in topology.nodes}
    ends: list[End] = []
    for link, network in zip(topology.links, networks, strict=True):
        for here in (link.a, link.b):
            name = free_name(link.other(here), taken[here])
            taken[here].add(name)
            ends.append(End(topology.node(here), name, link, len(ends), network))
    return tuple(ends)


def free_name(wanted: str, taken: set[str]) -> str:
    """An interface has the name of the neighbour: `right`, a second one `right.2`."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted[: LONGEST_NODE_NAME - len(f'.{count}')]}.{count}"
    return name


def _networks(topology: Topology) -> list[int]:
    """The number (from 1) of the network that each link belongs to: switches join links."""
    switches = {node.name for node in topology.nodes if node.kind == "switch"}
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
            ends = switches & {topology.links[at].a, topology.links[at].b}
            for other, link in enumerate(topology.links):
                if not numbers[other] and ends & {link.a, link.b}:
                    pending.append(other)
    if count > MOST_NETWORKS:
        raise UsageError(f"{topology.name}: more than {MOST_NETWORKS} networks")
    return numbers


def numbers_of(ends: Sequence[End]) -> dict[tuple[str, str], int]:
    """The number within its network of each (node, interface) with addresses."""
    numbers: dict[tuple[str, str], int] = {}
    last: dict[tuple[int, str], int] = {}
    for end in ends:
        if end.node.kind == "switch":
            continue
        kind = end.node.kind
        step, start = (1, 0) if kind == "host" else (-1, FIRST_ROUTER_NUMBER + 1)
        number = last.get((end.network, kind), start) + step
        last[end.network, kind] = number
        numbers[end.node.name, end.name] = number
        hosts = last.get((end.network, "host"), 0)
        if hosts >= last.get((end.network, "router"), FIRST_ROUTER_NUMBER + 1):
            raise UsageError(f"more than {FIRST_ROUTER_NUMBER} hosts and routers in one network")
    return numbers


def of_network(network: int) -> tuple[IPv4Network, IPv6Network]:
    """The addresses of a network, by its number."""
    ipv4 = IPv4Network((int(IPV4_BASE.network_address) + (network << 8), 24))
    ipv6 = IPv6Network((int(IPV6_BASE.network_address) + (network << 64), 64))
    return ipv4, ipv6


def addresses(network: int, number: int) -> tuple[IPv4Interface, IPv6Interface]:
    ipv4, ipv6 = of_network(network)
    return (
        IPv4Interface((int(ipv4.network_address) + number, 24)),
        IPv6Interface((int(ipv6.network_address) + number, 64)),
    )
