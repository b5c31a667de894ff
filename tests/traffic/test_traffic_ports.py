"""Data ports are handed out least recently used first, and a client's follow from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import WorldError
from netesto.model import Ports
from netesto.traffic import ports as traffic_ports
from netesto.traffic.ports import PortRange


def test_ports_come_in_order():
    assert PortRange(100, 4).take(3) == (100, 101, 102)


def test_a_port_given_back_is_handed_out_last():
    ports = PortRange(100, 3)
    ports.give_back(ports.take(2))
    assert ports.take(3) == (102, 100, 101)


def test_giving_back_twice_does_no_harm():
    ports = PortRange(100, 2)
    taken = ports.take(1)
    ports.give_back(taken)
    ports.give_back(taken)
    assert ports.take(2) == (101, 100)


def test_too_many_ports_are_refused_with_the_numbers():
    ports = PortRange(100, 3)
    ports.take(2)
    with pytest.raises(WorldError, match="2 ports are needed, and 1 of 3 are free"):
        ports.take(2)


def test_a_refused_request_takes_nothing():
    ports = PortRange(100, 2)
    with pytest.raises(WorldError):
        ports.take(3)
    assert ports.take(2) == (100, 101)


@given(st.lists(st.integers(0, 4), max_size=30))
def test_no_port_is_in_two_hands(counts):
    ports = PortRange(100, 200)
    held: list[int] = []
    for count in counts:
        held += ports.take(count)
    assert len(held) == len(set(held))


def test_a_client_port_follows_from_group_and_data_port(ask, ports):
    assert traffic_ports.client_port(ask(group=3), ports, 2) == 17001


def test_two_groups_with_equal_data_ports_have_different_client_ports(ask, ports):
    assert traffic_ports.client_port(ask(group=1), ports, 1) != traffic_ports.client_port(
        ask(group=2), ports, 1
    )


def test_the_highest_client_port_is_below_those_of_the_kernel(ask):
    highest = Ports(control=(1,), data=(13899,))
    assert traffic_ports.client_port(ask(group=15), highest, 1) == 29999


def test_a_data_port_outside_the_range_leaves_the_client_port_to_the_kernel(ask):
    assert traffic_ports.client_port(ask(), Ports(control=(1,), data=(40000,)), 1) is None
