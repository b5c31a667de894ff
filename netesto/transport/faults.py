"""Transfers errors: each becomes a `Fault` at the agent, and is raised at the caller.

Texts of an agent name no host: the caller adds the name by which it knows the agent.
"""

from dataclasses import dataclass
from typing import Literal, NoReturn

from netesto.errors import (
    AgentBusyError,
    AgentError,
    HoldEndedError,
    MissingError,
    NetestoError,
)

FaultKind = Literal["agent", "busy", "ended", "missing"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call failed. Only "busy" has a `holder`."""

    kind: FaultKind
    message: str
    remedy: str = ""
    holder: str = ""


def of(error: Exception) -> Fault:
    """The fault of an error. An error that is not a NetestoError is an internal error of the
    agent."""
    match error:
        case AgentBusyError():
            return Fault("busy", error.message, error.remedy, error.holder)
        case HoldEndedError():
            return Fault("ended", error.message, error.remedy)
        case MissingError():
            return Fault("missing", error.message, error.remedy)
        case NetestoError():
            return Fault("agent", error.message, error.remedy)
        case _:
            message = f"internal error of the agent: {type(error).__name__}: {error}"
            return Fault("agent", message, "Please report it, with the log of the agent.")


def is_foreseen(error: Exception) -> bool:
    """False for an internal error, which the agent logs."""
    return isinstance(error, NetestoError)


def throw(fault: Fault, *, host: str) -> NoReturn:
    """Raise the error of a fault, with the name of the host."""
    match fault.kind:
        case "busy":
            raise AgentBusyError(fault.holder, host=host, remedy=fault.remedy)
        case "ended":
            raise HoldEndedError(fault.message, host=host, remedy=fault.remedy)
        case "missing":
            raise MissingError(f"{host}: {fault.message}", remedy=fault.remedy)
        case "agent":
            raise AgentError(fault.message, host=host, remedy=fault.remedy)
