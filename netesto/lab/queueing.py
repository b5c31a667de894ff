"""A link's limits as the words of tc(8): a delay line, then a shaper, then the queue before it."""

import math
from collections.abc import Mapping
from typing import TypeAlias

from netesto import units
from netesto.lab.links import FRAME_HEADER_BYTES, LinkSettings

# The words after `tc qdisc add dev DEVICE`.
Words: TypeAlias = tuple[str, ...]

# The qdisc by which packets enter the middle of a link.
ENTRANCE = "ingress"

# A token bucket achieves its rate only if it never overflows between two refills. Timers of a busy
# virtual machine are late by some hundred microseconds.
BURST_S = 0.001

# A user-mode kernel is a process and has to wait for a processor: at 100 Mbit/s, beside three
# programs that kept both processors busy, 1 ms gave 86 % of the rate, and 5 ms all of it.
GROUND_BURSTS_S: Mapping[str, float] = {"uml": 0.005}

# The minimum burst: a packet being sent and the next one.
SMALLEST_BURST_PACKETS = 2

# The mean packet size that tc(8) advises for RED. The thresholds are tc's defaults: a quarter and a
# twelfth of the limit.
RED_PACKET_BYTES = 1000

# A delay line without a rate must hold this: the highest rate measured with veth.
UNSHAPED_RATE_BPS = 20e9

# A delay line counts packets, also those of a burst that the queue behind it will drop: with room
# for 1009 it dropped 61 when eight senders began on 1 Gbit/s and 50 us, which no queue then
# counted. Beside these it must hold the packets of a link that carries the smallest ones, twice for
# load above its rate. With room for large ones only, it dropped 41 % of datagrams of 100 bytes that
# took 71 % of a link of 100 Mbit/s and 50 ms.
SMALLEST_DELAY_LINE_PACKETS = 10_000
SMALLEST_FRAME_BYTES = 64
# tc counts them in 32 bits.
LARGEST_DELAY_LINE_PACKETS = 2**32 - 1


def burst_s(ground: str | None) -> float:
    """The burst of shapers on a ground, in seconds of their rates."""
    return GROUND_BURSTS_S.get(ground or "", BURST_S)


def qdiscs(link: LinkSettings, *, burst_s: float = BURST_S) -> tuple[Words, ...]:
    """The qdiscs of each direction of the link, in the order of creation; often none.

    ```
    root ─ netem (delay, jitter, loss) ─ tbf (rate) ─ queue (limit)
    ```
    Packets are delayed first and queued then. For a flow the order makes no difference; this way
    the queue's limit does not count delayed packets.
    """
    stages = [words for words in (_delay_line(link), _shaper(link, burst_s), _queue(link)) if words]
    return tuple(
        (*(("parent", f"{place}:1") if place else ("root",)), "handle", f"{place + 1}:", *words)
        for place, words in enumerate(stages)
    )


def kinds(link: LinkSettings) -> tuple[str, ...]:
    """The kinds of qdiscs that the link needs from the kernel."""
    made = tuple(words[words.index("handle") + 2] for words in qdiscs(link))
    return (*made, ENTRANCE) if made else ()


def wanted_by(link: LinkSettings, kind: str) -> str:
    """The settings that need a qdisc of this kind, for users."""
    if kind == ENTRANCE:
        return f"a link with limits ({link.describe()})"
    if kind == "netem":
        return " ".join(link.emulates)
    if kind == "tbf" and link.rate_bps is not None:
        return f"a rate of {units.format_rate(link.rate_bps)}"
    return f"qdisc={link.qdisc}" if link.qdisc else f"limit={link.limit}"


def burst_bytes(rate_bps: float, mtu: int, burst_s: float = BURST_S) -> int:
    """The burst of a shaper in bytes. tbf segments larger super-packets."""
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
    in_the_air = rate_bps / 8 * (link.delay_ms + link.jitter_ms) / 1000 / SMALLEST_FRAME_BYTES
    packets = SMALLEST_DELAY_LINE_PACKETS + math.ceil(2 * in_the_air)
    return (*words, "limit", str(min(packets, LARGEST_DELAY_LINE_PACKETS)))


def _shaper(link: LinkSettings, burst_s: float) -> Words:
    if link.rate_bps is None:
        return ()
    burst = burst_bytes(link.rate_bps, link.mtu, burst_s)
    # tbf needs a limit even if the queue below it, which counts packets, has the real one.
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
