"""Settings of a host: planned as data, journaled, made and read back; `putback` undoes them.

The functions `plan_…` are pure: from a setting and the previous state they derive the steps and
their undoing.
"""

import asyncio
import contextlib
import errno
import logging
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TypeAlias

from netesto.agent import asking, commands, interfaces, metrics, middles, putback, qdiscs, routes
from netesto.agent.experiment import Premises
from netesto.agent.journal import Change, Run, Step, Write
from netesto.agent.qdiscs import RootQdisc
from netesto.errors import AgentError, MissingError, NotAllowedError, ProcessError
from netesto.hostsettings import (
    Applied,
    Command,
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
from netesto.units import decimal

Value: TypeAlias = Sysctl | ModuleParameter

ITS_OWN_KERNEL = "With --ground uml or sim the lab has a kernel of its own."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to make a setting of a `thing` (putback.shown), and how to undo it. `warning` says what
    cannot be put back."""

    what: str
    thing: str
    steps: tuple[Step, ...]
    undo: tuple[Step, ...]
    warning: str = ""


def plan_value(setting: Value, before: str) -> Plan:
    """`before` is the value the kernel has now. AgentError if a script may not set it so."""
    value = " ".join(setting.value.split())
    match setting:
        case Sysctl(name):
            allowed.check_sysctl(name, value)
        case ModuleParameter(module, name):
            allowed.check_module_parameter(module, name, value)
    what, file = _named(setting)
    path = str(file)
    return Plan(f"{what}={value}", path, (Write(path, value),), (Write(path, before),))


def _named(setting: Value) -> tuple[str, Path]:
    """The name of what is set, and the kernel's file of it. /proc/sys/net belongs to the network
    namespace of the process that opens it."""
    match setting:
        case Sysctl(name):
            return f"sysctl {name}", Path("/proc/sys", *name.split("."))
        case ModuleParameter(module, name):
            path = Path("/sys/module", module, "parameters", name)
            return f"module parameter {module} {name}", path


def plan_qdisc(setting: Qdisc, before: RootQdisc | None) -> Plan:
    """`before` is the root now, None the kernel's own. AgentError if a script may not set it so.

    Without an action the old root is deleted first; the kernel's own can only be replaced.
    """
    allowed.check_qdisc(setting.kind, setting.options, setting.action)
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
    words = (setting.action, setting.kind, *setting.options)
    what = f"qdisc {setting.device}: {' '.join(word for word in words if word)}"
    thing = f"{putback.QDISC}{setting.device}"
    return Plan(what, thing, tuple(steps), tuple(undo) if steps else (), warning)


def plan_netem(setting: Netem, before: RootQdisc | None) -> Plan:
    """Netem as a root qdisc. Without delay and loss it is removed; other qdiscs are not."""
    allowed.check_netem(setting.delay_ms, setting.limit_packets, setting.loss_percent)
    if setting.delay_ms == 0 and setting.loss_percent == 0:
        if before is None or before.kind != "netem":
            return Plan(
                f"qdisc {setting.device}: no netem", f"{putback.QDISC}{setting.device}", (), ()
            )
        return plan_qdisc(Qdisc("netem", (), "delete", setting.device), before)
    options = ["limit", str(setting.limit_packets)]
    if setting.delay_ms:
        options += ["delay", f"{decimal(setting.delay_ms)}ms"]
    if setting.loss_percent:
        options += ["loss", f"{decimal(setting.loss_percent)}%"]
    return plan_qdisc(Qdisc("netem", tuple(options), "", setting.device), before)


class Settings:
    """The settings made on this host."""

    def __init__(self, premises: Premises, *, on_warning: Callable[[str], None]) -> None:
        self._premises = premises
        self._journal = premises.journal
        self._on_warning = on_warning
        self._turn = asyncio.Lock()
        self._made_s = 0.0
        # What was set last of each thing, and what the kernel showed of it then.
        self._set: dict[str, Change] = {}
        # Differences that were found before a command of the script changed things itself.
        self._found: list[str] = []

    async def apply(self, setting: Setting) -> Applied:
        """Make one setting; if that fails, leave everything as it was and raise the reason."""
        async with self._turn:
            applied = await self._apply(setting)
            return replace(applied, made_s=self._made_s)

    async def _apply(self, setting: Setting) -> Applied:
        match setting:
            case Command():
                return await self._run(setting)
            case LinkAttribute():
                return await self._apply_attribute(setting)
            case LinkLimits():
                return await self._apply_limits(setting)
            case RouteMetrics():
                return await self._apply_metrics(setting)
            case Sysctl(name) if name in allowed.KERNEL_WIDE and self._premises.is_in_lab:
                return await self._apply_to_kernel(setting)
            case Sysctl() | ModuleParameter():
                return await self._apply_value(setting)
            case Qdisc() | Netem():
                return await self._apply_qdisc(setting)

    async def changed(self) -> list[str]:
        """A sentence for each thing that is not as this run has set it."""
        async with self._turn:
            return [*self._found, *await self._differences()]

    async def _differences(self) -> list[str]:
        each = [(change, await putback.shown(change.thing)) for change in self._set.values()]
        return [
            f"{change.what}: cannot be read any more, and may have changed"
            if now is None
            else f"{change.what}: another program has changed it, to {now or 'the default'}"
            for change, now in each
            if now is None or not putback.is_ours(change, now)
        ]

    async def _run(self, command: Command) -> Applied:
        """Run a command, which may change what was set: the script has requested that."""
        self._found += await self._differences()
        said = await commands.run(self._premises.commands, command.name, command.values)
        self._made_s = self._premises.clock.now()
        for change in self._set.values():
            now = await putback.shown(change.thing)
            self._set[change.thing] = replace(change, shows=now or "")
        if not commands.is_fine(said):
            self._on_warning(f"{command.words}: {said}")
        log.info("command run", extra={"setting": command.words, "result": said[:100]})
        return Applied(command.words, "", said)

    async def restore(self) -> list[str]:
        """Undo everything, the last first; a sentence for each thing that is not as it was."""
        async with self._turn:
            _, left = await putback.restore(self._journal)
            return left

    async def _apply_value(self, setting: Value) -> Applied:
        # Do not read what is not allowed.
        plan_value(setting, "")
        what, path = _named(setting)
        try:
            before = putback.fields(path)
        except FileNotFoundError:
            raise _absent(setting, what, path) from None
        except OSError as error:
            raise AgentError(f"{what}: {error.strerror}") from None
        plan = plan_value(setting, before)
        try:
            number = await self._carry_out(plan, before, keep=setting.keep)
        except OSError as error:
            kind = allowed.NAMING_SYSCTLS.get(setting.name)
            if kind is not None and error.errno in (errno.ENOENT, errno.EINVAL):
                raise MissingError(
                    f"{kind} {setting.value}: not in this kernel ({platform.release()})"
                ) from None
            raise AgentError(f"{plan.what}: {error.strerror}") from None
        after = putback.fields(path)
        return self._noted(plan, number, after, keep=setting.keep, values=(before, after))

    async def _apply_to_kernel(self, setting: Sysctl) -> Applied:
        """Set it for all hosts of a lab whose kernel ends with the run: nothing is put back."""
        plan = plan_value(setting, "")
        if os.environ.get(proc.GROUND_MARK) is None:
            raise NotAllowedError(
                f"{plan.what}: belongs to the whole kernel of this machine", remedy=ITS_OWN_KERNEL
            )
        name, value = setting.name, " ".join(setting.value.split())
        before = await putback.shown_of_kernel(name)
        try:
            await putback.do(putback.of_kernel(name, value))
        except ProcessError as error:
            raise asking.error_of(plan.what, error) from None
        self._made_s = self._premises.clock.now()
        thing = f"{putback.KERNEL}{name}"
        after = await putback.shown_of_kernel(name)
        self._set[thing] = Change(0, plan.what, (), thing, after)
        return Applied(plan.what, before, after, thing=thing)

    async def _apply_qdisc(self, asked: Qdisc | Netem) -> Applied:
        device = asked.device or self._premises.device
        self._check(device)
        before, shown_before = await qdiscs.read_root(device)
        match asked:
            case Qdisc(kind, options, action):
                plan = plan_qdisc(Qdisc(kind, options, action, device), before)
            case Netem(delay_ms, limit, loss):
                plan = plan_netem(Netem(delay_ms, limit, loss, device), before)
        number = await self._carry_out(plan, qdiscs.described(before), keep=asked.keep)
        if plan.warning and not asked.keep:
            self._on_warning(plan.warning)
        after, shown_after = await qdiscs.read_root(device)
        values = shown_before, shown_after
        return self._noted(plan, number, qdiscs.described(after), keep=asked.keep, values=values)

    def _check(self, device: str) -> None:
        """Raise if scripts may not set anything of this interface."""
        allowed.check_device(device)
        self._premises.check_interface(device, managing=routes.managing())

    async def _device_of(self, asked: LinkAttribute) -> str:
        """The interface that a setting means. AgentError if there is none."""
        device = asked.device or (self._premises.device if not asked.to else "")
        if not device and putback.index(asked.to):
            # Interfaces of a lab have the names of their neighbours.
            device = asked.to
        elif not device and asked.address:
            device = routes.device_to(ip_address(asked.address), default="")
        if not device:
            raise AgentError(f"no interface leads to {asked.to}")
        self._check(device)
        return device

    async def _apply_attribute(self, asked: LinkAttribute) -> Applied:
        allowed.check_link_attribute(asked.name, asked.value)
        device, name = await self._device_of(asked), asked.name
        known = await interfaces.shown(device)
        interfaces.check_there(device, name, asked.value, known)
        what = f"link {device}: {name}={asked.value}"
        before = known[name].partition(" ")[0]
        plan = Plan(
            what,
            f"{putback.LINK}{device} {name}",
            interfaces.steps(device, name, known | {name: asked.value})
            if before != asked.value
            else (),
            interfaces.steps(device, name, known),
        )
        number = await self._carry_out(plan, before, keep=asked.keep)
        after = (await interfaces.shown(device)).get(name, "")
        applied = self._noted(
            plan, number, after.partition(" ")[0], keep=asked.keep, values=(before, after)
        )
        if name == "mtu" and self._premises.links:
            # What carries a link has its MTU. The other direction is that of the other end.
            given = LinkLimits((f"mtu={asked.value}",), device, "to", keep=asked.keep)
            with contextlib.suppress(middles.NoLimitsError):
                await self._apply_limits(given)
        return applied

    async def _apply_limits(self, asked: LinkLimits) -> Applied:
        allowed.check_device(asked.to)
        directions = asked.among(*await middles.find(self._premises.links, asked.to))
        maker = made.maker(os.environ.get(proc.GROUND_MARK))
        # All must be possible before the first change.
        plans = []
        for each in directions:
            wanted = each.after(asked.given)
            what = f"link {each.device}: {' '.join(asked.settings)}"
            plans.append(Plan(what, each.thing, *middles.plan(each, wanted, maker)))
        applied: list[Applied] = []
        for plan in plans:
            before = await middles.shown(plan.thing)
            number = await self._carry_out(plan, before, keep=asked.keep)
            after = await middles.shown(plan.thing)
            applied.append(
                self._noted(plan, number, after, keep=asked.keep, values=(before, after))
            )
        return replace(applied[0], setting="; ".join(each.setting for each in applied))

    async def _apply_metrics(self, asked: RouteMetrics) -> Applied:
        allowed.check_route_metrics(asked.rto_min_ms, asked.initcwnd, asked.initrwnd)
        if not asked.address:
            raise AgentError(f"route to {asked.to}: its address is not known")
        address = str(ip_address(asked.address))
        route = await metrics.find(address)
        self._check(route.device)
        make, undo = metrics.plan(asked, route)
        values = {
            "rto_min": asked.rto_min_ms, "initcwnd": asked.initcwnd, "initrwnd": asked.initrwnd,
        }  # fmt: skip
        words = " ".join(f"{name}={value:g}" for name, value in values.items() if value is not None)
        plan = Plan(f"route to {asked.to}: {words}", f"{putback.ROUTE}{address}", make, undo)
        before = await metrics.shown(address)
        number = await self._carry_out(plan, before, keep=asked.keep)
        after = await metrics.shown(address)
        return self._noted(plan, number, after, keep=asked.keep, values=(before, after))

    def _noted(
        self, plan: Plan, number: int, shows: str, *, keep: bool, values: tuple[str, str]
    ) -> Applied:
        """Note what the kernel shows after a change, and whether it stays; what became of it, with
        its `values` before and after."""
        self._set[plan.thing] = Change(number, plan.what, (), plan.thing, shows)
        if keep:
            # Only now, so that a killed agent's change is put back until here.
            self._journal.kept(plan.thing)
            log.info("setting kept", extra={"setting": plan.what})
            return Applied(f"{plan.what} (kept)", *values, thing=plan.thing)
        if number:
            self._journal.made(number, shows)
        undo = "; ".join(map(putback.words, plan.undo)) if plan.steps else ""
        return Applied(plan.what, *values, thing=plan.thing, undo=undo)

    async def _carry_out(self, plan: Plan, before: str, *, keep: bool) -> int:
        """Journal, then execute; if a step fails, undo and pass the error on. Return the change's
        number, 0 without a change."""
        self._made_s = self._premises.clock.now()
        if not plan.steps:
            return 0
        earlier = [each for each in self._journal.remains().changes if each.thing == plan.thing]
        if earlier and not putback.is_ours(earlier[0], before):
            # Earlier states are obsolete; `before` is what will be put back.
            for change in earlier:
                self._journal.undone(change.number)
            becomes = "replaced for good" if keep else "put back at the end"
            self._on_warning(putback.changed_since(earlier[0], before, becomes))
        interface = putback.index(putback.device_of(plan.thing))
        number = self._journal.begin(plan.what, plan.undo, thing=plan.thing, interface=interface)
        try:
            for step in plan.steps:
                await putback.do(step)
        except (ProcessError, OSError) as error:
            if await putback.shown(plan.thing) == before or await putback.undo(
                plan.what, plan.undo
            ):
                self._journal.undone(number)
            if isinstance(error, ProcessError):
                raise asking.error_of(plan.what, error) from None
            raise
        self._made_s = self._premises.clock.now()
        log.info("setting made", extra={"setting": plan.what})
        return number


def _absent(setting: Value, what: str, path: Path) -> MissingError:
    match setting:
        case Sysctl():
            return MissingError(
                f"{what}: not here (kernel {platform.release()})",
                remedy="some exist only outside of network namespaces, some only in other kernels",
            )
        case ModuleParameter(module) if not path.parent.exists():
            return MissingError(f"{what}: module {module} is not loaded")
    has = ", ".join(sorted(entry.name for entry in path.parent.iterdir()))
    return MissingError(f"{what}: not in this kernel", remedy=f"it has: {has}")
