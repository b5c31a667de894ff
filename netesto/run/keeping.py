"""Settings that a script leaves on hosts on purpose: keep=1."""

from collections.abc import Iterator, Sequence

from netesto.controller.inventory import Inventory
from netesto.language import steps
from netesto.language.plan import Warned


def of(commands: Sequence[steps.RemoteCommand], inventory: Inventory) -> dict[str, list[str]]:
    """What each host keeps: the names of sysctls and module parameters, and `qdisc`."""
    found: dict[str, dict[str, None]] = {}
    for command in _keeping(commands):
        names = dict.fromkeys(command.kept)
        found.setdefault(inventory.find(command.host).host, {}).update(names)
    return {host: list(names) for host, names in found.items()}


def told(kept: dict[str, list[str]]) -> str:
    """What hosts keep, as words: `a: net.ipv4.tcp_ecn, qdisc; b: qdisc`."""
    return "; ".join(f"{host}: {', '.join(names)}" for host, names in kept.items())


def warnings(commands: Sequence[steps.RemoteCommand]) -> list[Warned]:
    """A warning, at the first command that keeps anything, that a lab keeps nothing."""
    return [
        Warned(
            f"{command.name}: keep={command.arguments['keep']} has no effect beyond the lab,"
            " whose hosts are removed with it",
            command.place.narrowed("keep="),
        )
        for command in [*_keeping(commands)][:1]
    ]


def _keeping(commands: Sequence[steps.RemoteCommand]) -> Iterator[steps.Configure]:
    for command in commands:
        if isinstance(command, steps.Configure) and command.kept:
            yield command
