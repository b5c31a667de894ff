import pytest

from netesto.errors import UsageError
from netesto.report import compare, compareplots
from netesto.report.compare import Verdict
from netesto.report.compareplots import Change

HEADER = "exp,expName,group,ca,bw,host,rate,rtt,status\n"
BASE = [90, 91, 92, 93, 94, 95]


@pytest.fixture
def folders(tmp_path):
    """Two results folders from the rates of their runs, by congestion control."""

    def make(base: dict[str, list[object]], new: dict[str, list[object]], **options):
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
        return compare.compare(tmp_path / "base", tmp_path / "new", **options)

    return make


def verdicts(comparison) -> list[tuple[str, str, Verdict]]:
    return [(one.cell[1], one.measure, one.verdict) for one in comparison.differences]


def test_cells_are_what_was_asked_for(folders):
    assert folders({"bbr": BASE}, {"bbr": BASE}).factors == ("expName", "ca", "bw")


def test_equal_runs_do_not_differ(folders):
    comparison = folders({"bbr": BASE}, {"bbr": BASE})
    assert verdicts(comparison) == [("bbr", "rate", Verdict.SAME)]
    assert comparison.regressions == ()


def test_a_clear_loss_is_a_regression_and_a_clear_gain_is_none(folders):
    comparison = folders(
        {"bbr": BASE, "cubic": BASE},
        {"bbr": [rate - 20 for rate in BASE], "cubic": [rate + 20 for rate in BASE]},
    )
    assert verdicts(comparison) == [
        ("bbr", "rate", Verdict.WORSE), ("cubic", "rate", Verdict.BETTER),
    ]  # fmt: skip
    (lost,) = comparison.regressions
    assert (lost.base_mean, lost.new_mean, round(lost.change_percent, 1)) == (92.5, 72.5, -21.6)
    # Two comparisons: the least of 2/924 is doubled.
    assert lost.p == pytest.approx(4 / 924)


def test_a_difference_below_the_threshold_is_told_as_such(folders):
    new = {"bbr": [rate - 3 + rate / 1000 for rate in (90.1, 90.2, 90.3, 90.4, 90.5, 90.6)]}
    base = {"bbr": [90.1, 90.2, 90.3, 90.4, 90.5, 90.6]}
    assert verdicts(folders(base, new)) == [("bbr", "rate", Verdict.SMALL)]


def test_the_threshold_can_be_set(folders):
    new = {"bbr": [rate - 3 for rate in (90.1, 90.2, 90.3, 90.4, 90.5, 90.6)]}
    base = {"bbr": [90.1, 90.2, 90.3, 90.4, 90.5, 90.6]}
    assert verdicts(folders(base, new, threshold_percent=1)) == [("bbr", "rate", Verdict.WORSE)]


def test_three_runs_each_are_too_few_to_tell(folders):
    comparison = folders({"bbr": [90, 91, 92]}, {"bbr": [9, 10, 11]})
    assert verdicts(comparison) == [("bbr", "rate", Verdict.TOO_FEW)]


def test_runs_that_failed_are_no_zeros_and_losing_all_is_a_regression(folders):
    comparison = folders(
        {"bbr": [*BASE, ""], "cubic": BASE}, {"bbr": [*BASE, "", ""], "cubic": [""]}
    )
    assert verdicts(comparison) == [("bbr", "rate", Verdict.SAME), ("cubic", "rate", Verdict.LOST)]
    assert [one.failed for one in comparison.differences] == [(1, 2), (0, 1)]
    assert [one.cell[1] for one in comparison.regressions] == ["cubic"]


def test_cells_of_one_folder_alone_are_listed(folders):
    comparison = folders({"bbr": BASE, "reno": BASE}, {"bbr": BASE, "cubic": BASE})
    assert comparison.only_base == (("a", "reno", "10mbit"),)
    assert comparison.only_new == (("a", "cubic", "10mbit"),)


def test_the_page_tells_regressions_first_and_how_they_were_found(folders):
    html = compare.render(folders({"bbr": BASE}, {"bbr": [1, 2, 3, 4, 5, 6]}))
    assert html.index("Regressions") < html.index("All comparisons")
    assert "1 comparison: 1 worse." in html
    assert "c-loss" in html


def test_repetitions_of_a_sweep_are_repeats(tmp_path):
    for name in ("base", "new"):
        (tmp_path / name).mkdir()
        rows = "".join(f"{rep}.0,a,{rep},{90 + rep}\n" for rep in range(1, 7))
        (tmp_path / name / "exp.csv").write_text("exp,expName,rep,rate\n" + rows)
    (one,) = compare.compare(tmp_path / "base", tmp_path / "new").differences
    assert (one.cell, len(one.base), len(one.new)) == (("a",), 6, 6)


def test_cells_can_be_told_apart_by_chosen_columns(folders):
    comparison = folders({"bbr": BASE, "cubic": BASE}, {"bbr": BASE}, by=["bw"])
    assert comparison.factors == ("bw",)
    assert [(one.cell, len(one.base), len(one.new)) for one in comparison.differences] == [
        (("10mbit",), 12, 6)
    ]


def test_a_column_to_tell_apart_by_must_be_there(folders):
    with pytest.raises(UsageError, match="'speed' is not in both folders"):
        folders({"bbr": BASE}, {"bbr": BASE}, by=["speed"])


def test_runs_that_no_correction_lets_tell_are_too_few_and_it_is_told(folders):
    # Four against four: the least p, 2/70, is below 0.05 alone, and not twice.
    four, less = [90, 91, 92, 93], [50, 51, 52, 53]
    comparison = folders({"bbr": four, "cubic": four}, {"bbr": less, "cubic": less})
    assert [verdict for _, _, verdict in verdicts(comparison)] == [Verdict.TOO_FEW] * 2
    assert compare.summary(comparison) == (
        "2 comparisons: 2 too few runs to tell. For 2 comparisons a rank test needs 5 runs of each "
        "experiment on each side."
    )


def test_four_runs_tell_one_comparison(folders):
    comparison = folders({"bbr": [90, 91, 92, 93]}, {"bbr": [50, 51, 52, 53]})
    assert verdicts(comparison) == [("bbr", "rate", Verdict.WORSE)]


@pytest.mark.parametrize(
    ("base", "new", "verdict"),
    [
        ([94] * 6, [94] * 6, Verdict.SAME),
        ([94] * 6, [80] * 6, Verdict.WORSE),
        ([94], [80], Verdict.TOO_FEW),
        ([94, 95], [80, 81], Verdict.TOO_FEW),
    ],
)
def test_few_runs_and_equal_ones_are_judged(folders, base, new, verdict):
    assert verdicts(folders({"bbr": base}, {"bbr": new})) == [("bbr", "rate", verdict)]


def test_more_delay_is_worse(tmp_path):
    for name, start in (("base", 20), ("new", 40)):
        (tmp_path / name).mkdir()
        rows = "".join(f"{run}.0,{start + run}\n" for run in range(6))
        (tmp_path / name / "exp.csv").write_text("exp,rtt\n" + rows)
    (one,) = compare.compare(tmp_path / "base", tmp_path / "new").differences
    assert (one.measure, one.verdict) == ("rtt", Verdict.WORSE)


def test_a_plot_shows_each_change_with_its_interval_beside_the_threshold():
    changes = [
        Change("rate", "bbr", -20.0, "worse", low=-25.0, high=-15.0),
        Change("rate", "cubic", 1.0, "not told apart"),
    ]
    plot = compareplots.plan(changes, 5.0)
    points = {
        trace.label: [(mark.x, mark.low, mark.y, mark.high) for mark in trace.marks]
        for trace in plot.panels[0].traces
    }
    assert points == {
        "not told apart": [(1.0, None, 1.0, None)],
        "worse": [(0.0, -25.0, -20.0, -15.0)],
        "better": [],
    }
    assert [(line.position, line.label) for line in plot.across] == [
        (0.0, ""), (5.0, "±5 %"), (-5.0, ""),
    ]  # fmt: skip


def test_the_page_has_a_plot_for_each_measure(folders):
    html = compare.render(folders({"bbr": BASE, "cubic": BASE}, {"bbr": BASE, "cubic": BASE}))
    assert html.count("<svg") == 1
    assert 'aria-label="rate: change from base to new"' in html


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="there are no experiments in it"):
        compare.compare(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("measure", "message"), [("speed", "cannot be compared"), ("pingRtt", "not in both folders")]
)
def test_a_measure_must_be_known_and_there(folders, measure, message):
    with pytest.raises(UsageError, match=message):
        folders({"bbr": BASE}, {"bbr": BASE}, measures=[measure])


def test_the_page_is_named_after_the_folders(folders):
    assert "<h1>base and new</h1>" in compare.render(folders({"bbr": BASE}, {"bbr": BASE}))
