"""Requested and measured paths."""

import json
import socket
import sys
from dataclasses import replace

import pytest
from typed import returned

from netesto.errors import LabError
from netesto.lab import probe
from netesto.lab.probe import PathMeasurement
from netesto.system import process


def path(
    asked_rtt_ms: float | None = 40.0,
    measured_rtt_ms: float = 40.1,
    measured_rate_bps: float | None = 9.99e6,
) -> PathMeasurement:
    return PathMeasurement(
        source="client1",
        destination="server1",
        asked_rtt_ms=asked_rtt_ms,
        measured_rtt_ms=measured_rtt_ms,
        asked_rate_bps=1e7,
        measured_rate_bps=measured_rate_bps,
    )


def test_the_worse_of_rtt_and_rate_counts():
    assert path(measured_rtt_ms=44.0).deviation == pytest.approx(0.1)


def test_a_rate_that_is_too_high_is_off_too():
    assert path(measured_rate_bps=1.3e7).deviation == pytest.approx(0.3)


def test_a_path_of_which_nothing_was_asked_is_right():
    alone = PathMeasurement(source="a", destination="b", asked_rtt_ms=None, measured_rtt_ms=0.03)
    assert alone.deviation == 0.0


def test_a_rate_that_was_not_measured_is_not_zero():
    assert path(measured_rate_bps=None).deviation == pytest.approx(0.0025)


def test_a_path_in_words():
    words = "client1 → server1: RTT 40.1 ms (requested 40 ms), 9.99 Mbit/s (requested 10 Mbit/s)"
    assert path().describe() == words


def test_a_rate_that_was_not_measured_in_words():
    words = (
        "client1 → server1: RTT 40.1 ms (requested 40 ms), rate not measured (requested 10 Mbit/s)"
    )
    assert path(measured_rate_bps=None).describe() == words


def test_what_ping_cuts_off_is_no_deviation():
    measured = [path(asked_rtt_ms=0.0018, measured_rtt_ms=ms, measured_rate_bps=None)
                for ms in (0.001, 0.003)]  # fmt: skip
    assert [each.deviation for each in measured] == [0.0, pytest.approx(2 / 3)]


def test_jitter_and_the_time_to_send_an_echo_are_no_deviation():
    slow = replace(path(), measured_rtt_ms=33.56, jitter_ms=8.0, sending_ms=1.6)
    assert (slow.describe(), round(slow.deviation, 6)) == (
        (
            "client1 → server1: RTT 33.6 ms (requested 40 ms ± 8, and 1.6 ms to send), "
            "9.99 Mbit/s (requested 10 Mbit/s)"
        ),
        0.001,
    )


def test_an_rtt_that_losses_hide_is_not_measured():
    lossy = replace(path(), measured_rtt_ms=None, measured_rate_bps=None)
    assert (lossy.describe(), lossy.deviation) == (
        (
            "client1 → server1: RTT not measured, because of losses, rate not measured "
            "(requested 10 Mbit/s)"
        ),
        0.0,
    )


def test_five_percent_is_worth_a_warning():
    [warning] = probe.warnings([path(), path(measured_rtt_ms=43.0)])
    assert warning.endswith(
        "RTT 43 ms (requested 40 ms), 9.99 Mbit/s (requested 10 Mbit/s): 8% off"
    )


def test_what_is_nearly_right_is_not_refused():
    assert returned(probe.refuse, [path(), path(measured_rtt_ms=43.0)]) is None


def test_twenty_percent_is_refused():
    with pytest.raises(LabError) as caught:
        probe.refuse([path(), path(measured_rtt_ms=50.0)])
    assert str(caught.value) == (
        "the lab does not have the requested paths: client1 → server1: RTT 50 ms "
        "(requested 40 ms), 9.99 Mbit/s (requested 10 Mbit/s): 25% off\n"
        "Request lower rates, reduce the load of this machine, or use --force."
    )


def test_the_rate_of_a_train_is_that_of_its_settled_part():
    # Ten packets in a burst, then one every millisecond: 1000 bytes each are 8 Mbit/s.
    burst = [(100.0, 1000)] * 10
    steady = [(100.0 + i / 1000, 1000) for i in range(1, 101)]
    assert probe.rate_of([*burst, *steady]) == pytest.approx(8e6)


def test_a_train_that_did_not_arrive_has_no_rate():
    assert probe.rate_of([]) is None


def test_a_train_that_came_all_at_once_has_no_rate():
    assert probe.rate_of([(100.0, 1000)] * 50) is None


def test_a_sender_that_keeps_ahead_keeps_the_link_busy():
    # 1300 bytes every millisecond into a link of 8 Mbit/s.
    departures = [(i / 1000, 1300) for i in range(200)]
    assert probe.busy_share(departures, rate_bps=8e6, queue_bytes=50_000) == pytest.approx(1.0)


def test_a_sender_that_is_too_slow_leaves_the_link_idle():
    departures = [(i / 1000, 500) for i in range(200)]
    assert probe.busy_share(departures, rate_bps=8e6, queue_bytes=50_000) == pytest.approx(0.5)


def test_what_a_late_sender_makes_up_for_does_not_fit_into_the_queue():
    # 13000 bytes every 10 ms, into a queue that holds 5 ms.
    departures = [(i / 100, 13_000) for i in range(200)]
    assert probe.busy_share(departures, rate_bps=8e6, queue_bytes=5_000) == pytest.approx(0.5)


def test_a_queue_bridges_the_gaps_of_a_late_sender():
    departures = [(i / 100, 13_000) for i in range(200)]
    assert probe.busy_share(departures, rate_bps=8e6, queue_bytes=50_000) == pytest.approx(1.0)


def test_a_train_of_one_packet_keeps_nothing_busy():
    assert probe.busy_share([(0.0, 1000)], rate_bps=8e6, queue_bytes=5_000) == 0.0


def test_a_sender_whose_receiver_has_given_up_says_what_it_sent():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    argv = [sys.executable, "-m", "netesto.lab.train", "send", "127.0.0.1", str(port)]
    sent = process.run([*argv, "1000000", "5", "1500"], timeout=60)
    assert list(json.loads(sent.stdout)) == ["departures"]


@pytest.mark.parametrize(
    ("asked_ms", "sending_ms"),
    [(0, 0), (14, 0), (15, 0), (300, 0), (0, 12.5), (20, 12.5), (30, 12.5)],
)
def test_no_reply_arrives_in_the_last_10_ms_before_a_request(asked_ms, sending_ms):
    interval_ms = probe._interval_ms(asked_ms, sending_ms)
    # Requests for addresses are smaller than echoes, and not all hops need them.
    first = [2 * asked_ms + sending_ms * (1 + share) for share in (0.4, 0.9)]
    assert [
        ms for ms in (*first, asked_ms + sending_ms) if interval_ms - 10 < ms < interval_ms
    ] == []
