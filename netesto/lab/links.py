"""Parses a link's limits (rate, delay, loss, queue), with clear errors."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from netesto import units
from netesto.allowed import MAX_LINK_DELAY_MS
from netesto.errors import UsageError
from netesto.nearest import nearest
from netesto.shaping import FRAME_HEADER_BYTES, QDISC_COUNTS, queue_bytes

Value = TypeVar("Value")

# Below 1280 IPv6 does not run (RFC 8200, section 5); above 65535 an IPv4 packet cannot say its
# length.
SMALLEST_MTU, DEFAULT_MTU, LARGEST_MTU = 1280, 1500, 65535

# At lower rates a full-sized packet takes longer than the timeouts of neighbour discovery.
SLOWEST_RATE_BPS = 8000.0

# tc counts the bytes of a queue in 32 bits.
LARGEST_QUEUE_BYTES = 2**32 - 1

# Those that mark packets by their time in the queue (`ce_threshold`).
MARKING_QDISCS = frozenset({"codel", "fq_codel"})

LINK_SETTINGS: Mapping[str, str] = {
    "rate": "as in tc: 10mbit, 1gbit; none for no shaper",
    "delay": "one way, in ms: 20, 0.5",
    "rtt": "twice the delay, in ms: 40",
    "jitter": "around the delay, in ms: 2",
    "loss": "percent of the packets in each direction: 0.1",
    "limit": "of the queue: 100K (bytes), 50p (packets), bdp(1.5)",
    "qdisc": f"of the queue: {', '.join(QDISC_COUNTS)}",
    "mark": "with qdisc=codel or fq_codel: ECN, of packets that queued longer than this many ms: 1",
    "mtu": "bytes: 1500, 9000",
    "offload": "on or off",
}


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """The capacity of a queue. Packets may be super-packets of up to 64 kB, unless the link has
    `offload=off`."""

    amount: int
    unit: Literal["bytes", "packets"]

    def __str__(self) -> str:
        return f"{self.amount}p" if self.unit == "packets" else units.format_size(self.amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """A link's limits, the same in both directions. `delay_ms` is one way.

    `limit` None: the default, see `queue`. `mark_ms` None: no marking by time.
    """

    rate_bps: float | None = None
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss_percent: float = 0.0
    limit: QueueLimit | None = None
    qdisc: str = ""
    mark_ms: float | None = None
    mtu: int = DEFAULT_MTU
    offload: bool = True

    @property
    def queue(self) -> QueueLimit | None:
        """The capacity of the queue; None if there is no queue, or the qdisc's default holds."""
        if self.limit is not None or self.rate_bps is None:
            return self.limit
        size = queue_bytes(self.rate_bps, self.delay_ms, self.mtu)
        return _as_counted(QueueLimit(size, "bytes"), self)

    @property
    def emulates(self) -> tuple[str, ...]:
        """The settings that need netem, as written in a script: ("delay=20", "loss=1")."""
        given = {"delay": self.delay_ms, "jitter": self.jitter_ms, "loss": self.loss_percent}
        return tuple(f"{name}={value:g}" for name, value in given.items() if value)

    def describe(self) -> str:
        """The settings in words: "100 Mbit/s, delay 20 ms, queue 625K"; "" for a plain link."""
        words = [
            units.format_rate(self.rate_bps) if self.rate_bps is not None else "",
            f"delay {self.delay_ms:g} ms" if self.delay_ms else "",
            f"jitter {self.jitter_ms:g} ms" if self.jitter_ms else "",
            f"loss {self.loss_percent:g} %" if self.loss_percent else "",
            self.qdisc,
            f"mark {self.mark_ms:g} ms" if self.mark_ms is not None else "",
            f"queue {self.queue}" if self.queue is not None else "",
            f"mtu {self.mtu}" if self.mtu != DEFAULT_MTU else "",
            "" if self.offload else "offload off",
        ]
        return ", ".join(word for word in words if word)


def link_settings(given: Mapping[str, str], *, what: str) -> LinkSettings:
    """The settings written in `given`, whose keys are all in LINK_SETTINGS.

    UsageError, beginning with `what`, if one is invalid or two contradict each other.
    """
    if "delay" in given and "rtt" in given:
        raise UsageError(f"{what}: give delay or rtt (which is twice the delay), not both")
    delay_ms = value(given, "rtt", _milliseconds, 0.0, what=what) / 2
    settings = LinkSettings(
        rate_bps=value(given, "rate", _rate, None, what=what),
        delay_ms=value(given, "delay", _milliseconds, delay_ms, what=what),
        jitter_ms=value(given, "jitter", _milliseconds, 0.0, what=what),
        loss_percent=value(given, "loss", _percent, 0.0, what=what),
        qdisc=value(given, "qdisc", _qdisc, "", what=what),
        mark_ms=value(given, "mark", _milliseconds, None, what=what),
        mtu=value(given, "mtu", _mtu, DEFAULT_MTU, what=what),
        offload=value(given, "offload", _on_or_off, True, what=what),
    )
    if settings.jitter_ms > settings.delay_ms:
        raise UsageError(f"{what}: jitter={given['jitter']}: more than the delay it varies")
    if settings.mark_ms is not None and settings.qdisc not in MARKING_QDISCS:
        raise UsageError(f"{what}: mark={given['mark']}: only qdisc=codel or fq_codel can do that")
    for name in ("limit", "qdisc"):
        if name in given and settings.rate_bps is None:
            raise UsageError(
                f"{what}: {name}={given[name]}: nothing queues on a link without rate=",
                remedy="SET_QDISC gives an interface of a host a queue.",
            )
    limit = value(given, "limit", lambda text: queue_limit(text, settings), None, what=what)
    settings = replace(settings, limit=limit)
    queue = settings.queue
    if queue is not None and queue.unit == "bytes" and queue.amount > LARGEST_QUEUE_BYTES:
        asked_for = f"limit={given['limit']}" if "limit" in given else f"rate={given['rate']}"
        raise UsageError(
            f"{what}: {asked_for}: a queue of {queue}; the maximum is 4G",
            remedy="limit= sets what the queue of a link holds: limit=100M",
        )
    return settings


def value(
    given: Mapping[str, str],
    name: str,
    read: Callable[[str], Value],
    default: Value,
    *,
    what: str,
) -> Value:
    """`read` applied to the text of `name`, or `default`. A ValueError becomes a UsageError."""
    if name not in given:
        return default
    try:
        return read(given[name])
    except ValueError as error:
        expected = LINK_SETTINGS.get(name, "")
        remedy = f"{name}: {expected}" if expected else ""
        raise UsageError(f"{what}: {name}={given[name]}: {error}", remedy=remedy) from None


def whole_number(text: str, low: int, high: int) -> int:
    """The whole number in `text`. ValueError unless it is one from `low` to `high`."""
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ValueError(f"not a whole number from {low} to {high}")
    return int(text)


def meant(word: str, known: Iterable[str]) -> str:
    """ "; did you mean …?" if a known word is similar, else ""."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def _milliseconds(text: str) -> float:
    duration_ms = units.parse_milliseconds(text)
    if not 0 <= duration_ms <= MAX_LINK_DELAY_MS:
        raise ValueError(f"not between 0 and {MAX_LINK_DELAY_MS} ms")
    return duration_ms


def _percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError("not a number") from None
    if not 0 <= percent <= 100:
        raise ValueError("not between 0 and 100 percent")
    return percent


def _rate(text: str) -> float | None:
    if text == "none":
        return None
    rate_bps = units.parse_rate(text)
    if rate_bps < SLOWEST_RATE_BPS:
        raise ValueError("slower than 8 kbit/s; a bare number is bits per second")
    return rate_bps


def _mtu(text: str) -> int:
    return whole_number(text, SMALLEST_MTU, LARGEST_MTU)


def _on_or_off(text: str) -> bool:
    if text not in {"on", "off"}:
        raise ValueError("neither on nor off")
    return text == "on"


def _qdisc(text: str) -> str:
    if text not in QDISC_COUNTS:
        raise ValueError(f"not a queue that a link can have{meant(text, QDISC_COUNTS)}")
    return text


_BDP = re.compile(r"bdp(?:\((?P<times>\d+(?:\.\d*)?|\.\d+)\))?", re.IGNORECASE)


def queue_limit(text: str, link: LinkSettings) -> QueueLimit:
    """The limit in the unit of the link's qdisc: "100K" bytes, "50p" packets, "bdp(1.5)"."""
    if match := _BDP.fullmatch(text):
        if link.rate_bps is None or not link.delay_ms:
            raise ValueError("needs the rate and the delay of the link")
        size = float(match["times"] or 1) * link.rate_bps / 8 * 2 * link.delay_ms / 1000
        limit = _as_counted(QueueLimit(round(size), "bytes"), link)
    elif text[-1:] in {"p", "P"}:
        limit = QueueLimit(whole_number(text[:-1], 1, 10**7), "packets")
    else:
        limit = QueueLimit(units.parse_size(text), "bytes")
    counts = QDISC_COUNTS.get(link.qdisc, limit.unit)
    if limit.unit != counts:
        raise ValueError(f"{link.qdisc} counts {counts}")
    frame_bytes = link.mtu + FRAME_HEADER_BYTES
    if limit.unit == "bytes" and limit.amount < frame_bytes:
        raise ValueError(f"does not hold one packet of {frame_bytes} bytes")
    return limit


def _as_counted(size: QueueLimit, link: LinkSettings) -> QueueLimit:
    """A size in bytes, converted to full packets if the link's qdisc counts packets."""
    if QDISC_COUNTS.get(link.qdisc) == "packets":
        return QueueLimit(max(1, -(-size.amount // (link.mtu + FRAME_HEADER_BYTES))), "packets")
    return size
