"""What samples add to a manifest, and its warnings."""

import math
from dataclasses import replace

import pytest

from netesto.controller import record
from netesto.measured import CpuSample, TransferResult
from netesto.results import flows
from netesto.results.manifest import PathRecord, SamplingRecord
from netesto.results.queues import Queue
from results import samples


def found(evidence, **values):
    """The manifest of `evidence`, with nothing of it known before."""
    asked = samples.manifest(evidence, **values)
    groups = tuple(
        replace(
            group,
            instances=tuple(
                replace(
                    flow,
                    effective_congestion_control="",
                    effective_mss_bytes=None,
                    achieved_interval_ms=None,
                )
                for flow in group.instances
            ),
        )
        for group in asked.groups
    )
    return record.with_evidence(replace(asked, groups=groups), evidence)


def test_effective_congestion_control_is_what_the_samples_tell():
    groups = found(samples.two_flows()).groups
    flows = [flow for group in groups for flow in group.instances]
    assert [flow.effective_congestion_control for flow in flows] == ["cubic", "bbr"]


def test_a_default_that_a_tool_replaced_before_its_first_data_gives_no_warning():
    first = samples.sample(1.0, congestion_control="bbr", bytes_acked=1)
    then = samples.sample(1.2, congestion_control="cubic", bytes_acked=9000)
    flow = samples.instance(client_samples=(first, then))
    told = [
        each for each in found(samples.experiment(samples.group(flow))).warnings if "bbr" in each
    ]
    assert told == []


def test_the_achieved_interval_is_the_mean_distance_of_samples():
    flow = found(samples.two_flows()).groups[0].instances[0]
    assert abs((flow.achieved_interval_ms or 0) - 200.0) < 10.0


def test_the_sampling_of_queues_is_beside_what_the_first_group_of_the_host_requested():
    gaps_s = {"client1": (0.2,) * 98 + (0.25, 0.3)}
    hosts = found(replace(samples.two_flows(), queue_gaps_s=gaps_s)).hosts
    assert [hosts[name].queue_sampling for name in ("client1", "client2")] == [
        SamplingRecord(
            asked_interval_ms=200.0,
            achieved_interval_ms=201.5,
            achieved_interval_p99_ms=250.0,
            achieved_interval_worst_ms=300.0,
        ),
        None,
    ]


def test_a_run_as_asked_warns_of_nothing():
    assert found(samples.two_flows()).warnings == ()


def without_samples(*, from_s: float, to_s: float):
    """Two flows, of which the first was not sampled for some time after its start."""
    evidence = samples.two_flows()
    (flow,) = evidence.groups[0].instances
    zero_s = flow.started_s or 0.0
    left = tuple(s for s in flow.client_samples if not from_s < s.time_s - zero_s < to_s)
    groups = (replace(evidence.groups[0], instances=(replace(flow, client_samples=left),)),)
    return replace(evidence, groups=(*groups, *evidence.groups[1:]))


def test_a_gap_of_some_samples_is_warned_of_though_the_mean_is_as_requested():
    (warning,) = record.sampling_warnings(without_samples(from_s=5.1, to_s=6.7))
    assert warning == (
        "group 1, flow 1: sampled every 214.4 ms, 99 % within 206.5 ms, at worst 1807 ms; "
        "requested 200 ms"
    )


def test_a_receiver_that_was_not_sampled_as_requested_is_recorded_and_warned_of():
    evidence = samples.two_flows()
    (flow,) = evidence.groups[0].instances
    late = tuple(replace(each, time_s=each.time_s * 2) for each in flow.client_samples)
    groups = (replace(evidence.groups[0], instances=(replace(flow, server_samples=late),)),)
    seen = replace(evidence, groups=(*groups, *evidence.groups[1:]))
    (record_,) = found(seen).groups[0].instances
    (warning,) = record.sampling_warnings(seen)
    assert (round(record_.receiver_interval_ms or 0, -1), warning.partition(" every")[0]) == (
        2 * round(record_.achieved_interval_ms or 0, -1),
        "group 1, flow 1: at its receiver sampled",
    )


def missed(*gaps_s):
    """Whether connections with these times between samples were sampled not as requested."""
    gaps = flows.summary(*gaps_s)
    return gaps is not None and gaps.misses(200)


def test_of_a_short_flow_a_sample_that_was_late_is_no_other_interval():
    assert not missed([0.1, 0.2, 0.2, 0.2])


def test_of_a_short_flow_samples_at_another_interval_are_noticed():
    assert [missed([gap_s] * 4, [gap_s] * 4) for gap_s in (0.16, 0.14)] == [False, True]


def test_samples_that_break_off_before_the_end_of_a_flow_are_warned_of():
    assert list(record.sampling_warnings(without_samples(from_s=23.1, to_s=99.0))) == [
        "group 1, flow 1: not sampled in its last 1 s; requested 200 ms"
    ]


def test_flows_that_one_gap_has_in_common_are_warned_of_in_one_line():
    evidence = without_samples(from_s=5.1, to_s=6.7)
    (flow,) = evidence.groups[0].instances
    twice = replace(evidence.groups[0], instances=(flow, replace(flow, instance=2)))
    (warning,) = record.sampling_warnings(replace(evidence, groups=(twice,)))
    assert warning.startswith("group 1, flow 1 (the worst of 2 such flows): sampled every")


def test_another_congestion_control_than_asked_is_warned_of():
    evidence = samples.with_other_control(samples.two_flows(), "reno")
    assert "congestion control reno, requested" in " ".join(found(evidence).warnings)


def with_a_busy_client():
    evidence = samples.two_flows()
    busy = (CpuSample(evidence.started_s + 1, (10.0, 97.0)),)
    groups = (replace(evidence.groups[0], client_cpu=busy), evidence.groups[1])
    return replace(evidence, groups=groups)


def test_a_busy_processor_is_warned_of():
    assert found(with_a_busy_client(), ground="hosts").warnings == (
        "client1: a CPU was 97 % busy; it may have limited the flows",
    )


def test_a_busy_processor_of_a_lab_is_that_of_all_hosts():
    assert found(with_a_busy_client(), ground="lab").warnings == (
        "this machine: a CPU was 97 % busy; it may have limited the flows",
    )


def test_a_path_away_from_what_was_asked_is_warned_of():
    path = PathRecord(
        source="client1", destination="server1", asked_rtt_ms=40.0, measured_rtt_ms=44.0
    )
    assert found(samples.two_flows(), paths=(path,)).warnings == (
        "path client1→server1: 44 ms RTT, requested 40",
    )


def test_sending_jitter_and_what_ping_cuts_off_are_no_deviation_of_a_path():
    paths = (
        PathRecord(source="h1", destination="h2", asked_rtt_ms=0.0018, measured_rtt_ms=0.001),
        PathRecord(
            source="h1", destination="h3", asked_rtt_ms=10.0, measured_rtt_ms=20.5, sending_ms=10.4
        ),
        PathRecord(
            source="h1", destination="h4", asked_rtt_ms=10.0, measured_rtt_ms=14.0, jitter_ms=4.0
        ),
    )
    assert found(samples.two_flows(), paths=paths).warnings == ()


def unfinished(**asked):
    """A TCP_RR that completed nothing, while 9 MB of its request arrived."""
    values = {"test": "TCP_RR", "request_bytes": 100_000_000, "duration_s": 1.0} | asked
    request = samples.request(**values)
    arrived = samples.sample(samples.BEGIN_S + 1.0, bytes_received=9_115_161)
    flow = samples.instance(
        result=TransferResult(rate_bps=0.0, elapsed_s=1.16),
        server_samples=(arrived,),
        ended_s=samples.BEGIN_S + 2.4,
    )
    return samples.experiment(samples.group(flow, asked=request))


def test_requests_that_were_not_completed_are_warned_of():
    assert found(unfinished()).warnings == (
        (
            "group 1, flow 1: no transaction was completed in 1.16 s: 9.115 MB of its request of "
            "100M bytes arrived"
        ),
    )


def test_flows_that_got_nothing_are_warned_of_in_one_line():
    nothing = TransferResult(rate_bps=0.0, elapsed_s=2.0)
    zero = samples.sample(samples.BEGIN_S, bytes_acked=1, bytes_received=0)
    silent = [samples.instance(number, result=nothing, client_samples=(zero,)) for number in (2, 3)]
    every = samples.experiment(samples.group(samples.instance(), *silent))
    assert [text for text in found(every).warnings if "no data" in text] == [
        (
            "group 1, flow 2 (the first of 2 such flows): no data: 0 bytes in 2 s; other flows"
            " between these hosts transferred data"
        )
    ]


def test_a_reply_that_did_not_arrive_is_warned_of():
    warnings = found(unfinished(request_bytes=1000, reply_bytes=30_000_000)).warnings
    assert [text for text in warnings if "no transaction" in text] == [
        (
            "group 1, flow 1: no transaction was completed in 1.16 s: its request arrived, its "
            "reply of 30M bytes did not"
        )
    ]


def test_two_sources_that_disagree_are_warned_of():
    evidence = samples.two_flows()
    told = evidence.groups[0].instances[0].result
    assert told is not None
    result = replace(told, rate_bps=36_543e6)
    wrong = replace(evidence.groups[0].instances[0], result=result)
    groups = (replace(evidence.groups[0], instances=(wrong,)), evidence.groups[1])
    assert "36543 Mbit/s as netperf reports" in found(replace(evidence, groups=groups)).warnings[0]


def test_an_experiment_with_a_failed_flow_is_partial():
    assert found(samples.partial()).status == "partial"


def test_an_experiment_whose_flows_all_failed_is_failed():
    assert found(samples.all_failed()).status == "failed"


def last_end_s(evidence):
    return max(flows.span_s(group.instances)[1] for group in evidence.groups)


def sampled_queue(evidence, interval_s, **fields):
    """A queue that is sampled until all flows have ended."""
    count = 2 + math.ceil((last_end_s(evidence) - evidence.started_s) / interval_s)
    return queue_at(
        tuple(evidence.started_s + interval_s * tick for tick in range(count)), **fields
    )


def queue_at(times, **fields):
    zeros = (0,) * len(times)
    return Queue(
        place="links/r-b", kind="tbf", rate_bps=None, time_s=times, backlog_bytes=zeros,
        backlog_packets=zeros, drops=zeros, marks=zeros, **fields,
    )  # fmt: skip


def queue_warnings(evidence, queue):
    groups = tuple(replace(group, queues=(queue,)) for group in evidence.groups)
    return [*record._queue_warnings(replace(evidence, groups=groups))]


def test_a_queue_that_was_not_sampled_as_requested_is_a_warning():
    evidence = samples.two_flows()
    [said] = queue_warnings(evidence, sampled_queue(evidence, 0.4))
    assert said == (
        "queue links/r-b: sampled every 400 ms, 99 % within 400 ms, at worst 400 ms; "
        "requested 200 ms"
    )


@pytest.mark.parametrize(("until_s", "warnings"), [(-3.0, 1), (-0.1, 0), (0.5, 0)])
def test_a_queue_whose_sampling_ended_before_its_flows_is_a_warning(until_s, warnings):
    evidence = samples.two_flows()
    last_s = last_end_s(evidence) + until_s
    count = math.ceil((last_s - evidence.started_s) / 0.2)
    times = tuple(last_s - 0.2 * tick for tick in reversed(range(count)))
    said = (
        "queue links/r-b: not sampled in the last 3 s of its flows: "
        "what it dropped or marked then is not counted"
    )
    assert queue_warnings(evidence, queue_at(times)) == [said] * warnings


@pytest.mark.parametrize(("later_s", "warnings"), [(1, 1), (-1, 0)])
def test_a_qdisc_replaced_while_flows_ran_is_a_warning(later_s, warnings):
    evidence = samples.two_flows()
    instant = evidence.groups[0].instances[0].started_s + later_s
    said = (
        "queue links/r-b: a qdisc was replaced while flows ran (tbf): "
        "what the old one dropped or marked after its last sample is not counted"
    )
    queue = sampled_queue(evidence, 0.2, replaced_s=(instant,))
    assert queue_warnings(evidence, queue) == [said] * warnings


@pytest.mark.parametrize(("dropped", "warnings"), [(0, 0), (40, 1)])
def test_drops_of_a_full_delay_line_are_a_warning(dropped, warnings):
    evidence = samples.two_flows()
    queue = sampled_queue(evidence, 0.2)
    counts = (7,) * (len(queue.time_s) - 1) + (7 + dropped,)
    said = (
        "queue links/r-b: the delay line before it was full, and dropped at least 40 packets, "
        "which are not in queueDrops: the load was far above the rate"
    )
    assert queue_warnings(evidence, replace(queue, overflow=counts)) == [said] * warnings


def test_a_queue_that_was_sampled_as_one_of_its_groups_requested_is_no_warning():
    evidence = samples.two_flows()
    queue = sampled_queue(evidence, 0.2)
    first, second = (replace(group, queues=(queue,)) for group in evidence.groups)
    often = replace(second, request=replace(second.request, interval_s=0.05))
    assert not [*record._queue_warnings(replace(evidence, groups=(first, often)))]


def test_a_link_that_was_sampled_as_another_group_requested_is_no_warning():
    evidence = samples.two_flows()
    first, second = evidence.groups
    often = replace(first, request=replace(first.request, interval_s=0.01))
    of_second = replace(second, queues=(sampled_queue(evidence, 0.01),))
    assert not [*record._queue_warnings(replace(evidence, groups=(often, of_second)))]
