"""Lists and ranges, over which FOR, SWEEP and RUN's ca iterate, and invalid ones."""

import pytest

from netesto.language.scope import MisuseError
from netesto.language.values import values_of


def values(text: str) -> list[str]:
    return list(values_of(text, near=text))


def refusal(text: str) -> str:
    with pytest.raises(MisuseError) as caught:
        values_of(text, near=text)
    return caught.value.message


def test_a_range_of_names_counts_their_number():
    assert values("h1..h3") == ["h1", "h2", "h3"]


def test_a_range_of_names_passes_from_nine_to_ten():
    assert values("h9..h11") == ["h9", "h10", "h11"]


def test_a_range_of_names_keeps_zeros_in_front():
    assert values("k08..k10") == ["k08", "k09", "k10"]


def test_a_range_of_names_keeps_what_stands_behind_the_number():
    assert values("k1.dc2.net..k3.dc2.net,2") == ["k1.dc2.net", "k3.dc2.net"]


def test_a_range_of_addresses_counts_the_number_that_differs():
    assert values("10.0.0.9..10.0.0.11") == ["10.0.0.9", "10.0.0.10", "10.0.0.11"]


def test_a_range_of_names_counts_down_with_a_negative_step():
    assert values("h3..h1,-1") == ["h3", "h2", "h1"]


def test_a_range_from_a_name_to_itself_is_this_name():
    assert values("h1..h1") == ["h1"]


def test_a_range_of_decimals_is_exact():
    assert values("0.1..0.3,0.1") == ["0.1", "0.2", "0.3"]


def test_all_values_of_a_range_of_decimals_have_as_many_decimals():
    assert values("0..1,0.25") == ["0.00", "0.25", "0.50", "0.75", "1.00"]


def test_a_range_of_decimals_passes_through_zero():
    assert values("-0.1..0.1,0.1") == ["-0.1", "0.0", "0.1"]


def test_a_range_keeps_the_unit_of_its_numbers():
    assert values("10ms..30ms,10") == ["10ms", "20ms", "30ms"]


def test_the_step_of_a_range_may_have_the_unit_too():
    assert values("0.5mbit..1.5mbit,0.5mbit") == ["0.5mbit", "1.0mbit", "1.5mbit"]


def test_whole_numbers_lose_zeros_in_front_as_in_the_classic_language():
    assert values("01..03") == ["1", "2", "3"]


def test_a_range_of_billions_is_not_made_before_it_is_needed():
    assert len(values_of("0..1000000,0.001", near="")) == 1_000_000_001


def test_a_path_is_no_range():
    assert values("../a,b/../c") == ["../a", "b/../c"]


def test_a_range_of_decimals_needs_a_step():
    assert refusal("0.1..0.3") == "the range 0.1..0.3 has no step"


def test_a_range_of_names_that_differ_is_an_error():
    assert refusal("h1..x3") == "h1..x3 is neither a list nor a range"


def test_a_range_of_names_with_two_numbers_that_differ_is_an_error():
    assert refusal("r1h1..r2h2") == "r1h1..r2h2 is neither a list nor a range"


def test_a_range_of_names_without_a_number_is_an_error():
    assert refusal("red..blue") == "red..blue is neither a list nor a range"


def test_a_range_of_names_with_a_decimal_step_is_an_error():
    assert refusal("h1..h3,0.5") == "h1..h3,0.5 is neither a list nor a range"


def test_a_range_between_two_units_is_an_error():
    assert refusal("1mbit..3gbit") == "1mbit..3gbit is neither a list nor a range"


def test_a_range_in_a_list_is_an_error():
    assert refusal("a,h1..h3") == "a,h1..h3 is neither a list nor a range"


def test_a_range_with_a_comma_and_no_step_is_an_error():
    assert refusal("1..3,") == "1..3, is neither a list nor a range"


def test_a_range_without_an_end_is_an_error():
    assert refusal("h1..") == "h1.. is neither a list nor a range"


def test_a_range_of_names_counts_up_only_to_a_higher_number():
    assert refusal("h3..h1") == "range h3..h1 never ends"


def test_zeros_in_front_of_one_number_of_a_range_alone_are_an_error():
    assert refusal("h01..h1") == "range h01..h1: numbers of different lengths"


def test_a_range_that_no_machine_can_count_is_an_error():
    assert refusal("0..999999999,0.000000001") == (
        "the range 0..999999999,0.000000001 has too many values"
    )


def test_for_runs_over_a_range_of_hosts(asked):
    """
    FOR h IN h1..h3 DO
    DO_SERVER host=$h exp=1
    DONE
    """
    assert asked.sent == ["DO_SERVER h1 exp=1", "DO_SERVER h2 exp=1", "DO_SERVER h3 exp=1"]


def test_sweep_runs_over_a_range_of_decimals(asked):
    """
    SWEEP loss=0.1..0.3,0.1 DO
    ECHO $loss
    DONE
    """
    assert asked.echoed == ["0.1", "0.2", "0.3"]


def test_run_runs_once_for_each_ca_of_a_range(asked):
    """
    BEGIN m
    ECHO $ca
    END m
    RUN m ca=bbr1..bbr3
    """
    assert asked.echoed == ["bbr1", "bbr2", "bbr3"]


def test_library_macros_take_ranges_of_hosts(asked):
    """
    SOURCE inlib
    RUN MServerStream servers=h1..h2 clients=h3 ca=cubic dur=1
    """
    servers = [each.host for each in asked.commands if each.name == "DO_SERVER"]
    assert servers == ["h1", "h2", "h1", "h2"]


def test_a_host_may_not_be_a_range(asked):
    """
    DO_SERVER host=h1..h3 exp=1
    """
    assert asked.message == "1:16: host=h1..h3 is not a host name"


def test_a_congestion_control_may_not_be_a_range(asked):
    """
    DO_CLIENT host=a server=b ca=bbr1..bbr3
    """
    assert asked.message == "1:30: ca=bbr1..bbr3 is not one word"


def test_what_is_no_range_is_found_before_a_run(findings):
    """
    FOR i IN h1..x3 DO
    ECHO $i
    DONE
    SWEEP loss=0.1..0.3 DO
    ECHO $loss
    DONE
    """
    assert findings == [
        "1:10: error: h1..x3 is neither a list nor a range",
        "4:12: error: the range 0.1..0.3 has no step",
    ]
