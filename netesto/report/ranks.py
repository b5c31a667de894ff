"""Two groups of runs by their ranks: whether they differ, by how much, and how sure that is.

Test, change and interval are of one statistic, so that none can contradict another: of all ratios
of a run of one group to a run of the other, how many are above 1. The Mann-Whitney test counts
them, the change is their median (J. Hodges, E. Lehmann, Ann. Math. Statist. 34, 1963), and the
interval's ends are those of them that the test would just not refuse. Pairs have the Wilcoxon test
and the means of two log ratios in their place. (M. Hollander, D. Wolfe: Nonparametric Statistical
Methods, 1999, 4.1 to 4.3 and 3.1 to 3.3.) Ratios, for a threshold is a part of the base; 0 against
0 is 1, anything against 0 infinite.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from netesto.report.expscript.csvcells import Floats
from netesto.report.expscript.estimates import Interval

_Ranks: TypeAlias = NDArray[np.int64]

# Up to so many values all arrangements are counted; beyond, the sums are as good as normal.
EXACT_MAX = 100
# So many ratios are kept and sorted at most.
RATIOS_MAX = 1_000_000
# Log ratios nearer than this are equal: the last digits of a quotient mean nothing.
_DECIMALS = 12
# Two groups so many standard deviations of a difference apart hardly ever overlap.
APART = 3.0
# Nothing tells how many runs a change takes that hides behind this many.
RUNS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """From base to new, as a part of base: 0.1 is 10 % more, -1 is nothing left.

    `interval` is None where there are too few runs for one. `direction` is the sign of the test's
    statistic, and never another than that of `part`. `least_p` is the smallest p that so many runs
    with these ties could have given.
    """

    part: float
    interval: Interval | None
    p: float
    least_p: float
    direction: int


def unpaired(base: Floats, new: Floats, *, confidence: float = 0.95) -> Change:
    """The change between two groups of at least one run each, none of them negative."""
    ranks = _doubled_ranks(np.concatenate((base, new)))
    chosen = len(new)
    p, least, direction = _of_sum(ranks, chosen, int(ranks[len(base) :].sum()))
    apart = _Ratios(base, new)
    below = _untied_tail(len(base), chosen, (1 - confidence) / 2)
    return Change(_median(apart), _between(apart, below), p, least, direction)


def paired(base: Floats, new: Floats, *, confidence: float = 0.95) -> Change:
    """The change between the runs of at least one pair: base[i] and new[i] ran side by side."""
    ratios = _ratios(base, new)
    ranks = _doubled_ranks(np.abs(ratios))
    # A pair without a difference has a rank (J. Pratt, J. Amer. Statist. Assoc. 54, 1959) and no
    # sign.
    signed = ranks[ratios != 0]
    p, least, direction = _of_signs(signed, int(ranks[ratios > 0].sum()))
    first, second = np.triu_indices(len(ratios))
    with np.errstate(invalid="ignore"):
        means = np.nan_to_num((ratios[first] + ratios[second]) / 2, nan=0.0, posinf=np.inf,
                              neginf=-np.inf)  # fmt: skip
    below = _untied_signs_tail(len(ratios), (1 - confidence) / 2)
    means.sort()
    return Change(_median(means), _between(means, below), p, least, direction)


class _Ratios:
    """All log ratios in their order, without keeping them where they are too many.

    Then one of them is found by bisection: how many are at or below a number, the sorted runs tell.
    """

    def __init__(self, base: Floats, new: Floats) -> None:
        self._count = len(base) * len(new)
        self._ordered: Floats | None = None
        if self._count <= RATIOS_MAX:
            self._ordered = np.sort(_ratios(base[:, None], new[None, :]), axis=None)
            return
        self._base, self._new = np.sort(_logarithms(base)), np.sort(_logarithms(new))
        self._zeros = int((base == 0).sum()) * int((new == 0).sum())

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> float:
        if self._ordered is not None:
            return float(self._ordered[place])
        wanted = place % self._count + 1
        finite = np.concatenate((self._base, self._new))
        finite = finite[np.isfinite(finite)]
        reach = float(np.ptp(finite)) + 1 if len(finite) else 1.0
        low, high = -reach, reach
        if self._at_or_below(low) >= wanted:
            return -math.inf
        if self._at_or_below(high) < wanted:
            return math.inf
        while high - low > 10**-_DECIMALS:
            middle = (low + high) / 2
            if self._at_or_below(middle) >= wanted:
                high = middle
            else:
                low = middle
        return round(high, _DECIMALS)

    def _at_or_below(self, ratio: float) -> int:
        # Those of 0 to 0 are 0, and not what a difference of infinities is.
        greater = np.searchsorted(self._base, self._new - ratio, side="left")
        found = self._count - int(greater.sum())
        return found if ratio >= 0 else found - self._zeros


def _ratios(base: Floats, new: Floats) -> Floats:
    """Logarithms of new to base."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(new) - np.log(base)
    found = np.where(np.isnan(found), 0.0, found)
    rounded: Floats = np.round(found, _DECIMALS)
    return rounded


def _median(ordered: Floats | _Ratios) -> float:
    middle = [float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])]
    if middle[0] == -math.inf and middle[1] == math.inf:
        return 0.0
    return _part(sum(middle) / 2)


def _part(logarithm: float) -> float:
    return math.expm1(min(logarithm, 700.0)) if logarithm < math.inf else math.inf


def _between(ordered: Floats | _Ratios, below: int) -> Interval | None:
    """From the value with `below` others under it to the one with as many above it."""
    if below < 0:
        return None
    return Interval(_part(float(ordered[below])), _part(float(ordered[-1 - below])))


def _doubled_ranks(values: Floats) -> _Ranks:
    """Twice the ranks, from 2; equal values have the mean of theirs, which is whole then."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    doubled: _Ranks = (2 * last - counts + 1)[inverse]
    return doubled


# ---- distributions -----------------------------------------------------------------------


def _of_sum(ranks: _Ranks, chosen: int, total: int) -> tuple[float, float, int]:
    """p, the least p, and the direction of a sum of `chosen` ranks."""
    expected = float(ranks.sum()) * chosen / len(ranks)
    if len(ranks) <= EXACT_MAX:
        counts = _sums(tuple(sorted(ranks.tolist())), chosen)
        return _exact(counts, expected, total)
    spread = float(np.var(ranks, ddof=1)) * chosen * (len(ranks) - chosen) / len(ranks)
    return _approximate(expected, spread, total, np.sort(ranks), chosen)


def _of_signs(ranks: _Ranks, total: int) -> tuple[float, float, int]:
    """p, the least p, and the direction of the sum of the ranks with a plus."""
    expected = float(ranks.sum()) / 2
    if len(ranks) <= EXACT_MAX:
        return _exact(_signed_sums(tuple(sorted(ranks.tolist()))), expected, total)
    spread = float((ranks.astype(np.float64) ** 2).sum()) / 4
    return _approximate(expected, spread, total, ranks, len(ranks))


def _exact(counts: Floats, expected: float, total: int) -> tuple[float, float, int]:
    """`counts` has the number of arrangements with each sum; all are equally likely."""
    apart = np.abs(np.arange(len(counts)) - expected)
    there = counts > 0
    furthest = float(apart[there].max())
    # Expected sums are not whole where the groups have different sizes.
    p = float(counts[apart >= abs(total - expected) - 1e-6].sum() / counts.sum())
    least = float(counts[apart >= furthest - 1e-6].sum() / counts.sum())
    return min(p, 1.0), min(least, 1.0), _sign(total - expected)


def _approximate(
    expected: float,
    spread: float,
    total: int,
    ranks: _Ranks,
    chosen: int,
) -> tuple[float, float, int]:
    """By the normal distribution, with the correction for continuity: sums go by 2 at least."""
    furthest = max(abs(float(ranks[-chosen:].sum()) - expected), 1.0)
    return (
        _normal_p(abs(total - expected), spread),
        _normal_p(furthest, spread),
        _sign(total - expected),
    )


def _normal_p(apart: float, spread: float) -> float:
    if spread <= 0:
        return 1.0
    return math.erfc(max(0.0, apart - 1) / math.sqrt(2 * spread))


def _sign(value: float) -> int:
    return 0 if abs(value) < 1e-6 else int(math.copysign(1, value))


@lru_cache(maxsize=1024)
def _sums(scores: tuple[int, ...], chosen: int) -> Floats:
    """How many choices of so many scores have each sum, by adding one score after the other."""
    counts = np.zeros((chosen + 1, sum(scores) + 1))
    counts[0, 0] = 1.0
    for score in scores:
        counts[1:, score:] += counts[:-1, : counts.shape[1] - score].copy()
    found: Floats = counts[chosen]
    return found


@lru_cache(maxsize=1024)
def _signed_sums(scores: tuple[int, ...]) -> Floats:
    """How many choices of signs give the scores with a plus each sum."""
    counts = np.zeros(sum(scores) + 1)
    counts[0] = 1.0
    for score in scores:
        counts[score:] += counts[: len(counts) - score].copy()
    return counts


@lru_cache(maxsize=1024)
def _untied_tail(base: int, new: int, tail: float) -> int:
    """How many ratios lie outside of the interval on each side; -1 if there is none."""
    total = base + new
    if total > EXACT_MAX:
        spread = math.sqrt(base * new * (total + 1) / 12)
        z = statistics.NormalDist().inv_cdf(1 - tail)
        return math.floor(base * new / 2 - z * spread) - 1
    counts = _sums(tuple(range(1, total + 1)), new)[new * (new + 1) // 2 :]
    return _tail(counts, tail)


@lru_cache(maxsize=1024)
def _untied_signs_tail(pairs: int, tail: float) -> int:
    if pairs > EXACT_MAX:
        spread = math.sqrt(pairs * (pairs + 1) * (2 * pairs + 1) / 24)
        z = statistics.NormalDist().inv_cdf(1 - tail)
        return math.floor(pairs * (pairs + 1) / 4 - z * spread) - 1
    return _tail(_signed_sums(tuple(range(1, pairs + 1))), tail)


def _tail(counts: Floats, tail: float) -> int:
    """The greatest u with P(U <= u) within the tail; -1 if there is none."""
    shares = np.cumsum(counts) / counts.sum()
    return int(np.searchsorted(shares, tail + 1e-12, side="right")) - 1


# ---- failures, several comparisons, and how many runs would do ---------------------------


def fisher(failed: tuple[int, int], runs: tuple[int, int]) -> tuple[float, float]:
    """p of a difference this great between two shares of failed runs, and the least p.

    R. Fisher's exact test, two-sided: tables as unlikely as this one and less (The Design of
    Experiments, 1935, 12). Where nothing failed the least p is 1, and a correction for several
    comparisons need not count it (R. Tarone, Biometrics 46, 1990).
    """
    both, total = sum(failed), sum(runs)
    weights = {
        first: math.comb(runs[0], first) * math.comb(runs[1], both - first)
        for first in range(max(0, both - runs[1]), min(both, runs[0]) + 1)
    }
    every = math.comb(total, both)
    p = sum(weight for weight in weights.values() if weight <= weights[failed[0]]) / every
    least = min(weights.values())
    return p, sum(weight for weight in weights.values() if weight <= least) / every


def holm(probabilities: Sequence[float]) -> list[float]:
    """Corrected for their number: with these, one false alarm among all is as likely as p says.

    S. Holm: A Simple Sequentially Rejective Multiple Test Procedure, Scand. J. Statist. 6, 1979.
    """
    order = sorted(range(len(probabilities)), key=probabilities.__getitem__)
    corrected = [1.0] * len(probabilities)
    greatest = 0.0
    for done, place in enumerate(order):
        greatest = max(greatest, min(1.0, probabilities[place] * (len(order) - done)))
        corrected[place] = greatest
    return corrected


def least_p(runs: int, *, is_paired: bool = False) -> float:
    """The smallest p of so many runs on each side (or pairs) without ties."""
    return min(1.0, 2 / (2**runs if is_paired else math.comb(2 * runs, runs)))


def runs_needed(
    base: Floats, new: Floats, part: float, *, alpha: float, is_paired: bool = False
) -> int | None:
    """About how many runs on each side (or pairs) find a change by `part` in 80 of 100 cases.

    G. Noether, J. Amer. Statist. Assoc. 82, 1987, with log-normal runs that spread as these do; at
    least so many that the test can find anything. None where these are enough for that and their
    spread is not known (of zeros), or where it would be more than RUNS_MAX.
    """
    least = 1
    while least_p(least, is_paired=is_paired) >= alpha:
        least += 1
    spread = _spread([_ratios(base, new)] if is_paired else [_logarithms(base), _logarithms(new)])
    if spread is None:
        return least if min(len(base), len(new)) < least else None
    normal = statistics.NormalDist()
    # How often a run is above one of the other side; or the mean of two pairs above 0.
    far = math.log1p(part) * math.sqrt(2 if is_paired else 0.5)
    if far >= APART * spread > 0 or spread == 0 < far:
        return least
    apart = normal.cdf(far / spread) - 0.5 if spread > 0 else 0.0
    if apart <= 0:
        return None
    both = (normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(0.8)) ** 2 / (3 * apart**2)
    needed = max(least, math.ceil(both if is_paired else both / 2))
    return needed if needed <= RUNS_MAX else None


def _logarithms(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        found: Floats = np.log(values)
    return found


def _spread(groups: Sequence[Floats]) -> float | None:
    """The standard deviation within groups; None if there is none."""
    degrees = sum(map(len, groups)) - len(groups)
    if degrees < 1 or not all(np.isfinite(one).all() for one in groups):
        return None
    squares = math.fsum(float(np.var(one)) * len(one) for one in groups)
    return math.sqrt(squares / degrees)
