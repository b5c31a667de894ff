"""How an agent makes each kind of setting: what it changes, from what, by which steps, and how that
is undone. `settings` carries the plans out, and `putback` undoes them.

The functions `plan_…` are pure.
"""

import contextlib
import errno
import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeAlias

from netesto.agent import interfaces, metrics, middles, putback, qdiscs, routes, things
from netesto.agent.experiment import Premises
from netesto.agent.qdiscs import RootQdisc
from netesto.agent.steps import Run, Step, Write
from netesto.agent.things import Attribute, KernelFile, KernelSysctl, Limits, Root, Route, Thing
from netesto.errors import AgentError, MissingError, NetestoError, NotAllowedError
from netesto.hostsettings import (
    LinkAttribute,
    LinkLimits,
    ModuleParameter,
    Netem,
    Qdisc,
    RouteMetrics,
    Setting,
    Sysctl,
)
from netesto.limits import allowed
from netesto.links import made
from netesto.system import proc

ITS_OWN_KERNEL = "With --ground uml or sim the lab has a kernel of its own."


@dataclass(frozen=True, slots=True)
class SettingPlan:
    """How to make a setting, with all that it left open, of a `thing` that the kernel shows as
    `before`; and how to undo it. `warning` says what cannot be put back. What does not
    `end_with_run` is not journaled: it ends with the lab's kernel."""

    setting: Setting
    thing: Thing
    before: str
    steps: tuple[Step, ...]
    undo: tuple[Step, ...]
    warning: str = ""
    ends_with_run: bool = True


async def plans(setting: Setting, premises: Premises) -> list[SettingPlan]:
    """The plans of a setting, which are all possible; the first is of the setting itself.
    AgentError or MissingError if there is nothing like it on this host."""
    setting.check()
    return await _KINDS[type(setting)](setting, premises)


# ---- sysctls and parameters of modules -------------------------------------------------------


async def _sysctl(setting: Sysctl, premises: Premises) -> list[SettingPlan]:
    if setting.name in allowed.KERNEL_WIDE and premises.is_in_lab:
        return [await _of_kernel(setting)]
    # /proc/sys/net belongs to the network namespace of the process that opens it.
    path = Path("/proc/sys", *setting.name.split("."))
    before = _present(setting.target, path)
    if before is None:
        raise MissingError(
            f"{setting.target}: not here (kernel {platform.release()})",
            remedy="Some exist only outside of network namespaces, some only in other kernels.",
        )
    return [plan_file(setting, path, before)]


async def _of_kernel(setting: Sysctl) -> SettingPlan:
    """For all hosts of a lab whose kernel ends with the run: nothing is put back."""
    if proc.ground_inside() is None:
        raise NotAllowedError(
            f"{setting.words}: belongs to the whole kernel of this machine", remedy=ITS_OWN_KERNEL
        )
    thing = KernelSysctl(setting.name)
    step = thing.setting(setting.requested)
    return SettingPlan(setting, thing, await thing.show(), (step,), (), ends_with_run=False)


async def _module_parameter(setting: ModuleParameter, _: Premises) -> list[SettingPlan]:
    path = Path("/sys/module", setting.module, "parameters", setting.name)
    before = _present(setting.target, path)
    if before is None and not path.parent.exists():
        raise MissingError(f"{setting.target}: module {setting.module} is not loaded")
    if before is None:
        has = ", ".join(sorted(entry.name for entry in path.parent.iterdir()))
        raise MissingError(f"{setting.target}: not in this kernel", remedy=f"It has {has}.")
    return [plan_file(setting, path, before)]


def plan_file(setting: Setting, path: Path, before: str) -> SettingPlan:
    """A setting that is the value of a file of the kernel."""
    write, back = Write(str(path), setting.requested), Write(str(path), before)
    return SettingPlan(setting, KernelFile(str(path)), before, (write,), (back,))


def _present(what: str, path: Path) -> str | None:
    """The value of a file; None if there is no such file."""
    try:
        return things.fields(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AgentError(f"{what}: {error.strerror}") from None


def refusal(setting: Setting, error: OSError) -> NetestoError:
    """The error of a file of the kernel that does not take a setting."""
    if setting.needs and error.errno in (errno.ENOENT, errno.EINVAL):
        wanted = ", ".join(map(str, setting.needs))
        return MissingError(f"{wanted}: not in this kernel ({platform.release()})")
    return AgentError(f"{setting.words}: {error.strerror}")


# ---- root qdiscs -----------------------------------------------------------------------------


async def _qdisc(setting: Qdisc | Netem, premises: Premises) -> list[SettingPlan]:
    device = setting.device or premises.device
    _check(device, premises)
    before = await qdiscs.root(device)
    if isinstance(setting, Netem):
        return [plan_netem(setting.having(device=device), before)]
    return [plan_qdisc(setting.having(device=device), before)]


def plan_qdisc(
    setting: Qdisc, before: RootQdisc | None, *, of: Setting | None = None
) -> SettingPlan:
    """`before` is the root now, None the kernel's own.

    Without an action the old root is deleted first; the kernel's own can only be replaced.
    """
    root = ("dev", setting.device, "root")
    delete = Run(("tc", "qdisc", "del", *root))
    steps: list[Step] = []
    if setting.action in ("", "delete") and before is not None:
        steps.append(delete)
    if setting.action != "delete":
        words = (*root, setting.kind, *setting.options)
        steps.append(Run(("tc", "qdisc", setting.action or "add", *words)))
    old = None if before is None else qdiscs.recreate(before)
    undo = [delete] if old is None else [Run(("tc", "qdisc", "replace", *root, *old))]
    # Of a qdisc that was changed in place, tc changes back only the options that it is told. Linux
    # accepts no second netem beside one that duplicates, not even in its place (check_netem_in_tree
    # in net/sched/sch_netem.c).
    is_in_place = setting.action in ("change", "replace") and before and before.kind == setting.kind
    if old is not None and (is_in_place or "duplicate" in setting.options):
        undo.insert(0, delete)
    warning = ""
    if before is not None and old is None:
        warning = (
            f"the qdisc {before.kind} of {setting.device} cannot be put back as it was;"
            " the kernel's own will take its place"
        )
    return SettingPlan(
        of or setting,
        Root(setting.device),
        qdiscs.described(before),
        tuple(steps),
        tuple(undo) if steps else (),
        warning,
    )


def plan_netem(setting: Netem, before: RootQdisc | None) -> SettingPlan:
    """Netem as a root qdisc. Without delay and loss it is removed; other qdiscs are not."""
    if setting.removes and (before is None or before.kind != "netem"):
        return SettingPlan(setting, Root(setting.device), qdiscs.described(before), (), ())
    return plan_qdisc(setting.root_qdisc, before, of=setting)


# ---- links and routes ------------------------------------------------------------------------


async def _attribute(setting: LinkAttribute, premises: Premises) -> list[SettingPlan]:
    device, name = _device_of(setting, premises), setting.name
    known = await interfaces.show(device)
    interfaces.check_there(device, name, setting.value, known)
    before = known[name].partition(" ")[0]
    is_changed = before != setting.value
    wanted = interfaces.steps(device, name, known | {name: setting.value}) if is_changed else ()
    undo = interfaces.steps(device, name, known)
    found = [
        SettingPlan(setting.having(device=device), Attribute(device, name), before, wanted, undo)
    ]
    if name == "mtu" and premises.links:
        # What carries a link has its MTU. The other direction is that of the other end.
        carried = LinkLimits((f"mtu={setting.value}",), device, "to", keep=setting.keep)
        with contextlib.suppress(middles.NoLimitsError):
            found += await _limits(carried, premises)
    return found


def _device_of(setting: LinkAttribute, premises: Premises) -> str:
    """The interface that a setting means. AgentError if there is none."""
    device = setting.device or (premises.device if not setting.to else "")
    if not device and putback.index(setting.to):
        # Interfaces of a lab have the names of their neighbours.
        device = setting.to
    elif not device and setting.address:
        device = routes.device_to(ip_address(setting.address), default="")
    if not device:
        raise AgentError(f"no interface leads to {setting.to}")
    _check(device, premises)
    return device


async def _limits(setting: LinkLimits, premises: Premises) -> list[SettingPlan]:
    allowed.check_device(setting.to)
    found = []
    maker = made.maker(proc.ground_inside())
    forth, back = await middles.find(premises.links, setting.to)
    for direction, each in setting.among(("to", forth), ("from", back)):
        thing = Limits(each.namespace, each.device)
        steps, undo = middles.plan(each, each.after(setting.values), maker)
        one = setting.having(direction=direction)
        found.append(SettingPlan(one, thing, await thing.show(), steps, undo))
    return found


async def _metrics(setting: RouteMetrics, premises: Premises) -> list[SettingPlan]:
    if not setting.address:
        raise AgentError(f"{setting.target}: its address is not known")
    address = str(ip_address(setting.address))
    route = await metrics.find(address)
    _check(route.device, premises)
    thing = Route(address)
    return [SettingPlan(setting, thing, await thing.show(), *metrics.plan(setting, route))]


def _check(device: str, premises: Premises) -> None:
    """Raise if scripts may not set anything of this interface."""
    allowed.check_device(device)
    premises.check_interface(device, managing=routes.managing())


_Planner: TypeAlias = Callable[[Any, Premises], Awaitable[list[SettingPlan]]]

_KINDS: Mapping[type[Setting], _Planner] = {
    Sysctl: _sysctl,
    ModuleParameter: _module_parameter,
    Qdisc: _qdisc,
    Netem: _qdisc,
    LinkAttribute: _attribute,
    LinkLimits: _limits,
    RouteMetrics: _metrics,
}
