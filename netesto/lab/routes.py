"""The routes of a lab: over the fewest routers, and over all that are equally near."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from netesto.lab import addressing
from netesto.lab.addressing import End, Network
from netesto.lab.graph import Node
from netesto.model import Address

EVERYWHERE: tuple[Network, Network] = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))


@dataclass(frozen=True, slots=True)
class Route:
    """The route to a network; several gateways have equal costs."""

    network: Network
    gateways: tuple[Address, ...]


class Routes:
    """Shortest paths over routers to every network that a host with an agent is in."""

    def __init__(self, ends: Sequence[End], numbers: Mapping[tuple[str, str], int]) -> None:
        self._numbers = numbers
        self._ends_of: dict[str, list[End]] = {}
        self._members_of: dict[int, list[End]] = {}
        for end in ends:
            if end.node.kind != "switch":
                self._ends_of.setdefault(end.node.name, []).append(end)
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
                Route(EVERYWHERE[family], self._addresses_of(only, family)) for family in (0, 1)
            )
        return tuple(
            Route(addressing.of_network(network)[family], self._addresses_of(found, family))
            for family in (0, 1)
            for network, found in gateways.items()
        )

    def _addresses_of(self, ends: Sequence[End], family: int) -> tuple[Address, ...]:
        return tuple(
            addressing.addresses(end.network, self._numbers[end.node.name, end.name])[family].ip
            for end in ends
        )
