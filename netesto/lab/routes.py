"""The routes of a lab: over the fewest routers, and over all that are equally near."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from netesto.lab import addressing
from netesto.lab.addressing import End, Network
from netesto.lab.graph import Node, Topology
from netesto.model import Address

EVERYWHERE: tuple[Network, Network] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


@dataclass(frozen=True, slots=True)
class Route:
    """The route to a network; several gateways have equal costs."""

    network: Network
    gateways: tuple[Address, ...]


class Routes:
    """Shortest paths over routers to every network that a host with an agent is in.

    `ends` are both ends of every link, link by link. UsageError as of `addressing.ends_of`.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.ends = addressing.ends_of(topology)
        self._ends_of: dict[str, list[End]] = {node.name: [] for node in topology.nodes}
        self._members_of: dict[int, list[End]] = {}
        for end in self.ends:
            self._ends_of[end.node.name].append(end)
            if end.node.kind != "switch":
                self._members_of.setdefault(end.network, []).append(end)
        self._distances = {
            network: self._distances_to(network)
            for network, members in self._members_of.items()
            if any(end.node.agent for end in members)
        }

    def _distances_to(self, network: int) -> dict[str, int]:
        """How many routers away from the network each node is, for those that can reach it."""
        distances = {end.node.name: 0 for end in self._members_of[network]}
        queue = deque(end.node for end in self._members_of[network])
        while queue:
            node = queue.popleft()
            if not node.forwards:
                continue
            for own in self._ends_of[node.name]:
                for end in self._members_of[own.network]:
                    if end.node.name not in distances:
                        distances[end.node.name] = distances[node.name] + 1
                        queue.append(end.node)
        return distances

    def _gateways(self, node: Node, network: int) -> tuple[End, ...]:
        distances = self._distances[network]
        if not distances.get(node.name):
            return ()  # in the network itself, or no path to it
        return tuple(
            end
            for own in self._ends_of[node.name]
            for end in self._members_of[own.network]
            if end.node.forwards and distances.get(end.node.name) == distances[node.name] - 1
        )

    def of(self, node: Node) -> tuple[Route, ...]:
        """The routes of one node, IPv4 before IPv6."""
        gateways = {
            network: found
            for network in self._distances
            if (found := self._gateways(node, network))
        }
        if node.kind == "host" and len(set(gateways.values())) == 1:
            only = next(iter(gateways.values()))
            return tuple(
                Route(EVERYWHERE[family], _addresses_of(only, family)) for family in (0, 1)
            )
        return tuple(
            Route(addressing.of_network(network)[family], _addresses_of(found, family))
            for family in (0, 1)
            for network, found in gateways.items()
        )

    def tested(self, node: Node) -> End:
        """The end that a node tests through, and whose addresses its traffic has."""
        link = self._topology.tested(node.name)
        return next(end for end in self._ends_of[node.name] if end.link is link)

    def ways(self, source: str, destination: str) -> Iterator[tuple[End, ...]]:
        """The equal paths of packets to the addresses of a host; none if they cannot reach it. A
        path consists of the ends by which packets leave nodes, switches, too."""
        return self._ways(
            self._topology.node(source), self.tested(self._topology.node(destination))
        )

    def _ways(self, here: Node, target: End) -> Iterator[tuple[End, ...]]:
        if here is target.node:
            yield ()
            return
        own = {end.network: end for end in reversed(self._ends_of[here.name])}
        following = [target] if target.network in own else self._gateways(here, target.network)
        for into in following:
            out = self.within(own[into.network], into)
            for rest in self._ways(into.node, target):
                yield (*out, *rest)

    def within(self, out: End, into: End) -> tuple[End, ...]:
        """The path from one end to another in a network, whose switches form no loop; empty if
        there is none by the link of the first."""
        across = self.ends[out.index ^ 1]
        if across is into:
            return (out,)
        for end in self._ends_of[across.node.name] if across.node.kind == "switch" else ():
            if end is not across and (rest := self.within(end, into)):
                return (out, *rest)
        return ()


def _addresses_of(ends: Sequence[End], family: int) -> tuple[Address, ...]:
    return tuple(end.addresses[family].ip for end in ends)
