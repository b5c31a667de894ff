"""Units: the one table of them, read by commands that know what they want, and by others."""

from decimal import Decimal

import pytest

from netesto import units
from netesto.units import Quantity, UnitKind


def test_a_bare_number_is_a_plain_number():
    assert units.quantity("10") == Quantity(Decimal(10), UnitKind.NUMBER)


def test_thousands_may_be_a_size_or_a_rate():
    assert units.quantity("64K") == Quantity(Decimal(64_000), UnitKind.THOUSANDS)


def test_a_small_m_is_minutes_and_a_large_one_a_million():
    assert [units.quantity("2m"), units.quantity("2M")] == [
        Quantity(Decimal(120), UnitKind.TIME),
        Quantity(Decimal(2_000_000), UnitKind.THOUSANDS),
    ]


def test_the_rates_of_tc_with_ps_are_in_bytes():
    assert units.quantity("1gbps") == Quantity(Decimal(8_000_000_000), UnitKind.RATE)


def test_a_size_with_ki_counts_in_1024():
    assert units.quantity("4KiB") == Quantity(Decimal(4096), UnitKind.SIZE)


def test_a_time_is_exact():
    assert units.quantity("0.3ms") == Quantity(Decimal("0.0003"), UnitKind.TIME)


def test_another_word_behind_a_number_makes_it_no_quantity():
    assert units.quantity("10mbits") is None


def test_thousands_go_with_sizes_and_rates_but_not_with_times():
    found = {kind for kind in UnitKind if kind.fits(UnitKind.THOUSANDS)}
    assert found == {UnitKind.NUMBER, UnitKind.THOUSANDS, UnitKind.SIZE, UnitKind.RATE}


def test_sizes_times_and_rates_do_not_go_with_each_other():
    assert [UnitKind.SIZE.fits(UnitKind.RATE), UnitKind.RATE.fits(UnitKind.TIME)] == [False, False]


def test_what_is_asked_for_decides_what_m_means():
    found = [units.parse_size("2m"), units.parse_time("2m"), units.parse_rate("2m")]
    assert found == [2_000_000, 120.0, 2_000_000.0]


def test_a_delay_without_a_unit_is_in_milliseconds():
    found = [units.parse_milliseconds(text) for text in ("10", "0.2", "200us", "2s")]
    assert found == [10.0, 0.2, 0.2, 2000.0]


def test_digits_of_other_scripts_are_no_numbers():
    with pytest.raises(ValueError, match="is not a rate"):
        units.parse_rate("\u0661mbit")


def test_a_number_beyond_all_bounds_is_refused():
    with pytest.raises(ValueError, match="too large for a size"):
        units.parse_size("1e999")


@pytest.mark.parametrize(
    ("text", "processors"),
    [("", ()), ("3", (3,)), ("8-11", (8, 9, 10, 11)), ("4+2", (2, 4)), ("0-2+2+9", (0, 1, 2, 9))],
)
def test_a_set_of_processors_has_numbers_and_ranges(text, processors):
    assert units.parse_processors(text) == processors


@pytest.mark.parametrize("text", ["a", "-1", "3-2", "1,2", "1+", "99999", "8192", "1-"])
def test_what_is_not_a_set_of_processors_is_refused(text):
    with pytest.raises(ValueError, match="is not a set of processors"):
        units.parse_processors(text)


def test_a_set_of_processors_is_written_with_its_ranges():
    assert units.format_processors((9, 0, 1, 2, 5)) == "0-2,5,9"


@pytest.mark.parametrize(
    ("rate_bps", "shown"),
    [
        (999.4, "999 bit/s"),
        (999.6, "1 kbit/s"),
        (999_499, "999 kbit/s"),
        (999_500, "1 Mbit/s"),
        (999_960_000, "1 Gbit/s"),
        (-999_960_000, "-1 Gbit/s"),
        (1.5e13, "15 Tbit/s"),
    ],
)
def test_a_rate_that_rounds_to_the_next_unit_has_that_unit(rate_bps: float, shown: str):
    assert units.format_rate(rate_bps) == shown


def test_a_size_that_rounds_to_the_next_unit_has_that_unit():
    found = [units.format_bytes(count) for count in (0, 999, 999.6, 999_960, 1_234_567)]
    assert found == ["0 bytes", "999 bytes", "1 kB", "1 MB", "1.23 MB"]


def test_a_time_that_rounds_to_the_next_unit_has_that_unit():
    found = [units.format_time(time_s) for time_s in (0.9994, 0.9996, 59.94, 59.96, 3599.7)]
    assert found == ["999 ms", "1 s", "59.9 s", "1 min", "1 h 0 min"]
