"""What ip(8), tc(8) and ethtool(8) show, and what they complain about."""

import platform
from typing import Any

from netesto.errors import AgentError, MissingError, NetestoError, ProcessError
from netesto.files import jsontext
from netesto.system import proc, process

# They answer in milliseconds.
TIMEOUT_S = 5.0


async def output(*argv: str, check: bool = True) -> str:
    """The output of a command. AgentError with its complaint if it fails; without `check` only if
    it cannot be run."""
    try:
        return (await process.run_async(argv, timeout=TIMEOUT_S, check=check)).stdout
    except ProcessError as error:
        raise error_of(" ".join(argv), error) from None


def first(text: str) -> dict[str, Any]:
    """The first object of a list in JSON; empty if there is none."""
    try:
        found = jsontext.parse(text)[0]
    except (ValueError, LookupError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def error_of(what: str, error: ProcessError) -> NetestoError:
    """The error of a command that failed."""
    if "qdisc kind is unknown" in str(error) or "Unknown qdisc" in str(error):
        return MissingError(
            f"{what}: this qdisc is not in this kernel ({platform.release()})",
            remedy="" if proc.ground_inside() else "`--ground uml` has a kernel with more of them",
        )
    return AgentError(f"{what}: {str(error).partition(': ')[2].strip() or error}")
