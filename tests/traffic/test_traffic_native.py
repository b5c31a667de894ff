"""netesto-flow: its commands and its output."""

import json
import struct
from dataclasses import replace

import pytest

from netesto.errors import OutputError
from netesto.measured import DatagramInterval, Datagrams, GoodputInterval, TransferResult
from netesto.traffic.native import PROGRAM, Native

NATIVE = Native()


def printed(**members):
    return json.dumps({"event": "result", **members}, separators=(",", ":")) + "\n"


STREAM = {
    "test": "TCP_STREAM",
    "client_cpu_percent": 12.5,
    "client_retransmits": 7,
    "client_data_segments": 1734,
    "client_congestion_control": "cubic",
    "client_mss_bytes": 1448,
    "client_min_rtt_us": 40_000,
    "server_cpu_percent": 25.0,
    "server_retransmits": 0,
    "server_data_segments": 0,
    "server_congestion_control": "reno",
    "server_received_bytes": 2_500_000,
    "server_received": [1_000_000, 1_500_000],
}


def test_a_stream_command(ask, ports):
    assert NATIVE.client_command(ask(duration_s=2.5, congestion_control="bbr"), ports, 2) == [
        str(PROGRAM), "client", "10.0.0.2", "12865", "test=TCP_STREAM", "port=12901",
        "client_port=15001", "local=10.0.0.1", "duration=2.5", "interval=0.2",
        "congestion_control=bbr", "reverse_congestion_control=cubic",
    ]  # fmt: skip


def test_options_of_a_command(ask, ports):
    request = ask(
        test="TCP_MAERTS",
        omit_s=1,
        parallel=4,
        length_bytes=1000,
        bitrate_bps=5e6,
        local_buffer_bytes=1 << 20,
        remote_buffer_bytes=1 << 21,
        mss_bytes=1000,
        dscp=10,
        zerocopy="msg",
        client_cpus=(1,),
        server_cpus=(0,),
    )
    assert NATIVE.client_command(request, ports, 1)[5:-2] == [
        "port=12900", "local=10.0.0.1", "duration=20", "omit=1", "interval=0.2", "parallel=4",
        "length=1000", "bitrate=5000000", "local_buffer=1048576", "remote_buffer=2097152",
        "mss=1000", "dscp=10", "zerocopy=msg", "client_cpu=1", "server_cpu=0",
    ]  # fmt: skip


def test_a_datagram_command_has_no_congestion_control(ask, ports):
    command = NATIVE.client_command(ask(test="UDP_STREAM", bitrate_bps=1e6), ports, 1)
    assert command[5:] == [
        "port=12900", "client_port=15000", "local=10.0.0.1", "duration=20", "interval=0.2",
        "bitrate=1000000",
    ]  # fmt: skip


def test_a_request_command_has_the_sizes(ask, ports):
    request = ask(test="TCP_RR", request_bytes=100, reply_bytes=200)
    assert NATIVE.client_command(request, ports, 1)[-4:-2] == ["request=100", "reply=200"]


def test_the_goodput_of_a_stream_is_that_of_the_receivers_window(ask):
    request = ask(duration_s=2.0, interval_s=1.0)
    assert NATIVE.parse(printed(**STREAM), request, started_s=1e9) == TransferResult(
        rate_bps=10e6,
        elapsed_s=2.0,
        has_exact_begin=True,
        counts_omitted=True,
        # Half a round trip behind the first byte's sending.
        intervals=(
            GoodputInterval(1e9 + 0.02, 1e9 + 1.02, 8e6),
            GoodputInterval(1e9 + 1.02, 1e9 + 2.02, 12e6),
        ),
        local_cpu_percent=12.5,
        remote_cpu_percent=25.0,
        local_retransmits=7,
        remote_retransmits=0,
        local_data_segments=1734,
        remote_data_segments=0,
        local_congestion_control="cubic",
        remote_congestion_control="reno",
        mss_bytes=1448,
    )


def test_what_is_omitted_is_in_no_interval(ask):
    request = ask(duration_s=1.0, omit_s=1.0, interval_s=1.0)
    intervals = NATIVE.parse(printed(**STREAM), request, started_s=1e9).intervals
    assert intervals == (GoodputInterval(1e9 + 1.02, 1e9 + 2.02, 12e6),)


def test_the_last_interval_may_be_short(ask):
    request = ask(duration_s=1.5, interval_s=1.0)
    intervals = NATIVE.parse(printed(**STREAM), request, started_s=1e9).intervals
    assert intervals[-1] == GoodputInterval(1e9 + 1.02, 1e9 + 1.52, 24e6)


def test_latencies_of_requests(ask):
    quantiles = {
        "min_ns": 1000, "mean_ns": 2500.5, "p50_ns": 2000, "p90_ns": 3000, "p99_ns": 4000,
        "p999_ns": 5000, "p9999_ns": 6000, "p99999_ns": 6500, "max_ns": 7000,
    }  # fmt: skip
    output = printed(test="TCP_RR", count=100, client_transactions=[40, 60], **quantiles)
    request = ask(test="TCP_RR", request_bytes=125, duration_s=2.0, interval_s=1.0)
    assert NATIVE.parse(output, request, started_s=1e9) == TransferResult(
        rate_bps=50_000.0,
        elapsed_s=2.0,
        has_exact_begin=True,
        counts_omitted=True,
        transactions_per_s=50.0,
        intervals=(
            GoodputInterval(1e9, 1e9 + 1, 40_000.0),
            GoodputInterval(1e9 + 1, 1e9 + 2, 60_000.0),
        ),
        min_latency_us=1.0,
        max_latency_us=7.0,
        mean_latency_us=2.5005,
        p50_latency_us=2.0,
        p90_latency_us=3.0,
        p99_latency_us=4.0,
        p999_latency_us=5.0,
        p9999_latency_us=6.0,
        p99999_latency_us=6.5,
        latencies=100,
    )


def test_without_a_transaction_there_are_no_latencies(ask):
    output = printed(test="TCP_RR", count=0, client_transactions=[0])
    request = ask(test="TCP_RR", duration_s=1.0, interval_s=1.0)
    result = NATIVE.parse(output, request, started_s=1e9)
    assert (result.transactions_per_s, result.p50_latency_us) == (0.0, None)


def test_progress_is_the_goodput_of_an_interval(ask):
    line = '{"event":"interval","bytes":250000,"length_ns":200000000}'
    assert NATIVE.progress(line, ask()) == 10e6


def test_progress_of_requests_is_that_of_their_bytes(ask):
    line = '{"event":"interval","transactions":50,"length_ns":500000000}'
    assert NATIVE.progress(line, ask(test="TCP_RR", request_bytes=125)) == 100_000.0


@pytest.mark.parametrize(
    "output",
    [
        "",
        '{"event":"result","test":"TCP_STREAM"',
        printed(**{**STREAM, "server_received": "none"}),
        printed(**{**STREAM, "server_received_bytes": None}),
    ],
)
def test_a_damaged_result_is_an_error(output, ask):
    with pytest.raises(OutputError, match="netesto-flow printed"):
        NATIVE.parse(output, ask(duration_s=2.0, interval_s=1.0), started_s=1e9)


def test_the_reason_of_a_failure_is_what_it_says_last():
    assert NATIVE.failure("netesto-flow: cannot connect: no answer\n") == (
        "cannot connect: no answer"
    )


def test_another_program_has_no_version():
    with pytest.raises(OutputError):
        NATIVE.parse_version("iperf 3.12\n")


def test_the_end_of_a_trace_may_wait_behind_queues_as_long_as_the_program_does(ask):
    assert NATIVE.deadline_s(ask(test="TRACE_UDP", duration_s=60.0)) == 60 + 28 + 1


def test_the_congestion_control_under_test_is_the_senders(ask):
    result = NATIVE.parse(printed(**STREAM), ask(duration_s=2.0, interval_s=1.0), started_s=1e9)
    assert replace(result, intervals=()).local_congestion_control == "cubic"


TRANSFERS = {
    "test": "TCP_FLOWS",
    "client_retransmits": 3,
    "begun": 100,
    "failed": 0,
    "count": 100,
    "elapsed_ns": 2_000_000_000,
    "mean_ns": 5000,
    "p99_ns": 9000,
}


def test_a_command_of_transfers(ask, ports, tmp_path):
    request = ask(
        test="TCP_FLOWS",
        size_bytes=1000,
        count=10,
        gap_s=0.001,
        arrivals="poisson",
        group=3,
        seed=2,
    )
    command = NATIVE.client_command(request, ports, 1, folder=tmp_path)
    assert command[5:] == [
        "port=12900", "local=10.0.0.1", "duration=20", "interval=0.2",
        "size=1000", "count=10", "gap=0.001", "arrivals=poisson", "seed=20015",
        f"times={tmp_path}/completions.3.1.csv",
        "congestion_control=reno", "reverse_congestion_control=cubic",
    ]  # fmt: skip


def test_completion_times_are_latencies(ask):
    request = ask(test="TCP_FLOWS", size_bytes=1000, count=100)
    assert NATIVE.parse(printed(**TRANSFERS), request, started_s=1e9) == TransferResult(
        rate_bps=400_000.0,
        elapsed_s=2.0,
        has_exact_begin=True,
        counts_omitted=True,
        local_retransmits=3,
        mean_latency_us=5.0,
        p99_latency_us=9.0,
        latencies=100,
        unfinished=0,
    )


def test_completion_times_are_unknown_if_somebody_set_the_time_of_the_kernels_stamps(ask):
    request = ask(test="TCP_FLOWS", size_bytes=1000, count=100)
    found = NATIVE.parse(printed(**TRANSFERS), request, started_s=1e9, system_ahead_s=None)
    times = (found.mean_latency_us, found.p99_latency_us, found.latencies)
    assert (found.rate_bps, *times) == (400_000.0, None, None, None)


def test_what_was_not_completed_is_counted_and_in_no_rate(ask):
    request = ask(test="TCP_FLOWS", size_bytes=1000, count=100)
    found = NATIVE.parse(printed(**TRANSFERS | {"failed": 2}), request, started_s=1e9)
    assert (found.unfinished, found.rate_bps) == (2, 392_000.0)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"failed": 100}, "none of 100 transfers was completed"),
        ({"elapsed_ns": 0}, "an impossible elapsed_ns"),
        ({"begun": 70}, "only 70 of 100 .* began within 20 s: a longer dur= gives them time"),
    ],
)
def test_transfers_that_are_missing_fail_the_flow(changed, reason, ask):
    request = ask(test="TCP_FLOWS", size_bytes=1000, count=100)
    with pytest.raises(OutputError, match=reason):
        NATIVE.parse(printed(**TRANSFERS | changed), request, started_s=1e9)


def test_data_of_a_reverse_stream_arrives_when_the_client_says(ask):
    members = {key.replace("server_rec", "client_rec"): value for key, value in STREAM.items()}
    output = printed(**members, client_received_after_ns=30_000_000)
    request = ask(test="TCP_MAERTS", duration_s=2.0, interval_s=1.0)
    assert NATIVE.parse(output, request, started_s=1e9).intervals[0] == GoodputInterval(
        1e9 + 0.03, 1e9 + 1.03, 8e6
    )


def test_the_window_of_a_stream_whose_first_data_was_lost_begins_when_its_end_says(ask):
    output = printed(**STREAM, client_done_after_ns=2_700_000_000)
    request = ask(duration_s=2.0, interval_s=1.0)
    assert NATIVE.parse(output, request, started_s=1e9).intervals[0] == GoodputInterval(
        1e9 + 0.68, 1e9 + 1.68, 8e6
    )


def test_the_window_of_a_stream_begins_half_a_round_trip_after_its_start(ask):
    output = printed(**STREAM, client_done_after_ns=2_041_000_000)
    request = ask(duration_s=2.0, interval_s=1.0)
    assert NATIVE.parse(output, request, started_s=1e9).intervals[0] == GoodputInterval(
        1e9 + 0.02, 1e9 + 1.02, 8e6
    )


DATAGRAMS = {
    "length_bytes": 1000, "skipped": 2, "server_received_bytes": 3000, "server_received": [3000, 0],
    "server_dropped": 1,
    "client_sent": [4, 1], "server_arrived": [3, 0], "server_lost": [1, 1],
    "server_reordered": [1, 0], "server_duplicates": [2, 0], "server_jitter_ns": [5000, 0],
    "server_transit_min_ns": [1000, 0], "server_transit_mean_ns": [2000, 0],
    "server_transit_max_ns": [3000, 0],
}  # fmt: skip


def became(ask, **changed: object) -> Datagrams | None:
    request = ask(test="UDP_STREAM", duration_s=2.0, interval_s=1.0)
    return NATIVE.parse(printed(**DATAGRAMS | changed), request, started_s=1e9).datagrams


@pytest.mark.parametrize(
    ("every", "damaged", "dropped"),
    # One flow, then two flows of a host: 3 of the flow's 10 may be damaged ones, or more.
    [(0, 0, 10), (10, 0, 10), (10, 10, 0), (10, 4, 6), (25, 25, 0), (25, 3, None)],
)
def test_datagrams_with_a_wrong_checksum_were_not_without_room(ask, every, damaged, dropped):
    found = became(
        ask, server_dropped=10, server_host_errors=every, server_host_checksum_errors=damaged
    )
    assert found is not None
    assert found.dropped == dropped


def test_the_mean_of_equal_delays_is_not_above_the_maximum():
    each = DatagramInterval(start_s=0, end_s=1, sent=3, lost=0, delays_ms=(0.1, 0.1, 0.1))
    other = replace(each, sent=7, delays_ms=(0.1, 0.1, 0.1))
    found = Datagrams(sent=10, lost=0, sent_bps=1, intervals=(each, other, each))
    assert found.delays_ms == (0.1, 0.1, 0.1)


def test_a_poisson_process_without_an_arrival_is_a_measurement_of_nothing(ask):
    request = ask(test="TCP_FLOWS", size_bytes=1000, gap_s=30.0, arrivals="poisson")
    nothing = {"begun": 0, "failed": 0, "count": 0, "elapsed_ns": 0}
    found = NATIVE.parse(
        printed(test="TCP_FLOWS", client_retransmits=0, **nothing), request, started_s=1e9
    )
    assert (found.rate_bps, found.elapsed_s, found.latencies) == (0.0, 20.0, 0)


def test_what_became_of_datagrams(ask):
    assert became(ask) == Datagrams(
        sent=5, lost=2, sent_bps=20_000, jitter_ms=0.005, reordered=1, duplicates=2, skipped=2,
        dropped=1,
        intervals=(
            DatagramInterval(
                start_s=1e9, end_s=1e9 + 1, sent=4, lost=1, jitter_ms=0.005, reordered=1,
                duplicates=2, transits_s=(1e-6, 2e-6, 3e-6),
            ),
            DatagramInterval(
                start_s=1e9 + 1, end_s=1e9 + 2, sent=1, lost=1, reordered=0, duplicates=0,
            ),
        ),
    )  # fmt: skip


def test_a_thread_of_the_program_takes_little_memory():
    """A trace has one for each flow, in which the C library clears the variables of threads."""
    image = PROGRAM.read_bytes()
    first, size, count = (
        struct.unpack_from("<Q", image, 32)[0],
        *struct.unpack_from("<HH", image, 54),
    )
    kinds = {}
    for at in range(first, first + size * count, size):
        (kind,), (memory,) = (
            struct.unpack_from("<I", image, at),
            struct.unpack_from("<Q", image, at + 40),
        )
        kinds[kind] = memory
    thread_local = 7
    assert kinds[thread_local] < 16 * 1024
