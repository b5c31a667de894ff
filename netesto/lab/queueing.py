"""A link's limits as the words of tc(8): a delay line, then a shaper, then the queue before it."""

import math
from collections.abc import Mapping
from typing import TypeAlias

from netesto import units
from netesto.lab.links import FRAME_HEADER_BYTES, LinkSettings

# The words after `tc qdisc add dev DEVICE`.
Words: TypeAlias = tuple[str, ...]

# The qdisc by which the middle of a link takes in what it hands on.
ENTRANCE = "ingress"

# A token bucket gives the rate only if it never overflows while the kernel is late to refill it.
# Timers of a busy virtual machine are late by some hundred microseconds.
BURST_S = 0.001

# A user-mode kernel is a process, and waits its turn like any other: at 100 Mbit/s, beside three
# programs that kept both processors busy, 1 ms gave 86 % of the rate, and 5 ms all of it.
GROUND_BURSTS_S: Mapping[str, float] = {"uml": 0.005}

# The least that a shaper can hand on at once: a packet in the air and the one after it.
SMALLEST_BURST_PACKETS = 2

# What tc(8) advises for the mean size of packets, by which RED ages its mean queue; its thresholds
# are tc's own: a quarter of the limit, and a twelfth.
RED_PACKET_BYTES = 1000

# What a delay line without a rate must hold: the fastest that veth has carried here.
UNSHAPED_RATE_BPS = 20e9

# netem's own default, enough for the small packets (ACKs) of a shaped link.
SMALLEST_DELAY_LINE_PACKETS = 1000


def burst_s(ground: str | None) -> float:
    """How much a shaper lets through at once on a ground, in seconds of its rate."""
    return GROUND_BURSTS_S.get(ground or "", BURST_S)


def qdiscs(link: LinkSettings, *, burst_s: float = BURST_S) -> tuple[Words, ...]:
    """What each direction of the link needs in its middle, in the order of making; often nothing.

    ```
    root ─ netem (delay, jitter, loss) ─ tbf (rate) ─ queue (limit)
    ```
    netem hands on only what its time has come for, so a packet is first in the air and then in the
    queue. For a flow this is the same as the other way round; the queue's limit is then exact,
    which it would not be if packets in the air were counted in it.
    """
    stages = [words for words in (_delay_line(link), _shaper(link, burst_s), _queue(link)) if words]
    return tuple(
        (*(("parent", f"{place}:1") if place else ("root",)), "handle", f"{place + 1}:", *words)
        for place, words in enumerate(stages)
    )


def kinds(link: LinkSettings) -> tuple[str, ...]:
    """The kinds of qdisc that the link needs, for asking the kernel whether it has them."""
    made = tuple(words[words.index("handle") + 2] for words in qdiscs(link))
    return (*made, ENTRANCE) if made else ()


def wanted_by(link: LinkSettings, kind: str) -> str:
    """What in the settings needs a qdisc of this kind, for people."""
    if kind == ENTRANCE:
        return f"a link with limits ({link.describe()})"
    if kind == "netem":
        return " ".join(link.emulates)
    if kind == "tbf" and link.rate_bps is not None:
        return f"a rate of {units.format_rate(link.rate_bps)}"
    return f"qdisc={link.qdisc}" if link.qdisc else f"limit={link.limit}"


def burst_bytes(rate_bps: float, mtu: int, burst_s: float = BURST_S) -> int:
    """How much a shaper lets through at once. Super-packets above it are cut up by tbf."""
    least = SMALLEST_BURST_PACKETS * (mtu + FRAME_HEADER_BYTES)
    return max(least, math.ceil(rate_bps / 8 * burst_s))


def _delay_line(link: LinkSettings) -> Words:
    if not link.emulates:
        return ()
    words = ["netem"]
    if link.delay_ms:
        words += ["delay", f"{round(link.delay_ms * 1000)}us"]
    if link.jitter_ms:
        words += [f"{round(link.jitter_ms * 1000)}us"]
    if link.loss_percent:
        words += ["loss", f"{link.loss_percent:.6f}%"]
    rate_bps = link.rate_bps if link.rate_bps is not None else UNSHAPED_RATE_BPS
    in_the_air = rate_bps / 8 * (link.delay_ms + link.jitter_ms) / 1000 / link.mtu
    return (*words, "limit", str(SMALLEST_DELAY_LINE_PACKETS + math.ceil(2 * in_the_air)))


def _shaper(link: LinkSettings, burst_s: float) -> Words:
    if link.rate_bps is None:
        return ()
    burst = burst_bytes(link.rate_bps, link.mtu, burst_s)
    # Without a byte queue of its own tbf still wants a limit; the queue under it has the real one.
    limit = link.queue.amount if link.queue and link.queue.unit == "bytes" else burst
    rate = units.format_tc_rate(link.rate_bps)
    return ("tbf", "rate", rate, "burst", str(burst), "limit", str(limit))


def _queue(link: LinkSettings) -> Words:
    limit = link.queue
    kind = link.qdisc or ("pfifo" if limit is not None and limit.unit == "packets" else "")
    if not kind:
        return ()
    words: list[str] = [kind]
    if limit is not None:
        words += ["memlimit" if kind == "cake" else "limit", str(limit.amount)]
    if kind == "red":
        words += ["avpkt", str(RED_PACKET_BYTES)]
    if kind == "red" and link.rate_bps is not None:
        words += ["bandwidth", units.format_tc_rate(link.rate_bps)]
    if link.mark_ms is not None:
        words += ["ecn", "ce_threshold", f"{round(link.mark_ms * 1000)}us"]
    return tuple(words)
