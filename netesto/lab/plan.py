"""The plan of a lab as data: namespaces, interfaces, addresses, routes, sysctls, qdiscs.

A link without limits is a veth pair. One with limits is two pairs, which meet in the namespace of
the links; there are its shaper, its delay and its queue, one for each direction:

    host a ── b-a │ a-b ── host b       a-b has the qdiscs of what a sends, b-a of what b sends

A link that netesto's program carries has no qdiscs. At each side of its middle is a TAP device, and
between them is the program, which reads frames from one and writes them to the other:

    host a ── b-a │ tap0 ═ netesto-link ═ tap1 │ a-b ── host b

So the interfaces of a host are its own, as on a real machine: qdiscs that its agent sets are before
the link, and those that it deletes are not the link's. A host segments what it sends behind its own
qdisc, so that a link carries packets of its MTU; all interfaces of the link have this MTU, from
which qdiscs derive how large a packet is. The two in the middle record the settings of their
direction (as the alias, which `ip link` shows), where an agent that changes them finds them.

Nothing here touches the machine or needs root; `netns` builds a plan.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import (
    IPv4Interface,
    IPv6Interface,
)
from typing import TypeAlias

from netesto import units
from netesto.errors import UsageError
from netesto.lab import addressing
from netesto.lab.addressing import LinkEnd
from netesto.lab.graph import LONGEST_NODE_NAME, Node, Topology
from netesto.lab.records import SOCKET_FOLDER
from netesto.lab.routes import NetworkRoute, Routes
from netesto.links import made
from netesto.links.made import LinkDirection, Maker
from netesto.links.settings import LinkSettings
from netesto.model import Address

# The node with the middles of the links that have limits.
LINKS = "links"

# The index of a lab's first interface; lo has 1, and the kernel counts those made later.
FIRST_INDEX = 10

# Duplicate address detection would keep an address unusable for a second; there are no
# duplicates here. rp_filter drops what comes back by another of several equal paths. Reports of
# multicast groups would come up to 2 s later, at random, and be lost or queued in an experiment.
IP_SYSCTLS: Mapping[str, str] = {
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv6.conf.all.disable_ipv6": "0",
    "net.ipv6.conf.default.disable_ipv6": "0",
    "net.ipv6.conf.all.accept_dad": "0",
    "net.ipv6.conf.default.accept_dad": "0",
    "net.ipv6.conf.default.accept_ra": "0",
    "net.ipv6.conf.default.router_solicitations": "0",
    "net.ipv6.conf.all.mldv2_unsolicited_report_interval": "0",
    "net.ipv6.conf.default.mldv2_unsolicited_report_interval": "0",
}

ROUTER_SYSCTLS: Mapping[str, str] = {
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv6.conf.default.forwarding": "1",
}

# All nodes of a lab have the same hash function. If they also mapped hashes to paths alike, ECMP
# would be polarised: all of 400 flows took the same path at the next router. So each uses the hash
# modulo a different prime number, which makes choices independent. With this many buckets the
# shares of equal paths differ by less than half a percent.
SMALLEST_BUCKETS = 251

# A flow keeps to one of several equal paths, chosen by protocol, addresses and ports (the bits of
# 55). Policy 1 would do the same, but between namespaces a packet keeps the hash of its socket,
# which is random and changes after a timeout.
MULTIPATH_SYSCTLS: Mapping[str, str] = {
    "net.ipv4.fib_multipath_hash_policy": "3",
    "net.ipv4.fib_multipath_hash_fields": "55",
    "net.ipv6.fib_multipath_hash_policy": "3",
    "net.ipv6.fib_multipath_hash_fields": "55",
}

# Switches and links have no addresses; without this they would take part in neighbour discovery.
SWITCH_SYSCTLS: Mapping[str, str] = {
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
}


NOTHING = LinkDirection((), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One end of a cable. A switch's ends have no addresses.

    In the middle of a link, `settings` are those of what leaves by it, through `direction`;
    everything that enters by it leaves by another, `onto`. A TAP device has a `note` (its alias):
    the interface that leads to the other end of the link, and the socket of the program.
    `segments`: what it sends are packets of its MTU."""

    name: str
    settings: LinkSettings
    addresses: tuple[IPv4Interface | IPv6Interface, ...] = ()
    segments: bool = False
    onto: str = ""
    direction: LinkDirection = NOTHING
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """One node: its name on this machine, and everything inside it.

    `device` is the interface it tests through, "" for a switch. A node with several equal paths
    divides the flows into `buckets` parts; others have 0. `taps` are those of links that a program
    carries.
    """

    name: str
    node: Node
    device: str
    interfaces: tuple[Interface, ...]
    routes: tuple[NetworkRoute, ...]
    sysctls: Mapping[str, str]
    buckets: int = 0
    taps: tuple[Interface, ...] = ()

    @property
    def addresses(self) -> dict[int, Address]:
        """The addresses that traffic uses, by family."""
        ends = (end for end in self.interfaces if end.name == self.device)
        return {address.version: address.ip for end in ends for address in end.addresses}


@dataclass(frozen=True, slots=True)
class Cable:
    """A veth pair: the namespace and the interface of each end, and the first end's index.

    The second end has the next index, and no two ends of a lab have the same: if the peer in
    another namespace has the same index, the kernel treats an interface as one without a peer,
    which may carry packets only after a second.
    """

    namespace_a: str
    interface_a: str
    namespace_b: str
    interface_b: str
    mtu: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLink:
    """A link that the program carries: its ends, the TAP devices that lead to them, and its
    settings, of what `a` sends and of what `b` sends."""

    a: str
    b: str
    taps: tuple[str, str]
    forward: LinkSettings
    reverse: LinkSettings


@dataclass(frozen=True, slots=True)
class LabPlan:
    """Everything that `netns` makes for one lab, with names that begin with `prefix`.

    The last namespace is that of the links with limits, if there are any; `maker` says what they
    are made of.
    """

    prefix: str
    topology: Topology
    maker: Maker
    routes: Routes = field(compare=False, repr=False)
    namespaces: tuple[Namespace, ...]
    cables: tuple[Cable, ...]
    program_links: tuple[ProgramLink, ...] = ()

    def namespace(self, node: str) -> Namespace:
        """The namespace of a node; KeyError if it does not exist."""
        for namespace in self.namespaces:
            if namespace.node.name == node:
                return namespace
        raise KeyError(node)

    @property
    def between(self) -> dict[str, str]:
        """The namespaces on the paths of flows between hosts, by node: those of the routers, and
        that of the links with limits."""
        return {
            namespace.node.name: namespace.name
            for namespace in self.namespaces
            if namespace.node.kind in {"router", "wires"}
        }

    def path(self, source: str, destination: str) -> tuple[LinkEnd, ...]:
        """The path of packets between two hosts, as the ends by which they leave nodes: of several
        equal ones the first. Empty if there is none."""
        return next(self.routes.ways(source, destination), ())

    def queues(self, source: str, destination: str) -> tuple[str, ...]:
        """The interfaces, as `node/device`, by which packets from one host to the other leave a
        host, a router or the middle of a link, and `node→node` where a program carries them; of
        several equal paths, those of all."""
        left = {end.index for way in self.routes.ways(source, destination) for end in way}
        found = []
        for end, middle in self.directions:
            if end.index not in left:
                continue
            if end.node.kind != "switch":
                found.append(f"{end.node.name}/{end.name}")
            if end.link.settings.is_carried:
                # By this name its program tells its state.
                found.append(f"{end.node.name}→{end.link.other(end.node.name)}")
            elif middle:
                found.append(middle)
        return tuple(found)

    @property
    def directions(self) -> Iterator[tuple[LinkEnd, str]]:
        """Each direction of each link: the end by which packets enter it, and the interface by
        which they leave its middle, as `node/device`; "" for a link without limits."""
        middles = iter(self.middles)
        wires = self.namespaces[-1].node.name
        # Interfaces are in the order of the topology's links; the middle of a link has two.
        for a, b in zip(self.routes.ends[::2], self.routes.ends[1::2], strict=True):
            to_a, to_b = ("", "") if a.link.is_plain else (next(middles).name, next(middles).name)
            yield a, to_b and f"{wires}/{to_b}"
            yield b, to_a and f"{wires}/{to_a}"

    @property
    def middles(self) -> tuple[Interface, ...]:
        """The interfaces in the middle of links."""
        return self.namespaces[-1].interfaces if self.links else ()

    @property
    def links(self) -> str:
        """The name of the namespace of the links with limits, "" if there are none."""
        last = self.namespaces[-1]
        return last.name if last.node.kind == "wires" else ""


def plan(topology: Topology, *, prefix: str, maker: Maker = Maker()) -> LabPlan:  # noqa: B008 - frozen
    """The plan of a lab. The same arguments always give the same plan.

    `maker` says what links are made of. UsageError if the topology has too many nodes for its
    addresses, or two links between the same nodes that the program carries.
    """
    ways = Routes(topology)
    ends = ways.ends
    routes = {node.name: () if node.kind == "switch" else ways.of(node) for node in topology.nodes}
    choosing = [name for name, own in routes.items() if any(len(r.gateways) > 1 for r in own)]
    buckets = dict(zip(choosing, _primes(), strict=False))
    # A link, or a router's own qdisc, acts on packets. Without both, nothing in the lab can tell
    # super-packets from packets.
    segments = any(not link.is_plain for link in topology.links) or any(
        node.kind == "router" for node in topology.nodes
    )
    namespaces = tuple(
        Namespace(
            name=f"{prefix}-{node.name}",
            node=node,
            device="" if node.kind == "switch" else ways.tested(node).name,
            interfaces=tuple(
                Interface(
                    name=end.name,
                    settings=end.link.sent_by(node.name),
                    addresses=end.addresses,
                    segments=segments and node.kind != "switch",
                )
                for end in ends
                if end.node is node
            ),
            routes=routes[node.name],
            sysctls=_sysctls(node, chooses=node.name in buckets),
            buckets=buckets.get(node.name, 0),
        )
        for node in topology.nodes
    )
    middles = _middles(ends, maker)
    links = Node(addressing.free_name(LINKS, {node.name for node in topology.nodes}), "wires")
    cables = tuple(_cables(prefix, ends, middles, links))
    carried = tuple(_program_links(ends, middles))
    if any(middles):
        namespaces = (*namespaces, _wires(prefix, middles, links, carried))
    return LabPlan(prefix, topology, maker, ways, namespaces, cables, carried)


# The middle of a link with limits: the end that leads to its `a`, and that to its `b`.
_Middle: TypeAlias = tuple[Interface, Interface]


def _middles(ends: Sequence[LinkEnd], maker: Maker) -> list[_Middle | None]:
    """The middle of each link, None for a link without limits.

    The end by which packets of `a` leave for `b` is called `a-b`, shortened if that is too long.
    """
    taken: set[str] = set()
    middles: list[_Middle | None] = []
    for end in ends[::2]:
        link = end.link
        if link.is_plain:
            middles.append(None)
            continue
        sent, back = (link.sent_by(node) for node in (link.a, link.b))
        forth_made, back_made = (made.direction(each, maker) for each in (sent, back))
        to_a = addressing.free_name(_between(link.b, link.a), taken)
        to_b = addressing.free_name(_between(link.a, link.b), {*taken, to_a})
        taken |= {to_a, to_b}
        onto_a, onto_b = to_a, to_b
        if sent.is_carried:
            # What enters by the end that leads to `a` goes to the TAP device at this side.
            onto_b = addressing.free_name("tap0", taken)
            onto_a = addressing.free_name("tap1", {*taken, onto_b})
            taken |= {onto_a, onto_b}
        here = Interface(name=to_a, settings=back, onto=onto_b, direction=back_made)
        there = Interface(name=to_b, settings=sent, onto=onto_a, direction=forth_made)
        middles.append((here, there))
    return middles


def socket_name(tap: str) -> str:
    """That of the program between this TAP device, at the side of the link's `a`, and another."""
    return f".{tap}"


def _program_links(
    ends: Sequence[LinkEnd], middles: Sequence[_Middle | None]
) -> Iterator[ProgramLink]:
    joined: set[frozenset[str]] = set()
    for end, middle in zip(ends[::2], middles, strict=True):
        if middle is not None and middle[1].settings.is_carried:
            here, there = middle
            nodes = frozenset((end.link.a, end.link.b))
            if nodes in joined:
                # Files, SHOW_LINK and LAB name such a link by its nodes.
                raise UsageError(
                    f"two links between {end.link.a} and {end.link.b}: the program carries one",
                    remedy="Put a router into the second, or let the kernel carry it.",
                )
            joined.add(nodes)
            yield ProgramLink(
                a=end.link.a,
                b=end.link.b,
                taps=(here.onto, there.onto),
                forward=there.settings,
                reverse=here.settings,
            )


def _between(source: str, destination: str) -> str:
    name = f"{source}-{destination}"
    if len(name) <= LONGEST_NODE_NAME:
        return name
    # Long names differ mostly at their ends; tc interprets a leading - as an option.
    half = LONGEST_NODE_NAME // 2
    return f"{source[-half:].lstrip('-')}-{destination[-half:]}"


def _wires(
    prefix: str, middles: Iterable[_Middle | None], links: Node, carried: Sequence[ProgramLink]
) -> Namespace:
    made = [middle for middle in middles if middle is not None]
    names = {each.taps for each in carried}
    return Namespace(
        name=f"{prefix}-{links.name}",
        node=links,
        device="",
        interfaces=tuple(end for middle in made for end in middle),
        taps=tuple(
            Interface(
                name=end.onto,
                settings=end.settings,
                onto=end.name,
                note=f"{other.name} {SOCKET_FOLDER / prefix / socket_name(here.onto)}",
            )
            for here, there in made
            if (here.onto, there.onto) in names
            for end, other in ((here, there), (there, here))
        ),
        routes=(),
        sysctls=SWITCH_SYSCTLS,
    )


def _cables(
    prefix: str, ends: Sequence[LinkEnd], middles: Sequence[_Middle | None], links: Node
) -> Iterator[Cable]:
    indices = itertools.count(FIRST_INDEX, 2)
    for a, b, middle in zip(ends[::2], ends[1::2], middles, strict=True):
        here = (f"{prefix}-{a.node.name}", a.name)
        there = (f"{prefix}-{b.node.name}", b.name)
        mtu = a.link.settings.mtu
        if middle is None:
            yield Cable(*here, *there, mtu, next(indices))
            continue
        to_a, to_b = ((f"{prefix}-{links.name}", end.name) for end in middle)
        yield Cable(*here, *to_a, mtu, next(indices))
        yield Cable(*to_b, *there, mtu, next(indices))


def _sysctls(node: Node, *, chooses: bool) -> dict[str, str]:
    """The node's sysctls; it `chooses` if it has several equal paths."""
    if node.kind == "switch":
        return dict(SWITCH_SYSCTLS)
    return {
        **IP_SYSCTLS,
        **(ROUTER_SYSCTLS if node.forwards else {}),
        **(MULTIPATH_SYSCTLS if chooses else {}),
    }


def _primes() -> Iterator[int]:
    """The prime numbers from SMALLEST_BUCKETS on."""
    for number in itertools.count(SMALLEST_BUCKETS, 2):
        if all(number % divisor for divisor in range(3, math.isqrt(number) + 1, 2)):
            yield number


def notes(plan: LabPlan) -> list[str]:
    """Notes for users on the results of this lab."""
    found = []
    for link in plan.topology.links:
        if not link.is_plain and link.settings.offload == "on":
            found.append(
                f"link {link.a} - {link.b}: offload=on: it carries super-packets of up to 64 kB, "
                "and a queue overflows by a whole one"
            )
        sent = (link.sent_by(node) for node in (link.a, link.b))
        if burst := max(made.error_bytes(each, plan.maker) for each in sent):
            found.append(
                f"link {link.a} - {link.b}: when it was idle, the first "
                f"{units.format_bytes(burst)} pass at once instead of at its rate (a token bucket);"
                " ground sim has exact links"
            )
    return list(dict.fromkeys(found))
