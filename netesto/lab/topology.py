"""What a lab is made of: hosts, routers and switches, and the links between them.

    pair      a ── b
    star      h1 … hN, each ── sw
    dumbbell  client1 … clientN ── left ── router ══ right ── server1 … serverM
    chain     h1 ══ r1 ══ … ══ rK ══ h2
    tree      sw1 ═╤═ sw2 ═╤═ … ══ h1, h2, …
    fattree   16 hosts, 8 edge, 8 aggregation and 4 core routers, 48 links

`══` are the links that rate, delay and the like apply to. Pure values: nothing here knows the
machine.
"""

import re
import tomllib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from netesto.errors import UsageError
from netesto.lab.links import (
    LINK_SETTINGS,
    LinkSettings,
    link_settings,
    nearest,
    value,
    whole_number,
)

Kind: TypeAlias = Literal["host", "router", "switch"]

# A node's name is also the name of its neighbours' interfaces towards it, and of a folder.
NODE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")

# IFNAMSIZ is 16 with its NUL.
LONGEST_NODE_NAME = 15

# Every namespace has `lo`, every switch its `bridge`; sysctl has the other two.
RESERVED_NAMES = frozenset({"all", "bridge", "default", "lo"})

# A host's number is the last byte of its IPv4 address; routers count down from 254.
MOST_HOSTS = 200

# Each router of a chain begins a new network, numbered by one byte of the address.
MOST_ROUTERS = 100


@dataclass(frozen=True, slots=True)
class Node:
    """A namespace to be. With an `agent`, scripts may name it.

    It tests through its link to `faces` ("": its first link). An `idle` router is wired but
    forwards nothing.
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
    """Nodes and links. `asked` are the settings as they were written."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that scripts may use: every node with an agent."""
        return tuple(node.name for node in self.nodes if node.agent)

    def node(self, name: str) -> Node:
        """The node of that name; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def links_of(self, name: str) -> tuple[Link, ...]:
        """The links of a node, in the order of the topology."""
        return tuple(link for link in self.links if name in {link.a, link.b})

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


# ---- the named ones --------------------------------------------------------------------------


def pair(asked: Mapping[str, str]) -> Topology:
    """Two hosts and one link: the least there is."""
    settings = _limits(asked, "pair", {})
    nodes = (Node("a", "host", agent=True), Node("b", "host", agent=True))
    return Topology("pair", nodes, (Link("a", "b", settings),))


def star(asked: Mapping[str, str]) -> Topology:
    """Hosts around one switch, every link alike."""
    settings = _limits(asked, "star", {})
    names = [f"h{i + 1}" for i in range(_count(asked, "hosts", 4, "star", least=2))]
    nodes = (*_hosts(names), Node("sw", "switch"))
    return Topology("star", nodes, tuple(Link(name, "sw", settings) for name in names))


def dumbbell(asked: Mapping[str, str]) -> Topology:
    """Clients and servers that share one bottleneck, the link from the router to the right.

    Only that link is limited; the rate defaults to 100 Mbit/s, which any machine can carry.
    """
    bottleneck = _limits(asked, "dumbbell", {"rate": "100mbit"})
    # MTU and offload are made where a packet is made: at the hosts.
    access = LinkSettings(mtu=bottleneck.mtu, offload=bottleneck.offload)
    clients = [f"client{i + 1}" for i in range(_count(asked, "clients", 2, "dumbbell"))]
    servers = [f"server{i + 1}" for i in range(_count(asked, "servers", 1, "dumbbell"))]
    nodes = (
        *_hosts(clients),
        Node("left", "switch"),
        Node("router", "router", agent=True, faces="right"),
        Node("right", "switch"),
        *_hosts(servers),
    )
    links = (
        *(Link(name, "left", access) for name in clients),
        Link("left", "router", access),
        Link("router", "right", bottleneck),
        *(Link("right", name, access) for name in servers),
    )
    return Topology("dumbbell", nodes, links)


def chain(asked: Mapping[str, str]) -> Topology:
    """Two hosts with a row of routers between them, every link alike.

    Each router tests through its link towards h2.
    """
    settings = _limits(asked, "chain", {})
    count = _count(asked, "routers", 2, "chain", most=MOST_ROUTERS)
    names = ["h1", *(f"r{i + 1}" for i in range(count)), "h2"]
    routers = (Node(name, "router", agent=True, faces=after) for name, after in pairwise(names[1:]))
    nodes = (Node("h1", "host", agent=True), *routers, Node("h2", "host", agent=True))
    links = tuple(Link(a, b, settings) for a, b in pairwise(names))
    return Topology("chain", nodes, links)


Shape: TypeAlias = Callable[[Mapping[str, str]], Topology]

SHAPES: Mapping[str, Shape] = {"pair": pair, "star": star, "dumbbell": dumbbell, "chain": chain}

# What each takes beside the limits of its links.
SHAPE_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "pair": {},
    "star": {"hosts": "how many (4)"},
    "dumbbell": {"clients": "how many (2)", "servers": "how many (1)"},
    "chain": {"routers": "how many (2)"},
}


def build(name: str, settings: Mapping[str, str]) -> Topology:
    """The topology that `LAB name k=v …` asks for; `LAB file=PATH` has an empty name.

    UsageError if there is no such topology or setting, or a value is wrong.
    """
    if not name:
        return _from_file_setting(settings)
    if name not in SHAPES:
        remedy = f"Topologies: {', '.join(SHAPES)}, or file=PATH."
        raise UsageError(f"LAB {name}: no such topology{nearest(name, SHAPES)}", remedy=remedy)
    allowed = {**SHAPE_SETTINGS[name], **LINK_SETTINGS}
    _refuse_unknown(settings, allowed, f"LAB {name}")
    return replace(SHAPES[name](settings), asked=dict(settings))


def _from_file_setting(settings: Mapping[str, str]) -> Topology:
    if "file" not in settings:
        remedy = f"Topologies: {', '.join(SHAPES)}, or file=PATH."
        raise UsageError("LAB: which topology?", remedy=remedy)
    _refuse_unknown(settings, {"file": "a topology file"}, f"LAB file={settings['file']}")
    return replace(load(Path(settings["file"])), asked=dict(settings))


def _refuse_unknown(asked: Mapping[str, object], allowed: Mapping[str, str], what: str) -> None:
    for name in asked:
        if name not in allowed:
            remedy = "Allowed:\n" + "\n".join(f"  {key}: {text}" for key, text in allowed.items())
            message = f"{what}: no setting {name!r}{nearest(name, allowed)}"
            raise UsageError(message, remedy=remedy)


def _limits(asked: Mapping[str, str], name: str, defaults: Mapping[str, str]) -> LinkSettings:
    limits = {key: text for key, text in {**defaults, **asked}.items() if key in LINK_SETTINGS}
    return link_settings(limits, what=f"LAB {name}")


def _count(
    asked: Mapping[str, str],
    key: str,
    default: int,
    name: str,
    *,
    least: int = 1,
    most: int = MOST_HOSTS,
) -> int:
    return value(
        asked, key, lambda text: whole_number(text, least, most), default, what=f"LAB {name}"
    )


def _hosts(names: list[str]) -> tuple[Node, ...]:
    return tuple(Node(name, "host", agent=True) for name in names)


# ---- from a file -----------------------------------------------------------------------------

NODE_SETTINGS: Mapping[str, str] = {
    "kind": "host, router or switch",
    "agent": "true or false: whether scripts may name it (hosts: true, others: false)",
    "device": "the neighbour towards which it tests",
}


def load(path: Path) -> Topology:
    """The topology in a TOML file.

    ```
    [nodes]
    a = "host"
    r = { kind = "router", agent = true, device = "b" }
    b = "host"

    [[links]]
    between = ["a", "r"]

    [[links]]
    between = ["r", "b"]
    rate = "10mbit"
    delay = 20
    ```
    UsageError if it cannot be read, or something in it is wrong.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    allowed = {"name": "shown to people", "nodes": "a table", "links": "an array of tables"}
    _refuse_unknown(document, allowed, str(path))
    nodes = _table(document.get("nodes"), f"{path}: [nodes]")
    links = document.get("links", [])
    if not isinstance(links, list):
        raise UsageError(f"{path}: links: write each as [[links]]")
    topology = Topology(
        str(document.get("name", path.stem)),
        tuple(_node(name, entry, path) for name, entry in nodes.items()),
        tuple(_link(entry, f"{path}: link {i + 1}") for i, entry in enumerate(links)),
    )
    _check(topology, path)
    return topology


def _table(entry: object, what: str) -> Mapping[str, object]:
    if not isinstance(entry, dict) or not entry:
        raise UsageError(f"{what}: a table with entries is wanted here")
    return entry


def _node(name: str, entry: object, path: Path) -> Node:
    what = f"{path}: node {name}"
    if not NODE_NAME.match(name) or len(name) > LONGEST_NODE_NAME or name in RESERVED_NAMES:
        raise UsageError(
            f"{what}: not a name for a node",
            remedy=f"A letter, then letters, digits, - and _; at most {LONGEST_NODE_NAME} "
            f"characters; none of {', '.join(sorted(RESERVED_NAMES))}.",
        )
    table = {"kind": entry} if isinstance(entry, str) else _table(entry, what)
    _refuse_unknown(table, NODE_SETTINGS, what)
    kind = KINDS.get(str(table.get("kind")))
    if kind is None:
        raise UsageError(f"{what}: kind: {NODE_SETTINGS['kind']} is wanted here")
    agent = table.get("agent", kind == "host")
    if not isinstance(agent, bool) or (agent and kind == "switch"):
        raise UsageError(f"{what}: agent: true or false, and false for a switch")
    return Node(name, kind, agent=agent, faces=str(table.get("device", "")))


KINDS: Mapping[str, Kind] = {"host": "host", "router": "router", "switch": "switch"}


def _link(entry: object, what: str) -> Link:
    table = dict(_table(entry, what))
    between = table.pop("between", None)
    if not isinstance(between, list) or len(between) != 2:
        raise UsageError(f"{what}: between = [node, node] is wanted")
    _refuse_unknown(table, LINK_SETTINGS, what)
    a, b = map(str, between)
    limits = {key: str(number) for key, number in table.items()}
    return Link(a, b, link_settings(limits, what=f"{what} ({a}, {b})"))


def _check(topology: Topology, path: Path) -> None:
    names = {node.name for node in topology.nodes}
    for link in topology.links:
        for name in (link.a, link.b):
            if name not in names:
                message = f"{path}: link {link.a}, {link.b}: no node {name}{nearest(name, names)}"
                raise UsageError(message)
        if link.a == link.b:
            raise UsageError(f"{path}: node {link.a}: linked to itself")
    for node in topology.nodes:
        neighbours = {link.other(node.name) for link in topology.links_of(node.name)}
        if not neighbours:
            raise UsageError(f"{path}: node {node.name}: no link leads to it")
        if node.faces and node.faces not in neighbours:
            message = f"{path}: node {node.name}: device {node.faces}: not a neighbour"
            raise UsageError(f"{message}{nearest(node.faces, neighbours)}")
    if not topology.hosts:
        raise UsageError(f"{path}: no node has an agent, so no script could use it")
    first = topology.hosts[0]
    for host in topology.hosts[1:]:
        if not topology.path(first, host):
            raise UsageError(f"{path}: no way from {first} to {host}")
