"""The values of a link's settings: how they are read from what people write, and written again.

What reads a value raises ValueError with the reason.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from netesto import units
from netesto.limits.allowed import MAX_LINK_DELAY_MS
from netesto.links.queues import QUEUES, Unit
from netesto.text.nearest import nearest

Value = TypeVar("Value")

# Below 1280 IPv6 does not run (RFC 8200, section 5); above 65535 an IPv4 packet cannot say its
# length.
SMALLEST_MTU, LARGEST_MTU = 1280, 65535

# At lower rates a full-sized packet takes longer than the timeouts of neighbour discovery.
SLOWEST_RATE_BPS, FASTEST_RATE_BPS = 8e3, 1e13

# tc counts the bytes of a queue in 32 bits.
LARGEST_QUEUE_BYTES = 2**32 - 1

MOST_COPIES = 8


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """The capacity of a queue."""

    amount: int
    unit: Unit

    def __str__(self) -> str:
        return f"{self.amount}p" if self.unit == "packets" else units.format_size(self.amount)


@dataclass(frozen=True, slots=True)
class Loss:
    """The losses of a link, in percent: of each packet by itself, or by the Gilbert-Elliott model,
    whose parameters are those of tc-netem(8): p, r, 1-h, 1-k."""

    percent: float = 0.0
    model: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.percent or self.model)

    @property
    def mean_percent(self) -> float:
        """The share of lost packets: in the bad state, which lasts p / (p + r) of the time, 1-h of
        them are lost (default: all), in the good state 1-k (default: none)."""
        if not self.model:
            return self.percent
        p, r, lost_bad, lost_good = (*self.model, *(0.0, 0.0, 100.0, 0.0)[len(self.model) :])
        r = r if len(self.model) > 1 else 100 - p
        bad = p / (p + r) if p + r else 0.0
        return bad * lost_bad + (1 - bad) * lost_good

    def __str__(self) -> str:
        if not self.model:
            return units.decimal(self.percent)
        return f"ge({','.join(map(units.decimal, self.model))})"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where packets are marked with CE: those that queued longer than `ms`, or that arrived behind
    more than `size_bytes`."""

    ms: float | None = None
    size_bytes: int | None = None

    def __str__(self) -> str:
        if self.size_bytes is not None:
            return f"{self.size_bytes}B"
        return units.decimal(self.ms or 0.0)

    def after_ms(self, rate_bps: float | None) -> float:
        """The time in a queue without an order of its own, before a link of this rate."""
        if self.ms is not None:
            return self.ms
        assert rate_bps is not None, "link_settings refuses it"
        return (self.size_bytes or 0) * 8000 / rate_bps


def whole_number(text: str, low: int, high: int) -> int:
    """The whole number in `text`. ValueError unless it is one from `low` to `high`."""
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ValueError(f"not a whole number from {low} to {high}")
    return int(text)


def suggestion(word: str, known: Iterable[str]) -> str:
    """ "; did you mean …?" if a known word is similar, else ""."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def read_milliseconds(text: str) -> float:
    duration_ms = units.parse_milliseconds(text)
    if not 0 <= duration_ms <= MAX_LINK_DELAY_MS:
        raise ValueError(f"not between 0 and {MAX_LINK_DELAY_MS} ms")
    return duration_ms


def read_percent(text: str) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError("not a number") from None
    if not 0 <= percent <= 100:
        raise ValueError("not between 0 and 100 percent")
    return percent


_MODEL = re.compile(r"ge\((?P<parameters>[^()]*)\)", re.IGNORECASE)


def read_loss(text: str) -> Loss:
    if match := _MODEL.fullmatch(text):
        parameters = tuple(read_percent(each.strip()) for each in match["parameters"].split(","))
        if not 1 <= len(parameters) <= 4:
            raise ValueError("ge takes p, r, 1-h, 1-k: the first, or more of them")
        if not parameters[0]:
            raise ValueError("with p=0 the model never loses a packet")
        return Loss(model=parameters)
    return Loss(read_percent(text))


def read_rate(text: str) -> float | None:
    if text == "none":
        return None
    rate_bps = units.parse_rate(text)
    if rate_bps < SLOWEST_RATE_BPS:
        raise ValueError("slower than 8 kbit/s; a bare number is bits per second")
    if rate_bps > FASTEST_RATE_BPS:
        raise ValueError("faster than 10 Tbit/s")
    return rate_bps


def read_mtu(text: str) -> int:
    return whole_number(text, SMALLEST_MTU, LARGEST_MTU)


def read_size(text: str) -> int:
    size = units.parse_size(text)
    if not 1 <= size <= LARGEST_QUEUE_BYTES:
        raise ValueError("not between 1 byte and 4G")
    return size


def or_none(read: Callable[[str], Value]) -> Callable[[str], Value | None]:
    return lambda text: None if text == "none" else read(text)


def one_of(choices: Iterable[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"not one of {', '.join(choices)}{suggestion(text, choices)}")
        return text

    return read


def read_copies(text: str) -> int | None:
    return None if text == "auto" else whole_number(text, 1, MOST_COPIES)


def read_target(text: str) -> float:
    """Milliseconds of an AQM; the probability of `copies=auto` is a bare number, too."""
    try:
        number = float(text)
    except ValueError:
        return read_milliseconds(text)
    return number if 0 < number < 1 else read_milliseconds(text)


def write_number(number: float) -> str:
    """Also numbers that `units.decimal` would cut."""
    return units.decimal(number) if number >= 1e-3 else f"{number:g}"


def read_switch(text: str) -> bool:
    if text not in {"0", "1", "on", "off"}:
        raise ValueError("neither 1 (on) nor 0 (off)")
    return text in {"1", "on"}


def read_qdisc(text: str) -> str:
    if text not in QUEUES:
        raise ValueError(f"not a queue that a link can have{suggestion(text, QUEUES)}")
    return text


_BYTES = re.compile(r"\d+(\.\d+)?([KMG]i?|B)", re.IGNORECASE)


def read_mark(text: str) -> Mark:
    if _BYTES.fullmatch(text):
        return Mark(size_bytes=read_size(text.removesuffix("B").removesuffix("b")))
    return Mark(ms=read_milliseconds(text))


_LIMIT = re.compile(r"bdp(?:\((?P<times>\d+(?:\.\d*)?|\.\d+)\))?", re.IGNORECASE)


def read_limit(text: str) -> QueueLimit | float:
    """A limit, or so many BDP."""
    if match := _LIMIT.fullmatch(text):
        return float(match["times"] or 1)
    if text[-1:] in {"p", "P"}:
        return QueueLimit(whole_number(text[:-1], 1, 10**7), "packets")
    return QueueLimit(units.parse_size(text), "bytes")


def write_limit(limit: QueueLimit) -> str:
    return str(limit.amount) if limit.unit == "bytes" else f"{limit.amount}p"


def write_rate(rate_bps: float) -> str:
    return f"{units.decimal(rate_bps)}bit"


def write_switch(value: bool) -> str:
    return "1" if value else "0"
