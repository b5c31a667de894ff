"""Attributes of interfaces: what ip(8) and ethtool(8) show of them, and the steps that set them.

MTU and sizes of super-packets are those of `ip link`, offloads those of `ethtool -k`.
"""

from collections.abc import Mapping

from netesto.agent import asking
from netesto.agent.steps import Run
from netesto.collectors import hostfacts
from netesto.errors import MissingError
from netesto.limits import allowed

# Their names in the output of ethtool. In its arguments only the last is not called as here.
_OFFLOADS: Mapping[str, str] = {**hostfacts.OFFLOADS, "gro_hw": "rx-gro-hw"}

# A driver supports only one of these at a time.
_EXCLUDE = {"lro": "gro_hw", "gro_hw": "lro"}

# The kernel sets the second with the first, if the value fits into an IPv4 packet.
_FOLLOWS = {"gso_max_size": "gso_ipv4_max_size", "gro_max_size": "gro_ipv4_max_size"}


async def show(device: str) -> dict[str, str]:
    """The attributes of an interface, by the names that scripts use; ip(8) before iproute2 6.3 does
    not show all sizes. AgentError if there is no such interface."""
    link = await asking.output("ip", "-d", "-j", "link", "show", "dev", device)
    return parse(link, await asking.output("ethtool", "-k", device, check=False))


def parse(link: str, offloads: str) -> dict[str, str]:
    """The attributes in the output of `ip -d -j link show` and of `ethtool -k`. An offload that
    cannot be changed is `on [fixed]` or `off [fixed]`."""
    known = asking.first(link)
    found = {name: str(known[name]) for name in allowed.LINK_ATTRIBUTES if name in known}
    lines = (line.strip().partition(": ") for line in offloads.splitlines())
    states = {name: state for name, _, state in lines}
    return found | {name: states[long] for name, long in _OFFLOADS.items() if long in states}


def steps(device: str, attribute: str, values: Mapping[str, str]) -> tuple[Run, ...]:
    """The steps that give an attribute its value in `values`, and those that the kernel changes
    with it theirs."""
    if attribute in _OFFLOADS:
        names = [attribute]
        other = _EXCLUDE.get(attribute, "")
        if other in values and "fixed" not in values[other]:
            # The offload that is switched on comes last.
            names = sorted([attribute, other], key=lambda name: values[name] == "on")
        words = [
            word for name in names for word in (name.replace("gro_hw", "rx-gro-hw"), values[name])
        ]
        return (Run(("ethtool", "-K", device, *words)),)
    names = [attribute, *([_FOLLOWS[attribute]] if _FOLLOWS.get(attribute) in values else [])]
    words = [word for name in names for word in (name, values[name])]
    return (Run(("ip", "link", "set", "dev", device, *words)),)


def check_there(device: str, attribute: str, value: str, before: Mapping[str, str]) -> None:
    """MissingError if the interface, or the installed ip(8), cannot set an attribute so."""
    if attribute not in before:
        remedy = "ip(8) of iproute2 6.3 and later knows it" if attribute.endswith("size") else ""
        raise MissingError(f"interface {device}: no {attribute} here", remedy=remedy)
    state, _, fixed = before[attribute].partition(" ")
    if fixed and state != value:
        raise MissingError(f"interface {device}: its driver cannot switch {attribute} {value}")
