"""What commands need from hosts, as far as it can be checked before a run."""

from collections.abc import Hashable
from dataclasses import fields
from operator import attrgetter

from netesto.allowed import NAMING_SYSCTLS
from netesto.language import ports
from netesto.model import (
    Command,
    FlowSpec,
    LinkAttribute,
    LinkLimits,
    ModuleParameter,
    Netem,
    Qdisc,
    RouteMetrics,
    Setting,
    Sysctl,
)

# What is the same to every host and tool, whatever its value.
_ANYWHERE = {"duration_s", "delay_s", "instances", "interval_s", "stats", "idle_s"}
_demands_of_flow = attrgetter(
    *(each.name for each in fields(FlowSpec) if each.name not in _ANYWHERE)
)


def demands(command: ports.RemoteCommand) -> Hashable:
    """Equal for commands with the same needs."""
    match command:
        case ports.DoClient():
            flow: Hashable = _demands_of_flow(command.flow)
            return (command.name, command.host, command.server, flow)
        case ports.DoTcpdump():
            return (command.name, command.host, command.server)
        case ports.Configure():
            return (command.name, command.host, *map(_demand, command.settings))
        case _:
            return (command.name, command.host)


def _demand(setting: Setting) -> Hashable:
    match setting:
        case Qdisc():
            return setting.kind, setting.action, setting.device, setting.keep
        case Netem():
            delays = bool(setting.delay_ms or setting.loss_percent)
            return delays, setting.device, setting.keep
        case LinkAttribute():
            return setting.name, setting.to, setting.device, setting.keep
        case LinkLimits():
            return "limits", setting.to, setting.keep
        case Command():
            return "command", setting.name, setting.values
        case RouteMetrics():
            return "route", setting.to, setting.keep
        case Sysctl():
            value = setting.value if setting.name in NAMING_SYSCTLS else ""
            return setting.name, value, setting.keep
        case ModuleParameter():
            return setting.module, setting.name, setting.keep
