import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.report import ticks
from netesto.report.expscript import plotaxes


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 10, "1 2 3 4 5 6 7 8 9 10 11"),
        (0, 11, "2 4 6 8 10 12"),
        (0, 20, "2 4 6 8 10 12 14 16 18 20 22"),
        (0, 21, "5 10 15 20 25"),
        (0, 30, "10 20 30 40"),
        (0, 35, "5 10 15 20 25 30 35 40"),
        (0, 50, "10 20 30 40 50 60"),
        (0, 2999, "500 1K 1.5K 2K 2.5K 3K"),
        (0, 94.9, "10 20 30 40 50 60 70 80 90 100"),
        (0, 100, "10 20 30 40 50 60 70 80 90 100 110"),
        (0, 120, "20 40 60 80 100 120 140"),
        (0, 999, "100 200 300 400 500 600 700 800 900 1K"),
        (0, 1234, "200 400 600 800 1K 1.2K 1.4K"),
        (0, 56000, "10K 20K 30K 40K 50K 60K"),
        (0, 0.5, "0.1 0.2 0.3 0.4 0.5 0.6"),
        (33, 34, "34 35"),
        (950, 1010, "960 970 980 990 1K 1.01K 1.02K"),
        (50, 1234.6, "200 400 600 800 1K 1.2K 1.4K"),
        (-3, 2, "-2 -1 0 1 2 3"),
        (1.54, 1.79, "1.6 1.7 1.8"),
        (17, 38, "15 20 25 30 35 40"),
        (12.4, 38, "15 20 25 30 35 40"),
        (9.8, 30.1, "10 20 30 40"),
        (8.9, 29.1, "5 10 15 20 25 30"),
        (9.2, 29.9, "10 12 14 16 18 20 22 24 26 28 30"),
        (1.7, 12.1, "2 4 6 8 10 12 14"),
    ],
)
def test_ticks_are_those_of_the_classic_tool(low, high, labels):
    assert " ".join(tick.label for tick in ticks.linear(low, high).ticks) == labels


def test_the_bottom_is_a_multiple_of_the_step():
    assert [ticks.linear(*ends).low for ends in ((33, 34), (50, 1234.6), (-3.5, 2))] == [33, 0, -4]


def test_the_bottom_of_steps_of_5_is_a_multiple_of_10():
    assert [ticks.linear(*ends).low for ends in ((17, 38), (165, 385), (27, 49))] == [10, 100, 20]


def test_a_lone_value_is_drawn_from_0():
    scale = ticks.linear(94, 94)
    assert (scale.low, scale.high) == (0, 100)


def test_a_step_can_be_given():
    assert [tick.label for tick in ticks.linear(0, 70, step=25).ticks] == ["25", "50", "75"]


def test_a_logarithmic_scale_has_a_label_for_each_decade():
    scale = ticks.logarithmic(3, 5000)
    assert scale.low == 1
    assert [tick.label for tick in scale.ticks] == ["10", "100", "1000", "10000"]


def test_small_decades_are_written_out():
    assert [tick.label for tick in ticks.logarithmic(0.002, 0.5).ticks] == ["0.01", "0.1", "1"]


@pytest.mark.parametrize(
    ("low", "high", "log", "is_log"),
    [
        (1, 100, "Auto", False),
        (1, 101, "Auto", True),
        (0, 1000, "Auto", False),
        (1, 1000, "Off", False),
        (1, 2, "On", True),
        (0, 2, "On", False),
    ],
)
def test_an_axis_is_logarithmic_when(low, high, log, is_log):
    assert ticks.scale(low, high, log=log).is_log is is_log


def test_units_in_any_order_are_found_and_what_is_none_is_left_out():
    assert plotaxes.unit_for("1000=ms,1=us,x=y,5,7=a=b,=s", 1e6) == (1000, "ms")


@pytest.mark.parametrize(
    ("largest", "unit"), [(1, None), (999, "us"), (1000, "us"), (1001, "ms"), (2e6, "secs")]
)
def test_the_largest_unit_strictly_below_the_maximum_is_taken(largest, unit):
    found = plotaxes.unit_for("1=us,1000=ms,1000000=secs", largest)
    assert (found[1] if found else None) == unit


@given(
    st.floats(-1e9, 1e9, allow_nan=False), st.floats(0, 1e9, allow_nan=False, allow_subnormal=False)
)
def test_a_linear_scale_holds_its_values(low, width):
    scale = ticks.linear(low, low + width)
    slack = 1e-6 * max(1.0, abs(low), abs(low + width))
    assert scale.low <= low + slack
    assert scale.high >= low + width - slack
    assert 2 <= len(scale.ticks) <= 102
