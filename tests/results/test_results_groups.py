from dataclasses import replace

import pytest

from netesto.flowspec import UNTIL_DONE_S
from netesto.measured import CpuSample, GoodputInterval, PingSample, TransferResult
from netesto.results import aggregate, derive, fields
from netesto.results.evidence import GroupEvidence
from results import samples
from results.samples import BEGIN_S, LEAD_S, failed, group, instance, request, sample

SPEC_KEYS = (
    "exp expName test host fullHost server fullServer group kernel instances instance dur delay "
    "req reply ca localCpu remoteCpu rate rateMin rateMax localRetrans remoteRetrans minLatency "
    "maxLatency meanLatency p50Latency p90Latency p99Latency p999Latency cwnd rtt pingRtt unacked "
    "lost retrans retrans_total tcpRmem tcpWmem tso lro gso gro rx-frames tx-frames adaptive-rx "
    "client-rx-packets client-tx-packets client-rx-bytes client-tx-bytes client-tx-packet-len "
    "client-rx-packet-len tool status flowsFailed effCa effMss startSkew sampleInterval "
    "sampleIntervalP99 sampleIntervalWorst fairness "
    "p9999Latency"
)
ASKED = (
    "exp expNumber expName group test desc kernel host fullHost server fullServer instances "
    "instance ca dur delay req reply ecn tool parallel bitrate pacing zerocopy omit mtu"
)
START_S = BEGIN_S + LEAD_S


def outcome(**values) -> TransferResult:
    return TransferResult(**({"rate_bps": 1e6, "elapsed_s": 24.0} | values))


def seen(*each, **flow):
    """A flow that started at 0."""
    return instance(client_samples=tuple(each), **({"started_s": 0.0} | flow))


def pick(evidence, *keys):
    found = samples.values(evidence)
    return [found[key] for key in keys]


def test_every_key_of_the_description_is_there():
    assert set(samples.values(group(instance()))) >= set(SPEC_KEYS.split())


def test_what_was_asked_is_reported_as_text():
    asked = request(
        group=3, instances=1, duration_s=1.5, delay_s=8.0, request_bytes=10_000, reply_bytes=1
    )
    found = samples.values(group(instance(), asked=asked), desc="a test")
    assert {key: found[key] for key in ASKED.split()} == {
        "exp": "12.3", "expNumber": "12", "expName": "1s2c1fs", "group": "3",
        "test": "TCP_STREAM", "desc": "a test",
        "kernel": "6.18.44", "host": "client1", "fullHost": "client1.lab", "server": "server1",
        "fullServer": "server1.lab", "instances": "1", "instance": "1", "ca": "cubic",
        "dur": "1.5", "delay": "8", "req": "10K", "reply": "1", "ecn": "", "tool": "netperf",
        "parallel": "1", "bitrate": "", "pacing": "", "zerocopy": "0", "omit": "0", "mtu": "",
    }  # fmt: skip


def test_rate_is_the_sum_and_extremes_are_over_flows():
    evidence = group(instance(1, rate_bps=30e6), instance(2, rate_bps=10.5e6))
    assert pick(evidence, "rate", "rateMin", "rateMax") == ["40.5", "10.5", "30"]


def test_fairness_is_jains_index():
    evidence = group(instance(1, rate_bps=3e6), instance(2, rate_bps=1e6))
    assert pick(evidence, "fairness") == ["0.8"]


def test_failed_group_has_no_measurement_at_all():
    found = samples.values(samples.lively_group(request(instances=2), good=0))
    assert {key for key, text in found.items() if text} <= {*ASKED.split(), "status", "flowsFailed"}


def test_failed_group_has_its_reasons_as_status():
    evidence = group(failed(1, "timed\nout"), failed(2, "no route"), failed(3, "no route"))
    assert pick(evidence, "status", "flowsFailed") == ["timed out; no route", "3"]


def test_group_with_a_failed_flow_is_measured_over_the_others():
    evidence = group(instance(1, rate_bps=30e6), failed(2))
    assert pick(evidence, "status", "flowsFailed", "rate", "rateMin") == [
        "partial",
        "1",
        "30",
        "30",
    ]


def test_latencies_are_extremes_and_means_over_flows():
    evidence = group(
        instance(1, result=outcome(min_latency_us=5.0, mean_latency_us=10.0, max_latency_us=50.0)),
        instance(2, result=outcome(min_latency_us=4.0, mean_latency_us=30.0, max_latency_us=40.0)),
    )
    assert pick(evidence, "minLatency", "meanLatency", "maxLatency") == ["4", "20", "50"]


@pytest.mark.parametrize(
    ("counts", "tail"),
    [
        ([19], "0"),
        ([20], "50"),
        ([9_000], "99"),
        ([10_000], "99.9"),
        ([1_000_000], "99.999"),
        # The value of a group is the mean of its flows' values.
        ([1_000_000, 1_000], "99"),
        ([None], ""),
    ],
)
def test_percentiles_beyond_the_tail_rest_on_few_latencies(counts, tail):
    flows = [
        instance(i, result=outcome(latencies=count)) for i, count in enumerate(counts, start=1)
    ]
    assert pick(group(*flows), "latencyTail") == [tail]


def test_an_experiment_has_the_shortest_tail_of_its_groups():
    tails = [
        group(instance(result=outcome(latencies=count)), asked=request(group=number))
        for number, count in enumerate((1_000_000, None, 9_000), start=1)
    ]
    fields_ = fields.parse("exp:one\nlatencyTail:min\n", source="f")
    assert samples.row(fields_, *tails)["latencyTail"] == "99"


def test_rtt_is_the_mean_in_microseconds():
    evidence = group(
        seen(sample(1.0, rtt_ms=40.0), sample(2.0, rtt_ms=None), sample(3.0, rtt_ms=41.0))
    )
    assert pick(evidence, "rtt") == ["40500"]


def test_every_flow_counts_alike_in_the_mean_cwnd():
    evidence = group(
        seen(sample(1.0, cwnd=10), sample(2.0, cwnd=20), sample(3.0, cwnd=30)),
        seen(sample(1.0, cwnd=40)),
    )
    assert pick(evidence, "cwnd") == ["30"]


def test_samples_of_the_omitted_time_are_left_out():
    asked = request(omit_s=2.0)
    flow = seen(sample(1.0, cwnd=10), sample(3.0, cwnd=50))
    assert pick(group(flow, asked=asked), "cwnd") == ["50"]


def test_samples_of_a_connection_that_waits_for_the_start_are_in_no_mean():
    flow = seen(sample(-0.4, cwnd=10, rtt_ms=0.1), sample(0.2, cwnd=50, rtt_ms=40.0))
    assert pick(group(flow), "cwnd", "rtt") == ["50", "40000"]


def test_momentary_counts_are_reported_at_their_worst():
    flow = seen(
        sample(1.0, lost=0, retransmits=0, total_retransmits=0),
        sample(2.0, lost=7, retransmits=3, total_retransmits=5),
        sample(3.0, lost=0, retransmits=0, total_retransmits=9),
    )
    assert pick(group(flow), "lost", "retrans", "retrans_total") == ["7", "3", "9"]


def test_retransmissions_are_summed_over_connections_and_flows():
    first = seen(
        sample(1.0, total_retransmits=4), sample(1.0, local_port=40002, total_retransmits=2)
    )
    second = instance(2, client_samples=(sample(1.0, total_retransmits=1),))
    assert pick(group(first, second), "retrans_total") == ["7"]


def test_sum_with_an_unknown_part_is_unknown():
    first = instance(1, result=outcome(local_retransmits=3))
    second = instance(2, result=outcome(local_retransmits=None))
    assert pick(group(first, second), "localRetrans") == [""]


def test_reverse_test_is_seen_at_the_server():
    flow = replace(seen(sample(1.0, cwnd=10)), server_samples=(sample(1.0, cwnd=99),))
    assert pick(group(flow, asked=request(test="TCP_MAERTS")), "cwnd") == ["99"]


def test_a_congestion_control_that_controlled_no_data_is_not_effective():
    flow = seen(
        sample(1.0, congestion_control="bbr", bytes_acked=1),
        sample(2.0, congestion_control="reno", bytes_acked=1449),
    )
    assert pick(group(flow), "effCa") == ["reno"]


def test_effective_values_come_from_the_kernel():
    flow = seen(
        sample(1.0, congestion_control="reno", mss_bytes=536),
        sample(2.0, congestion_control="bbr", mss_bytes=1448),
    )
    assert pick(group(flow), "ca", "effCa", "effMss") == ["cubic", "reno/bbr", "1448"]


def test_cpu_is_what_the_tool_measured():
    flow = instance(result=outcome(local_cpu_percent=2.5, remote_cpu_percent=4.0))
    evidence = group(flow, client_cpu=(CpuSample(1.0, (90.0,)),))
    assert pick(evidence, "localCpu", "remoteCpu") == ["2.5", "4"]


def test_cpu_is_sampled_where_the_tool_does_not_measure_it():
    evidence = group(
        instance(), client_cpu=(CpuSample(1.0, (10.0, 30.0)), CpuSample(2.0, (40.0, 40.0)))
    )
    assert pick(evidence, "localCpu", "remoteCpu") == ["30", ""]


def test_ping_is_the_mean_in_microseconds():
    pings = (PingSample(START_S + 1.0, 40.0), PingSample(START_S + 2.0, 41.0))
    assert pick(group(instance(), pings=pings), "pingRtt") == ["40500"]


def test_pings_sent_before_the_flows_or_after_their_time_are_not_in_the_mean():
    waited = instance(started_s=START_S, ended_s=START_S + 6.0)
    pings = tuple(
        PingSample(START_S + at_s, rtt_ms)
        for at_s, rtt_ms in ((-0.1, 1.0), (0.01, 20.0), (1.0, 40.0), (2.03, 50.0), (4.0, 1.0))
    )
    evidence = group(waited, asked=request(test="TCP_CRR", duration_s=2.0), pings=pings)
    assert pick(evidence, "pingRtt") == ["45000"]


def test_pings_of_transfers_are_in_the_mean_until_the_last_has_ended():
    found = TransferResult(rate_bps=1e6, elapsed_s=5.0)
    late = instance(started_s=START_S, ended_s=START_S + 35.0, result=found)
    pings = tuple(
        PingSample(START_S + at_s, rtt_ms) for at_s, rtt_ms in ((1.0, 40.0), (4.9, 60.0), (9, 1.0))
    )
    evidence = group(late, asked=request(test="TCP_FLOWS", duration_s=2.0), pings=pings)
    assert pick(evidence, "pingRtt") == ["50000"]


def test_packet_length_is_bytes_over_packets():
    counters = {"tx_packets": 3, "tx_bytes": 4543, "rx_packets": 0, "rx_bytes": 0}
    found = pick(
        group(instance(), counters=counters), "client-tx-packet-len", "client-rx-packet-len"
    )
    assert found == ["1514.3", ""]


def test_start_skew_is_of_the_flow_furthest_off():
    evidence = group(
        instance(1, asked_start_s=10.0, started_s=10.002),
        instance(2, asked_start_s=10.0, started_s=9.99),
    )
    assert pick(evidence, "startSkew") == ["-10"]


def test_sampling_interval_is_the_mean_distance_of_samples_and_the_worst_one():
    evidence = group(seen(*(sample(time_s) for time_s in (1.0, 1.2, 1.4, 2.0))))
    names = ("sampleInterval", "sampleIntervalP99", "sampleIntervalWorst")
    assert pick(evidence, *names) == ["333.333", "600", "600"]


WIRE = {"tx_packets": 1000, "tx_bytes": 1, "rx_packets": 1, "rx_bytes": 1}


def resent(again: int, *, segments: int, data: int = 0):
    """A flow with so many segments sent and retransmitted."""
    return seen(
        sample(
            1.0, total_retransmits=again, segments_out=segments, data_segments_out=data or segments
        )
    )


def test_retransmitted_percent_of_a_group():
    evidence = group(resent(25, segments=1000), counters=WIRE)
    assert pick(evidence, "retransPkts%", "retransPktsReason") == ["2.50", ""]


COUNTED = "the client's interface counted 1000 packets, where the flows' sockets sent"


def test_packets_counted_before_segmentation_give_no_percent_but_the_reason():
    evidence = group(resent(25, segments=5000), counters=WIRE)
    assert pick(evidence, "retransPkts%", "retransPktsReason") == [
        "",
        f"{COUNTED} 5000 segments (segmentation offload works below the counters)",
    ]


def test_packets_of_others_give_no_percent_but_the_reason():
    evidence = group(resent(25, segments=500), counters=WIRE)
    assert pick(evidence, "retransPkts%", "retransPktsReason") == [
        "",
        f"{COUNTED} 500 segments (others used it, too)",
    ]


def test_a_few_packets_of_pings_and_of_the_control_connection_are_no_others():
    evidence = group(
        resent(1, segments=20),
        counters=WIRE | {"tx_packets": 75},
        pings=tuple(PingSample(1.0, 1.0) for _ in range(10)),
    )
    assert pick(evidence, "retransPkts%") == ["1.33"]


def test_retransmitted_segments_are_of_the_data_segments_that_the_senders_sent():
    evidence = group(resent(30, segments=999, data=900), resent(6, segments=999, data=100))
    assert pick(evidence, "data_segs_out", "retransSegs%") == ["1000", "3.600"]


def test_retransmitted_segments_of_a_reverse_test_are_the_servers():
    flow = replace(
        resent(0, segments=10),
        server_samples=(sample(1.0, total_retransmits=5, data_segments_out=50),),
    )
    evidence = group(flow, asked=request(test="TCP_MAERTS"))
    assert pick(evidence, "retransSegs%") == ["10.000"]


def test_what_a_socket_had_counted_at_its_end_counts():
    flow = seen(
        sample(1.0, total_retransmits=1, data_segments_out=50),
        sample(1.1, total_retransmits=5, data_segments_out=100, state="CLOSE"),
    )
    assert pick(group(flow), "retrans_total", "retransSegs%") == ["5", "5.000"]


def test_what_a_flow_waited_for_is_the_mean_of_connections_and_flows():
    def waited(busy_us: int, window_us: int, buffer_us: int, **other):
        return sample(
            1.0,
            busy_us=busy_us,
            window_limited_us=window_us,
            buffer_limited_us=buffer_us,
            **other,
        )

    two = seen(waited(6, 5, 0), waited(8, 5, 1), waited(4, 1, 3, local_port=7))
    one = seen(waited(10, 3, 4))
    names = ("tcpi_busy_time", "rwnd_limited", "sndbuf_limited")
    assert pick(group(two, one), *names) == ["8", "3", "3"]
    assert pick(group(two, asked=request(test="TCP_CRR")), *names) == [""] * 3
    assert pick(group(seen(sample(1.0))), *names) == [""] * 3


def test_what_a_tool_read_last_counts_where_the_kernel_did_not_report_the_end_of_a_socket():
    reset = seen(
        sample(1.0, total_retransmits=52, data_segments_out=400),
        result=outcome(local_retransmits=53, local_data_segments=500),
    )
    closed = seen(
        sample(1.0, total_retransmits=2, data_segments_out=50, state="CLOSE"),
        result=outcome(local_retransmits=99, local_data_segments=999),
    )
    found = pick(group(reset, closed), "retrans_total", "data_segs_out", "retransSegs%")
    assert found == ["55", "550", "10.000"]


def test_connections_of_single_transactions_have_no_counts():
    evidence = group(resent(1, segments=10), asked=request(test="TCP_CRR"))
    assert pick(evidence, "retrans_total", "retransSegs%", "lost", "retrans") == [""] * 4


def apart(*starts_s: float, lasted_s=24.0, rate_bps=50e6):
    """Flows that had their data one after the other."""
    found = TransferResult(rate_bps=rate_bps, elapsed_s=lasted_s, transactions_per_s=100.0)
    begin_s = samples.BEGIN_S
    return [
        instance(
            number, result=found, started_s=begin_s + start_s, ended_s=begin_s + start_s + lasted_s
        )
        for number, start_s in enumerate(starts_s, 1)
    ]


def test_a_rate_is_over_the_time_of_all_flows_however_little_they_began_apart():
    # Twice 24 s of 50 Mbit/s in 24.25 s.
    found = pick(group(*apart(0.0, 0.25)), "rate", "transactionRate", "rateMin", "rateMax")
    assert found == ["98.969072", "197.938", "50", "50"]


def test_rates_of_flows_of_a_full_link_never_exceed_it_by_more_than_two_percent():
    # 20 Mbit/s have a goodput of 19.13. Three flows of netperf were to last 2 s.
    flows_ = [
        apart(0.0, lasted_s=lasted_s, rate_bps=size * 8 / lasted_s)[0]
        for lasted_s, size in ((2.09, 1.62e6), (2.45, 2.2e6), (2.2, 1.938e6))
    ]
    found = group(*flows_)
    assert pick(found, "rate", "rateMean") == ["18.801632", "6.810634"]
    assert whole(found, columns=("rate",)) == ["18.802"]


def test_a_rate_of_flows_that_ran_one_after_the_other_is_over_the_time_of_all():
    found = pick(group(*apart(0.0, 12.0)), "rate", "transactionRate", "rateMin", "rateMax")
    assert found == ["66.666667", "133.333", "50", "50"]


def test_a_flow_of_which_data_came_late_has_its_rate_later():
    late = replace(
        instance(2, ended_s=samples.BEGIN_S + 36.25),
        client_samples=(sample(samples.BEGIN_S + 12.45, bytes_acked=1000),),
    )
    assert pick(group(instance(1), late), "rate") == ["66.668518"]


def test_a_transfer_that_took_longer_than_others_does_not_add_up_with_them():
    long, short = apart(0.0)[0], apart(0.0, lasted_s=6.0)[0]
    assert pick(group(long, short, asked=request(test="TCP_FLOWS", instances=2)), "rate") == [
        "62.5"
    ]


def whole(*each, columns=("rate", "fairness")):
    evidence = samples.experiment(*each)
    fields_ = fields.parse("exp:one\nrate:sumRateDur\nfairness:avg\ndur:one\n", source="f")
    row = derive.aggregate_row(evidence, samples.manifest(evidence), fields_)
    return [row[name] for name in columns]


def test_a_rate_of_groups_that_began_one_after_the_other_is_over_the_time_of_all():
    one, other = (
        group(flow, asked=request(group=number)) for number, flow in enumerate(apart(0.0, 12.0), 1)
    )
    assert whole(one, other) == ["66.667", ""]


def test_flows_that_began_a_little_apart_are_fair_though_their_rates_do_not_add_up():
    one, other = (
        group(flow, asked=request(group=number)) for number, flow in enumerate(apart(0.0, 2.0), 1)
    )
    assert whole(one, other) == ["92.308", "1.000"]


def test_flows_of_netperf_ran_when_their_first_interim_results_say():
    # 1 s each, the second 0.36 s later, within processes that lived for 1.05 and 1.2 s.
    def ran(begin_s: float, *, before_s: float, after_s: float) -> GroupEvidence:
        begin_s += samples.BEGIN_S
        flow = instance(
            started_s=begin_s - before_s,
            ended_s=begin_s + 1.0 + after_s,
            result=TransferResult(
                rate_bps=50e6,
                elapsed_s=1.0,
                intervals=(GoodputInterval(begin_s, begin_s + 0.2, 60e6),),
            ),
        )
        return group(flow, asked=request(group=round(begin_s), duration_s=1.0))

    one, other = ran(1.0, before_s=0.01, after_s=0.04), ran(1.36, before_s=0.18, after_s=0.02)
    assert whole(one, other)[:1] == ["73.529"]


def test_a_group_without_its_first_seconds_ran_beside_one_with_them():
    # Both for 24 s. The tool measured the last 12 of the first.
    omitting = replace(apart(0.0, lasted_s=12.0)[0], ended_s=samples.BEGIN_S + 24.0)
    one = group(omitting, asked=request(group=1, omit_s=12.0, duration_s=24.0))
    other = group(apart(0.0)[0], asked=request(group=2, duration_s=24.0))
    assert whole(one, other)[:1] == ["100.000"]


def test_a_rate_of_groups_is_over_the_time_in_which_they_ran_not_that_of_their_delays():
    flows_ = apart(0.0, 12.1)
    one, other = (
        group(flow, asked=request(group=number, delay_s=delay_s))
        for number, (flow, delay_s) in enumerate(zip(flows_, (0.0, 12.0), strict=True), 1)
    )
    # Twice 24 s in 36.1 s.
    assert whole(one, other) == ["66.482", ""]


def test_a_rate_of_transfers_that_took_longer_than_their_time_has_all_of_their_data():
    # 15 Mbyte each, in 7 s. By the columns there would be 7.5 each, in 4 s: 30 Mbit/s.
    flows_ = apart(0.0, 1.0, lasted_s=6.0, rate_bps=20e6)
    one, other = (
        group(flow, asked=request(test="TCP_FLOWS", group=number, delay_s=delay_s, duration_s=3.0))
        for number, (flow, delay_s) in enumerate(zip(flows_, (0.0, 1.0), strict=True), 1)
    )
    assert whole(one, other)[:1] == ["34.286"]


def test_a_rate_of_transfers_is_known_though_nobody_knew_how_long_they_would_take():
    asked = request(test="TCP_FLOWS", count=9, size_bytes=100, duration_s=UNTIL_DONE_S)
    assert whole(group(*apart(0.0), asked=asked), columns=("dur", "rate")) == ["", "50.000"]


def test_datagrams_have_no_congestion_control():
    evidence = group(instance(), asked=request(test="UDP_STREAM"))
    assert pick(evidence, "ca", "effCa") == ["", ""]


def test_datagrams_have_no_retransmissions():
    evidence = group(instance(), asked=request(test="UDP_STREAM"))
    assert pick(evidence, "retrans_total", "retransSegs%") == ["", ""]


# ---- what is not connected -------------------------------------------------------------------

BEFORE = sample(1.0, state="SYN-SENT", cwnd=10, rtt_ms=None, mss_bytes=524, unacked=1)
DURING = sample(1.2, cwnd=40, rtt_ms=20.0, mss_bytes=1448, unacked=30)
AFTER = sample(1.21, state="CLOSE", cwnd=2, rtt_ms=90.0, mss_bytes=1448, unacked=0)


def test_means_are_of_connected_sockets():
    assert pick(group(seen(BEFORE, DURING, AFTER)), "cwnd", "rtt", "unacked", "effMss") == [
        "40",
        "20000",
        "30",
        "1448",
    ]


def test_a_flow_seen_only_before_its_handshake_has_no_segment_size():
    assert pick(group(seen(BEFORE)), "cwnd", "effMss") == ["", ""]


def test_the_sampling_interval_is_between_ticks():
    flow = seen(BEFORE, DURING, AFTER, sample(1.4), sample(1.6))
    assert pick(group(flow), "sampleInterval") == ["200"]


def test_a_socket_with_the_ports_of_an_earlier_one_is_another_connection():
    flow = seen(
        *(sample(time_s, cookie=1) for time_s in (1.0, 1.2)),
        *(sample(time_s, cookie=2) for time_s in (9.0, 9.2)),
    )
    assert pick(group(flow), "sampleInterval", "sampleIntervalWorst") == ["200", "200"]


# ---- damaged data ----------------------------------------------------------------------------


def known(evidence, *keys):
    """Which of the keys have a value, and the group's status."""
    found = samples.values(evidence)
    return [key for key in keys if found[key]], found["status"]


def lively(*damaged, **other):
    return replace(samples.lively_group(request()), damaged=frozenset(damaged), **other)


KEYS = (
    "rate",
    "meanLatency",
    "localCpu",
    "cwnd",
    "retrans_total",
    "retransSegs%",
    "pingRtt",
    "tso",
)


def test_nothing_is_computed_from_damaged_sockets_and_all_else_stays():
    assert known(lively("client sockets"), *KEYS) == (
        ["rate", "meanLatency", "localCpu", "pingRtt", "tso"],
        "damaged",
    )


def test_nothing_is_computed_from_a_damaged_output_and_all_else_stays():
    assert known(lively("tool"), *KEYS) == (
        ["cwnd", "retrans_total", "retransSegs%", "pingRtt", "tso"],
        "damaged",
    )


def test_one_damaged_output_of_several_flows_leaves_no_sum_of_the_others():
    flows = (instance(1), instance(2, result=None))
    evidence = replace(group(*flows), damaged=frozenset({"tool"}))
    assert pick(evidence, "rate", "rateMin", "flowsFailed") == ["", "", "0"]


def test_damage_at_the_receiver_leaves_every_value():
    assert known(lively("server sockets"), *KEYS) == (list(KEYS), "ok")


def test_cpu_samples_that_are_damaged_are_not_missed_where_the_tool_told():
    assert known(lively("client cpu"), "localCpu") == (["localCpu"], "ok")


def test_cpu_samples_that_are_damaged_are_no_zero():
    evidence = replace(group(instance()), damaged=frozenset({"server cpu"}))
    assert known(evidence, "remoteCpu") == ([], "damaged")


def test_damaged_statistics_of_a_host_take_their_columns_alone():
    assert known(lively("ethtool-k"), "tso", "gro", "tcpRmem", "rx-frames") == (
        ["tcpRmem", "rx-frames"],
        "damaged",
    )


def test_a_group_that_failed_is_not_damaged_as_well():
    evidence = replace(group(failed(1, "no route")), damaged=frozenset({"tool"}))
    assert pick(evidence, "status") == ["no route"]


def test_column_of_the_script_fills_only_what_is_not_known():
    found = samples.values(group(instance()), columns={"bw": "10M", "ecn": "1", "ca": "bbr"})
    assert (found["bw"], found["ecn"], found["ca"]) == ("10M", "1", "cubic")


def test_column_of_the_script_never_stands_for_a_measurement():
    assert samples.values(group(failed()), columns={"rate": "100"})["rate"] == ""


@pytest.mark.parametrize(
    ("one", "other", "equal"), [("1M", "1000000.0", True), ("a", "a ", True), ("1", "one", False)]
)
def test_equal_as_numbers_or_as_texts(one, other, equal):
    assert aggregate.same(one, other) is equal


def test_rates_that_were_asked_for_are_in_mbit_per_s():
    asked = request(bitrate_bps=2.5e6, pacing_bps=9e8)
    assert pick(group(instance(), asked=asked), "bitrate", "pacing") == ["2.5", "900"]


def test_mtu_that_a_factor_says_gives_way_to_the_one_that_was():
    found = samples.values(replace(group(instance()), mtu_bytes=1500), columns={"mtu": "9000"})
    assert found["mtu"] == "1500"


def test_load_of_watched_processors_is_theirs_alone():
    busy = tuple(CpuSample(START_S + each, (10.0, 50.0, 90.0)) for each in range(1, 4))
    evidence = replace(
        group(instance(), asked=request(client_cores=(1, 2), server_cores=())),
        client_cpu=busy,
        server_cpu=busy,
    )
    assert pick(evidence, "localCores", "remoteCores") == ["70", ""]


def test_load_of_a_processor_without_samples_is_unknown():
    busy = (CpuSample(START_S, (10.0,)),)
    evidence = replace(group(instance(), asked=request(client_cores=(0, 7))), client_cpu=busy)
    assert pick(evidence, "localCores") == [""]


def test_offload_that_was_wins_over_the_one_that_a_factor_says():
    evidence = replace(group(instance()), features={"tso": "on"})
    assert samples.values(evidence, columns={"tso": "off", "gro": "off"})["tso"] == "on"
    assert samples.values(evidence, columns={"tso": "off", "gro": "off"})["gro"] == "off"
