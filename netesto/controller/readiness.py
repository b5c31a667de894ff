"""Problems of all hosts before a run, each with its remedy. Pure.

`netesto hosts check` and the pre-flight of a run use the same checks. An error prevents a run, a
warning does not.
"""

import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from typing import Literal, TypeAlias

import netesto
from netesto import traffic, units
from netesto.controller import preflight
from netesto.controller.inventory import ONE_EACH, Inventory
from netesto.errors import MissingError, NetestoError, WorldError, told_place
from netesto.hostsettings import Command
from netesto.language import steps
from netesto.limits import amounts
from netesto.model import (
    UNFETCHED_MAX,
    Address,
    AgentStatus,
    ClockOffset,
    Endpoint,
    HostInfo,
    HostState,
    PathState,
)
from netesto.traffic.ports import REFUSED_PORT

# The number of other hosts to which each host tries the path.
PEERS = 4

# More names in one line would hide the problem.
HOSTS_SHOWN = 8

# Clocks order the data of hosts; RTTs and intervals are longer than this.
CLOCK_BOUND_S = 0.005

# No clock drifts this far: it was set by hand.
CLOCK_OFFSET_S = 1.0

# Agents cannot work without these; the others are for part of the data.
_REQUIRED_COMMANDS = frozenset({"ip", "tc"})

_PACKAGES = {
    "ethtool": "ethtool", "ip": "iproute2", "ping": "iputils-ping", "tc": "iproute2",
    "tcpdump": "tcpdump",
}  # fmt: skip


# The addresses to which each host tries the path, when the addresses of all hosts are known.
Peers: TypeAlias = Callable[[Inventory], Mapping[str, Sequence[Address]]]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a host; `host` is "" if it concerns all."""

    host: str
    message: str
    remedy: str = ""
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
    """A host and its agent's report, or the `error` instead. For hosts of a lab only `info`
    matters."""

    endpoint: Endpoint
    info: HostInfo | None = None
    clock: ClockOffset | None = None
    state: HostState | None = None
    status: AgentStatus | None = None
    error: NetestoError | None = None


def peers(
    inventory: Inventory, commands: Sequence[steps.RemoteCommand] = (), *, family: int
) -> dict[str, list[Address]]:
    """The addresses to which each host tries the path: of the hosts with which it has flows or, if
    there are no commands, of the next PEERS hosts."""
    hosts = list(inventory.endpoints.values())
    pairs: dict[tuple[str, str], None] = {}
    for command in commands:
        if isinstance(command, steps.DoClient):
            ends = inventory.find(command.host).host, inventory.find(command.server).host
            pairs |= {ends: None, ends[::-1]: None}
    if not commands:
        for number, host in enumerate(hosts):
            others = (hosts[number + 1 :] + hosts[:number])[:PEERS]
            pairs |= {(host.host, other.host): None for other in others}
    found: dict[str, list[Address]] = {host.host: [] for host in hosts}
    for client, server in pairs:
        address = inventory.endpoints[server].addresses.get(family)
        if client != server and address is not None:
            found[client].append(address)
    return found


def problems(
    visited: Sequence[Visited],
    inventory: Inventory,
    commands: Sequence[steps.RemoteCommand] = (),
    requirements: Sequence[steps.Requirement] = (),
    *,
    family: int,
) -> list[Problem]:
    """All problems, by host, and then what the commands and REQUIREs lack."""
    by_address = {
        str(address): host
        for host, endpoint in inventory.endpoints.items()
        for address in endpoint.addresses.values()
    }
    found: list[Problem] = []
    for host in visited:
        name = host.endpoint.host
        own: list[Problem] = []
        if host.error is not None:
            own.append(of_error(name, host.error))
        if host.clock is not None:
            own += _of_clock(host.clock)
        if host.status is not None:
            own += _of_status(name, host.status, inventory.text)
        if host.info is not None and host.state is not None:
            own += _of_info(host.endpoint, host.info, family)
            own += _of_state(host.info, host.state)
            for path in host.state.paths:
                peer = by_address.get(path.peer, path.peer)
                own += _of_path(name, path, peer, host.state, has_flows=bool(commands))
        found += [replace(each, host=name) for each in own]
    infos = {host.endpoint.host: host.info for host in visited if host.info is not None}
    found += _of_twins(infos)
    found += _of_settings(visited, placements(commands, inventory, infos))
    found += _of_refused(visited, commands, inventory)
    wrong = preflight.findings(commands, inventory, infos, requirements, family=family)
    return found + [
        Problem(
            "",
            f"{each.message} (needed at {told_place(each.place, each.chain)})",
            each.remedy,
            severity=each.severity,
        )
        for each in wrong
    ]


def refuse(found: Iterable[Problem]) -> None:
    """WorldError with all errors, if there are any."""
    errors = [problem for problem in found if problem.severity == "error"]
    if not errors:
        return
    kind = MissingError if all(not problem.host for problem in errors) else WorldError
    if len(errors) == 1:
        raise kind(with_hosts(errors[0].host, errors[0].message), remedy=errors[0].remedy)
    raise kind("\n".join(texts(errors)))


def of_error(host: str, error: NetestoError) -> Problem:
    """The error of a host as its problem."""
    return Problem(host, error.message.removeprefix(f"{host}: "), error.remedy)


def texts(found: Iterable[Problem]) -> list[str]:
    """Each problem with its remedy in a line below; hosts with the same problem together, also if
    their own names are the only difference: HOST stands for these."""
    problems = list(found)
    count = Counter((problem.message, problem.remedy) for problem in problems)
    alike = Counter(map(_of_any_host, problems))
    together: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        words, of_any = (problem.message, problem.remedy), _of_any_host(problem)
        is_shared = count[words] == 1 < alike[of_any]
        together.setdefault(of_any if is_shared else words, []).append(problem.host)
    found_texts = []
    for (message, remedy), hosts in together.items():
        names = [host for host in hosts if host]
        if len(names) > HOSTS_SHOWN:
            names[HOSTS_SHOWN - 1 :] = [f"… ({len(hosts)} hosts)"]
        text = with_hosts(", ".join(names), message)
        found_texts.append(f"{text}\n    {remedy}" if remedy else text)
    return found_texts


def _of_any_host(problem: Problem) -> tuple[str, str]:
    """Message and remedy without the name of the host."""
    own = re.compile(rf"(?<![\w.-]){re.escape(problem.host)}(?![\w.-])" if problem.host else "$^")
    return own.sub("HOST", problem.message), own.sub("HOST", problem.remedy)


def with_hosts(hosts: str, message: str) -> str:
    """A problem with the hosts that have it."""
    return f"{hosts}: {message}" if hosts else message


# ---- one host; its name is added later -----------------------------------------------------

_error = partial(Problem, "")
_warning = partial(Problem, "", severity="warning")


def _of_info(endpoint: Endpoint, info: HostInfo, family: int) -> Iterator[Problem]:
    if info.holder:
        yield _error(f"in use by {info.holder}", "Wait for the end of that run, or end it there.")
    if info.version != netesto.__version__:
        yield _warning(
            f"netesto {info.version}; this is {netesto.__version__}",
            "Install the same version everywhere.",
        )
    for tool, reason in info.unusable_tools.items():
        yield _warning(
            f"{tool} is installed, and not used: {reason}",
            "It must print its version within 2 s.",
        )
    for name, version in info.tools.items():
        if (driver := traffic.TOOLS.get(name)) is not None:
            for test in sorted(driver.tests):
                if lack := driver.cannot(test, version):
                    yield _warning(
                        f"{name} cannot run {test}: version {lack}",
                        "Install a later version on the host, or use another tool: tool=native",
                    )
    if not info.tools:
        yield _error("no traffic tool", "Install one on the host: apt install iperf3, or netperf")
    if not info.qdiscs:
        yield _warning(
            "cannot find out which qdiscs its kernel has",
            "The log of the agent has the reason; agents need root and tc.",
        )
    if family not in endpoint.addresses:
        yield _warning(
            f"no IPv{family} address for traffic",
            f'Add it to the hosts file: addresses = ["{_example(info, family)}"]',
        )
    for address in endpoint.addresses.values():
        if not address.is_loopback and info.addresses and str(address) not in info.addresses:
            yield _warning(
                f"address {address} is not on this host, which has {' '.join(info.addresses)}",
                "Correct `addresses` in the hosts file, unless the address is translated (NAT).",
            )


def _example(info: HostInfo, family: int) -> str:
    """An address to write into the hosts file: one that the host has, if it has one."""
    fitting = (text for text in info.addresses if ip_address(text).version == family)
    return next(fitting, "192.0.2.1" if family == 4 else "2001:db8::1")


def _of_twins(infos: Mapping[str, HostInfo]) -> Iterator[Problem]:
    together: dict[str, list[str]] = {}
    for name, info in infos.items():
        together.setdefault(info.identity or name, []).append(name)
    for names in together.values():
        for name in names if len(names) > 1 else ():
            yield Problem(name, "have the same agent", ONE_EACH)


def _of_clock(clock: ClockOffset) -> Iterator[Problem]:
    if clock.bound_s > CLOCK_BOUND_S:
        yield _warning(
            f"clock offset not known to within ± {CLOCK_BOUND_S * 1000:g} ms: the path to the agent"
            " is slow",
            "Events on different hosts cannot be put in order more finely than that.",
        )
    if abs(clock.offset_s) > CLOCK_OFFSET_S:
        yield _warning(
            f"clock {abs(clock.offset_s):.0f} s {'ahead' if clock.offset_s > 0 else 'behind'}",
            "Results are corrected for it; the host's own logs are not. Set it, best with NTP.",
        )


def _of_status(name: str, status: AgentStatus, hosts: str) -> Iterator[Problem]:
    if status.unfetched:
        size = sum(each.size_bytes for each in status.unfetched)
        at_least = "at least " if len(status.unfetched) >= UNFETCHED_MAX else ""
        yield _warning(
            f"has data of {at_least}{units.counted(len(status.unfetched), 'experiment')}"
            " of earlier runs that was never fetched"
            f" ({at_least}{units.format_bytes(size)})",
            f"netesto hosts fetch {shlex.quote(hosts or name)} fetches it.",
        )


def _of_state(info: HostInfo, state: HostState) -> Iterator[Problem]:
    if not state.is_synchronized:
        by = f" by {state.clock_source}" if state.clock_source else ""
        yield _warning(
            f"clock not synchronized{by}: it drifts during a run",
            "Start an NTP client on the host: apt install chrony",
        )
    for refusal in state.refusals:
        message, _, remedy = refusal.partition("\n")
        yield _error(message, remedy)
    for command in state.missing_commands:
        tell = _error if command in _REQUIRED_COMMANDS else _warning
        package = _PACKAGES.get(command, command)
        yield tell(f"{command} is not installed", f"Install it on the host: apt install {package}")
    device = next((each for each in state.interfaces if each.name == info.device), None)
    if device is None:
        has = " ".join(each.name for each in state.interfaces)
        yield _error(
            f"no interface {info.device}, through which its agent tests; it has {has}",
            "Correct `device` in the host's agent.toml.",
        )
    elif device.lacks_carrier:
        yield _error(
            f"interface {info.device}, through which its agent tests, is not connected",
            "It is set up, and has no carrier: check its cable and the other end.",
        )
    elif not device.is_up:
        yield _error(
            f"interface {info.device}, through which its agent tests, is down",
            f"On the host: ip link set {info.device} up",
        )
    for name in state.absent_interfaces:
        yield _warning(
            f"no interface {name}, which the limits of its agent name",
            "Correct `interfaces` in [limits] of the host's agent.toml.",
        )


def _of_path(
    name: str, path: PathState, peer: str, state: HostState, *, has_flows: bool
) -> Iterator[Problem]:
    to = f"to {peer} ({path.peer}, by {path.device})"
    mtus = {each.name: each.mtu_bytes for each in state.interfaces}
    match path.answer:
        case "cut":
            yield _warning(
                f"path {to}: packets of {path.mtu_bytes} bytes are lost, small ones arrive",
                "A link on the path has a smaller MTU, and no router reports it: give all"
                " interfaces on it the same MTU.",
            )
        case "silent":
            yield _warning(
                f"path {to}: no answer",
                "Is the address right, and are both on this network? A firewall that drops UDP to"
                f" port {REFUSED_PORT} looks the same.",
            )
        case "unreachable":
            reason, _, remedy = path.reason.partition("\n")
            # With a remedy it is the agent that refuses: the flow, too.
            tell = _error if remedy and has_flows else _warning
            remedy = remedy or f"On {name}: ip route get {path.peer}"
            yield tell(f"path {to}: {reason}", remedy)
        case "whole" if path.mtu_bytes < min(mtus.get(path.device, 0), 65_535):
            yield _warning(
                f"path {to}: MTU {path.mtu_bytes}, that of the interface is {mtus[path.device]}",
                "Packets of the larger size never arrive; give all interfaces on the path the same"
                " MTU.",
            )


# ---- where settings go -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Placement:
    """The interface of a host to which a command of a script goes, and the first such command."""

    host: str
    command: str
    device: str
    place: str


def placements(
    commands: Sequence[steps.RemoteCommand], inventory: Inventory, infos: Mapping[str, HostInfo]
) -> list[Placement]:
    """The interface that each setting will change; sysctls and module parameters have none."""
    found: dict[tuple[str, str, str], Placement] = {}
    for command in commands:
        if not isinstance(command, steps.Configure):
            continue
        host = inventory.find(command.host).host
        for setting in command.settings:
            qdisc = setting.root_qdisc
            if qdisc is not None and (qdisc.device or host in infos):
                device = qdisc.device or infos[host].device
                placed = Placement(host, command.name, device, str(command.place))
                found.setdefault((host, command.name, device), placed)
    return list(found.values())


def _of_settings(visited: Sequence[Visited], placed: Sequence[Placement]) -> Iterator[Problem]:
    states = {host.endpoint.host: host.state for host in visited if host.state is not None}
    for each in placed:
        if each.host not in states:
            continue
        interfaces = {found.name: found for found in states[each.host].interfaces}
        what = f"{each.command} {each.device} ({each.place})"
        if each.device not in interfaces:
            has = " ".join(interfaces)
            yield Problem(each.host, f"{what}: no such interface; the host has {has}")
        elif refusal := interfaces[each.device].refusal:
            message, _, remedy = refusal.partition("\n")
            yield Problem(each.host, f"{what}: {message}", remedy)


def _of_refused(
    visited: Sequence[Visited], commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> Iterator[Problem]:
    """What a script sets, leaves on purpose, captures or starts on a host that refuses it; the
    first of each."""
    states = {host.endpoint.host: host.state for host in visited if host.state is not None}
    reported: set[tuple[str, str]] = set()
    for command in commands:
        of_both = isinstance(command, steps.DoClient)
        for host in dict.fromkeys(
            inventory.find(name).host for name in (command.hosts if of_both else [command.host])
        ):
            state = states.get(host)
            for tell, refusal in _refusals(command, state) if state is not None else ():
                if refusal and (host, refusal) not in reported:
                    reported.add((host, refusal))
                    message, _, remedy = refusal.partition("\n")
                    where = told_place(command.place, command.chain)
                    yield replace(tell(f"{command.name} ({where}): {message}", remedy), host=host)


def _refusals(
    command: steps.RemoteCommand, state: HostState
) -> Iterator[tuple[Callable[[str, str], Problem], str]]:
    match command:
        case steps.Configure(settings=settings, kept=kept):
            if any(not isinstance(each, Command) for each in settings):
                yield _error, state.setting_refusal
            qdiscs = [each.root_qdisc for each in settings if each.root_qdisc is not None]
            if any(not each.device for each in qdiscs):
                yield _error, _of_several(state)
            if kept:
                yield _error, state.keep_refusal
        case steps.DoTcpdump(packets=packets, snap_bytes=snap_bytes):
            yield _warning, state.capture_refusal
            most_bytes = state.largest_capture_bytes or math.inf
            used = {state.device, *(path.device for path in state.paths)}
            mtus = [each.mtu_bytes for each in state.interfaces if each.name in used]
            mtu_bytes = min(mtus, default=amounts.MTU_BYTES)
            sizes = packets, snap_bytes, mtu_bytes, most_bytes
            yield _error, amounts.refused(amounts.check_capture, *sizes)
        case steps.DoClient(flow=flow):
            yield (
                _error,
                amounts.refused(amounts.check_duration, flow, state.longest_flow_s or math.inf),
            )
            yield _error, amounts.refused(amounts.check_flows, flow, state.most_flows or math.inf)


def _of_several(state: HostState) -> str:
    """Why a setting without an interface is refused, with the remedy in a second line; "" if it is
    not."""
    ways = sorted({path.device for path in state.paths} - {"lo"})
    if state.device or len(ways) < 2:
        return ""
    return (
        f"paths to its peers leave by several interfaces, {' and '.join(ways)}\n"
        f'Name one: netesto hosts install --device {ways[0]}, or device = "{ways[0]}" in its'
        " agent.toml."
    )
