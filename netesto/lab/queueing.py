"""A link's limits as the words of tc(8): a delay line, then a shaper, then the queue before it."""

from typing import TypeAlias

from netesto import shaping, units
from netesto.lab.links import LinkSettings

# The words after `tc qdisc add dev DEVICE`.
Words: TypeAlias = tuple[str, ...]

# The qdisc by which packets enter the middle of a link.
ENTRANCE = "ingress"


def qdiscs(link: LinkSettings, *, burst_s: float = shaping.BURST_S) -> tuple[Words, ...]:
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
    packets = shaping.delay_line_packets(link.rate_bps, link.delay_ms + link.jitter_ms)
    return (*words, "limit", str(packets))


def _shaper(link: LinkSettings, burst_s: float) -> Words:
    if link.rate_bps is None:
        return ()
    burst = shaping.burst_bytes(link.rate_bps, link.mtu, burst_s)
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
        words += [shaping.limit_word(kind), str(limit.amount)]
    if kind == "red":
        words += ["avpkt", str(shaping.RED_PACKET_BYTES)]
    if kind == "red" and link.rate_bps is not None:
        words += ["bandwidth", units.format_tc_rate(link.rate_bps)]
    if link.mark_ms is not None:
        words += ["ecn", "ce_threshold", f"{round(link.mark_ms * 1000)}us"]
    return tuple(words)
