"""Compare what a script needs with what its hosts have, before any traffic. Pure."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from netesto import units
from netesto.controller import requests
from netesto.controller.inventory import Inventory
from netesto.errors import MissingError, ScriptError, WorldError
from netesto.language import steps
from netesto.language.finding import Finding
from netesto.limits import allowed, needs
from netesto.model import Endpoint, HostInfo

# Of a link that the script changes: the run tells which rate it has, if any.
_SOME_RATE_BPS = 1e6


def suffixes(commands: Sequence[steps.RemoteCommand]) -> tuple[str, ...]:
    """The suffixes that HOST_SUFFIX has appended to names of hosts."""
    return tuple(dict.fromkeys(command.suffix for command in commands if command.suffix))


def check_hosts(commands: Sequence[steps.RemoteCommand], inventory: Inventory) -> None:
    """ScriptError, with the place, if a command names a host that is not in the inventory, or
    something that no host can do."""
    for command in commands:
        requests.check_possible(command)
        for name in command.hosts:
            try:
                inventory.find(name)
            except WorldError as error:
                raise ScriptError(
                    error.message,
                    place=command.place_of_host(name),
                    remedy=error.remedy,
                    chain=command.chain,
                ) from None


def findings(
    commands: Sequence[steps.RemoteCommand],
    inventory: Inventory,
    infos: Mapping[str, HostInfo],
    requirements: Sequence[steps.Requirement] = (),
    *,
    family: int,
) -> list[Finding]:
    """Everything that is missing on hosts, each with the first line that needs it. REQUIRE applies
    to all hosts of `infos`; other hosts are unknown and not checked."""
    # Under the names that the user has given them: several may have one host name.
    infos = {name: replace(info, host=name) for name, info in infos.items()}
    used = dict.fromkeys(name for command in commands for name in command.hosts)
    endpoints = {name: inventory.find(name) for name in used}
    found = [
        Finding(text, requirement.place)
        for requirement in requirements
        for text in unmet(requirement, infos, count=len(inventory.endpoints))
    ]
    for command in commands:
        if all(endpoints[name].host in infos for name in command.hosts):
            found += missing(command, infos, endpoints, family=family)
    first: dict[str, Finding] = {}
    for finding in found:
        first.setdefault(finding.message, finding)
    return list(first.values())


def check_count(requirements: Sequence[steps.Requirement], count: int) -> None:
    """MissingError if a REQUIRE needs a number of hosts other than `count`."""
    wrong = [
        f"{text} (needed at {requirement.place})"
        for requirement in requirements
        if requirement.what == "hosts"
        for text in _unmet_hosts(requirement, count)
    ]
    if wrong:
        raise MissingError("\n".join(wrong))


# ---- commands --------------------------------------------------------------------------------


def missing(
    command: steps.RemoteCommand,
    infos: Mapping[str, HostInfo],
    endpoints: Mapping[str, Endpoint],
    *,
    family: int,
) -> Iterator[Finding]:
    """What a command needs and its hosts lack.

    `endpoints` maps the names in commands to hosts, `infos` hosts to what they can do.
    """

    def finding(text: str, remedy: str = "") -> Finding:
        return Finding(text, command.place, remedy=remedy, chain=command.chain)

    info = infos[endpoints[command.host].host]
    for name, wanted in command.needs.items():
        host = infos[endpoints[name].host]
        for need in needs.unmet(wanted, needs.has(host)):
            yield finding(*needs.lack(need, host))
    if not isinstance(command, steps.DoClient):
        return
    flow, server = command.flow, infos[endpoints[command.server].host]
    if command.host != command.server and info.host == server.host:
        said = f"{command.host} and {command.server} are one host, {info.host}:"
        said = f"{said} flows between them never leave it"
        yield replace(finding(said), severity="warning")
    for name, wanted in command.needs.items():
        host = infos[endpoints[name].host]
        may_use: needs.Has = {
            **needs.has(host), "congestion control": host.usable_congestion_controls,
        }  # fmt: skip
        lacking = needs.unmet(wanted, needs.has(host))
        for need in needs.unmet(wanted, may_use):
            if need not in lacking:
                yield finding(
                    f"{host.host}: {need}: only root may use it,"
                    f" its agent may use {', '.join(host.allowed_congestion_controls)}",
                    allowed.allowing_control(need.name),
                )
    for host, cpus in (
        (info, flow.client_cpus + flow.client_cores),
        (server, flow.server_cpus + flow.server_cores),
    ):
        # Tools accept any number, and run on any processor if it does not exist.
        absent = set(cpus).difference(host.processors)
        if absent and host.processors:
            which = f"processor{'s' if len(absent) > 1 else ''} {units.format_processors(absent)}"
            usable = units.format_processors(host.processors)
            yield finding(f"{host.host}: its agent may not use {which}, only {usable}")
    try:
        client_at, server_at = endpoints[command.host], endpoints[command.server]
        links = (link for path in client_at.paths.values() for link in path)
        requests.group_request(
            command,
            (client_at, info),
            (server_at, server),
            family=family,
            changed_rates_bps={link.ends: _SOME_RATE_BPS for link in links if link.changes},
            peers=endpoints,
        )
    except WorldError as error:
        yield finding(f"{info.host}→{server.host}: {error.message}", error.remedy)


# ---- REQUIRE ---------------------------------------------------------------------------------

# Operators on the result of a comparison (-1, 0 or 1).
_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def unmet(
    requirement: steps.Requirement, infos: Mapping[str, HostInfo], *, count: int
) -> list[str]:
    """What REQUIRE needs and hosts lack, in words, each with its host. With several words, `=`
    needs all of them, and `!=` none of them. `count`: how many hosts there are.
    """
    if requirement.what == "hosts":
        return _unmet_hosts(requirement, count)
    return [
        f"{_written(requirement)}: {name} {text}"
        for name, info in infos.items()
        if (text := _unmet_at(requirement, info))
    ]


def _unmet_hosts(requirement: steps.Requirement, count: int) -> list[str]:
    """`=` needs at least as many."""
    compare = operator.ge if requirement.operator == "=" else _OPERATORS[requirement.operator]
    if compare(compare_versions(str(count), requirement.value), 0):
        return []
    verb = "is" if count == 1 else "are"
    return [f"{_written(requirement)}: there {verb} {units.counted(count, 'host')}"]


def _written(requirement: steps.Requirement) -> str:
    return f"REQUIRE {requirement.what}{requirement.operator}{requirement.value}"


def _unmet_at(requirement: steps.Requirement, info: HostInfo) -> str:
    """Why a host does not meet a requirement; "" if it does."""
    if requirement.what == "kernel":
        holds = _OPERATORS[requirement.operator]
        is_met = holds(compare_versions(info.kernel, requirement.value), 0)
        return "" if is_met else f"runs {info.kernel}"
    wanted, has = requirement.needs, needs.has(info)
    available = has[wanted[0].kind]
    if available is None:
        return f"could not find out which {wanted[0].kind}s its kernel has"
    lacking = needs.unmet(wanted, has)
    if requirement.operator == "!=":
        found = [need.name for need in wanted if need not in lacking]
        return f"has {' '.join(found)}" if found else ""
    installed = info.unusable_tools if requirement.what == "tool" else ()
    absent = [f"usable {n.name}" if n.name in installed else n.name for n in lacking]
    return f"has no {' '.join(absent)}, only {' '.join(available) or 'none'}" if absent else ""


def compare_versions(left: str, right: str) -> int:
    """-1, 0 or 1 by the numbers of two versions, as many as `right` has: "6.18.44-x" is above
    "6.1", and "6.1.5" equals it."""
    first, second = (
        [int(number) for number in re.findall(r"\d+", text.split("-", 1)[0])]
        for text in (left, right)
    )
    length = len(second)
    first = (first + [0] * length)[: max(length, 1)]
    return (first > second) - (first < second)
