import os

from netesto.transport.server import who


def test_who_comes_by_a_socket_of_ours_is_who_it_was_made_for():
    callers = {"netesto-9f": "ann at 192.0.2.1"}
    assert who("unix-abstract:netesto-9f", callers) == "ann at 192.0.2.1"


def test_a_socket_without_a_door_is_for_its_user_alone():
    assert who("unix:", {}) == f"uid {os.getuid()}"


def test_who_comes_by_a_port_has_an_address():
    assert who("ipv6:%5B::1%5D:5", {}) == "[::1]:5"
