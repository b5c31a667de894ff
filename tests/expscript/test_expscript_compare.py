"""netesto compare: measures, verdicts, and what it cannot tell."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netesto.cli import main
from netesto.errors import UsageError
from netesto.report import compare, comparepage
from netesto.report.compare import ComparedMeasure, CompareRequest, Comparison, Verdict
from netesto.report.expscript.estimates import ConfidenceInterval
from netesto.report.ranks import RelativeChange
from netesto.results import derive

HEADER = "exp,expName,group,ca,bw,host,rate,rtt,status\n"
BASE = [90, 91, 92, 93, 94, 95]
Cells = dict[str, list[object]]


@pytest.fixture
def written(tmp_path):
    """Two results folders from the rates of their runs, by congestion control."""

    def write(base: Cells, new: Cells) -> tuple[Path, Path]:
        for name, cells in (("base", base), ("new", new)):
            rows = [(ca, rate) for ca, rates in cells.items() for rate in rates]
            (tmp_path / name).mkdir()
            (tmp_path / name / "exp.csv").write_text(
                HEADER
                + "".join(
                    f"{i}.0,a,0,{ca},10mbit,{name},{rate},,{'ok' if rate else 'lost'}\n"
                    f"{i}.1,a,1,{ca},10mbit,{name},1,,ok\n"
                    for i, (ca, rate) in enumerate(rows)
                )
            )
        return tmp_path / "base", tmp_path / "new"

    return write


@pytest.fixture
def folders(written):
    def make(base: Cells, new: Cells, **options: Any) -> Comparison:
        first, second = written(base, new)
        return compare.compare(first, second, CompareRequest(**options))

    return make


@pytest.fixture
def status(written, capsys):
    """The exit status of a comparison, and what the terminal shows."""

    def run(base: Cells, new: Cells, *words: str) -> tuple[int, str]:
        one, other = written(base, new)
        return main(["compare", str(one), str(other), *words]), capsys.readouterr().out

    return run


def rows(header: str, *lines: str) -> list[dict[str, str]]:
    """Complete experiments, as rows of an exp.csv."""
    return [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]


def verdicts(comparison: Comparison) -> list[tuple[str, str, Verdict]]:
    return [(one.cell[1], one.measure, one.verdict) for one in comparison.judged]


def judged(comparison: Comparison) -> list[tuple[str, Verdict]]:
    return [(one.measure, one.verdict) for one in comparison.judged]


# ---- verdicts ----------------------------------------------------------------------------


def test_cells_are_what_was_asked_for(folders):
    assert folders({"bbr": BASE}, {"bbr": BASE}).factors == ("expName", "ca", "bw")


def test_equal_runs_are_equivalent(folders):
    comparison = folders({"bbr": BASE}, {"bbr": BASE})
    assert verdicts(comparison) == [("bbr", "rate", Verdict.EQUIVALENT)]
    assert comparepage.summary(comparison) == [
        "Equivalent: new is within 5 % of base in the only comparison."
    ]


def test_a_clear_loss_and_a_clear_gain_are_told_apart(folders):
    comparison = folders(
        {"bbr": BASE, "cubic": BASE},
        {"bbr": [rate - 20 for rate in BASE], "cubic": [rate + 20 for rate in BASE]},
    )
    assert verdicts(comparison) == [
        ("bbr", "rate", Verdict.WORSE), ("cubic", "rate", Verdict.BETTER),
    ]  # fmt: skip
    (lost,) = comparison.having(Verdict.WORSE)
    assert lost.change is not None
    assert comparepage.percent(lost.change.part) == "-21.6 %"
    # Two comparisons: the minimum of 2/924 is doubled.
    assert lost.p == pytest.approx(4 / 924)
    assert comparepage.summary(comparison) == [
        "2 comparisons: 1 worse, 1 better.",
        "Worse: 1 of 2 comparisons shows that new is worse than base.",
    ]


@pytest.mark.parametrize(
    ("threshold", "verdict"),
    [(5, Verdict.EQUIVALENT), (3.33, Verdict.CANNOT_TELL), (1, Verdict.WORSE), (0, Verdict.WORSE)],
)
def test_a_loss_of_three_percent_is_judged_by_the_threshold(folders, threshold, verdict):
    base = [90.1, 90.2, 90.3, 90.4, 90.5, 90.6]
    comparison = folders(
        {"bbr": base}, {"bbr": [rate - 3 for rate in base]}, threshold_percent=threshold
    )
    assert verdicts(comparison) == [("bbr", "rate", verdict)]


def test_the_direction_is_that_of_the_ranks_and_not_of_the_means(folders):
    # Seven of eight runs are lower, and the mean is 51 % higher.
    base = [100, 101, 102, 103, 104, 105, 106, 107]
    new = [90, 91, 92, 93, 94, 95, 96, 600]
    assert np.mean(new) > 1.3 * np.mean(base)
    comparison = folders({"bbr": base}, {"bbr": new})
    assert verdicts(comparison) == [("bbr", "rate", Verdict.WORSE)]


def test_a_base_of_zero_is_judged_too():
    base = rows("exp,retrans_total", *(f"{run}.0,0" for run in range(6)))
    new = rows("exp,retrans_total", *(f"{run}.0,{run + 1}" for run in range(6)))
    request = CompareRequest(measures=["retrans_total"])
    assert judged(compare.compare_rows(base, new, request)) == [("retrans_total", Verdict.WORSE)]
    assert judged(compare.compare_rows(base, base, request)) == [
        ("retrans_total", Verdict.EQUIVALENT)
    ]


def test_more_delay_is_worse():
    base = rows("exp,rtt", *(f"{run}.0,{20 + run}" for run in range(6)))
    new = rows("exp,rtt", *(f"{run}.0,{40 + run}" for run in range(6)))
    assert judged(compare.compare_rows(base, new, CompareRequest())) == [("rtt", Verdict.WORSE)]


ALL_SHOW = "all {0} runs of new are lower than all {0} of base, which proves nothing yet: "


@pytest.mark.parametrize(
    ("base", "new", "verdict", "reason"),
    [
        ([94] * 6, [80] * 6, Verdict.WORSE, ""),
        ([94], [80], Verdict.CANNOT_TELL, "about 4 runs on each side are needed"),
        ([90, 91, 92], [9, 10, 11], Verdict.CANNOT_TELL,
         f"{ALL_SHOW.format(3)}about 4 runs on each side are needed"),
        ([80, 95, 110, 125], [80, 95, 110, 125], Verdict.CANNOT_TELL,
         "about 258 runs on each side are needed"),
    ],
)  # fmt: skip
def test_too_few_runs_cannot_tell_and_say_how_many_would(folders, base, new, verdict, reason):
    comparison = folders({"bbr": base}, {"bbr": new})
    assert [(one.verdict, one.reason) for one in comparison.judged] == [(verdict, reason)]


def test_several_comparisons_need_more_runs():
    # Four against four: the least p, 2/70, is below 0.05 alone, and not twice.
    cells = ("bbr", "cubic")
    base = rows("exp,ca,rate", *(f"1.0,{ca},{90 + run}" for ca in cells for run in range(4)))
    new = rows("exp,ca,rate", *(f"1.0,{ca},{50 + run}" for ca in cells for run in range(4)))
    comparison = compare.compare_rows(base, new, CompareRequest())
    assert [(one.verdict, one.reason) for one in comparison.judged] == [
        (
            Verdict.CANNOT_TELL,
            f"{ALL_SHOW.format(4)}about 5 runs on each side are needed",
        )
    ] * 2
    assert comparepage.headline(comparison) == (
        "Cannot tell: in 2 of 2 comparisons the runs show neither a difference of 5 % or more"
        " nor equivalence."
    )


# ---- failed and missing runs -------------------------------------------------------------


def test_runs_that_failed_are_no_zeros(folders):
    comparison = folders({"bbr": [*BASE, ""]}, {"bbr": [*BASE, "", ""]})
    assert [(one.measure, one.verdict, one.failed) for one in comparison.judged] == [
        ("rate", Verdict.EQUIVALENT, (1, 2)), ("failed runs", Verdict.CANNOT_TELL, (1, 2)),
    ]  # fmt: skip


def test_more_failures_are_worse_whatever_the_others_measured(folders):
    comparison = folders({"bbr": [*BASE, 96, 97]}, {"bbr": [95, *[""] * 7]})
    assert judged(comparison) == [
        ("rate", Verdict.CANNOT_TELL), ("failed runs", Verdict.WORSE),
    ]  # fmt: skip


def test_losing_every_run_is_not_comparable_and_worse(folders):
    comparison = folders({"bbr": BASE}, {"bbr": [""] * 6})
    assert [(one.measure, one.verdict, one.reason) for one in comparison.judged] == [
        ("rate", Verdict.NOT_COMPARABLE, "all 6 runs of new failed"),
        ("failed runs", Verdict.WORSE, ""),
    ]


def test_where_nothing_failed_failures_do_not_count_as_comparisons(folders):
    comparison = folders({"bbr": BASE, "cubic": [*BASE, ""]}, {"bbr": [1, 2, 3, 4, 5, 6]})
    assert comparison.judged[0].p == pytest.approx(2 / 924)


def test_a_cell_of_the_base_that_is_gone_is_not_comparable(folders):
    comparison = folders({"bbr": BASE, "reno": BASE}, {"bbr": BASE, "cubic": BASE})
    assert [(one.cell[1], one.verdict, one.reason) for one in comparison.judged] == [
        ("bbr", Verdict.EQUIVALENT, ""),
        ("reno", Verdict.NOT_COMPARABLE, "new has no such runs"),
    ]
    assert comparison.only_new == (("a", "cubic", "10mbit"),)


def test_runs_that_are_missing_are_reported(folders):
    comparison = folders({"bbr": BASE}, {"bbr": BASE[:4]})
    assert comparison.remarks == (
        "2 runs are missing in new: it has fewer of 1 experiment.",
    )  # fmt: skip


@pytest.mark.parametrize(("of_new", "remarks"), [("", 0), (f"formulas:{derive.FORMULAS}\n", 1)])
def test_a_folder_that_an_older_version_computed_is_reported(written, of_new, remarks):
    base, new = written({"cubic": [90.0] * 5}, {"cubic": [90.0] * 5})
    for folder, text in ((base, ""), (new, of_new)):
        (folder / "1").mkdir()
        (folder / "1" / "all.exp.out").write_text(f"exp:1.0\n{text}")
    remark = (
        "Another version of netesto computed the columns of base, some of them differently:"
        f" `netesto report {base}` rebuilds them."
    )
    assert compare.compare(base, new).remarks == (remark,) * remarks


def test_another_tool_ground_or_kernel_is_reported(tmp_path):
    for name, tool, ground in (("base", "native", "lab"), ("new", "netperf", "sim")):
        (tmp_path / name / "1").mkdir(parents=True)
        rows = f"exp,group,ca,rate,tool,kernel\n1.0,0,bbr,9,{tool},6.1-{ground}\n"
        (tmp_path / name / "exp.csv").write_text(rows)
        described = json.dumps({"ground": ground, "hosts": {}})
        (tmp_path / name / "1" / "manifest.json").write_text(described)
    assert compare.compare(tmp_path / "base", tmp_path / "new").remarks == (
        "tool is native in base, and netperf in new: a change may be due to that alone.",
        "ground is lab in base, and sim in new: a change may be due to that alone.",
        "kernel is 6.1-lab in base, and 6.1-sim in new: a change may be due to that alone.",
    )


def test_a_measure_that_the_folders_aggregate_otherwise_is_reported(written):
    base, new = written({"cubic": [90.0] * 5}, {"cubic": [90.0] * 5})
    (base / "fields.txt").write_text("exp:one\nrate:sum\nrtt:avg\n")
    (new / "fields.txt").write_text("exp:one\nrate:sumRateDur\nrtt:avg\n")
    (remark,) = compare.compare(base, new).remarks
    assert remark == (
        "rate of an experiment is sum of its groups in base, and sumRateDur in new:"
        f" `netesto report {base} --fields {new}/fields.txt` makes them agree."
    )


def test_runs_that_differ_in_a_column_of_one_folder_repeat_each_other_only_on_request():
    base = rows("exp,rate", *(f"{run}.0,9{run}" for run in range(6)))
    new = rows("exp,ecn,rate", *(f"{run}.0,{run % 2},9{run}" for run in range(6)))
    with pytest.raises(UsageError) as caught:
        compare.compare_rows(base, new, CompareRequest())
    assert str(caught.value) == (
        "runs of new that would count as repetitions of each other differ in ecn (0 and 1)\n"
        "Compare folders with equal columns; if they are repetitions all the same, --repeats ecn."
    )
    found = compare.compare_rows(base, new, CompareRequest(repeats=["ecn"]))
    assert (found.remarks, judged(found)) == ((), [("rate", Verdict.EQUIVALENT)])


def test_what_fields_txt_leaves_out_tells_experiments_apart(tmp_path):
    for name in ("base", "new"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "exp.csv").write_text("exp,rate\n1.0,90\n2.0,50\n")
        for exp, ca in ((1, "cubic"), (2, "reno")):
            (folder / str(exp)).mkdir()
            (folder / str(exp) / "all.exp.out").write_text(f"exp:{exp}.0\nca:{ca}\nstatus:ok\n")
    found = compare.compare(tmp_path / "base", tmp_path / "new")
    assert [(one.cell, one.base, one.new) for one in found.judged] == [
        (("cubic",), (90.0,), (90.0,)),
        (("reno",), (50.0,), (50.0,)),
    ]


# ---- what is judged ----------------------------------------------------------------------

TESTS = "exp,test,rate,meanLatency,p99Latency,rtt"


def test_streams_are_judged_by_their_rate_and_requests_by_their_latency():
    runs = rows(
        TESTS,
        *(f"{run}.0,TCP_STREAM,9{run},5,6,{7 + run}" for run in range(6)),
        *(f"{run}.0,TCP_RR,1{run},5,6,7" for run in range(6)),
    )
    comparison = compare.compare_rows(runs, runs, CompareRequest())
    assert [(one.cell, one.measure) for one in comparison.judged] == [
        (("TCP_STREAM",), "rate"), (("TCP_RR",), "meanLatency"),
    ]  # fmt: skip
    assert [(one.cell, one.measure) for one in comparison.unjudged] == [
        (("TCP_RR",), "rate"), (("TCP_RR",), "p99Latency"), (("TCP_STREAM",), "rtt"),
        (("TCP_RR",), "rtt"),
    ]  # fmt: skip


def test_latencies_of_streams_do_not_spend_the_budget():
    base = rows(TESTS, *(f"{run}.0,TCP_STREAM,9{run},5,6,7" for run in range(4)))
    new = rows(TESTS, *(f"{run}.0,TCP_STREAM,5{run},9,9,9" for run in range(4)))
    comparison = compare.compare_rows(base, new, CompareRequest(measures=["rate", "p99Latency"]))
    assert [(one.measure, one.verdict) for one in comparison.judged] == [("rate", Verdict.WORSE)]
    assert [text.partition(":")[0] for text in comparison.remarks] == [
        "Latencies of streams are not compared"
    ]


def test_measures_that_are_not_judged_are_reported_and_decide_nothing():
    base = rows(TESTS, *(f"{run}.0,TCP_STREAM,90.{run},,,1{run}" for run in range(6)))
    new = rows(TESTS, *(f"{run}.0,TCP_STREAM,90.{run},,,9{run}" for run in range(6)))
    comparison = compare.compare_rows(base, new, CompareRequest())
    assert comparepage.summary(comparison) == [
        "Not judged: rtt looks worse in 1 of 1. --metric COLUMN judges a measure.",
        "Equivalent: new is within 5 % of base in the only comparison.",
    ]


def test_a_measure_asked_for_is_judged(folders):
    comparison = folders({"bbr": BASE}, {"bbr": BASE}, measures=["rtt", "rate"])
    assert judged(comparison) == [
        ("rtt", Verdict.NOT_COMPARABLE), ("rate", Verdict.EQUIVALENT),
    ]  # fmt: skip
    assert comparison.judged[0].reason == "no run of base has a value of rtt"


def test_repetitions_of_a_sweep_are_repeats():
    runs = rows("exp,expName,rep,rate", *(f"{rep}.0,a,{rep},{90 + rep}" for rep in range(1, 7)))
    (one,) = compare.compare_rows(runs, runs, CompareRequest()).judged
    assert (one.cell, one.runs) == (("a",), (6, 6))


def test_cells_can_be_told_apart_by_chosen_columns():
    base = rows(
        "exp,ca,bw,rate", *(f"1.0,{ca},10mbit,{each}" for ca in ("bbr", "cubic") for each in BASE)
    )
    new = rows("exp,ca,bw,rate", *(f"1.0,bbr,10mbit,{each}" for each in BASE))
    with pytest.raises(UsageError, match=r"of base .* differ in ca \(bbr and cubic\)\nAdd ca to"):
        compare.compare_rows(base, new, CompareRequest(by=["bw"]))
    comparison = compare.compare_rows(base, new, CompareRequest(by=["bw"], repeats=["ca"]))
    assert comparison.factors == ("bw",)
    assert [(one.cell, one.runs) for one in comparison.judged] == [(("10mbit",), (12, 6))]


@pytest.mark.parametrize(
    ("column", "message"), [("speed", "is not in both folders"), ("rate", "is measured")]
)
def test_a_column_to_tell_apart_by_must_be_there_and_asked_for(folders, column, message):
    with pytest.raises(UsageError, match=message):
        folders({"bbr": BASE}, {"bbr": BASE}, by=[column])


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no experiments here"):
        compare.compare(tmp_path, tmp_path)


def test_folders_without_a_measure_in_common_are_an_error():
    with pytest.raises(UsageError, match="no measure in common"):
        compare.compare_rows(rows("exp,rate", "1.0,9"), rows("exp,rtt", "1.0,9"), CompareRequest())


@pytest.mark.parametrize(
    ("measure", "message"), [("speed", "cannot be compared"), ("pingRtt", "not in both folders")]
)
def test_a_measure_must_be_known_and_there(folders, measure, message):
    with pytest.raises(UsageError, match=message):
        folders({"bbr": BASE}, {"bbr": BASE}, measures=[measure])


# ---- pairs -------------------------------------------------------------------------------

PAIRED = "exp,rep,rate,status"


def test_pairs_tell_what_the_drift_of_both_hides():
    # Both folders drift by the same 60 %; each new run is 6 % below its partner.
    drift = [100, 110, 120, 130, 140, 150, 160]
    base = rows(PAIRED, *(f"{rep}.0,{rep},{rate},ok" for rep, rate in enumerate(drift)))
    new = rows(PAIRED, *(f"{rep}.0,{rep},{rate * 0.94},ok" for rep, rate in enumerate(drift)))
    alone = compare.compare_rows(base, new, CompareRequest())
    paired = compare.compare_rows(base, new[::-1], CompareRequest(is_paired=True))
    assert (alone.verdict, paired.verdict) == (Verdict.CANNOT_TELL, Verdict.WORSE)


def test_a_failed_run_takes_its_partner_with_it():
    base = rows(PAIRED, *(f"{rep}.0,{rep},9{rep},ok" for rep in range(8)))
    new = rows(PAIRED, "0.0,0,,lost", *(f"{rep}.0,{rep},9{rep},ok" for rep in range(1, 8)))
    one = compare.compare_rows(base, new, CompareRequest(is_paired=True)).judged[0]
    assert (one.verdict, len(one.base), one.base) == (Verdict.EQUIVALENT, 7, one.new)


def test_runs_without_rep_are_paired_in_their_order_and_it_is_reported():
    runs = rows("exp,rate", *(f"{run}.0,9{run}" for run in range(6)))
    comparison = compare.compare_rows(runs, runs, CompareRequest(is_paired=True))
    assert (comparison.verdict, comparison.remarks) == (
        Verdict.EQUIVALENT, ("There is no column rep: runs are paired in their order.",),
    )  # fmt: skip
    unequal = compare.compare_rows(runs, runs[1:], CompareRequest(is_paired=True))
    assert unequal.judged[0].reason == "6 and 5 runs of one repetition cannot be paired"


# ---- false alarms and power --------------------------------------------------------------

SEED = 11
# Pairs of folders for each of eight kinds.
ALIKE = 150


def simulated(change: float, runs: int, count: int, spread, *, is_paired: bool = False):
    """The verdicts on `count` pairs of folders with six cells, of which one changes."""
    draw = np.random.default_rng(SEED)

    def folder(part: float) -> list[dict[str, str]]:
        return [
            {"exp": "1.0", "ca": f"{cell}", "rep": f"{rep}",
             "rate": f"{100 * spread(draw) * (part if cell == 0 else 1):.1f}"}
            for cell, rep in itertools.product(range(6), range(runs))
        ]  # fmt: skip

    request = CompareRequest(is_paired=is_paired)
    return [
        compare.compare_rows(folder(1), folder(1 + change), request).verdict for _ in range(count)
    ]


SPREADS = {
    "normal": lambda draw: 1 + 0.05 * draw.normal(),
    "lognormal": lambda draw: draw.lognormal(),
    # Few different values: ties.
    "rounded": lambda draw: round(1 + 0.3 * draw.normal(), 1),
    "bimodal": lambda draw: draw.choice([0.5, 1.0]) + 0.01 * draw.normal(),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("is_paired", [False, True])
def test_equal_folders_give_no_more_false_alarms_than_said(spread, is_paired):
    found = simulated(0.0, 10, ALIKE, SPREADS[spread], is_paired=is_paired)
    alarms = [one in {Verdict.WORSE, Verdict.BETTER} for one in found]
    # Worse and better are both wrong here. 5 %, and three standard deviations of such a count.
    assert sum(alarms) <= 0.05 * ALIKE + 3 * (0.05 * 0.95 * ALIKE) ** 0.5


def test_a_loss_of_ten_percent_in_one_cell_of_six_is_found():
    found = simulated(-0.1, 12, 100, lambda draw: 1 + 0.04 * draw.normal())
    assert found.count(Verdict.WORSE) >= 95


def test_small_spread_shows_that_nothing_changed():
    found = simulated(0.0, 8, 100, lambda draw: 1 + 0.01 * draw.normal())
    assert found.count(Verdict.EQUIVALENT) >= 95


# ---- what people see ---------------------------------------------------------------------


def test_the_terminal_shows_a_table(folders):
    comparison = folders({"bbr": BASE, "cubic": BASE}, {"bbr": [80] * 6, "cubic": [91]})
    shown = comparepage.table(comparison, comparison.judged)
    assert [heading.title for heading in shown.headings] == [
        "ca", "measure", "base median", "new median", "of medians", "change", "95 % interval", "p",
        "runs", "failed", "verdict",
    ]  # fmt: skip
    assert [[cell.text for cell in row.cells] for row in shown.rows] == [
        ["bbr", "rate", "92.5 Mbit/s", "80 Mbit/s", "-13.5 %", "-13.5 %", "-15.8 % … -11.1 %",
         "0.0022", "6/6", "", "worse"],
        ["cubic", "rate", "92.5 Mbit/s", "91 Mbit/s", "-1.6 %", "-1.6 %", "", "1", "6/1", "",
         "cannot tell: about 8 runs on each side are needed"],
    ]  # fmt: skip


def test_a_change_that_is_not_that_of_the_medians_is_explained_beside_both(folders):
    comparison = folders({"bbr": [1e5, 1.1e5, 4e5]}, {"bbr": [1.702e5, 2e5, 2.1e5]})
    shown = comparepage.table(comparison, comparison.judged)
    assert [cell.text for cell in shown.rows[0].cells][:5] == [
        "rate", "110 Gbit/s", "200 Gbit/s", "+81.8 %", "+70.2 %",
    ]  # fmt: skip
    assert comparepage.summary(comparison)[0] == (
        "change is the median of all ratios of a run of new to a run of base (Hodges and Lehmann), "
        "not the ratio of the two medians, which is under `of medians`."
    )


def test_pairs_that_all_show_a_difference_which_is_not_proved_say_so():
    base = rows("exp,rep,rate", *(f"1.0,{run},{90 + run}" for run in range(4)))
    new = rows("exp,rep,rate", *(f"1.0,{run},{50 + run}" for run in range(4)))
    comparison = compare.compare_rows(base, new, CompareRequest(is_paired=True))
    assert [one.reason.partition(":")[0] for one in comparison.judged] == [
        "new of all 4 pairs is lower than base, which proves nothing yet"
    ]


def test_runs_that_a_warning_invalidates_are_left_out_unless_asked_for():
    head = "exp,rate,severity,warning"
    base = rows(head, *(f"{run}.0,9{run},affects,late" for run in range(6)))
    new = rows(head, *(f"{run}.0,9{run},," for run in range(6)), "6.0,10,invalidates,loopback")
    found = compare.compare_rows(base, new, CompareRequest())
    left_out = "1 run of new left out: a warning invalidates it (--with-invalid counts them)"
    assert (found.judged[0].runs, found.remarks) == (
        (6, 6),
        (
            "6 runs of base with warnings; the first, 0.0: late",
            f"{left_out}; the first, 6.0: loopback",
        ),
    )
    assert compare.compare_rows(base, new, CompareRequest(with_invalidated=True)).judged[
        0
    ].runs == (6, 7)


def test_the_page_tells_the_verdict_first_and_how_it_was_found(folders):
    html = comparepage.render(
        folders({"bbr": BASE, "cubic": BASE}, {"bbr": [1, 2, 3, 4, 5, 6], "cubic": [9]})
    )
    order = [
        "Worse: 1 of 2 comparisons",
        '<h2 id="worse"',
        '<h2 id="cannot-tell"',
        "<svg",
        '<h2 id="method"',
    ]
    assert sorted(order, key=html.index) == order
    assert "c-loss" in html


def test_a_plot_shows_each_change_with_its_interval_beside_the_threshold():
    def found(
        ca: str, part: float, interval: ConfidenceInterval | None, verdict: Verdict
    ) -> ComparedMeasure:
        change = RelativeChange(part, interval, 0.01, 0.01, 1)
        return ComparedMeasure(
            (ca,), "rate", (), (), (5, 5), (0, 0), change=change, verdict=verdict
        )

    judged = (
        found("bbr", -0.25, ConfidenceInterval(-0.5, -0.125), Verdict.WORSE),
        found("cubic", 0.01, None, Verdict.CANNOT_TELL),
    )
    (plot,) = comparepage.plots(Comparison("a", "b", ("ca",), 5.0, False, judged, (), (), ()))
    marks = {
        trace.label: [(mark.x, mark.low, mark.y, mark.high) for mark in trace.marks]
        for trace in plot.panels[0].traces
    }
    assert marks == {
        "cannot tell": [(1.0, None, 1.0, None)],
        "worse": [(0.0, -50.0, -25.0, -12.5)],
    }
    assert [(line.value, line.label) for line in plot.across] == [
        (0.0, ""), (5.0, "±5 %"), (-5.0, ""),
    ]  # fmt: skip


def test_the_page_has_a_plot_for_each_measure(folders):
    html = comparepage.render(folders({"bbr": BASE, "cubic": BASE}, {"bbr": BASE, "cubic": BASE}))
    assert html.count("<svg") == 1
    assert 'aria-label="rate: change from base to new"' in html


def test_the_page_is_named_after_the_folders(folders):
    assert "<h1>base and new: equivalent</h1>" in comparepage.render(
        folders({"bbr": BASE}, {"bbr": BASE})
    )


# ---- exit statuses -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "words", "exit_status", "verdict"),
    [
        ({"bbr": BASE}, (), 0, "Equivalent: "),
        ({"bbr": BASE}, ("--paired",), 0, "Equivalent: "),
        ({"bbr": BASE[:5]}, ("--paired",), 5, "Not comparable: "),
        ({"bbr": [2 * rate for rate in BASE]}, (), 0, "Better: "),
        ({"bbr": [rate / 2 for rate in BASE]}, (), 1, "Worse: "),
        ({"bbr": [90, 91]}, (), 4, "Cannot tell: "),
        ({"bbr": [90, 91]}, ("--lenient",), 0, "Cannot tell: "),
        ({"cubic": BASE}, (), 5, "Not comparable: "),
        ({"cubic": BASE}, ("--lenient",), 5, "Not comparable: "),
        ({"bbr": [95, *[""] * 7]}, ("--lenient",), 1, "Worse: "),
    ],
)
def test_the_exit_status_tells_the_verdict(status, new, words, exit_status, verdict):
    found, shown = status({"bbr": BASE}, new, *words)
    assert (found, shown.splitlines()[-1].startswith(verdict)) == (exit_status, True)


def test_nothing_in_common_is_said(status):
    _, shown = status({"bbr": BASE}, {"cubic": BASE})
    assert shown.splitlines()[-3:] == [
        "No experiment is in both folders: nothing was compared.",
        "1 experiment is in new only, and not compared.",
        "Not comparable: the only comparison could not be made.",
    ]


@pytest.mark.parametrize("word", ["nan", "inf", "-1", "5K", "x"])
def test_a_threshold_is_a_share(written, capsys, word):
    one, other = written({"bbr": BASE}, {"bbr": BASE})
    assert main(["compare", str(one), str(other), f"--threshold={word}"]) == 2
    assert f"{word!r} is not a share in percent; example: 5%" in capsys.readouterr().err


def test_a_run_with_damaged_data_is_no_failed_run_and_is_left_out(folders, tmp_path):
    whole = folders({"cubic": BASE}, {"cubic": BASE})
    table = tmp_path / "new" / "exp.csv"
    table.write_text(table.read_text() + "9.0,a,0,cubic,10mbit,new,,,damaged\n")
    found = compare.compare(tmp_path / "base", tmp_path / "new", CompareRequest())
    assert found.judged == whole.judged
    assert found.remarks == (
        "1 run of new left out: raw data damaged, see `netesto report`.",
        *whole.remarks,
    )


def test_where_all_runs_of_a_side_are_damaged_nothing_can_be_compared():
    base = rows(PAIRED, *(f"{rep}.0,{rep},9{rep},ok" for rep in range(4)))
    new = rows(PAIRED, *(f"{rep}.0,{rep},,damaged" for rep in range(4)))
    comparison = compare.compare_rows(base, new, CompareRequest())
    assert [(one.measure, one.verdict, one.reason) for one in comparison.judged] == [
        ("rate", Verdict.NOT_COMPARABLE, "the raw data of all runs of new are damaged")
    ]


def test_a_damaged_run_without_rep_does_not_shift_the_pairs():
    statuses = ["damaged", *["ok"] * 6]
    base = rows("exp,rate,status", *(f"1.0,{10 * run},{status}" for run, status in
                                     enumerate(reversed(statuses), start=1)))  # fmt: skip
    new = rows("exp,rate,status", *(f"1.0,{10 * run},{status}" for run, status in
                                    enumerate(statuses, start=1)))  # fmt: skip
    (one,) = compare.compare_rows(base, new, CompareRequest(is_paired=True)).judged
    assert (one.base, one.base) == ((20.0, 30.0, 40.0, 50.0, 60.0), one.new)
