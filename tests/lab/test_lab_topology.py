"""From LAB to nodes and links."""

from pathlib import Path

import pytest

from netesto.errors import UsageError
from netesto.lab import aliases, topology
from netesto.lab.graph import Link, Node, Topology
from netesto.lab.routes import Routes
from netesto.links.settings import LinkSettings, as_text

TEN = LinkSettings(rate_bps=1e7)


def refusal(name: str, **settings: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        topology.build(name, settings)
    return caught.value


def test_pair():
    assert topology.build("pair", {"rate": "10mbit"}) == Topology(
        "pair",
        (Node("a", "host", agent=True), Node("b", "host", agent=True)),
        (Link("a", "b", TEN),),
    )


def test_star():
    assert topology.build("star", {"hosts": "2", "rate": "10mbit"}) == Topology(
        "star",
        (Node("h1", "host", agent=True), Node("h2", "host", agent=True), Node("sw", "switch")),
        (Link("h1", "sw", TEN), Link("h2", "sw", TEN)),
    )


def test_dumbbell():
    assert topology.build("dumbbell", {"rate": "10mbit"}) == Topology(
        "dumbbell",
        (
            Node("client1", "host", agent=True),
            Node("client2", "host", agent=True),
            Node("left", "switch"),
            Node("router", "router", agent=True, faces="right"),
            Node("right", "switch"),
            Node("server1", "host", agent=True),
        ),
        (
            Link("client1", "left"),
            Link("client2", "left"),
            Link("left", "router"),
            Link("router", "right", TEN),
            Link("right", "server1"),
        ),
    )


def test_a_dumbbell_has_100_mbit_unless_told():
    links = topology.build("dumbbell", {}).links
    assert Link("router", "right", LinkSettings(rate_bps=1e8)) in links


def test_a_dumbbell_may_leave_the_bottleneck_to_its_router():
    built = topology.build("dumbbell", {"rate": "none"})
    assert {link.settings for link in built.links} == {LinkSettings()}


@pytest.mark.parametrize(("node", "neighbour"), [("router", "right"), ("client1", "left")])
def test_the_link_that_a_node_tests_through(node, neighbour):
    assert topology.build("dumbbell", {}).tested(node).other(node) == neighbour


def test_mtu_and_offload_of_a_dumbbell_are_for_all_its_links():
    built = topology.build("dumbbell", {"mtu": "9000", "offload": "off"})
    assert {(link.settings.mtu, link.settings.offload) for link in built.links} == {(9000, "off")}


def test_the_hosts_of_a_dumbbell_are_those_with_agents():
    built = topology.build("dumbbell", {"clients": "3", "servers": "2"})
    assert built.hosts == ("client1", "client2", "client3", "router", "server1", "server2")


def test_chain():
    assert topology.build("chain", {"routers": "2", "rate": "10mbit"}) == Topology(
        "chain",
        (
            Node("h1", "host", agent=True),
            Node("r1", "router", agent=True, faces="r2"),
            Node("r2", "router", agent=True, faces="h2"),
            Node("h2", "host", agent=True),
        ),
        (Link("h1", "r1", TEN), Link("r1", "r2", TEN), Link("r2", "h2", TEN)),
    )


def test_tree_has_rates_by_level():
    built = topology.build("tree", {"depth": "2", "rate": "10mbit", "rate1": "100mbit"})
    hundred = LinkSettings(rate_bps=1e8)
    assert built.links == (
        Link("sw1", "sw2", hundred),
        Link("sw1", "sw3", hundred),
        Link("sw2", "h1", TEN),
        Link("sw2", "h2", TEN),
        Link("sw3", "h3", TEN),
        Link("sw3", "h4", TEN),
    )


def test_leafspine_links_every_leaf_to_every_spine_at_the_oversubscribed_rate():
    given = {"leaves": "3", "spines": "2", "hosts": "4", "rate": "10mbit", "oversubscription": "4"}
    built = topology.build("leafspine", given)
    access, uplink = LinkSettings(rate_bps=1e7), LinkSettings(rate_bps=5e6)
    assert built.links == (
        *(Link(f"l{i // 4 + 1}", f"h{i + 1}", access) for i in range(12)),
        *(Link(f"s{j}", f"l{i}", uplink) for i in (1, 2, 3) for j in (1, 2)),
    )
    ways = {way[1].name for way in Routes(built).ways("h1", "h12")}
    assert ways == {"s1", "s2"}


def test_leafspine_without_oversubscription_has_links_of_one_rate():
    built = topology.build("leafspine", {"rate": "10mbit"})
    assert {link.settings.rate_bps for link in built.links} == {1e7}
    assert (len(built.hosts), len(built.nodes), len(built.links)) == (8, 12, 12)


@pytest.mark.parametrize(("k", "hosts", "routers", "links"), [(6, 54, 45, 162), (8, 128, 80, 384)])
def test_larger_fattrees(k: int, hosts: int, routers: int, links: int):
    built = topology.build("fattree", {"k": str(k)})
    assert (len(built.hosts), len(built.nodes), len(built.links)) == (hosts, hosts + routers, links)
    # Equal paths to another pod: one for each core.
    assert sum(1 for _ in Routes(built).ways("h1", f"h{hosts}")) == (k // 2) ** 2


def test_fattree_has_16_hosts_20_routers_48_links():
    built = topology.build("fattree", {})
    kinds = [node.kind for node in built.nodes]
    assert (kinds.count("host"), kinds.count("router"), len(built.links)) == (16, 20, 48)


def test_twocore_leaves_two_cores_busy():
    built = topology.build("fattree", {"routing": "twocore"})
    assert [node.name for node in built.nodes if node.idle] == ["c2", "c4"]


def test_with_two_cores_flows_to_odd_hosts_take_one_and_those_to_even_hosts_the_other():
    routes = Routes(topology.build("fattree", {"routing": "twocore"}))
    ways = {
        (a, b): [[end.node.name for end in way] for way in routes.ways(a, b)]
        for a, b in (("h1", "h9"), ("h9", "h1"), ("h4", "h12"), ("h12", "h4"))
    }
    assert ways == {
        ("h1", "h9"): [["h1", "e1", "a1", "c1", "a5", "e5"]],
        ("h9", "h1"): [["h9", "e5", "a5", "c1", "a1", "e1"]],
        ("h4", "h12"): [["h4", "e2", "a2", "c3", "a6", "e6"]],
        ("h12", "h4"): [["h12", "e6", "a6", "c3", "a2", "e2"]],
    }


def test_onecore_leaves_one_core_and_one_aggregation_router_a_pod_busy():
    built = topology.build("fattree", {"routing": "onecore"})
    idle = ["a2", "a4", "a6", "a8", "c2", "c3", "c4"]
    assert [node.name for node in built.nodes if node.idle] == idle


# ---- refusals --------------------------------------------------------------------------------


def test_an_unknown_topology_names_the_nearest():
    error = refusal("dumbell")
    assert str(error) == (
        "LAB dumbell: no such topology; did you mean dumbbell?\n"
        "Topologies: pair, star, dumbbell, parallel, chain, corrupting, tree, leafspine, fattree,"
        " or file=PATH."
    )


def test_an_unknown_setting_names_the_nearest_and_all():
    error = refusal("star", host="3")
    assert error.message == "LAB star: no setting 'host'; did you mean hosts?"
    assert error.remedy.startswith("Allowed:\n  hosts: how many (4)\n  rate: as in tc: 10mbit")


OVERSUBSCRIBED = "oversubscription=: needs rate=, that of a host's link"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("dumbbell", {"clients": "0"}, "clients=0: not a whole number from 1 to 200"),
        ("dumbbell", {"clients": "many"}, "clients=many: not a whole number from 1 to 200"),
        ("star", {"hosts": "1"}, "hosts=1: not a whole number from 2 to 500"),
        ("chain", {"routers": "101"}, "routers=101: not a whole number from 1 to 100"),
        ("tree", {"depth": "7"}, "depth=7: not a whole number from 1 to 6"),
        ("tree", {"rate3": "1gbit"}, "rate3: the tree has 2 levels (depth=)"),
        ("leafspine", {"oversubscription": "2"}, OVERSUBSCRIBED),
        (
            "leafspine",
            {"rate": "1mbit", "oversubscription": "0"},
            "oversubscription=0: not a number above 0",
        ),
        ("leafspine", {"leaves": "50", "hosts": "5"}, "hosts=5: not a whole number from 1 to 4"),
        ("fattree", {"k": "5"}, "k=5: not an even number"),
        ("fattree", {"routing": "all"}, "routing=all: not one of ecmp, twocore, onecore"),
    ],
)
def test_a_wrong_value_is_named(name, settings, message):
    assert refusal(name, **settings).message == f"LAB {name}: {message}"


def test_lab_without_a_name_or_a_file():
    assert refusal("").message == "LAB: no topology"


# ---- files -----------------------------------------------------------------------------------

THREE = """
name = "three"

[nodes]
a = "host"
r = { kind = "router", agent = true, device = "b" }
b = "host"

[[links]]
between = ["a", "r"]

[[links]]
between = ["r", "b"]
rate = "10mbit"
delay = 20
"""

ISLANDS = """
[nodes]
a = "host"
b = "host"
c = "host"
d = "host"

[[links]]
between = ["a", "b"]

[[links]]
between = ["c", "d"]
"""

# Hosts do not forward packets.
LINE = """
[nodes]
a = "host"
b = "host"
c = "host"

[[links]]
between = ["a", "b"]

[[links]]
between = ["b", "c"]
"""

# b has an address only where it tests.
CUT_OFF = """
[nodes]
a = "host"
b = { kind = "host", device = "s" }
s = "switch"

[[links]]
between = ["a", "b"]

[[links]]
between = ["s", "b"]
"""

RING = """
[nodes]
a = "host"
b = "host"
s1 = "switch"
s2 = "switch"
s3 = "switch"

[[links]]
between = ["a", "s1"]

[[links]]
between = ["s1", "s2"]

[[links]]
between = ["s2", "s3"]

[[links]]
between = ["s3", "s1"]

[[links]]
between = ["b", "s3"]
"""


def test_a_topology_file(tmp_path: Path):
    (tmp_path / "three.toml").write_text(THREE)
    assert topology.load(tmp_path / "three.toml") == Topology(
        "three",
        (
            Node("a", "host", agent=True),
            Node("r", "router", agent=True, faces="b"),
            Node("b", "host", agent=True),
        ),
        (Link("a", "r"), Link("r", "b", LinkSettings(rate_bps=1e7, delay_ms=20.0))),
    )


def test_a_host_has_the_alias_of_its_file_and_the_address_of_the_lab(tmp_path: Path):
    (tmp_path / "three.toml").write_text(f'{THREE}\n[aliases]\n"10.4.2.2" = "b"\n')
    built = topology.load(tmp_path / "three.toml")
    assert aliases.of(built) == {"10.4.2.2": "b"}
    known = aliases.addresses_of(built)
    assert known.hosts == {"10.4.2.2": "b", "10.0.1.1": "a", "10.0.2.254": "r", "10.0.2.1": "b"}
    assert (known.address_of("b"), known.address_of("a")) == ("10.4.2.2", "10.0.1.1")


def test_a_host_with_a_number_has_the_alias_of_traces_where_no_file_gives_another():
    assert aliases.of(topology.build("chain", {})) == {"10.0.0.1": "h1", "10.0.0.2": "h2"}
    assert aliases.of(topology.build("pair", {})) == {}
    assert aliases.of(topology.build("tree", {"depth": "6"}))["10.0.0.64"] == "h64"


def test_the_file_in_the_manual(tmp_path: Path):
    manual = Path(__file__).parents[2].joinpath("docs", "labs.md").read_text()
    text = manual.split("```toml\n")[1].split("```")[0]
    (tmp_path / "manual.toml").write_text(text)
    built = topology.load(tmp_path / "manual.toml")
    assert (built.name, built.hosts) == ("two bottlenecks", ("a", "b", "c", "r1"))


def test_lab_file_reads_the_file(tmp_path: Path):
    (tmp_path / "three.toml").write_text(THREE)
    built = topology.build("", {"file": str(tmp_path / "three.toml")})
    assert built.hosts == ("a", "r", "b")


def test_lab_file_is_beside_the_script_first(tmp_path: Path, monkeypatch):
    beside, here = tmp_path / "scripts", tmp_path / "here"
    for folder, name in ((beside, "beside"), (here, "here")):
        folder.mkdir()
        (folder / "net.toml").write_text(THREE.replace("three", name))
    monkeypatch.chdir(here)
    built = topology.build("", {"file": "net.toml"}, script=str(beside / "script.nts"))
    assert built.name == "beside"


def test_lab_file_is_in_the_working_folder_else(tmp_path: Path, monkeypatch):
    (tmp_path / "net.toml").write_text(THREE)
    monkeypatch.chdir(tmp_path)
    built = topology.build("", {"file": "net.toml"}, script="scripts/script.nts")
    assert built.name == "three"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[nodes", "not TOML"),
        (f'{THREE}\n[aliases]\n"10.4.2" = "b"', "[aliases]: '10.4.2' is not an IPv4 address"),
        (f'{THREE}\n[aliases]\n"10.4.2.2" = "c"', "[aliases] 10.4.2.2: no host c"),
        ("", "[nodes]: a table with entries is required"),
        ("node = 1", "no setting 'node'; did you mean nodes?"),
        ('name = "star"\n[nodes]\na = "host"', "name = 'star': a built-in topology has this name"),
        ('[nodes]\nlo = "host"', "node lo: invalid node name"),
        ('[nodes]\na-name-too-long-for-linux = "host"', "node a-name-too-long-for-linux: invalid"),
        ('[nodes]\na = "hub"', "node a: kind: host, router or switch is required"),
        ('[nodes]\na = { kind = "host", agnt = true }', "node a: no setting 'agnt'; did you mean"),
        ('[nodes]\ns = { kind = "switch", agent = true }', "node s: agent: true or false, and"),
        ('[nodes]\na = "host"', "node a: it has no link"),
        ('[nodes]\na = "host"\n[[links]]\nbetween = ["a"]', "link 1: between = [node, node]"),
        ('[nodes]\na = "host"\n[[links]]\nbetween = ["a", "x"]', "link a, x: no node x"),
        ('[nodes]\na = "host"\n[[links]]\nbetween = ["a", "a"]', "node a: linked to itself"),
        (THREE.replace('device = "b"', 'device = "c"'), "node r: device c: not a neighbour"),
        (THREE.replace("delay", "dealy"), "link 2: no setting 'dealy'; did you mean delay?"),
        (THREE.replace("delay = 20", "delay = -1"), "link 2 (r, b): delay=-1: not between"),
        (ISLANDS, "2 parts that no link joins: a, b; c, d"),
        (LINE, "no path from a to c"),
        (CUT_OFF, "no path from a to b"),
        (RING, "link s3, s1: it closes a loop of switches, in which packets to all hosts"),
        ('[nodes]\na = "router"\nb = "router"\n[[links]]\nbetween = ["a", "b"]', "no node has an"),
    ],
)
def test_a_wrong_file_is_named_with_its_mistake(tmp_path: Path, text, message):
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        topology.load(path)
    assert caught.value.message.startswith(str(path))
    assert message in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(UsageError, match=r"none\.toml: cannot be read: No such file"):
        topology.load(tmp_path / "none.toml")


def test_parallel_bottlenecks_differ_in_their_queues():
    built = topology.build("parallel", {"queues": "pfifo,cake", "rate": "10mbit", "rtt": "20"})
    assert (built.hosts, [str(link.settings.describe()) for link in built.links[-2:]]) == (
        ("client1", "r1", "r2", "pfifo", "cake"),
        [
            "10 Mbit/s, delay 10 ms, pfifo, queue 42p",
            "10 Mbit/s, delay 10 ms, cake, queue 62500",
        ],
    )


def test_queues_are_joined_by_plus_on_the_command_line():
    built = topology.build("parallel", {"queues": "red+codel"})
    assert built.hosts == ("client1", "r1", "r2", "red", "codel")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"queues": "pfifo,best"}, "LAB parallel: queues=pfifo,best: best is not a queue that"),
        ({"queues": "red,red"}, "LAB parallel: queues=red,red: a kind is given twice"),
        ({"qdisc": "red"}, "LAB parallel: no setting 'qdisc': write queues="),
    ],
)
def test_queues_that_cannot_be_are_refused(asked, message):
    with pytest.raises(UsageError) as caught:
        topology.build("parallel", asked)
    assert str(caught.value).startswith(message)


# ---- settings of single links --------------------------------------------------------------------


def sent(built: Topology, source: str, destination: str) -> LinkSettings:
    [link] = [link for link in built.links if {link.a, link.b} == {source, destination}]
    return link.sent_by(source)


def test_a_setting_of_a_node_is_of_both_directions_of_its_link():
    built = topology.build("dumbbell", {"client1.delay": "5"})
    assert (
        sent(built, "client1", "left"),
        sent(built, "left", "client1"),
        sent(built, "client2", "left"),
    ) == (LinkSettings(delay_ms=5.0), LinkSettings(delay_ms=5.0), LinkSettings())


def test_a_setting_of_a_direction_is_of_that_direction_alone():
    built = topology.build("dumbbell", {"rate": "10mbit", "right-router.rate": "1mbit"})
    assert (sent(built, "right", "router"), sent(built, "router", "right")) == (
        LinkSettings(rate_bps=1e6),
        TEN,
    )


def test_the_mtu_of_one_direction_is_that_of_the_link():
    built = topology.build("pair", {"a-b.mtu": "9000"})
    assert (sent(built, "a", "b").mtu, sent(built, "b", "a").mtu) == (9000, 9000)


def test_settings_of_one_direction_leave_the_other_without_limits():
    built = topology.build("pair", {"rate": "10mbit", "dir": "to"})
    assert (sent(built, "a", "b"), sent(built, "b", "a")) == (TEN, LinkSettings())


def test_a_router_has_several_links():
    error = refusal("dumbbell", **{"router.rate": "1mbit"})
    assert (error.message, error.remedy) == (
        "LAB dumbbell: router has several links",
        "Write one of: router-left, router-right.",
    )


def test_a_link_that_does_not_exist_is_refused():
    assert refusal("dumbbell", **{"right-ruter.rate": "1mbit"}).message == (
        "LAB dumbbell: no link right-ruter; did you mean right-router?"
    )


def test_a_setting_of_a_link_that_does_not_exist_is_refused():
    assert refusal("pair", **{"a.rat": "1mbit"}).message.startswith("LAB pair: a: no setting 'rat'")


def test_links_of_a_file_have_a_table_for_each_direction(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text(
        '[nodes]\na = "host"\nb = "host"\n[[links]]\nbetween = ["a", "b"]\nrate = "10mbit"\n'
        'from = { rate = "1mbit", delay = 5 }\n'
    )
    assert topology.load(path).links == (
        Link("a", "b", TEN, back=LinkSettings(rate_bps=1e6, delay_ms=5.0)),
    )


def test_links_of_a_file_are_changed_by_name(tmp_path):
    path = tmp_path / "net.toml"
    path.write_text('[nodes]\na = "host"\nb = "host"\n[[links]]\nbetween = ["a", "b"]\n')
    built = topology.build("", {"file": str(path), "a.rate": "10mbit"})
    assert built.links == (Link("a", "b", TEN),)


def settings_of(link: Link, node: str) -> dict[str, str]:
    return as_text(link.sent_by(node))


def test_corrupting_has_a_link_that_loses_and_protects_in_one_direction():
    given = {"rate": "100gbit", "rtt": "0.03", "delay": "0.005", "loss": "0.1", "mark": "100K",
             "limit": "500p", "protect": "ordered", "reaction": "4.3us"}  # fmt: skip
    built = topology.build("corrupting", given)
    assert [(node.name, node.kind, node.agent) for node in built.nodes] == [
        ("h1", "host", True), ("s1", "router", True), ("s2", "router", True), ("h2", "host", True),
    ]  # fmt: skip
    first, middle, last = built.links
    outer = {"rate": "100000000000bit", "delay": "0.005", "mark": "100000B", "limit": "500p"}
    plain = {**outer, "emulator": "program"}
    assert settings_of(first, "h1") == settings_of(last, "h2") == outer
    assert settings_of(middle, "s1") == {
        **plain, "loss": "0.1", "protect": "ordered", "reaction": "0.0043",
    }  # fmt: skip
    assert settings_of(middle, "s2") == plain


def test_corrupting_loses_in_the_direction_that_is_given():
    given = {"rate": "1gbit", "loss": "1", "protect": "off"}
    losses = [
        [bool(topology.build("corrupting", {**given, "dir": way}).links[1].sent_by(node).loss)
         for node in ("s1", "s2")]
        for way in ("to", "from", "both")
    ]  # fmt: skip
    assert losses == [[True, False], [False, True], [True, True]]


def test_the_link_of_corrupting_is_not_longer_than_its_path():
    error = refusal("corrupting", rate="1gbit", rtt="10", delay="6")
    assert error.message == ("LAB corrupting: rtt=10: shorter than the link from s1 to s2 and back")
