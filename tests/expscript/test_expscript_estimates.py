import statistics
from pathlib import Path

import numpy as np
import pytest

from netesto.report.expscript import estimates

MANUAL = Path(__file__).parents[2] / "docs/reports.md"

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t.
NIST = [
    (1, 0.90, 3.078), (1, 0.975, 12.706), (2, 0.999, 22.327), (2, 0.975, 4.303),
    (3, 0.95, 2.353), (4, 0.99, 3.747), (5, 0.975, 2.571), (7, 0.975, 2.365),
    (9, 0.975, 2.262), (10, 0.995, 3.169), (15, 0.975, 2.131), (20, 0.975, 2.086),
    (29, 0.95, 1.699), (30, 0.975, 2.042), (60, 0.975, 2.000), (100, 0.975, 1.984),
    (100_000_000, 0.975, 1.960),
]  # fmt: skip


@pytest.mark.parametrize(("degrees", "probability", "t"), NIST)
def test_quantiles_of_t_are_those_of_published_tables(degrees, probability, t):
    assert round(estimates.t_quantile(probability, degrees), 3) == t


def test_the_lower_tail_mirrors_the_upper():
    assert estimates.t_quantile(0.025, 7) == -estimates.t_quantile(0.975, 7)


def test_the_expansion_agrees_with_the_series_where_they_meet():
    series = estimates.t_distribution(estimates.t_quantile(0.975, 1001), 1001)
    assert abs(series - 0.975) < 1e-9


def test_the_interval_of_a_mean():
    # Six weights; the mean is 5, s = 2, t(0.975, 5) = 2.5706.
    values = np.array([3.0, 3.0, 5.0, 5.0, 7.0, 7.0])
    half = estimates.mean_half_width(values)
    assert half is not None
    assert round(half, 4) == round(2.570582 * float(np.std(values, ddof=1)) / 6**0.5, 4)


# What runs look like: the true percentile is that of the distribution, not of the sample.
NORMAL = statistics.NormalDist()
SAMPLES = 2000
# Three standard deviations of a share of 95 % in so many samples.
LEAST_COVERED = 0.95 - 3 * (0.95 * 0.05 / SAMPLES) ** 0.5
DISTRIBUTIONS = {
    "normal": (lambda g, size: g.normal(size=size), NORMAL.inv_cdf),
    "lognormal": (lambda g, size: g.lognormal(size=size), lambda p: np.exp(NORMAL.inv_cdf(p))),
    "exponential": (lambda g, size: g.exponential(size=size), lambda p: -np.log(1 - p)),
    # Half of the runs about -5, half about +5: two alternating paths.
    "bimodal": (
        lambda g, size: g.normal(size=size) * 0.01 + g.choice([-5, 5], size=size),
        lambda p: {0.5: 0.0, 0.9: 5 + 0.01 * NORMAL.inv_cdf(0.8)}[p],
    ),
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(
    ("percent", "runs"), [(50, 6), (50, 8), (50, 11), (50, 20), (90, 29), (90, 50)]
)
def test_the_interval_of_a_percentile_covers_it_in_95_of_100(distribution, percent, runs):
    draw, quantile = DISTRIBUTIONS[distribution]
    samples = draw(np.random.default_rng(20), (SAMPLES, runs))
    intervals = [estimates.percentile_interval(values, percent) for values in samples]
    true = quantile(percent / 100)
    covered = [one is not None and one.low <= true <= one.high for one in intervals]
    assert np.mean(covered) >= LEAST_COVERED


@pytest.mark.parametrize("runs", [2, 3, 5, 8, 20])
def test_the_interval_of_a_mean_covers_that_of_normal_values_in_95_of_100(runs):
    samples = np.random.default_rng(21).normal(size=(SAMPLES, runs))
    halves = [estimates.mean_half_width(values) or 0.0 for values in samples]
    assert np.mean(np.abs(samples.mean(axis=1)) <= halves) >= LEAST_COVERED


SKEWED = {
    "normal": (lambda g, size: g.normal(size=size), 0.0),
    "exponential": (lambda g, size: g.exponential(size=size), 1.0),
    "lognormal, s = 0.3": (lambda g, size: g.lognormal(sigma=0.3, size=size), np.exp(0.045)),
    "lognormal, s = 1": (lambda g, size: g.lognormal(size=size), np.exp(0.5)),
    "two equally likely values": (
        lambda g, size: g.choice([-5, 5], size=size) + g.normal(size=size) * 0.01,
        0.0,
    ),
}


def documented_shares():
    """(runs, distribution, percent) of the table in docs/reports.md."""
    lines = [line for line in MANUAL.read_text().splitlines() if "|" in line]
    start = next(i for i, line in enumerate(lines) if line.startswith("| runs | normal"))
    names = [cell.strip() for cell in lines[start].strip("|").split("|")][1:]
    found: list[tuple[int, str, int]] = []
    for line in lines[start + 2 : start + 7]:
        runs, *shares = (int(cell) for cell in line.strip("|").split("|"))
        found += [(runs, name, share) for name, share in zip(names, shares, strict=True)]
    return found


@pytest.mark.parametrize(("runs", "name", "percent"), documented_shares())
def test_the_interval_of_a_mean_covers_what_the_manual_says(runs, name, percent):
    draw, true = SKEWED[name]
    samples = draw(np.random.default_rng(22), (SAMPLES, runs))
    quantile = estimates.t_quantile(0.975, runs - 1)
    halves = quantile * samples.std(axis=1, ddof=1) / runs**0.5
    assert halves[0] == pytest.approx(estimates.mean_half_width(samples[0]))
    covered = 100 * np.mean(np.abs(samples.mean(axis=1) - true) <= halves)
    assert abs(covered - percent) <= 2.5


@pytest.mark.parametrize(("percent", "needed"), [(50, 6), (90, 29), (99, 299), (10, 29)])
def test_fewer_values_than_needed_have_no_interval(percent, needed):
    assert estimates.values_needed(percent) == needed
    assert estimates.percentile_interval(np.arange(needed - 1.0), percent) is None
    assert estimates.percentile_interval(np.arange(float(needed)), percent) is not None


def test_an_interval_of_a_median_is_symmetric_and_lies_between_values():
    # 2..8 of 0..10: P(2 <= B < 10) of B(11, 1/2) is 0.988, without the ends 0.935.
    assert estimates.percentile_interval(np.arange(11.0), 50) == estimates.ConfidenceInterval(
        1.0, 9.0
    )


def test_ends_belong_to_the_count_and_many_values_are_counted_too():
    # The normal approximation: 500000 -+ 1.96 * 500.
    assert estimates.order_statistics(1_000_000, 50, 0.95) == (499_020, 500_981)


def test_one_value_has_no_interval():
    assert estimates.percentile_interval(np.array([1.0]), 50) is None
    assert estimates.mean_half_width(np.array([1.0])) is None
