"""Numbers in results: how they are written, how they are read back, and which averages we take."""

import math
import re
import statistics
from collections.abc import Iterable, Sequence

from netesto.units import COUNT_FACTORS

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([KMG]?)")


def parse(text: str) -> float | None:
    """The number in `text`, which may carry K, M or G (thousands); None if it is no number."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    value = float(match[1]) * COUNT_FACTORS.get(match[2], 1.0)
    return value if math.isfinite(value) else None


def fixed(value: float, decimals: int) -> str:
    """`value` with so many decimals; never "-0.0"."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def short(value: float | None, decimals: int) -> str:
    """`value` with at most so many decimals, without zeros at the end; "" for None."""
    if value is None:
        return ""
    text = fixed(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known, None if nothing is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def total(values: Iterable[float | None]) -> float | None:
    """The sum, None unless every part is known: a sum without one of its parts is another sum."""
    parts = list(values)
    known = [value for value in parts if value is not None]
    return math.fsum(known) if known and len(known) == len(parts) else None


def least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def greatest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def fairness(rates: Sequence[float]) -> float | None:
    """Jain's index, (Σx)² / (n·Σx²): 1 when all are equal, 1/n when one has everything.

    R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems, DEC-TR-301, 1984. None if there is nothing to share.
    """
    squares = math.fsum(rate * rate for rate in rates)
    return math.fsum(rates) ** 2 / (len(rates) * squares) if squares > 0 else None
