"""The queues that a link can have: what their limits count, and what tc calls their settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["bytes", "packets"]

# Queues count the Ethernet header, too.
FRAME_HEADER_BYTES = 14

# The mean packet size that tc(8) advises for RED. Without min= and max= its thresholds are tc's: a
# quarter and a twelfth of the limit.
RED_PACKET_BYTES = 1000

# By default a queue holds one BDP, so that one Reno flow keeps the link busy after halving its
# window; on shorter paths, the BDP of a path with this RTT.
_DEFAULT_QUEUE_RTT_MS = 50.0

# At least the initial window of RFC 6928.
_SMALLEST_DEFAULT_QUEUE_PACKETS = 10


@dataclass(frozen=True, slots=True)
class QueueKind:
    """A qdisc: the unit of its limit and tc's word for it, and tc's words for the settings that it
    takes. `is_fixed`: it cannot change in place. `knows_mtu`: it derives values from the MTU of its
    interface when it is made."""

    counts: Unit
    settings: Mapping[str, str] = field(default_factory=dict)
    limit_word: str = "limit"
    is_fixed: bool = False
    knows_mtu: bool = False


_CODEL = {"target": "target", "interval": "interval", "ecn": "ecn", "mark": "ce_threshold"}
_PIE = {"target": "target", "tupdate": "tupdate", "ecn": "ecn"}
_FAIR = {"quantum": "quantum", "flows": "flows"}

QUEUES: Mapping[str, QueueKind] = {
    "bfifo": QueueKind("bytes"),
    "cake": QueueKind("bytes", {"interval": "rtt"}, limit_word="memlimit"),
    "codel": QueueKind("packets", _CODEL, knows_mtu=True),
    "dualpi2": QueueKind(
        "packets", {"target": "target", "tupdate": "tupdate", "mark": "step_thresh"}
    ),
    "fq": QueueKind("packets", {"quantum": "quantum"}, knows_mtu=True),
    "fq_codel": QueueKind("packets", {**_CODEL, **_FAIR}, knows_mtu=True),
    "fq_pie": QueueKind("packets", {**_PIE, **_FAIR}, knows_mtu=True),
    "pfifo": QueueKind("packets"),
    "pie": QueueKind("packets", _PIE),
    "red": QueueKind("bytes", {"min": "min", "max": "max", "ecn": "ecn"}),
    "sfq": QueueKind("packets", _FAIR, is_fixed=True, knows_mtu=True),
}


def default_queue_bytes(rate_bps: float, delay_ms: float, mtu: int) -> int:
    """The capacity of a queue without limit=, before a rate and a delay."""
    rtt_ms = max(_DEFAULT_QUEUE_RTT_MS, 2 * delay_ms)
    least = _SMALLEST_DEFAULT_QUEUE_PACKETS * (mtu + FRAME_HEADER_BYTES)
    return max(least, round(rate_bps / 8 * rtt_ms / 1000))
