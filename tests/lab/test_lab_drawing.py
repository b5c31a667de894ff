"""Topologies drawn in text."""

from dataclasses import replace
from fractions import Fraction
from textwrap import dedent

from netesto.lab.drawing import draw
from netesto.lab.graph import Link, Node, Topology
from netesto.lab.topology import build


def drawn(text: str) -> str:
    return dedent(text).strip("\n")


def test_pair():
    assert draw(build("pair", {})) == "a ── b"


def test_star():
    assert draw(build("star", {"hosts": "3", "rate": "1gbit", "limit": "1M"})) == drawn("""
        sw
        ├══ h1
        ├══ h2
        └══ h3

        every link: 1 Gbit/s, queue 1M
        """)


def test_dumbbell():
    asked = {"clients": "4", "servers": "2", "delay": "20"}
    assert draw(build("dumbbell", asked)) == drawn("""
        client1 ─┐
        client2 ─┼ left ── [router] ══ right ┬─ server1
        client3 ─┤                           └─ server2
        client4 ─┘

        router ══ right: 100 Mbit/s, delay 20 ms, queue 625K
        """)


def test_dumbbell_with_more_servers_than_clients():
    assert draw(build("dumbbell", {"clients": "1", "servers": "3"})) == drawn("""
                                             ┌─ server1
        client1 ── left ── [router] ══ right ┼─ server2
                                             └─ server3

        router ══ right: 100 Mbit/s, queue 625K
        """)


def test_chain():
    assert draw(build("chain", {"delay": "1"})) == drawn("""
        h1 ══ r1 ══ r2 ══ h2

        every link: delay 1 ms
        """)


def test_tree():
    assert draw(build("tree", {"rate1": "1gbit", "limit": "1M", "rate": "10mbit"})) == drawn("""
        sw1
        ├══ sw2
        │   ├══ h1
        │   └══ h2
        └══ sw3
            ├══ h3
            └══ h4

        sw1 ══ sw2, sw1 ══ sw3: 1 Gbit/s, queue 1M
        sw2 ══ h1, sw2 ══ h2, sw3 ══ h3, sw3 ══ h4: 10 Mbit/s, queue 1M
        """)


def test_weights_are_shown_with_the_limits():
    pair = build("pair", {"rate": "10mbit"})
    heavy = replace(pair, links=(replace(pair.links[0], weight=Fraction(5, 2)),))
    assert draw(heavy).splitlines()[-1] == f"{draw(pair).splitlines()[-1]}, weight 2.5"


def test_leafspine():
    assert draw(build("leafspine", {"leaves": "3", "hosts": "2"})) == drawn("""
        s1 … s2, each linked to every l
        l1 ── h1 … h2
        l2 ── h3 … h4
        l3 ── h5 … h6
    """)


def test_fattree():
    assert draw(build("fattree", {"routing": "twocore"})) == drawn("""
        c1 … c4, each linked to one a of every pod; in a pod every a to every e
        pod 1:  a1 … a2 ── e1 … e2 ── h1 … h4
        pod 2:  a3 … a4 ── e3 … e4 ── h5 … h8
        pod 3:  a5 … a6 ── e5 … e6 ── h9 … h12
        pod 4:  a7 … a8 ── e7 … e8 ── h13 … h16
        idle: c2, c4
        """)


def test_a_ring_has_each_link_once():
    nodes = tuple(Node(name, "router", agent=True) for name in "abc")
    ring = Topology("ring", nodes, (Link("a", "b"), Link("b", "c"), Link("c", "a")))
    assert draw(ring) == drawn("""
        a
        ├── b
        └── c
        b ── c
        """)
