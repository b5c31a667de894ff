import pytest

from netesto.errors import ScriptError


@pytest.fixture
def averaged(run):
    """The table after an Average of these columns, with the given columns shown."""

    def table(columns: str, cols: str, csv: str, before: str = "") -> list[list[str]]:
        return run(f"{before}\nFile=exp\nAverage={columns}\nCols={cols}\ndoTable", csv=csv).table

    return table


BW = "exp,expName,group,ca,bw,rate\n"


def test_rows_that_agree_become_their_mean_in_order_of_appearance(averaged):
    csv = BW + "1.0,a,0,cubic,10,2\n2.0,a,0,bbr,10,4\n3.0,b,0,cubic,10,3\n"
    assert averaged("ca", "ALL", csv) == [
        ["1.0", "...", "0", "cubic", "10.0", "2.5", "2"],
        ["2.0", "a", "0", "bbr", "10.0", "4.0", "1"],
    ]


def test_numbers_are_equal_however_they_are_written(averaged):
    csv = BW + "1.0,a,0,x,10,2\n2.0,a,0,x,10.0,4\n3.0,a,0,x,1e1,6\n"
    assert averaged("bw", "bw,rate,avgCnt", csv) == [["10", "4.0", "3"]]


def test_texts_must_agree_exactly(averaged):
    csv = BW + "1.0,a,0,BBR,10,2\n2.0,a,0,bbr,10,4\n"
    assert averaged("ca", "ca,avgCnt", csv) == [["BBR", "1"], ["bbr", "1"]]


def test_means_are_cut_without_formatting(averaged):
    csv = "exp,k,a,b,c\n1.0,x,717.28,1.666,1234.567\n"
    assert averaged("k", "a,b,c", csv) == [["717.2", "1.66", "1234.0"]]


def test_means_are_rounded_with_formatting(averaged):
    csv = "exp,k,a\n1.0,x,1\n2.0,x,2\n3.0,x,2\n"
    assert averaged("k", "a,avgCnt", csv, before="format=2") == [["1.67", "3"]]


def test_one_missing_cell_makes_a_mean_unknown(averaged):
    csv = "exp,k,a\n1.0,x,1\n2.0,x,\n"
    assert averaged("k", "a", csv) == [["..."]]


def test_missing_cells_can_be_skipped(averaged):
    csv = "exp,k,a,b\n1.0,x,1,\n2.0,x,,\n3.0,x,4,\n"
    assert averaged("k", "a,b", csv, before="AverageMissing=skip") == [["2.5", ""]]


def test_a_text_is_no_missing_cell(averaged):
    csv = "exp,k,a\n1.0,x,1\n2.0,x,*\n"
    assert averaged("k", "a", csv, before="AverageMissing=skip") == [["..."]]


def test_identical_texts_are_kept(averaged):
    csv = "exp,k,a\n1.0,x,100mbit\n2.0,x,100mbit\n"
    assert averaged("k", "a", csv) == [["100mbit"]]


def test_exp_is_protected_wherever_it_stands(averaged):
    csv = "a,b,c,d,exp\n1,2,3,x,7.0\n1,2,5,x,9.0\n"
    assert averaged("d", "exp,c", csv) == [["4.0", "7.0"]]


def test_items_may_have_blanks_around(averaged):
    csv = BW + "1.0,a,0,x,10,2\n2.0,a,0,x,20,4\n"
    assert averaged("ca , bw", "bw", csv) == [["10"], ["20"]]


def test_integer_parts_agree_with_int(averaged):
    csv = "exp,k,a\n1.0,10.0,1\n2.0,10.5,2\n3.0,10.7,6\n4.0,11.0,5\n"
    assert averaged("k[int]", "k,a,avgCnt", csv) == [["10", "3.0", "3"], ["11.0", "5.0", "1"]]


def test_a_text_agrees_with_nothing_by_its_integer_part(averaged):
    csv = "exp,k,a\n1.0,x,1\n2.0,x,2\n3.0,7.1,3\n4.0,7.9,4\n"
    assert averaged("k[int]", "k,a,avgCnt", csv) == [
        ["x", "1.0", "1"], ["x", "2.0", "1"], ["7", "3.5", "2"],
    ]  # fmt: skip


def test_any_other_suffix_agrees_with_everything_and_is_reported(run):
    outcome = run("File=exp\nAverage=ca[odd]\nCols=ca,avgCnt\ndoTable")
    assert outcome.table == [["...", "5"]]
    assert outcome.warnings == [
        "my.exp:2: Average: [odd] is unknown and ignored; write [int] or [has:text]"
    ]


def test_containing_a_text_agrees_with_has(averaged):
    csv = "exp,k,a\n1.0,bbr1,1\n2.0,cubic,2\n3.0,bbr3,5\n"
    assert averaged("k[has:^bbr]", "k,a", csv) == [["...", "3.0"], ["cubic", "2.0"]]


def test_a_repeated_average_adds_the_counts_up(run):
    csv = "exp,k,j,a\n1.0,x,1,1\n2.0,x,1,3\n3.0,x,2,6\n"
    script = "File=exp\nAverage=k,j\nAverage=k\nCols=a,avgCnt\ndoTable"
    assert run(script, csv=csv).table == [["4.0", "3"]]


def test_a_repeated_average_can_be_weighted(run):
    csv = "exp,k,j,a\n1.0,x,1,1\n2.0,x,1,3\n3.0,x,2,5\n"
    script = "File=exp\nAverage=k,j\nAverageWeight=avgCnt\nAverage=k\nCols=a,avgCnt\ndoTable"
    assert run(script, csv=csv).table == [["3.0", "3"]]


def test_rows_without_a_weight_are_reported(run):
    csv = "exp,k,dur,a\n1.0,x,1,1\n2.0,x,60+...,3\n3.0,x,-1,4\n4.0,x,0,5\n"
    outcome = run("File=exp\nAverageWeight=dur\nAverage=k\nCols=a,avgCnt\ndoTable", csv=csv)
    assert (outcome.table, outcome.warnings) == (
        [["1.0", "4"]],
        ["my.exp:3: AverageWeight: 2 rows have no dur of 0 or more, and do not count"],
    )


def test_without_a_known_column_everything_becomes_one_row_and_it_is_reported(run):
    outcome = run("File=exp\nAverage=speed\nCols=avgCnt\ndoTable")
    assert outcome.table == [["5"]]
    assert outcome.warnings == [
        (
            "my.exp:2: Average: no column 'speed'; there are: exp, expName, group, ca, instances, "
            "rate, rateMin, rateMax, note"
        ),
        "my.exp:2: Average: no column distinguishes rows; all selected rows become one",
    ]


def test_all_means_the_rows_that_exist_now(run):
    script = "File=exp\nSelect=exp[has].0\nAverage=ca\nSelect=rate<70\nSelect=all\nCols=ca\ndoTable"
    assert run(script).table == [["cubic"], ["bbr"]]


def test_new_columns_and_has_work_after_an_average(run):
    script = "File=exp\nAverage=ca\nNewCol = x = rate*2\nSelect=rate[has]85\nCols=ca,x\ndoTable"
    # Group rows are averaged, too: (90 + 80.5) / 2 = 85.25, cut to 85.25.
    assert run(script).table == [["bbr", "170.5"]]


def test_statistics_follow_their_column(run):
    values = (2, 4, 4, 4, 5, 5, 7, 9)
    csv = "exp,k,a\n" + "".join(f"{i}.0,x,{value}\n" for i, value in enumerate(values))
    script = "File=exp\nStats = a: n, sd, min, max, median, p25, ci95\nAverage=k\n"
    script += "RemoveCols=exp,k,avgCnt\ndoTable"
    outcome = run(script, csv=csv)
    assert outcome.headings == ["a", "a.n", "a.sd", "a.min", "a.max", "a.median", "a.p25", "a.ci95"]
    # sd = sqrt(32/7); t(0.975, 7) = 2.3646
    assert outcome.table == [["5.0", "8", "2.13809", "2", "9", "4.5", "4", "1.78749"]]


def test_a_single_value_has_no_spread(run):
    script = "File=exp\nStats=rate: sd, ci95, median.ci95\nAverage=exp\nSelect=exp==1.0\n"
    script += "Cols=rate.sd,rate.ci95,rate.median.low\ndoTable"
    assert run(script).table == [["", "", ""]]


def test_the_interval_of_a_median_is_from_one_value_to_another(run):
    csv = "exp,k,a\n" + "".join(f"{i}.0,x,{i * i}\n" for i in range(20))
    script = "File=exp\nStats=a: median, median.ci95\nAverage=k\n"
    script += "Cols=a.median,a.median.low,a.median.high\ndoTable"
    # The sixth and the fifteenth: P(6 <= B < 15) of B(20, 1/2) is 0.959.
    assert run(script, csv=csv).table == [["90.5", "25", "196"]]


def test_too_few_values_for_an_interval_leave_it_empty_and_it_is_told(run):
    csv = "exp,k,a\n" + "".join(f"{i}.0,{'x' if i < 6 else 'y'},{i}\n" for i in range(11))
    outcome = run(
        "File=exp\nStats=a: median.ci95\nAverage=k\nCols=a.median.low,a.median.high\ndoTable",
        csv=csv,
    )
    assert (outcome.table, outcome.warnings) == (
        [["0", "5"], ["", ""]],
        [(
            "my.exp:3: Stats: the interval of a.median needs 6 values or more; 1 of 2 rows have "
            "fewer, and stay empty"
        )],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sd", "names no column"),
        ("rate: variance", "unknown statistic 'variance'"),
        ("rate: p100", "unknown statistic 'p100'"),
        ("rate: sd.ci95", "unknown statistic 'sd.ci95'"),
        ("rate: median.ci90, median.ci95", "intervals of two levels"),
    ],
)
def test_what_is_no_statistic_is_an_error(run, text, message):
    with pytest.raises(ScriptError, match=message):
        run(f"File=exp\nStats={text}\nAverage=ca")


def test_an_empty_selection_averages_to_nothing(run):
    outcome = run("File=exp\nSelect=ca==reno\nAverage=ca\ndoTable")
    assert outcome.notes == ["No rows are selected: there is no table."]


OF_TWO_RATES = (
    "exp,ca,bw,run,rate,status\n1.0,bbr,20mbit,1,19,ok\n2.0,bbr,20mbit,2,18,ok\n"
    "3.0,bbr,50mbit,1,48,ok\n"
)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("Average=ca", "Average"),
        ("plotX=ca\nplotY1=rate\nplotRepeats=mean\ndoPlot", "plotRepeats"),
    ],
)
def test_rows_that_differ_in_a_factor_are_not_repetitions_of_each_other(run, lines, what):
    with pytest.raises(ScriptError) as caught:
        run(f"File=exp\n{lines}", csv=OF_TWO_RATES)
    differ = "rows that would count as repetitions of each other differ in bw (20mbit and 50mbit)"
    assert f"{what}: {differ}" in str(caught.value)


def test_columns_in_which_repetitions_differ_can_be_named(run):
    outcome = run("File=exp\nRepeats=run\nAverage=ca,bw\nCols=bw,rate\ndoTable", csv=OF_TWO_RATES)
    assert (outcome.headings, outcome.table) == (
        ["bw", "rate (Mbit/s)"], [["20mbit", "18.5"], ["50mbit", "48.0"]],
    )  # fmt: skip


WITH_INVALID = """\
exp,ca,rate,status,severity
1.0,bbr,19,ok,affects
2.0,bbr,18,ok,
3.0,bbr,90,ok,invalidates
"""


def test_rows_that_a_warning_invalidates_are_in_no_mean_unless_asked_for(run):
    lines = "File=exp\n{}Average=ca\nCols=ca,rate,avgCnt\ndoTable"
    outcome = run(lines.format(""), csv=WITH_INVALID)
    assert outcome.table == [["bbr", "18.5", "2"]]
    assert len(outcome.warnings) == 1
    assert "1 row left out: a warning invalidates it; Invalidated=keep keeps" in outcome.warnings[0]
    assert run(lines.format("Invalidated=keep\n"), csv=WITH_INVALID).table == [
        ["bbr", "42.33", "3"]
    ]
