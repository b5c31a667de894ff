"""The named topologies.

    pair      a ══ b
    star      h1 … hN, each ══ sw
    dumbbell  client1 … clientN ── left ── router ══ right ── server1 … serverM
    parallel  client1 … clientN ── left ── r1 ══ pfifo, r2 ══ fq_codel, …
    chain     h1 ══ r1 ══ … ══ rK ══ h2
    corrupting  h1 ── s1 ══ s2 ── h2
    tree      sw1 ═╤═ sw2 ═╤═ … ══ h1, h2, …
    leafspine hosts h ══ leaf routers l ══ every spine router s
    fattree   hosts h, edge routers e, aggregation routers a, core routers c

`══` are the links to which rate, delay and the other settings apply.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from netesto import units
from netesto.errors import UsageError
from netesto.lab.graph import Link, Node, Topology
from netesto.links.given import link_settings, value
from netesto.links.queues import QUEUES
from netesto.links.settings import LINK_SETTINGS, LinkSettings
from netesto.links.values import suggestion, whole_number

MOST_HOSTS = 200

# Tried, with a flow each, in a guest of 2 GiB. A bridge has at most 1,023 ports (BR_MAX_PORTS).
MOST_STAR_HOSTS = 500

# Each router of a chain begins a new network, numbered by one byte of the address.
MOST_ROUTERS = 100

# 64 hosts and 63 switches.
DEEPEST_TREE = 6

MOST_LEAVES, MOST_SPINES = 64, 32

# A fat tree of k=8 has 128 hosts and 80 routers.
LARGEST_FATTREE = 8


def pair(given: Mapping[str, str]) -> Topology:
    """Two hosts and one link."""
    settings = _limits(given, "pair", {})
    nodes = (Node("a", "host", agent=True), Node("b", "host", agent=True))
    return Topology("pair", nodes, (Link("a", "b", settings),))


def star(given: Mapping[str, str]) -> Topology:
    """Hosts around one switch, with equal links."""
    settings = _limits(given, "star", {})
    count = _count(given, "hosts", 4, "star", least=2, most=MOST_STAR_HOSTS)
    names = [f"h{i + 1}" for i in range(count)]
    nodes = (*_hosts(names), Node("sw", "switch"))
    return Topology("star", nodes, tuple(Link(name, "sw", settings) for name in names))


def dumbbell(given: Mapping[str, str]) -> Topology:
    """Clients and servers that share one bottleneck, the link from the router to the right.

    Only that link has limits; the default rate of 100 Mbit/s suits any machine.
    """
    bottleneck = _limits(given, "dumbbell", {"rate": "100mbit"})
    # MTU and offload take effect at the hosts, where packets are made.
    access = LinkSettings(mtu=bottleneck.mtu, offload=bottleneck.offload)
    clients = [f"client{i + 1}" for i in range(_count(given, "clients", 2, "dumbbell"))]
    servers = [f"server{i + 1}" for i in range(_count(given, "servers", 1, "dumbbell"))]
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


def parallel(given: Mapping[str, str]) -> Topology:
    """Bottlenecks in parallel that differ only in the qdisc of their queue.

    Behind each is a server with the name of the qdisc, so a flow chooses its queue by its server.
    """
    if "qdisc" in given:
        raise UsageError("LAB parallel: no setting 'qdisc': write queues=pfifo,fq_codel")
    kinds = value(given, "queues", _queues, DEFAULT_QUEUES, what="LAB parallel")
    defaults = {"rate": "100mbit"}
    bottlenecks = [_limits({**given, "qdisc": kind}, "parallel", defaults) for kind in kinds]
    access = LinkSettings(mtu=bottlenecks[0].mtu, offload=bottlenecks[0].offload)
    clients = [f"client{i + 1}" for i in range(_count(given, "clients", 1, "parallel"))]
    routers = [f"r{i + 1}" for i in range(len(kinds))]
    nodes = (
        *_hosts(clients),
        Node("left", "switch"),
        *(
            Node(router, "router", agent=True, faces=kind)
            for router, kind in zip(routers, kinds, strict=True)
        ),
        *_hosts(list(kinds)),
    )
    links = (
        *(Link(name, "left", access) for name in clients),
        *(Link("left", router, access) for router in routers),
        *(Link(*ends) for ends in zip(routers, kinds, bottlenecks, strict=True)),
    )
    return Topology("parallel", nodes, links)


DEFAULT_QUEUES: tuple[str, ...] = ("pfifo", "fq_codel", "cake", "red")


def _queues(text: str) -> tuple[str, ...]:
    # On the command line a comma ends the setting, so + separates the kinds.
    kinds = tuple(text.replace("+", ",").split(","))
    for kind in kinds:
        if kind not in QUEUES:
            raise ValueError(f"{kind} is not a queue that a link can have")
    if len(set(kinds)) < len(kinds):
        raise ValueError("a kind is given twice")
    return kinds


def chain(given: Mapping[str, str]) -> Topology:
    """Two hosts with a row of routers between them, and equal links.

    Each router tests through its link towards h2.
    """
    settings = _limits(given, "chain", {})
    count = _count(given, "routers", 2, "chain", most=MOST_ROUTERS)
    names = ["h1", *(f"r{i + 1}" for i in range(count)), "h2"]
    routers = (Node(name, "router", agent=True, faces=after) for name, after in pairwise(names[1:]))
    nodes = (Node("h1", "host", agent=True), *routers, Node("h2", "host", agent=True))
    links = tuple(Link(a, b, settings) for a, b in pairwise(names))
    return Topology("chain", nodes, links)


# What the link of `corrupting` does in one direction only, and what its other links have, too.
_PROTECTION = (
    "loss", "protect", "copies", "target", "reaction", "hold", "pause", "resume", "txbuffer",
    "rxbuffer", "notice",
)  # fmt: skip
_OF_ALL = ("rate", "limit", "mark", "mtu", "offload", "emulator")


def corrupting(given: Mapping[str, str]) -> Topology:
    """Two hosts, and between them two routers whose link loses frames and may be protected.

    `rtt` is that of the whole path, of which the other two links have what the delay of this one
    leaves. Losses and protection are those of s1 to s2, unless `dir` says otherwise.
    """
    what = "LAB corrupting"
    direction = given.get("dir", "to")
    if direction not in {"to", "from", "both"}:
        raise UsageError(f"{what}: dir={direction}: to, from or both")
    own = {key: text for key, text in given.items() if key in LINK_SETTINGS and key != "rtt"}
    without = {key: text for key, text in own.items() if key not in _PROTECTION}
    protected, plain = (
        link_settings({"emulator": "program", **each}, what=what) for each in (own, without)
    )
    rtt = link_settings({"rtt": given["rtt"]} if "rtt" in given else {}, what=what)
    outer_ms = rtt.delay_ms / 2 - protected.delay_ms / 2
    if "rtt" in given and outer_ms < 0:
        raise UsageError(
            f"{what}: rtt={given['rtt']}: shorter than the link from s1 to s2 and back",
            remedy="rtt= is that of the whole path; delay= is that of this link, one way.",
        )
    common = {key: own[key] for key in _OF_ALL if key in own}
    outer = replace(link_settings(common, what=what), delay_ms=max(0.0, outer_ms))
    there = plain if direction == "from" else protected
    back = plain if direction == "to" else protected
    routers = (Node("s1", "router", agent=True, faces="s2"),
               Node("s2", "router", agent=True, faces="h2"))  # fmt: skip
    middle = Link("s1", "s2", there, back=None if back == there else back)
    nodes = (Node("h1", "host", agent=True), *routers, Node("h2", "host", agent=True))
    return Topology("corrupting", nodes, (Link("h1", "s1", outer), middle, Link("s2", "h2", outer)))


def tree(given: Mapping[str, str]) -> Topology:
    """A binary tree of switches with hosts as leaves. Level 1 are the links of the top switch."""
    depth = _count(given, "depth", 2, "tree", most=DEEPEST_TREE)
    for level in range(depth + 1, DEEPEST_TREE + 1):
        if f"rate{level}" in given:
            raise UsageError(f"LAB tree: rate{level}: the tree has {depth} levels (depth=)")
    levels = [_level(given, number + 1) for number in range(depth)]
    switches = [f"sw{i + 1}" for i in range(2**depth - 1)]
    hosts = [f"h{i + 1}" for i in range(2**depth)]
    # Numbered row by row with the leaves, the children of the i-th are the 2i-th and the next.
    names = ["", *switches, *hosts]
    links = tuple(
        Link(names[i // 2], names[i], levels[(i // 2).bit_length() - 1])
        for i in range(2, len(names))
    )
    return Topology("tree", (*(Node(name, "switch") for name in switches), *_hosts(hosts)), links)


def _level(given: Mapping[str, str], level: int) -> LinkSettings:
    """The limits of one level: `rate2` replaces `rate` at level 2."""
    own = {"rate": given[f"rate{level}"]} if f"rate{level}" in given else {}
    return _limits({**given, **own}, "tree", {})


def leafspine(given: Mapping[str, str]) -> Topology:
    """Leaf routers with hosts, each linked to every spine router; flows spread over the spines.

    `oversubscription` is the rate of a leaf's hosts divided by that of its links to the spines.
    """
    leaves = _count(given, "leaves", 2, "leafspine", most=MOST_LEAVES)
    spines = _count(given, "spines", 2, "leafspine", most=MOST_SPINES)
    hosts = _count(given, "hosts", 4, "leafspine", most=MOST_HOSTS // leaves)
    access = uplink = _limits(given, "leafspine", {})
    if "oversubscription" in given:
        ratio = value(given, "oversubscription", _ratio, 1.0, what="LAB leafspine")
        if access.rate_bps is None:
            raise UsageError("LAB leafspine: oversubscription=: needs rate=, that of a host's link")
        rate_bps = access.rate_bps * hosts / (spines * ratio)
        uplink = _limits({**given, "rate": f"{units.decimal(rate_bps)}bit"}, "leafspine", {})
    names = [f"h{i + 1}" for i in range(leaves * hosts)]
    leaf_names = [f"l{i + 1}" for i in range(leaves)]
    spine_names = [f"s{i + 1}" for i in range(spines)]
    links = (
        *(Link(leaf_names[i // hosts], name, access) for i, name in enumerate(names)),
        *(Link(spine, leaf, uplink) for leaf in leaf_names for spine in spine_names),
    )
    routers = (Node(name, "router") for name in (*leaf_names, *spine_names))
    return Topology("leafspine", (*_hosts(names), *routers), links)


def _ratio(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError("not a number above 0")
    return number


# The aggregation routers of a pod that forward, at most, each to its first core (`ecmp`: to all).
ROUTINGS: Mapping[str, int] = {"ecmp": LARGEST_FATTREE, "twocore": 2, "onecore": 1}


def fattree(given: Mapping[str, str]) -> Topology:
    """The k-ary fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008), with equal links.

    Its switches are routers here, so that flows spread over equal paths (`ecmp`) as in a data
    centre. `twocore` and `onecore` leave one path per aggregation router of a pod, or one in all:
    the other routers are idle. With `twocore` all flows to a host take the same core.
    """
    settings = _limits(given, "fattree", {})
    k = value(given, "k", _even, 4, what="LAB fattree")
    routing = value(given, "routing", _routing, "ecmp", what="LAB fattree")
    half, busy = k // 2, ROUTINGS[routing]
    cores = [
        Node(f"c{i + 1}", "router", idle=i // half >= busy or (routing != "ecmp" and i % half > 0))
        for i in range(half**2)
    ]
    aggregations = [Node(f"a{i + 1}", "router", idle=i % half >= busy) for i in range(k * half)]
    edges = [Node(f"e{i + 1}", "router") for i in range(k * half)]
    hosts = _hosts([f"h{i + 1}" for i in range(k * half**2)])
    pairs = [
        *((edges[i // half], host) for i, host in enumerate(hosts)),
        *(
            (aggregations[i // half * half + j], edge)
            for i, edge in enumerate(edges)
            for j in range(half)
        ),
        *(
            (cores[i % half * half + j], node)
            for i, node in enumerate(aggregations)
            for j in range(half)
        ),
    ]
    links = tuple(Link(a.name, b.name, settings) for a, b in pairs)
    nodes = (*hosts, *edges, *aggregations, *cores)
    return Topology("fattree", nodes, links, by_destination=routing != "ecmp")


def _even(text: str) -> int:
    number = whole_number(text, 4, LARGEST_FATTREE)
    if number % 2:
        raise ValueError("not an even number")
    return number


def _routing(text: str) -> str:
    if text not in ROUTINGS:
        raise ValueError(f"not one of {', '.join(ROUTINGS)}{suggestion(text, ROUTINGS)}")
    return text


Shape: TypeAlias = Callable[[Mapping[str, str]], Topology]

# Each with its settings besides the limits of its links.
SHAPES: Mapping[str, tuple[Shape, Mapping[str, str]]] = {
    "pair": (pair, {}),
    "star": (star, {"hosts": "how many (4)"}),
    "dumbbell": (dumbbell, {"clients": "how many (2)", "servers": "how many (1)"}),
    "parallel": (
        parallel,
        {
            "clients": "how many (1)",
            "queues": f"their kinds ({','.join(DEFAULT_QUEUES)}); on the command line joined by +",
        },
    ),
    "chain": (chain, {"routers": "how many (2)"}),
    "corrupting": (
        corrupting,
        {"dir": "of loss and protect: to (s1 to s2), from or both (to)"},
    ),
    "tree": (
        tree,
        {"depth": "rows of switches (2)"}
        | {
            f"rate{level + 1}": f"of level {level + 1}, if not rate"
            for level in range(DEEPEST_TREE)
        },
    ),
    "leafspine": (
        leafspine,
        {
            "leaves": "how many (2)",
            "spines": "how many (2)",
            "hosts": "of each leaf (4)",
            "oversubscription": "rate of a leaf's hosts, divided by that of its links to spines",
        },
    ),
    "fattree": (
        fattree,
        {"k": "ports of a router, even (4)", "routing": "ecmp, twocore or onecore (ecmp)"},
    ),
}


def _limits(given: Mapping[str, str], name: str, defaults: Mapping[str, str]) -> LinkSettings:
    limits = {key: text for key, text in {**defaults, **given}.items() if key in LINK_SETTINGS}
    return link_settings(limits, what=f"LAB {name}")


def _count(
    given: Mapping[str, str],
    key: str,
    default: int,
    name: str,
    *,
    least: int = 1,
    most: int = MOST_HOSTS,
) -> int:
    return value(
        given, key, lambda text: whole_number(text, least, most), default, what=f"LAB {name}"
    )


def _hosts(names: list[str]) -> tuple[Node, ...]:
    return tuple(Node(name, "host", agent=True) for name in names)
