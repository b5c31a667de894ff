"""Settings of hosts that change less than they seem to, because a link of the lab comes behind."""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

from netesto import units
from netesto.controller.inventory import Inventory
from netesto.errors import WorldError
from netesto.lab import queueing
from netesto.lab.graph import Link, Topology
from netesto.language import ports
from netesto.language.plan import Warned
from netesto.model import LinkLimits, Qdisc

# The options that set the rate of a shaping qdisc.
RATE_WORDS = frozenset({"bandwidth", "rate"})


def warnings(
    network: Topology, commands: Sequence[ports.RemoteCommand], inventory: Inventory
) -> list[Warned]:
    """A warning for each SET_QDISC that leaves the bottleneck, and its queue, where they were; and
    for each SET_LINK of limits where the link has none that could change.

    At a host that paces (fq, say), or is to be slower than its link, all is well. What a router
    forwards meets no queue before that of the link, unless the router is the slower of the two.
    """
    return list(dict.fromkeys(_warnings(network, commands, inventory)))


def _warnings(
    network: Topology, commands: Sequence[ports.RemoteCommand], inventory: Inventory
) -> Iterator[Warned]:
    for command in commands:
        for setting in command.settings if isinstance(command, ports.Configure) else ():
            if isinstance(setting, LinkLimits):
                yield from _without_limits(network, command, setting, inventory)
            if not isinstance(setting, Qdisc) or setting.action == "delete":
                continue
            try:
                host = inventory.find(command.host).host
            except WorldError:
                continue  # reported elsewhere, as an error
            link = network.tested(host)
            if _is_idle(setting, link, forwards=network.node(host).forwards):
                yield Warned(_sentence(command.host, setting, link, host), command.place)


def _without_limits(
    network: Topology, command: ports.RemoteCommand, limits: LinkLimits, inventory: Inventory
) -> Iterator[Warned]:
    with contextlib.suppress(WorldError):  # reported elsewhere, as an error
        host = inventory.find(command.host).host
        to = limits.to
        with contextlib.suppress(WorldError):
            to = inventory.find(limits.to).host if limits.to else network.tested(host).other(host)
        for link in network.links_of(host):
            if link.other(host) == to and not queueing.kinds(link.settings):
                text = f"SET_LINK host={command.host}: the link {host} - {to} has no limits that"
                yield Warned(f"{text} could change; LAB gives it some: rate=", command.place)


def _is_idle(qdisc: Qdisc, link: Link, *, forwards: bool) -> bool:
    """Whether what the command makes lets packets through faster than they leave the link."""
    link_bps = link.settings.rate_bps
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
                return None  # tc will say so
    return None


def _sentence(name: str, qdisc: Qdisc, link: Link, host: str) -> str:
    return (
        f"SET_QDISC host={name} qdisc={qdisc.kind}: the bottleneck stays the link "
        f"{host} - {link.other(host)} behind it ({link.settings.describe()}). LAB sets the queue "
        "of a link (qdisc=, limit=); with LAB … rate=none a router's own tbf is the bottleneck"
    )
