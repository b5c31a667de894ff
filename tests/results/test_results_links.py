"""The load of links of a lab, from hand-made samples."""

from ipaddress import ip_address
from pathlib import Path

from netesto.links.routed import RoutedFlow
from netesto.measured import CounterSamples, InstalledQdisc, LinkSamples
from netesto.results import carried, fields, links
from netesto.results.links import LinkRecord, Links, Way
from results import samples

RECORD = LinkRecord(
    link="a-b", source="a", destination="b", place="links/a-b", rate_bps=1_000_000.0
)
QDISC = InstalledQdisc(
    device="a-b", kind="netem", handle="1:", parent="root", rate_bps=1e6, is_lossless=True
)
BELOW = InstalledQdisc(
    device="a-b", kind="pfifo", handle="2:", parent="1:1", rate_bps=None, is_lossless=False
)
TIMES = (9.9, 10.4, 10.9, 11.4, 11.9)


def counted(**columns: tuple[int | None, ...]) -> CounterSamples:
    return CounterSamples(TIMES, columns)


SHAPED = LinkSamples(
    qdiscs={
        QDISC: counted(
            bytes=(1000, 21000, 41000, 41000, 42000),
            packets=(10, 30, 50, 50, 51),
            drops=(2, 3, 3, 4, 4),
            marks=(None,) * 5,
        ),
        BELOW: counted(bytes=(0,) * 5, packets=(0,) * 5, drops=(2, 3, 3, 4, 4), marks=(None,) * 5),
    },
    interfaces={
        "a-b": counted(
            tx_bytes=(900, 20900, 40900, 40900, 41900),
            tx_packets=(10, 30, 50, 50, 51),
            rx_bytes=(0, 100, 200, 300, 400),
            rx_packets=(0, 1, 2, 3, 4),
        )
    },
)


def test_a_link_counts_from_before_the_first_start_to_behind_the_last_end() -> None:
    load = links.load(RECORD, SHAPED)
    [found] = Links(loads=(load,), busy=(10.0, 11.0)).traffic
    # From 9.9 to 11.4 s: 40,000 bytes in 1.5 s of 1 Mbit/s.
    assert found.cells == (
        *("a-b", "a", "b"), "1000000", "40000", "40", "2", "", "0.213333",
    )  # fmt: skip


def test_drops_of_a_queue_below_its_shaper_count_once() -> None:
    load = links.load(RECORD, SHAPED)
    assert load.drops == (0, 1, 1, 2, 2)


def test_of_two_samples_at_one_instant_the_last_counts() -> None:
    def twice(each: CounterSamples) -> CounterSamples:
        columns = {name: (column[0], *column) for name, column in each.counts.items()}
        return CounterSamples((each.time_s[0], *each.time_s), columns)

    doubled = LinkSamples(
        qdiscs={qdisc: twice(each) for qdisc, each in SHAPED.qdiscs.items()},
        interfaces={"a-b": twice(SHAPED.interfaces["a-b"])},
    )
    assert links.load(RECORD, doubled) == links.load(RECORD, SHAPED)


def test_the_series_has_the_intervals_in_which_something_was_carried() -> None:
    load = links.load(RECORD, SHAPED)
    series = Links(loads=(load,), busy=(9.9, 11.9)).series
    assert [(round(t_s, 6), each.bytes, each.drops) for t_s, each in series] == [
        (0.5, 20000, 1),
        (1.0, 20000, 0),
        (1.5, 0, 1),
        (2.0, 1000, 0),
    ]


def test_a_link_without_limits_is_counted_by_the_interface_of_a_router() -> None:
    plain = LinkRecord(link="a-b", source="b", destination="a", place="a/a-b", is_received=True)
    load = links.load(plain, LinkSamples(interfaces=SHAPED.interfaces))
    [found] = Links(loads=(load,), busy=(9.9, 11.9)).traffic
    assert found.cells == ("a-b", "b", "a", "", "400", "4", "0", "", "")


def test_a_replaced_qdisc_loses_no_count_of_the_interface() -> None:
    new = InstalledQdisc(
        device="a-b", kind="netem", handle="8:", parent="root", rate_bps=2e6, is_lossless=True
    )
    samples = LinkSamples(
        qdiscs={
            QDISC: CounterSamples(TIMES[:3], {"bytes": (0, 100, 200), "packets": (0, 1, 2)}),
            new: CounterSamples(TIMES[3:], {"bytes": (50, 100), "packets": (1, 2)}),
        },
        interfaces={"a-b": counted(tx_bytes=(0, 100, 200, 290, 340), tx_packets=(0, 1, 2, 4, 5))},
    )
    load = links.load(RECORD, samples)
    assert load.bytes == (0, 100, 200, 290, 340)
    assert load.rates_bps[1:] == (1e6, 1e6, 2e6, 2e6)
    [found] = Links(loads=(load,), busy=(9.9, 11.9)).traffic
    assert found.rate_bps == 1_500_000


def test_a_link_that_nobody_sampled_has_no_counts() -> None:
    load = links.load(RECORD, LinkSamples())
    [found] = Links(loads=(load,), busy=(9.9, 11.9)).traffic
    assert found.cells == ("a-b", "a", "b", "1000000", "", "", "", "", "")


def test_flows_share_the_direction_of_a_link() -> None:
    forth = Way(("h1", "s", "h2"), ("h1-s", "s-h2"))
    back = Way(("h2", "s", "h1"), ("s-h2", "h1-s"))
    assert Links(ways=(forth, back)).shared_flows == 1
    assert Links(ways=(forth, back, forth)).shared_flows == 2
    assert Links().shared_flows is None


def test_ways_are_read_as_they_were_written(tmp_path: Path) -> None:
    way = Way(("h1", "s", "h2"), ("h1-s", "s-h2"))
    packets = RoutedFlow(
        source=ip_address("10.0.0.1"),
        destination=ip_address("10.0.0.2"),
        protocol="udp",
        source_port=1,
        destination_port=2,
    )
    path = tmp_path / "raw" / "ways.csv"
    path.parent.mkdir()
    links.write_ways(path, [(1, 2, packets, way)])
    assert links.read_ways(path) == (way,)
    links.write(tmp_path, Links(loads=(links.load(RECORD, SHAPED),)))
    assert (tmp_path / "ways.csv").read_text(encoding="utf-8").splitlines() == [
        "group,flow,source,destination,protocol,sport,dport,way",
        "1,2,h1,h2,udp,1,2,h1 s h2",
    ]


def test_the_uplinks_of_a_pod_vary_by_the_flows_on_them() -> None:
    # A fat tree has half as many aggregations in a pod as it has pods: here one, of two pods.
    loads = tuple(
        links.Load(
            record=LinkRecord(link=f"{core}-{a}", source=a, destination=core, place="links/x")
        )
        for a in ("a1", "a2")
        for core in ("c1", "c2")
    )
    ways = [Way(("a1", "c1"), ("c1-a1",))] * 3 + [Way(("a1", "c2"), ("c2-a1",))]
    assert Links(loads=loads, ways=tuple(ways)).uplink_variation == 0.5
    assert Links(loads=loads).uplink_variation is None


def link_state(time_s: float, *counts: int) -> dict[str, object]:
    """A state of a link from a to b: drops, marks, lost, resent, given up."""
    names = ("drops", "marks", "wire_lost", "resent", "given_up")
    rest = dict.fromkeys(("wire_frames", "tx_bytes", "rx_bytes", "paused_s", "stalled_s"), 0)
    return {"time_s": time_s, "protect": "ordered", "loss_set": 0.1, **rest,
            **dict(zip(names, counts, strict=True))}  # fmt: skip


def by_a_program() -> Links:
    """The kernel counts what passes; what befalls frames only the program knows."""
    states = [
        link_state(9.8, 5, 0, 10, 20, 0),
        link_state(10.3, 6, 1, 12, 24, 0),
        link_state(10.8, 8, 1, 12, 24, 0),
        link_state(11.1, 9, 3, 13, 26, 1),
        link_state(11.6, 9, 3, 14, 28, 1),
    ]
    way = carried.of(states, "a", "b")
    loads = tuple(
        links.load(
            LinkRecord(link="a-b", source=source, destination=destination, place="links/a-b"),
            LinkSamples(interfaces=SHAPED.interfaces),
        )
        for source, destination in (("a", "b"), ("b", "a"))
    )
    return Links(loads=loads, busy=(10.0, 11.0), programs=carried.joined([way]))


def test_what_befalls_frames_on_a_link_is_known_by_the_program_that_carries_it(
    tmp_path: Path,
) -> None:
    links.write(tmp_path, by_a_program())
    assert (tmp_path / "links.csv").read_text().splitlines() == [
        "link,from,to,rate_bps,bytes,packets,drops,marks,utilisation,lost,resent,given_up",
        "a-b,a,b,,40000,40,4,3,,3,6,1",
        "a-b,b,a,,40000,40,0,,,,,",
    ]


def test_the_intervals_of_a_program_add_up() -> None:
    onward = [each for _, each in by_a_program().series if each.record.source == "a"]
    assert [each.drops for each in onward] == [3, 1, 0]
    assert [each.program for each in onward] == [(2, 4, 0), (1, 2, 1), (1, 2, 0)]


def test_the_variation_of_uplinks_keeps_its_decimals_in_the_row_of_an_experiment() -> None:
    loads = tuple(
        links.Load(
            record=LinkRecord(link=f"{core}-{a}", source=a, destination=core, place="links/x")
        )
        for a in ("a1", "a2")
        for core in ("c1", "c2")
    )
    ways = [Way(("a1", "c1"), ("c1-a1",))] * 8 + [Way(("a1", "c2"), ("c2-a1",))] * 7
    lab = Links(loads=loads, ways=tuple(ways))
    groups = [samples.group(samples.instance(), links=lab) for _ in range(2)]
    columns = fields.load(Path(__file__).parents[2] / "fields.txt")
    assert samples.row(columns, *groups)["uplinkVariation"] == "0.067"
