import pytest

from netesto.errors import UsageError
from netesto.report import compare
from netesto.report.compare import Verdict

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
