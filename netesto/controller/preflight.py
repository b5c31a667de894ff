"""What a script needs against what its hosts have, before any traffic. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence

from netesto.controller import requests
from netesto.controller.inventory import Inventory
from netesto.errors import MissingError, Place, ScriptError, WorldError
from netesto.language import ports
from netesto.model import HostInfo


def host_names(commands: Sequence[ports.RemoteCommand]) -> list[str]:
    """The names of the hosts that the commands use, in the order of their first use."""
    names: dict[str, None] = {}
    for command in commands:
        names[command.host] = None
        if isinstance(command, ports.DoClient | ports.DoTcpdump) and command.server != "X":
            names[command.server] = None
    return list(names)


def suffixes(commands: Sequence[ports.RemoteCommand]) -> tuple[str, ...]:
    """What HOST_SUFFIX has put behind names of hosts."""
    return tuple(dict.fromkeys(command.suffix for command in commands if command.suffix))


def check_hosts(commands: Sequence[ports.RemoteCommand], inventory: Inventory) -> None:
    """ScriptError, with the place, if a command names a host that is not in the inventory, or asks
    for what no host could do."""
    for command in commands:
        requests.check_possible(command)
        for name in host_names([command]):
            try:
                inventory.find(name)
            except WorldError as error:
                raise ScriptError(
                    error.message,
                    place=command.place_of_host(name),
                    remedy=error.remedy,
                    chain=command.chain,
                ) from None


def check(
    commands: Sequence[ports.RemoteCommand],
    inventory: Inventory,
    infos: Mapping[str, HostInfo],
    *,
    family: int,
) -> None:
    """MissingError that lists everything the hosts lack, each with the first line that needs it."""
    endpoints = {name: inventory.find(name) for name in host_names(commands)}
    first: dict[str, Place] = {}
    for command in commands:
        for lack in requests.missing(command, infos, endpoints, family=family):
            first.setdefault(lack, command.place)
    if not first:
        return
    raise MissingError("\n".join(_lines(first)))


def _lines(lacks: Mapping[str, Place]) -> list[str]:
    """What is missing, each with the place that needs it."""
    return [f"{lack} (needed at {place})" for lack, place in lacks.items()]


def require(requirements: Sequence[ports.Requirement], infos: Mapping[str, HostInfo]) -> None:
    """REQUIRE: MissingError names each host and what it is missing."""
    first: dict[str, Place] = {}
    for requirement in requirements:
        for lack in _lacks(requirement, infos):
            first.setdefault(lack, requirement.place)
    if first:
        raise MissingError("\n".join(_lines(first)))


_OPERATORS: Mapping[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    "<": lambda order: order < 0,
}


def _lacks(requirement: ports.Requirement, infos: Mapping[str, HostInfo]) -> list[str]:
    what, wanted = requirement.what, requirement.value
    holds = _OPERATORS[requirement.operator]
    asked = f"{what}{requirement.operator}{wanted}"
    match what:
        case "hosts":
            there = len(infos)
            order = compare_versions(str(there), wanted)
            met = order >= 0 if requirement.operator == "=" else holds(order)
            return [] if met else [f"REQUIRE {asked}: there are {there} hosts"]
        case "kernel":
            return [
                f"REQUIRE {asked}: {name} runs {info.kernel}"
                for name, info in infos.items()
                if not holds(compare_versions(info.kernel, wanted))
            ]
        case "ca" | "qdisc" | "tool":
            return [
                f"REQUIRE {asked}: {name} has {' '.join(_having(info, what)) or 'none'}"
                for name, info in infos.items()
                for word in wanted.split(",")
                if word not in _having(info, what)
            ]
    raise ScriptError(
        f"REQUIRE knows nothing of {what!r}",
        place=requirement.place,
        remedy="It knows ca, qdisc, tool, kernel and hosts",
    )


def _having(info: HostInfo, what: str) -> tuple[str, ...]:
    if what == "ca":
        return info.congestion_controls
    return info.qdiscs if what == "qdisc" else tuple(info.tools)


def compare_versions(left: str, right: str) -> int:
    """-1, 0 or 1 by the leading numbers of two versions: "6.18.44-x" is above "6.1"."""
    first, second = (
        [int(number) for number in re.findall(r"\d+", text.split("-", 1)[0])]
        for text in (left, right)
    )
    length = len(second)
    first = (first + [0] * length)[: max(length, 1)]
    return (first > second) - (first < second)
