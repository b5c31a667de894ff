"""The paths of flows through a lab, as reported by its kernel.

IPv4 only: for IPv6, kernels (6.1 and 6.18) report the path for a different hash than that of the
packets, so half of the reports are wrong if there are two equal paths.
"""

import ipaddress
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from netesto.errors import LabError, ProcessError
from netesto.lab.plan import LabPlan
from netesto.lab.records import Record
from netesto.links import routed
from netesto.links.routed import Protocol, RoutedFlow
from netesto.model import Address
from netesto.system import process
from netesto.text.names import by_number

# Milliseconds for hundreds of flows; the timeout is for a kernel that hangs.
COMMAND_TIMEOUT_S = 30.0

# With this many flows for each of n equal paths, one of them is unused with probability n·e⁻²⁴.
FLOWS_FOR_EACH_PATH = 24

# The first source port of such flows, and their destination port; any would do.
FIRST_PORT, SERVER_PORT = 32768, 5201


@dataclass(frozen=True, slots=True)
class NodeInterface:
    """An interface of a node."""

    node: str
    device: str


@dataclass(frozen=True, slots=True)
class Hop:
    """A step of a path: out by one interface, in by another."""

    leaves: NodeInterface
    arrives: NodeInterface


def trace(lab: Record, flows: Sequence[RoutedFlow]) -> list[tuple[Hop, ...]]:
    """The paths of flows in a lab, in their order; many cost little more than one.

    Each node reports where it sends the packets that arrive on each of its interfaces. LabError
    if a flow does not arrive.
    """
    ways: list[list[Hop]] = [[] for _ in flows]
    arrived = {index: _place(lab, flow.source) for index, flow in enumerate(flows)}
    # No path visits a node twice.
    for _ in lab.namespaces:
        arrived = {
            index: place
            for index, place in arrived.items()
            if place.node != _place(lab, flows[index].destination).node
        }
        if not arrived:
            return [tuple(way) for way in ways]
        together: dict[NodeInterface, list[int]] = {}
        for index, place in arrived.items():
            together.setdefault(place, []).append(index)
        for place, here in together.items():
            is_start = not ways[here[0]]
            asked = [flows[index] for index in here]
            hops = _hops(lab, place, asked, is_start=is_start)
            for index, hop in zip(here, hops, strict=True):
                ways[index].append(hop)
                arrived[index] = hop.arrives
    stuck = flows[next(iter(arrived))]
    raise LabError(f"no path from {stuck.source} to {stuck.destination}: a routing loop")


def _place(lab: Record, address: Address) -> NodeInterface:
    if str(address) not in lab.places:
        raise LabError(f"{address}: not an address of this lab")
    return NodeInterface(*lab.places[str(address)])


def _hops(
    lab: Record, place: NodeInterface, flows: Sequence[RoutedFlow], *, is_start: bool
) -> list[Hop]:
    """The next step of each flow from the node where it has arrived by an interface."""
    comes_in = "" if is_start else f" iif {place.device}"
    lines = [
        f"route get {flow.destination} from {flow.source}{comes_in} ipproto {flow.protocol} "
        f"sport {flow.source_port} dport {flow.destination_port}\n"
        for flow in flows
    ]
    argv = ["-oneline", "-netns", lab.nodes[place.node], "-batch", "-"]
    answers = _ip(argv, stdin="".join(lines)).splitlines()
    return [
        _hop(lab, place.node, flow, answer.split())
        for flow, answer in zip(flows, answers, strict=True)
    ]


def _hop(lab: Record, node: str, flow: RoutedFlow, answer: Sequence[str]) -> Hop:
    """From the words of `ip route get`: "10.0.16.1 from 10.0.1.1 via 10.0.17.254 dev a1 …"."""
    says = dict(itertools.pairwise(answer))
    following = ipaddress.ip_address(says["via"]) if "via" in says else flow.destination
    return Hop(NodeInterface(node, says["dev"]), _place(lab, following))


def _ip(words: Sequence[str], *, stdin: str | None = None) -> str:
    try:
        return process.run(["ip", *words], timeout=COMMAND_TIMEOUT_S, stdin=stdin).stdout
    except ProcessError as error:
        raise LabError(f"cannot read the lab's paths: {error}") from error


def describe(way: Sequence[Hop]) -> str:
    """A path in words: "client1 ─ left ─ router ─ right ─ server1".

    An interface has the name of its neighbour, which may be a switch; of more than two switches in
    a row the first and the last are named.
    """
    words = [way[0].leaves.node]
    for hop in way:
        switches = [_neighbour(hop.leaves), _neighbour(hop.arrives)]
        if switches != [hop.arrives.node, hop.leaves.node]:
            words.append(" … ".join(dict.fromkeys(switches)))
        words.append(hop.arrives.node)
    return " ─ ".join(words)


def _neighbour(place: NodeInterface) -> str:
    # A second cable to the same neighbour has a number: `right.2`.
    return place.device.partition(".")[0]


# ---- ECMP --------------------------------------------------------------------------------------


def check(plan: LabPlan, lab: Record) -> None:
    """LabError if flows do not use all equal paths from the first host to the one with most of
    them, in a lab built by this plan."""
    if not any(namespace.buckets for namespace in plan.namespaces):
        return
    first, *others = plan.topology.hosts
    counts = {other: sum(1 for _ in plan.routes.ways(first, other)) for other in others}
    farthest = max(counts, key=lambda name: counts[name])
    expected = counts[farthest]
    source, destination = (plan.namespace(host).addresses[4] for host in (first, farthest))
    flows = sample(source, destination, FLOWS_FOR_EACH_PATH * expected)
    used = len(set(trace(lab, flows)))
    if used != expected:
        raise LabError(
            f"{len(flows)} flows from {first} to {farthest} take {used} of {expected} equal paths",
            remedy="ECMP hashing is polarised. A fattree can use routing=twocore.",
        )


def sample(source: Address, destination: Address, count: int) -> list[RoutedFlow]:
    """Flows that differ in their source port."""
    return [
        RoutedFlow(
            source=source,
            destination=destination,
            source_port=FIRST_PORT + number,
            destination_port=SERVER_PORT,
        )
        for number in range(count)
    ]


# ---- all pairs ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkShare:
    """The flows of one direction of a link between two routers. A second link between the same two
    has a number behind `destination`: s2.2."""

    source: str
    destination: str
    flows: int


def all_pairs(
    lab: Record, flows_each: int, *, port: int = SERVER_PORT, protocol: Protocol = "tcp"
) -> tuple[LinkShare, ...]:
    """How flows of every host to every other are divided among the links between routers, also
    those that carry none. LabError if one does not arrive."""
    hosts = [
        ipaddress.ip_address(host.addresses[0])
        for name, host in lab.hosts.items()
        if name not in lab.routers
    ]
    flows = [
        replace(flow, destination_port=port, protocol=protocol)
        for source, destination in itertools.permutations(hosts, 2)
        for flow in sample(source, destination, flows_each)
    ]
    counts = Counter(hop.leaves for way in trace(lab, flows) for hop in way)
    return tuple(
        LinkShare(leaves.node, _numbered(arrives.node, leaves.device), counts[leaves])
        for leaves, arrives in sorted(
            _between_routers(lab),
            key=lambda hop: (by_number(hop[0].node), by_number(hop[0].device)),
        )
    )


def _between_routers(lab: Record) -> Iterator[tuple[NodeInterface, NodeInterface]]:
    """The ends of each direction of a link between routers; in a network of several routers, of
    each to each."""
    networks: dict[IPv4Network, list[NodeInterface]] = {}
    for address, place in lab.places.items():
        if place[0] in lab.routers:
            network = IPv4Network(f"{address}/24", strict=False)
            networks.setdefault(network, []).append(NodeInterface(*place))
    for places in networks.values():
        yield from itertools.permutations(places, 2)


def _numbered(node: str, device: str) -> str:
    _, dot, number = device.partition(".")
    return f"{node}{dot}{number}"


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly flows use the links of a pod to the cores, or of one router to others."""

    name: str
    shares: tuple[LinkShare, ...]

    @property
    def variation(self) -> float:
        """The coefficient of variation of the flows on the links: 0 if all have the same."""
        return routed.variation([share.flows for share in self.shares])


def balances(lab: Record, shares: Sequence[LinkShare]) -> tuple[Balance, ...]:
    """Of each pod of a fat tree, otherwise of each router with several links to others."""
    groups: dict[str, list[LinkShare]] = {}
    is_tree = lab.topology == "fattree"
    aggregations = [name for name in lab.nodes if name.startswith("a")]
    for share in shares:
        if not is_tree:
            groups.setdefault(share.source, []).append(share)
        elif share.source in aggregations and share.destination.startswith("c"):
            name = f"pod {routed.pod(share.source, aggregations)}"
            groups.setdefault(name, []).append(share)
    return tuple(Balance(name, tuple(own)) for name, own in groups.items() if len(own) > 1)
