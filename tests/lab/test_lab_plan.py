"""From a topology to all commands for a kernel."""

from ipaddress import ip_address, ip_interface, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netesto.errors import UsageError
from netesto.lab.commands import choice_lines, ip_lines, offload_words, tc_lines
from netesto.lab.graph import Link, Node, Topology
from netesto.lab.plan import (
    IP_SYSCTLS,
    MULTIPATH_SYSCTLS,
    ROUTER_SYSCTLS,
    SWITCH_SYSCTLS,
    Cable,
    Interface,
    LabPlan,
    Namespace,
    notes,
    plan,
)
from netesto.lab.routes import NetworkRoute, Routes
from netesto.lab.shapes import SHAPES
from netesto.lab.topology import build
from netesto.links.made import LinkDirection, Maker, Stage
from netesto.links.settings import LinkSettings

TEN = LinkSettings(rate_bps=1e7)
TBF = Stage("tbf", {"rate": ("10000000bit",), "burst": ("3028",), "limit": ("62500",)})
MADE = f"root handle 1: {' '.join(TBF.words)}"
EVERY = "ingress protocol all u32 match u32 0 0"
HOST = ["tso", "off", "tx-udp-segmentation", "off"]


def planned(name: str, **settings: str) -> LabPlan:
    return plan(build(name, settings), prefix="nt3f")


def test_a_pair_whole():
    def side(node: str, peer: str, number: int) -> Namespace:
        return Namespace(
            name=f"nt3f-{node}",
            node=Node(node, "host", agent=True),
            device=peer,
            interfaces=(
                Interface(
                    name=peer,
                    settings=TEN,
                    addresses=(
                        ip_interface(f"10.0.1.{number}/24"),
                        ip_interface(f"fd4e:6574:6573:1::{number}/64"),
                    ),
                    segments=True,
                ),
            ),
            routes=(),
            sysctls=IP_SYSCTLS,
        )

    def middle(name: str, onto: str) -> Interface:
        return Interface(name=name, settings=TEN, onto=onto, direction=LinkDirection((), (TBF,)))

    links = Namespace(
        name="nt3f-links",
        node=Node("links", "wires"),
        device="",
        interfaces=(middle("b-a", "a-b"), middle("a-b", "b-a")),
        routes=(),
        sysctls=SWITCH_SYSCTLS,
    )
    cables = (
        Cable("nt3f-a", "b", "nt3f-links", "b-a", 1500, 10),
        Cable("nt3f-links", "a-b", "nt3f-b", "a", 1500, 12),
    )
    pair = build("pair", {"rate": "10mbit"})
    namespaces = (side("a", "b", 1), side("b", "a", 2), links)
    assert plan(pair, prefix="nt3f") == LabPlan(
        "nt3f", pair, Maker(), Routes(pair), namespaces, cables
    )


def test_a_link_without_limits_is_one_cable():
    plain = planned("pair", mtu="9000", offload="off")
    assert plain.cables == (Cable("nt3f-a", "b", "nt3f-b", "a", 9000, 10),)
    assert ([each.name for each in plain.namespaces], plain.links) == (["nt3f-a", "nt3f-b"], "")


def test_no_interface_of_a_host_has_a_qdisc_of_the_link():
    hosts = [each for each in planned("fattree", rate="10mbit").namespaces if each.node.agent]
    assert [line for host in hosts for line in tc_lines(host)] == []


def test_what_carries_a_link_has_its_mtu():
    assert [cable.mtu for cable in planned("pair", rate="10mbit", mtu="9000").cables] == [
        9000,
        9000,
    ]


def test_the_router_of_a_dumbbell():
    router = planned("dumbbell", rate="10mbit").namespace("router")
    assert router == Namespace(
        name="nt3f-router",
        node=Node("router", "router", agent=True, faces="right"),
        device="right",
        interfaces=(
            Interface(
                name="left",
                settings=LinkSettings(),
                addresses=(ip_interface("10.0.1.254/24"), ip_interface("fd4e:6574:6573:1::fe/64")),
                segments=True,
            ),
            Interface(
                name="right",
                settings=TEN,
                addresses=(ip_interface("10.0.2.254/24"), ip_interface("fd4e:6574:6573:2::fe/64")),
                segments=True,
            ),
        ),
        routes=(),
        sysctls={**IP_SYSCTLS, **ROUTER_SYSCTLS},
    )


def test_hosts_go_through_the_router_by_default():
    assert planned("dumbbell").namespace("client2").routes == (
        NetworkRoute(ip_network("0.0.0.0/0"), (ip_address("10.0.1.254"),)),
        NetworkRoute(ip_network("::/0"), (ip_address("fd4e:6574:6573:1::fe"),)),
    )


def test_the_addresses_of_a_host_are_those_of_its_device():
    assert planned("dumbbell").namespace("router").addresses == {
        4: ip_address("10.0.2.254"),
        6: ip_address("fd4e:6574:6573:2::fe"),
    }


def test_both_directions_of_the_bottleneck_are_shaped_and_nothing_else():
    shaped = {
        namespace.name: tc_lines(namespace)
        for namespace in planned("dumbbell", rate="10mbit").namespaces
        if tc_lines(namespace)
    }
    assert shaped == {
        "nt3f-links": [
            f"qdisc add dev right-router {MADE}",
            "qdisc add dev right-router clsact",
            f"filter add dev right-router {EVERY} action mirred egress redirect dev router-right",
            f"qdisc add dev router-right {MADE}",
            "qdisc add dev router-right clsact",
            f"filter add dev router-right {EVERY} action mirred egress redirect dev right-router",
        ],
    }


def test_a_switch_has_a_bridge_and_no_addresses():
    right = planned("dumbbell").namespace("right")
    assert ip_lines(right) == [
        "link set dev lo up",
        "link add name bridge mtu 1500 type bridge stp_state 0 mcast_snooping 0",
        "link set dev bridge up",
        "link set dev router master bridge",
        "link set dev router up",
        "link set dev server1 master bridge",
        "link set dev server1 up",
    ]
    assert right.sysctls == SWITCH_SYSCTLS


def test_a_router_in_a_chain_knows_the_far_networks():
    r1 = planned("chain", routers="2").namespace("r1")
    assert r1.routes == (
        NetworkRoute(ip_network("10.0.3.0/24"), (ip_address("10.0.2.253"),)),
        NetworkRoute(ip_network("fd4e:6574:6573:3::/64"), (ip_address("fd4e:6574:6573:2::fd"),)),
    )


def test_an_edge_router_of_a_fat_tree_has_two_equal_ways_out():
    edge = planned("fattree").namespace("e1")
    far = [route for route in edge.routes if route.network == ip_network("10.0.16.0/24")]
    assert [len(route.gateways) for route in far] == [2]


def test_an_edge_router_with_one_core_has_one_way_out():
    edge = planned("fattree", routing="onecore").namespace("e1")
    assert {len(route.gateways) for route in edge.routes} == {1}


def test_several_gateways_are_one_group_to_the_kernel():
    edge = planned("fattree").namespace("e1")
    lines = choice_lines(edge)
    assert lines[:6] == [
        "nexthop add id 1 via 10.0.17.254 dev a1",
        "nexthop add id 2 via 10.0.18.254 dev a2",
        "nexthop add id 3 via fd4e:6574:6573:11::fe dev a1",
        "nexthop add id 4 via fd4e:6574:6573:12::fe dev a2",
        "nexthop add id 5 group 1/2 type resilient buckets 251",
        "nexthop add id 6 group 3/4 type resilient buckets 251",
    ]
    assert lines[-1] == "route add fd4e:6574:6573:10::/64 nhid 6"


def test_routers_with_equal_ways_choose_by_ports_and_each_by_a_number_of_its_own():
    namespaces = planned("fattree").namespaces
    choosing = [ns for ns in namespaces if MULTIPATH_SYSCTLS.items() <= ns.sysctls.items()]
    buckets = [ns.buckets for ns in choosing]
    assert (len(buckets), buckets[:3], len(set(buckets))) == (16, [251, 257, 263], 16)


def test_a_router_with_one_way_to_everywhere_chooses_nothing():
    edge = planned("fattree", routing="onecore").namespace("e1")
    assert (edge.buckets, choice_lines(edge)) == (0, [])


def test_idle_routers_do_not_forward():
    idle = planned("fattree", routing="onecore").namespace("c2")
    assert idle.sysctls == IP_SYSCTLS


def test_offloads_are_turned_off_at_both_ends():
    namespaces = planned("pair", offload="off").namespaces
    off = [*HOST, "gso", "off", "gro", "off"]
    assert [offload_words(namespace) for namespace in namespaces] == [{"b": off}, {"a": off}]


def test_hosts_of_a_link_with_limits_segment_behind_their_own_qdisc():
    namespaces = planned("pair", rate="10mbit").namespaces
    assert [offload_words(each) for each in namespaces] == [{"b": HOST}, {"a": HOST}, {}]


def test_hosts_before_a_router_segment_for_its_own_qdisc():
    client = planned("dumbbell", rate="none").namespace("client1")
    assert offload_words(client) == {"left": HOST}


def test_hosts_of_a_plain_cable_send_super_packets():
    assert [offload_words(each) for each in planned("pair").namespaces] == [{}, {}]


def test_a_link_carries_super_packets_if_asked_for():
    hosts = planned("pair", rate="1gbit", offload="on").namespaces
    assert [offload_words(each) for each in hosts] == [{}, {}, {}]


def test_the_settings_of_a_direction_are_the_alias_of_its_interface():
    links = planned("pair", rate="10mbit", delay="5", **{"b-a.rate": "1mbit"}).namespaces[-1]
    assert [line for line in ip_lines(links) if "alias" in line] == [
        'link set dev b-a alias "rate=1000000bit delay=5"',
        'link set dev a-b alias "rate=10000000bit delay=5"',
    ]


def test_a_second_cable_between_two_nodes_has_a_name_of_its_own():
    nodes = (Node("a", "host", agent=True), Node("b-with-long-name", "host", agent=True))
    links = (Link("a", "b-with-long-name"), Link("a", "b-with-long-name"))
    twice = plan(Topology("twice", nodes, links), prefix="nt3f")
    assert [end.name for end in twice.namespace("a").interfaces] == [
        "b-with-long-name",
        "b-with-long-n.2",
    ]


def test_links_whose_names_are_too_long_are_called_after_the_ends_of_them():
    nodes = (Node("kerneltest010", "host", agent=True), Node("kerneltest001", "host", agent=True))
    long = plan(Topology("long", nodes, (Link("kerneltest010", "kerneltest001", TEN),)), prefix="n")
    assert [end.name for end in long.namespaces[-1].interfaces] == [
        "test001-test010",
        "test010-test001",
    ]


def test_links_of_the_same_name_are_told_apart():
    nodes = (Node("a", "host", agent=True), Node("b", "host", agent=True))
    twice = plan(Topology("twice", nodes, (Link("a", "b", TEN),) * 2), prefix="nt3f")
    names = [end.name for end in twice.namespaces[-1].interfaces]
    assert names == ["b-a", "a-b", "b-a.2", "a-b.2"]


def test_a_node_may_be_called_links():
    nodes = (Node("links", "host", agent=True), Node("b", "host", agent=True))
    called = plan(Topology("called", nodes, (Link("links", "b", TEN),)), prefix="nt3f")
    assert called.links == "nt3f-links.2"


def test_super_packets_on_a_link_are_worth_a_note():
    built = plan(build("pair", {"rate": "1gbit", "offload": "on"}), prefix="n", maker=Maker(True))
    assert notes(built) == [
        (
            "link a - b: offload=on: it carries super-packets of up to 64 kB, and a queue overflows"
            " by a whole one"
        )
    ]


def test_what_a_token_bucket_passes_at_once_is_worth_a_note():
    assert notes(planned("pair", rate="100mbit")) == [
        (
            "link a - b: when it was idle, the first 12.5 kB pass at once instead of at its rate"
            " (a token bucket); ground sim has exact links"
        )
    ]


def test_a_wire_is_exact():
    assert notes(plan(build("pair", {"rate": "100mbit"}), prefix="n", maker=Maker(True))) == []


def test_a_link_that_a_script_changes_has_a_middle():
    nodes = (Node("a", "host", agent=True), Node("b", "host", agent=True))
    changing = plan(Topology("t", nodes, (Link("a", "b", changes=True),)), prefix="n")
    assert [tc_lines(each) for each in changing.namespaces if each.node.kind == "wires"] == [
        [
            "qdisc add dev b-a clsact",
            f"filter add dev b-a {EVERY} action mirred egress redirect dev a-b",
            "qdisc add dev a-b clsact",
            f"filter add dev a-b {EVERY} action mirred egress redirect dev b-a",
        ]
    ]


def test_a_network_has_room_for_so_many():
    hosts = tuple(Node(f"h{i}", "host", agent=True) for i in range(1023))
    crowd = Topology(
        "crowd",
        (*hosts, Node("sw", "switch")),
        tuple(Link(host.name, "sw") for host in hosts),
    )
    with pytest.raises(UsageError, match="more than 1022 hosts and routers in one network"):
        plan(crowd, prefix="nt3f")


def test_the_hosts_of_a_large_star_are_in_one_network_that_has_room_for_them():
    *_, last, switch = planned("star", hosts="500").namespaces
    assert last.addresses[4] == ip_address("10.0.5.244")
    [interface] = (each for each in last.interfaces if each.addresses)
    assert interface.addresses[0] == ip_interface("10.0.5.244/22")
    assert switch.addresses == {}


def test_the_middle_of_a_link_redirects_from_one_end_to_the_other():
    links = planned("pair", rate="10mbit").namespaces[-1]
    assert tc_lines(links) == [
        f"qdisc add dev b-a {MADE}",
        "qdisc add dev b-a clsact",
        f"filter add dev b-a {EVERY} action mirred egress redirect dev a-b",
        f"qdisc add dev a-b {MADE}",
        "qdisc add dev a-b clsact",
        f"filter add dev a-b {EVERY} action mirred egress redirect dev b-a",
    ]


@given(st.sampled_from(sorted(SHAPES)))
@settings(deadline=None)  # a fat tree on a busy machine
def test_no_address_is_given_twice(name):
    addresses = [
        address
        for namespace in planned(name).namespaces
        for end in namespace.interfaces
        for address in end.addresses
    ]
    assert len(set(addresses)) == len(addresses)


@given(st.sampled_from(sorted(SHAPES)))
@settings(deadline=None)  # a fat tree on a busy machine
def test_interface_names_fit_and_indices_differ(name):
    built = planned(name, rate="10mbit")
    ends = [end.name for namespace in built.namespaces for end in namespace.interfaces]
    assert max(map(len, ends)) <= 15
    assert len({cable.index for cable in built.cables}) == len(built.cables)


@given(st.sampled_from(sorted(SHAPES)))
@settings(deadline=None)  # a fat tree on a busy machine
def test_the_same_topology_gives_the_same_plan(name):
    assert planned(name) == planned(name)


# ---- the path of packets -------------------------------------------------------------------------


def path(built: LabPlan, source: str, destination: str) -> list[tuple[str, str]]:
    return [(end.link.a, end.link.b) for end in built.path(source, destination)]


def test_the_path_leads_through_the_bottleneck():
    steps = [("right", "server1"), ("router", "right"), ("left", "router"), ("client2", "left")]
    assert path(planned("dumbbell"), "server1", "client2") == steps


@given(st.sampled_from(sorted(SHAPES)))
@settings(deadline=None)  # a fat tree on a busy machine
def test_every_host_reaches_every_other(name):
    built = planned(name)
    hosts = built.topology.hosts
    assert all(path(built, a, b) for a in hosts for b in hosts if a != b)


def custom(nodes: list[Node], *links: tuple[str, str]) -> LabPlan:
    return plan(Topology("custom", tuple(nodes), tuple(Link(*ends) for ends in links)), prefix="nt")


def test_the_path_has_the_fewest_routers_even_over_more_links():
    built = custom(
        [
            Node("a", "host", agent=True),
            Node("b", "host", agent=True),
            *(Node(name, "switch") for name in ("s1", "s2", "s3")),
            *(Node(name, "router") for name in ("r1", "r2")),
        ],
        *(("a", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "b")),
        *(("a", "r1"), ("r1", "r2"), ("r2", "b")),
    )
    assert (path(built, "a", "b"), built.queues("a", "b")) == (
        [("a", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "b")],
        ("a/s1",),
    )


def test_the_path_ends_at_the_interface_that_a_host_tests_through():
    built = custom(
        [
            Node("a", "host", agent=True),
            Node("b", "host", agent=True, faces="r2"),
            *(Node(name, "router") for name in ("r1", "r2")),
        ],
        *(("a", "r1"), ("r1", "b"), ("r1", "r2"), ("r2", "b")),
    )
    there = [("a", "r1"), ("r1", "r2"), ("r2", "b")]
    back = [("r1", "b"), ("a", "r1")]
    assert (path(built, "a", "b"), path(built, "b", "a")) == (there, back)


# ---- the queues on a path ------------------------------------------------------------------------


def test_the_queues_of_a_path_are_where_its_packets_leave():
    found = planned("dumbbell", clients="1", servers="1", rate="10mbit")
    assert (found.queues("client1", "server1"), found.queues("server1", "client1")) == (
        ("client1/left", "router/right", "links/router-right"),
        ("router/left", "links/right-router", "server1/right"),
    )


def test_of_equal_paths_all_have_queues():
    found = planned("fattree", k="4", rate="100mbit")
    first, *_, last = found.topology.hosts
    # From a host to its edge switch, over two aggregation switches and four cores, and down again.
    links = [place for place in found.queues(first, last) if place.startswith("links/")]
    assert len(links) == 1 + 2 + 4 + 4 + 2 + 1


def test_the_queue_of_a_link_that_a_program_carries_has_the_names_of_its_ends():
    found = planned("dumbbell", clients="1", servers="1", rate="10mbit", emulator="program")
    assert found.queues("client1", "server1") == ("client1/left", "router/right", "router→right")


def test_idle_routers_are_on_no_path():
    found = planned("fattree", k="4", routing="onecore")
    assert found.queues("h1", "h16") == ("h1/e1", "e8/h16", "e1/a1", "a7/e8", "a1/c1", "c1/a7")


@settings(max_examples=20)
@given(st.sampled_from(sorted(SHAPES)))
def test_queues_of_a_path_are_interfaces_of_the_plan_or_directions_of_carried_links(name):
    found = planned(name)
    first, *_, last = found.topology.hosts
    there = {
        f"{space.node.name}/{end.name}" for space in found.namespaces for end in space.interfaces
    } | {
        f"{a}→{b}" for link in found.program_links for a, b in ((link.a, link.b), (link.b, link.a))
    }
    assert set(found.queues(first, last)) <= there


def test_the_program_carries_one_link_between_two_nodes():
    """Its files have the names of the nodes."""
    program, kernel = LinkSettings(rate_bps=1e7, emulator="program"), TEN
    nodes = (Node("a", "router"), Node("b", "router"))
    for settings_of_links, is_refused in (((program, kernel), False), ((program, program), True)):
        topology = Topology("two", nodes, tuple(Link("a", "b", each) for each in settings_of_links))
        if is_refused:
            with pytest.raises(UsageError, match="two links between a and b"):
                plan(topology, prefix="nt3f")
        else:
            assert len(plan(topology, prefix="nt3f").program_links) == 1
