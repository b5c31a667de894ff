"""Differences between the hosts of an experiment, and of the same hosts between two results
folders. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Facts = Mapping[str, str]

# More are counted, not named.
NAMED_MAX = 8


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact, and the hosts that have each of its values. "" is unknown there."""

    name: str
    hosts_of: Mapping[str, tuple[str, ...]]


def among(hosts: Mapping[str, Facts]) -> list[Difference]:
    """The differences between hosts of which anything is known."""
    known = {host: facts for host, facts in hosts.items() if facts}
    found = []
    for name in sorted({name for facts in known.values() for name in facts}):
        hosts_of: dict[str, tuple[str, ...]] = {}
        for host, facts in known.items():
            value = facts.get(name, "")
            hosts_of[value] = (*hosts_of.get(value, ()), host)
        if len(hosts_of) > 1:
            found.append(Difference(name, hosts_of))
    return found


def shared(hosts: Mapping[str, Facts]) -> dict[str, str]:
    """The facts that all hosts share; empty if one of them is unknown."""
    first = next(iter(hosts.values()), {})
    return {
        name: value
        for name, value in first.items()
        if all(facts.get(name) == value for facts in hosts.values())
    }


def sentences(
    base: Iterable[Mapping[str, Facts]], new: Iterable[Mapping[str, Facts]]
) -> Iterator[str]:
    """The differences of hosts between two folders, in words; each folder is given as the facts of
    the hosts of each of its experiments. A fact differs if the sets of its values in the two
    folders differ."""
    before, after = _values(base), _values(new)
    by_changes: dict[tuple[str, ...], list[str]] = {}
    for host in sorted(before.keys() & after.keys()):
        old, now = before[host], after[host]
        changes = tuple(
            f"{name} ({_words(old.get(name, []))} → {_words(now.get(name, []))})"
            for name in sorted(old.keys() | now.keys())
            if set(old.get(name, [])) != set(now.get(name, []))
        )
        if changes:
            by_changes.setdefault(changes, []).append(host)
    for changes, hosts in by_changes.items():
        more = f" and {len(changes) - NAMED_MAX} more" if len(changes) > NAMED_MAX else ""
        verb = "differs" if len(hosts) == 1 else "differ"
        named = ", ".join(changes[:NAMED_MAX])
        yield f"{', '.join(hosts)} {verb} between the folders in: {named}{more}."


def _values(experiments: Iterable[Mapping[str, Facts]]) -> dict[str, dict[str, list[str]]]:
    """By host and fact, the values that it had, in their order."""
    found: dict[str, dict[str, list[str]]] = {}
    for hosts in experiments:
        for host, facts in hosts.items():
            for name, value in facts.items():
                values = found.setdefault(host, {}).setdefault(name, [])
                if value not in values:
                    values.append(value)
    return found


def _words(values: Sequence[str]) -> str:
    return "/".join(values) or "unknown"
