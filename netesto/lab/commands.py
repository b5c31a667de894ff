"""A plan as text for ip(8), tc(8), sysctl(8) and ethtool(8)."""

from netesto.lab import queueing
from netesto.lab.links import DEFAULT_MTU
from netesto.lab.plan import Namespace, Plan
from netesto.model import Address

BRIDGE = "bridge"


def cable_lines(plan: Plan) -> list[str]:
    """Lines for `ip -batch` that make every veth pair, each end where it belongs."""
    return [
        f"link add name {cable.interface_a} index {cable.index} mtu {cable.mtu} "
        f"netns {cable.namespace_a} type veth "
        f"peer name {cable.interface_b} index {cable.index + 1} mtu {cable.mtu} "
        f"netns {cable.namespace_b}"
        for cable in plan.cables
    ]


def ip_lines(namespace: Namespace) -> list[str]:
    """Lines for `ip -netns NAME -batch`: bridge, addresses, everything up, routes of one way."""
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
        lines.append(f"link set dev {end.name} up")
    lines += [
        f"route add {route.network} via {route.gateways[0]}"
        for route in namespace.routes
        if len(route.gateways) == 1
    ]
    return lines


def choice_lines(namespace: Namespace) -> list[str]:
    """Lines for `ip -netns NAME -batch`: the routes of several ways.

    They are for when all interfaces carry packets; before, the kernel takes no such way.
    """
    routes = [route for route in namespace.routes if len(route.gateways) > 1]
    groups = list(dict.fromkeys(route.gateways for route in routes))
    ways = list(dict.fromkeys(gateway for group in groups for gateway in group))
    way_id = {gateway: place + 1 for place, gateway in enumerate(ways)}
    group_id = {group: len(ways) + place + 1 for place, group in enumerate(groups)}
    return [
        *(
            f"nexthop add id {way_id[gateway]} via {gateway} dev {_towards(namespace, gateway)}"
            for gateway in ways
        ),
        *(
            f"nexthop add id {group_id[group]} "
            f"group {'/'.join(str(way_id[gateway]) for gateway in group)} "
            f"type resilient buckets {namespace.buckets}"
            for group in groups
        ),
        *(f"route add {route.network} nhid {group_id[route.gateways]}" for route in routes),
    ]


def _towards(namespace: Namespace, gateway: Address) -> str:
    """The interface that is in the gateway's network."""
    ends = (
        end.name
        for end in namespace.interfaces
        if any(gateway in address.network for address in end.addresses)
    )
    return next(ends)


def tc_lines(namespace: Namespace) -> list[str]:
    """Lines for `tc -netns NAME -batch`: qdiscs, and what comes in by one end out by another."""
    lines = []
    for end in namespace.interfaces:
        lines += [f"qdisc add dev {end.name} {' '.join(words)}" for words in end.qdiscs]
        if end.onto:
            everything = "protocol all u32 match u32 0 0"
            onward = f"action mirred egress redirect dev {end.onto}"
            lines += [
                f"qdisc add dev {end.name} {queueing.ENTRANCE}",
                f"filter add dev {end.name} {queueing.ENTRANCE} {everything} {onward}",
            ]
    return lines


def sysctl_words(namespace: Namespace) -> list[str]:
    """Arguments for `sysctl -w`."""
    return [f"{name}={value}" for name, value in namespace.sysctls.items()]


def render(plan: Plan) -> str:
    """The whole plan as the commands that a person would type."""
    lines = [f"ip netns add {namespace.name}" for namespace in plan.namespaces]
    for namespace in plan.namespaces:
        words = " ".join(sysctl_words(namespace))
        lines.append(f"ip netns exec {namespace.name} sysctl -w {words}")
    lines += [f"ip {line}" for line in cable_lines(plan)]
    for namespace in plan.namespaces:
        lines += [f"ip -n {namespace.name} {line}" for line in ip_lines(namespace)]
        lines += [f"tc -n {namespace.name} {line}" for line in tc_lines(namespace)]
        lines += [
            f"ip netns exec {namespace.name} ethtool -K {device} {' '.join(OFFLOADS_OFF)}"
            for device in without_offload(namespace)
        ]
    for namespace in plan.namespaces:
        lines += [f"ip -n {namespace.name} {line}" for line in choice_lines(namespace)]
    return "\n".join(lines) + "\n"


# Segmentation by the sender, and merging by the receiver, of what is sent and received in one go.
OFFLOADS_OFF = ("tso", "off", "gso", "off", "gro", "off")


def without_offload(namespace: Namespace) -> list[str]:
    """The interfaces of the namespace that `offload=off` is asked for."""
    return [end.name for end in namespace.interfaces if not end.settings.offload]
