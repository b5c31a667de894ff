"""Throughput in the steady state, compared with hand-computed figures."""

import pytest

from netesto.measured import GoodputInterval
from netesto.results import steady


def _flow(*rates: float, length_s: float = 1.0) -> list[GoodputInterval]:
    return [
        GoodputInterval(place * length_s, (place + 1) * length_s, rate)
        for place, rate in enumerate(rates)
    ]


def test_the_first_and_the_last_intervals_do_not_count():
    assert steady.of_flow(_flow(1, 2, 9, 30, 30, 40, 9, 2, 1), 3) == pytest.approx(100 / 3)


def test_a_flow_without_an_interval_between_has_no_steady_throughput():
    assert [steady.of_flow(_flow(*[5.0] * count), 5) for count in (0, 1, 10, 11)] == [
        None,
        None,
        None,
        5.0,
    ]


def test_nothing_is_left_out_with_skip_0():
    assert steady.of_flow(_flow(1, 2, 6), 0) == 3.0


def test_shorter_intervals_are_put_together_to_seconds():
    assert steady.of_flow(_flow(1, 1, 4, 8, 9, 9, length_s=0.5), 1) == 6.0


def test_the_rest_at_the_end_of_a_flow_is_no_interval():
    flow = [*_flow(1, 2, 6), GoodputInterval(3.0, 3.01, 900.0)]
    assert steady.of_flow(flow, 1) == 2.0


def test_the_mean_of_a_case_is_that_of_its_flows():
    assert steady.to_csv({"a, b": [1e9, 2e9], "c": []}) == (
        'case,throughput_bps\n"a, b",1500000000\nc,\n'
    )


def test_the_table_has_two_columns_as_the_seeds_has():
    assert steady.rows({"a": [999.999e6], "b": [1e9, 1.5e9], "c": []}) == [
        {"case": "a", "avg_throughput(Gbps)": "1.00"},
        {"case": "b", "avg_throughput(Gbps)": "1.25"},
        {"case": "c", "avg_throughput(Gbps)": ""},
    ]


def test_rates_all_below_1_gbit_per_s_are_shown_in_mbit_per_s():
    assert steady.rows({"a": [94.126e6]}) == [{"case": "a", "avg_throughput(Mbps)": "94.13"}]
