"""The limits of hosts whose observance a script shows: agents keep them, and controllers check them
before a run.

Each check raises NotAllowedError, whose remedy names the key of agent.toml to change.
"""

import math
from collections.abc import Callable
from typing import ParamSpec

from netesto import units
from netesto.errors import NotAllowedError
from netesto.model import FlowSpec

P = ParamSpec("P")

# An agent of `run --ssh` has none.
FILE = "the agent.toml of an installed agent"

# The maximum that a capture keeps of a packet: a super-packet of offloads with its headers.
_PACKET_BYTES = 65_536 + 64


def whole_s(flow: FlowSpec) -> float:
    """How long a host is busy with a flow: with its delay, and the pings before and after it."""
    return flow.delay_s + flow.duration_s + 2 * flow.idle_s


def flows_of(flow: FlowSpec) -> int:
    """How many flows a group has."""
    return flow.instances * max(1, flow.parallel)


def captured_bytes(packets: int, snap_bytes: int) -> int:
    """The largest size of a capture; 0 `snap_bytes` are whole packets."""
    return packets * min(snap_bytes or _PACKET_BYTES, _PACKET_BYTES)


def check_duration(flow: FlowSpec, most_s: float) -> None:
    """Whether a flow is not too long."""
    if whole_s(flow) > most_s:
        said = f"a flow of {whole_s(flow):g} s, with its delay; the longest is {most_s:g} s"
        raise refusal(said, "duration", f"{math.ceil(whole_s(flow))}s")


def check_flows(flow: FlowSpec, most: float, *, running: int = 0) -> None:
    """Whether a group may start beside the `running` flows."""
    flows = running + flows_of(flow)
    if flows > most:
        raise refusal(f"{flows} flows at the same time; {most:g} are allowed", "flows", flows)


def check_capture(packets: int, snap_bytes: int, most_bytes: float) -> None:
    """Whether a capture stays small enough."""
    size = captured_bytes(packets, snap_bytes)
    if size > most_bytes:
        raise NotAllowedError(
            f"a capture of up to {units.format_bytes(size)};"
            f" {units.format_bytes(most_bytes)} are allowed",
            remedy=f"Capture fewer packets, or less of each (snap=128), or write in {FILE}:"
            f' [limits] captures = "{math.ceil(size / 1e9)}G"',
        )


def refused(check: Callable[P, None], *values: P.args, **named: P.kwargs) -> str:
    """The refusal of a check, with the key to change; "" if there is none."""
    try:
        check(*values, **named)
    except NotAllowedError as error:
        return str(error)
    return ""


def refusal(said: str, key: str, example: object, *, first: str = "") -> NotAllowedError:
    """What a host refuses, with the key that would allow it, and an `example` of its value."""
    shown = str(example).replace("'", '"') if isinstance(example, list | int) else f'"{example}"'
    return NotAllowedError(
        said, remedy=f"{first}To allow it, write in {FILE}: [limits] {key} = {shown}"
    )
