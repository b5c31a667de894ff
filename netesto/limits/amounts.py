"""The limits of hosts whose observance a script shows: agents keep them, and controllers check them
before a run.

Each check raises NotAllowedError, whose remedy names the key of agent.toml to change.
"""

import math
from collections.abc import Callable
from typing import ParamSpec

from netesto import units
from netesto.errors import NotAllowedError
from netesto.flowspec import FlowSpec

P = ParamSpec("P")

# An agent of `run --ssh` has none.
FILE = "the agent.toml of an installed agent"

# What a capture keeps of a packet beside its MTU: headers of the link, and those of the file.
_HEADER_BYTES = 64


def whole_s(flow: FlowSpec) -> float:
    """How long a host is busy with flows: with their delay, and the pings before and after them."""
    return flow.delay_s + flow.spread_s + flow.duration_s + 2 * flow.idle_s


def flows_of(flow: FlowSpec) -> int:
    """How many flows a group has."""
    return flow.instances * max(1, flow.parallel)


# Of Ethernet, before the interface is known.
MTU_BYTES = 1500


def captured_bytes(packets: int, snap_bytes: int, mtu_bytes: int = MTU_BYTES) -> int:
    """The size of a capture of full packets at an interface; 0 `snap_bytes` are whole packets. With
    offloads it may become larger: super-packets are captured as one."""
    packet_bytes = mtu_bytes + _HEADER_BYTES
    return packets * min(snap_bytes or packet_bytes, packet_bytes)


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


def check_capture(packets: int, snap_bytes: int, mtu_bytes: int, most_bytes: float) -> None:
    """Whether a capture stays small enough, as far as is known before: it ends at `most_bytes`."""
    size = captured_bytes(packets, snap_bytes, mtu_bytes)
    if size > most_bytes:
        raise NotAllowedError(
            f"a capture of about {units.format_bytes(size)};"
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
