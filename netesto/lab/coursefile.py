"""Topologies of the course CS 145, in JSON: its own form, and the node-link graph.

Its switches become routers here: their weights decide, and loops are allowed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path

from netesto import units
from netesto.errors import UsageError
from netesto.files import placedjson, texts
from netesto.files.placedjson import Value
from netesto.lab.graph import (
    LONGEST_NODE_NAME,
    NODE_NAME,
    RESERVED_NAMES,
    Link,
    Node,
    Topology,
    Weight,
)
from netesto.lab.topology import separate
from netesto.links.given import link_settings
from netesto.links.settings import as_text
from netesto.text.nearest import hint
from netesto.traces import addresses

Warn = Callable[[str], None]

# Packets that a queue of the course's links holds, also where its length is given as 0.
QUEUE_PACKETS = 1000

_PROPERTIES = ("bw", "delay", "loss", "queue_length", "weight")
_DEFAULTS: Mapping[str, str] = {
    "bw": "default_bw",
    "delay": "default_delay",
    "loss": "default_loss",
    "queue_length": "default_queue_length",
    "weight": "default_link_weight",
}
_TOPOLOGY = ("links", "hosts", "switches", "assignment_strategy", *_DEFAULTS.values())
_STRATEGIES = ("l2", "l3", "mixed", "manual")


def read(path: Path, *, warn: Warn = lambda _: None) -> Topology:
    """The topology in a file. `warn` receives the names that mean nothing. ScriptError with line
    and column, UsageError if the file cannot be read."""
    document = placedjson.parse(texts.read(path), str(path))
    members = document.table("a topology")
    reader = _TopologyReader(path.stem, warn, {})
    if "topology" in members:
        found = reader.of_course(document)
        if reader.unknown:
            named = ", ".join(f"{name!r} (line {line})" for name, line in reader.unknown.items())
            warn(f"{path}: ignored, because unknown: {named}")
        return found
    if "nodes" in members and "links" in members:
        return reader.of_graph(document)
    lacks = "links" if "nodes" in members else "nodes" if "links" in members else ""
    what = f"a node-link graph without {lacks}" if lacks else "no topology, and no nodes and links"
    raise document.source.wrong(
        document.start, document.start + 1, what,
        'Read are {"topology": {"links", "hosts", "switches"}}, and graphs {"nodes", "links"}.',
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, and where the file names it."""

    node: Node
    value: Value
    address: str = ""


_Nodes = dict[str, _Place]


@dataclass(frozen=True, slots=True)
class _TopologyReader:
    """`unknown` collects names that mean nothing, with their first lines."""

    name: str
    warn: Warn
    unknown: dict[str, int]

    def of_course(self, document: Value) -> Topology:
        topology = document.content["topology"]
        self._note_unknown(document, ("topology",))
        self._note_unknown(topology, _TOPOLOGY)
        nodes: _Nodes = {}
        for key, kind in (("hosts", "host"), ("switches", "router")):
            for name, value, entry in _entries(topology.required(key, "topology"), key):
                if entry is not None:
                    self._note_unknown(entry, ("ip",) if kind == "host" else ())
                address = _address(entry, "ip") if kind == "host" else ""
                _add(nodes, name, value, address, is_host=kind == "host")
        members = topology.table("topology")
        links: list[Link] = []
        for at, value in enumerate(topology.required("links", "topology").items("links")):
            ends = value.items(f"link {at + 1}")
            if len(ends) not in {2, 3}:
                raise value.wrong(f"link {at + 1}: [a, b] or [a, b, {{…}}] is required")
            if len(ends) == 3:
                self._note_unknown(ends[2], _PROPERTIES)
            own = ends[2].table(f"link {at + 1}") if len(ends) == 3 else {}
            given = {
                key: _or_default(own.get(key), members.get(default))
                for key, default in _DEFAULTS.items()
            }
            links.append(self._link(value, ends[0], ends[1], given, nodes))
        found = self._topology(nodes, links, members["links"])
        return self._with_aliases(found, nodes, members.get("assignment_strategy"))

    def of_graph(self, document: Value) -> Topology:
        nodes: _Nodes = {}
        members = document.table("a graph")
        for value in members["nodes"].items("nodes"):
            name = value.required("id", "a node")
            said = value.table("a node").get("isHost")
            is_host = said is not None and said.content is True
            address = _address(value, "ip") if is_host else ""
            _add(nodes, name.words("id"), name, address, is_host=is_host)
        links: list[Link] = []
        for value in members["links"].items("links"):
            own = value.table("a link")
            a, b = (value.required(key, "a link") for key in ("node1", "node2"))
            given = {key: own.get(key) for key in _PROPERTIES}
            links.append(self._link(value, a, b, given, nodes))
        found = self._topology(nodes, links, members["links"])
        aliases = _aliases({name: nodes[name].address for name in found.hosts}, nodes)
        return Topology(found.name, found.nodes, found.links, aliases)

    def _topology(self, nodes: _Nodes, links: list[Link], place: Value) -> Topology:
        found = Topology(self.name, tuple(each.node for each in nodes.values()), tuple(links))
        if not found.hosts:
            raise place.source.wrong(place.start, place.start + 1, "a topology without a host")
        if len(parts := found.parts) > 1:
            raise place.source.wrong(
                place.start, place.start + 1, separate(parts), "Join them by a link."
            )
        return found

    def _note_unknown(self, value: Value, known: tuple[str, ...]) -> None:
        for name, place in value.unknown(known):
            self.unknown.setdefault(name, place.line)

    # ---- links -----------------------------------------------------------------------------------

    def _link(
        self, value: Value, a: Value, b: Value, given: Mapping[str, Value | None], nodes: _Nodes
    ) -> Link:
        for end in (a, b):
            if end.words("a node") not in nodes:
                remedy = hint(
                    end.content, nodes, otherwise=f"Nodes: {', '.join(list(nodes)[:20])}."
                )
                raise end.wrong(f"unknown node {end.content}", remedy)
        if a.content == b.content:
            raise b.wrong(f"a link from {a.content} to itself")
        # A property without a value is like one that is not there.
        present = {
            key: each
            for key, each in given.items()
            if each is not None and each.content is not None
        }
        words: dict[str, str] = {}
        if "bw" in present:
            words["rate"] = f"{_decimal(present['bw'].number('bw', above=0))}mbit"
            packets = _packets(present.get("queue_length"))
            words["limit"] = f"{packets}p"
        elif "queue_length" in present:
            _packets(present["queue_length"])
            place = present["queue_length"].source.place(value.start, value.end)
            self.warn(f"{place}: a link without bw has no queue: queue_length is ignored")
        if "delay" in present:
            words["delay"] = _delay(present["delay"])
        if "loss" in present:
            words["loss"] = _decimal(present["loss"].number("loss"))
        try:
            settings = link_settings(
                {key: text for key, text in words.items() if text != "0"},
                what=f"link {a.content}, {b.content}",
            )
        except UsageError as error:
            raise value.wrong(error.message, error.remedy) from None
        weight: Weight = 1
        if "weight" in present:
            exact = Fraction(_decimal(present["weight"].number("weight", above=0)))
            weight = exact.numerator if exact.denominator == 1 else exact
        return Link(a.content, b.content, settings, weight=weight)

    # ---- addresses -------------------------------------------------------------------------------

    def _with_aliases(self, found: Topology, nodes: _Nodes, strategy: Value | None) -> Topology:
        wanted = "l2" if strategy is None else strategy.words("assignment_strategy")
        if wanted not in _STRATEGIES:
            assert strategy is not None, "l2 is known"
            raise strategy.wrong(
                f"assignment_strategy: {wanted!r}", f"One of {', '.join(_STRATEGIES)}."
            )
        listed = {
            host: nodes[host].address
            if wanted == "manual"
            else _assigned(found, host, wanted, nodes)
            for host in found.hosts
        }
        for host, address in listed.items():
            if not address:
                place = nodes[host].value.source.place(
                    nodes[host].value.start, nodes[host].value.end
                )
                self.warn(f"{place}: host {host} gets no alias: {_WHY[wanted]}")
        return Topology(found.name, found.nodes, found.links, _aliases(listed, nodes))


_WHY: Mapping[str, str] = {
    "l2": "its name is not hK with a number K",
    "l3": "its name, or that of its switch, has no number up to 255",
    "mixed": "its name has no number up to 255, or that of its switch none up to 65535",
    "manual": "it has no ip",
}


def _assigned(found: Topology, host: str, strategy: str, nodes: _Nodes) -> str:
    """The address of a host by its number, and that of its switch; "" if they have none."""
    number = _number(host)
    if strategy == "l2":
        return "" if number is None else addresses.numbered(f"h{number}") or ""
    neighbours = (link.other(host) for link in found.links_of(host))
    near = next((name for name in neighbours if nodes[name].node.kind == "router"), "")
    switch = _number(near)
    if number is None or switch is None or number > 255:
        return ""
    if strategy == "l3":
        return f"10.{switch}.{number}.2" if switch <= 255 else ""
    return f"10.{switch // 256}.{switch % 256}.{number}" if switch <= 65_535 else ""


def _number(name: str) -> int | None:
    found = re.search(r"[0-9]{1,9}", name)
    return None if found is None else int(found[0])


def _aliases(listed: Mapping[str, str], nodes: _Nodes) -> Mapping[str, str]:
    aliases: dict[str, str] = {}
    for host, address in listed.items():
        if address and aliases.setdefault(address, host) != host:
            raise nodes[host].value.wrong(
                f"hosts {aliases[address]} and {host} would both have the address {address}"
            )
    return aliases


def _address(entry: Value | None, key: str) -> str:
    """The address of a host, without the length of its network; "" if there is none."""
    found = (
        entry.content.get(key) if entry is not None and isinstance(entry.content, dict) else None
    )
    if found is None or found.content is None:
        return ""
    text: str = found.words(key).partition("/")[0]
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise found.wrong(f"{key}: {text!r} is not an IPv4 address") from None


# ---- nodes and numbers -------------------------------------------------------------------------


def _entries(value: Value, what: str) -> Iterator[tuple[str, Value, Value | None]]:
    """The names in an object, or a list, with their places and what the object says of them."""
    if isinstance(value.content, tuple):
        for entry in value.content:
            yield entry.words(what), entry, None
        return
    for name, entry in value.table(what).items():
        start = value.names[name]
        yield name, Value(value.source, start, start + len(name) + 2, name), entry


def _add(nodes: _Nodes, name: str, value: Value, address: str, *, is_host: bool) -> None:
    if not NODE_NAME.match(name) or len(name) > LONGEST_NODE_NAME or name in RESERVED_NAMES:
        raise value.wrong(
            f"invalid node name {name!r}",
            f"A letter, then letters, digits, - and _; at most {LONGEST_NODE_NAME} characters, "
            f"as of an interface; none of {', '.join(sorted(RESERVED_NAMES))}.",
        )
    if name in nodes:
        raise value.wrong(f"node {name} twice")
    node = Node(name, "host", agent=True) if is_host else Node(name, "router")
    nodes[name] = _Place(node, value, address)


def _decimal(number: float) -> str:
    """Without an exponent."""
    return f"{Decimal(str(number)):f}"


def _or_default(own: Value | None, default: Value | None) -> Value | None:
    """The value of a link, or the default; null is like nothing."""
    return default if own is None or own.content is None else own


def _packets(value: Value | None) -> int:
    if value is None:
        return QUEUE_PACKETS
    number = value.number("queue_length")
    if number != int(number):
        raise value.wrong(f"queue_length: {number} is not a whole number of packets")
    return int(number) or QUEUE_PACKETS


def _delay(value: Value) -> str:
    """As a setting: a number is in ms, a text may have a unit."""
    if isinstance(value.content, str):
        return value.content.replace(" ", "")
    return _decimal(value.number("delay"))


# ---- as a topology file ------------------------------------------------------------------------


def toml(topology: Topology, source: str) -> Iterator[str]:
    """The lines of a topology file. Directions of links do not differ in files of the course."""
    yield f"# Imported from {source}. Switches are routers here.\n\n[nodes]\n"
    for node in topology.nodes:
        yield f'{node.name} = "{node.kind}"\n'
    for link in topology.links:
        yield f'\n[[links]]\nbetween = ["{link.a}", "{link.b}"]\n'
        for key, text in as_text(link.settings).items():
            yield f"{key} = {_quoted(key, text)}\n"
        if link.weight != 1:
            yield f"weight = {_written(link.weight)}\n"
    if topology.aliases:
        yield "\n[aliases]\n"
        for address, host in topology.aliases.items():
            yield f'"{address}" = "{host}"\n'


def _quoted(key: str, text: str) -> str:
    if key == "rate":
        text = f"{_decimal(units.parse_rate(text) / 1e6).removesuffix('.0')}mbit"
    return text.removesuffix(".0") if re.fullmatch(r"[0-9.]+", text) else f'"{text}"'


def _written(weight: Weight) -> str:
    return str(weight) if isinstance(weight, int) else _decimal(float(weight))
