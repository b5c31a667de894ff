from collections.abc import Callable
from pathlib import Path

import pytest

from netesto.errors import ScriptError
from netesto.report.context import Reference
from netesto.report.expscript import dataset, plotplan
from netesto.report.expscript.dataset import View
from netesto.report.expscript.options import Options
from netesto.report.figures import Plot

CSV = """\
exp,ca,n,bw,rate,rtt,ratio
1.0,cubic,1,10mbit,10,1000,1.5
2.0,cubic,2,10mbit,20,2000,1.6
3.0,bbr,1,10mbit,40,3000,1.7
4.0,bbr,2,100mbit,30,4000,1.8
"""


@pytest.fixture
def plan(tmp_path) -> Callable[..., Plot]:
    """The plot of CSV with these options, xUniform unless told otherwise."""

    def planned(csv: str = CSV, warn: Callable[[str], None] = pytest.fail, **options: str) -> Plot:
        path = Path(tmp_path / "exp.csv")
        path.write_text(csv)
        view = View.of(dataset.load(path, decimals=None, warn=pytest.fail))
        wanted = {"plotX": "n", "plotY1": "rate", **options}
        plot = plotplan.plan(view, Options(wanted, warn))
        assert plot is not None
        return plot

    return planned


def values(plot: Plot) -> dict[str, list[tuple[float, float]]]:
    """The points of each series of the first panel, rounded."""
    return {
        trace.label: [(round(mark.x, 3), round(mark.y, 3)) for mark in trace.marks]
        for trace in plot.panels[0].traces
    }


def labels(axis) -> list[str]:
    return [tick.label for tick in axis.scale.ticks]


# ---- series and X ------------------------------------------------------------------------


def test_bars_of_one_x_stand_beside_each_other(plan):
    plot = plan(plotSeries="ca", xUniform="on")
    assert values(plot) == {"cubic": [(-0.2, 10), (0.8, 20)], "bbr": [(0.2, 40), (1.2, 30)]}
    assert plot.bar_width == pytest.approx(0.35)


def test_series_are_in_the_order_of_their_first_row(plan):
    assert list(plan(plotSeries="ca").labels) == [("cubic", 0), ("bbr", 1)]


def test_listed_series_come_in_the_order_of_the_list_with_labels(plan):
    plot = plan(plotSeries="ca;bbr=BBR v1,cubic")
    assert list(plot.labels) == [("BBR v1", 0), ("cubic", 1)]


def test_rows_without_a_series_are_one_that_says_so(plan):
    csv = "exp,ca,n,rate\n1.0,cubic,1,10\n2.0,,1,20\n"
    assert list(plan(csv=csv, plotSeries="ca").labels) == [("cubic", 0), ("(no ca)", 1)]


def test_a_list_of_no_series_lists_none(plan):
    assert list(plan(plotSeries="ca;").labels) == [("cubic", 0), ("bbr", 1)]


def test_series_that_are_not_listed_count_for_y_and_not_for_x(plan):
    csv = CSV + "5.0,reno,8,1gbit,95,1,1\n"
    plot = plan(csv=csv, plotSeries="ca;cubic", xUniform="on")
    assert labels(plot.x) == ["1", "2"]
    assert labels(plot.left)[-1] == "100"


def test_an_unknown_series_column_means_no_series_and_is_reported(plan):
    told: list[str] = []
    plot = plan(plotSeries="caa", warn=told.append, xUniform="on", plotX="rate")
    assert [trace.label for trace in plot.panels[0].traces] == [""]
    assert told == ["plotSeries: no column 'caa', there are no series; did you mean 'ca'?"]


def test_categories_are_sorted_by_number_and_labelled_as_written(plan):
    csv = "exp,n,rate\n1.0,16.0,1\n2.0,2.0,2\n3.0,4,3\n"
    assert labels(plan(csv=csv, xUniform="on").x) == ["2.0", "4", "16.0"]


def test_texts_are_categories_sorted_as_texts(plan):
    csv = "exp,n,rate\n1.0,10mbit,1\n2.0,100mbit,2\n3.0,5mbit,3\n"
    assert labels(plan(csv=csv).x) == ["100mbit", "10mbit", "5mbit"]
    assert labels(plan(csv=csv, plotXOrder="natural").x) == ["5mbit", "10mbit", "100mbit"]
    assert labels(plan(csv=csv, plotXOrder="selection").x) == ["10mbit", "100mbit", "5mbit"]


def test_the_natural_order_knows_units(plan):
    csv = "exp,n,rate\n1.0,1gbit,1\n2.0,10mbit,2\n3.0,100mbit,3\n4.0,1.5gbit,3\n"
    natural = plan(csv=csv, plotXOrder="natural")
    assert labels(natural.x) == ["10mbit", "100mbit", "1gbit", "1.5gbit"]


def test_the_natural_order_knows_units_within_texts_and_versions(plan):
    texts = ["fq 1s", "fq 20ms", "v6.12", "v6.2", "fq 3x"]
    csv = "exp,n,rate\n" + "".join(f"{i}.0,{text},1\n" for i, text in enumerate(texts))
    ordered = ["fq 20ms", "fq 1s", "fq 3x", "v6.2", "v6.12"]
    assert labels(plan(csv=csv, plotXOrder="natural").x) == ordered


def test_sizes_are_numbers_of_x(plan):
    csv = "exp,n,rate\n1.0,1K,1\n2.0,2000,2\n3.0,4K,3\n"
    assert values(plan(csv=csv)) == {"": [(1000, 1), (2000, 2), (4000, 3)]}


def test_a_listed_series_is_found_as_a_number_too(plan):
    csv = "exp,req,n,rate\n1.0,1000000.0,1,10\n2.0,64K,1,20\n"
    plot = plan(csv=csv, plotSeries="req;64000=small,1M=large")
    assert values(plot) == {"small": [(0.8, 20)], "large": [(1.2, 10)]}


def test_numbers_are_spaced_as_they_are(plan):
    csv = "exp,n,rate\n1.0,1,1\n2.0,2,2\n3.0,4,3\n"
    plot = plan(csv=csv)
    assert values(plot) == {"": [(1, 1), (2, 2), (4, 3)]}
    assert plot.bar_width == pytest.approx(0.7)


@pytest.mark.parametrize("off", ["off", "Off"])
def test_only_off_switches_uniform_x_off(plan, off):
    csv = "exp,n,rate\n1.0,1,1\n2.0,4,2\n"
    assert values(plan(csv=csv, xUniform=off)) == {"": [(1, 1), (4, 2)]}
    assert values(plan(csv=csv, xUniform="")) == {"": [(0, 1), (1, 2)]}


def test_far_numbers_stand_on_a_logarithmic_axis(plan):
    csv = "exp,n,rate\n1.0,1,1\n2.0,10,2\n3.0,1000,3\n"
    plot = plan(csv=csv)
    assert values(plot) == {"": [(0, 1), (1, 2), (3, 3)]}
    assert labels(plot.x) == ["1", "10", "100", "1000"]


def test_one_number_is_a_plot_too(plan):
    plot = plan(csv="exp,n,rate\n1.0,5,1\n2.0,5,\n")
    assert (values(plot), labels(plot.x)) == ({"": [(5, 1)]}, ["5"])


def test_rows_without_x_or_numbers_are_not_drawn(plan):
    csv = "exp,n,rate\n1.0,1,1\n2.0,,2\n3.0,3,\n4.0,4,*\n5.0,5, \n6.0,6,nan\n7.0,7,7\n"
    assert values(plan(csv=csv, xUniform="on")) == {"": [(0, 1), (1, 7)]}


def test_nothing_to_draw_is_reported(run):
    outcome = run("File=exp\nplotX=note\nplotY1=expName\ndoPlot")
    assert outcome.notes == ["No row can be drawn: there is no plot."]
    assert outcome.warnings == [
        "my.exp:4: doPlot: none of 5 selected rows has numbers in expName; there is no plot"
    ]


def test_a_plot_without_x_is_reported(run):
    outcome = run("File=exp\nplotY1=rate\ndoPlot")
    assert outcome.warnings == [
        "my.exp:3: doPlot: plotX and plotY1 must be given; there is no plot"
    ]


def test_an_unknown_column_of_a_plot_is_an_error(run):
    with pytest.raises(ScriptError, match="doPlot: no column 'speed'"):
        run("File=exp\nplotX=ca\nplotY1=speed\ndoPlot")


def test_numbers_beyond_all_measure_are_not_drawn(plan):
    csv = "exp,n,rate\n1.0,1,1e308\n2.0,2,-1e308\n3.0,3,7\n4.0,1e-320,8\n"
    assert values(plan(csv=csv, xUniform="on")) == {"": [(1, 7), (0, 8)]}


def test_overlapping_bars_are_reported(plan):
    told: list[str] = []
    plan(plotX="ca", warn=told.append)
    assert told == [
        (
            "doPlot: 2 bars overlap another of the same series and X; select fewer rows, "
            "use Average, or plotRepeats=mean"
        )
    ]


# ---- Y -----------------------------------------------------------------------------------


def test_a_unit_divides_the_values_and_names_itself(plan):
    plot = plan(plotY1="rtt", plotSeries="ca", Y1Units="1=us,1000=ms,1000000=secs")
    assert plot.left.title == "rtt (ms)"
    assert values(plot)["bbr"][1][1] == 4


def test_a_divisor_multiplies_with_the_unit_chosen_from_whole_values(plan):
    plot = plan(plotY1="rtt", plotSeries="ca", Y1div="10", Y1Units="1000=ms")
    assert (plot.left.title, values(plot)["bbr"][1][1]) == ("rtt (ms)", 0.4)


def test_an_empty_divisor_divides_nothing(plan):
    assert values(plan(plotSeries="ca", Y1div=""))["bbr"][1][1] == 30


@pytest.mark.parametrize("divisor", ["0", "1e-320"])
def test_a_divisor_of_nothing_is_reported(plan, divisor):
    told: list[str] = []
    plot = plan(plotSeries="ca", Y1div=divisor, warn=told.append)
    assert values(plot)["bbr"][1][1] == 30
    assert told == [f"Y1div: cannot divide by {float(divisor):g}; it is ignored"]


def test_the_right_axis_has_its_own_divisor(plan):
    plot = plan(plotSeries="ca", plotY2="rtt", Y2div="1000")
    assert plot.panels[0].traces[1].marks[1].right == (4,)
    assert plot.right is not None
    assert labels(plot.right) == ["2", "3", "4", "5"]


def test_the_right_axis_keeps_its_range_in_its_unit(plan):
    plot = plan(plotSeries="ca", plotY2="rtt", Y2Units="1=us,1000=ms")
    assert plot.right is not None
    assert (plot.right.title, labels(plot.right)) == ("rtt (ms)", ["2", "3", "4", "5"])


def test_a_second_right_column_shares_the_right_axis(plan):
    plot = plan(plotSeries="ca", plotY2="ratio,n")
    assert plot.panels[0].traces[0].marks[1].right == (1.6, 2)


def test_equal_axes_have_the_range_of_both(plan):
    plot = plan(plotSeries="ca", plotY2="ratio", Y1eqY2="on")
    assert plot.right is not None
    assert plot.left.scale == plot.right.scale
    assert plot.left.scale.low == 0


@pytest.mark.parametrize(
    ("units", "left", "right"),
    [
        ({"Y1Units": "1=us,1000=ms"}, ["2", "4", "6", "8", "10", "12"],
         ["2K", "4K", "6K", "8K", "10K", "12K"]),
        ({"Y2Units": "1=us,1000=ms"}, ["2K", "4K", "6K", "8K", "10K", "12K"],
         ["2", "4", "6", "8", "10", "12"]),
        ({"Y1Units": "1000=ms", "Y2Units": "1000=ms"}, ["2", "4", "6", "8", "10", "12"],
         ["2", "4", "6", "8", "10", "12"]),
    ],
)  # fmt: skip
def test_on_equal_axes_equal_values_are_equally_high_in_any_unit(plan, units, left, right):
    csv = "exp,n,a,b\n1.0,1,500,11000\n2.0,2,11500,1000\n"
    plot = plan(csv=csv, plotY1="a", plotY2="b", Y1eqY2="on", **units)
    assert plot.right is not None
    assert (labels(plot.left), labels(plot.right)) == (left, right)
    divisor = 1000 if "Y1Units" in units else 1
    assert plot.left.scale.high * divisor == 12000


def test_a_divisor_makes_another_value_for_equal_axes(plan):
    plot = plan(plotSeries="ca", plotY1="rtt", Y1div="100", plotY2="rate", Y1eqY2="on")
    assert plot.right is not None
    assert plot.left.scale == plot.right.scale
    assert plot.right.scale.high == 50


def test_y1min_and_y1max_bound_the_axis_in_shown_units(plan):
    plot = plan(plotY1="rtt", plotSeries="ca", Y1Units="1000=ms", Y1min="0", Y1max="4")
    assert (plot.left.scale.low, plot.left.scale.high, labels(plot.left)) == (
        0, 4, ["1", "2", "3", "4"],
    )  # fmt: skip


def test_what_is_no_number_is_reported_and_left_out(plan):
    told: list[str] = []
    plan(plotSeries="ca", Y1min="low", warn=told.append)
    assert told == ["Y1min: 'low' is not a number and is ignored"]


def test_a_wide_range_is_logarithmic_unless_switched_off(plan):
    csv = "exp,n,rate\n1.0,1,1\n2.0,2,5000\n"
    assert plan(csv=csv).left.scale.is_log
    assert not plan(csv=csv, Y1LogScale="Off").left.scale.is_log
    assert plan(csv=csv, Y1LogScale="off").left.scale.is_log


# ---- titles and notes --------------------------------------------------------------------


def test_titles_have_defaults(plan):
    plot = plan(plotSeries="ca", plotY2="ratio")
    assert plot.titles == ("Plot of rate and ratio",)
    assert (plot.x.title, plot.left.title, plot.right and plot.right.title) == (
        "n",
        "rate",
        "ratio",
    )


def test_a_title_names_every_column_of_its_axis(plan):
    plot = plan(plotSeries="ca", plotY1="rate,n,rtt", plotY2="ratio,exp")
    assert plot.right is not None
    assert (plot.left.title, plot.right.title) == ("rate and n and rtt", "ratio and exp")
    assert plot.right_names == ("ratio", "exp")


def test_a_third_column_of_the_right_axis_is_reported(plan):
    told: list[str] = []
    plan(plotSeries="ca", plotY2="ratio,n,rtt", warn=told.append)
    assert told == ["plotY2: the first is drawn as diamonds, the second as lines; not rtt"]


def test_a_title_has_subtitles_and_no_empty_parts(plan):
    assert plan(plotSeries="ca", plotTitle="A||b|c)").titles == ("A", "b", "c)")


def test_plotpercent_tells_the_change_from_the_first_series(plan):
    plot = plan(plotSeries="ca", PlotPercent="Vertical")
    notes = [[mark.note for mark in trace.marks] for trace in plot.panels[0].traces]
    assert notes == [["", ""], ["+300.0%", "+50.0%"]]
    assert plot.style.vertical_notes


def test_plotratio_tells_y2_over_y1_and_can_be_switched_off(plan):
    plot = plan(plotSeries="ca", plotY2="rtt", PlotRatio="Horizontal")
    assert [mark.note for mark in plot.panels[0].traces[1].marks] == ["75.00", "133.33"]
    plot = plan(plotSeries="ca", plotY2="rtt", PlotRatio="Off")
    assert [mark.note for mark in plot.panels[0].traces[1].marks] == ["", ""]


def test_bars_that_do_not_begin_at_0_say_so(plan):
    assert plan(plotSeries="ca", plotY1="rtt").remarks == (
        "Bars begin at 1000, not at 0; Y1min=0 makes their lengths comparable.",
    )
    assert plan(plotSeries="ca", plotY1="rtt", Y1min="0").remarks == ()


# ---- what is new -------------------------------------------------------------------------


def test_several_y1_are_series_of_their_own(plan):
    plot = plan(plotY1="rate,ratio", plotSeries="ca")
    assert [label for label, _ in plot.labels] == [
        "cubic, rate", "bbr, rate", "cubic, ratio", "bbr, ratio",
    ]  # fmt: skip


def test_repeats_become_their_mean_with_an_interval(plan):
    plot = plan(plotX="ca", plotRepeats="mean")
    cubic, bbr = plot.panels[0].traces[0].marks
    assert (bbr.y, cubic.y) == (35, 15)
    # t(0.975, 1) = 12.7062, s / sqrt(2) = 5
    assert (round(bbr.low or 0, 2), round(bbr.high or 0, 2)) == (-28.53, 98.53)


@pytest.mark.parametrize(
    ("how", "remark"),
    [
        ("mean", " with its 95 % interval (Student's t: of values that are normally distributed)."),
        ("median", "; 2 of 2 have fewer than 6 runs, and no interval."),
    ],
)
def test_the_plot_says_what_an_interval_is_and_why_there_is_none(plan, how, remark):
    assert plan(plotX="ca", plotRepeats=how, Y1min="0").remarks == (
        f"Repeats are shown as their {how}{remark}",
    )


def test_error_bars_come_from_one_column_or_two(plan):
    half = plan(plotSeries="ca", Y1Error="n").panels[0].traces[0].marks[1]
    ends = plan(plotSeries="ca", Y1Error="n,rtt").panels[0].traces[0].marks[1]
    assert ((half.low, half.high), (ends.low, ends.high)) == ((18, 22), (2, 2000))


def test_stacked_bars_stand_on_each_other(plan):
    plot = plan(plotType="stacked", plotSeries="ca", xUniform="on")
    bases = [[(mark.base, mark.y) for mark in trace.marks] for trace in plot.panels[0].traces]
    assert bases == [[(0, 10), (0, 20)], [(10, 40), (20, 30)]]
    assert (plot.left.scale.low, labels(plot.left)[-1]) == (0, "60")


def test_lines_go_from_left_to_right(plan):
    csv = "exp,n,rate\n1.0,4,1\n2.0,1,2\n"
    assert values(plan(csv=csv, plotType="line")) == {"": [(1, 2), (4, 1)]}


def test_a_cdf_tells_the_share_at_or_below(plan):
    csv = "exp,rate\n1.0,4\n2.0,1\n3.0,4\n4.0,2\n"
    plot = plan(csv=csv, plotType="cdf", plotX="")
    assert values(plot) == {"": [(1, 0.25), (2, 0.5), (4, 0.75), (4, 1)]}
    assert plot.x.title == "rate"


def test_a_box_has_quartiles_whiskers_and_outliers(plan):
    csv = "exp,n,rate\n" + "".join(f"{i}.0,1,{value}\n" for i, value in enumerate([1, 2, 3, 4, 50]))
    (box,) = plan(csv=csv, plotType="box").panels[0].traces[0].boxes
    found = [box.stats[name] for name in ("whislo", "q1", "med", "q3", "whishi")]
    assert (found, box.stats["fliers"].tolist()) == ([1, 2, 3, 4, 4], [50])


def test_panels_share_their_scales(plan):
    plot = plan(plotSeries="ca", plotFacet="bw", xUniform="on")
    assert [panel.title for panel in plot.panels] == ["10mbit", "100mbit"]
    drawn = [[len(trace.marks) for trace in panel.traces] for panel in plot.panels]
    assert drawn == [[2, 1], [0, 1]]


def test_a_panel_of_a_number_is_named_after_its_column_too(plan):
    plot = plan(csv="exp,loss,rate\n1.0,0,5\n2.0,0.5,4\n", plotX="exp", plotFacet="loss")
    assert [panel.title for panel in plot.panels] == ["loss = 0", "loss = 0.5"]


def test_repeats_that_do_not_differ_are_reported(plan):
    csv = "exp,ca,rate\n1.0,cubic,5\n2.0,cubic,5\n3.0,bbr,4\n4.0,bbr,6\n"
    plot = plan(csv=csv, plotX="ca", plotRepeats="mean")
    (remark,) = plot.remarks
    assert remark.partition("; ")[2] == (
        "the runs of 1 of 2 do not differ, so their interval is 0."
    )


def test_reference_lines_have_places_and_labels(plan):
    plot = plan(plotSeries="ca", plotHLines="25=fair share, 50", plotVLines="2", xUniform="on")
    assert plot.across == (Reference(25, "fair share"), Reference(50, ""))
    assert plot.upright == (Reference(1, ""),)


def test_a_reference_line_stands_at_the_category_of_boxes(plan):
    assert plan(plotType="box", plotVLines="2=twice").upright == (Reference(1, "twice"),)


def test_a_reference_line_without_a_place_is_reported(plan):
    told: list[str] = []
    plan(plotSeries="ca", plotHLines="high", warn=told.append)
    assert told == ["plotHLines: 'high' is outside the axis and is ignored"]


@pytest.mark.parametrize(
    ("option", "value"), [("plotType", "pie"), ("plotLegend", "left"), ("plotPalette", "loud")]
)
def test_a_choice_that_there_is_not_is_an_error(plan, option, value):
    with pytest.raises(ScriptError, match=f"{option}: invalid value '{value}'"):
        plan(plotSeries="ca", **{option: value})


def test_a_size_that_cannot_be_drawn_is_an_error(plan):
    with pytest.raises(ScriptError, match="cannot be drawn"):
        plan(plotSeries="ca", plotXSize="0")
