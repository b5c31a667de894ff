"""The lab of a script with what its commands ask of the links, and warnings of settings of hosts
that have less effect than expected, because a link of the lab follows."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from netesto import units
from netesto.controller.inventory import Inventory
from netesto.controller.requests import TRACE_SHARES, unpaced
from netesto.errors import MissingError, ScriptError, UsageError, WorldError
from netesto.flowspec import LINK_TESTS
from netesto.hostsettings import LinkLimits, Qdisc, Setting
from netesto.lab.graph import Link, Topology
from netesto.language import steps
from netesto.language.plan import Head, Warned
from netesto.links.given import changed, merged
from netesto.links.settings import LinkSettings
from netesto.run import labs

# The options that set the rate of a shaping qdisc.
RATE_WORDS = frozenset({"bandwidth", "rate"})


def warnings(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> list[Warned]:
    """A warning for each SET_QDISC that does not move the bottleneck and its queue, and for each
    SET_LINK that makes the link the bottleneck after an earlier SET_QDISC. ScriptError for settings
    that a link cannot have.

    A host that paces (for example with fq), or is slower than its link, needs no warning. Packets
    that a router forwards meet no queue before that of the link, unless the router is slower.
    """
    return list(dict.fromkeys(_warnings(network, commands, inventory)))


def network_of(head: Head) -> Topology:
    """The lab that the command line or else the script requests."""
    asked = head.lab
    if asked is None:
        raise UsageError(
            f"{head.script} does not say which network it needs",
            remedy="Add a line such as 'LAB dumbbell rate=100mbit' to it, or run it with"
            " --lab dumbbell,rate=100mbit, or on real hosts with --hosts FILE.",
        )
    try:
        found = labs.network(asked)
    except UsageError as error:
        if not asked.place.file:
            raise
        raise asked.refused(error.message, error.remedy) from None
    inventory = labs.inventory(found, head.commands, aliases={})
    return with_programs(found, head.commands, inventory)


def with_changes(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> Topology:
    """The network, in which each link that a SET_LINK changes can change. A program carries each
    link that one protects."""
    network = with_programs(network, commands, inventory)
    changing = {
        link
        for command, host, setting in _settings(commands, inventory)
        if isinstance(setting, LinkLimits)
        for link in _limited_links(network, host, setting, inventory)
    }
    links = (replace(link, changes=link in changing) for link in network.links)
    return replace(network, links=tuple(links))


def with_programs(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> Topology:
    """The network, in which a program carries each link to which any SET_LINK of the script gives
    `protect`: then in every cell, so that cells differ in the protection alone. ScriptError if the
    link has settings that only the kernel has."""
    links = list(network.links)
    for command, host, setting in _settings(commands, inventory):
        if not isinstance(setting, LinkLimits) or "protect" not in setting.values:
            continue
        for link in _limited_links(network, host, setting, inventory):
            there, back = (
                _merged(command, link.sent_by(node), {"emulator": "program"})
                for node in (link.a, link.b)
            )
            links[network.links.index(link)] = replace(
                link, settings=there, back=None if back == there else back
            )
    return replace(network, links=tuple(links))


def _settings(
    commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> Iterator[tuple[steps.Configure, str, Setting]]:
    """Every setting of a host that exists, with its command and the host."""
    for command in commands:
        if isinstance(command, steps.Configure):
            # A host that does not exist is reported elsewhere, as an error.
            with contextlib.suppress(WorldError):
                host = inventory.find(command.host).host
                yield from ((command, host, setting) for setting in command.settings)


def _warnings(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> Iterator[Warned]:
    network = with_programs(network, commands, inventory)
    # The settings of each direction of links after SET_LINK, and the SET_QDISC that is in force at
    # each host.
    directions = {
        (link, node): link.sent_by(node) for link in network.links for node in (link.a, link.b)
    }
    shaped: dict[str, Qdisc] = {}
    _check_stressed(network, commands, inventory)
    _check_paced(network, commands, inventory)
    for command, host, setting in _settings(commands, inventory):
        match setting:
            case LinkLimits():
                for link in _limited_links(network, host, setting, inventory):
                    senders = setting.among(host, link.other(host))
                    for end in (each for each in (link.a, link.b) if each in senders):
                        was = directions[link, end]
                        made = directions[link, end] = _changed(command, was, setting)
                        qdisc = shaped.get(end) if network.tested(end) == link else None
                        forwards = network.node(end).forwards
                        if (
                            qdisc is not None
                            and not _is_idle(qdisc, was, forwards=forwards)
                            and _is_idle(qdisc, made, forwards=forwards)
                        ):
                            text = _overtaken(command.host, qdisc, link, made, end)
                            yield Warned(text, command.place)
            case Qdisc(action="delete"):
                shaped.pop(host, None)
            case Qdisc():
                shaped[host] = setting
                link = network.tested(host)
                settings = directions[link, host]
                if _is_idle(setting, settings, forwards=network.node(host).forwards):
                    text = _sentence(command.host, setting, link, settings, host)
                    yield Warned(text, command.place)


def _check_stressed(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> None:
    """ScriptError if a STRESS_LINK is not about a link that the program carries, with a rate, or
    a SHOW_LINK not about such a link."""
    for command in commands:
        is_stress = isinstance(command, steps.DoClient) and command.flow.test in LINK_TESTS
        if not (is_stress or isinstance(command, steps.ShowLink)):
            continue
        with contextlib.suppress(WorldError):  # a host that does not exist is reported elsewhere
            host = inventory.find(command.host).host
            _check_link(network, host, command, inventory)


def _check_paced(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> None:
    """ScriptError if a DO_TRACE without bitrate= has a flow of a host whose links never have a
    rate."""
    changing = {
        link
        for _, host, setting in _settings(commands, inventory)
        if isinstance(setting, LinkLimits) and "rate" in setting.values
        for link in _limited_links(network, host, setting, inventory)
    }
    for command in commands:
        is_paced = isinstance(command, steps.DoTrace) and command.flow.test in TRACE_SHARES
        if not is_paced or "bitrate" in command.arguments:
            continue
        with contextlib.suppress(WorldError):  # a host that does not exist is reported elsewhere
            host = inventory.find(command.host).host
            links = network.links_of(host)
            if not any(each in changing or each.sent_by(host).rate_bps for each in links):
                with _at(command):
                    raise unpaced(host)


def _check_link(
    network: Topology, host: str, command: steps.RemoteCommand, inventory: Inventory
) -> None:
    limits = LinkLimits((), command.arguments["to"])
    link = next(_limited_links(network, host, limits, inventory), None)
    what = f"{command.name} host={command.host} to={command.arguments['to']}"
    place = command.place.narrowed("to=")
    if link is None or not link.settings.is_carried:
        raise ScriptError(
            f"{what}: no link that the program carries",
            place=place,
            remedy="LAB corrupting has one, s1 to s2; others have protect= or emulator=program.",
            chain=command.chain,
        )
    if not isinstance(command, steps.DoClient):
        return
    sent = link.sent_by(host)
    if sent.rate_bps is None:
        raise ScriptError(f"{what}: a link without rate=", place=place, chain=command.chain)
    size = command.flow.size_bytes or 0
    if sent.protect != "off" and sent.txbuffer_bytes is not None and sent.txbuffer_bytes < size:
        raise ScriptError(
            f"{what}: txbuffer={sent.txbuffer_bytes}: does not hold one frame of {size} bytes",
            place=place,
            chain=command.chain,
        )


def _changed(command: steps.Configure, was: LinkSettings, limits: LinkLimits) -> LinkSettings:
    with _at(command):
        return changed(was, limits.values, what=f"SET_LINK host={command.host}")


def _merged(command: steps.Configure, was: LinkSettings, given: Mapping[str, str]) -> LinkSettings:
    with _at(command):
        return merged(was, given, what=f"SET_LINK host={command.host}")


@contextlib.contextmanager
def _at(command: steps.RemoteCommand) -> Iterator[None]:
    """Errors in the settings of a link, and what a link lacks, are errors of this command."""
    try:
        yield
    except (UsageError, MissingError) as error:
        raise ScriptError(
            error.message, place=command.place, remedy=error.remedy, chain=command.chain
        ) from None


def _limited_links(
    network: Topology, host: str, limits: LinkLimits, inventory: Inventory
) -> Iterator[Link]:
    """The links that a SET_LINK of a host limits."""
    to = limits.to or network.tested(host).other(host)
    with contextlib.suppress(WorldError):  # not a host: a router, by its own name
        to = inventory.find(to).host
    return (link for link in network.links_of(host) if link.other(host) == to)


def _overtaken(name: str, qdisc: Qdisc, link: Link, settings: LinkSettings, host: str) -> str:
    return (
        f"SET_LINK host={name}: the bottleneck is now the link {host} - {link.other(host)} "
        f"({settings.describe()}), after the qdisc {qdisc.kind} of SET_QDISC host={host}"
    )


def _is_idle(qdisc: Qdisc, link: LinkSettings, *, forwards: bool) -> bool:
    """Whether the command's qdisc passes packets faster than the link."""
    link_bps = link.rate_bps
    if link_bps is None or qdisc.kind == "netem":
        return False
    own_bps = _rate_bps(qdisc.options)
    return forwards if own_bps is None else own_bps > link_bps


def _rate_bps(options: Sequence[str]) -> float | None:
    for word, following in pairwise(options):
        if word in RATE_WORDS:
            try:
                return units.parse_rate(following)
            except ValueError:
                return None  # tc will report it
    return None


def _sentence(name: str, qdisc: Qdisc, link: Link, settings: LinkSettings, host: str) -> str:
    return (
        f"SET_QDISC host={name} qdisc={qdisc.kind}: the bottleneck remains the link "
        f"{host} - {link.other(host)} after it ({settings.describe()}). Set the queue of a link "
        "in LAB (qdisc=, limit=); with LAB … rate=none, a router's own tbf is the bottleneck"
    )
