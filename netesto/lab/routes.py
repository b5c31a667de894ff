"""The routes of a lab: those with the smallest sum of weights, and all that are equal.

Without weights each link counts 1. A route leads to a network; the way within it does not count.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from netesto.lab import addressing
from netesto.lab.addressing import LinkEnd, Network
from netesto.lab.graph import Node, Topology, Weight
from netesto.model import Address

EVERYWHERE: tuple[Network, Network] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


@dataclass(frozen=True, slots=True)
class NetworkRoute:
    """The route to a network; several gateways have equal costs."""

    network: Network
    gateways: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """From a node to a router in the same network."""

    source: Node
    into: LinkEnd
    weight: Weight


class Routes:
    """Shortest paths over routers to every network that a host with an agent is in.

    `ends` are both ends of every link, link by link. UsageError as of `addressing.ends_of`.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.ends = addressing.ends_of(topology)
        self._ends_of: dict[str, list[LinkEnd]] = {node.name: [] for node in topology.nodes}
        self._members_of: dict[int, list[LinkEnd]] = {}
        for end in self.ends:
            self._ends_of[end.node.name].append(end)
            if end.node.kind != "switch":
                self._members_of.setdefault(end.network, []).append(end)
        # The steps from each node to the routers that it shares a network with, and to each router.
        self._steps: dict[str, list[_Step]] = {node.name: [] for node in topology.nodes}
        self._steps_to: dict[str, list[_Step]] = {node.name: [] for node in topology.nodes}
        for members in self._members_of.values():
            for into in members:
                for own in members if into.node.forwards else ():
                    if own.node is not into.node and (way := self.within(own, into)):
                        step = _Step(own.node, into, sum(end.link.weight for end in way))
                        self._steps[own.node.name].append(step)
                        self._steps_to[into.node.name].append(step)
        self._distances = {
            network: self._distances_to(network)
            for network, members in self._members_of.items()
            if any(end.node.agent for end in members)
        }
        turns = {name: turn for turn, name in enumerate(topology.hosts)}
        self._turns = {
            network: next(turns[end.node.name] for end in members if end.node.agent)
            for network, members in self._members_of.items()
            if network in self._distances
        }

    def _distances_to(self, network: int) -> dict[str, Weight]:
        """How far from the network each node is, for those that can reach it."""
        distances: dict[str, Weight] = {}
        pending: list[tuple[Weight, str]] = [
            (0, name) for name in dict.fromkeys(end.node.name for end in self._members_of[network])
        ]
        while pending:
            distance, name = heapq.heappop(pending)
            if name in distances:
                continue
            distances[name] = distance
            for step in self._steps_to[name]:
                if step.source.name not in distances:
                    heapq.heappush(pending, (distance + step.weight, step.source.name))
        return distances

    def _gateways(self, node: Node, network: int) -> tuple[LinkEnd, ...]:
        distances = self._distances[network]
        if not distances.get(node.name):
            return ()  # in the network itself, or no path to it
        found = (
            step.into
            for step in self._steps[node.name]
            if distances.get(step.into.node.name) == distances[node.name] - step.weight
        )
        gateways = tuple(dict.fromkeys(found))
        if self._topology.by_destination and gateways:
            return (gateways[self._turns[network] % len(gateways)],)
        return gateways

    def of(self, node: Node) -> tuple[NetworkRoute, ...]:
        """The routes of one node, IPv4 before IPv6."""
        gateways = {
            network: found
            for network in self._distances
            if (found := self._gateways(node, network))
        }
        if node.kind == "host" and len(set(gateways.values())) == 1:
            only = next(iter(gateways.values()))
            return tuple(
                NetworkRoute(EVERYWHERE[family], _addresses_of(only, family)) for family in (0, 1)
            )
        return tuple(
            NetworkRoute(
                addressing.of_network(network, self.ends[0].bits)[family],
                _addresses_of(found, family),
            )
            for family in (0, 1)
            for network, found in gateways.items()
        )

    def tested(self, node: Node) -> LinkEnd:
        """The end that a node tests through, and whose addresses its traffic has."""
        link = self._topology.tested(node.name)
        return next(end for end in self._ends_of[node.name] if end.link is link)

    def ways(self, source: str, destination: str) -> Iterator[tuple[LinkEnd, ...]]:
        """The equal paths of packets to the addresses of a host; none if they cannot reach it. A
        path consists of the ends by which packets leave nodes, switches, too."""
        return self._ways(
            self._topology.node(source), self.tested(self._topology.node(destination))
        )

    def _ways(self, here: Node, target: LinkEnd) -> Iterator[tuple[LinkEnd, ...]]:
        if here is target.node:
            yield ()
            return
        own = {end.network: end for end in reversed(self._ends_of[here.name])}
        following = [target] if target.network in own else self._gateways(here, target.network)
        for into in following:
            out = self.within(own[into.network], into)
            for rest in self._ways(into.node, target):
                yield (*out, *rest)

    def within(self, out: LinkEnd, into: LinkEnd) -> tuple[LinkEnd, ...]:
        """The path from one end to another in a network, whose switches form no loop; empty if
        there is none by the link of the first."""
        across = self.ends[out.index ^ 1]
        if across is into:
            return (out,)
        for end in self._ends_of[across.node.name] if across.node.kind == "switch" else ():
            if end is not across and (rest := self.within(end, into)):
                return (out, *rest)
        return ()


def _addresses_of(ends: Sequence[LinkEnd], family: int) -> tuple[Address, ...]:
    return tuple(end.addresses[family].ip for end in ends)
