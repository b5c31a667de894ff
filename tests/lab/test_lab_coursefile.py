"""Topologies of the course CS 145: what becomes of each key, and what is refused."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from netesto.errors import ScriptError
from netesto.lab import coursefile, topology
from netesto.lab.graph import Link, Node, Topology
from netesto.lab.routes import Routes
from netesto.links.settings import LinkSettings
from netesto.links.values import QueueLimit


def course(*links: Any, hosts: Any = ("h1", "h2"), **keys: Any) -> dict[str, Any]:
    named = hosts if isinstance(hosts, dict) else {name: {} for name in hosts}
    switches: dict[str, Any] = {"s1": {}, "s4": {}}
    return {"topology": {"links": list(links), "hosts": named, "switches": switches} | keys}


CHAIN = (["h1", "s1"], ["s1", "s4"], ["s4", "h2"])


def read(folder: Path, document: object) -> tuple[Topology, list[str]]:
    file = folder / "t.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    warnings: list[str] = []
    return coursefile.read(file, warn=warnings.append), warnings


def test_a_topology_of_the_course_has_routers_and_the_properties_of_its_links(tmp_path: Path):
    properties = {"bw": 0.5, "delay": "5ms", "loss": 1.5, "queue_length": 7, "weight": 2.5}
    found, warnings = read(
        tmp_path, course(["h1", "s1"], ["s1", "s4", properties], ["s4", "h2", {"delay": 3}])
    )
    slow = LinkSettings(
        rate_bps=5e5, delay_ms=5.0, loss=found.links[1].settings.loss,
        limit=QueueLimit(7, "packets"),
    )  # fmt: skip
    assert found == Topology(
        "t",
        (
            Node("h1", "host", agent=True),
            Node("h2", "host", agent=True),
            Node("s1", "router"),
            Node("s4", "router"),
        ),
        (
            Link("h1", "s1"),
            Link("s1", "s4", slow, weight=Fraction(5, 2)),
            Link("s4", "h2", LinkSettings(delay_ms=3.0)),
        ),
        {"10.0.0.1": "h1", "10.0.0.2": "h2"},
    )
    assert str(slow.loss) == "1.5"
    assert warnings == []


def test_what_a_link_lacks_or_has_as_null_is_taken_from_the_defaults(tmp_path: Path):
    document = course(
        ["h1", "s1", {"bw": None, "queue_length": 0}], ["s1", "s4", {"bw": 2, "weight": 1}],
        ["s4", "h2", {"delay": 0}],
        default_bw=1, default_delay=4, default_queue_length=9, default_link_weight=3,
    )  # fmt: skip
    found, _ = read(tmp_path, document)
    values = [(each.settings.rate_bps, each.settings.delay_ms, each.weight) for each in found.links]
    assert values == [(1e6, 4.0, 3), (2e6, 4.0, 1), (1e6, 0.0, 3)]
    # 0 packets are 1000.
    assert [str(link.settings.limit) for link in found.links] == ["1000p", "9p", "9p"]


def test_a_link_with_a_rate_has_a_queue_of_1000_packets(tmp_path: Path):
    found, _ = read(tmp_path, course(*CHAIN, default_bw=1))
    assert {str(link.settings.limit) for link in found.links} == {"1000p"}


def test_names_that_mean_nothing_are_warned_about_and_ignored(tmp_path: Path):
    document = """{"program": "x",
        "topology": {
        "default": {"bw": 2}, "switches": ["s1"],
        "hosts": {"h1": {"ip": "10.0.0.1",
            "mac": "x"}, "h2": {"mac": "y"}},
        "links": [["h1", "s1", {"colour": 1}], ["s1", "h2", {"colour": 2}]]}}"""
    found, (warning,) = read(tmp_path, document)
    assert {link.settings.rate_bps for link in found.links} == {None}
    names = "'program' (line 1), 'default' (line 3), 'mac' (line 5), 'colour' (line 6)"
    assert warning == f"{tmp_path}/t.json: ignored, because unknown: {names}"


@pytest.mark.parametrize(
    ("strategy", "hosts", "aliases"),
    [
        ("l2", ["h1", "h300"], {"10.0.0.1": "h1", "10.0.1.44": "h300"}),
        ("l3", ["h1", "h2"], {"10.1.1.2": "h1", "10.4.2.2": "h2"}),
        ("mixed", ["h1", "h2"], {"10.0.1.1": "h1", "10.0.4.2": "h2"}),
        ("manual", {"h1": {"ip": "10.9.0.7/24"}, "h2": {"ip": "10.9.0.8"}},
         {"10.9.0.7": "h1", "10.9.0.8": "h2"}),
    ],
)  # fmt: skip
def test_hosts_have_the_addresses_of_the_strategy_as_aliases(
    tmp_path: Path, strategy: str, hosts: Any, aliases: dict[str, str]
):
    second = list(hosts)[1]
    document = course(
        ["h1", "s1"], ["s1", "s4"], ["s4", second], hosts=hosts, assignment_strategy=strategy
    )
    assert read(tmp_path, document)[0].aliases == aliases


def test_mixed_addresses_of_switches_above_255_carry(tmp_path: Path):
    document = course(["h1", "s600"], ["h2", "s600"], assignment_strategy="mixed")
    document["topology"]["switches"] = ["s600"]
    assert read(tmp_path, document)[0].aliases == {"10.2.88.1": "h1", "10.2.88.2": "h2"}


def test_a_host_that_the_strategy_gives_no_address_has_no_alias_and_a_warning(tmp_path: Path):
    found, warnings = read(tmp_path, course(["a", "s1"], ["s1", "s4"], hosts=["a"]))
    assert found.aliases == {}
    assert [warning.partition(": ")[2] for warning in warnings] == [
        "host a gets no alias: its name is not hK with a number K"
    ]


def test_a_node_link_graph_is_read(tmp_path: Path):
    document = {
        "directed": False,
        "nodes": [
            {"id": "h1", "isHost": True, "ip": "10.4.2.2/24", "mac": "x"},
            {"id": "h2", "isHost": True},
            {"id": "s1", "isSwitch": True, "ip": "1.1.1.1"},
        ],
        "links": [
            {"node1": "h1", "node2": "s1", "bw": 1, "weight": 2, "source": "h1", "intfName1": "a"},
            {"node1": "s1", "node2": "h2"},
        ],
    }
    found, warnings = read(tmp_path, document)
    slow = LinkSettings(rate_bps=1e6, limit=QueueLimit(1000, "packets"))
    assert found == Topology(
        "t",
        (Node("h1", "host", agent=True), Node("h2", "host", agent=True), Node("s1", "router")),
        (Link("h1", "s1", slow, weight=2), Link("s1", "h2")),
        {"10.4.2.2": "h1"},
    )
    assert warnings == []


def test_the_written_file_is_the_topology_that_was_read(tmp_path: Path):
    properties = {"bw": 0.3, "delay": 5, "loss": 1.5, "weight": 0.5}
    found, _ = read(tmp_path, course(["h1", "s1", {"bw": 10}], ["s1", "s4", properties], CHAIN[2]))
    text = "".join(coursefile.toml(found, "t.json"))
    loaded = topology.load(tmp_path / "t.toml", text=text)
    assert loaded == Topology("t.toml", found.nodes, found.links, found.aliases)


def test_two_links_between_two_nodes_are_two_equal_paths(tmp_path: Path):
    found, _ = read(tmp_path, course(["h1", "s1"], ["s1", "s4"], ["s1", "s4"], ["s4", "h2"]))
    ways = [[end.name for end in way] for way in Routes(found).ways("h1", "h2")]
    assert ways == [["s1", "s4", "h2"], ["s1", "s4.2", "h2"]]


def test_packets_take_the_paths_with_the_smallest_sum_of_weights(tmp_path: Path):
    """s1 - s4 has weight 3, the way over s2 and s3 weighs as much: 0.5 + 1 + 1.5."""
    document = course(
        ["h1", "s1"], ["s1", "s4", {"weight": 3}], ["s4", "h2"],
        ["s1", "s2", {"weight": 0.5}], ["s2", "s3"], ["s3", "s4", {"weight": 1.5}],
    )  # fmt: skip
    document["topology"]["switches"] = ["s1", "s2", "s3", "s4"]

    def ways() -> list[list[str]]:
        routes = Routes(read(tmp_path, document)[0])
        return [[end.node.name for end in way] for way in routes.ways("h1", "h2")]

    assert ways() == [["h1", "s1", "s4"], ["h1", "s1", "s2", "s3", "s4"]]
    document["topology"]["links"][1][2]["weight"] = 3.1
    assert ways() == [["h1", "s1", "s2", "s3", "s4"]]
    document["topology"]["links"][1][2]["weight"] = 2.9
    assert ways() == [["h1", "s1", "s4"]]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"a": 1}, "no topology, and no nodes and links"),
        ({"nodes": []}, "a node-link graph without links"),
        ({"links": []}, "a node-link graph without nodes"),
        ({"topology": {"links": []}}, "topology: hosts is missing"),
        (course(["h1", "s1"], ["h9", "s1"]), "unknown node h9"),
        (course(["h1", "h1"]), "a link from h1 to itself"),
        (course(["h1"]), "link 1: [a, b] or [a, b, {…}] is required"),
        (course(["h1", "s1"], ["h2", "s4"]), "2 parts that no link joins: h1, s1; h2, s4"),
        (course(hosts=[]), "a topology without a host"),
        (course(["h1", "s1", {"bw": 0}]), "bw: 0: a number above 0 is required"),
        (course(["h1", "s1", {"bw": -1}]), "bw: -1: a number above 0 is required"),
        (course(["h1", "s1", {"bw": "1"}]), "bw: a number is required"),
        (course(["h1", "s1", {"bw": 1e-9}]), "link h1, s1: rate="),
        (course(["h1", "s1", {"delay": -1}]), "delay: -1 is negative"),
        (course(["h1", "s1", {"delay": "5parsec"}]), "link h1, s1: delay=5parsec"),
        (course(["h1", "s1", {"loss": 101}]), "link h1, s1: loss=101"),
        (course(["h1", "s1", {"weight": 0}]), "weight: 0: a number above 0 is required"),
        (course(["h1", "s1", {"bw": 1, "queue_length": 1.5}]), "queue_length: 1.5 is not a whole"),
        (course(hosts=["h1234567890123456"]), "invalid node name 'h1234567890123456'"),
        (course(hosts=["h 1"]), "invalid node name 'h 1'"),
        (course(*CHAIN, assignment_strategy="l4"), "assignment_strategy: 'l4'"),
        (course(["h1", "s1"], ["h01", "s1"], ["s1", "s4"], hosts=["h1", "h01"]),
         "hosts h1 and h01 would both have the address 10.0.0.1"),
        ('{"topology": {"links": [], "links": []}}', "key 'links' twice in one object"),
    ],
)  # fmt: skip
def test_a_topology_that_cannot_be_read_is_refused_at_its_place(
    tmp_path: Path, document: object, message: str
):
    with pytest.raises(ScriptError) as error:
        read(tmp_path, document)
    assert error.value.message.startswith(message)
    assert str(error.value.place).startswith(f"{tmp_path}/t.json:1:")


def test_a_node_that_is_there_twice_is_refused(tmp_path: Path):
    nodes = [{"id": "h1", "isHost": True}, {"id": "h1", "isHost": True}]
    with pytest.raises(ScriptError, match="node h1 twice"):
        read(tmp_path, {"nodes": nodes, "links": []})
