"""Tests, changes and intervals by ranks: against published values, and by simulation."""

import math

import numpy as np
import pytest
from typed import nearly

from netesto.report import ranks
from netesto.report.expscript.estimates import ConfidenceInterval

# The example of SciPy's documentation of mannwhitneyu: U = 17, exact p 1/9, approximated 0.1113.
MALES = np.array([19.0, 22.0, 16.0, 29.0, 24.0])
FEMALES = np.array([20.0, 11.0, 17.0, 12.0])
COMPARISONS = 1000
# Three standard deviations of a share of 95 % in so many comparisons.
LEAST_COVERED = 0.95 - 3 * (0.95 * 0.05 / COMPARISONS) ** 0.5


def test_a_rank_test_of_few_values_is_exact():
    assert ranks.unpaired(MALES, FEMALES).p == nearly(1 / 9)


def test_a_rank_test_of_many_values_is_approximated(monkeypatch):
    monkeypatch.setattr(ranks, "EXACT_MAX", 0)
    assert ranks.unpaired(MALES, FEMALES).p == nearly(0.11134688653314041)


def test_ties_are_counted_and_not_approximated():
    # Of the 20 ways to choose three runs only this one and its mirror are so far apart.
    change = ranks.unpaired(np.array([1.0, 1.0, 1.0]), np.array([2.0, 2.0, 3.0]))
    assert change.p == nearly(2 / 20)


def test_a_signed_rank_test_is_exact():
    # All 2^6 signs; W+ = 20 of 21 has three neighbours as far: 20, 21, and 1, 0.
    base = np.ones(6)
    new = np.array([0.9, 1.2, 1.3, 1.4, 1.5, 1.6])
    assert ranks.paired(base, new).p == nearly(4 / 64)


# Critical values of U at 0.05 in two tails, as the published tables have them.
@pytest.mark.parametrize(("runs", "below"), [(4, 0), (5, 2), (6, 5), (8, 13), (10, 23)])
def test_ends_of_intervals_are_the_tests_critical_values(runs, below):
    ratios = np.sort((np.exp(np.arange(1.0, runs + 1))[None, :] / np.arange(1.0, runs + 1)[:, None])
                     .ravel()) - 1  # fmt: skip
    change = ranks.unpaired(np.arange(1.0, runs + 1), np.exp(np.arange(1.0, runs + 1)))
    assert change.interval is not None
    assert (change.interval.low, change.interval.high) == nearly(
        (ratios[below], ratios[-1 - below])
    )


def test_pairs_have_the_means_of_two_log_ratios():
    change = ranks.paired(np.ones(6), np.array([2.0, 4, 8, 16, 32, 64]))
    # Logarithms 1 to 6 of 2: their means have the median 3.5, and W needs all with 6 pairs.
    assert (change.part, change.interval) == (
        nearly(2**3.5 - 1), ConfidenceInterval(nearly(1), nearly(63))
    )  # fmt: skip


@pytest.mark.parametrize(("runs", "is_paired"), [(3, False), (5, True)])
def test_too_few_runs_have_no_interval_and_no_small_p(runs, is_paired):
    test = ranks.paired if is_paired else ranks.unpaired
    change = test(np.arange(1.0, runs + 1), np.arange(100.0, runs + 100))
    assert (change.interval, change.p >= 0.05, change.p) == (
        None, True, ranks.least_p(runs, is_paired=is_paired)
    )  # fmt: skip


def test_the_change_is_the_median_ratio_and_from_zero_it_is_infinite():
    zeros = np.zeros(4)
    assert ranks.unpaired(np.array([10.0]), np.array([11.0])).part == nearly(0.1)
    assert ranks.unpaired(zeros, zeros) == ranks.RelativeChange(
        0.0, ConfidenceInterval(0.0, 0.0), 1.0, 1.0, 0
    )
    assert ranks.unpaired(zeros, zeros + 3) == ranks.RelativeChange(
        math.inf, ConfidenceInterval(math.inf, math.inf), 2 / 70, 2 / 70, 1
    )
    assert ranks.unpaired(zeros + 3, zeros).part == -1.0


@pytest.mark.parametrize("is_paired", [False, True])
def test_the_direction_of_a_change_is_that_of_the_test(is_paired):
    draw = np.random.default_rng(5)
    test = ranks.paired if is_paired else ranks.unpaired
    # Few different values, zeros among them: ties everywhere.
    changes = [test(*draw.integers(0, 4, size=(2, 7)).astype(float)) for _ in range(COMPARISONS)]
    assert [one for one in changes if one.part * one.direction < 0] == []


SPREADS = {
    "normal": lambda g, size: 100 + 10 * g.normal(size=size),
    "lognormal": lambda g, size: g.lognormal(size=size),
    "exponential": lambda g, size: g.exponential(size=size),
    "bimodal": lambda g, size: g.choice([50.0, 100.0], size=size) + g.normal(size=size),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    ("runs", "is_paired"), [(4, False), (6, False), (10, False), (6, True), (10, True)]
)
def test_intervals_of_changes_cover_them_in_95_of_100(spread, runs, is_paired):
    draw = np.random.default_rng(6)
    test = ranks.paired if is_paired else ranks.unpaired
    samples = SPREADS[spread](draw, (COMPARISONS, 2, runs))
    intervals = [test(base, 1.2 * new).interval for base, new in samples]
    covered = [one is not None and one.low <= 0.2 <= one.high for one in intervals]
    assert np.mean(covered) >= LEAST_COVERED


# What docs/reports.md says of runs whose spread is five times that of the others.
@pytest.mark.parametrize(
    ("runs", "is_paired", "covered"),
    [((8, 8), False, 0.92), ((20, 5), False, 0.84), ((5, 20), False, 0.99), ((8, 8), True, 0.95)],
)
def test_intervals_of_runs_with_unequal_spread_cover_what_the_manual_says(runs, is_paired, covered):
    draw = np.random.default_rng(7)
    test = ranks.paired if is_paired else ranks.unpaired
    base = 100 + draw.normal(size=(COMPARISONS, runs[0]))
    new = 100 + 5 * draw.normal(size=(COMPARISONS, runs[1]))
    intervals = [test(*one).interval for one in zip(base, new, strict=True)]
    share = np.mean([one is not None and one.low <= 0 <= one.high for one in intervals])
    assert abs(share - covered) <= 0.03


@pytest.mark.parametrize("runs", [4, 6, 8])
def test_tied_runs_have_no_more_false_alarms_and_no_narrower_intervals(runs):
    draw = np.random.default_rng(10)
    pairs = draw.integers(9, 12, size=(COMPARISONS, 2, runs)).astype(float)
    changes = [ranks.unpaired(base, new) for base, new in pairs]
    covered = [one.interval and one.interval.low <= 0 <= one.interval.high for one in changes]
    assert np.mean([one.p < 0.05 for one in changes]) <= 1 - LEAST_COVERED
    assert np.mean([bool(one) for one in covered]) >= 0.95


def test_many_runs_have_normal_sums():
    draw = np.random.default_rng(8)
    samples = np.exp(draw.normal(size=(300, 2, 60)))
    changes = [ranks.unpaired(base, 1.2 * new) for base, new in samples]
    covered = [one.interval and one.interval.low <= 0.2 <= one.interval.high for one in changes]
    assert 0.91 <= np.mean([bool(one) for one in covered]) <= 0.99


def test_fishers_test_is_exact_and_knows_the_least_that_it_could_say():
    # R. Fisher's lady: 3 of 4 cups, one-sided 17/70; two-sided 34/70.
    assert ranks.fisher((1, 3), (4, 4)) == (nearly(34 / 70), nearly(2 / 70))
    assert ranks.fisher((0, 7), (8, 8))[0] == nearly(16 / 11440)
    assert ranks.fisher((0, 0), (8, 8)) == (1.0, 1.0)


def test_holm_corrects_step_by_step():
    assert ranks.holm([0.01, 0.04, 0.03, 0.005]) == nearly([0.03, 0.06, 0.06, 0.02])
    assert ranks.holm([]) == []


@pytest.mark.parametrize(("runs", "p"), [(3, 0.1), (4, 2 / 70), (1, 1.0)])
def test_few_runs_cannot_have_a_small_p(runs, p):
    assert ranks.least_p(runs) == nearly(p)


@pytest.mark.parametrize("is_paired", [False, True])
def test_the_runs_that_are_said_to_do_find_the_change(is_paired):
    draw = np.random.default_rng(9)
    test = ranks.paired if is_paired else ranks.unpaired

    def spread(runs: int, count: int):
        return np.exp(0.05 * draw.normal(size=(count, 2, runs)))

    needed = [
        ranks.runs_needed(base, new, 0.05, alpha=0.05, is_paired=is_paired) or 1000
        for base, new in spread(20, 50)
    ]
    found = [test(base, 1.05 * new).p < 0.05 for base, new in spread(int(np.median(needed)), 400)]
    assert 0.7 <= np.mean(found) <= 0.95


def test_one_run_tells_only_how_many_a_test_needs():
    assert ranks.runs_needed(np.ones(1), np.ones(1), 0.05, alpha=0.05) == 4
    assert ranks.runs_needed(np.ones(1), np.ones(1), 0.05, alpha=0.05 / 18) == 6
    assert ranks.runs_needed(np.ones(1), np.ones(1), 0.05, alpha=0.05, is_paired=True) == 6
    assert ranks.runs_needed(np.zeros(8), np.ones(8), 0.05, alpha=0.05) is None


def test_a_probability_is_never_0():
    assert 0 < ranks.unpaired(np.arange(1.0, 101), np.arange(1.0, 101) + 1000).p < 1e-30
    assert 0 < ranks.unpaired(np.arange(1.0, 51), np.arange(1.0, 51) + 1000).p < 1e-25


@pytest.mark.parametrize("zeros", [0, 7])
def test_ratios_that_are_too_many_to_keep_are_found_all_the_same(monkeypatch, zeros):
    draw = np.random.default_rng(12)
    base, new = draw.lognormal(size=(2, 30))
    base[:zeros] = new[:zeros] = 0
    kept = ranks.unpaired(base, new)
    monkeypatch.setattr(ranks, "RATIOS_MAX", 0)
    found = ranks.unpaired(base, new)
    assert kept.interval is not None
    assert found.interval is not None
    assert (found.part, found.interval.low, found.interval.high, found.p) == nearly(
        (kept.part, kept.interval.low, kept.interval.high, kept.p), abs=1e-9
    )
