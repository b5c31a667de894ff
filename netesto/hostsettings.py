"""Settings of hosts that a script may ask for, as values that describe themselves, and what became
of one. How an agent makes them and puts them back is in `agent.making`."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeVar

from netesto.errors import NotAllowedError
from netesto.limits import allowed
from netesto.limits.needs import Need
from netesto.links.given import recorded
from netesto.links.settings import LinkSettings
from netesto.schema import tagged
from netesto.text.nearest import hint
from netesto.units import decimal

Each = TypeVar("Each")


class Setting(ABC):
    """A setting of a host. Its fields are what a script asks for; those that it leaves open
    (`device`, `address`) are filled in before it is made. `keep` leaves it on the host when the run
    ends."""

    __slots__ = ()
    keep: bool

    # Whether it outlives the namespaces of a lab.
    is_of_machine: ClassVar[bool] = False
    # Whether it is not meant for flows, as a command may be.
    is_for_flows: ClassVar[bool] = True

    @property
    @abstractmethod
    def target(self) -> str:
        """What is set, as people call it: `sysctl net.ipv4.tcp_ecn`, `qdisc eth0`."""

    @property
    @abstractmethod
    def requested(self) -> str:
        """What it is set to, in words."""

    @property
    def words(self) -> str:
        """The setting as people read it: `sysctl net.ipv4.tcp_ecn=1`, `qdisc eth0: fq`."""
        return f"{self.target}: {self.requested}"

    @property
    def given(self) -> tuple[str, ...]:
        """The names of those parts of its target that it changes, if others stay as they are."""
        return ()

    @property
    def leads_to(self) -> tuple[str, ...]:
        """The names of other hosts that a controller must know to make it."""
        return ()

    @property
    def demand(self) -> Hashable:
        """Equal for settings that ask the same of a host."""
        return (self.target, self.keep, self.needs)

    @property
    def needs(self) -> tuple[Need, ...]:
        """What a host must have for it."""
        return ()

    @property
    def root_qdisc(self) -> "Qdisc | None":
        """The root qdisc that it sets or deletes."""
        return None

    @property
    def removes(self) -> bool:
        """Whether it removes an earlier setting."""
        return False

    def having(self, **values: object) -> Self:
        """The same, but with these values of some fields."""
        return replace(self, **values)  # type: ignore[type-var]

    def check(self) -> None:  # noqa: B027 - an agent knows more of some
        """NotAllowedError if no agent makes it so."""

    def blamed(self, error: NotAllowedError) -> tuple[tuple[str, ...], str]:
        """What the error of `check` is about, as the first of these words that a script has, and
        the remedy."""
        # The message begins with the argument.
        return (f"{re.split('[:=]', error.message)[0]}=",), error.remedy


class KernelValue(Setting):
    """A value of a file of the kernel, whose fields single spaces separate."""

    __slots__ = ()
    value: str

    @property
    def requested(self) -> str:
        return " ".join(self.value.split())

    @property
    def words(self) -> str:
        return f"{self.target}={self.requested}"


@dataclass(frozen=True, slots=True)
class Sysctl(KernelValue):
    """A sysctl: dotted name, value with its fields separated by single spaces."""

    name: str
    value: str
    keep: bool = False

    @property
    def target(self) -> str:
        return f"sysctl {self.name}"

    @property
    def needs(self) -> tuple[Need, ...]:
        kind = allowed.NAMING_SYSCTLS.get(self.name)
        names = self.value.split() if kind is not None else ()
        return tuple(Need(kind, name, f"{self.name}=") for name in names if kind is not None)

    def check(self) -> None:
        allowed.check_sysctl(self.name, self.requested)

    def blamed(self, error: NotAllowedError) -> tuple[tuple[str, ...], str]:
        return _name_or_value(self.name, allowed.SYSCTLS, error.remedy)


@dataclass(frozen=True, slots=True)
class ModuleParameter(KernelValue):
    """A parameter of a loaded kernel module: /sys/module/MODULE/parameters/NAME."""

    is_of_machine: ClassVar[bool] = True

    module: str
    name: str
    value: str
    keep: bool = False

    @property
    def target(self) -> str:
        return f"module parameter {self.module} {self.name}"

    def check(self) -> None:
        allowed.check_module_parameter(self.module, self.name, self.requested)

    def blamed(self, error: NotAllowedError) -> tuple[tuple[str, ...], str]:
        if self.module in allowed.MODULE_PARAMETERS:
            known = allowed.MODULE_PARAMETERS[self.module]
            return _name_or_value(self.name, known, error.remedy)
        return ("module=",), hint(self.module, allowed.MODULE_PARAMETERS, otherwise=error.remedy)


@dataclass(frozen=True, slots=True)
class Qdisc(Setting):
    """A root qdisc: `tc qdisc ACTION dev DEVICE root KIND OPTIONS`.

    action "": delete the old root, then add; "delete": only delete. An empty `device` is the test
    interface of the host.
    """

    kind: str
    options: tuple[str, ...] = ()
    action: str = ""
    device: str = ""
    keep: bool = False

    @property
    def target(self) -> str:
        return f"qdisc {self.device}".strip()

    @property
    def requested(self) -> str:
        return " ".join(filter(None, (self.action, self.kind, *self.options)))

    @property
    def demand(self) -> Hashable:
        return (self.target, self.keep, self.kind, self.action, self.options)

    @property
    def needs(self) -> tuple[Need, ...]:
        return () if self.removes else (Need("qdisc", self.kind, "qdisc="),)

    @property
    def root_qdisc(self) -> "Qdisc":
        return self

    @property
    def removes(self) -> bool:
        return self.action == "delete"

    def check(self) -> None:
        allowed.check_qdisc(self.kind, self.options, self.action)

    def blamed(self, error: NotAllowedError) -> tuple[tuple[str, ...], str]:
        return _of_qdisc(error)


@dataclass(frozen=True, slots=True)
class Netem(Setting):
    """Root qdisc netem. Delay 0 without loss removes it. `limit_packets` is how many it delays at
    once."""

    delay_ms: float
    limit_packets: int = 1000
    loss_percent: float = 0.0
    device: str = ""
    keep: bool = False

    @property
    def target(self) -> str:
        return f"qdisc {self.device}".strip()

    @property
    def requested(self) -> str:
        return "no netem" if self.removes else self.root_qdisc.requested

    @property
    def needs(self) -> tuple[Need, ...]:
        return () if self.removes else (Need("qdisc", "netem", "netem_delay="),)

    @property
    def root_qdisc(self) -> Qdisc:
        if self.removes:
            return Qdisc("netem", (), "delete", self.device, self.keep)
        options = ["limit", str(self.limit_packets)]
        if self.delay_ms:
            options += ["delay", f"{decimal(self.delay_ms)}ms"]
        if self.loss_percent:
            options += ["loss", f"{decimal(self.loss_percent)}%"]
        return Qdisc("netem", tuple(options), "", self.device, self.keep)

    @property
    def removes(self) -> bool:
        return not self.delay_ms and not self.loss_percent

    def check(self) -> None:
        allowed.check_netem(self.delay_ms, self.limit_packets, self.loss_percent)

    def blamed(self, error: NotAllowedError) -> tuple[tuple[str, ...], str]:
        return _of_qdisc(error)


@dataclass(frozen=True, slots=True)
class LinkAttribute(Setting):
    """One attribute of an interface, by its name in `allowed.LINK_ATTRIBUTES`.

    The interface is `device`, or the one by which packets to the neighbour `to` leave; without
    either the test interface. `address` is that of the neighbour, if the controller knows it.
    """

    name: str
    value: str
    to: str = ""
    address: str = ""
    device: str = ""
    keep: bool = False

    @property
    def target(self) -> str:
        return " ".join(filter(None, ("link", self.device or self.to, self.name)))

    @property
    def requested(self) -> str:
        return self.value

    @property
    def words(self) -> str:
        return f"link {self.device or self.to}: {self.name}={self.value}"

    def check(self) -> None:
        allowed.check_link_attribute(self.name, self.value)


@dataclass(frozen=True, slots=True)
class LinkLimits(Setting):
    """Settings of the lab's link to the neighbour `to`, `name=value` each, as in LAB
    (links.settings): of what the host sends there (`direction` to), of what it gets from there
    (from), or both. Those that are not given stay as they are."""

    settings: tuple[str, ...] = ()
    to: str = ""
    direction: str = "both"
    keep: bool = False

    @property
    def target(self) -> str:
        return {"to": f"link {self.to}", "from": f"link from {self.to}"}.get(
            self.direction, f"link {self.to} in both directions"
        )

    @property
    def requested(self) -> str:
        return " ".join(self.settings)

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def values(self) -> dict[str, str]:
        """The settings by name."""
        return dict(each.split("=", 1) for each in self.settings)

    @property
    def demand(self) -> Hashable:
        return (self.target, self.keep, self.direction, self.settings)

    @staticmethod
    def achieved(value: str) -> LinkSettings:
        """The settings in a value before or after: those that the interface records, before the
        parentheses with what the kernel shows."""
        return recorded(value.partition(" (")[0])

    def among(self, forth: Each, back: Each) -> tuple[Each, ...]:
        """Those it is about: of what there is for what the host sends, and for what it gets."""
        return {"to": (forth,), "from": (back,)}.get(self.direction, (forth, back))


@dataclass(frozen=True, slots=True)
class RouteMetrics(Setting):
    """Metrics of the route to the host `to`, which has this address. What is None stays."""

    to: str
    address: str = ""
    rto_min_ms: float | None = None
    initcwnd: int | None = None
    initrwnd: int | None = None
    keep: bool = False

    @property
    def target(self) -> str:
        return f"route to {self.to}"

    @property
    def requested(self) -> str:
        return " ".join(f"{name}={value:g}" for name, value in self.metrics.items())

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(self.metrics)

    @property
    def metrics(self) -> Mapping[str, float]:
        """Those that are set, as ip(8) calls them."""
        all_of_them = {
            "rto_min": self.rto_min_ms, "initcwnd": self.initcwnd, "initrwnd": self.initrwnd,
        }  # fmt: skip
        return {name: value for name, value in all_of_them.items() if value is not None}

    @property
    def leads_to(self) -> tuple[str, ...]:
        return (self.to,)

    def check(self) -> None:
        allowed.check_route_metrics(self.rto_min_ms, self.initcwnd, self.initrwnd)


@dataclass(frozen=True, slots=True)
class Command(Setting):
    """A command that the owner of the host allows by name, with the values of its parameters,
    `name=value` each. What it does is not put back."""

    is_for_flows: ClassVar[bool] = False

    name: str
    values: tuple[str, ...] = ()
    keep: bool = False

    @property
    def target(self) -> str:
        return " ".join(("command", self.name, *self.values))

    @property
    def requested(self) -> str:
        return ""

    @property
    def words(self) -> str:
        return self.target

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Need("command", self.name, "name="),)


KINDS: Mapping[str, type[Setting]] = tagged.kinds(
    Sysctl, ModuleParameter, Qdisc, Netem, LinkAttribute, LinkLimits, RouteMetrics, Command
)


def read(found: object) -> Setting:
    """The setting of a JSON object that `tagged.record` made. ValueError if it is none."""
    return tagged.read(found, KINDS)


@dataclass(frozen=True, slots=True)
class Applied:
    """A setting that was made, with all that it left open: the value before, and the value that the
    host now reads back.

    `made_s` is when, on the clock of who reports it (None: it does not say). `undo` are the
    commands of a shell that put it back, "" if nothing does.
    """

    setting: Setting
    before: str
    after: str
    made_s: float | None = None
    undo: str = ""

    @property
    def words(self) -> str:
        """The setting as people read it."""
        return f"{self.setting.words} (kept)" if self.setting.keep else self.setting.words


def _of_qdisc(error: NotAllowedError) -> tuple[tuple[str, ...], str]:
    words = ("action", "rate", "burst", "limit", "loss")
    about = [f"{word}=" for word in words if f" {word}" in error.message]
    return (*about[:1], "other=", "qdisc=", "netem_delay="), error.remedy


def _name_or_value(name: str, names: Collection[str], remedy: str) -> tuple[tuple[str, ...], str]:
    """The value is to blame if the name is known, else the name."""
    if name in names:
        return (f"{name}=",), remedy
    return (name,), hint(name, names, otherwise=remedy)
