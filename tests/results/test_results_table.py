import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.results import numbers, table
from results import samples

ROWS = (
    "group|Test|host|server|instances|dur|delay|ca|min/avg/max Rates|min/mean/max Latencies|"
    "p50/p90/p99 Latencies|rtt|pingRtt|cwnd|localRetrans|remoteRetrans|lost|retrans|"
    "retrans_total|retransSegs%|retransPkts%|localCpu|remoteCpu|client-tx-packets|client-tx-bytes|"
    "client-tx-packet-len|client-rx-packets|client-rx-bytes|client-rx-packet-len|tso|gso|lro|"
    "gro|rx-frames|tx-frames|adaptive-rx"
)
THIN = numbers.THIN_SPACE


def rows(found):
    return [row for block in table.blocks(found) for row in block.rows]


def shown(evidence, name):
    found = [samples.values(each) for each in evidence.groups]
    return next(row for row in rows(found) if row.name == name)


def test_rows_of_the_description_are_there_in_order():
    names = [row.name for row in rows([samples.values(samples.two_flows().groups[0])])]
    wanted = ROWS.split("|")
    assert [name for name in names if name in wanted] == wanted


def test_one_column_for_each_group():
    assert shown(samples.two_flows(), "host").cells == ("client1", "client2")


def test_other_congestion_control_than_asked_is_reported_and_marked():
    row = shown(samples.with_other_control(samples.two_flows(), "bbr"), "ca")
    assert (row.cells, row.marked) == (("bbr (requested: cubic)", "bbr"), (True, False))


def test_mean_rate_is_of_the_flows_that_ended_well():
    evidence = samples.experiment(
        samples.group(
            samples.instance(1, rate_bps=10e6),
            samples.instance(2, rate_bps=20e6),
            samples.failed(3),
        )
    )
    assert shown(evidence, "min/avg/max Rates").cells == ("10 / 15 / 20",)


def test_latencies_of_a_stream_are_those_of_send_calls():
    known = {"test": "TCP_STREAM", "minLatency": "1", "meanLatency": "2", "maxLatency": "3"}
    found = [known, known | {"test": "TCP_RR"}, {"test": "TCP_STREAM"}]
    [row] = [row for row in rows(found) if row.name == "min/mean/max Latencies"]
    assert row.cells == ("1 / 2 / 3 (of send calls)", "1 / 2 / 3", numbers.UNKNOWN)


def test_what_is_not_known_is_a_dash():
    assert shown(samples.all_failed(), "min/avg/max Rates").cells == (numbers.UNKNOWN,)


def test_adaptive_receiving_is_on_or_off():
    assert shown(samples.two_flows(), "adaptive-rx").cells == ("on", "on")


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("", "—"), ("0", "0"), ("0.0567891", "0.05679"), ("64.9551", "64.96"), ("999.96", "1000"),
        ("23396", f"23{THIN}396"), ("n/a", "n/a"), ("1M", f"1{THIN}000{THIN}000"),
    ],
)  # fmt: skip
def test_figures_have_four_digits(text, figure):
    assert numbers.figure(text) == figure


def test_counts_keep_every_digit():
    assert numbers.count("60512854442") == f"60{THIN}512{THIN}854{THIN}442"


@given(st.floats(1e-6, 1e12))
def test_figure_is_right_to_four_digits(value):
    text = numbers.figure(repr(value)).replace(THIN, "")
    assert float(text) == pytest.approx(value, rel=6e-4)


@given(st.floats(-1e12, 1e12), st.integers(0, 6))
def test_no_number_is_written_as_minus_zero(value, decimals):
    assert float(numbers.fixed(value, decimals)) != 0 or "-" not in numbers.fixed(value, decimals)


@pytest.mark.parametrize("text", ["", "nan", "inf", "10mbit", "1 2", "--1", "1e999", "K"])
def test_text_that_is_no_number(text):
    assert numbers.parse(text) is None


def test_why_packets_were_not_those_of_the_flows_is_reported():
    groups = [{"group": "1"}, {"group": "2", "retransPktsReason": "the interface counted less"}]
    assert table.notes(groups) == [
        "In group 2 retransPkts% is not known: the interface counted less."
    ]


def test_of_many_groups_without_packets_one_tells_the_reason():
    reason = "the interface counted less"
    groups = [{"group": str(number), "retransPktsReason": reason} for number in range(1, 17)]
    assert table.notes(groups) == [
        "In group 1 retransPkts% is not known: the interface counted less.",
        "In 15 other groups it is not known, either.",
    ]


@pytest.mark.parametrize(
    ("test", "cell"), [("TCP_RR", "TCP_RR 10K/1 bytes"), ("TCP_FLOWS", "TCP_FLOWS")]
)
def test_sizes_of_requests_and_replies_are_those_of_tests_that_have_them(test, cell):
    (row,) = (
        row for row in rows([{"test": test, "req": "10K", "reply": "1"}]) if row.name == "Test"
    )
    assert row.cells == (cell,)


def test_percentiles_above_the_tail_of_the_flow_with_the_fewest_latencies_are_marked():
    # Two flows: one of 99,000 latencies, one of 1000. On average, p99.9 has enough.
    tail = {"p999Latency": "70", "p9999Latency": "80", "latencies": "100000", "instances": "2"}
    row = next(row for row in rows([tail | {"latencyTail": "99.000"}]) if "99.99/" in row.name)
    assert row.cells == ("~70 / ~80 / —",)


def test_percentiles_of_few_latencies_are_marked_from_the_median_on():
    values = {"p50Latency": "20", "p90Latency": "30", "p99Latency": "31", "latencyTail": "50.000"}
    row = next(row for row in rows([values]) if "p99 " in row.name)
    assert row.cells == ("20 / ~30 / ~31",)


def test_percentiles_of_a_tool_that_reports_no_number_of_latencies_are_not_marked():
    values = {"p50Latency": "20", "p90Latency": "30", "p99Latency": "31"}
    row = next(row for row in rows([values]) if "p99 " in row.name)
    assert row.cells == ("20 / 30 / 31",)


def test_latencies_of_ping_are_in_milliseconds():
    values = {"pingP50": "39900", "pingP95": "48100.5", "pingMax": "0"}
    row = next(row for row in rows([values]) if row.name == "ping p50/p95/max")
    assert (row.unit, row.cells) == ("ms", ("39.9 / 48.1 / 0",))
