"""The columns of links that a program carries."""

from dataclasses import replace

import pytest

from netesto.errors import OutputError
from netesto.results import carried
from netesto.results.links import Links
from netesto.results.queues import Queue
from results import samples

NAMES = ("linkFrames", "linkLost", "linkLoss%", "linkResent", "linkGivenUp", "linkPaused%")


def line(time_s, *, frames=0, lost=0, protect="ordered", loss_set=0.01, **other):
    counts = {"resent": 0, "given_up": 0, "drops": 0, "marks": 0, "tx_bytes": 0, "rx_bytes": 0}
    counts |= {"paused_s": 0.0, "stalled_s": 0.0} | other
    return {"time_s": time_s, "wire_frames": frames, "wire_lost": lost, "protect": protect,
            "loss_set": loss_set, **counts}  # fmt: skip


def values(*ways):
    lab = Links(programs=carried.joined(ways))
    evidence = replace(samples.group(samples.instance()), links=lab)
    return tuple(samples.values(evidence)[name] for name in NAMES)


def way(*lines, is_whole=False):
    return carried.of(lines, "s1", "s2", is_whole=is_whole)


def test_without_such_a_link_they_are_empty():
    assert values() == ("",) * 6


def test_they_count_from_the_first_line_to_the_last():
    first = line(100.0, frames=1000, lost=10, resent=20, paused_s=1.0)
    last = line(110.0, frames=5000, lost=50, resent=100, given_up=2, paused_s=3.5)
    assert values(way(first, line(105.0), last)) == ("4000", "40", "1", "80", "2", "25")


def test_a_stress_test_counts_from_its_begin():
    lines = line(0.5, frames=1000, lost=10), line(1.0, frames=2000, lost=30)
    assert values(way(*lines, is_whole=True))[:2] == ("2000", "30")


def test_a_stress_test_has_no_queue_over_the_time_of_the_experiment():
    lines = line(0.5, rate_bps=8_000_000, queued_bytes=1500, queued_frames=1)
    assert way(lines, is_whole=True).queue is None


def test_the_way_of_acknowledgements_does_not_count_unless_it_loses():
    there = way(line(0.0), line(1.0, frames=100, lost=1))
    back = way(line(0.0), line(1.0, frames=50, protect="off", loss_set=0))
    assert values(there, back)[:3] == ("100", "1", "1")
    assert values(back, back)[:3] == ("100", "0", "0")


def test_its_queue_is_what_the_program_tells_of_it():
    lines = [
        line(
            at,
            drops=drops,
            marks=1,
            rate_bps=8_000_000,
            queued_bytes=size,
            queued_frames=size // 1500,
        )
        for at, drops, size in ((1.0, 0, 0), (2.0, 7, 3000))
    ]
    assert way(*lines).queue == Queue(
        place="s1→s2",
        kind="program",
        rate_bps=8_000_000,
        time_s=(1.0, 2.0),
        backlog_bytes=(0, 3000),
        backlog_packets=(0, 2),
        drops=(0, 7),
        marks=(1, 1),
        delay_us=(0.0, 3000.0),
    )
    assert way(line(1.0)).queue is None


def test_other_files_are_refused():
    with pytest.raises(OutputError):
        way({"time_s": 1.0})
