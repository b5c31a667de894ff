"""What the agents allow of SET_ commands, asked before a run, so that mistakes have their place.

An agent judges for itself when it is asked; these are the same tables.
"""

from collections.abc import Iterable

from netesto import allowed
from netesto.errors import NotAllowedError
from netesto.language import ports
from netesto.language.scope import MisuseError
from netesto.nearest import hint


def check(command: ports.RemoteCommand) -> None:
    """MisuseError unless a script may set what a SET_ command asks for."""
    try:
        match command:
            case ports.SetNetem(delay_ms=delay_ms, limit_packets=limit, loss_percent=loss):
                allowed.check_netem(delay_ms, limit, loss)
            case ports.SetQdisc(qdisc=kind, options=options, action=action):
                allowed.check_qdisc(kind, options, action)
    except NotAllowedError as error:
        raise MisuseError(
            error.message, near=_near(error.message), remedy=_sentence(error.remedy)
        ) from None
    match command:
        case ports.SetSysctl(values=values):
            for name, value in values.items():
                check_sysctl(name, value)
        case ports.SetModuleParams(module=module, values=values):
            for name, value in values.items():
                check_module_parameter(module, name, value)


def check_sysctl(name: str, value: str) -> None:
    """MisuseError unless a script may set a sysctl so; `value` has its fields separated by single
    blanks."""
    try:
        allowed.check_sysctl(name, value)
    except NotAllowedError as error:
        raise _misuse(error, name, allowed.SYSCTLS) from None


def check_module_parameter(module: str, name: str, value: str) -> None:
    """MisuseError unless a script may set a parameter of a module so."""
    try:
        allowed.check_module_parameter(module, name, value)
    except NotAllowedError as error:
        if module in allowed.MODULE_PARAMETERS:
            raise _misuse(error, name, allowed.MODULE_PARAMETERS[module]) from None
        remedy = hint(module, allowed.MODULE_PARAMETERS, otherwise=_sentence(error.remedy))
        raise MisuseError(error.message, near=("module=",), remedy=remedy) from None


def _near(message: str) -> tuple[str, ...]:
    """The argument of SET_QDISC or SET_NETEM that a message is about."""
    words = ("action", "rate", "burst", "limit", "loss")
    named = [f"{word}=" for word in words if f" {word}" in message]
    return (*named[:1], "other=", "qdisc=", "netem_delay=")


def _misuse(error: NotAllowedError, name: str, names: Iterable[str]) -> MisuseError:
    """At the value if the name is known, else at the name, with the nearest one."""
    if name in names:
        return MisuseError(error.message, near=(f"{name}=",), remedy=_sentence(error.remedy))
    remedy = hint(name, names, otherwise=_sentence(error.remedy))
    return MisuseError(error.message, near=(name,), remedy=remedy)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
