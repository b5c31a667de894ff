import shutil
from pathlib import Path

import pytest

from netesto.errors import ScriptError
from netesto.report.expscript import dataset, overlays
from netesto.report.expscript.dataset import View
from netesto.report.expscript.options import Options
from netesto.results import series
from netesto.results.series import (
    CounterSeries,
    CpuSeries,
    FlowSeries,
    HostCounters,
    PingSeries,
    RateSeries,
    SocketSeries,
)

CSV = "exp,ca\n1.0,cubic\n1.1,cubic\n1.2,bbr\n2.0,bbr\n3.0,reno\n"


def flow(group: int, ca: str, *, status: str = "ok") -> FlowSeries:
    return FlowSeries(
        group=group, instance=0, test="TCP_STREAM", ca=ca, host="a", server="b", number=str(group),
        status=status, start_s=0.0, end_s=2.0,
        goodput=RateSeries(source="tool", time_s=(0.5, 1.5), mbit_per_s=(10.0 * group, 20.0))
        if status == "ok"
        else RateSeries(source=""),
        sockets=(
            SocketSeries(
                time_s=(0.5, 1.0), acked_mbit_per_s=(None, 9.0), cwnd=(10, 20), unacked=(5, 6),
                rtt_ms=(1.0, None), min_rtt_ms=(1.0, 1.0), retransmits=(None, 3),
            ),
        ),
    )  # fmt: skip


DRIPS = CounterSeries(
    name="drips",
    title="Drips",
    sentence="",
    units={"drops": "drops/s"},
    drawn=("drops",),
    hosts=(HostCounters(host="a", time_s=(1.0, 2.0), values={"drops": (None, 3.0)}),),
)


@pytest.fixture
def plan(tmp_path):
    """The lines over time, label and points, for the rows with these ids."""
    (tmp_path / "exp.csv").write_text(CSV)
    experiments = {
        1: (flow(1, "cubic"), flow(2, "bbr")),
        2: (flow(1, "bbr"), flow(2, "bbr", status="could not connect")),
    }
    for number, flows in experiments.items():
        (tmp_path / str(number)).mkdir()
        one = series.Series(
            exp=number, duration_s=2.0, flows=flows,
            pings=(PingSeries(group=1, host="a", server="b", time_s=(0.1,), rtt_ms=(40.0,)),),
            cpu=(CpuSeries(host="a", time_s=(0.0,), mean_percent=(5.0,), busiest_percent=(9.0,)),),
            counters=(DRIPS,),
        )  # fmt: skip
        series.write(one, tmp_path / str(number) / "series.json")
    view = View.of(dataset.load(Path(tmp_path / "exp.csv"), decimals=None, warn=pytest.fail))

    def planned(*rows: int, warn=pytest.fail, **options: str):
        chosen = View(view.data, view.rows[list(rows)], view.visible)
        return overlays.plan(chosen, Options({"plotY1": "rate", **options}, warn))

    return planned


def lines(plot) -> list[tuple[str, list[tuple[float, float]]]]:
    return [
        (trace.label, list(zip(*trace.points, strict=True)))
        for panel in plot.panels
        for trace in panel.traces
    ]


def test_a_whole_experiment_brings_all_its_flows(plan):
    assert lines(plan(0)) == [
        (flow(1, "cubic").label, [(0.5, 10), (1.5, 20)]),
        (flow(2, "bbr").label, [(0.5, 20), (1.5, 20)]),
    ]


def test_a_group_brings_its_own_flows(plan):
    assert [label for label, _ in lines(plan(2))] == [flow(2, "bbr").label]


def test_experiments_are_told_apart_and_failed_flows_have_no_line(plan):
    assert [label for label, _ in lines(plan(1, 3))] == [
        f"1: {flow(1, 'cubic').label}", f"2: {flow(1, 'bbr').label}",
    ]  # fmt: skip


def test_experiments_of_joined_files_with_the_same_number_are_told_apart(plan, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "1", other / "1")
    shutil.copy(tmp_path / "exp.csv", other)
    sources = {"old": tmp_path / "exp.csv", "new": other / "exp.csv"}
    view = View.of(dataset.join(sources, decimals=None, warn=pytest.fail))
    chosen = View(view.data, view.rows[[1, 6]], view.visible)
    plot = overlays.plan(chosen, Options({"plotY1": "rate"}, pytest.fail))
    label = flow(1, "cubic").label
    assert [label for label, _ in lines(plot)] == [
        f"{tmp_path}/1: {label}", f"{other}/1: {label}",
    ]  # fmt: skip


def test_series_give_their_label_to_all_their_lines(plan):
    plot = plan(1, 2, 3, plotSeries="ca;cubic=CUBIC,bbr=BBR")
    assert [label for label, _ in lines(plot)] == ["CUBIC", "BBR", "BBR"]
    assert plot.labels == (("CUBIC", 0), ("BBR", 1))


def test_panels_divide_the_lines(plan):
    plot = plan(1, 2, plotFacet="ca")
    assert [(panel.title, len(panel.traces)) for panel in plot.panels] == [("cubic", 1), ("bbr", 1)]


@pytest.mark.parametrize(
    ("quantity", "points"),
    [
        ("acked_rate", [(1.0, 9.0)]),
        ("cwnd", [(0.5, 10), (1.0, 20)]),
        ("rtt", [(0.5, 1.0)]),
        ("retrans", [(1.0, 3)]),
        ("ping", [(0.1, 40.0)]),
        ("cpu", [(0.0, 5.0)]),
    ],
)
def test_what_is_not_known_is_no_point(plan, quantity, points):
    ((_, found),) = lines(plan(1, plotY1=quantity))
    assert found == points


def test_counters_of_hosts_are_known_by_their_name(plan):
    plot = plan(0, plotY1="drips")
    assert (lines(plot), plot.left.title) == ([("a", [(2.0, 3.0)])], "Drips (drops/s)")


def test_an_experiment_without_series_is_reported(plan):
    told: list[str] = []
    assert plan(4, warn=told.append) is None
    assert [line.split(":")[0] for line in told] == ["doPlot", "doPlot"]
    assert told[1] == "doPlot: no series.json of the 1 selected rows has rate; there is no plot"


def test_a_quantity_that_there_is_not_is_an_error(plan):
    with pytest.raises(ScriptError, match="plotY1: 'speed' is not known over time"):
        plan(0, plotY1="speed")


def test_time_and_values_begin_at_0(plan):
    plot = plan(0, plotHLines="30=half")
    assert (plot.x.scale.low, plot.left.scale.low) == (0, 0)
    assert [line.label for line in plot.across] == ["half"]


def test_limits_and_steps_of_values_are_those_of_the_script(plan):
    def scale(**options: str):
        found = plan(0, **options).left.scale
        return found.low, found.high, [tick.label for tick in found.ticks]

    assert scale(Y1min="0") == scale() == (0, 22, [str(tick) for tick in range(2, 23, 2)])
    assert scale(Y1min="5", Y1max="15", Y1step="2.5") == (5, 15, ["7.5", "10", "12.5", "15"])


def crosses(plot) -> list[list[tuple[float, float]]]:
    return [
        list(zip(*trace.crosses, strict=True)) for panel in plot.panels for trace in panel.traces
    ]


def test_segments_sent_again_are_marked_on_the_line(plan):
    # The sample at 1.0 s reports three; the goodput is 10 at 0.5 s and 20 at 1.5 s.
    assert crosses(plan(1)) == [[(1.0, 15.0)]]
    assert crosses(plan(1, plotY1="cwnd")) == [[(1.0, 20.0)]]
    assert plan(1).remarks == ("Crosses: retransmissions.",)


@pytest.mark.parametrize("quantity", ["retrans", "minrtt", "ping", "cpu"])
def test_what_retransmissions_do_not_touch_has_no_marks(plan, quantity):
    plot = plan(1, plotY1=quantity)
    assert (crosses(plot)[0], plot.remarks) == ([], ())


def test_a_mark_is_not_put_where_the_line_is_not(plan):
    assert crosses(plan(1, plotY1="rtt")) == [[]]
