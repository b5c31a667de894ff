"""Hosts, routers and switches, and the links between them. Pure values, and the paths in them."""

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from netesto.lab.links import LinkSettings

Kind: TypeAlias = Literal["host", "router", "switch", "wires"]

# A node's name is also that of its neighbours' interfaces to it, and of a folder.
NODE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")

# IFNAMSIZ is 16 with its NUL.
LONGEST_NODE_NAME = 15

# Every namespace has `lo`, every switch its `bridge`; sysctl has the other two.
RESERVED_NAMES = frozenset({"all", "bridge", "default", "lo"})


@dataclass(frozen=True, slots=True)
class Node:
    """A future namespace. With an `agent`, scripts may name it.

    It tests through its link to `faces` ("": its first link). An `idle` router has links but does
    not forward.
    """

    name: str
    kind: Kind
    agent: bool = False
    faces: str = ""
    idle: bool = False

    @property
    def forwards(self) -> bool:
        return self.kind != "host" and not self.idle


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two nodes."""

    a: str
    b: str
    settings: LinkSettings = field(default_factory=LinkSettings)

    def other(self, node: str) -> str:
        """The node at the other end."""
        return self.b if node == self.a else self.a


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes and links."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that scripts may use: every node with an agent."""
        return tuple(node.name for node in self.nodes if node.agent)

    def node(self, name: str) -> Node:
        """The node of that name; KeyError if it does not exist."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def links_of(self, name: str) -> tuple[Link, ...]:
        """The links of a node, in the order of the topology."""
        return tuple(link for link in self.links if name in {link.a, link.b})

    def tested(self, name: str) -> Link:
        """The link that a node tests through. KeyError if the node does not exist."""
        own = self.links_of(name)
        faces = self.node(name).faces
        return next((link for link in own if link.other(name) == faces), own[0])

    def steps(self, source: str, destination: str) -> frozenset[tuple[str, str]]:
        """The steps, from one node to the next, of all shortest paths."""
        before, after = self._distances(source), self._distances(destination)
        total = before.get(destination)
        return frozenset(
            (near, far)
            for link in self.links
            for near, far in ((link.a, link.b), (link.b, link.a))
            if near in before and far in after and before[near] + 1 + after[far] == total
        )

    def _distances(self, start: str) -> dict[str, int]:
        """The number of links from `start` to each node, without paths through hosts."""
        neighbours: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            neighbours[link.a].append(link.b)
            neighbours[link.b].append(link.a)
        forwards = {node.name for node in self.nodes if node.forwards}
        distances = {start: 0}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for other in neighbours[here] if here == start or here in forwards else ():
                if other not in distances:
                    distances[other] = distances[here] + 1
                    queue.append(other)
        return distances

    def path(self, source: str, destination: str) -> tuple[Link, ...]:
        """The links of a shortest path (of several, the first in the topology's order)."""
        arrived_by: dict[str, Link | None] = {source: None}
        queue = deque([source])
        while queue and destination not in arrived_by:
            here = queue.popleft()
            if here != source and not self.node(here).forwards:
                continue
            for link in self.links_of(here):
                if link.other(here) not in arrived_by:
                    arrived_by[link.other(here)] = link
                    queue.append(link.other(here))
        links: list[Link] = []
        here = destination
        while (link_back := arrived_by.get(here)) is not None:
            links.append(link_back)
            here = link_back.other(here)
        return tuple(reversed(links))
