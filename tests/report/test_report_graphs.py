import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from netesto.report import embed, graphs, palette, plots
from netesto.results import series
from results import samples

TWO = series.build(samples.two_flows())
MANY = series.build(samples.hundred_flows())
TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(scope="module")
def drawn():
    return plots.render(TWO)


@pytest.fixture(scope="module")
def crowd():
    return plots.render(MANY)


def texts(svg):
    return [each.text for each in ET.fromstring(svg).iter(TEXT)]


def test_sum_of_two_flows_is_zero_where_neither_is():
    flat = [([1.0, 2.0, 3.0], [10.0, 10.0, 10.0]), ([6.0, 7.0, 8.0], [4.0, 4.0, 4.0])]
    t, v = graphs.total(flat)
    assert (t[0], t[-1], max(v), v[0], v[-1], min(v)) == (0.5, 8.5, 10.0, 10.0, 4.0, 0.0)


def test_sum_adds_where_flows_meet():
    _, v = graphs.total([([1.0, 2.0, 3.0], [10.0] * 3), ([1.0, 2.0, 3.0], [4.0] * 3)])
    assert set(v) == {14.0}


def test_sum_of_nothing_is_nothing():
    assert graphs.total([([], []), ([1.0], [5.0])]) == ((), ())


def test_median_is_of_the_flows_that_run():
    short = ([2.0, 3.0], [100.0, 100.0])
    t, v = graphs.median([([1.0, 2.0, 3.0], [1.0] * 3), ([1.0, 2.0, 3.0], [3.0] * 3), short])
    assert (t, v) == ([1.0, 2.0, 3.0], [2.0, 3.0, 3.0])


def test_counts_of_several_flows_are_added_in_bins():
    each = [([1.0, 1.2, 1.4], [1.0, 0.0, 2.0]), ([1.3], [5.0])]
    t, v = graphs.counted(each, bin_s=0.5)
    assert (t, v) == ([1.0, 1.5], [1.0, 7.0])


def test_sum_has_no_more_points_than_can_be_seen():
    long = [(list(range(100_000)), [1.0] * 100_000)]
    assert len(graphs.total(long)[0]) == graphs.MAX_POINTS + 1


def test_legend_names_every_flow_of_a_few():
    assert [entry.label for entry in graphs.legend(TWO)] == [
        "cubic client1→server1 #1",
        "bbr client2→server1 #1",
    ]


def test_legend_names_groups_of_many_flows():
    assert [(entry.label, len(entry.flows)) for entry in graphs.legend(MANY)] == [
        ("cubic client1→server1, 25 flows", 25),
        ("bbr client2→server1, 25 flows", 25),
        ("reno client3→server1, 25 flows", 25),
        ("cubic client4→server1, 25 flows", 25),
    ]


def test_failed_flow_has_no_line_and_no_place_in_the_legend():
    found = series.build(samples.partial())
    assert ([e.flows for e in graphs.legend(found)], list(graphs.lines(graphs.RATES, found))) == (
        [(0,), (1,)],
        [0, 1],
    )


def test_looks_differ_for_32_lines():
    assert len({palette.look(place) for place in range(33)}) == 32


def test_graphs_tell_title_axes_and_flows_as_text(drawn):
    found = texts(drawn["rates"])
    wanted = [
        "Goodput", "Mbit/s", "seconds since the experiment began", "sum", "retransmission",
        "cubic client1→server1 #1", "bbr client2→server1 #1",
    ]  # fmt: skip
    assert [each for each in wanted if each not in found] == []


def test_the_same_series_gives_the_same_bytes(drawn):
    assert plots.render(TWO) == drawn


def test_delayed_flow_starts_where_it_started():
    t, _ = graphs.lines(graphs.RATES, TWO)[1][0]
    assert t[0] == pytest.approx(8.35, abs=0.01)


def test_single_flow_has_no_sum():
    drawn = plots.render(series.build(samples.request_reply()))
    assert '<g id="sum">' not in drawn["rates"]


def test_lines_of_many_flows_have_their_median(crowd):
    assert crowd["cwnd"].count('<g id="median-') == 4


def test_retransmissions_of_many_flows_are_counted_by_group(crowd):
    assert (crowd["retrans"].count('<g id="count-'), '<g id="flow-' in crowd["retrans"]) == (
        4,
        False,
    )


def test_sum_that_dwarfs_its_flows_has_its_own_axes(crowd):
    assert "Mbit/s each" in texts(crowd["rates"])


def test_every_line_tells_its_flow_to_a_pointer(drawn):
    assert "<title>bbr client2→server1 #1</title>" in drawn["cwnd"]


def test_host_called_like_a_formula_is_written_as_it_is():
    flow = replace(TWO.flows[0], host="$x^2$ <a>")
    svg = plots.render(replace(TWO, flows=(flow,)))["cwnd"]
    assert "cubic $x^2$ <a>→server1 #1" in texts(svg)


# ---- in a page -------------------------------------------------------------------------------


def test_picture_in_a_page_has_a_name_for_those_who_do_not_see_it(drawn):
    svg = embed.inline(drawn["cwnd"], name="cwnd", description='Window, "segments"')
    assert ET.fromstring(svg).attrib["aria-label"] == 'Window, "segments"'


def test_colours_of_a_picture_in_a_page_are_the_pages(drawn):
    svg = embed.inline(drawn["rates"], name="rates", description="")
    assert [color for color in (*palette.COLORS, palette.INK, palette.GRID) if color in svg] == []


def test_references_in_a_picture_find_their_names(drawn):
    svg = embed.inline(drawn["rates"], name="rates", description="")
    root = ET.fromstring(svg)
    names = {each.attrib["id"] for each in root.iter() if "id" in each.attrib}
    asked = {
        value[1:] for each in root.iter() for key, value in each.attrib.items() if "href" in key
    }
    assert (bool(asked), asked - names, {name[:6] for name in names}) == (True, set(), {"rates-"})


def test_lines_in_a_page_can_be_chosen_by_flow(drawn):
    svg = embed.inline(drawn["rates"], name="rates", description="")
    assert [svg.count(f'data-flow="{each}"') for each in ("0", "1", "sum")] == [2, 2, 1]
