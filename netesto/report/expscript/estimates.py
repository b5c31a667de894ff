"""Statistics of repeated measurements: quantiles and confidence intervals."""

import math
import statistics
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from netesto.report.expscript.csvcells import Floats

# Above it the finite series of Student's t is long and its expansion exact to more than 9 digits.
MANY_DEGREES = 1000


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    low: float
    high: float


def t_distribution(t: float, degrees: int) -> float:
    """P(T <= t) of Student's t with whole degrees of freedom.

    M. Abramowitz, I. Stegun: Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    theta = math.atan2(t, math.sqrt(degrees))
    cosine = math.cos(theta)
    if degrees % 2:
        term = total = cosine
        for k in range(3, degrees, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        between = 2 / math.pi * (theta + math.sin(theta) * (total if degrees > 1 else 0.0))
    else:
        term = total = 1.0
        for k in range(2, degrees, 2):
            term *= cosine * cosine * (k - 1) / k
            total += term
        between = math.sin(theta) * total
    return (1 + between) / 2


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: int) -> float:
    """The t with P(T <= t) = probability, for whole degrees of freedom of 1 or more.

    The distribution is inverted by bisection; above MANY_DEGREES it is the expansion of
    Abramowitz and Stegun 26.7.5 around the normal quantile.
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, degrees)
    if degrees > MANY_DEGREES:
        z = statistics.NormalDist().inv_cdf(probability)
        first = (z**3 + z) / 4
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        return z + first / degrees + second / degrees**2
    low, high = 0.0, 1.0
    while t_distribution(high, degrees) < probability:
        low, high = high, high * 2
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        if t_distribution(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def standard_deviation(values: Floats) -> float | None:
    """Of a sample (divided by n - 1); None for less than two values."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def mean_half_width(values: Floats, *, confidence: float = 0.95) -> float | None:
    """Half the width of Student's interval around the mean; None for less than two values.

    It covers `confidence` of values that are normally distributed, less of skewed ones: there is
    no interval of a mean without such an assumption (R. Bahadur, L. Savage, Ann. Math. Statist.
    27, 1956).
    """
    deviation = standard_deviation(values)
    if deviation is None:
        return None
    quantile = t_quantile((1 + confidence) / 2, len(values) - 1)
    return quantile * deviation / math.sqrt(len(values))


@lru_cache(maxsize=4096)
def order_statistics(count: int, percent: float, confidence: float) -> tuple[int, int] | None:
    """The ranks, from 1, of the two of `count` values between which a percentile lies.

    The number of values below it is binomial, whatever their distribution, so the interval from
    the low-th to the high-th value covers it with P(low <= B < high) or more (H. David, H.
    Nagaraja: Order Statistics, 2003, 7.1). These are the nearest two for which that is
    `confidence`; they depend on the count alone, for ends chosen by the values would cover less.
    None where even the least and the greatest value are not far enough apart.
    """
    if count < 2:
        return None
    part = percent / 100
    low = high = min(max(math.floor((count + 1) * part), 1), count - 1)
    covered = _binomial(count, part, low)
    while covered < confidence:
        below = _binomial(count, part, low - 1) if low > 1 else 0.0
        above = _binomial(count, part, high + 1) if high < count - 1 else 0.0
        if below == above == 0:
            return None
        # Both where they are alike, so that the interval of a median is symmetric.
        alike = math.isclose(below, above)
        low -= below > above or alike
        high += above > below or alike
        covered = covered + below + above if alike else covered + max(below, above)
    return low, high + 1


def _binomial(count: int, part: float, successes: int) -> float:
    logarithm = math.lgamma(count + 1) - math.lgamma(successes + 1)
    logarithm -= math.lgamma(count - successes + 1)
    return math.exp(
        logarithm + successes * math.log(part) + (count - successes) * math.log1p(-part)
    )


def values_needed(percent: float, *, confidence: float = 0.95) -> int:
    """How many values the interval of a percentile takes: 6 for the median, 29 for p90.

    Between the least and the greatest of n values it lies with 1 - p^n - (1-p)^n.
    """
    part = percent / 100
    count = max(2, math.floor(math.log(1 - confidence) / math.log(max(part, 1 - part))))
    while 1 - part**count - (1 - part) ** count < confidence:
        count += 1
    return count


def percentile_interval(
    values: Floats, percent: float, *, confidence: float = 0.95
) -> ConfidenceInterval | None:
    """An interval of a percentile (of the median with 50) that needs no assumption.

    It covers `confidence` or more, of any distribution; None where there are too few values.
    """
    ranks = order_statistics(len(values), percent, confidence)
    if ranks is None:
        return None
    ordered = np.sort(values)
    return ConfidenceInterval(float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1]))
