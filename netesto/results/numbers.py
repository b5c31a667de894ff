"""Numbers in results: writing, reading and averages."""

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from decimal import Decimal

from netesto.units import COUNT_FACTORS

UNKNOWN = "—"

# A no-break thin space: groups of three digits stay on one line.
THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([KMG]?)")

_DECIMAL = re.compile(r"-?\d+\.\d+")

# A quantile that rests on fewer slower values is unreliable, and marked.
FEW_SLOWER = 10


def parse(text: str) -> float | None:
    """The number in `text`, which may have the suffix K, M or G (thousands); None if invalid."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    value = float(match[1]) * COUNT_FACTORS.get(match[2], 1.0)
    return value if math.isfinite(value) else None


def fixed(value: float, decimals: int) -> str:
    """`value` with this number of decimals; never "-0.0"."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def outward(value: float, rounding: str) -> str:
    """An extreme with one to three decimals. A minimum is rounded down and a maximum up, so that no
    mean, which has three, is beyond them."""
    text = f"{Decimal(repr(value)).quantize(Decimal('0.001'), rounding):f}".rstrip("0")
    return fixed(float(text), max(1, len(text.partition(".")[2])))


def short(value: float | None, decimals: int) -> str:
    """`value` with at most this number of decimals, without zeros at the end; "" for None."""
    return "" if value is None else trimmed(fixed(value, decimals))


def trimmed(text: str) -> str:
    """A decimal without zeros at its end, another text as it is: "60.0" is "60", "1M" stays."""
    return text.rstrip("0").rstrip(".") if _DECIMAL.fullmatch(text) else text


# ---- for people: the text of a value -> what a table shows


def text(text: str) -> str:
    """A value unchanged."""
    return text or UNKNOWN


def switch(text: str) -> str:
    """on for 1, off for 0."""
    return {"1": "on", "0": "off", "": UNKNOWN}.get(text, text)


def hundredths(text: str) -> str:
    """A number with two decimals."""
    number = parse(text)
    return UNKNOWN if number is None else fixed(number, 2)


def figure(text: str, digits: int = 4) -> str:
    """A number with this number of significant digits, "1 234", "0.05679"."""
    number = parse(text)
    if not number:
        return "0" if number == 0 else text or UNKNOWN
    if abs(number) >= 10 ** (digits - 1):
        return count(text)
    decimals = max(0, digits - 1 - int(f"{number:e}".partition("e")[2]))
    return short(number, decimals)


def count(text: str) -> str:
    """A whole number, with a space between thousands."""
    number = parse(text)
    return text or UNKNOWN if number is None else f"{number:,.0f}".replace(",", THIN_SPACE)


def milliseconds(text: str) -> str:
    """A number of microseconds in milliseconds, with four significant digits."""
    number = parse(text)
    return text or UNKNOWN if number is None else figure(repr(number / 1000))


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None without any."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def total(values: Iterable[float | None]) -> float | None:
    """The sum; None unless every part is known."""
    parts = list(values)
    known = [value for value in parts if value is not None]
    return math.fsum(known) if known and len(known) == len(parts) else None


def least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def greatest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def is_few(count: int, share: float) -> bool:
    """Whether a quantile of `count` values rests on fewer than FEW_SLOWER slower ones."""
    return count - 1 - math.floor((count - 1) * share) < FEW_SLOWER


def fairness(rates: Sequence[float]) -> float | None:
    """Jain's index, (Σx)² / (n·Σx²): 1 if all are equal, 1/n if one has everything.

    R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems, DEC-TR-301, 1984. None without any rate above 0.
    """
    squares = math.fsum(rate * rate for rate in rates)
    return math.fsum(rates) ** 2 / (len(rates) * squares) if squares > 0 else None
