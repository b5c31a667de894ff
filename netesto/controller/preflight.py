"""Compare what a script needs with what its hosts have, before any traffic. Pure."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from netesto import units
from netesto.controller import requests
from netesto.controller.inventory import Inventory
from netesto.errors import MissingError, ScriptError, WorldError
from netesto.hostsettings import Command, Sysctl
from netesto.language import steps
from netesto.language.finding import Finding
from netesto.limits import allowed
from netesto.model import ALWAYS_THERE, RECEIVERS, Endpoint, HostInfo
from netesto.text.nearest import hint


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
        for text in unmet(requirement, infos, there=len(inventory.endpoints))
    ]
    for command in commands:
        if all(endpoints[name].host in infos for name in command.hosts):
            found += missing(command, infos, endpoints, family=family)
    first: dict[str, Finding] = {}
    for finding in found:
        first.setdefault(finding.message, finding)
    return list(first.values())


def check_count(requirements: Sequence[steps.Requirement], there: int) -> None:
    """MissingError if a REQUIRE needs a number of hosts other than `there`."""
    wrong = [
        f"{text} (needed at {requirement.place})"
        for requirement in requirements
        if requirement.what == "hosts"
        for text in _unmet_hosts(requirement, there)
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
    qdisc = requests.needed_qdisc(command)
    if qdisc and info.qdiscs and qdisc not in info.qdiscs:
        yield finding(*_not_in_kernel(info, "qdisc", qdisc))
    if isinstance(command, steps.Configure):
        for kind, name in _missing_names(command, info):
            yield finding(*_not_in_kernel(info, kind, name))
        for setting in command.settings:
            if isinstance(setting, Command) and setting.name not in info.commands:
                said = f"{info.host}: its agent allows no command {setting.name}"
                allow = f"Write [commands.{setting.name}] in the agent.toml of an installed agent."
                yield finding(said, hint(setting.name, info.commands, otherwise=allow))
    if not isinstance(command, steps.DoClient):
        return
    flow, server = command.flow, infos[endpoints[command.server].host]
    if command.host != command.server and info.host == server.host:
        said = f"{command.host} and {command.server} are one host, {info.host}:"
        said = f"{said} flows between them never leave it"
        yield replace(finding(said), severity="warning")
    is_reverse = flow.is_reverse
    for host, control, is_sender in (
        (info, flow.congestion_controls[0], not is_reverse),
        (server, flow.congestion_controls[1], is_reverse),
    ):
        # A receiver's default is replaced on hosts that lack it.
        is_chosen = (
            is_sender or "remoteCa" in command.arguments or control not in {RECEIVERS, ALWAYS_THERE}
        )
        if is_chosen and control not in host.congestion_controls:
            yield finding(*_not_in_kernel(host, "congestion control", control))
        elif is_chosen and control not in host.usable_congestion_controls:
            yield finding(
                f"{host.host}: congestion control {control}: only root may use it,"
                f" its agent may use {', '.join(host.allowed_congestion_controls)}",
                allowed.allowing_control(control),
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
        requests.group_request(
            command,
            (client_at, info),
            (server_at, server),
            family=family,
            changed_rates_bps={},
            peers=endpoints,
        )
    except WorldError as error:
        yield finding(f"{info.host}→{server.host}: {error.message}", error.remedy)


def _there(info: HostInfo, kind: str) -> Sequence[str]:
    return info.qdiscs if kind == "qdisc" else info.congestion_controls


def _not_in_kernel(info: HostInfo, kind: str, name: str) -> tuple[str, str]:
    """The problem and the remedy."""
    there = _there(info, kind)
    has = f", which has {', '.join(there)}"
    module = f"{'sch' if kind == 'qdisc' else 'tcp'}_{name}"
    remedy = hint(name, there, otherwise=f"Use another one, or a kernel with {module}.")
    return f"{info.host}: {kind} {name}: not in this kernel ({info.kernel}){has}", remedy


def _missing_names(command: steps.Configure, info: HostInfo) -> Iterator[tuple[str, str]]:
    """The qdiscs and congestion controls that sysctls name and a host does not have: kind, name."""
    for setting in command.settings:
        if isinstance(setting, Sysctl) and (kind := allowed.NAMING_SYSCTLS.get(setting.name)):
            there = _there(info, kind)
            for name in setting.value.split():
                if name not in there and (there or kind != "qdisc"):
                    yield kind, name


# ---- REQUIRE ---------------------------------------------------------------------------------

# Operators on the result of a comparison (-1, 0 or 1).
_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def unmet(
    requirement: steps.Requirement, infos: Mapping[str, HostInfo], *, there: int
) -> list[str]:
    """What REQUIRE needs and hosts lack, in words, each with its host. With several words, `=`
    needs all of them, and `!=` none of them. `there`: how many hosts there are.
    """
    if requirement.what == "hosts":
        return _unmet_hosts(requirement, there)
    return [
        f"{_written(requirement)}: {name} {text}"
        for name, info in infos.items()
        if (text := _unmet_at(requirement, info))
    ]


def _unmet_hosts(requirement: steps.Requirement, there: int) -> list[str]:
    """`=` needs at least as many."""
    compare = operator.ge if requirement.operator == "=" else _OPERATORS[requirement.operator]
    if compare(compare_versions(str(there), requirement.value), 0):
        return []
    verb = "is" if there == 1 else "are"
    return [f"{_written(requirement)}: there {verb} {units.counted(there, 'host')}"]


def _written(requirement: steps.Requirement) -> str:
    return f"REQUIRE {requirement.what}{requirement.operator}{requirement.value}"


def _unmet_at(requirement: steps.Requirement, info: HostInfo) -> str:
    """Why a host does not meet a requirement; "" if it does."""
    what, words = requirement.what, requirement.value.split(",")
    if what == "kernel":
        holds = _OPERATORS[requirement.operator]
        is_met = holds(compare_versions(info.kernel, requirement.value), 0)
        return "" if is_met else f"runs {info.kernel}"
    by_what = {"ca": info.congestion_controls, "qdisc": info.qdiscs, "tool": tuple(info.tools)}
    has = by_what[what]
    if what == "qdisc" and not has:
        return "could not find out which qdiscs its kernel has"
    if requirement.operator == "!=":
        found = [word for word in words if word in has]
        return f"has {' '.join(found)}" if found else ""
    installed = info.unusable_tools if what == "tool" else ()
    absent = [f"usable {w}" if w in installed else w for w in words if w not in has]
    return f"has no {' '.join(absent)}, only {' '.join(has) or 'none'}" if absent else ""


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
