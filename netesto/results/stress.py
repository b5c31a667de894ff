"""What a stress test of a protected link measured: values of STRESS_LINK, and intervals."""

import math

_CONFIDENCE = 0.95


def clopper_pearson(successes: int, count: int) -> tuple[float, float]:
    """The exact 95 % interval of a binomial probability (Clopper and Pearson, 1934)."""
    half = (1 - _CONFIDENCE) / 2
    low = 0.0 if not successes else _quantile(half, successes, count - successes + 1)
    high = 1.0 if successes == count else _quantile(1 - half, successes + 1, count - successes)
    return low, high


def _quantile(probability: float, a: float, b: float) -> float:
    """Of the beta distribution, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if _beta(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function: DLMF 8.17.22, by Lentz's method."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    log_front += a * math.log(x) + b * math.log1p(-x)
    tiny, c, d = 1e-300, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 + step * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + step / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return math.exp(log_front) * result / a
