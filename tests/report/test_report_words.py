from dataclasses import replace

import pytest

from netesto.model import ClockOffset, TimeSync
from netesto.report import words
from results import samples
from results.samples import request

TWO = samples.manifest(samples.two_flows())


def test_stream_is_asked_for_in_a_sentence():
    assert words.requested(request(delay_s=8.0, duration_s=75.0)) == (
        "One flow of TCP_STREAM from client1 to server1 with cubic, 8 s after the common start, "
        "for 1 min 15 s."
    )


def test_datagrams_are_asked_for_without_a_congestion_control():
    assert words.requested(request(test="UDP_STREAM")) == (
        "One flow of UDP_STREAM from client1 to server1, at once, for 24 s."
    )


def test_a_stress_test_is_asked_for_without_a_duration_and_a_congestion_control():
    assert words.requested(request(test="LINK_STRESS")) == (
        "One flow of LINK_STRESS from client1 to server1, at once."
    )


def test_options_that_were_set_are_reported():
    asked = request(
        test="TCP_RR", instances=4, request_bytes=10_000, bitrate_bps=5e6, mss_bytes=536, ecn=True,
        client_cpus=(0,), server_cpus=(1,), omit_s=2.0, parallel=2, length_bytes=100, dscp=8,
        local_buffer_bytes=64_000, zerocopy="msg", stagger_s=0.001,
    )  # fmt: skip
    assert words.requested(asked) == (
        "4 flows of TCP_RR from client1 to server1 with cubic, at once, for 24 s; requests of 10K "
        "bytes, replies of 1; a socket buffer of 64K bytes at the client; 2 connections in each "
        "flow; without the first 2 s; zero copy by msg; at most 5 Mbit/s each; 100 bytes in each "
        "write; segments of at most 536 bytes; DSCP 8; ECN; client on CPU 0; server on CPU 1; "
        "started 1 ms apart on average."
    )


def test_pacing_and_discarded_data_are_reported_once():
    assert words.requested(request(instances=2, pacing_bps=1e9, skip_receive=True)) == (
        "2 flows of TCP_STREAM from client1 to server1 with cubic, at once, for 24 s; paced by the "
        "kernel at 1 Gbit/s a connection; received data is discarded without copying it."
    )


def test_what_became_of_a_good_group_is_reported():
    assert words.happened(TWO.groups[0]) == (
        "It ran with netperf 2.7.0 and succeeded; started 1.3 ms after the requested instant; "
        "sockets were sampled every 200.1 ms (requested: 200 ms); segments held 1448 bytes."
    )


def test_a_start_a_moment_early_is_at_the_instant():
    (flow,) = TWO.groups[0].instances
    text = words.happened(replace(TWO.groups[0], instances=(replace(flow, start_skew_ms=-0.02),)))
    assert "started 0.0 ms after the requested instant" in text


def test_the_longest_time_without_samples_is_reported_if_it_is_more_than_requested():
    (flow,) = TWO.groups[0].instances
    late = replace(flow, achieved_interval_worst_ms=1799.2)
    text = words.happened(replace(TWO.groups[0], instances=(late,)))
    assert "(requested: 200 ms), at worst 1799.2 ms apart;" in text


def test_other_intervals_at_the_receiver_are_reported():
    (flow,) = TWO.groups[0].instances
    slow = replace(flow, receiver_interval_ms=236.0, receiver_interval_worst_ms=743.0)
    text = words.happened(replace(TWO.groups[0], instances=(slow,)))
    assert (
        "; sockets were sampled every 200.1 ms at the sender and 236.0 ms at the receiver "
        "(requested: 200 ms), at worst 743.0 ms apart;"
    ) in text


def test_what_became_of_a_failed_group_is_reported():
    told = samples.manifest(samples.all_failed())
    assert words.happened(told.groups[0]) == "No flow succeeded (tool: netperf 2.7.0)."


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (samples.two_flows(), "both flows succeeded"),
        (samples.request_reply(), "the flow succeeded"),
        (samples.partial(), "2 of 4 flows succeeded, 2 failed"),
        (samples.all_failed(), "both flows failed"),
        (samples.experiment(), "no flow was requested"),
    ],
)
def test_verdict(evidence, verdict):
    assert words.verdict(samples.manifest(evidence)) == verdict


@pytest.mark.parametrize(
    ("wall_s", "speed_up", "told"),
    [
        (2.0, 12.5, "took about 2 s of wall time, 12 times faster than real time."),
        (15.0, 1.667, "took about 15 s of wall time, 1.7 times faster than real time."),
        (250.0, 0.1, "took about 250 s of wall time, 10 times slower than real time."),
        (0.0, None, "took less than a second of wall time."),
    ],
)
def test_how_fast_simulated_time_went_is_reported(wall_s, speed_up, told):
    manifest = replace(TWO, simulated_time=True, wall_s=wall_s, speed_up=speed_up)
    assert words.simulated(manifest) == f"All times are simulated: 25.0 s of simulated time {told}"


def test_simulated_time_of_unknown_speed_is_still_told():
    assert words.simulated(replace(TWO, simulated_time=True)) == "All times are simulated."


def test_of_real_time_nothing_is_reported():
    assert words.simulated(TWO) == ""


def test_congestion_control_that_nobody_saw_is_not_confirmed():
    flow = replace(TWO.groups[0].instances[0], effective_congestion_control="")
    assert words.control(flow, TWO.groups[0].request) == "cubic (not confirmed)"


@pytest.mark.parametrize(
    ("offset_s", "bound_s", "text"),
    [
        (0.000012, 0.00008, "+12 ± 80 µs"),
        (-0.0123, 0.0004, "-12.3 ± 0.4 ms"),
        (3.5, 0.5, "+3.5 ± 0.5 s"),
    ],
)
def test_clock_is_reported_in_the_unit_that_fits(offset_s, bound_s, text):
    host = replace(TWO.hosts["client1"], clock=ClockOffset(offset_s, bound_s))
    assert words.clock(host) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (TimeSync(True, 0.0008, "chronyd"), "chronyd, ± 0.8 ms"),
        (TimeSync(True, 0.0125, ""), "± 12.5 ms"),
        (TimeSync(False, 16.0, ""), "not synchronized"),
        (TimeSync(False, 16.0, "ptp4l"), "not synchronized by ptp4l"),
        (None, "—"),
    ],
)
def test_what_keeps_a_clock_at_utc_is_reported_with_its_error(found, text):
    assert words.time_sync(replace(TWO.hosts["client1"], time_sync=found)) == text
