"""How qdiscs limit a link of a lab: what its builder (lab.queueing) and the agent that changes the
limits of a link (agent.middles) calculate alike."""

import math
from collections.abc import Mapping
from typing import Literal

# Queues count the Ethernet header, too.
FRAME_HEADER_BYTES = 14

# The qdiscs of links, and what their limits count.
QDISC_COUNTS: Mapping[str, Literal["bytes", "packets"]] = {
    "bfifo": "bytes",
    "cake": "bytes",
    "codel": "packets",
    "fq": "packets",
    "fq_codel": "packets",
    "fq_pie": "packets",
    "pfifo": "packets",
    "pie": "packets",
    "red": "bytes",
    "sfq": "packets",
}

# By default a queue holds one BDP, so that one Reno flow keeps the link busy after halving its
# window; on shorter paths, the BDP of a path with this RTT.
_DEFAULT_QUEUE_RTT_MS = 50.0

# At least the initial window of RFC 6928.
_SMALLEST_DEFAULT_QUEUE_PACKETS = 10

# The mean packet size that tc(8) advises for RED. The thresholds are tc's defaults: a quarter and a
# twelfth of the limit.
RED_PACKET_BYTES = 1000

# A token bucket achieves its rate only if it never overflows between two refills. Timers of a busy
# virtual machine are late by some hundred microseconds.
BURST_S = 0.001

# A user-mode kernel is a process and has to wait for a processor: at 100 Mbit/s, beside three
# programs that kept both processors busy, 1 ms gave 86 % of the rate, and 5 ms all of it.
_GROUND_BURSTS_S: Mapping[str, float] = {"uml": 0.005}

# The minimum burst: a packet being sent and the next one.
_SMALLEST_BURST_PACKETS = 2

# A delay line without a rate must hold this: the highest rate measured with veth.
_UNSHAPED_RATE_BPS = 20e9

# A delay line counts packets, also those of a burst that the queue behind it will drop: with room
# for 1009 it dropped 61 when eight senders began on 1 Gbit/s and 50 us, which no queue then
# counted. Beside these it must hold the packets of a link that carries the smallest ones, twice for
# load above its rate. With room for large ones only, it dropped 41 % of datagrams of 100 bytes that
# took 71 % of a link of 100 Mbit/s and 50 ms.
_SMALLEST_DELAY_LINE_PACKETS = 10_000
_SMALLEST_FRAME_BYTES = 64
# tc counts them in 32 bits.
_LARGEST_DELAY_LINE_PACKETS = 2**32 - 1


def limit_word(kind: str) -> str:
    """The name of a queue's limit, as tc shows and accepts it."""
    return "memlimit" if kind == "cake" else "limit"


def queue_bytes(rate_bps: float, delay_ms: float, mtu: int) -> int:
    """The capacity of a queue without limit=, before a rate and a delay."""
    rtt_ms = max(_DEFAULT_QUEUE_RTT_MS, 2 * delay_ms)
    least = _SMALLEST_DEFAULT_QUEUE_PACKETS * (mtu + FRAME_HEADER_BYTES)
    return max(least, round(rate_bps / 8 * rtt_ms / 1000))


def burst_s(ground: str | None) -> float:
    """The burst of shapers on a ground, in seconds of their rates."""
    return _GROUND_BURSTS_S.get(ground or "", BURST_S)


def burst_bytes(rate_bps: float, mtu: int, burst_s: float = BURST_S) -> int:
    """The burst of a shaper in bytes. tbf segments larger super-packets."""
    least = _SMALLEST_BURST_PACKETS * (mtu + FRAME_HEADER_BYTES)
    return max(least, math.ceil(rate_bps / 8 * burst_s))


def delay_line_packets(rate_bps: float | None, longest_ms: float) -> int:
    """The capacity of a delay line that delays packets by so much, before a rate or none."""
    rate_bps = _UNSHAPED_RATE_BPS if rate_bps is None else rate_bps
    in_the_air = rate_bps / 8 * longest_ms / 1000 / _SMALLEST_FRAME_BYTES
    packets = _SMALLEST_DELAY_LINE_PACKETS + math.ceil(2 * in_the_air)
    return min(packets, _LARGEST_DELAY_LINE_PACKETS)
