import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from netesto.measured import TAKEN
from netesto.report import drawing, graphs, looks, quantities, rendering
from netesto.report.context import Context, Reference
from netesto.report.figures import Shade
from netesto.report.quantities import RATE
from netesto.results import series
from results import samples

TWO = series.build(samples.two_flows())
PLAIN = Context()
TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(scope="module")
def drawn():
    return svgs(TWO)


@pytest.fixture(scope="module")
def many():
    return series.build(samples.hundred_flows())


@pytest.fixture(scope="module")
def crowd(many):
    return svgs(many)


def svgs(found, context=PLAIN):
    each = list(graphs.of(found, context))
    return dict(zip([graph.name for graph in each], drawing.draw(each), strict=True))


def graph(found, name, context=PLAIN):
    return next(each for each in graphs.of(found, context) if each.name == name)


def caption(found, name, context=PLAIN):
    return graph(found, name, context).caption


def texts(svg):
    return [each.text for each in ET.fromstring(svg).iter(TEXT)]


def test_legend_names_every_flow_of_a_few():
    assert [entry.label for entry in graphs.legend(TWO)] == [
        "cubic client1→server1 #1",
        "bbr client2→server1 #1",
    ]


def test_legend_names_groups_of_many_flows(many):
    assert [(entry.label, len(entry.flows)) for entry in graphs.legend(many)] == [
        ("cubic client1→server1, 25 flows", 25),
        ("bbr client2→server1, 25 flows", 25),
        ("reno client3→server1, 25 flows", 25),
        ("cubic client4→server1, 25 flows", 25),
    ]


def test_failed_flow_has_no_line_and_no_place_in_the_legend():
    found = series.build(samples.partial())
    lines = [len(quantities.flow_lines(RATE, flow)) for flow in found.flows]
    assert ([entry.flows for entry in graphs.legend(found)], lines) == ([(0,), (1,)], [1, 1, 0, 0])


def test_a_flow_that_was_killed_is_drawn_until_then_and_in_the_sum():
    killed = replace(TWO.flows[0], status="killed")
    found = replace(TWO, flows=(killed, TWO.flows[1]))
    assert [entry.label for entry in graphs.legend(found)] == [
        "cubic client1→server1 #1 (failed)",
        "bbr client2→server1 #1",
    ]
    assert graph(found, "rates").total == graph(TWO, "rates").total != ((), ())


def test_a_host_has_the_colour_of_the_flows_that_it_starts():
    hosts = [
        series.CpuSeries(host=host, time_s=(0.0,), mean_percent=(1.0,), busiest_percent=(1.0,))
        for host in ("client2", "server1", "client1")
    ]
    found = replace(TWO, cpu=tuple(hosts))
    colours = {line.label: line.look.color for line in graph(found, "cpu").lines}
    flows = [entry.look.color for entry in graphs.legend(TWO)]
    assert (colours["client1"], colours["client2"]) == (flows[0], flows[1])
    assert colours["server1"] not in flows


def test_looks_differ_for_32_lines():
    assert len({looks.of_line(place) for place in range(33)}) == 32


def test_graphs_tell_title_axes_and_flows_as_text(drawn):
    found = texts(drawn["rates"])
    wanted = [
        "Goodput, Mbit/s", "seconds since the experiment began", "sum", "retransmission",
        "cubic client1→server1 #1", "bbr client2→server1 #1",
    ]  # fmt: skip
    assert [each for each in wanted if each not in found] == []


def test_the_same_series_gives_the_same_bytes(drawn):
    assert svgs(TWO) == drawn


def test_delayed_flow_starts_where_it_started():
    t, _ = quantities.flow_lines(RATE, TWO.flows[1])[0].points
    assert t[0] == pytest.approx(8.35, abs=0.01)


def test_single_flow_has_no_sum():
    drawn = svgs(series.build(samples.request_reply()))
    assert '<g id="sum">' not in drawn["rates"]


def test_a_flow_without_goodput_over_time_is_reported_and_in_no_legend_of_it():
    silent = replace(TWO.flows[0], number="2.1", goodput=series.RateSeries(source=""))
    found = replace(TWO, flows=(*TWO.flows, silent))
    legends = [[entry.label for entry in graph(found, name).entries] for name in ("rates", "cwnd")]
    told = "their sum, without cubic client1→server1 #2.1: not known over time."
    assert (legends, told in caption(found, "rates"), "without" in caption(TWO, "rates")) == (
        [
            ["cubic client1→server1 #1", "bbr client2→server1 #1"],
            ["cubic client1→server1 #1", "bbr client2→server1 #1", "cubic client1→server1 #2.1"],
        ],
        True,
        False,
    )


def test_references_whose_labels_would_cover_each_other_have_one():
    rtts = (Reference(0.045, "base RTT 0.045 ms"), Reference(0.083, "base RTT 0.083 ms"),
            Reference(40.0, "base RTT 40 ms"))  # fmt: skip
    assert graph(TWO, "rtt", Context(base_rtts=rtts)).references == [
        Reference(0.045, "base RTT 0.045 ms, base RTT 0.083 ms"),
        Reference(0.083, ""),
        Reference(40.0, "base RTT 40 ms"),
    ]


def test_lines_of_many_flows_have_their_median(crowd):
    assert crowd["cwnd"].count('<g id="median-') == 4


def test_many_flows_of_a_group_are_a_band_and_no_lines(crowd):
    found = (crowd["cwnd"].count('<g id="band-'), crowd["cwnd"].count('<g id="flow-'))
    assert found == (4, 0)


def test_retransmissions_of_many_flows_are_counted_by_group(crowd):
    assert (crowd["retrans"].count('<g id="count-'), '<g id="flow-' in crowd["retrans"]) == (
        4,
        False,
    )


def test_sum_that_dwarfs_its_flows_has_its_own_axes(crowd):
    assert {"Sum of the flows' goodput, Mbit/s", "Each flow"} <= set(texts(crowd["rates"]))


def test_every_line_tells_its_flow_to_a_pointer(drawn):
    assert "<title>bbr client2→server1 #1</title>" in drawn["cwnd"]


def test_host_called_like_a_formula_is_written_as_it_is():
    flow = replace(TWO.flows[0], host="$x^2$ <a>")
    svg = svgs(replace(TWO, flows=(flow,)))["cwnd"]
    assert "cubic $x^2$ <a>→server1 #1" in texts(svg)


def test_a_sum_above_the_link_is_explained():
    link = Context(capacities=(Reference(50.0, "bottleneck 50 Mbit/s"),))
    assert "A rate above the link's is not an error" in caption(TWO, "rates", link)


def test_a_sum_below_the_link_is_not():
    link = Context(capacities=(Reference(500.0, "bottleneck 500 Mbit/s"),))
    assert "A rate above" not in caption(TWO, "rates", link)


def test_capacity_and_base_rtt_are_lines_of_their_graphs():
    limits = Context(
        capacities=(Reference(100.0, "bottleneck 100 Mbit/s"),),
        base_rtts=(Reference(40.0, "base RTT 40 ms"),),
    )
    drawn = svgs(TWO, limits)
    told = {
        name: [each for each in texts(svg) if each in {"bottleneck 100 Mbit/s", "base RTT 40 ms"}]
        for name, svg in drawn.items()
    }
    assert told == {
        "rates": ["bottleneck 100 Mbit/s"],
        "acked_rate": ["bottleneck 100 Mbit/s"],
        "cwnd": [],
        "unacked": [],
        "rtt": ["base RTT 40 ms"],
        "minrtt": ["base RTT 40 ms"],
        "retrans": [],
        "ping": ["base RTT 40 ms"],
        "cpu": [],
    }


def test_capacity_far_above_what_was_measured_does_not_press_the_lines_to_the_floor():
    limits = Context(capacities=(Reference(1e5, "bottleneck 100 Gbit/s"),))
    assert "bottleneck 100 Gbit/s" not in texts(svgs(TWO, limits)["rates"])


def test_the_time_with_both_flows_is_shaded():
    assert graph(TWO, "cwnd").shades == [Shade(8.251, 16.251, 1.0)]


def test_pings_have_a_line_for_each_pair_of_hosts():
    found = graph(TWO, "ping")
    assert [entry.label for entry in found.entries] == ["client1→server1", "client2→server1"]


def test_cpus_of_a_lab_are_reported_once():
    found = graph(TWO, "cpu", Context(one_machine=True))
    assert [entry.label for entry in found.entries] == ["this machine, all hosts of the lab"]


def test_cpus_of_machines_are_reported_for_each():
    found = graph(TWO, "cpu")
    assert [entry.label for entry in found.entries] == ["client1", "client2", "server1"]


def test_simulated_time_has_no_graph_of_cpus():
    assert "cpu" not in svgs(TWO, Context(simulated=True))


# ---- in a page -------------------------------------------------------------------------------


def test_of_many_hosts_those_that_retransmitted_most_are_drawn():
    hosts = tuple(
        series.HostCounters(
            host=f"h{number}",
            time_s=(1.0, 2.0),
            values={"sent": (0.0, float(number)), "lost": (0.0, 0.0)},
        )
        for number in range(1, 10)
    )
    counted = series.CounterSeries(
        name="tcp", title="Sent", sentence="", units={"sent": "/s"}, drawn=("sent", "lost"),
        hosts=hosts,
    )  # fmt: skip
    drawn = graph(replace(TWO, counters=(counted,)), "tcp")
    assert [line.label for line in drawn.lines] == [f"h{number}" for number in range(9, 1, -1)]
    assert "The 8 with most are shown." in drawn.caption


def test_counters_cannot_have_the_name_of_another_graph():
    assert quantities.QUANTITIES.keys() - {*TAKEN} == set()


def test_frames_that_links_lost_are_strokes_on_the_time_axes_of_their_flows():
    first, second = TWO.flows
    found = replace(TWO, flows=(replace(first, lost_s=(1.5, 2.25)), second))
    [strokes] = graph(found, "cwnd").losses
    assert (strokes.label, strokes.look, [*strokes.time_s]) == (
        "cubic client1→server1 #1", graphs.legend(found)[0].look, [1.5, 2.25],
    )  # fmt: skip
    assert "Strokes on the time axis" in caption(found, "cwnd")
    assert [each.losses for each in graphs.of(found, PLAIN) if each.name == "ping"] == [[]]
    drawn = svgs(found)["cwnd"]
    assert "frames of cubic client1→server1 #1 that a link lost" in drawn
    assert "frame lost" in texts(drawn)
    # Chosen with the lines of the flow.
    page = rendering.inline(drawn, name="cwnd", description="")
    assert page.count('data-flow="0"') == svgs_of_flow(TWO) + 1


def svgs_of_flow(found):
    return rendering.inline(svgs(found)["cwnd"], name="cwnd", description="").count('data-flow="0"')


def test_picture_in_a_page_has_a_name_for_those_who_do_not_see_it(drawn):
    svg = rendering.inline(drawn["cwnd"], name="cwnd", description='Window, "segments"')
    assert ET.fromstring(svg).attrib["aria-label"] == 'Window, "segments"'


def test_colours_of_a_picture_in_a_page_are_the_pages(drawn):
    svg = rendering.inline(drawn["rates"], name="rates", description="")
    assert [color for color in (*looks.COLORS, looks.INK, looks.GRID) if color in svg] == []


def test_references_in_a_picture_find_their_names(drawn):
    svg = rendering.inline(drawn["rates"], name="rates", description="")
    root = ET.fromstring(svg)
    names = {each.attrib["id"] for each in root.iter() if "id" in each.attrib}
    asked = {
        value[1:] for each in root.iter() for key, value in each.attrib.items() if "href" in key
    }
    assert (bool(asked), asked - names, {name[:6] for name in names}) == (True, set(), {"rates-"})


def test_lines_in_a_page_can_be_chosen_by_flow(drawn):
    svg = rendering.inline(drawn["rates"], name="rates", description="")
    assert [svg.count(f'data-flow="{each}"') for each in ("0", "1", "sum")] == [2, 2, 1]


def test_changed_settings_are_upright_lines_with_the_numbers_of_the_table():
    changes = (Reference(2.0, "router: qdisc r: tbf rate 5mbit"), Reference(1e9, "after the flows"))
    found = svgs(TWO, Context(changes=changes))["rates"]
    shown = graph(TWO, "rates", Context(changes=changes))
    assert (
        'id="change-1"><title>router: qdisc r: tbf rate 5mbit</title>' in found.replace("\n", ""),
        "1" in texts(found),
        shown.changes,
        shown.caption.endswith(
            "Upright lines show when settings were changed: 1 in the table of settings."
        ),
    ) == (True, True, [changes[0]], True)
