import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netesto.collectors.clock import Clock, ClockTrack, Exchange, SystemTime
from netesto.model import ClockOffset, ClockReading

way_s = st.floats(min_value=0, max_value=1)


def exchange(*, offset_s: float, there_s: float, inside_s: float, back_s: float) -> Exchange:
    """A probe sent at 1000 to an agent whose clock is `offset_s` ahead."""
    received_s = 1000 + there_s + offset_s
    returned_s = 1000 + there_s + inside_s + back_s
    return Exchange(1000.0, ClockReading(received_s, received_s + inside_s), returned_s)


def offset(*bursts: Sequence[Exchange], until_s: float = 1000.0) -> ClockOffset:
    """The offset from 1000 on."""
    track = ClockTrack()
    for burst in bursts:
        track.add(burst)
    return track.over(1000.0, until_s)


def test_offset_is_exact_when_both_ways_take_equally_long():
    found = offset([exchange(offset_s=4.0, there_s=0.25, inside_s=8.0, back_s=0.25)])
    assert found.offset_s == pytest.approx(4.0)
    assert found.at_s == 1000.0


def test_an_agent_that_is_behind_has_a_negative_offset():
    found = offset([exchange(offset_s=-2.0, there_s=0.5, inside_s=0.0, back_s=0.5)])
    assert found.offset_s == pytest.approx(-2.0)


def test_of_a_burst_the_shortest_round_trip_counts():
    slow = exchange(offset_s=1.0, there_s=0.75, inside_s=0.0, back_s=0.25)
    fast = exchange(offset_s=1.0, there_s=0.125, inside_s=0.0, back_s=0.125)
    # Until the middle of the exchange the clocks may have drifted apart.
    found = offset([slow, fast, slow])
    assert found.bound_s == pytest.approx(0.125, abs=0.001)


@given(st.floats(-1e6, 1e6), st.lists(st.tuples(way_s, way_s, way_s), min_size=1))
def test_the_bound_holds_however_unlike_the_ways_are(true_s, ways):
    probes = [
        exchange(offset_s=true_s, there_s=there_s, inside_s=inside_s, back_s=back_s)
        for there_s, inside_s, back_s in ways
    ]
    found = offset(probes)
    assert abs(found.offset_s - true_s) <= found.bound_s


def test_no_exchange_gives_no_offset():
    with pytest.raises(ValueError, match="no exchange"):
        offset([])


# ---- drift ---------------------------------------------------------------------------------------

# Seconds since 1970, as large as they are.
BEGIN_S = 1_700_000_000.0


def drifting(
    times_s: Sequence[float],
    ahead: Callable[[float], float],
    delays_s: Iterator[tuple[float, float]],
) -> ClockTrack:
    """Bursts of three at these times, with an agent that is `ahead` at an instant; each probe and
    its reply take the next delays."""
    track = ClockTrack()
    for time_s in times_s:
        burst, now_s = [], time_s
        for _ in range(3):
            there_s, back_s = next(delays_s)
            received_s = now_s + there_s
            reading_s = received_s + ahead(received_s)
            returned_s = received_s + back_s
            burst.append(Exchange(now_s, ClockReading(reading_s, reading_s), returned_s))
            now_s = returned_s
        track.add(burst)
    return track


def worst_s(found: ClockOffset, ahead: Callable[[float], float], until_s: float) -> float:
    """The largest error from the beginning to the end."""
    steps = [BEGIN_S + (until_s - BEGIN_S) * part / 20 for part in range(21)]
    return max(abs(found.at(time_s) - ahead(time_s)) for time_s in steps)


@given(
    seed=st.integers(0, 2**32),
    offset_s=st.floats(-100, 100),
    drift_ppm=st.floats(-500, 500),
    lasting_s=st.floats(0.1, 3600),
    bursts=st.integers(1, 40),
    mean_ms=st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)),
)
@example(seed=1, offset_s=0.0, drift_ppm=126.0, lasting_s=5.0, bursts=6, mean_ms=(0.01, 80.0))
def test_the_bound_covers_the_offset_of_a_drifting_clock_behind_random_delays(
    seed, offset_s, drift_ppm, lasting_s, bursts, mean_ms
):
    """Simulated: each direction has its own mean delay, and no limit of it."""
    draw = random.Random(seed)

    def ahead(time_s: float) -> float:
        return offset_s + drift_ppm * 1e-6 * (time_s - BEGIN_S)

    def delays() -> Iterator[tuple[float, float]]:
        while True:
            there, back = (draw.expovariate(1000 / mean) for mean in mean_ms)
            yield there, back

    until_s = BEGIN_S + lasting_s
    # From a burst a while before it on.
    times_s = [BEGIN_S - 2 + (lasting_s + 4) * n / max(bursts - 1, 1) for n in range(bursts)]
    found = drifting(times_s, ahead, delays()).over(BEGIN_S, until_s)
    assert worst_s(found, ahead, until_s) <= found.bound_s
    assert found.drift_bound_ppm is not None
    assert abs(found.drift_ppm - drift_ppm) <= found.drift_bound_ppm


def test_bursts_before_and_after_tell_the_drift():
    def ahead(time_s: float) -> float:
        return 0.5 + 40e-6 * (time_s - BEGIN_S)

    times_s = [BEGIN_S - 1, BEGIN_S + 61]
    found = drifting(times_s, ahead, itertools.repeat((0.0001, 0.0003))).over(BEGIN_S, BEGIN_S + 60)
    assert found.drift_ppm == pytest.approx(40, abs=0.1)
    # Half a round trip.
    assert 0.0002 <= found.bound_s < 0.000204
    assert worst_s(found, ahead, BEGIN_S + 60) == pytest.approx(0.0001, abs=0.000005)


def test_after_one_burst_the_bound_grows_with_what_a_clock_can_drift():
    track = drifting([BEGIN_S], lambda _: 1.0, itertools.repeat((0.001, 0.001)))
    assert track.over(BEGIN_S, BEGIN_S + 10).bound_s == pytest.approx(0.011, abs=0.0001)


def test_a_clock_whose_rate_is_adjusted_meanwhile_stays_within_the_bound_of_the_readings():
    def ahead(time_s: float) -> float:
        return 200e-6 * abs(time_s - (BEGIN_S + 30))

    times_s = [BEGIN_S + 5 * n for n in range(13)]
    track = drifting(times_s, ahead, itertools.repeat((0.0001, 0.0001)))
    found = track.over(BEGIN_S, BEGIN_S + 60)
    assert worst_s(found, ahead, BEGIN_S + 60) <= found.bound_s < 0.0045


def test_bursts_of_other_experiments_do_not_count():
    def ahead(time_s: float) -> float:
        return 0.0 if time_s < BEGIN_S - 50 else 1.0

    times_s = [BEGIN_S - 100, BEGIN_S - 1, BEGIN_S + 11, BEGIN_S + 100]
    track = drifting(times_s, ahead, itertools.repeat((0.0001, 0.0001)))
    assert track.over(BEGIN_S, BEGIN_S + 10).offset_s == pytest.approx(1.0, abs=1e-5)


def test_a_time_of_the_agent_becomes_one_of_the_controller():
    found = ClockOffset(2.0, 0.0, drift_ppm=100.0, at_s=BEGIN_S)
    assert found.controllers(BEGIN_S + 10 + found.at(BEGIN_S + 10)) == pytest.approx(
        BEGIN_S + 10, abs=1e-6
    )


def test_a_reading_leaves_after_the_probe_came():
    clock = Clock()
    received_s = clock.now()
    reading = clock.reading(received_s)
    assert reading.received_s == received_s <= reading.sent_s


def test_the_clock_does_not_follow_when_the_system_time_is_set():
    clock = Clock()
    clock.anchor_ns -= 3600 * 10**9
    ahead_s, error_s = clock.system_ahead_s()
    assert ahead_s == pytest.approx(3600.0, abs=error_s + 1e-6)


def set_by(clock: Clock, step_s: float) -> None:
    """As if somebody had set the system's time."""
    clock.anchor_ns -= round(step_s * 10**9)


async def test_a_time_that_is_set_and_set_back_is_noticed_once():
    clock, steps_s, is_noticed = Clock(), list[float](), asyncio.Event()

    def on_step(moved_s: float) -> None:
        steps_s.append(round(moved_s))
        is_noticed.set()

    system = SystemTime(clock, on_step)
    system.begin()
    set_by(clock, 3600)
    await asyncio.wait_for(is_noticed.wait(), 30)
    set_by(clock, -3600)
    system.end()
    assert (steps_s, system.ahead_s) == ([3600], None)


def test_a_step_of_half_a_second_is_noticed_at_the_end():
    clock, steps_s = Clock(), list[float]()
    system = SystemTime(clock, steps_s.append)
    set_by(clock, -0.5)
    system.end()
    assert ([round(each, 2) for each in steps_s], system.ahead_s) == ([-0.5], None)


def test_a_time_that_nobody_sets_is_that_of_the_clock():
    steps_s = list[float]()
    system = SystemTime(Clock(), steps_s.append)
    system.end()
    assert (steps_s, system.ahead_s) == ([], 0.0)


def test_a_time_that_was_set_before_is_ahead_and_no_step():
    clock, steps_s = Clock(), list[float]()
    set_by(clock, 3600)
    system = SystemTime(clock, steps_s.append)
    system.end()
    assert system.ahead_s == pytest.approx(3600.0, abs=0.1)
    assert steps_s == []
