"""What is a number, what has a unit, and what stays text."""

import pytest

from netesto.errors import ScriptError
from netesto.report.expscript import numerals
from netesto.units import UnitKind

SIZES = """\
exp,req,bw,delay,rate
1.0,1000000.0,1gbit,20ms,10
2.0,64K,10mbit,1s,20
3.0,1M,100mbit,200us,30
4.0,1,1000mbit,,40
"""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1M", 1e6), ("64K", 64e3), ("1.5G", 1.5e9), (" 2K ", 2e3), ("1e3", 1e3), ("-1K", -1e3),
        ("1m", None), ("64k", None), ("K", None), ("1 M", None), ("1_0K", None), ("1KB", None),
        ("100mbit", None), ("64Ki", None),
    ],
)  # fmt: skip
def test_a_number_may_end_in_k_m_or_g(text, number):
    assert numerals.parse(text) == number


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("10mbit", (1e7, UnitKind.RATE)), ("1.5gbit", (1.5e9, UnitKind.RATE)),
        ("1gbps", (8e9, UnitKind.RATE)), ("10Mbit/s", (1e7, UnitKind.RATE)),
        ("20ms", (0.02, UnitKind.TIME)), ("2min", (120.0, UnitKind.TIME)),
        ("10m", None), ("10k", None), ("10", None), ("3Stream1", None), ("mbit", None),
    ],
)  # fmt: skip
def test_rates_and_times_have_a_size(text, quantity):
    found = numerals.quantity(text)
    assert (found and (float(found.value), found.kind)) == quantity


@pytest.mark.parametrize(
    ("clause", "ids"),
    [
        ("req==1M", ["1.0", "3.0"]),
        ("req==1000000", ["1.0", "3.0"]),
        ("req!=1M", ["2.0", "4.0"]),
        ("req in {1M, 1}", ["1.0", "3.0", "4.0"]),
        ("req>64K", ["1.0", "3.0"]),
        ("req<1M", ["2.0", "4.0"]),
        ("req<>1:1M", ["2.0"]),
        ("req[has]M", ["3.0"]),
        ("bw==1gbit", ["1.0", "4.0"]),
        ("bw!=1gbit", ["2.0", "3.0"]),
        ("bw>=100mbit", ["1.0", "3.0", "4.0"]),
        ("bw<>10mbit:1gbit", ["3.0"]),
        ("delay<=20ms", ["1.0", "3.0"]),
    ],
)
def test_conditions_compare_sizes_rates_and_times(shown, clause, ids):
    assert shown(f"Select={clause}", csv=SIZES) == ids


@pytest.mark.parametrize(
    ("clause", "warning"),
    [
        ("rate>5mbit", "no cell of 'rate' is a rate with a unit; one is '10'"),
        ("bw>50", "no cell of 'bw' is a number; one is '1gbit'"),
    ],
)
def test_a_comparison_that_no_cell_can_meet_is_reported(run, clause, warning):
    outcome = run(f"File=exp\nSelect={clause}\nCols=exp\ndoTable", csv=SIZES)
    assert outcome.warnings[0] == f"my.exp:2: Select: '{clause}' selects nothing: {warning}"


def test_a_range_from_a_rate_to_a_number_is_none(run):
    with pytest.raises(ScriptError, match="is not a range"):
        run("File=exp\nSelect=bw<>10mbit:5", csv=SIZES)


def test_a_script_of_the_classic_tool_finds_the_sizes_of_ours(run):
    outcome = run("File=exp\nSelect=req==1M\nCols=exp,req\ndoTable", csv=SIZES)
    assert outcome.table == [["1.0", "1000000.0"], ["3.0", "1M"]]


def test_average_merges_equal_sizes(run):
    outcome = run("File=exp\nAverage=req\nCols=req,rate,avgCnt\ndoTable", csv=SIZES)
    assert outcome.table == [
        ["1000000.0", "20.0", "2"], ["64K", "20.0", "1"], ["1", "40.0", "1"],
    ]  # fmt: skip


def test_an_equal_size_stays_as_written_and_different_ones_have_a_mean(run):
    csv = "exp,ca,req,reply\n1.0,bbr,1M,1K\n2.0,bbr,1M,2K\n"
    outcome = run("File=exp\nAverage=ca\nCols=req,reply\ndoTable", csv=csv)
    assert outcome.table == [["1M", "1500.0"]]


def test_a_format_leaves_sizes_as_written(run):
    outcome = run("format=1\nFile=exp\nCols=req\ndoTable", csv=SIZES)
    assert outcome.column("req") == ["1000000.0", "64K", "1M", "1.0"]


def test_the_same_size_in_each_row_stays_text_in_a_table_of_changes(run):
    csv = "exp,req,reply\n1.0,1M,1K\n2.0,1M,2K\n"
    assert run("File=exp\nPercentTable=1\ndoTable", csv=csv).tables[1] == [
        ["1M", "1K"], ["1M", "+ 100.0%"],
    ]  # fmt: skip


def test_sort_goes_by_size_and_rate(shown):
    assert shown("Sort=req", csv=SIZES) == ["4.0", "2.0", "1.0", "3.0"]
    assert shown("Sort=-bw", csv=SIZES) == ["1.0", "4.0", "3.0", "2.0"]


def test_new_columns_compute_with_sizes_and_rates(run):
    script = "NewCol = k = req / 1K; r = mbit(bw); d = ms(delay); n = number(req)"
    outcome = run(f"File=exp\n{script}\nCols=k,r,d,n\ndoTable", csv=SIZES)
    assert outcome.table == [
        ["1000.0", "1000.0", "20.0", "1000000.0"],
        ["64.0", "10.0", "1000.0", "64000.0"],
        ["1000.0", "100.0", "0.2", "1000000.0"],
        ["0.001", "1000.0", "*", "1"],
    ]


def test_an_if_compares_sizes_and_rates(run):
    script = "If = 1M == 1000000\nText=a\nEndIf\nIf = 1gbit == 1000mbit\nText=b\nEndIf"
    assert [block.text for block in run(script).blocks] == ["a", "b"]


def test_new_columns_compare_rates_and_times_as_select_does(run):
    script = "NewCol = a = bw == '1gbit'; b = delay != '0.02s'"
    outcome = run(f"File=exp\n{script}\nCols=a,b\ndoTable", csv=SIZES)
    assert outcome.table == [["1.0", "0.0"], ["0.0", "1.0"], ["0.0", "1.0"], ["1.0", "1.0"]]
