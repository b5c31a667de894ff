"""Warns of settings of hosts that have less effect than expected, because a link of the lab
follows."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from netesto import units
from netesto.controller.inventory import Inventory
from netesto.errors import WorldError
from netesto.hostsettings import LinkLimits, Qdisc
from netesto.lab import links, queueing
from netesto.lab.graph import Link, Topology
from netesto.lab.links import LinkSettings
from netesto.language import steps
from netesto.language.plan import Warned

# The options that set the rate of a shaping qdisc.
RATE_WORDS = frozenset({"bandwidth", "rate"})


def warnings(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> list[Warned]:
    """A warning for each SET_QDISC that does not move the bottleneck and its queue; for each
    SET_LINK that makes the link the bottleneck after an earlier SET_QDISC; and for each SET_LINK of
    limits on a link without any.

    A host that paces (for example with fq), or is slower than its link, needs no warning. Packets
    that a router forwards meet no queue before that of the link, unless the router is slower.
    """
    return list(dict.fromkeys(_warnings(network, commands, inventory)))


def _warnings(
    network: Topology, commands: Sequence[steps.RemoteCommand], inventory: Inventory
) -> Iterator[Warned]:
    # The limits of links after SET_LINK, and the SET_QDISC that is in force at each host.
    changed: dict[Link, LinkSettings] = {}
    shaped: dict[str, Qdisc] = {}
    for command in commands:
        for setting in command.settings if isinstance(command, steps.Configure) else ():
            try:
                host = inventory.find(command.host).host
            except WorldError:
                continue  # reported elsewhere, as an error
            match setting:
                case LinkLimits():
                    for link in _meant(network, host, setting, inventory):
                        if not queueing.kinds(link.settings):
                            yield Warned(_without_limits(command.host, link, host), command.place)
                            continue
                        was = changed.get(link, link.settings)
                        changed[link] = made = _limited(was, setting)
                        for end in (link.a, link.b):
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
                    settings = changed.get(link, link.settings)
                    if _is_idle(setting, settings, forwards=network.node(host).forwards):
                        text = _sentence(command.host, setting, link, settings, host)
                        yield Warned(text, command.place)


def _meant(
    network: Topology, host: str, limits: LinkLimits, inventory: Inventory
) -> Iterator[Link]:
    """The links that a SET_LINK of a host limits."""
    to = limits.to or network.tested(host).other(host)
    with contextlib.suppress(WorldError):  # not a host: a router, by its own name
        to = inventory.find(to).host
    return (link for link in network.links_of(host) if link.other(host) == to)


def _limited(link: LinkSettings, limits: LinkLimits) -> LinkSettings:
    rate_bps = link.rate_bps if limits.rate_bps is None else limits.rate_bps
    queue = links.queue_limit(limits.limit, link) if limits.limit else link.queue
    return replace(link, rate_bps=rate_bps, limit=queue)


def _without_limits(name: str, link: Link, host: str) -> str:
    return (
        f"SET_LINK host={name}: the link {host} - {link.other(host)} has no limits to"
        " change; set some in LAB: rate=, delay= or loss="
    )


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
