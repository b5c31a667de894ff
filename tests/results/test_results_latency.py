"""Pings before, under and after load, from trains with a known answer."""

import pytest

from netesto.measured import PingSample
from netesto.results import latency


def train(*rtts_ms: float, first_s: float = 0.0) -> list[PingSample]:
    """A request each second, and when its reply came."""
    return [
        PingSample(first_s + place + rtt_ms / 1000, rtt_ms, place + 1)
        for place, rtt_ms in enumerate(rtts_ms)
    ]


# Idle at 0 to 2 s, load from 3 to 6 s, idle from 7 to 9 s.
TRAIN = train(10, 12, 11, 100, 300, 200, 400, 20, 22, 21)


def split(pings, load=(2.5, 6.5), busy=(2.5, 6.5)):
    return latency.split(pings, load=load, busy=busy)


def test_before_under_and_after_load():
    found = split(TRAIN)
    assert (found.idle_us, found.mean_us, found.after_us) == (11_000, 250_000, 21_000)


def test_while_another_flow_of_the_experiment_runs_a_path_is_not_idle():
    found = split(TRAIN, busy=(0.5, 8.5))
    assert (found.idle_us, found.after_us) == (None, None)


def test_an_echo_that_came_back_under_load_is_neither_idle_nor_loaded():
    found = split([*train(1, 1, 1), PingSample(3.1, 700, 4)])
    assert (found.idle, found.load) == ((1000, 1000, 1000), ())


def test_a_quantile_is_an_rtt_that_was_measured():
    found = split(TRAIN)
    assert [found.quantile_us(share) for share in (0.5, 0.95, 1)] == [200_000, 400_000, 400_000]


@pytest.mark.parametrize(
    ("rtts_ms", "per_minute"),
    [
        ([20] * 3, 3000),
        # The largest of twenty is excluded.
        ([20] * 19 + [2000], 3000),
        ([20, 20], None),
    ],
)
def test_round_trips_a_minute_are_those_of_the_trimmed_mean(rtts_ms, per_minute):
    assert split(train(*rtts_ms), load=(0, 100)).per_minute == per_minute


def test_requests_without_a_reply_are_lost():
    assert split([each for each in TRAIN if each.number not in {2, 5, 6}]).lost == 3


def test_without_numbers_nobody_knows_how_many_were_lost():
    assert split([PingSample(3.0, 1.0)]).lost is None
