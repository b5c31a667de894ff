"""Text to numbers and back: sizes, times, rates, as tc, iperf3 and the language write them.

One table holds every unit. A command knows what it wants and reads `10m` as a size, a time or a
rate (`parse_size` and its like); a condition, a claim or a filter of a report does not, and asks
`quantity` for the number and its kind.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache

_NUMBER = re.compile(
    r"\s*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-z/]*)\s*"
)

# A number of more digits is an accident.
_MAX_LENGTH = 1200

# Counts as the classic tool and its scripts shorten them, in upper case: 1M, 64K, 1.5G. In lower
# case an "m" may as well be minutes or thousandths.
COUNT_FACTORS: Mapping[str, float] = {"K": 1e3, "M": 1e6, "G": 1e9}

# What these mean in front of any unit, or alone.
THOUSANDS: Mapping[str, int] = {
    "": 1,
    **{prefix: int(factor) for prefix, factor in COUNT_FACTORS.items()},
    "T": 10**12,
}


class UnitKind(Enum):
    """What a number with a unit counts: bytes, seconds, or bits per second. A plain NUMBER may be
    any of these, in just that unit; THOUSANDS (64K, 1M) may be a size or a rate."""

    NUMBER = "a plain number"
    THOUSANDS = "a size or a rate"
    SIZE = "a size"
    TIME = "a time"
    RATE = "a rate"

    def fits(self, other: "UnitKind") -> bool:
        """Whether one may be compared with the other, and added to it."""
        pair = {self, other}
        return len(pair) == 1 or UnitKind.NUMBER in pair or pair in _ALIKE


_ALIKE = ({UnitKind.THOUSANDS, UnitKind.SIZE}, {UnitKind.THOUSANDS, UnitKind.RATE})

# In lower case. The language counts K, M, G in thousands and Ki, Mi, Gi in 1024 (spec of the
# language, 1.4). tc(8): bit, kbit, mbit, gbit in bits per second; bps, kbps, mbps, gbps in BYTES
# per second. "10Mbit/s", "10M" and "10G" are rates in bits per second where one is asked for, as
# iperf3 does with -b.
UNITS: Mapping[UnitKind, Mapping[str, Decimal]] = {
    UnitKind.SIZE: {
        **{prefix.lower(): Decimal(factor) for prefix, factor in THOUSANDS.items()},
        **{f"{prefix.lower()}b": Decimal(factor) for prefix, factor in THOUSANDS.items()},
        **{
            f"{prefix}{unit}": Decimal(1024**power)
            for power, prefix in enumerate("kmgt", start=1)
            for unit in ("i", "ib")
        },
    },
    UnitKind.TIME: {
        unit: Decimal(factor)
        for unit, factor in {
            "": "1", "s": "1", "sec": "1", "ms": "1e-3", "us": "1e-6", "ns": "1e-9",
            "m": "60", "min": "60",
        }.items()
    },
    UnitKind.RATE: {
        f"{prefix.lower()}{unit}": Decimal(factor) * bits
        for prefix, factor in THOUSANDS.items()
        for unit, bits in (("", 1), ("bit", 1), ("bit/s", 1), ("bps", 8))
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that was written with or without a unit, in bytes, seconds or bits per second."""

    value: Decimal
    kind: UnitKind


@lru_cache(maxsize=4096)
def quantity(text: str) -> Quantity | None:
    """The number in `text` and what it counts, as its unit tells; None if it is none.

    Letter case matters once: `m` alone are minutes, `M` alone is a million.
    """
    number, unit = _split(text)
    kind = _kind_of(unit)
    if not number or kind is None:
        return None
    if kind in {UnitKind.NUMBER, UnitKind.THOUSANDS}:
        return Quantity(Decimal(number) * THOUSANDS[unit.upper()], kind)
    return Quantity(Decimal(number) * UNITS[kind][unit.lower()], kind)


def _split(text: str) -> tuple[str, str]:
    """The number and the unit in `text`; an empty number if there is none."""
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    return ("", "") if match is None else (match[1], match[2])


def _kind_of(unit: str) -> UnitKind | None:
    if not unit:
        return UnitKind.NUMBER
    if unit == "m":
        return UnitKind.TIME
    if unit.upper() in THOUSANDS:
        return UnitKind.THOUSANDS
    return next((kind for kind, units in UNITS.items() if unit.lower() in units), None)


def _scaled(text: str, kind: UnitKind, examples: str) -> Decimal:
    number, unit = _split(text)
    if not number or unit.lower() not in UNITS[kind]:
        raise ValueError(f"{text!r} is not {kind.value} (examples: {examples})")
    value = Decimal(number) * UNITS[kind][unit.lower()]
    if not math.isfinite(float(value)):
        raise ValueError(f"{text!r} is too large for {kind.value}")
    return value


# The largest that Linux can be built for.
MAX_PROCESSORS = 8192


def parse_processors(text: str) -> tuple[int, ...]:
    """The processors in `text`, in rising order: "2+4" are two, "8-15" are eight, "" is none.
    ValueError if it is not such a set."""
    found: set[int] = set()
    for part in text.split("+") if text else ():
        match = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < MAX_PROCESSORS:
            raise ValueError(f"{text!r} is not a set of processors (examples: 0, 8-15, 2+4)")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def format_processors(processors: Iterable[int]) -> str:
    """A set of processors with its ranges, as taskset(1) takes it: 0-3,8."""
    runs: list[list[int]] = []
    for each in sorted(set(processors)):
        if runs and runs[-1][-1] == each - 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def parse_size(text: str) -> int:
    """Bytes in `text`: "64K" is 64000, "64Ki" is 65536. ValueError if it is no size."""
    value = _scaled(text, UnitKind.SIZE, "1000, 64K, 1M, 4Ki")
    if value < 0 or value != int(value):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(value)


def parse_time(text: str) -> float:
    """Seconds in `text`: a bare number is seconds, "200ms" is 0.2, "2m" is 120. ValueError else."""
    return float(_scaled(text, UnitKind.TIME, "20, 1.5, 200ms, 2m"))


def parse_milliseconds(text: str) -> float:
    """Milliseconds in `text`: a bare number is milliseconds, "200us" is 0.2, "2s" is 2000.
    ValueError else."""
    is_bare = text.rstrip()[-1:] in {*"0123456789."}
    return float(_scaled(f"{text}ms" if is_bare else text, UnitKind.TIME, "10, 0.5, 200us") * 1000)


def parse_rate(text: str) -> float:
    """Bits per second in `text`, with the units of tc(8): "10mbit" is 1e7. ValueError else."""
    value = _scaled(text, UnitKind.RATE, "100mbit, 1gbit, 64kbit")
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    return float(value)


def bytes_slip(text: str) -> str:
    """The warning of a rate in bytes per second, which `bps` is in tc(8); "" for anything else."""
    if text[-3:].lower() != "bps" or (found := quantity(text)) is None:
        return ""
    bits = f"{text[:-3]}bit"
    return (
        f"{text} is {format_rate(float(found.value))}: as in tc, bps is bytes per second;"
        f" {bits} is in bits"
    )


def counted(number: int, noun: str) -> str:
    """`1 flow`, `2 flows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# From this part of a unit on, three digits show the whole of it: 999.5 kbit/s are 1 Mbit/s.
_ALMOST = 0.9995


def _prefixed(value: float) -> str:
    """A number with three digits, and the prefix of its unit: 94123456.0 is "94.1 M"."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * _ALMOST:
            return f"{value / factor:.3g} {prefix}"
    return f"{value:.3g} "


def format_rate(rate_bps: float) -> str:
    """A rate for people: 94123456.0 is "94.1 Mbit/s"."""
    return f"{_prefixed(rate_bps)}bit/s"


def format_tc_rate(rate_bps: float) -> str:
    """A rate as tc(8) reads it back without loss: whole bits per second."""
    return f"{round(rate_bps)}bit"


def format_time(seconds: float) -> str:
    """A duration for people: 0.2 is "200 ms", 75 is "1 min 15 s"."""
    if seconds < _ALMOST:
        return f"{seconds * 1000:.3g} ms"
    # Three digits show more as 60 s.
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def format_size(size_bytes: int) -> str:
    """A size as the language reads it back: 64000 is "64K", 65536 is "65536"."""
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "K")):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def format_bytes(count: float) -> str:
    """A size for people: 1234567 is "1.23 MB"."""
    return f"{count:.0f} bytes" if count < 1e3 * _ALMOST else f"{_prefixed(count)}B"


def decimal(value: float) -> str:
    """A number for tools, without loss and exponent: 0.01 is "0.01", never "1e-02" or "0"."""
    return f"{value:.9f}".rstrip("0").rstrip(".")
