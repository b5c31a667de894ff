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
    requirements: Sequence[ports.Requirement] = (),
    *,
    family: int,
) -> None:
    """MissingError that lists everything the hosts lack, each with the first line that needs it.

    `infos` are all hosts that there are: what REQUIRE asks for, all of them must have.
    """
    endpoints = {name: inventory.find(name) for name in host_names(commands)}
    first: dict[str, Place] = {}
    for requirement in requirements:
        for lack in lacks(requirement, infos):
            first.setdefault(lack, requirement.place)
    for command in commands:
        for lack in requests.missing(command, infos, endpoints, family=family):
            first.setdefault(lack, command.place)
    if not first:
        return
    lines = [f"{lack} (needed at {place})" for lack, place in first.items()]
    raise MissingError("\n".join(lines))


_OPERATORS: Mapping[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    "<": lambda order: order < 0,
}


def lacks(requirement: ports.Requirement, infos: Mapping[str, HostInfo]) -> list[str]:
    """What REQUIRE asks for and hosts lack, in words, each with its host; empty if nothing.

    Of what a host has several, `=` asks for each of the words, and `!=` that there is none of them.
    """
    what, wanted = requirement.what, requirement.value
    holds = _OPERATORS[requirement.operator]
    asked = f"{what}{requirement.operator}{wanted}"
    match what:
        case "hosts":
            lack = lacks_hosts(requirement, len(infos))
            return [lack] if lack else []
        case "kernel":
            return [
                f"REQUIRE {asked}: {name} runs {info.kernel}"
                for name, info in infos.items()
                if not holds(compare_versions(info.kernel, wanted))
            ]
        case _:
            return [
                f"REQUIRE {asked}: {name} {told}"
                for name, info in infos.items()
                if (told := _set_lacks(what, requirement.operator, wanted.split(","), info))
            ]


def lacks_hosts(requirement: ports.Requirement, there: int) -> str:
    """What `REQUIRE hosts` lacks where `there` are so many, in words; "" if nothing. `=` asks for
    at least as many."""
    order = compare_versions(str(there), requirement.value)
    met = order >= 0 if requirement.operator == "=" else _OPERATORS[requirement.operator](order)
    told = "there is 1 host" if there == 1 else f"there are {there} hosts"
    return "" if met else f"REQUIRE hosts{requirement.operator}{requirement.value}: {told}"


def check_count(requirements: Sequence[ports.Requirement], there: int) -> None:
    """MissingError if a REQUIRE asks for another number of hosts than there will be, as far as
    that is known before any of them is asked."""
    lines = [
        f"{lack} (needed at {requirement.place})"
        for requirement in requirements
        if requirement.what == "hosts" and (lack := lacks_hosts(requirement, there))
    ]
    if lines:
        raise MissingError("\n".join(lines))


def _set_lacks(what: str, operator: str, words: Sequence[str], info: HostInfo) -> str:
    """What is wrong with the several that a host has, "" if nothing."""
    has = _having(info, what)
    if what == "qdisc" and not has:
        return "could not find out which qdiscs its kernel has"
    if operator == "!=":
        found = [word for word in words if word in has]
        return f"has {' '.join(found)}" if found else ""
    missing = [word for word in words if word not in has]
    return f"lacks {' '.join(missing)}; it has {' '.join(has) or 'none'}" if missing else ""


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
