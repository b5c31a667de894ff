"""The smallest cut: as another library finds it, and of networks that anybody can count."""

from random import Random

import networkx as nx
import pytest

from netesto.lab import topology
from netesto.links import cuts
from netesto.links.cuts import Arc, Cut

HOSTS = [f"h{i}" for i in range(1, 17)]


def random_arcs(generator: Random) -> list[Arc]:
    """Up to 12 nodes; some links have no limit, and some pairs of nodes two links."""
    names = [f"n{i}" for i in range(generator.randint(2, 12))]
    arcs = []
    for _ in range(generator.randint(1, 40)):
        source, destination = generator.sample(names, 2)
        arcs.append(Arc(source, destination, generator.choice([None, *range(1, 9)])))
    return arcs


def of_networkx(arcs: list[Arc], senders: list[str], receivers: list[str]) -> float | None:
    graph = nx.DiGraph()
    for arc in arcs:
        before = graph.get_edge_data(arc.source, arc.destination, {"capacity": 0})
        # A missing capacity is an infinite one.
        if "capacity" in before and arc.rate_bps is not None:
            graph.add_edge(arc.source, arc.destination, capacity=before["capacity"] + arc.rate_bps)
        else:
            graph.remove_edges_from([(arc.source, arc.destination)])
            graph.add_edge(arc.source, arc.destination)
    graph.add_edges_from(("senders", name) for name in senders)
    graph.add_edges_from((name, "receivers") for name in receivers)
    try:
        return float(nx.maximum_flow_value(graph, "senders", "receivers"))
    except nx.NetworkXUnbounded:
        return None


def test_the_smallest_cut_of_1000_random_graphs_is_the_maximum_flow_of_another_library():
    generator = Random(32)
    unlimited = 0
    for _ in range(1000):
        arcs = random_arcs(generator)
        names = sorted({name for arc in arcs for name in arc[:2]})
        generator.shuffle(names)
        middle = generator.randint(1, len(names) - 1)
        senders = names[: generator.randint(1, middle)]
        receivers = names[middle : generator.randint(middle + 1, len(names))]
        found = cuts.smallest(arcs, senders, receivers)
        assert found.rate_bps == of_networkx(arcs, senders, receivers)
        unlimited += found.rate_bps is None
        if found.rate_bps is not None:
            # Without the arcs of the cut nothing goes from senders to receivers.
            left = [arc for arc in arcs if arc not in found.arcs]
            assert cuts.smallest(left, senders, receivers) == Cut(0, ())
            assert sum(arc.rate_bps or 0 for arc in found.arcs) == found.rate_bps
    assert 0 < unlimited < 500


def test_of_equal_cuts_the_one_with_the_fewest_links_is_shown():
    given = {"depth": "4", "rate": "1mbit", "rate1": "2mbit"}
    tree = topology.build("tree", given)
    assert tree.cut(HOSTS[:8], HOSTS[8:]) == Cut(2e6, (Arc("sw2", "sw1", 2e6),))


@pytest.mark.parametrize(
    ("routing", "rate_bps"), [("ecmp", 8e6), ("twocore", 4e6), ("onecore", 2e6)]
)
def test_routers_that_do_not_forward_carry_nothing(routing: str, rate_bps: float):
    built = topology.build("fattree", {"rate": "1mbit", "routing": routing})
    assert built.cut(HOSTS[:8], HOSTS[8:]).rate_bps == rate_bps


def test_a_host_that_neither_sends_nor_receives_carries_nothing():
    star = topology.build("star", {"rate": "10mbit", "hosts": "3"})
    assert star.cut(["h1"], ["h2"]) == Cut(1e7, (Arc("h1", "sw", 1e7),))
    pair = topology.build("pair", {})
    assert pair.cut(["a"], ["b"]) == Cut(None, ())


def test_directions_of_a_link_count_by_themselves():
    given = {"a-b.rate": "1mbit", "b-a.rate": "3mbit"}
    pair = topology.build("pair", given)
    assert (pair.cut(["a"], ["b"]).rate_bps, pair.cut(["b"], ["a"]).rate_bps) == (1e6, 3e6)
