"""Hosts, routers and switches, and the links between them. Pure values."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from netesto.links import cuts
from netesto.links.cuts import Arc, Cut
from netesto.links.settings import LinkSettings

Kind: TypeAlias = Literal["host", "router", "switch", "wires"]

# Whole numbers are compared faster.
Weight: TypeAlias = int | Fraction

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
    """A cable between two nodes. `settings` are those of what `a` sends, and of what `b` sends
    unless `back` has others. `changes`: a script changes them while the lab is up. Packets take the
    paths with the smallest sum of weights."""

    a: str
    b: str
    settings: LinkSettings = field(default_factory=LinkSettings)
    back: LinkSettings | None = None
    changes: bool = False
    weight: Weight = 1

    def sent_by(self, node: str) -> LinkSettings:
        """The settings of what a node sends."""
        return self.settings if node == self.a or self.back is None else self.back

    @property
    def is_plain(self) -> bool:
        """Whether neither direction has limits, or will have any."""
        both = self.settings, self.back or self.settings
        return not self.changes and all(each.is_plain for each in both)

    def other(self, node: str) -> str:
        """The node at the other end."""
        return self.b if node == self.a else self.a


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes and links. `aliases` are addresses that traces have for hosts (netesto.lab.aliases).

    Of several equal paths flows take one by their hash, or, `by_destination`, all flows to a host
    the same: to the hosts of the topology in turn the first, the second, and so on.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    by_destination: bool = False

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

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """The nodes that links join, in the order of the topology; one part if all are joined."""
        neighbours: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            neighbours[link.a].append(link.b)
            neighbours[link.b].append(link.a)
        part_of: dict[str, int] = {}
        for count, start in enumerate(neighbours):
            pending = [] if start in part_of else [start]
            while pending:
                name = pending.pop()
                if name not in part_of:
                    part_of[name] = count
                    pending += neighbours[name]
        return tuple(
            tuple(name for name in neighbours if part_of[name] == part)
            for part in dict.fromkeys(part_of[name] for name in neighbours)
        )

    def cut(self, senders: Collection[str], receivers: Collection[str]) -> Cut:
        """The smallest cut between two sets of nodes. Other hosts carry nothing for them."""
        forwarding = {node.name for node in self.nodes if node.forwards} | set(senders)
        arcs = [
            Arc(source, link.other(source), link.sent_by(source).rate_bps)
            for link in self.links
            for source in (link.a, link.b)
            if source in forwarding
        ]
        return cuts.smallest(arcs, senders, receivers)

    def tested(self, name: str) -> Link:
        """The link that a node tests through. KeyError if the node does not exist."""
        own = self.links_of(name)
        faces = self.node(name).faces
        return next((link for link in own if link.other(name) == faces), own[0])
