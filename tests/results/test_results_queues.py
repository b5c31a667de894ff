from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.measured import Counters, CounterSamples, CpuSample, InstalledQdisc, LinkSamples
from netesto.results import queues, series
from netesto.results.evidence import CountersEvidence
from netesto.results.queues import Queue
from results import samples

BEGIN_S = samples.BEGIN_S + samples.LEAD_S


def qdisc(kind, handle, parent, rate_bps=None, device="a"):
    return InstalledQdisc(device, kind, handle, parent, rate_bps)


def counted(backlog=(), drops=(), marks=(), times=()):
    none = (None,) * len(backlog)
    return CounterSamples(
        tuple(times or map(float, range(len(backlog)))),
        {
            "backlog_bytes": tuple(backlog), "backlog_packets": tuple(backlog),
            "drops": tuple(drops or none), "marks": tuple(marks or none),
        },
    )  # fmt: skip


def queue(*, rate_bps=8e6, place="links/r-b", **columns):
    """Samples 10 s apart, from the start of the flows of `samples.instance` on."""
    found = counted(**columns)
    return Queue(
        place=place, kind="tbf", rate_bps=rate_bps,
        time_s=tuple(BEGIN_S + 10 * time_s for time_s in found.time_s),
        backlog_bytes=found.counts["backlog_bytes"],
        backlog_packets=found.counts["backlog_packets"],
        drops=found.counts["drops"], marks=found.counts["marks"],
        delay_us=tuple(rate_bps and size * 8e6 / rate_bps for size in backlog_of(found)),
    )  # fmt: skip


def backlog_of(found):
    return found.counts["backlog_bytes"]


def values(*found):
    evidence = replace(samples.group(samples.instance()), queues=tuple(found))
    each = samples.values(evidence)
    names = ("backlog", "backlogMax", "queueDelay", "queueDrops", "queueMarks")
    return tuple(each[name] for name in names)


def test_the_queue_of_an_interface_is_below_its_delay_line():
    netem, tbf = qdisc("netem", "1:", "root"), qdisc("tbf", "2:", "1:1", 1e7)
    codel = qdisc("codel", "3:", "2:1")
    found = queues.of(
        "links",
        LinkSamples(
            qdiscs={
                netem: counted([9000, 9000], [5, 5]),
                tbf: counted([100, 300], [1, 4]),
                codel: counted([100, 300], [1, 3], [0, 7]),
            }
        ),
    )
    assert found == [
        Queue(
            place="links/a", kind="tbf codel", rate_bps=1e7, time_s=(0.0, 1.0),
            backlog_bytes=(100, 300), backlog_packets=(100, 300), drops=(1, 4), marks=(0, 7),
            delay_us=(80.0, 240.0),
        )
    ]  # fmt: skip


def test_what_a_full_delay_line_dropped_is_what_it_counts_beyond_the_queue_below():
    netem = replace(qdisc("netem", "1:", "root"), is_lossless=True)
    tbf = qdisc("tbf", "2:", "1:1", 1e7)
    parts = {netem: counted([9000] * 3, [5, 9, 60]), tbf: counted([100] * 3, [5, 9, 20])}
    [found] = queues.of("links", LinkSamples(qdiscs=parts))
    assert (found.drops, found.overflow) == ((5, 9, 20), (0, 0, 40))


def test_what_a_full_delay_line_dropped_is_unknown_if_a_qdisc_was_replaced():
    netem = replace(qdisc("netem", "1:", "root"), is_lossless=True)
    parts = {netem: counted([0] * 2, [9, 9]), qdisc("tbf", "2:", "1:1"): counted([0] * 2, [9, 0])}
    [found] = queues.of("links", LinkSamples(qdiscs=parts))
    assert (found.overflow, found.replaced_s) == ((), (1.0,))


def test_a_delay_line_alone_is_no_queue():
    netem = qdisc("netem", "1:", "root")
    assert queues.of("r", LinkSamples(qdiscs={netem: counted([5])})) == []


def test_counters_that_a_file_does_not_name_are_unknown():
    tbf = qdisc("tbf", "1:", "root", 1e6)
    sampled = LinkSamples(qdiscs={tbf: CounterSamples((0.0,), {"backlog_bites": (7,)})})
    [found] = queues.of("links", sampled)
    assert (found.backlog_bytes, found.drops, found.marks) == ((None,), (None,), (None,))


def test_qdiscs_of_other_interfaces_do_not_count():
    own, other = qdisc("tbf", "1:", "root"), qdisc("codel", "2:", "1:1", device="b")
    found = queues.of("r", LinkSamples(qdiscs={own: counted([5]), other: counted([7], [0], [9])}))
    assert [(each.place, each.kind, each.marks) for each in found] == [("r/a", "tbf", (None,))]


def test_a_group_has_the_values_of_the_longest_queue_on_its_path():
    # The first sample is from before the flow.
    long, short = queue(backlog=[9000, 3000, 2000]), queue(backlog=[0, 4000, 500], rate_bps=None)
    assert values(long, short)[:3] == ("2500", "4000", "2500")


def test_while_a_tool_waits_after_its_flow_a_queue_is_not_under_load():
    # The flow is to last 24 s; its process ends after 45 s.
    flow = replace(samples.instance(), ended_s=BEGIN_S + 45)
    evidence = replace(samples.group(flow), queues=(queue(backlog=[0, 4000, 2000, 0, 0]),))
    found = samples.values(evidence)
    assert (found["backlog"], found["queueDelay"]) == ("3000", "3000")


def test_without_a_shaper_the_delay_of_a_queue_is_not_known():
    assert values(queue(backlog=[0, 3000], rate_bps=None)) == ("3000", "3000", "", "", "")


def test_behind_a_longer_queue_of_a_classful_shaper_the_delay_is_not_known():
    htb = replace(queue(backlog=[0, 3000], rate_bps=None), kind="htb fq_codel")
    assert values(htb, queue(backlog=[0, 0]))[:3] == ("3000", "3000", "")
    assert values(htb, queue(backlog=[0, 4000]))[:3] == ("4000", "4000", "4000")


def test_without_samples_of_queues_nothing_is_known():
    assert values() == ("", "", "", "", "")


def test_counts_are_from_before_the_first_flow_to_after_the_last_and_added_over_queues():
    # The flow lasts 24 s: from just after the first sample to before the fourth.
    one = queue(backlog=[0] * 5, drops=[5, 6, 8, 11, 99], marks=[0, 0, 1, 2, 9])
    other = queue(backlog=[0] * 5, drops=[0, 0, 0, 1, 1], place="r/b")
    assert values(one, other)[3:] == ("7", "2")


def test_a_new_rate_is_the_same_queue_with_other_delays():
    slow, fast = qdisc("tbf", "1:", "root", 1e6), qdisc("tbf", "1:", "root", 1e7)
    parts = {
        fast: counted([1000, 1000], [1, 5], times=(0.0, 2.0)),
        slow: counted([1000], [3], times=(1.0,)),
    }
    assert queues.of("r", LinkSamples(qdiscs=parts)) == [
        Queue(
            place="r/a", kind="tbf", rate_bps=None, time_s=(0.0, 1.0, 2.0),
            backlog_bytes=(1000,) * 3, backlog_packets=(1000,) * 3, drops=(1, 3, 5),
            marks=(None,) * 3, delay_us=(800.0, 8000.0, 800.0),
        )
    ]  # fmt: skip


def test_the_counters_of_a_replaced_qdisc_and_of_the_new_one_add_up():
    parts = {
        qdisc("pfifo", "8001:", "root"): counted([7, 8], [10, 14], times=(0.0, 1.0)),
        qdisc("fq_codel", "8002:", "root"): counted([2, 3], [1, 4], [0, 6], times=(2.0, 3.0)),
    }
    assert queues.of("r", LinkSamples(qdiscs=parts)) == [
        Queue(
            place="r/a", kind="pfifo, fq_codel", rate_bps=None, time_s=(0.0, 1.0, 2.0, 3.0),
            backlog_bytes=(7, 8, 2, 3), backlog_packets=(7, 8, 2, 3), drops=(10, 14, 15, 18),
            marks=(None, None, 0, 6), delay_us=(None,) * 4, replaced_s=(2.0,),
        )
    ]  # fmt: skip


def test_a_counter_that_shrank_is_that_of_a_new_qdisc():
    parts = {qdisc("pfifo", "1:", "root"): counted([0, 0, 0], [7, 3, 4])}
    [found] = queues.of("r", LinkSamples(qdiscs=parts))
    assert (found.drops, found.replaced_s) == ((7, 10, 11), (1.0,))


def test_while_a_link_has_only_a_delay_line_it_has_no_samples_of_a_queue():
    line = qdisc("netem", "1:", "root")
    parts = {
        line: counted([1, 1, 1]),
        qdisc("tbf", "2:", "1:1", 8e6): counted([5, 6], [1, 2], times=(0.0, 2.0)),
    }
    [found] = queues.of("r", LinkSamples(qdiscs=parts))
    assert (found.time_s, found.backlog_bytes) == ((0.0, 2.0), (5, 6))


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=6))
def test_series_has_what_counters_gained(gains):
    drops = [sum(gains[: place + 1]) for place in range(len(gains))]
    evidence = samples.two_flows()
    first = replace(evidence.groups[0], queues=(queue(backlog=[0] * len(gains), drops=drops),))
    found = series.build(replace(evidence, groups=(first, *evidence.groups[1:]))).queues
    assert [each.drops for each in found] == [(None, *gains[1:])]


def test_a_queue_on_the_paths_of_two_groups_is_one_series():
    evidence = samples.two_flows()
    shared = queue(backlog=[1, 2])
    both = tuple(replace(group, queues=(shared,)) for group in evidence.groups)
    found = series.build(replace(evidence, groups=both)).queues
    assert [(each.place, each.backlog_bytes) for each in found] == [("links/r-b", (1, 2))]


COUNTERS = Counters(
    name="drips",
    title="Drips",
    sentence="What dripped.",
    units={"drops": "drops", "splashes": "drops", "puddles": "puddles"},
    drawn=("drops",),
    read=dict,
)


@pytest.mark.parametrize(
    ("are_levels", "units", "drops", "splashes"),
    [
        (False, ["drops/s", "drops/s", "puddles/s"], (None, 3.0), (None, None)),
        (True, ["drops", "drops", "puddles"], (5, 11), (None, 4)),
    ],
)
def test_totals_are_per_second_levels_are_as_they_are_and_missing_counters_unknown(
    are_levels, units, drops, splashes
):
    evidence = samples.two_flows()
    times_s = evidence.started_s + 1.0, evidence.started_s + 3.0
    counted = CounterSamples(times_s, {"drops": (5, 11), "splashes": (None, 4)})
    kind = replace(COUNTERS, are_levels=are_levels)
    recorded = (CountersEvidence(kind, {"client1": counted}),)
    [found] = series.build(replace(evidence, counters=recorded)).counters
    assert found == series.CounterSeries(
        name="drips",
        title="Drips",
        sentence="What dripped.",
        units=dict(zip(kind.units, units, strict=True)),
        drawn=("drops",),
        hosts=(
            series.HostCounters(
                host="client1",
                time_s=(1.0, 3.0),
                values={"drops": drops, "splashes": splashes, "puddles": (None, None)},
            ),
        ),
    )


@pytest.mark.parametrize("cores", [(0, 1), (0, 7)])
def test_cores_have_their_numbers_and_their_mean_states(cores):
    evidence = samples.two_flows()
    group = evidence.groups[0]
    zeros = (0.0,) * 8
    states = ((60.0, *zeros, 40.0), (0.0, *zeros, 100.0))
    cpu = tuple(replace(each, states=states, cores=cores) for each in group.client_cpu)
    built = series.build(replace(evidence, groups=(replace(group, client_cpu=cpu),)))
    found = next(each for each in built.cpu if each.host == group.request.client)
    assert [(each.core, each.states_percent) for each in found.cores] == list(
        zip(cores, states, strict=True)
    )


def test_cores_that_are_watched_are_those_that_are_shown():
    evidence = samples.two_flows()
    group = evidence.groups[0]
    states = ((0.0,) * 10,) * 2
    cpu = tuple(replace(each, states=states, cores=(3, 9)) for each in group.client_cpu)
    request = replace(group.request, client_cores=(9,))
    built = series.build(
        replace(evidence, groups=(replace(group, request=request, client_cpu=cpu),))
    )
    found = next(each for each in built.cpu if each.host == request.client)
    assert ([each.core for each in found.cores], found.cores_count) == ([9], 2)


def test_the_load_of_cores_is_that_of_cores_with_these_numbers():
    evidence = samples.group(samples.instance())
    cpu = (CpuSample(BEGIN_S + 1, (10.0, 90.0), cores=(2, 7)),)
    request = replace(evidence.request, client_cores=(7,))
    assert samples.values(replace(evidence, request=request, client_cpu=cpu))["localCores"] == "90"
