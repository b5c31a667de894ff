"""What netesto has of a kind, and what other distributions add to it by their entry points.

A distribution declares them in its pyproject.toml: a group, and in it a name and the value in one
of its modules (https://packaging.python.org/specifications/entry-points/).
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, overload

from netesto.errors import WorldError

TOOLS = "netesto.tools"
COLLECTORS = "netesto.collectors"


@dataclass(frozen=True, slots=True)
class AddedPoint:
    """An entry point of a group: its name, where its value is, and the distribution that adds
    it."""

    group: str
    name: str
    value: str
    provider: str


class Named(Protocol):
    """What is registered has a name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


# What is known of groups.
_known: dict[str, tuple[AddedPoint, ...]] = {}


def points() -> tuple[AddedPoint, ...]:
    """What other distributions add to netesto here."""
    return (*_points(TOOLS), *_points(COLLECTORS))


def take(found: Iterable[AddedPoint]) -> None:
    """Take what the process that started this one on the same machine has found (`points`): to look
    takes as long as a tenth of all imports, in a guest longer."""
    given = tuple(found)
    for group in (TOOLS, COLLECTORS):
        _known[group] = tuple(each for each in given if each.group == group)


def _points(group: str) -> tuple[AddedPoint, ...]:
    if group not in _known:
        # Imported here because it takes 40 ms, and many commands do not need it.
        from importlib import metadata  # noqa: PLC0415

        found = sorted(metadata.entry_points(group=group), key=lambda each: each.name)
        _known[group] = tuple(
            AddedPoint(group, each.name, each.value, each.dist.name if each.dist else each.value)
            for each in found
        )
    return _known[group]


class Names(Sequence[str]):
    """Names of ours, and then those of the entry points of a group, which are found at the first
    use, and not loaded."""

    def __init__(self, group: str, *own: str) -> None:
        self._group = group
        self._own = own

    @functools.cached_property
    def _all(self) -> tuple[str, ...]:
        return (*dict.fromkeys([*self._own, *(each.name for each in _points(self._group))]),)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        return self._all[place]

    def __len__(self) -> int:
        return len(self._all)


class Registered(Mapping[str, T]):
    """Values of a kind by their names: ours, and then those of the entry points of a group.

    They are loaded at the first use; WorldError names the distribution of one that is broken.
    """

    def __init__(self, group: str, kind: type, own: Iterable[T]) -> None:
        self._group = group
        self._kind = kind
        self.own: Mapping[str, T] = {each.name: each for each in own}

    def load(self) -> None:
        """Load them now, for this process and those that it forks."""
        len(self)

    def provider(self, name: str) -> str:
        """The distribution that adds a value; "" if it is ours."""
        return next((each.provider for each in _points(self._group) if each.name == name), "")

    @functools.cached_property
    def _all(self) -> dict[str, T]:
        found = dict(self.own)
        for point in _points(self._group):
            found[point.name] = self._loaded(point, found)
        return found

    def _loaded(self, point: AddedPoint, known: Mapping[str, T]) -> T:
        from importlib.metadata import EntryPoint  # noqa: PLC0415

        fault = ""
        try:
            value: T = EntryPoint(point.name, point.value, point.group).load()
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise self._broken(point, f"cannot be loaded: {cause}") from error
        if isinstance(value, type) or not isinstance(value, self._kind):
            fault = f"is not an instance of {self._kind.__module__}.{self._kind.__name__}"
        elif value.name != point.name:
            fault = f"has another name: {value.name}"
        elif point.name in known:
            fault = "has the name of another one"
        if fault:
            raise self._broken(point, fault)
        return value

    def _broken(self, point: AddedPoint, fault: str) -> WorldError:
        return WorldError(
            f"Python package {point.provider}: the entry point {point.name} of {self._group}"
            f" ({point.value}) {fault}",
            remedy="Repair it, or uninstall the package.",
        )

    def __getitem__(self, name: str) -> T:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
