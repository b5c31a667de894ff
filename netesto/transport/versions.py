"""Whether two ends of a connection understand each other: each sends its protocol number first.

Most changes need no new number: what a newer agent adds to its replies is left out, and what a
newer controller adds to its requests is refused, with the reason (transport.codec).
"""

import netesto
from netesto.errors import AgentError

# Incremented when an end with the old number would misunderstand one with the new. 0: a version
# that told no number.
PROTOCOL = 2


def check(other: str, protocol: int, version: str, *, host: str = "") -> None:
    """AgentError with both versions if the `other` end ("agent", "controller") has another protocol
    number than this one."""
    if protocol == PROTOCOL:
        return
    ours = "controller" if other == "agent" else "agent"
    newer = version if protocol > PROTOCOL else netesto.__version__
    raise AgentError(
        f"the {other} has netesto {version or 'without a version'} (protocol {protocol}),"
        f" and the {ours} {netesto.__version__} (protocol {PROTOCOL})",
        host=host,
        remedy=f"Install the same version at both ends; the newer one is {newer}.",
    )
