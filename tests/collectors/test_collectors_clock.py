import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.collectors.clock import Clock, Exchange, offset
from netesto.model import ClockOffset, ClockReading

way_s = st.floats(min_value=0, max_value=1)


def exchange(*, offset_s: float, there_s: float, inside_s: float, back_s: float) -> Exchange:
    """A probe sent at 1000 to an agent whose clock is `offset_s` ahead."""
    received_s = 1000 + there_s + offset_s
    returned_s = 1000 + there_s + inside_s + back_s
    return Exchange(1000.0, ClockReading(received_s, received_s + inside_s), returned_s)


def test_offset_is_exact_when_both_ways_take_equally_long():
    probe = exchange(offset_s=4.0, there_s=0.25, inside_s=8.0, back_s=0.25)
    assert offset([probe]) == ClockOffset(4.0, 0.25)


def test_an_agent_that_is_behind_has_a_negative_offset():
    probe = exchange(offset_s=-2.0, there_s=0.5, inside_s=0.0, back_s=0.5)
    assert offset([probe]) == ClockOffset(-2.0, 0.5)


def test_the_shortest_round_trip_counts():
    slow = exchange(offset_s=1.0, there_s=0.75, inside_s=0.0, back_s=0.25)
    fast = exchange(offset_s=1.0, there_s=0.125, inside_s=0.0, back_s=0.125)
    assert offset([slow, fast, slow]) == ClockOffset(1.0, 0.125)


@given(st.floats(-1e6, 1e6), st.lists(st.tuples(way_s, way_s, way_s), min_size=1))
def test_the_bound_holds_however_unlike_the_ways_are(true_s, ways):
    probes = [
        exchange(offset_s=true_s, there_s=there_s, inside_s=inside_s, back_s=back_s)
        for there_s, inside_s, back_s in ways
    ]
    found = offset(probes)
    assert abs(found.offset_s - true_s) <= found.bound_s + 1e-6


def test_no_exchange_gives_no_offset():
    with pytest.raises(ValueError, match="no exchange"):
        offset([])


def test_a_reading_leaves_after_the_probe_came():
    clock = Clock()
    received_s = clock.now()
    reading = clock.reading(received_s)
    assert reading.received_s == received_s <= reading.sent_s


def test_the_clock_does_not_follow_when_the_system_time_is_set():
    clock = Clock()
    clock._anchor_ns -= 3600 * 10**9
    assert clock.system_ahead_s() == pytest.approx(3600.0, abs=1.0)
