"""How an error crosses the border: reduced to a `Fault` at the agent, raised again at the caller.

At the agent a text names no host; the caller's side adds it, for only the caller knows by which
name it speaks of the agent.
"""

from dataclasses import dataclass
from typing import Literal, NoReturn

from netesto.errors import AgentBusyError, AgentError, MissingError, NetestoError

FaultKind = Literal["agent", "busy", "missing"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call failed. `holder` is known for "busy" alone."""

    kind: FaultKind
    message: str
    remedy: str = ""
    holder: str = ""


def of(error: Exception) -> Fault:
    """What the caller is told of `error`. One that is none of ours is a fault in the agent."""
    match error:
        case AgentBusyError():
            return Fault("busy", error.message, error.remedy, error.holder)
        case MissingError():
            return Fault("missing", error.message, error.remedy)
        case NetestoError():
            return Fault("agent", error.message, error.remedy)
        case _:
            message = f"fault in the agent: {type(error).__name__}: {error}"
            return Fault("agent", message, "its log has the details")


def is_foreseen(error: Exception) -> bool:
    """False for an error that only a fault in the agent's code explains; its log wants to know."""
    return isinstance(error, NetestoError)


def throw(fault: Fault, *, host: str) -> NoReturn:
    """Raise the error that `fault` tells of, naming the host."""
    match fault.kind:
        case "busy":
            raise AgentBusyError(fault.holder, host=host, remedy=fault.remedy)
        case "missing":
            raise MissingError(f"{host}: {fault.message}", remedy=fault.remedy)
        case "agent":
            raise AgentError(fault.message, host=host, remedy=fault.remedy)
