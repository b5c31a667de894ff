"""What settings change on a host, as values of the journal, and how the kernel shows each."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from netesto.agent import asking, interfaces, metrics, middles, qdiscs
from netesto.agent.steps import Run
from netesto.errors import NetestoError
from netesto.schema import tagged

# The kernel adds the default congestion control to it.
_ALLOWED = "tcp_allowed_congestion_control"

# A command in the network namespace that the kernel began with.
_IN_FIRST = ("nsenter", "--net=/proc/1/ns/net")


class Thing(ABC):
    """Something that a setting changes."""

    __slots__ = ()

    @property
    def interface(self) -> str:
        """The interface of ours that it belongs to; "" if it belongs to none."""
        return ""

    @abstractmethod
    async def show(self) -> str:
        """What the kernel shows of it, which identifies its state; "" for the kernel's default.
        OSError, AgentError, KeyError or ValueError if there is no such thing."""

    async def read(self, shown: str) -> str:
        """Its value, as records of settings have it, if the kernel shows this of it."""
        return shown

    def is_same(self, before: str, now: str) -> bool:
        """Whether nobody has changed it between these two."""
        return now == before

    def describe(self, shown: str) -> str:
        """A state that `show` returned, in a sentence."""
        return shown


@dataclass(frozen=True, slots=True)
class KernelFile(Thing):
    """A file of /proc/sys or /sys."""

    path: str

    async def show(self) -> str:
        return fields(Path(self.path))

    def is_same(self, before: str, now: str) -> bool:
        return _is_same(self.path, before, now)


@dataclass(frozen=True, slots=True)
class KernelSysctl(Thing):
    """A sysctl of the whole kernel, seen from a namespace that lacks it."""

    name: str

    async def show(self) -> str:
        return " ".join((await asking.output(*_IN_FIRST, "sysctl", "-n", self.name)).split())

    def is_same(self, before: str, now: str) -> bool:
        return _is_same(self.name, before, now)

    def setting(self, value: str) -> Run:
        """How to set it."""
        return Run((*_IN_FIRST, "sysctl", "-q", "-w", f"{self.name}={value}"))


@dataclass(frozen=True, slots=True)
class Root(Thing):
    """The root qdisc of an interface."""

    device: str

    @property
    def interface(self) -> str:
        return self.device

    async def show(self) -> str:
        return qdiscs.described(await qdiscs.root(self.device))

    async def read(self, _: str) -> str:
        return await qdiscs.text_of_root(self.device)

    def describe(self, shown: str) -> str:
        return shown.partition(" ")[0] or "the kernel's own qdisc"


@dataclass(frozen=True, slots=True)
class Attribute(Thing):
    """An attribute of an interface."""

    device: str
    name: str

    @property
    def interface(self) -> str:
        return self.device

    async def show(self) -> str:
        return (await interfaces.show(self.device))[self.name].partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Limits(Thing):
    """What limits one direction of a lab's link: the qdiscs of an interface in the namespace of
    the links."""

    namespace: str
    device: str

    async def show(self) -> str:
        return await middles.show(self.namespace, self.device)


@dataclass(frozen=True, slots=True)
class Route(Thing):
    """The route to one address alone."""

    address: str

    async def show(self) -> str:
        return await metrics.show(self.address)


KINDS: Mapping[str, type[Thing]] = tagged.kinds(
    KernelFile, KernelSysctl, Root, Attribute, Limits, Route
)


def at(device: str, thing: Thing) -> Thing:
    """A thing of an interface of ours, which is called so now."""
    return replace(thing, device=device) if thing.interface else thing  # type: ignore[type-var]


async def show(thing: Thing) -> str | None:
    """What the kernel shows of a thing; None if there is none."""
    try:
        return await thing.show()
    except (OSError, NetestoError, KeyError, ValueError):
        return None


def fields(path: Path) -> str:
    """A kernel file's value, its fields separated by single spaces."""
    return " ".join(path.read_text(encoding="utf-8").split())


def _is_same(name: str, before: str, now: str) -> bool:
    if name.endswith(_ALLOWED):
        return set(before.split()) <= set(now.split())
    return now == before
