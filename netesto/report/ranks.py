"""Compares two groups of runs by ranks: whether they differ, by how much, and how certain that is.

Test, change and interval use one statistic, so that none can contradict another: how many of all
ratios of a run of one group to a run of the other are above 1. The Mann-Whitney test counts them,
the change is their median (J. Hodges, E. Lehmann, Ann. Math. Statist. 34, 1963), and the interval's
ends are those that the test would just not reject. Pairs use the Wilcoxon test and the means of two
log ratios instead. (M. Hollander, D. Wolfe: Nonparametric Statistical Methods, 1999, 4.1 to 4.3 and
3.1 to 3.3.) Ratios, because a threshold is a fraction of the base; 0 to 0 is 1, anything else to 0
infinite.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from netesto.report.expscript.csvcells import Floats
from netesto.report.expscript.estimates import ConfidenceInterval

_Ranks: TypeAlias = NDArray[np.int64]

# Outside of an interval of 95 %, on each side.
TAIL = 0.025
# Up to this many values all arrangements are counted; with more, the sums are practically normal.
EXACT_MAX = 100
# At most this many ratios are kept and sorted.
RATIOS_MAX = 1_000_000
# Log ratios closer than this are equal: the last digits of a quotient are noise.
_DECIMALS = 12
# Two groups hardly ever overlap if they are this many standard deviations of a difference apart.
APART = 3.0
# More runs than this are not a useful answer.
RUNS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class RelativeChange:
    """From base to new, as a fraction of base: 0.1 is 10 % more, -1 is nothing left.

    `interval` is None if there are too few runs for one. `direction` is the sign of the test's
    statistic, which `part` never contradicts. `least_p` is the smallest p that so many runs with
    these ties could have given.
    """

    part: float
    interval: ConfidenceInterval | None
    p: float
    least_p: float
    direction: int


def unpaired(base: Floats, new: Floats) -> RelativeChange:
    """The change between two groups of at least one run each, none of them negative."""
    ranks = _doubled_ranks(np.concatenate((base, new)))
    result = _of_sum(ranks, len(new)).result(int(ranks[len(base) :].sum()))
    return _change(_Ratios(base, new), result, _below(len(ranks), len(new)))


def paired(base: Floats, new: Floats) -> RelativeChange:
    """The change between the runs of at least one pair: base[i] and new[i] ran side by side."""
    ratios = _ratios(base, new)
    ranks = _doubled_ranks(np.abs(ratios))
    # A pair without a difference has a rank (J. Pratt, J. Amer. Statist. Assoc. 54, 1959) and no
    # sign.
    result = _of_signs(ranks[ratios != 0]).result(int(ranks[ratios > 0].sum()))
    first, second = np.triu_indices(len(ratios))
    with np.errstate(invalid="ignore"):
        means = (ratios[first] + ratios[second]) / 2
    means = np.sort(np.where(np.isnan(means), 0.0, means))
    return _change(means, result, _below(len(ratios), None))


def _change(
    ordered: "Floats | _Ratios", result: tuple[float, float, int], below: int
) -> RelativeChange:
    """From sorted log ratios, and p, the smallest p and the direction of their test. The interval
    leaves out `below` ratios on each side."""
    p, smallest, direction = result
    middle = [float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])]
    part = 0.0 if middle == [-math.inf, math.inf] else _part(sum(middle) / 2)
    interval = None
    if below >= 0:
        interval = ConfidenceInterval(
            _part(float(ordered[below])), _part(float(ordered[-1 - below]))
        )
    return RelativeChange(part, interval, p, smallest, direction)


class _Ratios:
    """All log ratios in order; if they are too many to keep, one is found by bisection: the sorted
    runs give how many are at or below a number."""

    def __init__(self, base: Floats, new: Floats) -> None:
        self._count = len(base) * len(new)
        self._ordered: Floats | None = None
        if self._count <= RATIOS_MAX:
            self._ordered = np.sort(_ratios(base[:, None], new[None, :]), axis=None)
            return
        self._base, self._new = np.sort(_logarithms(base)), np.sort(_logarithms(new))
        self._zeros = int((base == 0).sum()) * int((new == 0).sum())
        finite = np.concatenate((self._base, self._new))
        finite = finite[np.isfinite(finite)]
        self._reach = float(np.ptp(finite)) + 1 if len(finite) else 1.0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> float:
        if self._ordered is not None:
            return float(self._ordered[place])
        wanted = place % self._count + 1
        low, high = -self._reach, self._reach
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
        # Those of 0 to 0 are 0, not the difference of infinities.
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


def _part(logarithm: float) -> float:
    return math.expm1(min(logarithm, 700.0)) if logarithm < math.inf else math.inf


def _doubled_ranks(values: Floats) -> _Ranks:
    """Twice the ranks, from 2; equal values have the mean of theirs, which is then whole."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    doubled: _Ranks = (2 * last - counts + 1)[inverse]
    return doubled


# ---- distributions -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Null:
    """The distribution of a sum of doubled ranks under the null hypothesis.

    `counts`: how many arrangements, all equally likely, have each sum; None if they are too many,
    and the sum is as good as normal, with this variance, and is at most `greatest`.
    """

    expected: float
    counts: Floats | None = None
    variance: float = 0.0
    greatest: float = 0.0

    def result(self, total: int) -> tuple[float, float, int]:
        """p of this sum, the smallest p of any sum, and the direction: its sign."""
        apart = total - self.expected
        direction = 0 if abs(apart) < 1e-6 else int(math.copysign(1, apart))
        return self._p(abs(apart)), self._smallest_p, direction

    @cached_property
    def _smallest_p(self) -> float:
        if self.counts is None:
            return self._p(max(abs(self.greatest - self.expected), 1.0))
        reached = np.flatnonzero(self.counts)
        return self._p(float(np.abs(reached - self.expected).max()))

    def _p(self, apart: float) -> float:
        """Of a sum so far from the expected one; the normal one has the correction for continuity:
        sums differ by 2 at least."""
        if self.counts is None:
            if self.variance <= 0:
                return 1.0
            return math.erfc(max(0.0, apart - 1) / math.sqrt(2 * self.variance))
        # Expected sums are not whole if the groups have different sizes.
        distances = np.abs(np.arange(len(self.counts)) - self.expected)
        return min(float(self.counts[distances >= apart - 1e-6].sum() / self.counts.sum()), 1.0)

    def below(self, tail: float) -> int:
        """Of ranks without ties: the greatest u such that the u+1 smallest values of the statistic,
        which are half the sums above the smallest sum, have a probability within the tail; -1 if
        there is none."""
        if self.counts is None:
            z = statistics.NormalDist().inv_cdf(1 - tail)
            smallest = 2 * self.expected - self.greatest
            return math.floor((self.expected - smallest - z * math.sqrt(self.variance)) / 2) - 1
        shares = np.cumsum(self.counts[np.argmax(self.counts > 0) :: 2]) / self.counts.sum()
        return int(np.searchsorted(shares, tail + 1e-12, side="right")) - 1


def _of_sum(ranks: _Ranks, chosen: int) -> _Null:
    """Of the sum of `chosen` ranks."""
    ordered = np.sort(ranks)
    if len(ranks) <= EXACT_MAX:
        return _exact_of_sum(tuple(ordered.tolist()), chosen)
    expected = float(ordered.sum()) * chosen / len(ranks)
    variance = float(np.var(ranks, ddof=1)) * chosen * (len(ranks) - chosen) / len(ranks)
    return _Null(expected, variance=variance, greatest=float(ordered[-chosen:].sum()))


def _of_signs(ranks: _Ranks) -> _Null:
    """Of the sum of the ranks with a plus."""
    if len(ranks) <= EXACT_MAX:
        return _exact_of_signs(tuple(np.sort(ranks).tolist()))
    total = float(ranks.sum())
    squares = float((ranks.astype(np.float64) ** 2).sum())
    return _Null(total / 2, variance=squares / 4, greatest=total)


@lru_cache(maxsize=1024)
def _below(count: int, chosen: int | None) -> int:
    """`_Null.below` of the sum of `chosen` of so many untied ranks, for TAIL; with None, of those
    with a plus."""
    ranks = 2 * np.arange(1, count + 1)
    return (_of_signs(ranks) if chosen is None else _of_sum(ranks, chosen)).below(TAIL)


@lru_cache(maxsize=1024)
def _exact_of_sum(scores: tuple[int, ...], chosen: int) -> _Null:
    """Counts the choices of so many scores by their sums, adding one score after the other."""
    counts = np.zeros((chosen + 1, sum(scores) + 1))
    counts[0, 0] = 1.0
    reach = 0
    for taken, score in enumerate(scores, start=1):
        reach += score
        counts[1 : taken + 1, score : reach + 1] += counts[
            : min(taken, chosen), : reach - score + 1
        ]
    return _Null(sum(scores) * chosen / len(scores), counts[chosen].copy())


@lru_cache(maxsize=1024)
def _exact_of_signs(scores: tuple[int, ...]) -> _Null:
    """Counts the choices of signs by the sums of the scores with a plus."""
    counts = np.zeros(sum(scores) + 1)
    counts[0] = 1.0
    reach = 0
    for score in scores:
        reach += score
        counts[score : reach + 1] += counts[: reach - score + 1]
    return _Null(sum(scores) / 2, counts)


# ---- failures, several comparisons, and the number of runs -------------------------------


def fisher(failed: tuple[int, int], runs: tuple[int, int]) -> tuple[float, float]:
    """p of a difference this large between two shares of failed runs, and the smallest p.

    R. Fisher's exact test, two-sided: tables as unlikely as this one or less likely (The Design of
    Experiments, 1935, 12). If nothing failed the smallest p is 1, and a correction for several
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
    """Corrected for their number: p is then the probability of one false alarm among all.

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

    G. Noether, J. Amer. Statist. Assoc. 82, 1987, for log-normal runs with the variance of these;
    at least so many that the test can find anything. None if these are enough for that and their
    variance is not known (of zeros), or if it would be more than RUNS_MAX.
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
    """The standard deviation within groups; None if it is not known."""
    degrees = sum(map(len, groups)) - len(groups)
    if degrees < 1 or not all(np.isfinite(one).all() for one in groups):
        return None
    squares = math.fsum(float(np.var(one)) * len(one) for one in groups)
    return math.sqrt(squares / degrees)
