import numpy as np
import pytest

from netesto.report import curves


def test_sum_of_two_flows_is_zero_where_neither_is():
    flat = [([1.0, 2.0, 3.0], [10.0, 10.0, 10.0]), ([6.0, 7.0, 8.0], [4.0, 4.0, 4.0])]
    t, v = curves.total(flat)
    assert (t[0], t[-1], max(v), v[0], v[-1], min(v)) == (0.5, 8.5, 10.0, 10.0, 4.0, 0.0)


def test_sum_adds_where_flows_meet():
    _, v = curves.total([([1.0, 2.0, 3.0], [10.0] * 3), ([1.0, 2.0, 3.0], [4.0] * 3)])
    assert set(v) == {14.0}


def test_sum_of_nothing_is_nothing():
    assert curves.total([([], []), ([1.0], [5.0])]) == ((), ())


def test_median_is_of_the_flows_that_run():
    short = ([2.0, 3.0], [100.0, 100.0])
    band = curves.band([([1.0, 2.0, 3.0], [1.0] * 3), ([1.0, 2.0, 3.0], [3.0] * 3), short])
    assert (band.time_s, band.median) == ([1.0, 2.0, 3.0], [2.0, 3.0, 3.0])


def test_counts_of_several_flows_are_added_in_bins():
    each = [([1.0, 1.2, 1.4], [1.0, 0.0, 2.0]), ([1.3], [5.0])]
    t, v = curves.counted(each, bin_s=0.5)
    assert (t, v) == ([1.0, 1.5], [1.0, 7.0])


def test_sum_has_no_more_points_than_can_be_seen():
    long = [(list(range(100_000)), [1.0] * 100_000)]
    assert len(curves.total(long)[0]) == curves.MAX_POINTS + 1


def test_band_holds_what_lies_between_its_percentiles():
    band = curves.band([([0.0, 1.0], [float(v)] * 2) for v in range(101)])
    assert (band.low, band.high) == ([10.0, 10.0], [90.0, 90.0])


def test_mean_over_a_window_is_that_of_the_straight_lines():
    ramp = ([0.5, 1.5, 2.5], [0.0, 10.0, 20.0])
    assert curves.sliding_means(ramp, [0.5, 1.0], 1.0).tolist() == [5.0, 10.0]


def test_mean_over_a_window_counts_nothing_outside_of_a_line():
    flat = ([1.5, 2.5], [8.0, 8.0])
    assert curves.sliding_means(flat, [0.0, 2.0, 5.0], 2.0).tolist() == [4.0, 4.0, 0.0]


def test_mean_over_the_whole_line_is_that_of_its_points():
    rates = [3.0, 9.0, 1.0, 7.0, 5.0]
    times = [0.1, 0.3, 0.5, 0.7, 0.9]
    found = curves.sliding_means((times, rates), [0.0], 1.0)[0]
    assert found == pytest.approx(np.mean(rates), rel=0.05)
