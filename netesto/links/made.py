"""What tc makes of a link's settings: one direction is a policer or none, and a row of qdiscs.

```
police or nothing ─ root ─ netem (delay, loss, …) ─ tbf (rate) ─ queue (limit, AQM)
police or nothing ─ root ─ queue (limit, AQM) ─ netem (rate, then delay, loss, …)      a wire
```
The second is the order of a real link, and exact. Only kernels for simulated time have it: in them
a netem with a rate and a qdisc below it is a wire (lab/wire.h); tc shows the queue below the netem.
Elsewhere packets are delayed first and queued then. For a flow the order makes no difference; this
way the queue's limit does not count delayed packets.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from netesto import units
from netesto.grounds import SHAPER_BURST_S, Ground
from netesto.links.queues import FRAME_HEADER_BYTES, QUEUES, RED_PACKET_BYTES
from netesto.links.settings import LinkSettings, as_text

# Words of tc(8).
Words: TypeAlias = tuple[str, ...]

# The qdisc by which packets enter the middle of a link, and at which a policer drops what it does.
ENTRANCE = "clsact"

# The minimum burst: a packet being sent and the next one.
_SMALLEST_BURST_PACKETS = 2

# An AQM with this target never acts.
_NEVER_MS = 1_000_000.0

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
LARGEST_DELAY_LINE_PACKETS = 2**32 - 1

# What a kernel shows that can make a wire.
_WIRE_MARK = Path("/sys/module/sch_netem/parameters/wire")

# The options of netem that a change without them resets; others stay, except in a new one.
_RESET = frozenset({"limit", "delay", "loss", "duplicate", "reorder"})


@dataclass(frozen=True, slots=True)
class Maker:
    """What decides, beside its settings, what a link is made of: whether this kernel has wires, and
    the burst of its token buckets, in seconds of their rates."""

    has_wires: bool = False
    burst_s: float = SHAPER_BURST_S


def maker(ground: Ground | None) -> Maker:
    """That of this kernel, on the ground of a guest, or outside of guests."""
    return Maker(_WIRE_MARK.exists(), ground.shaper_burst_s if ground else SHAPER_BURST_S)


# The least common multiple of a microsecond and a tick of tc (64 ns).
_TC_EXACT_NS = 8000


@dataclass(frozen=True, slots=True)
class Stage:
    """One qdisc, with the words of each of its options: {"delay": ("20ms", "5ms"), "ecn": ()}."""

    kind: str
    options: Mapping[str, Words]

    @property
    def words(self) -> Words:
        """After `tc qdisc add … handle H:`."""
        return (self.kind, *(word for name, rest in self.options.items() for word in (name, *rest)))

    def can_become(self, other: "Stage") -> bool:
        """Whether `tc qdisc change` makes it the other one."""
        kind = QUEUES.get(self.kind)
        lost = self.options.keys() - other.options.keys()
        if self.kind == "netem":
            lost -= _RESET
        return self.kind == other.kind and not lost and not (kind and kind.is_fixed)


@dataclass(frozen=True, slots=True)
class LinkDirection:
    """One direction of a link: the action of its policer, if it has one, and its qdiscs from the
    root on."""

    police: Words
    stages: tuple[Stage, ...]

    @property
    def places(self) -> Iterator[Words]:
        """For each stage, the words that say where it is."""
        for number in range(len(self.stages)):
            parent = ("parent", f"{number}:1") if number else ("root",)
            yield (*parent, "handle", f"{number + 1}:")

    @property
    def delay_ns(self) -> int | None:
        """The delay, if tc cannot set it exactly (`collectors.delays`)."""
        for stage in self.stages:
            if "delay" in stage.options:
                delay_ns = round(float(stage.options["delay"][0].removesuffix("us")) * 1000)
                return delay_ns if delay_ns % _TC_EXACT_NS else None
        return None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of qdiscs that it needs from the kernel."""
        made = tuple(stage.kind for stage in self.stages)
        return (*made, ENTRANCE) if made or self.police else ()


def direction(link: LinkSettings, maker: Maker) -> LinkDirection:
    """What is made of one direction; nothing of a plain link, and of one that the program
    carries."""
    if link.is_carried:
        return LinkDirection((), ())
    queue = _queue(link)
    if link.is_down:
        # What is queued or under way is lost, too, as on a cable that is cut.
        stages: tuple[Stage, ...] = (Stage("blackhole", {}),)
    elif link.rate_bps is None or link.police_bytes is not None:
        stages = _delay_line(link)
    elif maker.has_wires:
        # A wire always has a queue below it, and its delay line never drops.
        limit = ("limit", (str(LARGEST_DELAY_LINE_PACKETS),))
        rate = ("rate", (units.format_tc_rate(link.rate_bps),))
        stages = (Stage("netem", dict([limit, *_impairments(link).items(), rate])), *queue)
    else:
        # A FIFO of bytes is what a token bucket has already.
        below = () if queue[0].kind == "bfifo" else queue
        stages = (*_delay_line(link), _shaper(link, maker.burst_s), *below)
    return LinkDirection(_police(link), stages)


def entering(device: str, onto: str) -> Words:
    """The filter by which everything that enters the middle of a link leaves it by `onto`; after
    `tc filter add`."""
    action = ("action", "mirred", "egress", "redirect", "dev", onto)
    return ("dev", device, "ingress", "protocol", "all", "u32", "match", "u32", "0", "0", *action)


def policing(device: str, police: Words) -> Words:
    """The filter of a policer, or its name alone if there is none; after `tc filter
    add|replace|del`."""
    return (
        "dev",
        device,
        "egress",
        "protocol",
        "all",
        "pref",
        "1",
        "handle",
        "1",
        "matchall",
        *police,
    )


def error_bytes(link: LinkSettings, maker: Maker) -> int:
    """What a link that was idle passes at once, instead of packet after packet at its rate."""
    is_exact = maker.has_wires or link.is_carried
    if link.rate_bps is None or is_exact or link.police_bytes is not None:
        return 0
    return burst_bytes(link.rate_bps, link.mtu, maker.burst_s)


def wanted_by(link: LinkSettings, kind: str) -> str:
    """The settings that need a qdisc of this kind, for users."""
    if kind == ENTRANCE:
        return f"a link with limits ({link.describe()})"
    if kind == "netem" and link.emulates:
        return " ".join(link.emulates)
    if kind in {"tbf", "netem"} and link.rate_bps is not None:
        return f"a rate of {units.format_rate(link.rate_bps)}"
    return f"qdisc={link.qdisc}" if link.qdisc else f"limit={link.limit}"


def burst_bytes(rate_bps: float, mtu: int, burst_s: float = SHAPER_BURST_S) -> int:
    """The burst of a shaper in bytes."""
    least = _SMALLEST_BURST_PACKETS * (mtu + FRAME_HEADER_BYTES)
    return max(least, math.ceil(rate_bps / 8 * burst_s))


def delay_line_packets(rate_bps: float | None, longest_ms: float) -> int:
    """The capacity of a delay line that delays packets by so much, before a rate or none."""
    rate_bps = _UNSHAPED_RATE_BPS if rate_bps is None else rate_bps
    in_the_air = rate_bps / 8 * longest_ms / 1000 / _SMALLEST_FRAME_BYTES
    packets = _SMALLEST_DELAY_LINE_PACKETS + math.ceil(2 * in_the_air)
    return min(packets, LARGEST_DELAY_LINE_PACKETS)


def _police(link: LinkSettings) -> Words:
    if link.police_bytes is None or link.rate_bps is None:
        return ()
    rate = units.format_tc_rate(link.rate_bps)
    # A packet larger than the burst would never pass.
    burst = max(link.police_bytes, link.mtu + FRAME_HEADER_BYTES)
    return (
        *("action", "police", "rate", rate, "burst", str(burst), "mtu", "64kb"),
        *("conform-exceed", "drop/ok"),
    )


def _impairments(link: LinkSettings) -> dict[str, Words]:
    """The options of netem for everything but the rate."""
    made: dict[str, Words] = {}
    if link.delay_ms:
        jitter = (_time(link.jitter_ms),) if link.jitter_ms else ()
        made["delay"] = (_time(link.delay_ms), *jitter)
        if link.jitter_ms and link.distribution != "uniform":
            made["distribution"] = (link.distribution,)
    if link.loss.model:
        made["loss"] = ("gemodel", *(f"{units.decimal(each)}%" for each in link.loss.model))
    elif link.loss:
        made["loss"] = (f"{link.loss.percent:.6f}%",)
    for name, percent in (
        ("duplicate", link.duplicate_percent),
        ("corrupt", link.corrupt_percent),
        ("reorder", link.reorder_percent),
    ):
        if percent:
            made[name] = (f"{percent:.6f}%",)
    return made


def _delay_line(link: LinkSettings) -> tuple[Stage, ...]:
    made = _impairments(link)
    if not made:
        return ()
    packets = delay_line_packets(link.rate_bps, link.delay_ms + 5 * link.jitter_ms)
    return (Stage("netem", {"limit": (str(packets),), **made}),)


def _shaper(link: LinkSettings, burst_s: float) -> Stage:
    assert link.rate_bps is not None, "only a link with a rate has a shaper"
    burst = burst_bytes(link.rate_bps, link.mtu, burst_s)
    # tbf needs a limit even if the queue below it, which counts packets, has the real one.
    limit = link.queue.amount if link.queue and link.queue.unit == "bytes" else burst
    rate = (units.format_tc_rate(link.rate_bps),)
    return Stage("tbf", {"rate": rate, "burst": (str(burst),), "limit": (str(limit),)})


def _queue(link: LinkSettings) -> tuple[Stage, ...]:
    limit = link.queue
    if limit is None:
        return ()
    kind = link.queue_kind or ("pfifo" if limit.unit == "packets" else "bfifo")
    known = QUEUES[kind]
    made: dict[str, Words] = {known.limit_word: (str(limit.amount),)}
    if kind == "red":
        assert link.rate_bps is not None, "only a link with a rate has a queue"
        made["avpkt"] = (str(RED_PACKET_BYTES),)
        made["bandwidth"] = (units.format_tc_rate(link.rate_bps),)
    written = as_text(link)
    for setting, word in known.settings.items():
        if setting in written:
            made |= _option(link, setting, word, written[setting])
    if link.mark is not None and not link.qdisc:
        never = (_microseconds(_NEVER_MS),)
        made |= {"target": never, "interval": never}
    return (Stage(kind, made),)


def _option(link: LinkSettings, setting: str, word: str, text: str) -> dict[str, Words]:
    """An option of a queue. A queue that marks needs no ECN of its AQM for that."""
    match setting:
        case "mark":
            assert link.mark is not None, "it is written"
            return {word: (_microseconds(link.mark.after_ms(link.rate_bps)),)}
        case "ecn":
            return {"ecn": ()} if link.ecn else ({} if link.qdisc == "red" else {"noecn": ()})
        case "target" | "interval" | "tupdate":
            return {word: (_microseconds(float(text)),)}
        case _:
            return {word: (text,)}


def _time(duration_ms: float) -> str:
    """In microseconds with nanoseconds as decimals: tc of iproute2 6.1 reads no times in ns, and
    ignores the decimals."""
    microseconds, rest = divmod(round(duration_ms * 1e6), 1000)
    return f"{microseconds}.{rest:03}us" if rest else f"{microseconds}us"


def _microseconds(duration_ms: float) -> str:
    """For options of queues, of which tc takes no smaller unit."""
    return f"{max(1, round(duration_ms * 1000))}us"
