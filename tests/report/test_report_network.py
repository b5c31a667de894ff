"""The drawing of a lab's links on the page of an experiment."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from netesto.report import network, page
from netesto.results import links
from netesto.results.links import LinkRecord, Links, Load, Way
from results import samples

MBPS = 1_000_000.0
# Samples of each link, every 200 ms for a minute.
TIMES = tuple(step / 5 for step in range(301))


def fat_tree(k: int) -> list[tuple[str, str]]:
    """Its links: hosts h, edges e, aggregations a, cores c."""
    half = k // 2
    edges, cores = range(k * half), range(half * half)
    return [
        *((f"h{e * half + h + 1}", f"e{e + 1}") for e, h in product(edges, range(half))),
        *((f"e{e + 1}", f"a{e // half * half + a + 1}") for e, a in product(edges, range(half))),
        *(
            (f"a{pod * half + c // half + 1}", f"c{c + 1}")
            for pod, c in product(range(k), cores)
        ),
    ]  # fmt: skip


def load(source: str, destination: str, link: str, percent: int) -> Load:
    """A direction that carries so much of 1 Mbit/s all the time."""
    each = percent * 250
    carried = tuple(each * tick for tick in range(len(TIMES)))
    none = (0,) * len(TIMES)
    return Load(
        record=LinkRecord(
            link=link, source=source, destination=destination, place="x/y", rate_bps=MBPS
        ),
        time_s=TIMES,
        bytes=carried,
        packets=tuple(tick for tick in range(len(TIMES))),
        drops=none,
        marks=(None,) * len(TIMES),
        rates_bps=(MBPS,) * len(TIMES),
    )


def both(a: str, b: str, percents: tuple[int, int] = (37, 0), number: str = "") -> list[Load]:
    return [
        load(*ends, f"{a}-{b}{number}", percent)
        for ends, percent in zip(((a, b), (b, a)), percents, strict=True)
    ]


def write(folder: Path, loads: list[Load], ways: int = 1) -> None:
    (folder / "raw").mkdir(exist_ok=True)
    way = Way(("h1", "e1", "h2"), ("h1-e1", "h2-e1"))
    (folder / links.RAW_WAYS).write_text(
        "group,flow,source,destination,protocol,sport,dport,way,links\n"
        + f"1,1,h1,h2,tcp,32768,5201,{' '.join(way.nodes)},{' '.join(way.links)}\n" * ways
    )
    links.write(folder, Links(loads=tuple(loads), busy=(0.0, TIMES[-1])))


def test_a_fat_tree_has_its_hosts_below_and_pods_beside_each_other():
    assert network.placed(fat_tree(4)) == [
        [f"h{n}" for n in range(1, 17)],
        [f"e{n}" for n in range(1, 9)],
        [f"a{n}" for n in range(1, 9)],
        [f"c{n}" for n in range(1, 5)],
    ]


def test_hosts_of_a_router_are_together():
    ends = [("left", "right"), ("h1", "left"), ("h2", "right"), ("h3", "left"), ("h4", "right")]
    assert network.placed(ends) == [["h1", "h3", "h2", "h4"], ["left", "right"]]


def test_two_hosts_without_a_router_are_beside_each_other():
    assert network.placed([("a", "b"), ("b", "a")]) == [["a", "b"]]


def test_a_direction_has_its_utilisation_over_all_and_in_each_step(tmp_path: Path):
    write(tmp_path, both("h1", "e1"))
    found = network.of_experiment(tmp_path)
    assert found is not None
    assert [(each.name, each.percent, each.words) for each in found.directions] == [
        ("h1→e1", 37.0, "37.0 % of 1 Mbit/s, 300 packets, 0 drops"),
        ("e1→h1", 0.0, "0.0 % of 1 Mbit/s, 300 packets, 0 drops"),
    ]
    assert (found.step_s, found.steps) == (1.0, {0: [37] * 60})


def test_an_interval_counts_in_each_step_by_its_part(tmp_path: Path):
    write(tmp_path, both("h1", "e1"))
    series = "h1-e1,h1,e1,1000000,{},10,0,,{:.6f},{:.6f}\n"
    (tmp_path / links.SERIES).write_text(
        ",".join((*links.LINK_COLUMNS, "t_s"))
        + "\n"
        # 0 to 0.3 s, 0.3 to 1.3 s; then silence until 1.8 to 2 s.
        + series.format(37500, 1.0, 0.3)
        + series.format(62500, 0.5, 1.3)
        + series.format(25000, 1.0, 2.0)
    )
    found = network.of_experiment(tmp_path)
    assert found is not None
    assert (found.step_s, found.steps) == (0.5, {0: [80, 50, 30, 40]})


def test_a_flow_has_the_directions_on_its_way(tmp_path: Path):
    write(tmp_path, [*both("h1", "e1"), *both("h2", "e1")])
    found = network.of_experiment(tmp_path)
    assert found is not None
    assert [each.name for each in found.directions] == ["h1→e1", "e1→h1", "h2→e1", "e1→h2"]
    assert found.flows == [("h1→h2 tcp 32768→5201, group 1: h1 e1 h2", [0, 3])]


def test_two_links_between_two_nodes_are_two_lines(tmp_path: Path):
    write(tmp_path, [*both("h1", "e1"), *both("e1", "e2"), *both("e1", "e2", number=".2")])
    found = network.of_experiment(tmp_path)
    assert found is not None
    names = {each.line: each.name for each in found.directions}
    assert [name for name in names.values() if name.startswith("e1→e2")] == ["e1→e2", "e1→e2.2"]


@pytest.mark.parametrize("links", [2, 3])
def test_a_lab_with_too_many_links_is_not_drawn(tmp_path: Path, monkeypatch, links: int):
    monkeypatch.setattr(network, "MOST_LINKS", 2)
    write(tmp_path, [each for n in range(links) for each in both(f"h{n}", "sw")])
    assert (network.of_experiment(tmp_path) is None) == (links == 3)


def test_a_page_has_the_links_if_there_are_any(publish, read, two):
    lab = Links(loads=tuple(both("h1", "e1")), busy=(0.0, 60.0))
    folder = publish(replace(samples.two_flows(), links=lab))
    title = "<title>h1→e1: 37.0 % of 1 Mbit/s, 300 packets, 0 drops</title>"
    section = '<section class="network"'
    drawn = read(folder).source
    assert (title in drawn, section in drawn, section in read(two).source) == (True, True, False)


def test_the_page_of_a_fat_tree_of_384_links_and_2000_flows_has_at_most_2_mb(publish):
    loads = [each for a, b in fat_tree(8) for each in both(a, b, (100, 100))]
    folder = publish(
        replace(samples.two_flows(), links=Links(loads=tuple(loads), busy=(0.0, 60.0)))
    )
    nodes = ("h1", "e1", "a1", "c1", "a32", "e32", "h128")
    on = ("h1-e1", "e1-a1", "a1-c1", "a32-c1", "e32-a32", "h128-e32")
    row = f"1,1,h1,h128,tcp,32768,5201,{' '.join(nodes)},{' '.join(on)}\n"
    (folder / "raw").mkdir(exist_ok=True)
    (folder / links.RAW_WAYS).write_text(",".join(links.RAW_WAY_COLUMNS) + "\n" + row * 2000)
    page.write(folder)
    assert (folder / "exp.html").stat().st_size <= 2_000_000
