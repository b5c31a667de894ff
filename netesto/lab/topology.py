"""Parses `LAB name k=v …` or a TOML file into a topology, with clear errors."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from ipaddress import IPv4Address
from itertools import permutations
from pathlib import Path

from netesto.errors import UsageError
from netesto.files import texts
from netesto.lab.graph import (
    LONGEST_NODE_NAME,
    NODE_NAME,
    RESERVED_NAMES,
    Kind,
    Link,
    Node,
    Topology,
    Weight,
)
from netesto.lab.routes import Routes
from netesto.lab.shapes import SHAPES
from netesto.links.given import link_settings, merged
from netesto.links.settings import LINK_SETTINGS, OF_BOTH, LinkSettings
from netesto.links.values import suggestion

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
        raise UsageError(f"LAB {name}: no such topology{suggestion(name, SHAPES)}", remedy=remedy)
    shape, own = SHAPES[name]
    common, single = _divided(settings)
    _refuse_unknown(common, {**own, **_OF_LINKS}, f"LAB {name}")
    direction = "both" if "dir" in own else common.pop("dir", "both")
    return _with_single(_one_way(shape(common), direction, f"LAB {name}"), single, f"LAB {name}")


_OF_LINKS: Mapping[str, str] = {
    **LINK_SETTINGS,
    "dir": "both, or to or from: only that direction of each link has the settings, as drawn",
    "NODE.SETTING": "of the link of one node, both directions: client1.delay=5",
    "A-B.SETTING": "of what A sends to B: right-router.rate=1mbit",
}


def _divided(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The settings of all links, and those of one link or direction, by its name."""
    common: dict[str, str] = {}
    single: dict[str, dict[str, str]] = {}
    for key, text in settings.items():
        name, dot, setting = key.rpartition(".")
        if dot:
            single.setdefault(name, {})[setting] = text
        else:
            common[key] = text
    return common, single


def _one_way(topology: Topology, direction: str, what: str) -> Topology:
    """The topology with the settings of its links in one direction only; the other is unlimited."""
    if direction == "both":
        return topology
    if direction not in {"to", "from"}:
        raise UsageError(f"{what}: dir={direction}: to, from or both")
    return replace(topology, links=tuple(_sending(link, direction) for link in topology.links))


def _sending(link: Link, direction: str) -> Link:
    plain = LinkSettings(**{field: getattr(link.settings, field) for field in OF_BOTH})
    if direction == "to":
        return replace(link, back=plain)
    return replace(link, settings=plain, back=link.settings)


def _with_single(
    topology: Topology, single: Mapping[str, Mapping[str, str]], what: str
) -> Topology:
    """The topology with the settings of single links. UsageError if a name means none, or
    several."""
    links = list(topology.links)
    for name, given in single.items():
        _refuse_unknown(given, LINK_SETTINGS, f"{what}: {name}")
        place, sender = _direction_of(topology, name, what)
        links[place] = _changed(links[place], given, sender, f"{what}: {name}")
    return replace(topology, links=tuple(links))


def _direction_of(topology: Topology, name: str, what: str) -> tuple[int, str]:
    """The place of the link that a name means, and the node whose packets it is about: "" for both
    directions."""
    nodes = {node.name for node in topology.nodes}
    if name in nodes:
        own = topology.links_of(name)
        if len(own) > 1:
            ways = ", ".join(f"{name}-{link.other(name)}" for link in own)
            raise UsageError(f"{what}: {name} has several links", remedy=f"Write one of: {ways}.")
        return topology.links.index(own[0]), ""
    for at, character in enumerate(name):
        a, b = name[:at], name[at + 1 :]
        if character == "-" and a in nodes and b in nodes:
            places = [i for i, link in enumerate(topology.links) if {link.a, link.b} == {a, b}]
            if places:
                return places[0], a
    names = {f"{a}-{b}" for link in topology.links for a, b in permutations((link.a, link.b))}
    raise UsageError(f"{what}: no link {name}{suggestion(name, nodes | names)}")


def _changed(link: Link, given: Mapping[str, str], sender: str, what: str) -> Link:
    both = {key: text for key, text in given.items() if key in OF_BOTH}
    forth = merged(link.settings, given if sender in {"", link.a} else both, what=what)
    back = merged(link.sent_by(link.b), given if sender in {"", link.b} else both, what=what)
    return replace(link, settings=forth, back=None if back == forth else back)


def _from_file_setting(settings: Mapping[str, str], script: str, text: str) -> Topology:
    if "file" not in settings:
        remedy = f"Topologies: {', '.join(SHAPES)}, or file=PATH."
        raise UsageError("LAB: no topology", remedy=remedy)
    what = f"LAB file={settings['file']}"
    common, single = _divided(settings)
    _refuse_unknown(common, {"file": "a topology file"}, what)
    return _with_single(load(find(settings["file"], script), text=text), single, what)


def find(name: str, script: str) -> Path:
    """The file that `LAB file=NAME` in a script means."""
    beside = Path(script).parent / name
    return beside if beside.exists() else Path(name)


def _refuse_unknown(given: Mapping[str, object], allowed: Mapping[str, str], what: str) -> None:
    for name in given:
        if name not in allowed:
            remedy = "Allowed:\n" + "\n".join(f"  {key}: {text}" for key, text in allowed.items())
            message = f"{what}: no setting {name!r}{suggestion(name, allowed)}"
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

    [aliases]
    "10.4.2.2" = "a"
    ```
    UsageError if it cannot be read or is invalid.
    """
    try:
        document = tomllib.loads(text or texts.read(path))
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    allowed = {
        "name": "shown to people",
        "nodes": "a table",
        "links": "an array of tables",
        "aliases": "a table of hosts by the addresses that traces have for them",
    }
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
        _aliases(document.get("aliases", {}), f"{path}: [aliases]"),
    )
    _check(topology, path)
    return topology


def _table(entry: object, what: str) -> Mapping[str, object]:
    if not isinstance(entry, dict) or not entry:
        raise UsageError(f"{what}: a table with entries is required")
    return entry


def _aliases(entry: object, what: str) -> Mapping[str, str]:
    table = _table(entry, what) if entry else {}
    for address in table:
        try:
            IPv4Address(address)
        except ValueError:
            raise UsageError(
                f"{what}: {address!r} is not an IPv4 address", remedy='Write: "10.4.2.2" = "h2"'
            ) from None
    return {address: str(host) for address, host in table.items()}


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
    direction = str(table.pop("dir", "both"))
    weight = _weight(table.pop("weight", 1), what)
    ways = {way: _table(table.pop(way), f"{what}: {way}") for way in ("to", "from") if way in table}
    _refuse_unknown(table, {**LINK_SETTINGS, **_WAYS}, what)
    a, b = map(str, between)
    what = f"{what} ({a}, {b})"
    link = Link(a, b, link_settings(_texts(table), what=what), weight=weight)
    if direction != "both":
        link = _sending(link, direction) if direction in {"to", "from"} else link
        if direction not in {"to", "from"}:
            raise UsageError(f"{what}: dir={direction}: to, from or both")
    for way, own in ways.items():
        _refuse_unknown(own, LINK_SETTINGS, f"{what}: {way}")
        link = _changed(link, _texts(own), a if way == "to" else b, f"{what}: {way}")
    return link


_WAYS: Mapping[str, str] = {
    "dir": "both, or to or from: only that direction has the settings",
    "to": "a table: settings of what the first node sends, beside those of both",
    "from": "a table: those of what the second sends",
    "weight": "packets take the paths with the smallest sum of weights (1)",
}


def _weight(entry: object, what: str) -> Weight:
    is_number = isinstance(entry, int | float) and not isinstance(entry, bool)
    if not is_number or not 0 < float(str(entry)) < math.inf:
        raise UsageError(f"{what}: weight: a number above 0 is required")
    exact = Fraction(str(entry))
    return exact.numerator if exact.denominator == 1 else exact


def _texts(table: Mapping[str, object]) -> dict[str, str]:
    """Settings as a script writes them."""
    return {
        key: "01"[number] if isinstance(number, bool) else str(number)
        for key, number in table.items()
    }


def _check(topology: Topology, path: Path) -> None:
    names = {node.name for node in topology.nodes}
    for link in topology.links:
        for name in (link.a, link.b):
            if name not in names:
                message = (
                    f"{path}: link {link.a}, {link.b}: no node {name}{suggestion(name, names)}"
                )
                raise UsageError(message)
        if link.a == link.b:
            raise UsageError(f"{path}: node {link.a}: linked to itself")
    for node in topology.nodes:
        neighbours = {link.other(node.name) for link in topology.links_of(node.name)}
        if not neighbours:
            raise UsageError(f"{path}: node {node.name}: it has no link")
        if node.faces and node.faces not in neighbours:
            message = f"{path}: node {node.name}: device {node.faces}: not a neighbour"
            raise UsageError(f"{message}{suggestion(node.faces, neighbours)}")
    for address, host in topology.aliases.items():
        if host not in topology.hosts:
            near = suggestion(host, topology.hosts)
            raise UsageError(f"{path}: [aliases] {address}: no host {host}{near}")
    if len(parts := topology.parts) > 1:
        raise UsageError(f"{path}: {separate(parts)}", remedy="Join them by a link.")
    if not topology.hosts:
        raise UsageError(f"{path}: no node has an agent, so no script can use it")
    _check_loops(topology, path)
    first, *others = topology.hosts
    routes = Routes(topology)
    for host in others:
        if not any(routes.ways(first, host)):
            raise UsageError(f"{path}: no path from {first} to {host}")


def separate(parts: Sequence[Sequence[str]]) -> str:
    """What is wrong with a graph in several parts."""
    named = [", ".join([*part[:SHOWN_NODES], *["…"][: len(part) > SHOWN_NODES]]) for part in parts]
    return f"{len(parts)} parts that no link joins: {'; '.join(named[:SHOWN_NODES])}"


SHOWN_NODES = 8


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
