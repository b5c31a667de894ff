from dataclasses import replace

from typed import nearly

from netesto.report import together, words
from netesto.report.together import Period, RateShare, Together
from netesto.results import series
from netesto.results.series import FlowSeries, RateSeries, Series
from results import samples

FIFTY = nearly(50.0)


def flow(start_s, end_s, rate, *, test="TCP_STREAM", status="ok"):
    """A flow whose rate is a function of time."""
    count = round((end_s - start_s) / 0.2)
    times = tuple(round(start_s + 0.2 * n + 0.1, 3) for n in range(count))
    return FlowSeries(
        group=1, instance=1, test=test, ca="cubic", host="a", server="b", number="1",
        status=status, start_s=start_s, end_s=end_s, sockets=(),
        goodput=RateSeries(source="tool", time_s=times, mbit_per_s=tuple(map(rate, times))),
    )  # fmt: skip


def constant(rate):
    return lambda _: rate


def experiment(*flows):
    return Series(exp=1, duration_s=max(each.end_s for each in flows), flows=flows)


def found(*flows):
    labels = [(f"flow {n}", (n,)) for n in range(len(flows))]
    return together.find(experiment(*flows), labels)


def test_rates_are_those_of_the_time_that_flows_share():
    first = flow(0.0, 20.0, lambda t: 30.0 if 8.0 < t < 16.0 else 90.0)
    got = found(first, flow(8.0, 16.0, constant(60.0)))
    assert [round(each.rate_mbit_per_s, 1) for each in got.shares] == [30.4, 60.0]


def test_answer_for_two_equal_flows():
    assert found(flow(0.0, 10.0, constant(50.0)), flow(2.0, 8.0, constant(50.0))) == Together(
        period=Period(2.0, 8.0, (0, 1)),
        shares=(
            RateShare("flow 0", (0,), FIFTY, nearly(0.5), FIFTY, FIFTY, FIFTY),
            RateShare("flow 1", (1,), FIFTY, nearly(0.5), FIFTY, FIFTY, FIFTY),
        ),
        fairness=nearly(1.0),
        fair_after_s=0.0,
        can_tell_when=True,
    )


def test_flows_of_a_group_are_reported_by_slowest_median_and_fastest():
    flows = [flow(0.0, 10.0, constant(rate)) for rate in (10.0, 20.0, 60.0)]
    got = together.find(experiment(*flows), [("group", (0, 1, 2))])
    assert got is not None
    assert got.shares == (
        RateShare(
            "group", (0, 1, 2), *map(nearly, (90.0, 1.0)),
            *map(nearly, (10.0, 20.0, 60.0)),
        ),
    )  # fmt: skip


def test_fair_is_what_stays_fair():
    # Equal for a second at 3 s, and from 6 s on.
    meets = flow(0.0, 12.0, lambda t: 50.0 if 3.0 < t < 4.0 or t > 6.0 else 90.0)
    other = flow(0.0, 12.0, lambda t: 50.0 if 3.0 < t < 4.0 or t > 6.0 else 10.0)
    assert found(meets, other).fair_after_s == nearly(5.8, abs=0.11)


def test_unfair_to_the_end_is_never_fair():
    got = found(flow(0.0, 10.0, constant(90.0)), flow(0.0, 10.0, constant(10.0)))
    assert (got.fair_after_s, got.can_tell_when) == (None, True)


def test_short_overlap_cannot_tell_when_it_was_fair():
    got = found(flow(0.0, 10.0, constant(50.0)), flow(8.0, 10.0, constant(50.0)))
    assert (got.fair_after_s, got.can_tell_when) == (None, False)


def test_flows_of_different_tests_have_no_index():
    other = flow(0.0, 10.0, constant(1.0), test="TCP_RR")
    assert found(flow(0.0, 10.0, constant(50.0)), other).fairness is None


def test_the_time_with_most_flows_is_chosen():
    flows = [flow(start, 30.0, constant(10.0)) for start in (0.0, 10.0, 25.0)]
    assert found(*flows).period == Period(25.0, 30.0, (0, 1, 2))


def test_flows_one_after_the_other_have_nothing_to_share():
    assert found(flow(0.0, 5.0, constant(9.0)), flow(5.0, 10.0, constant(9.0))) is None


def test_failed_flow_shares_nothing():
    failed = replace(flow(0.0, 9.0, constant(1.0)), status="netperf exited 1")
    assert found(flow(0.0, 9.0, constant(9.0)), failed) is None


def test_unknown_rate_of_a_flow_leaves_no_answer():
    silent = replace(flow(0.0, 9.0, constant(1.0)), goodput=RateSeries(source=""))
    assert found(flow(0.0, 9.0, constant(9.0)), silent) is None


def test_starts_within_a_hundredth_of_the_experiment_are_one():
    flows = [flow(0.02 * n, 10.0, constant(1.0)) for n in range(5)]
    assert together.periods(experiment(*flows)) == [Period(0.08, 10.0, (0, 1, 2, 3, 4))]


def test_overlap_is_reported_in_words():
    got = together.find(series.build(samples.two_flows()), [("both", (0, 1))])
    assert got is not None
    told = words.together(got)
    assert told.startswith("From 8.3 s to 16.3 s (8.0 s) they got ")


def test_never_fair_is_reported_in_words():
    got = found(flow(0.0, 10.0, constant(90.0)), flow(0.0, 10.0, constant(10.0)))
    assert words.together(got) == (
        "From 0.0 s to 10.0 s (10.0 s) they got 100 Mbit/s in total. Jain's index of their rates "
        "is 0.610 (1: equal shares). Shares never became fair: an index of at least 0.95, of means "
        "over 1 s, held for 2 s."
    )
