import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.flowspec import UNTIL_DONE_S
from netesto.measured import Datagrams, TransferResult
from netesto.results import aggregate, fields, numbers
from netesto.results.fields import Field
from netesto.results.formulas import MeasuredGroup
from results import samples

EXAMPLE = fields.parse(
    "exp:one\nca:all\ndur:one\ncwnd:avg\nrate:sumRateDur\n"
    "rateMin:min\nrateMax:max\nlost:sum\nretransPkts%:avg\nstatus:one\nflowsFailed:sum\n",
    source="f",
)
NUMBERS = st.floats(min_value=0, max_value=1e9, allow_nan=False).map(lambda x: round(x, 3))
# Of transfers that last as long as they last.
UNTIL_DONE = samples.request(test="TCP_FLOWS", count=9, size_bytes=100, duration_s=UNTIL_DONE_S)
TEXTS = st.lists(NUMBERS.map(str), min_size=1, max_size=8)


def combined(operation, *texts):
    return aggregate.combine(Field("column", operation), texts)


def test_the_worked_example_of_the_description():
    row = aggregate.row(
        EXAMPLE,
        [
            {"exp": "7.1", "ca": "cubic", "dur": "60", "rate": "100.5", "cwnd": "10"},
            {"exp": "7.2", "ca": "bbr", "dur": "20", "rate": "46", "cwnd": "21"},
        ],
        exp=7,
    )
    wanted = {"exp": "7.0", "ca": "cubic/bbr", "dur": "60+...", "cwnd": "15.500"}
    assert {key: row[key] for key in wanted} | {"rate": row["rate"]} == wanted | {"rate": "115.833"}


@pytest.mark.parametrize("name", ["rate", "sentRate", "reverseRate", "transactionRate"])
def test_rates_of_groups_count_for_as_long_as_the_groups_ran(name):
    columns = fields.load(Path(__file__).parents[2] / "fields.txt")
    groups = [{"dur": "60", name: "100.5"}, {"dur": "20", name: "46"}]
    assert aggregate.row(columns, groups, exp=7)[name] == "115.833"


def test_rates_of_delayed_groups_count_from_the_first_begin_to_the_last_end():
    found = [
        {"dur": "4", "delay": "1", "rate": "30"},
        {"dur": "4", "delay": "2", "rate": "30"},
        {"dur": "1", "delay": "0", "rate": ""},
    ]
    assert aggregate.row(EXAMPLE, found, exp=7)["rate"] == "48.000"


def test_group_row_is_the_same_with_one_value():
    row = aggregate.group_row(
        EXAMPLE,
        {"exp": "7.2", "ca": "bbr", "dur": "20", "rate": "46", "cwnd": "21", "status": "ok"},
        columns={},
    )
    assert row == {
        "exp": "7.2", "ca": "bbr", "dur": "20.0", "cwnd": "21.000", "rate": "46.000",
        "rateMin": "", "rateMax": "", "lost": "", "retransPkts%": "", "status": "ok",
        "flowsFailed": "",
    }  # fmt: skip


def test_one_appends_dots_once_however_many_differ():
    assert combined("one", "60", "20", "10") == "60+..."


def test_one_writes_a_number_with_one_decimal():
    assert combined("one", "60", "60.0") == "60.0"


def test_numbers_of_experiment_and_group_are_whole_and_all_groups_are_group_0():
    columns = fields.parse("exp:one\nexpNumber:one\ngroup:one\n", source="f")
    tenth = samples.values(samples.group(asked=samples.request(group=10)))
    rows = [
        aggregate.row(columns, [tenth], exp=12),
        aggregate.group_row(columns, tenth, columns={}),
    ]
    assert [list(row.values()) for row in rows] == [["12.0", "12", "0"], ["12.10", "12", "10"]]


def test_one_leaves_a_name_that_looks_like_a_number():
    assert aggregate.combine(Field("expName", "one"), ["2017"]) == "2017"


def test_all_compares_whole_values():
    assert combined("all", "bbr2", "bbr", "bbr2", "bbr") == "bbr2/bbr"


def test_numbers_may_carry_k_m_and_g():
    assert combined("sum", "1K", "2M", "3G") == "3002001000.0"


def test_empty_values_are_skipped_by_every_operation():
    found = [combined(each, "", "4", "") for each in fields.OPERATIONS if each != "sumRateDur"]
    assert found == ["4.0", "4", "4.000", "4.0", "4.0", "4.0"]


def test_nothing_known_is_an_empty_cell():
    assert [combined(each, "", "") for each in fields.OPERATIONS] == [""] * 7


def test_text_under_an_operation_on_numbers_is_kept_and_not_counted():
    assert combined("avg", "5", "unlimited") == "5/unlimited"


def test_the_rate_of_one_group_needs_no_duration():
    transfers = samples.group(samples.instance(rate_bps=7.175e6), asked=UNTIL_DONE)
    found = samples.values(transfers)
    of_group = aggregate.group_row(EXAMPLE, found, columns={})
    of_experiment = samples.row(EXAMPLE, transfers)
    assert (found["dur"], of_group["rate"], of_experiment["rate"]) == ("", "7.175", "7.175")


def test_the_rate_of_several_groups_one_without_a_duration_is_the_mean_over_their_time():
    # 24 s each, the second one 6 s later.
    timed = samples.group(samples.instance(rate_bps=10e6, started_s=samples.BEGIN_S))
    late = samples.instance(
        rate_bps=4e6, started_s=samples.BEGIN_S + 6.0, ended_s=samples.BEGIN_S + 30.0
    )
    transfers = samples.group(late, asked=UNTIL_DONE)
    assert samples.row(EXAMPLE, timed, transfers)["rate"] == "11.200"


def test_sum_rate_dur_leaves_out_the_duration_of_a_group_without_a_rate():
    row = aggregate.row(EXAMPLE, [{"rate": "10", "dur": "5"}, {"rate": "", "dur": "50"}], exp=1)
    assert row["rate"] == "10.000"


def sent(again: int | None, count: int, *, packets: int = 0, test: str = "TCP_STREAM"):
    """A group of a flow that sent segments, and retransmitted some; with the packets that the
    interface of its client counted, as many by default."""
    seen = samples.sample(1.0, total_retransmits=again, segments_out=count, data_segments_out=count)
    way = "rx_packets" if test == "TCP_MAERTS" else "tx_packets"
    return samples.group(
        samples.instance(client_samples=(seen,), server_samples=(seen,)),
        asked=samples.request(test=test),
        counters={"rx_packets": 20, "tx_packets": 20} | {way: packets or count},
    )


def retransmitted(*groups):
    return samples.row(EXAMPLE, *groups)["retransPkts%"]


def test_retransmitted_percent_is_of_the_sums():
    assert retransmitted(sent(10, 100), sent(0, 900)) == "1.00"


def test_retransmitted_percent_leaves_out_a_group_that_does_not_know_both():
    assert retransmitted(sent(10, 100), sent(None, 900)) == "10.00"


def test_retransmitted_percent_is_not_known_where_the_packets_of_a_group_are_not_its_own():
    assert retransmitted(sent(10, 100), sent(0, 900, packets=90)) == ""


def test_retransmitted_percent_of_a_reverse_test_counts_what_arrives():
    assert retransmitted(sent(10, 1000, test="TCP_MAERTS")) == "1.00"


def test_retransmitted_segments_are_of_the_sums():
    columns = fields.parse("exp:one\nretransSegs%:avg", source="fields.txt")
    row = samples.row(columns, sent(10, 100), sent(0, 900), sent(None, 50))
    assert row["retransSegs%"] == "1.000"


def test_a_column_that_a_group_lacks_for_damage_is_empty_in_the_whole():
    damaged = replace(samples.group(samples.instance(2)), damaged=frozenset({"tool"}))
    row = samples.row(EXAMPLE, samples.group(samples.instance()), damaged)
    assert (row["rate"], row["dur"]) == ("", "24.0")


def test_a_percentage_of_a_group_without_one_of_its_flows_is_empty_in_its_row():
    udp = Datagrams(sent=100, lost=1, sent_bps=1e6)
    told = TransferResult(rate_bps=1e6, elapsed_s=24.0, datagrams=udp)
    flows = samples.group(samples.instance(1, result=told), samples.instance(2, result=None))
    columns = fields.parse("exp:one\nudpLost%:avg", source="f")
    group = MeasuredGroup(replace(flows, damaged=frozenset({"tool"})))
    found = samples.values(group.evidence)
    row = aggregate.group_row(columns, found, [group], columns={})
    assert row == {"exp": "12.1", "udpLost%": ""}


def test_an_experiment_with_damaged_data_is_damaged_whatever_its_groups_are():
    groups = [{"status": "partial"}, {"status": "ok"}]
    assert aggregate.row(EXAMPLE, groups, exp=1, least_status="damaged")["status"] == "damaged"


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (["ok", "ok"], "ok"),
        (["ok", "partial"], "partial"),
        (["ok", "netperf exited 1"], "partial"),
        (["netperf exited 1", "timed out"], "failed"),
        ([], "ok"),
    ],
)
def test_status_of_the_whole(states, status):
    assert aggregate.status([{"status": each} for each in states]) == status


def test_missing_data_makes_an_experiment_of_good_flows_partial():
    row = aggregate.row(EXAMPLE, [{"status": "ok"}], exp=1, least_status="partial")
    assert row["status"] == "partial"


def test_failed_group_is_in_no_number_and_counted():
    found = [
        samples.values(samples.group(samples.instance(rate_bps=40e6))),
        samples.values(
            samples.group(samples.failed(), samples.failed(2), asked=samples.request(group=2))
        ),
    ]
    row = aggregate.row(EXAMPLE, found, exp=12)
    assert row == {
        "exp": "12.0", "ca": "cubic", "dur": "24.0", "cwnd": "", "rate": "40.000",
        "rateMin": "40.0", "rateMax": "40.0", "lost": "", "retransPkts%": "",
        "status": "partial", "flowsFailed": "2.0",
    }  # fmt: skip


FAIRNESS = fields.parse("exp:one\nfairness:avg\n", source="f")


def fairness(*groups):
    return samples.row(FAIRNESS, *groups)["fairness"]


def test_fairness_of_the_whole_is_over_all_flows_of_all_groups():
    two = samples.group(samples.instance(1, rate_bps=3e6), samples.instance(2, rate_bps=1e6))
    one = samples.group(samples.instance(rate_bps=8e6))
    assert fairness(two, one) == f"{144 / (3 * 74):.3f}"


def test_a_flow_that_got_nothing_beside_others_is_in_the_fairness_of_the_whole():
    groups = [samples.group(samples.instance(rate_bps=rate_bps)) for rate_bps in (9e6, 0.0)]
    assert fairness(*groups) == "0.500"


def test_fairness_is_not_reported_of_the_only_flow_that_did_not_fail():
    alone = samples.group(samples.instance(), samples.failed(2))
    lost = samples.group(samples.failed())
    beside = samples.group(samples.instance())
    assert [fairness(alone, lost), fairness(alone, beside)] == ["", "1.000"]


def test_fairness_is_not_reported_between_different_tests():
    stream = samples.group(samples.instance())
    requests = samples.group(samples.instance(), asked=samples.request(test="TCP_RR"))
    assert fairness(stream, requests) == ""


def test_fairness_is_not_reported_between_flows_of_different_times():
    assert fairness(*samples.two_flows().groups) == ""


def test_fairness_is_not_reported_within_a_group_of_flows_of_different_times():
    late = {"started_s": samples.BEGIN_S + 60.0, "ended_s": samples.BEGIN_S + 84.0}
    apart = samples.group(samples.instance(1), samples.instance(2, **late))
    beside = samples.group(samples.instance())
    found = [samples.values(apart)["fairness"], fairness(apart), fairness(apart, beside)]
    assert found == ["", "", ""]


def test_columns_of_the_script_are_written_as_they_are():
    loaded = fields.parse("exp:one\nbw:one\nnetem:one\nreq:one\n", source="f")
    columns = {"bw": "100mbit", "netem": "10", "req": "1M"}
    found = [samples.values(samples.group(samples.instance()), columns=columns)]
    assert aggregate.row(loaded, found, exp=3, columns=columns) == {"exp": "3.0"} | columns


def test_column_of_the_script_does_not_hide_what_a_group_did():
    loaded = fields.parse("exp:one\nca:all\n", source="f")
    columns = {"ca": "cubic"}
    found = [
        samples.values(samples.group(samples.instance()), columns=columns),
        samples.values(
            samples.group(samples.instance(), asked=samples.request(congestion_control="bbr")),
            columns=columns,
        ),
    ]
    assert aggregate.row(loaded, found, exp=3, columns=columns)["ca"] == "cubic/bbr"


@given(TEXTS)
def test_mean_lies_between_the_extremes(texts):
    found = float(combined("avg", *texts))
    assert float(combined("min", *texts)) <= found <= float(combined("max", *texts))


def test_extremes_are_rounded_outwards():
    texts = ("40000.1231", "40000.4561")
    assert [combined(each, *texts) for each in ("min", "avg", "max")] == [
        "40000.123", "40000.290", "40000.457",
    ]  # fmt: skip
    assert [combined(each, "94.1") for each in ("min", "avg", "max")] == ["94.1", "94.100", "94.1"]
    assert [combined(each, "1") for each in ("min", "max")] == ["1.0", "1.0"]


def test_extremes_of_small_numbers_are_not_rounded_away():
    assert [combined(each, "0.04", "0.02") for each in ("min", "max")] == ["0.02", "0.04"]


@given(TEXTS, st.randoms())
def test_order_of_groups_does_not_matter_to_numbers(texts, random):
    shuffled = random.sample(texts, len(texts))
    each = ("avg", "sum", "min", "max")
    assert [combined(one, *texts) for one in each] == [combined(one, *shuffled) for one in each]


@given(TEXTS, st.sampled_from(fields.OPERATIONS[:6]))
def test_empty_values_change_nothing(texts, operation):
    assert combined(operation, "", *texts, "") == combined(operation, *texts)


@given(st.lists(st.text("abc/", min_size=1, max_size=3), min_size=1, max_size=6))
def test_all_keeps_every_distinct_value_once(texts):
    assert combined("all", *texts) == "/".join(dict.fromkeys(texts))


@given(
    st.lists(
        st.tuples(NUMBERS, st.floats(1, 100).map(lambda x: round(x, 1))), min_size=1, max_size=6
    )
)
def test_total_goodput_is_at_least_the_share_of_the_longest_flow(pairs):
    row = aggregate.row(EXAMPLE, [{"rate": str(r), "dur": str(d)} for r, d in pairs], exp=1)
    longest = max(duration for _, duration in pairs)
    wanted = math.fsum(rate * duration for rate, duration in pairs) / longest
    assert float(row["rate"]) == pytest.approx(wanted, abs=0.0006)


@given(st.lists(st.floats(0.001, 1e9), min_size=1, max_size=20))
def test_fairness_lies_between_one_over_n_and_one(rates):
    found = numbers.fairness(rates)
    assert found is not None
    assert 1 / len(rates) - 1e-9 <= found <= 1 + 1e-9
