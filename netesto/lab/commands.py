"""A plan as text for ip(8), tc(8) and ethtool(8)."""

from collections.abc import Mapping

from netesto.lab.plan import LabPlan, Namespace
from netesto.links import made
from netesto.links.settings import DEFAULT_MTU, written
from netesto.model import Address

BRIDGE = "bridge"

# What waits for the program that carries a link, which takes frames at once on an idle machine.
TAP_FRAMES = 10_000


def cable_lines(plan: LabPlan) -> list[str]:
    """Lines for `ip -batch` that make every veth pair, each end where it belongs."""
    return [
        f"link add name {cable.interface_a} index {cable.index} mtu {cable.mtu} "
        f"netns {cable.namespace_a} type veth "
        f"peer name {cable.interface_b} index {cable.index + 1} mtu {cable.mtu} "
        f"netns {cable.namespace_b}"
        for cable in plan.cables
    ]


def ip_lines(namespace: Namespace) -> list[str]:
    """Lines for `ip -netns NAME -batch`: bridge, addresses, links up, routes with one gateway."""
    lines = ["link set dev lo up"]
    if namespace.node.kind == "switch":
        mtu = max((end.settings.mtu for end in namespace.interfaces), default=DEFAULT_MTU)
        lines += [
            f"link add name {BRIDGE} mtu {mtu} type bridge stp_state 0 mcast_snooping 0",
            f"link set dev {BRIDGE} up",
        ]
    for end in namespace.interfaces:
        if namespace.node.kind == "switch":
            lines.append(f"link set dev {end.name} master {BRIDGE}")
        lines += [
            f"addr add {address} dev {end.name}{' nodad' if address.version == 6 else ''}"
            for address in end.addresses
        ]
        if end.onto:
            lines.append(f'link set dev {end.name} alias "{written(end.settings)}"')
        lines.append(f"link set dev {end.name} up")
    for tap in namespace.taps:
        lines += [
            f"tuntap add dev {tap.name} mode tap",
            f"link set dev {tap.name} mtu {tap.settings.mtu} txqueuelen {TAP_FRAMES}",
            f'link set dev {tap.name} alias "{tap.note}"',
            f"link set dev {tap.name} up",
        ]
    lines += [
        f"route add {route.network} via {route.gateways[0]}"
        for route in namespace.routes
        if len(route.gateways) == 1
    ]
    return lines


def choice_lines(namespace: Namespace) -> list[str]:
    """Lines for `ip -netns NAME -batch`: the routes with several gateways.

    They come when all interfaces carry packets; before that the kernel does not use such routes.
    """
    routes = [route for route in namespace.routes if len(route.gateways) > 1]
    groups = list(dict.fromkeys(route.gateways for route in routes))
    gateways = list(dict.fromkeys(gateway for group in groups for gateway in group))
    gateway_id = {gateway: place + 1 for place, gateway in enumerate(gateways)}
    group_id = {group: len(gateways) + place + 1 for place, group in enumerate(groups)}
    return [
        *(
            f"nexthop add id {gateway_id[gateway]} via {gateway} dev {_towards(namespace, gateway)}"
            for gateway in gateways
        ),
        *(
            f"nexthop add id {group_id[group]} "
            f"group {'/'.join(str(gateway_id[gateway]) for gateway in group)} "
            f"type resilient buckets {namespace.buckets}"
            for group in groups
        ),
        *(f"route add {route.network} nhid {group_id[route.gateways]}" for route in routes),
    ]


def _towards(namespace: Namespace, gateway: Address) -> str:
    """The interface in the gateway's network."""
    return next(
        end.name
        for end in namespace.interfaces
        if any(gateway in address.network for address in end.addresses)
    )


def tc_lines(namespace: Namespace) -> list[str]:
    """Lines for `tc -netns NAME -batch`: qdiscs, and the redirection from one end to another."""
    lines = [f"qdisc add dev {tap.name} root noqueue" for tap in namespace.taps]
    for end in (*namespace.interfaces, *namespace.taps):
        lines += [
            f"qdisc add dev {end.name} {' '.join((*place, *stage.words))}"
            for place, stage in zip(end.direction.places, end.direction.stages, strict=True)
        ]
        if end.onto:
            filters = [made.entering(end.name, end.onto)]
            if end.direction.police:
                filters.append(made.policing(end.name, end.direction.police))
            lines.append(f"qdisc add dev {end.name} {made.ENTRANCE}")
            lines += [f"filter add {' '.join(words)}" for words in filters]
    return lines


# By `offload`: what the interfaces where packets are made do not do. Without the first, packets are
# segmented behind the qdisc of the interface; without all of it, TCP makes single packets, and a
# receiver merges none.
_OFFLOADS: Mapping[str, tuple[str, ...]] = {
    "host": ("tso", "tx-udp-segmentation"),
    "off": ("tso", "tx-udp-segmentation", "gso", "gro"),
    "on": (),
}


def offload_words(namespace: Namespace) -> dict[str, list[str]]:
    """For each interface whose offloads change, the words of `ethtool -K`."""
    return {
        end.name: [word for name in _OFFLOADS[end.settings.offload] for word in (name, "off")]
        for end in namespace.interfaces
        if (end.segments or end.settings.offload == "off") and _OFFLOADS[end.settings.offload]
    }
