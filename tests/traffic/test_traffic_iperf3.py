"""iperf3 3.12 and 3.18: commands, and what their stored output means."""

from dataclasses import replace

import pytest
from typed import nearly

from netesto.errors import OutputError
from netesto.measured import DatagramInterval, Datagrams, GoodputInterval, TransferResult
from netesto.model import Ports
from netesto.traffic.iperf3 import Iperf3

IPERF3 = Iperf3()


def parse(output, request, *, started_s=0.0):
    return IPERF3.parse(output, request, started_s=started_s)


@pytest.mark.parametrize("version", ["3.12", "3.18"])
def test_version_is_read(version, output):
    assert IPERF3.parse_version(output(f"iperf3-{version}-version.txt")) == version


def test_output_without_a_version_is_refused():
    with pytest.raises(OutputError, match="prints no version: 'what'"):
        IPERF3.parse_version("what")


def test_server_serves_one_client_and_can_tell_what_arrived():
    assert IPERF3.server_command(12900) == [
        *["iperf3", "-s", "-1", "-J", "-i", "0.2", "-p", "12900"]
    ]


def test_command_of_a_stream(ask, ports):
    assert IPERF3.client_command(ask(), ports, 2) == [
        *["iperf3", "-c", "10.0.0.2", "-p", "12901", "-4", "-B", "10.0.0.1", "--cport", "15001"],
        *["-J", "-t", "20", "-i", "0.2", "-C", "reno", "--get-server-output"],
    ]


def test_command_of_a_reverse_stream_over_ipv6(ask_ipv6, ports):
    assert IPERF3.client_command(ask_ipv6(test="TCP_MAERTS"), ports, 1) == [
        *["iperf3", "-c", "fd00::2", "-p", "12900", "-6", "-B", "fd00::1", "--cport", "15000"],
        *["-J", "-t", "20", "-i", "0.2", "-C", "reno", "-R"],
    ]


def test_datagrams_are_sent_as_fast_as_possible_unless_a_rate_is_given(ask, ports):
    command = IPERF3.client_command(ask(test="UDP_STREAM"), ports, 1)
    assert command[-4:] == ["-u", "-b", "0", "--get-server-output"]


@pytest.mark.parametrize("test", ["TCP_STREAM", "TCP_MAERTS", "UDP_STREAM"])
def test_parallel_streams_share_the_rate_of_their_flow(ask, ports, test):
    command = IPERF3.client_command(ask(test=test, bitrate_bps=5e6, parallel=2), ports, 1)
    assert command[command.index("-b") + 1] == "2500000"


def test_a_rate_below_one_bit_for_each_stream_is_not_without_a_limit(ask, ports):
    command = IPERF3.client_command(ask(bitrate_bps=1.0, parallel=4), ports, 1)
    assert command[command.index("-b") + 1] == "1"


def test_command_with_all_options(ask, ports):
    request = ask(
        parallel=3,
        bitrate_bps=2.5e6,
        length_bytes=8000,
        mss_bytes=1000,
        zerocopy="sendfile",
        dscp=10,
        client_cpus=(0, 1, 2, 5),
        server_cpus=(1,),
        omit_s=1.5,
        pacing_bps=1e9,
        skip_receive=True,
        local_buffer_bytes=70_000,
        remote_buffer_bytes=70_000,
    )
    command = IPERF3.client_command(request, ports, 1)
    assert command[:4] == ["taskset", "-c", "0-2,5", "iperf3"]
    assert command[11:] == [
        *["-J", "-t", "20", "-i", "0.2", "-C", "reno", "-b", "833333", "--get-server-output"],
        *["-l", "8000", "-M", "1000", "-Z", "--skip-rx-copy", "--fq-rate", "1000000000"],
        *["-w", "70000", "-P", "3", "-S", "40", "-O", "2"],
    ]


def test_zerocopy_of_messages_is_an_argument_of_builds_that_have_it(ask, ports):
    assert "--zerocopy=z" in IPERF3.client_command(ask(zerocopy="msg"), ports, 1)


@pytest.mark.parametrize(
    ("help_text", "known"),
    [
        ("  --fq-rate #[KMG]\n  -Z, --zerocopy            use a 'zero copy' method\n", ["pacing"]),
        ("  -Z, --zerocopy[=z]   sendfile, or MSG_ZEROCOPY\n", ["zerocopy=msg"]),
        ("  --skip-rx-copy       ignore received messages using MSG_TRUNC option\n", ["skiprx"]),
    ],
)
def test_what_a_build_can_do_is_read_from_its_help(help_text, known):
    assert [name for name, said in IPERF3.extras.items() if said.search(help_text)] == known


def test_parallel_streams_leave_the_client_ports_to_the_kernel(ask, ports):
    assert IPERF3.client_port(ask(parallel=2), ports, 1) is None


def test_the_server_port_outside_our_range_leaves_the_client_port_to_the_kernel(ask):
    far = Ports(control=(5201,), data=(5201,))
    assert "--cport" not in IPERF3.client_command(ask(), far, 1)


@pytest.mark.parametrize(
    ("version", "option"),
    [
        ("", "-J"),
        ("3.12", "-J"),
        ("3.9", "-J"),
        ("3.17", "--json-stream"),
        ("4.0", "--json-stream"),
    ],
)
def test_events_are_asked_of_versions_that_have_them(version, option, ask, ports):
    command = IPERF3.for_version(version).client_command(ask(), ports, 1)
    assert command[10] == option


@pytest.mark.parametrize(("asked_s", "given"), [(0.01, "0.1"), (0.25, "0.25"), (90.0, "60")])
def test_interval_stays_within_what_iperf3_takes(asked_s, given, ask, ports):
    command = IPERF3.client_command(ask(interval_s=asked_s), ports, 1)
    assert command[command.index("-i") + 1] == given


def test_a_fraction_of_a_second_is_rounded_up(ask, ports):
    command = IPERF3.client_command(ask(duration_s=0.3), ports, 1)
    assert command[command.index("-t") + 1] == "1"


def test_deadline_counts_the_omitted_part(ask):
    assert IPERF3.deadline_s(ask(duration_s=20, omit_s=2)) == 37.0


def test_times_of_a_host_whose_clock_was_set_before_are_those_of_the_agent(output, ask):
    text = output("iperf3-3.12-tcp-maerts-ipv6.json")
    # The system's clock was an hour ahead, and is: its timestamp is 1795183364.
    request = ask(test="TCP_MAERTS")
    result = IPERF3.parse(text, request, started_s=1795179763.9, system_ahead_s=3600.0)
    assert result.intervals[0].start_s == nearly(1795179764.0)


@pytest.mark.parametrize(
    ("test", "name"),
    [("TCP_STREAM", "iperf3-3.12-tcp-stream.json"), ("UDP_STREAM", "iperf3-3.12-udp-stream.json")],
)
def test_of_a_client_whose_clock_was_set_intervals_are_unknown(output, ask, test, name):
    text, request = output(name), ask(test=test)
    timed = IPERF3.parse(text, request, started_s=1e9)
    datagrams = timed.datagrams and replace(timed.datagrams, intervals=())
    assert IPERF3.parse(text, request, started_s=1e9, system_ahead_s=None) == replace(
        timed, intervals=(), datagrams=datagrams
    )


def test_reverse_stream(output, ask):
    request = ask(test="TCP_MAERTS")
    text = output("iperf3-3.12-tcp-maerts-ipv6.json")
    assert parse(text, request, started_s=1795183364.25) == TransferResult(
        rate_bps=20427894543.80376,
        elapsed_s=1.000074,
        sent_bps=nearly(20425532426.69146),
        intervals=(
            GoodputInterval(1795183364.25, 1795183364.25 + 0.500014, 21753143051.468765),
            GoodputInterval(1795183364.25 + 0.500014, 1795183364.25 + 1.000074, 19102766800.15049),
        ),
        remote_retransmits=102,
        local_congestion_control="cubic",
        remote_congestion_control="cubic",
        mss_bytes=1000,
        client_ports=(15019,),
    )


def test_stream(output, ask):
    result = parse(output("iperf3-3.12-tcp-stream.json"), ask())
    assert replace(result, intervals=()) == TransferResult(
        rate_bps=nearly(26645953957.85302),
        elapsed_s=1.000214,
        sent_bps=nearly(26646593339.26554),
        local_retransmits=45,
        local_congestion_control="cubic",
        remote_congestion_control="cubic",
        mss_bytes=1448,
        client_ports=(15016,),
    )


def test_intervals_of_a_stream_are_the_receivers(output, ask):
    first = parse(output("iperf3-3.12-tcp-stream-10mbit.json"), ask()).intervals[0]
    assert first.rate_bps == nearly(10_305_586, abs=1)


def test_intervals_of_a_stream_are_the_senders_where_the_server_told_none(output, ask):
    text = output("iperf3-3.12-tcp-stream-10mbit.json").replace("server_output_json", "other")
    assert parse(text, ask()).intervals[0].rate_bps > 20e6


def test_a_start_before_the_second_that_iperf3_names_is_moved_there(output, ask):
    text = output("iperf3-3.12-tcp-maerts-ipv6.json")
    result = parse(text, ask(test="TCP_MAERTS"), started_s=1795183363.9)
    assert result.intervals[0].start_s == 1795183364.0


def test_omitted_seconds_are_left_out_and_the_rest_begins_after_them(output, ask):
    result = parse(output("iperf3-3.12-tcp-stream-omit.json"), ask(), started_s=1795183361.5)
    starts = [interval.start_s for interval in result.intervals]
    assert starts == nearly(
        [1795183362.5 + s for s in (0.000036, 0.200019, 0.399971, 0.599968, 0.799994, 1.000022)],
        abs=1e-6,
    )


def test_parallel_streams_are_summed(output, ask):
    result = parse(output("iperf3-3.12-tcp-stream-parallel.json"), ask(parallel=2))
    assert result.rate_bps == nearly(41_936_414.0, abs=1)


def test_parallel_streams_tell_their_ports_and_not_that_of_the_control_connection(output, ask):
    result = parse(output("iperf3-3.12-tcp-stream-parallel.json"), ask(parallel=2))
    assert result.client_ports == (55427, 49141)


def test_datagrams_count_where_they_arrive(output, ask):
    result = parse(output("iperf3-3.12-udp-stream-lossy.json"), ask(test="UDP_STREAM"))
    assert replace(result, intervals=(), datagrams=None) == TransferResult(
        rate_bps=nearly(5594548613.666544),
        elapsed_s=1.000048,
        client_ports=(15021,),
    )


def test_what_became_of_datagrams_is_what_iperf3_says(output, ask):
    result = parse(output("iperf3-3.12-udp-stream-lossy.json"), ask(test="UDP_STREAM"))
    assert result.datagrams is not None
    assert replace(result.datagrams, intervals=result.datagrams.intervals[:1]) == Datagrams(
        sent=491330,
        lost=8349,
        sent_bps=nearly(5691492730.594502),
        received=482_978,
        numbered=491_327,
        jitter_ms=0.0010933215749803708,
        reordered=0,
        intervals=(
            DatagramInterval(
                start_s=1795183366,
                end_s=nearly(1795183366.200003),
                sent=93688,
                lost=7408,
                jitter_ms=0.000548086384982088,
            ),
        ),
    )


def test_datagrams_have_no_intervals_where_the_server_told_none(output, ask):
    text = output("iperf3-3.12-udp-stream.json").replace("server_output_json", "other")
    assert parse(text, ask(test="UDP_STREAM")).intervals == ()


def test_paced_datagrams_arrive_at_their_rate(output, ask):
    result = parse(output("iperf3-3.12-udp-stream.json"), ask(test="UDP_STREAM"))
    assert result.rate_bps == nearly(49_960_905.55, abs=1)


def test_events_of_a_stream(output, ask):
    result = parse(output("iperf3-3.18-tcp-stream.jsonl"), ask())
    assert replace(result, intervals=()) == TransferResult(
        rate_bps=nearly(36152794716.31837),
        elapsed_s=1.005511,
        sent_bps=nearly(36176036877.65964),
        local_retransmits=270,
        local_congestion_control="cubic",
        remote_congestion_control="cubic",
        mss_bytes=1448,
        client_ports=(15025,),
    )


def test_events_carry_the_receivers_intervals(output, ask):
    intervals = parse(output("iperf3-3.18-tcp-stream.jsonl"), ask()).intervals
    assert intervals[0] == GoodputInterval(
        1795183369.0, nearly(1795183369.2, abs=1e-3), nearly(31973954924, abs=1)
    )


def test_events_of_a_reverse_stream(output, ask):
    result = parse(output("iperf3-3.18-tcp-maerts.jsonl"), ask(test="TCP_MAERTS"))
    assert (result.rate_bps, result.remote_retransmits) == (nearly(17630719795.24914), 68)


def test_events_of_datagrams(output, ask):
    result = parse(output("iperf3-3.18-udp-stream.jsonl"), ask(test="UDP_STREAM"))
    assert result.rate_bps == nearly(49_973_077.36, abs=1)


def test_one_document_of_a_new_version(output, ask):
    result = parse(output("iperf3-3.18-tcp-stream.json"), ask())
    assert result.rate_bps == nearly(27787102568.57386)


FAILURES = [
    ("iperf3-3.12-connection-refused.json", "unable to connect to server: Connection refused"),
    (
        "iperf3-3.12-unknown-congestion-control.json",
        (
            "unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported"
            " on this host"
        ),
    ),
    ("iperf3-3.12-interrupted.json", "interrupt - the client has terminated"),
    (
        "iperf3-3.18-connection-refused.jsonl",
        (
            "unable to connect to server - server may have stopped running or use a different"
            " port, firewall issue, etc.: Connection refused"
        ),
    ),
    ("iperf3-3.18-interrupted.jsonl", "interrupt - the client has terminated"),
]


@pytest.mark.parametrize(("name", "reason"), FAILURES)
def test_a_failure_says_why(name, reason, output):
    assert IPERF3.failure(output(name)) == reason


@pytest.mark.parametrize(("name", "reason"), FAILURES)
def test_a_failure_is_no_result_whatever_the_exit_status(name, reason, output, ask):
    with pytest.raises(OutputError) as caught:
        parse(output(name), ask())
    assert str(caught.value) == f"iperf3: {reason}"


def test_a_success_tells_no_failure(output):
    assert IPERF3.failure(output("iperf3-3.12-tcp-stream.json")) == ""


def test_a_refused_option_says_why():
    text = "Usage: iperf3 [-s|-c host] [options]\niperf3: parameter error - invalid report interval"
    assert IPERF3.failure(text) == "iperf3: parameter error - invalid report interval"


@pytest.mark.parametrize("text", ["", "what", "[]", "{", "{}", '{"event":', '{"event":"end"}'])
def test_nothing_and_garbage_are_no_result(text, ask):
    with pytest.raises(OutputError):
        parse(text, ask())


def test_output_cut_off_is_no_result(output, ask):
    text = output("iperf3-3.12-tcp-stream.json")
    with pytest.raises(OutputError, match=r"no complete JSON, but: \{"):
        parse(text[: len(text) // 2], ask())


def test_events_cut_off_name_what_is_missing(output, ask):
    lines = output("iperf3-3.18-tcp-stream.jsonl").splitlines()
    with pytest.raises(OutputError, match=r"^iperf3 printed no end\.sum_received$"):
        parse("\n".join(lines[:-1]), ask())


def test_a_missing_number_is_named(output, ask):
    text = output("iperf3-3.12-tcp-stream.json").replace('"seconds"', '"other"')
    with pytest.raises(OutputError, match=r"end\.sum_received\.seconds$"):
        parse(text, ask())


def test_what_standard_error_adds_after_the_json_is_passed_over(output, ask):
    text = output("iperf3-3.12-tcp-stream.json")
    assert parse(f"warning: x\n{text}iperf3: y\n", ask()) == parse(text, ask())


def test_an_event_tells_progress(output, ask):
    line = output("iperf3-3.18-tcp-stream.jsonl").splitlines()[1]
    assert IPERF3.progress(line, ask()) == nearly(36e9, rel=0.2)


def test_datagrams_sent_are_no_progress(output, ask):
    line = output("iperf3-3.18-udp-stream.jsonl").splitlines()[1]
    assert IPERF3.progress(line, ask(test="UDP_STREAM")) is None


@pytest.mark.parametrize("line", ["", "{", '{"event":"interval","data":', '{"event":"interval"}'])
def test_other_lines_are_no_progress(line, ask):
    assert IPERF3.progress(line, ask()) is None
