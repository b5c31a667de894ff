import numpy as np
import pytest

from netesto.report.expscript import estimates

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


def test_the_bootstrap_covers_the_median_about_as_often_as_it_says():
    draw = np.random.default_rng(7)
    intervals = [estimates.percentile_interval(draw.exponential(size=40), 50) for _ in range(100)]
    covered = sum(one is not None and one.low <= np.log(2) <= one.high for one in intervals)
    assert 86 <= covered <= 100


def test_one_value_has_no_interval():
    assert estimates.percentile_interval(np.array([1.0]), 50) is None
    assert estimates.mean_half_width(np.array([1.0])) is None


def test_equal_data_give_equal_intervals():
    values = np.arange(30.0)
    assert estimates.percentile_interval(values, 90) == estimates.percentile_interval(values, 90)


# ---- two groups --------------------------------------------------------------------------

# The example of SciPy's documentation of mannwhitneyu: U = 17, exact p 1/9, approximated 0.1113.
MALES = np.array([19.0, 22.0, 16.0, 29.0, 24.0])
FEMALES = np.array([20.0, 11.0, 17.0, 12.0])


def test_a_rank_test_of_few_values_is_exact():
    assert estimates.rank_test(MALES, FEMALES) == pytest.approx(1 / 9)


def test_a_rank_test_of_many_values_is_approximated(monkeypatch):
    monkeypatch.setattr(estimates, "ARRANGEMENTS_MAX", 0)
    assert estimates.rank_test(MALES, FEMALES) == pytest.approx(0.11134688653314041)


def test_values_that_are_all_equal_do_not_differ():
    assert estimates.rank_test(np.ones(4), np.ones(5)) == 1
    assert estimates.rank_test(np.ones(40), np.ones(50)) == 1


@pytest.mark.parametrize(("base", "new", "p"), [(3, 3, 0.1), (4, 4, 2 / 70), (1, 1, 1.0)])
def test_few_values_cannot_have_a_small_p(base, new, p):
    assert estimates.least_rank_p(base, new) == pytest.approx(p)
    apart = estimates.rank_test(np.arange(base) * 1.0, np.arange(new) + 100.0)
    assert apart == pytest.approx(p)


def test_holm_corrects_step_by_step():
    assert estimates.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert estimates.holm([]) == []


def test_the_interval_of_a_difference():
    interval = estimates.welch_interval(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    assert interval is not None
    # se = sqrt(1/3 + 4/3), 2.9 degrees of freedom, rounded down; t(0.975, 2) = 4.3027
    assert (round(interval.low, 3), round(interval.high, 3)) == (-3.555, 7.555)


def test_a_difference_of_single_values_has_no_interval():
    assert estimates.welch_interval(np.array([1.0]), np.array([1.0, 2.0])) is None
