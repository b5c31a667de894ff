"""Sources that disagree cause a warning; a correct run, however short, does not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from netesto.measured import Datagrams, GoodputInterval, PingSample, TransferResult
from netesto.packets.found import Capture
from netesto.results import crosscheck
from netesto.results.evidence import CaptureEvidence
from netesto.results.queues import Queue
from results import samples
from results.samples import (
    BEGIN_S,
    LEAD_S,
    captured,
    experiment,
    failed,
    group,
    instance,
    request,
    sample,
)

START_S = BEGIN_S + LEAD_S
RATE_BPS = 80e6
SIZE = 10_000_000  # bytes in a second


def outcome(**values) -> TransferResult:
    return TransferResult(
        **({"rate_bps": RATE_BPS, "elapsed_s": 4.0, "local_retransmits": 100} | values)
    )


def ticks(*, until_s: float = 4.0, again_each_s: float = 25.0, closed: bool = True, **ports):
    """Samples of a flow at an even 80 Mbit/s, each 0.2 s, and what it had at its end."""
    times = [0.2 * step for step in range(1, round(until_s / 0.2))] + [until_s]
    return tuple(
        sample(
            START_S + time_s,
            state="CLOSE" if closed and time_s == until_s else "ESTAB",
            bytes_received=int(SIZE * time_s),
            bytes_acked=int(SIZE * time_s),
            bytes_sent=int(SIZE * time_s),
            segments_out=int(SIZE * time_s / 1448),
            total_retransmits=int(again_each_s * time_s),
            **ports,
        )
        for time_s in times
    )


def flow(result: TransferResult | None = None, *, client=None, server=None, **values):
    return instance(
        result=result or outcome(),
        client_samples=ticks() if client is None else client,
        server_samples=ticks() if server is None else server,
        started_s=START_S,
        **({"ended_s": START_S + 4.1} | values),
    )


def doubts(*flows, counters=None, **options):
    asked = request(instances=len(flows), duration_s=4.0, **options)
    return list(crosscheck.warnings(experiment(group(*flows, asked=asked, counters=counters))))


def test_sources_that_agree_give_no_warning():
    assert doubts(flow()) == []


def test_buffers_that_the_kernel_limited_are_named_with_their_size_and_the_sysctls():
    limited = ticks(send_buffer_bytes=8_388_608, receive_buffer_bytes=16_000_000)
    asked = {"local_buffer_bytes": 8_000_000, "remote_buffer_bytes": 4_000_000}
    assert doubts(flow(client=limited, server=limited), **asked) == [
        (
            "group 1: localBuffer: a socket buffer at client1 had 4.19 MB, requested: 8 MB; "
            "net.core.wmem_max limited it"
        )
    ]


def test_buffers_without_samples_are_not_doubted():
    assert doubts(flow(), local_buffer_bytes=8_000_000, remote_buffer_bytes=8_000_000) == []


@pytest.mark.parametrize(
    ("busy_us", "window_us", "buffer_us", "told_of"),
    [
        (9_900_000, 99_000, 5_247_000, ["its send buffer for 53 %", "tcp_wmem of client1"]),
        (9_900_000, 9_000_000, 0, ["the receive window for 91 %", "tcp_rmem of server1"]),
        (9_900_000, 2_000_000, 2_000_000, []),
        (0, 0, 0, []),
        (None, None, None, []),
    ],
)
def test_flows_that_waited_for_a_buffer_are_reported(busy_us, window_us, buffer_us, told_of):
    waited = ticks(busy_us=busy_us, window_limited_us=window_us, buffer_limited_us=buffer_us)
    found = doubts(flow(client=waited))
    assert [text.partition(" script")[0] for text in found if "held back" in text] == (
        [f"group 1: held back by {' of its time: net.ipv4.'.join(told_of)}, or the buffer that the"]
        if told_of
        else []
    )


def test_flows_from_a_host_to_itself_used_no_link():
    assert doubts(flow(), client="a", server="a") == [
        "group 1: both ends are a: the flows passed its loopback interface, and no link"
    ]


def test_the_rate_of_an_experiment_includes_that_of_a_loopback_interface():
    groups = [
        group(flow(), asked=request(group=number, client="a", server=server, duration_s=4.0))
        for number, server in ((1, "a"), (2, "b"))
    ]
    assert list(crosscheck.warnings(experiment(*groups))) == [
        (
            "group 1: both ends are a: the flows passed its loopback interface, and no link; rate "
            "of the whole experiment includes theirs"
        )
    ]


def drained(elapsed_s: float) -> list[str]:
    queue = Queue(
        place="links/a-b", kind="tbf", rate_bps=20e6, time_s=(START_S, START_S + 1),
        backlog_bytes=(0, 123_670), backlog_packets=(0, 83), drops=(0, 9), marks=(None, None),
    )  # fmt: skip
    asked = request(instances=1, duration_s=elapsed_s, test="UDP_STREAM", tool="netperf")
    arrived = Datagrams(sent=4000, lost=0, sent_bps=20e6, counts_late=True)
    result = outcome(rate_bps=19.885e6, elapsed_s=elapsed_s, datagrams=arrived)
    found = flow(result, client=(), server=())
    evidence = replace(group(found, asked=asked), queues=(queue,))
    return list(crosscheck.warnings(experiment(evidence)))


def test_datagrams_that_queues_hold_at_the_end_of_netperf_are_a_warning():
    [found] = [text for text in drained(2.0) if "netperf divides" in text]
    assert found.partition(": netperf")[0] == (
        "group 1: rate 19.89 Mbit/s may include 0.4947 Mbit/s too much"
    )


def test_few_datagrams_that_queues_hold_at_the_end_are_no_reason_for_doubt():
    assert [text for text in drained(20.0) if "netperf divides" in text] == []


def test_a_rate_of_the_tool_that_the_receiver_did_not_get_is_reported_with_both():
    assert doubts(flow(outcome(rate_bps=36_543e6))) == [
        (
            "group 1, flow 1: rate 36543 Mbit/s as netperf reports, 80 Mbit/s by bytes_received "
            "of the receiver's socket"
        )
    ]


def test_a_rate_too_low_is_reported_as_well():
    assert doubts(flow(outcome(rate_bps=60e6))) == [
        (
            "group 1, flow 1: rate 60 Mbit/s as netperf reports, 80 Mbit/s by bytes_received of "
            "the receiver's socket"
        )
    ]


def test_what_the_receiver_does_not_know_is_asked_of_the_sender():
    assert doubts(flow(outcome(rate_bps=200e6), server=())) == [
        (
            "group 1, flow 1: rate 200 Mbit/s as netperf reports, 80 Mbit/s by bytes_acked of the "
            "sender's socket"
        )
    ]


def test_a_tool_that_stops_counting_before_all_has_arrived_agrees():
    # The data of one more second were on their way when the tool stopped.
    assert doubts(flow(server=ticks(until_s=5.0), ended_s=START_S + 5.1)) == []


def test_a_flow_of_one_second_agrees():
    short = outcome(elapsed_s=1.0, local_retransmits=25)
    server = ticks(until_s=1.0)
    only = flow(short, client=server, server=server, ended_s=START_S + 1.1)
    asked = request(duration_s=1.0)
    assert list(crosscheck.warnings(experiment(group(only, asked=asked)))) == []


def test_what_is_omitted_is_not_counted():
    omitted = flow(client=ticks(until_s=6.0), server=ticks(until_s=6.0), ended_s=START_S + 6.1)
    assert doubts(omitted, omit_s=2.0) == []


def test_retransmissions_in_the_omitted_time_count_with_a_tool_that_counts_them():
    early = ticks(until_s=6.0, again_each_s=50.0)
    found = flow(
        outcome(local_retransmits=300, counts_omitted=True),
        client=early,
        server=ticks(until_s=6.0),
        ended_s=START_S + 6.1,
    )
    assert doubts(found, omit_s=2.0) == []


def test_sockets_of_which_the_end_is_not_known_may_have_got_more():
    assert doubts(flow(client=ticks(closed=False)[:-1], server=ticks(closed=False)[:-1])) == []


def test_a_flow_that_became_faster_after_its_last_sample_agrees():
    # 20 Mbyte in 3.8 s as its samples say, and 10 more in the last 0.2 s.
    slow = tuple(replace(each, bytes_received=each.bytes_received // 2) for each in ticks()[:-1])
    last = (GoodputInterval(START_S + 3.8, START_S + 4.0, 400e6),)
    assert doubts(flow(outcome(rate_bps=58e6, intervals=last), client=ticks(), server=slow)) == []


def test_data_that_the_application_has_not_read_do_not_count_for_the_tool():
    # Half of what arrived in 4 s was read then.
    waiting = tuple(replace(each, unread_bytes=each.bytes_received // 2) for each in ticks())
    assert doubts(flow(outcome(rate_bps=RATE_BPS / 2), client=ticks(), server=waiting)) == []


def test_a_request_on_its_way_is_no_disagreement():
    half = flow(outcome(rate_bps=RATE_BPS / 2))
    assert doubts(half, test="TCP_RR", request_bytes=20_000_000) == []


def test_requests_that_never_arrived_are_reported():
    half = flow(outcome(rate_bps=RATE_BPS / 2))
    assert doubts(half, test="TCP_RR", request_bytes=10_000) == [
        (
            "group 1, flow 1: rate 40 Mbit/s as netperf reports, 80 Mbit/s by bytes_received of "
            "the receiver's socket"
        )
    ]


def test_retransmissions_that_the_kernel_did_not_make_are_reported():
    assert doubts(flow(outcome(local_retransmits=500))) == [
        "group 1, flow 1: 500 segments retransmitted as netperf reports, 100 by the sender's socket"
    ]


def test_retransmissions_after_the_tool_looked_are_no_disagreement():
    late = ticks(until_s=6.0, again_each_s=50.0)
    found = flow(
        outcome(elapsed_s=6.0, local_retransmits=200),
        client=late,
        server=ticks(until_s=6.0),
        ended_s=START_S + 6.1,
    )
    assert doubts(found) == ["group 1: its flow took 6 s as netperf reports; requested: 4 s"]


def test_a_handful_of_segments_is_no_disagreement():
    assert doubts(flow(outcome(local_retransmits=9), client=ticks(again_each_s=0.0))) == []


def test_retransmissions_of_a_reverse_test_are_the_servers():
    reverse = outcome(local_retransmits=0, remote_retransmits=500)
    assert doubts(flow(reverse), test="TCP_MAERTS") == [
        "group 1, flow 1: 500 segments retransmitted as netperf reports, 100 by the sender's socket"
    ]


def test_captured_retransmissions_that_the_kernel_did_not_make_are_reported():
    (told_of,) = doubts(flow(captured=(captured(150),)))
    assert told_of == (
        "group 1, flow 1: 150 segments retransmitted by the captured packets, 100 by the sender's"
        " socket"
    )


def test_a_single_sample_before_the_end_of_a_flow_contradicts_nothing():
    idle = (sample(START_S - 0.1, total_retransmits=0, bytes_acked=1, bytes_received=0),)
    found = flow(outcome(local_retransmits=30), client=idle, server=idle, captured=(captured(30),))
    assert doubts(found) == []


def test_captured_retransmissions_that_agree_give_no_warning():
    assert doubts(flow(captured=(captured(110),))) == []


def test_what_is_wrong_with_a_capture_is_reported():
    bad = Capture(
        form="pcap", packets=1, other_packets=0, start_s=0.0, lasted_s=0.0, flows=(),
        damage=("byte 7: bad",), remarks=("lost",),
    )  # fmt: skip
    found = CaptureEvidence(host="a", file="raw/a/capture.1.pcap", ahead_s=0.0, capture=bad)
    assert list(crosscheck.warnings(replace(experiment(), captures=(found,)))) == [
        "raw/a/capture.1.pcap: byte 7: bad", "raw/a/capture.1.pcap: lost",
    ]  # fmt: skip


def test_a_flow_that_ended_early_is_reported():
    early = flow(
        outcome(elapsed_s=2.0, local_retransmits=50),
        client=ticks(until_s=2.0),
        server=ticks(until_s=2.0),
        ended_s=START_S + 2.1,
    )
    assert doubts(early) == ["group 1: its flow took 2 s as netperf reports; requested: 4 s"]


def test_the_last_of_transfers_with_gaps_may_end_early():
    spaced = flow(outcome(elapsed_s=2.0, latencies=2), client=(), server=(), ended_s=START_S + 4.1)
    asked = {"test": "TCP_FLOWS", "tool": "native", "size_bytes": 1000, "gap_s": 2.0}
    assert doubts(spaced, **asked) == []


def groups_begun(*starts_s: float, delays_s: tuple[float, ...]) -> list[str]:
    found = experiment(
        *(
            group(
                replace(
                    flow(client=(), server=(), ended_s=START_S + start_s + 4.1),
                    started_s=START_S + start_s,
                ),
                asked=request(group=number, duration_s=4.0, delay_s=delay_s),
            )
            for number, (start_s, delay_s) in enumerate(
                zip(starts_s, delays_s, strict=True), start=1
            )
        )
    )
    return list(crosscheck.warnings(found))


def test_groups_that_the_script_started_one_after_the_other_are_reported():
    assert groups_begun(0.0, 0.3, 2.5, delays_s=(0.0, 0.0, 0.0)) == [
        (
            "group 3 began 2.5 s after group 1, beside delays: rate is what all of them "
            "transferred, from the first begin to the last end"
        )
    ]


def test_groups_that_began_when_their_delays_say_are_not_reported():
    assert groups_begun(0.0, 0.3, 2.5, delays_s=(0.0, 0.0, 2.0)) == []


def later(by_s: float):
    return tuple(replace(each, time_s=each.time_s + by_s) for each in ticks())


@pytest.mark.parametrize(
    ("late", "flows"),
    [((1.2,), "its flow"), ((0.0, 1.2, 1.0), "2 of 3 flows")],
)
def test_flows_whose_data_came_late_are_reported_in_one_line(late, flows):
    found = [flow(client=later(by_s), server=later(by_s), ended_s=START_S + 5.3) for by_s in late]
    assert doubts(*found, interval_s=0.2) == [
        (
            f"group 1: the first data of {flows} arrived late, the last more than 1.2 s after "
            "the start: rate is what all of them transferred, from the first begin to the last end"
        )
    ]


def test_data_that_came_after_a_long_round_trip_are_not_late():
    far = flow(client=later(0.7), server=later(0.7), ended_s=START_S + 4.8)
    assert doubts(far, interval_s=0.2) == []


def test_waiting_for_what_a_buffer_holds_is_no_late_end():
    late = flow(
        outcome(elapsed_s=4.8, local_retransmits=120),
        client=ticks(until_s=4.8),
        server=ticks(until_s=4.8),
        ended_s=START_S + 4.9,
    )
    assert doubts(late) == []


@pytest.mark.parametrize("elapsed_s", [4.0, 4.3])
def test_a_tool_cannot_have_measured_longer_than_its_process_lived(elapsed_s):
    short_lived = flow(outcome(elapsed_s=elapsed_s), ended_s=START_S + 3.0)
    assert doubts(short_lived)[0] == (
        f"group 1, flow 1: it took {elapsed_s:.3g} s as netperf reports, but its process lived 3 s"
    )


def pinged(*sent_s: float, numbers: Sequence[int] | None = None):
    """The doubts about echo requests of these times after the start of a flow."""
    counted = numbers or range(1, len(sent_s) + 1)
    pings = tuple(
        PingSample(START_S + time_s + 0.01, 10.0, number)
        for number, time_s in zip(counted, sent_s, strict=True)
    )
    found = group(flow(), asked=request(duration_s=4.0), pings=pings)
    return list(crosscheck.warnings(experiment(found)))


def test_a_time_without_echo_requests_is_reported():
    assert pinged(0.2, 0.4, 0.6, 0.8, 2.4, 2.6, 2.8) == [
        "group 1: ping sent no request for 1.6 s; otherwise every 0.2 s"
    ]


def test_lost_echo_requests_are_no_time_without_any():
    assert pinged(0.2, 0.4, 0.6, 2.4, 2.6, numbers=(1, 2, 3, 12, 13)) == []


def test_echo_requests_of_another_ping_after_the_flows_are_no_doubt():
    assert pinged(0.2, 0.4, 0.6, 0.8, 9.0, 9.2) == []


def at_different_times(
    tool: str,
    *,
    interval: bool = False,
    exact: bool = False,
    longer_s: float = 0.05,
    sampled_s: float | None = None,
) -> list[str]:
    """The doubts about two flows of 1 s that began 0.36 s apart in processes that lived `longer_s`
    longer, and had data `sampled_s` after their begin."""
    groups = []
    for number, begin_s in ((1, START_S), (2, START_S + 0.36)):
        intervals = (GoodputInterval(begin_s + 0.02, begin_s + 0.22, 50e6),) if interval else ()
        result = TransferResult(
            rate_bps=50e6, elapsed_s=1.0, intervals=intervals, has_exact_begin=exact
        )
        asked = request(group=number, tool=tool, duration_s=1.0, delay_s=begin_s - START_S)
        seen = () if sampled_s is None else (sample(begin_s + sampled_s, bytes_acked=9000),)
        found = instance(
            started_s=begin_s, ended_s=begin_s + 1 + longer_s, result=result, client_samples=seen
        )
        groups.append(group(found, asked=asked))
    return list(crosscheck.warnings(experiment(*groups)))


def test_a_total_of_flows_that_ran_at_unknown_times_is_reported():
    assert at_different_times("iperf3") == [
        (
            "rate of all flows may be up to 3.5 % too high: iperf3 does not report when it began "
            "to measure, and the flows ran at different times; tool=native does"
        )
    ]


def test_data_in_a_sample_bounds_the_begin_of_a_flow_whose_process_lives_longer():
    assert (
        at_different_times("iperf3", longer_s=0.2)[-1].partition(" too")[0],
        at_different_times("iperf3", longer_s=0.2, sampled_s=0.05)[-1].partition(" too")[0],
    ) == ("rate of all flows may be up to 13 %", "rate of all flows may be up to 3.5 %")


def test_a_total_of_flows_that_ran_at_known_times_is_no_doubt():
    assert at_different_times("native", exact=True) == []
    assert at_different_times("netperf", interval=True, exact=True) == []


# ---- the interface ---------------------------------------------------------------------------

CARRIED = {"tx_bytes": 42_000_000, "tx_packets": 28_000, "rx_bytes": 1, "rx_packets": 1}


def test_an_interface_that_carried_the_flow_agrees():
    assert doubts(flow(), counters=CARRIED) == []


def test_more_than_the_interface_carried_is_reported():
    assert doubts(flow(), counters=CARRIED | {"tx_bytes": 20_000_000}) == [
        "group 1: 40 MB as netperf reports, but the client's interface carried 20 MB (tx_bytes)"
    ]


def test_counters_that_a_card_tells_a_second_late_agree():
    assert doubts(flow(), counters=CARRIED | {"tx_bytes": 30_000_000}) == []


def test_what_agent_and_controller_tell_each_other_is_no_other_use():
    slow = flow(
        outcome(rate_bps=8.0, local_retransmits=0),
        client=(sample(START_S + 4.0, state="CLOSE", bytes_sent=4, segments_out=4),),
        server=(),
    )
    assert doubts(slow, counters=CARRIED | {"tx_bytes": 50_000}, test="TCP_RR") == []


def test_datagrams_that_the_interface_never_sent_are_reported():
    datagrams = flow(client=(), server=())
    counters = CARRIED | {"tx_bytes": 20_000_000}
    assert doubts(datagrams, counters=counters, test="UDP_STREAM") == [
        "group 1: 40 MB as netperf reports, but the client's interface carried 20 MB (tx_bytes)"
    ]


def test_datagrams_lost_behind_the_interface_are_no_disagreement():
    datagrams = flow(client=(), server=())
    counters = CARRIED | {"tx_bytes": 400_000_000}
    assert doubts(datagrams, counters=counters, test="UDP_STREAM") == []


def test_what_arrives_of_a_reverse_test_is_counted():
    counters = CARRIED | {"tx_bytes": 1, "rx_bytes": 42_000_000}
    reverse = flow(outcome(local_retransmits=0, remote_retransmits=100))
    assert doubts(reverse, counters=counters, test="TCP_MAERTS") == []


def test_others_at_the_interface_are_reported():
    assert doubts(flow(), counters=CARRIED | {"tx_bytes": 90_000_000}) == [
        (
            "group 1: the client's interface carried 90 MB (tx_bytes), the flows' sockets sent "
            "40 MB: other traffic used it, too"
        )
    ]


def test_what_was_sent_after_the_last_sample_is_no_other_traffic():
    # A flow of 0.3 s with one sample.
    short = outcome(elapsed_s=0.3, local_retransmits=0)
    seen = ticks(until_s=0.2, closed=False)
    only = flow(short, client=seen, server=seen, ended_s=START_S + 0.4)
    asked, counters = request(duration_s=0.3), CARRIED | {"tx_bytes": 3_400_000}
    found = experiment(group(only, asked=asked, counters=counters))
    assert list(crosscheck.warnings(found)) == []


def test_two_groups_at_one_interface_are_no_others():
    counters = CARRIED | {"tx_bytes": 84_000_000}
    both = [
        group(flow(), asked=request(group=number, duration_s=4.0), counters=counters)
        for number in (1, 2)
    ]
    assert list(crosscheck.warnings(experiment(*both))) == []


def test_a_group_that_ended_while_the_next_was_prepared_is_no_other():
    before = failed(started_s=START_S - 4, ended_s=START_S - 0.3)
    groups = [
        group(before, asked=request(group=1, duration_s=4.0)),
        group(
            flow(),
            asked=request(group=2, duration_s=4.0),
            counters=CARRIED | {"tx_bytes": 50_000_000},
        ),
    ]
    assert list(crosscheck.warnings(experiment(*groups))) == []


@pytest.mark.parametrize(
    ("hosts", "begins_s", "lasts_s", "is_another"),
    [
        (("a", "b"), 1.0, 1.0, False),
        (("c", "a"), 1.0, 1.0, False),
        (("a", "a"), 1.0, 1.0, False),
        (("b", "c"), 1.0, 1.0, True),
        # The counters were read up to a second before the flows.
        (("a", "b"), -3.0, 2.1, False),
        (("a", "b"), -3.0, 1.9, True),
        (("a", "b"), 5.0, 1.0, True),
    ],
)
def test_only_a_flow_at_the_client_s_interface_at_the_same_time_explains_other_traffic(
    hosts, begins_s, lasts_s, is_another
):
    client, server = hosts
    began_s = START_S + begins_s
    other = failed(started_s=began_s, ended_s=began_s + lasts_s)
    groups = [
        group(
            flow(ended_s=START_S + 4.0),
            asked=request(group=1, client="a", server="b", duration_s=4.0),
            counters=CARRIED | {"tx_bytes": 90_000_000},
        ),
        group(other, asked=request(group=2, client=client, server=server, duration_s=lasts_s)),
    ]
    found = [text for text in crosscheck.warnings(experiment(*groups)) if "other traffic" in text]
    assert bool(found) == is_another


def test_a_damaged_output_is_held_against_nothing():
    assert doubts(replace(flow(), result=None), counters=CARRIED) == []


def test_flows_that_look_real_agree():
    assert list(crosscheck.warnings(samples.two_flows())) == []


def test_samples_that_break_off_say_nothing_of_the_whole_flow():
    lost = flow(client=ticks(until_s=2.0, closed=False), server=ticks(until_s=2.0, closed=False))
    assert doubts(lost, counters=CARRIED) == []


def unanswered(latencies):
    at_rate = outcome(latencies=latencies, max_latency_us=20_000.0, local_retransmits=None)
    warned = doubts(flow(at_rate), tool="native", test="UDP_RR", requests_per_s=100)
    return [text for text in warned if "requests that were due" in text]


def test_requests_that_a_stall_at_the_end_swallowed_are_warned_of():
    (warning,) = unanswered(300)
    assert warning == (
        "group 1, flow 1: 100 requests that were due had no reply when the flow ended, or were "
        "lost: no latency has them"
    )


def test_requests_in_flight_at_the_end_are_no_warning():
    assert unanswered(397) == []


def test_a_rate_of_requests_that_the_path_is_too_slow_for_is_a_warning():
    slow = outcome(latencies=200, max_latency_us=2e6, local_retransmits=None)
    assert doubts(
        flow(slow), tool="native", test="TCP_RR", requests_per_s=100, request_bytes=200_000
    ) == [
        (
            "group 1, flow 1: 50 requests a second had a reply; requested: 100: each waits for the "
            "reply before it, which its latency includes"
        )
    ]


def test_datagrams_without_a_reply_are_a_warning():
    lossy = outcome(latencies=200, unanswered=3, local_retransmits=None)
    assert doubts(flow(lossy), tool="native", test="UDP_RR") == [
        "group 1, flow 1: 3 requests had no reply within 1 s: no latency has them"
    ]
