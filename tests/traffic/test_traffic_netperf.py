"""netperf 2.7.0: commands, and what its stored output means."""

from dataclasses import replace

import pytest
from typed import nearly

from netesto.errors import OutputError
from netesto.measured import Datagrams, GoodputInterval, TransferResult
from netesto.traffic.netperf import REQUEST_SELECTORS, SELECTORS, Netperf

NETPERF = Netperf()
STREAM_KEYS = ",".join(SELECTORS)
REQUEST_KEYS = ",".join(SELECTORS + REQUEST_SELECTORS)


def parse(output, request):
    return NETPERF.parse(output, request, started_s=0.0)


def test_version_is_read(output):
    assert NETPERF.parse_version(output("netperf-2.7.0-version.txt")) == "2.7.0"


def test_output_without_a_version_is_refused():
    with pytest.raises(OutputError, match="prints no version: 'what'"):
        NETPERF.parse_version("what")


def test_server_stays_in_the_foreground():
    assert NETPERF.server_command(12865) == ["netserver", "-D", "-p", "12865"]


def test_command_of_a_stream(ask, ports):
    assert NETPERF.client_command(ask(), ports, 2) == [
        *["netperf", "-H", "10.0.0.2,4", "-L", "10.0.0.1,4", "-4", "-p", "12865"],
        *["-t", "TCP_STREAM", "-l", "20", "-D", "-0.2", "-f", "k", "-c", "-C", "--"],
        *["-k", STREAM_KEYS, "-P", "15001,12901", "-K", "reno,cubic"],
    ]


def test_command_of_requests_over_ipv6(ask_ipv6, ports):
    request = ask_ipv6(test="TCP_RR", request_bytes=10_000, reply_bytes=1, interval_s=0.05)
    assert NETPERF.client_command(request, ports, 1) == [
        *["netperf", "-H", "fd00::2,6", "-L", "fd00::1,6", "-6", "-p", "12865"],
        *["-t", "TCP_RR", "-l", "20", "-D", "-0.05", "-f", "k", "-c", "-C", "--"],
        *["-k", REQUEST_KEYS, "-P", "15000,12900", "-K", "reno,cubic", "-r", "10000,1"],
    ]


def test_command_of_datagrams_fills_one_packet_and_may_be_routed(ask, ports):
    assert NETPERF.client_command(ask(test="UDP_STREAM"), ports, 1)[-6:] == [
        *["-P", "15000,12900", "-R", "1", "-m", "1448"]
    ]


def test_command_with_all_options(ask, ports):
    request = ask(
        dscp=10,
        server_cpus=(1,),
        local_buffer_bytes=1000,
        remote_buffer_bytes=2000,
        length_bytes=300,
    )
    assert NETPERF.client_command(request, ports, 1)[12:] == [
        *["-D", "-0.2", "-f", "k", "-c", "-C", "-Y", "0x28,0x28", "-T", ",1", "--"],
        *["-k", STREAM_KEYS, "-P", "15000,12900", "-K", "reno,cubic"],
        *["-s", "1000,1000", "-S", "2000,2000", "-m", "300"],
    ]


def test_reverse_stream_gives_the_control_under_test_to_the_sender(ask, ports):
    request = ask(test="TCP_MAERTS", congestion_control="bbr")
    assert NETPERF.client_command(request, ports, 1)[-2:] == ["-K", "cubic,bbr"]


def test_connections_for_each_transaction_leave_the_client_port_to_netperf(ask, ports):
    command = NETPERF.client_command(ask(test="TCP_CRR"), ports, 1)
    assert command[command.index("-P") + 1] == ",12900"


def test_a_fraction_of_a_second_is_rounded_up_for_zero_would_never_end(ask, ports):
    command = NETPERF.client_command(ask(duration_s=0.3), ports, 1)
    assert command[command.index("-l") + 1] == "1"


def test_deadline_leaves_room_for_the_data_on_its_way(ask):
    assert NETPERF.deadline_s(ask(duration_s=20.5)) == 36.0


def test_stream_on_a_slow_path(output, ask):
    assert parse(output("netperf-2.7.0-tcp-stream-10mbit.txt"), ask()) == TransferResult(
        rate_bps=nearly(9_617_680.0),
        elapsed_s=2.84,
        sent_bps=nearly(9_584_590.0),
        has_exact_begin=True,
        intervals=(
            interval(1795183351.498, 1795183351.881, 29_071_020.0),
            interval(1795183351.880, 1795183352.274, 9_653_630.0),
            interval(1795183352.274, 1795183352.710, 9_622_390.0),
            interval(1795183352.710, 1795183353.144, 9_370_840.0),
            interval(1795183353.143, 1795183353.497, 11_491_240.0),
        ),
        local_cpu_percent=1.09,
        remote_cpu_percent=1.09,
        local_retransmits=0,
        remote_retransmits=0,
        local_congestion_control="cubic",
        remote_congestion_control="reno",
        mss_bytes=1448,
    )


def test_more_than_all_of_the_cpus_is_unknown(output, ask):
    text = output("netperf-2.7.0-tcp-stream-ipv6.txt")
    result = parse(text.replace("REMOTE_CPU_UTIL=78.25", "REMOTE_CPU_UTIL=299.65"), ask())
    assert (result.local_cpu_percent, result.remote_cpu_percent) == (78.25, None)


def test_latencies_of_a_stream_are_those_of_a_send(output, ask):
    result = parse(output("netperf-2.7.0-tcp-stream-100mbit-bottleneck.txt"), ask())
    found = (result.min_latency_us, result.mean_latency_us, result.p99_latency_us)
    assert found == (0.0, 1848.46, 59769.0)


def test_an_interval_too_short_to_be_measured_is_left_out(output, ask):
    result = parse(output("netperf-2.7.0-tcp-stream-100mbit-bottleneck.txt"), ask())
    assert result.intervals[-1] == interval(1795184134.455, 1795184134.695, 95_594_440.0)


def interval(start_s, end_s, rate_bps):
    return GoodputInterval(nearly(start_s, abs=1e-6), nearly(end_s, abs=1e-6), nearly(rate_bps))


def test_rate_of_requests_is_transactions_times_request_bits(output, ask):
    request = ask(test="TCP_RR", request_bytes=10_000, reply_bytes=10_000)
    result = parse(output("netperf-2.7.0-tcp-rr.txt"), request)
    assert replace(result, intervals=()) == TransferResult(
        rate_bps=nearly(12675.474 * 80_000),
        elapsed_s=1.0,
        has_exact_begin=True,
        transactions_per_s=12675.474,
        local_cpu_percent=33.73,
        remote_cpu_percent=33.73,
        local_retransmits=0,
        remote_retransmits=0,
        min_latency_us=9.0,
        max_latency_us=2124.0,
        mean_latency_us=78.76,
        p50_latency_us=73.0,
        p90_latency_us=106.0,
        p99_latency_us=143.0,
        local_congestion_control="cubic",
        remote_congestion_control="reno",
        mss_bytes=1448,
    )


def test_intervals_of_requests_leave_the_replies_out(output, ask):
    request = ask(test="TCP_RR", request_bytes=10_000, reply_bytes=10_000)
    first = parse(output("netperf-2.7.0-tcp-rr.txt"), request).intervals[0]
    assert first == interval(1795183339.713, 1795183339.913, 2_143_453_420.0 / 2)


def test_intervals_of_small_requests_for_large_replies_are_small(output, ask):
    request = ask(test="TCP_RR", request_bytes=1, reply_bytes=1_000_000)
    first = parse(output("netperf-2.7.0-tcp-rr-large-reply.txt"), request).intervals[0]
    assert first.rate_bps == nearly(36_637_472_020.0 / 1_000_001)


def test_large_requests_carry_nearly_all_that_netperf_counts(output, ask):
    request = ask(test="TCP_RR", request_bytes=1_000_000, reply_bytes=1)
    result = parse(output("netperf-2.7.0-tcp-rr-large-request.txt"), request)
    assert result.rate_bps == nearly(3402.788 * 8_000_000)


def test_no_transaction_has_no_latency(output, ask):
    request = ask(test="TCP_RR", request_bytes=20_000_000)
    result = parse(output("netperf-2.7.0-tcp-rr-no-transaction.txt"), request)
    assert result == TransferResult(
        rate_bps=0.0,
        elapsed_s=1.97,
        transactions_per_s=0.0,
        local_cpu_percent=0.0,
        remote_cpu_percent=0.0,
        local_retransmits=0,
        remote_retransmits=0,
        local_congestion_control="cubic",
        remote_congestion_control="reno",
        mss_bytes=1448,
    )


def test_connections_for_each_transaction_have_no_retransmits_control_or_remote_cpu(output, ask):
    request = ask(test="TCP_CRR", request_bytes=1000)
    result = parse(output("netperf-2.7.0-tcp-crr.txt"), request)
    assert replace(result, intervals=()) == TransferResult(
        rate_bps=nearly(27598.179 * 8000),
        elapsed_s=1.0,
        has_exact_begin=True,
        transactions_per_s=27598.179,
        local_cpu_percent=100.0,
        min_latency_us=25.0,
        max_latency_us=4650.0,
        mean_latency_us=36.14,
        p50_latency_us=28.0,
        p90_latency_us=40.0,
        p99_latency_us=140.0,
        mss_bytes=1448,
    )


def test_datagrams_count_where_they_arrive_and_have_no_goodput_on_the_way(output, ask):
    text = output("netperf-2.7.0-udp-stream.txt")
    assert parse(text, ask(test="UDP_STREAM")) == TransferResult(
        rate_bps=nearly(4_068_623_900.0),
        elapsed_s=1.0,
        local_cpu_percent=87.22,
        remote_cpu_percent=87.22,
        # Of 1448 bytes each.
        datagrams=Datagrams(
            sent=443_008, lost=91_732, sent_bps=nearly(5_131_101_860.0), counts_late=True
        ),
    )


def test_requests_in_datagrams(output, ask):
    request = ask(test="UDP_RR", request_bytes=100, reply_bytes=200)
    result = parse(output("netperf-2.7.0-udp-rr.txt"), request)
    assert result.rate_bps == nearly(11551.331 * 800)


def test_reverse_stream_is_what_the_client_received(output, ask):
    result = parse(output("netperf-2.7.0-tcp-maerts.txt"), ask(test="TCP_MAERTS"))
    assert result.rate_bps == nearly(5_374_882_040.0)


def test_retransmits_of_a_reverse_stream_are_the_remote_ones(output, ask):
    result = parse(output("netperf-2.7.0-tcp-maerts.txt"), ask(test="TCP_MAERTS"))
    assert (result.local_retransmits, result.remote_retransmits) == (0, 3700)


def test_mss_over_ipv6(output, ask_ipv6):
    assert parse(output("netperf-2.7.0-tcp-stream-ipv6.txt"), ask_ipv6()).mss_bytes == 1428


def test_an_unknown_congestion_control_shows_as_the_one_in_effect(output, ask):
    text = output("netperf-2.7.0-tcp-stream-unknown-congestion-control.txt")
    assert parse(text, ask(congestion_control="nosuch")).local_congestion_control == "bbr"


def test_a_refused_connection_is_no_result(output, ask):
    with pytest.raises(OutputError, match="netperf printed no THROUGHPUT_UNITS"):
        parse(output("netperf-2.7.0-connection-refused.txt"), ask())


def test_a_refused_connection_says_why(output):
    assert NETPERF.failure(output("netperf-2.7.0-connection-refused.txt")) == (
        "establish control: are you sure there is a netserver listening on 10.77.0.1 at port 12999?"
        "; establish_control could not establish the control connection from 10.77.0.2 port 0"
        " address family AF_INET to 10.77.0.1 port 12999 address family AF_INET"
    )


def test_an_interrupted_stream_is_no_result(output, ask):
    with pytest.raises(OutputError, match="netperf printed no THROUGHPUT_UNITS"):
        parse(output("netperf-2.7.0-tcp-stream-interrupted.txt"), ask())


def test_an_interrupted_stream_does_not_say_why(output):
    assert NETPERF.failure(output("netperf-2.7.0-tcp-stream-interrupted.txt")) == ""


@pytest.mark.parametrize("text", ["", "\n", "THROUGHPUT=0", "\x00\x01=\x02"])
def test_nothing_and_garbage_are_no_result(text, ask):
    with pytest.raises(OutputError):
        parse(text, ask())


@pytest.mark.parametrize("key", ["ELAPSED_TIME", "REMOTE_RECV_THROUGHPUT", "LOCAL_CONG_CONTROL"])
def test_a_missing_key_is_named(key, output, ask):
    text = output("netperf-2.7.0-tcp-stream.txt").replace(f"\n{key}=", "\nOTHER=")
    with pytest.raises(OutputError, match=f"^netperf printed no {key}$"):
        parse(text, ask())


def test_other_units_than_asked_for_are_refused(output, ask):
    text = output("netperf-2.7.0-tcp-stream.txt").replace("UNITS=10^3bits/s", "UNITS=10^6bits/s")
    with pytest.raises(OutputError, match="UNITS='10\\^6bits/s' instead of '10\\^3bits/s'"):
        parse(text, ask())


def test_a_value_that_is_no_number_is_shown(output, ask):
    text = output("netperf-2.7.0-tcp-stream.txt").replace("ELAPSED_TIME=1.00", "ELAPSED_TIME=soon")
    with pytest.raises(OutputError, match="ELAPSED_TIME='soon', not a number"):
        parse(text, ask())


def test_an_unknown_rate_is_refused(output, ask):
    text = output("netperf-2.7.0-udp-stream.txt")
    text = text.replace("\nREMOTE_RECV_THROUGHPUT=4068623.90", "\nREMOTE_RECV_THROUGHPUT=-1")
    with pytest.raises(OutputError, match="netperf does not know REMOTE_RECV_THROUGHPUT"):
        parse(text, ask(test="UDP_STREAM"))


def test_progress_of_a_stream(ask):
    assert NETPERF.progress("NETPERF_INTERIM_RESULT[3]=9370.84", ask()) == 9_370_840.0


def test_progress_of_requests_leaves_the_replies_out(ask):
    request = ask(test="TCP_RR", request_bytes=300, reply_bytes=100)
    assert NETPERF.progress("NETPERF_INTERIM_RESULT[0]=400.00", request) == 300_000.0


def test_datagrams_sent_are_no_progress(ask):
    line = "NETPERF_INTERIM_RESULT[0]=400.00"
    assert NETPERF.progress(line, ask(test="UDP_STREAM")) is None


@pytest.mark.parametrize(
    "line",
    [
        "", "NETPERF_INTERVAL[3]=0.434", "THROUGHPUT=9.1", "NETPERF_INTERIM_RESULT[0]=4.0.0",
        "NETPERF_INTERIM_RESULT[0]=1e999", "NETPERF_INTERIM_RESULT[0]=nan",
    ],
)  # fmt: skip
def test_other_lines_are_no_progress(line, ask):
    assert NETPERF.progress(line, ask()) is None


@pytest.mark.parametrize("direction", ["later", "earlier"])
def test_of_a_client_whose_clock_was_set_only_counts_are_known(output, ask, direction):
    text = output(f"netperf-2.7.0-tcp-stream-time-set-1h-{direction}.txt")
    assert NETPERF.parse(text, ask(duration_s=1), started_s=0.0, system_ahead_s=None) == (
        TransferResult(
            rate_bps=None,
            elapsed_s=1.0,
            local_retransmits=0,
            remote_retransmits=0,
            local_congestion_control="cubic",
            remote_congestion_control="cubic",
            mss_bytes=65483,
        )
    )


def test_times_of_interim_results_are_those_of_the_agent(output, ask):
    text = output("netperf-2.7.0-tcp-stream.txt")
    plain = NETPERF.parse(text, ask(), started_s=0.0)
    found = NETPERF.parse(text, ask(), started_s=0.0, system_ahead_s=64.0)
    moved = [
        replace(each, start_s=nearly(each.start_s - 64), end_s=nearly(each.end_s - 64))
        for each in plain.intervals
    ]
    assert list(found.intervals) == moved != []
