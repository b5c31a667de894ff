from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from netesto.agent.access import Clients, listen_address, parse_clients, read_clients
from netesto.errors import UsageError
from netesto.transport.addresses import TcpAddress, UnixAddress

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:99", TcpAddress("127.0.0.1", 99)),
        ("127.8.8.8:99", TcpAddress("127.8.8.8", 99)),
        ("[::1]:99", TcpAddress("::1", 99)),
        ("localhost", TcpAddress("127.0.0.1", 12870)),
        ("unix:/tmp/a.sock", UnixAddress(Path("/tmp/a.sock"))),
    ],
)
def test_agent_listens_where_only_this_host_comes(text: str, address):
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["0.0.0.0:99", "[::]:99", "192.0.2.1:99", "[2001:db8::1]:99"])
def test_agent_does_not_listen_to_the_network(text: str):
    with pytest.raises(UsageError) as caught:
        listen_address(text)
    assert str(caught.value) == (
        f"cannot listen on {text}: until enrolment and TLS exist, an agent listens on loopback or"
        " a Unix socket\nReach it through ssh: ssh -L 12870:127.0.0.1:12870 HOST"
    )


def test_name_is_no_address_to_listen_on():
    with pytest.raises(UsageError) as caught:
        listen_address("h1.example.net:99")
    assert str(caught.value) == (
        "cannot listen on h1.example.net:99: invalid address 'h1.example.net'\n"
        "Write an address of this host, such as 127.0.0.1."
    )


def test_clients_are_addresses_and_networks():
    text = "# who may\n\n192.0.2.1  # ann\n2001:db8:1::/64\n"
    assert parse_clients(text, "clients.txt") == Clients(
        (ip_network("192.0.2.1/32"), ip_network("2001:db8:1::/64"))
    )


@pytest.mark.parametrize(
    ("address", "admitted"),
    [("192.0.2.1", True), ("192.0.2.2", False), ("2001:db8:1::9", True), ("2001:db8:2::9", False)],
)
def test_clients_in_the_list_are_admitted(address: str, admitted: bool):
    clients = parse_clients("192.0.2.1\n2001:db8:1::/64\n", "clients.txt")
    assert clients.admits(ip_address(address)) is admitted


def test_without_a_list_everybody_is_admitted():
    assert Clients().admits(ip_address("192.0.2.1"))


def test_empty_list_admits_nobody():
    assert not parse_clients("# nobody\n", "clients.txt").admits(ip_address("127.0.0.1"))


def test_line_that_is_no_address_is_named():
    with pytest.raises(UsageError, match=r"^clients\.txt:2: 'h1' does not appear to be an IPv4"):
        parse_clients("::1\nh1\n", "clients.txt")


def test_example_admits_this_host_alone():
    assert read_clients(CHECKOUT / "remote" / "clients.txt") == Clients(
        (ip_network("127.0.0.1/32"), ip_network("::1/128"))
    )
