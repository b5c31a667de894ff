"""Parses `LAB name k=v …` or a TOML file into a topology, with clear errors."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from netesto import texts
from netesto.errors import UsageError
from netesto.lab.graph import (
    LONGEST_NODE_NAME,
    NODE_NAME,
    RESERVED_NAMES,
    Kind,
    Link,
    Node,
    Topology,
)
from netesto.lab.links import LINK_SETTINGS, link_settings, meant
from netesto.lab.routes import Routes
from netesto.lab.shapes import SHAPES

__all__ = ["Link", "Node", "Topology", "build", "load"]


def build(name: str, settings: Mapping[str, str], *, script: str = "", text: str = "") -> Topology:
    """The topology of `LAB name k=v …`; `LAB file=PATH` has an empty name.

    PATH is searched for beside the file `script`, which contains it, and then in the working
    folder; `text` is its content, if known. UsageError if the topology or a setting is unknown, or
    a value is invalid.
    """
    if not name:
        return _from_file_setting(settings, script, text)
    if name not in SHAPES:
        remedy = f"Topologies: {', '.join(SHAPES)}, or file=PATH."
        raise UsageError(f"LAB {name}: no such topology{meant(name, SHAPES)}", remedy=remedy)
    shape, own = SHAPES[name]
    _refuse_unknown(settings, {**own, **LINK_SETTINGS}, f"LAB {name}")
    return shape(settings)


def _from_file_setting(settings: Mapping[str, str], script: str, text: str) -> Topology:
    if "file" not in settings:
        remedy = f"Topologies: {', '.join(SHAPES)}, or file=PATH."
        raise UsageError("LAB: no topology", remedy=remedy)
    _refuse_unknown(settings, {"file": "a topology file"}, f"LAB file={settings['file']}")
    return load(find(settings["file"], script), text=text)


def find(name: str, script: str) -> Path:
    """The file that `LAB file=NAME` in a script means."""
    beside = Path(script).parent / name
    return beside if beside.exists() else Path(name)


def _refuse_unknown(given: Mapping[str, object], allowed: Mapping[str, str], what: str) -> None:
    for name in given:
        if name not in allowed:
            remedy = "Allowed:\n" + "\n".join(f"  {key}: {text}" for key, text in allowed.items())
            message = f"{what}: no setting {name!r}{meant(name, allowed)}"
            raise UsageError(message, remedy=remedy)


# ---- from a file -----------------------------------------------------------------------------

NODE_SETTINGS: Mapping[str, str] = {
    "kind": "host, router or switch",
    "agent": "true or false: whether scripts may name it (hosts: true, others: false)",
    "device": "the neighbour towards which it tests",
}


def load(path: Path, *, text: str = "") -> Topology:
    """The topology in a TOML file; `text` is its content, if known.

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
    UsageError if it cannot be read or is invalid.
    """
    try:
        document = tomllib.loads(text or texts.read(path))
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    allowed = {"name": "shown to people", "nodes": "a table", "links": "an array of tables"}
    _refuse_unknown(document, allowed, str(path))
    nodes = _table(document.get("nodes"), f"{path}: [nodes]")
    links = document.get("links", [])
    if not isinstance(links, list):
        raise UsageError(f"{path}: links: write each as [[links]]")
    name = str(document.get("name", path.name))
    if name in SHAPES:
        raise UsageError(f"{path}: name = {name!r}: a built-in topology has this name")
    topology = Topology(
        name,
        tuple(_node(name, entry, path) for name, entry in nodes.items()),
        tuple(_link(entry, f"{path}: link {i + 1}") for i, entry in enumerate(links)),
    )
    _check(topology, path)
    return topology


def _table(entry: object, what: str) -> Mapping[str, object]:
    if not isinstance(entry, dict) or not entry:
        raise UsageError(f"{what}: a table with entries is required")
    return entry


def _node(name: str, entry: object, path: Path) -> Node:
    what = f"{path}: node {name}"
    if not NODE_NAME.match(name) or len(name) > LONGEST_NODE_NAME or name in RESERVED_NAMES:
        raise UsageError(
            f"{what}: invalid node name",
            remedy=f"A letter, then letters, digits, - and _; at most {LONGEST_NODE_NAME} "
            f"characters; none of {', '.join(sorted(RESERVED_NAMES))}.",
        )
    table = {"kind": entry} if isinstance(entry, str) else _table(entry, what)
    _refuse_unknown(table, NODE_SETTINGS, what)
    kind = KINDS.get(str(table.get("kind")))
    if kind is None:
        raise UsageError(f"{what}: kind: {NODE_SETTINGS['kind']} is required")
    agent = table.get("agent", kind == "host")
    if not isinstance(agent, bool) or (agent and kind == "switch"):
        raise UsageError(f"{what}: agent: true or false, and false for a switch")
    return Node(name, kind, agent=agent, faces=str(table.get("device", "")))


KINDS: Mapping[str, Kind] = {"host": "host", "router": "router", "switch": "switch"}


def _link(entry: object, what: str) -> Link:
    table = dict(_table(entry, what))
    between = table.pop("between", None)
    if not isinstance(between, list) or len(between) != 2:
        raise UsageError(f"{what}: between = [node, node] is required")
    _refuse_unknown(table, LINK_SETTINGS, what)
    a, b = map(str, between)
    limits = {key: str(number) for key, number in table.items()}
    return Link(a, b, link_settings(limits, what=f"{what} ({a}, {b})"))


def _check(topology: Topology, path: Path) -> None:
    names = {node.name for node in topology.nodes}
    for link in topology.links:
        for name in (link.a, link.b):
            if name not in names:
                message = f"{path}: link {link.a}, {link.b}: no node {name}{meant(name, names)}"
                raise UsageError(message)
        if link.a == link.b:
            raise UsageError(f"{path}: node {link.a}: linked to itself")
    for node in topology.nodes:
        neighbours = {link.other(node.name) for link in topology.links_of(node.name)}
        if not neighbours:
            raise UsageError(f"{path}: node {node.name}: it has no link")
        if node.faces and node.faces not in neighbours:
            message = f"{path}: node {node.name}: device {node.faces}: not a neighbour"
            raise UsageError(f"{message}{meant(node.faces, neighbours)}")
    if not topology.hosts:
        raise UsageError(f"{path}: no node has an agent, so no script can use it")
    _check_loops(topology, path)
    first, *others = topology.hosts
    routes = Routes(topology)
    for host in others:
        if not any(routes.ways(first, host)):
            raise UsageError(f"{path}: no path from {first} to {host}")


def _check_loops(topology: Topology, path: Path) -> None:
    """UsageError if switches form a loop: no protocol keeps packets from circulating in it."""
    joined = {node.name: {node.name} for node in topology.nodes if node.kind == "switch"}
    for link in topology.links:
        if link.a in joined and link.b in joined:
            if joined[link.a] is joined[link.b]:
                raise UsageError(
                    f"{path}: link {link.a}, {link.b}: it closes a loop of switches, in which"
                    " packets to all hosts circulate forever",
                    remedy="Use routers for several paths between two hosts.",
                )
            joined[link.a] |= joined[link.b]
            joined |= dict.fromkeys(joined[link.a], joined[link.a])
