"""Settings of hosts that a script may ask for, and what became of one."""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Each = TypeVar("Each")


@dataclass(frozen=True, slots=True)
class Sysctl:
    """A sysctl: dotted name, value with its fields separated by single spaces.

    As of all settings: `keep` leaves it on the host when the run ends.
    """

    name: str
    value: str
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Qdisc:
    """A root qdisc: `tc qdisc ACTION dev DEVICE root KIND OPTIONS`.

    action "": delete the old root, then add; "delete": only delete. An empty `device` is the test
    interface of the host.
    """

    kind: str
    options: tuple[str, ...] = ()
    action: str = ""
    device: str = ""
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Netem:
    """Root qdisc netem. Delay 0 without loss removes it. `limit_packets` is how many it delays at
    once."""

    delay_ms: float
    limit_packets: int = 1000
    loss_percent: float = 0.0
    device: str = ""
    keep: bool = False


@dataclass(frozen=True, slots=True)
class ModuleParameter:
    """A parameter of a loaded kernel module: /sys/module/MODULE/parameters/NAME."""

    module: str
    name: str
    value: str
    keep: bool = False


@dataclass(frozen=True, slots=True)
class LinkAttribute:
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


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """Settings of the lab's link to the neighbour `to`, `name=value` each, as in LAB
    (links.settings): of what the host sends there (`direction` to), of what it gets from there
    (from), or both. Those that are not given stay as they are."""

    settings: tuple[str, ...] = ()
    to: str = ""
    direction: str = "both"
    keep: bool = False

    @property
    def given(self) -> dict[str, str]:
        """The settings by name."""
        return dict(each.split("=", 1) for each in self.settings)

    def among(self, there: Each, back: Each) -> tuple[Each, ...]:
        """Those it is about: of what there is for what the host sends, and for what it gets."""
        return {"to": (there,), "from": (back,)}.get(self.direction, (there, back))


@dataclass(frozen=True, slots=True)
class RouteMetrics:
    """Metrics of the route to the host `to`, which has this address. What is None stays."""

    to: str
    address: str = ""
    rto_min_ms: float | None = None
    initcwnd: int | None = None
    initrwnd: int | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command that the owner of the host allows by name, with the values of its parameters,
    `name=value` each. What it does is not put back."""

    name: str
    values: tuple[str, ...] = ()
    keep: bool = False

    @property
    def words(self) -> str:
        """As records of it begin: `command NAME name=value…`."""
        return " ".join(("command", self.name, *self.values))


Setting: TypeAlias = (
    Sysctl | Qdisc | Netem | ModuleParameter | LinkAttribute | LinkLimits | RouteMetrics | Command
)


@dataclass(frozen=True, slots=True)
class Applied:
    """A setting that was made: its value before, and the value that the host now reads back.

    `made_s` is when, on the clock of who reports it (None: it does not say). `thing` is what was
    set (putback.shown), `undo` the commands of a shell that put it back, "" if nothing does.
    """

    setting: str
    before: str
    after: str
    made_s: float | None = None
    thing: str = ""
    undo: str = ""
