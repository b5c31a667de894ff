import os

from netesto.transport import peers


def test_who_comes_by_a_door_is_the_user_and_process_in_the_name_of_the_socket():
    assert peers.who("unix-abstract:%00netesto 9f uid 7 pid 8", {}) == "uid 7 pid 8"


def test_who_comes_by_tls_has_the_names_of_the_certificate():
    assert peers.who("unix:/run/t1", {"/run/t1": "ann at 192.0.2.1"}) == "ann at 192.0.2.1"


def test_a_socket_without_a_door_is_for_its_user_alone():
    assert peers.who("unix:", {}) == f"uid {os.getuid()}"


def test_who_comes_by_a_port_has_an_address():
    assert peers.who("ipv6:%5B::1%5D:5", {}) == "[::1]:5"
