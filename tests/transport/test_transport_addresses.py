from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import UsageError
from netesto.transport.addresses import TcpAddress, UnixAddress, parse


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/netesto/a.sock", UnixAddress(Path("/run/netesto/a.sock"))),
        ("127.0.0.1:99", TcpAddress("127.0.0.1", 99)),
        ("h1.example.net:99", TcpAddress("h1.example.net", 99)),
        ("[::1]:99", TcpAddress("::1", 99)),
        ("h1", TcpAddress("h1", 12870)),
        ("[::1]", TcpAddress("::1", 12870)),
    ],
)
def test_address_is_read(text, address):
    assert parse(text) == address


def test_relative_socket_is_below_the_working_directory():
    assert parse("unix:a.sock") == UnixAddress(Path.cwd() / "a.sock")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no agent address\nwrite unix:PATH or HOST:PORT"),
        ("unix:", "'unix:' names no socket\nwrite unix:/run/netesto/agent.sock"),
        ("h1:port", "'h1:port': 'port' is no port\na port is 1 to 65535"),
        ("h1:", "'h1:': '' is no port\na port is 1 to 65535"),
        ("h1:65536", "'h1:65536': '65536' is no port\na port is 1 to 65535"),
        ("::1", "'::1' is no agent address\nwrite [::1]:12870"),
        ("[::1", "'[::1' is no agent address\nwrite [IPV6]:PORT"),
        ("[::1]99", "'[::1]99' is no agent address\nwrite [IPV6]:PORT"),
    ],
)
def test_text_that_is_no_address_is_refused(text, message):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_socket_path_of_107_bytes_is_read():
    path = "/" + "s" * 106
    assert parse(f"unix:{path}") == UnixAddress(Path(path))


def test_socket_path_of_108_bytes_is_refused():
    path = "/" + "ü" * 53 + "s"
    with pytest.raises(UsageError) as caught:
        parse(f"unix:{path}")
    assert str(caught.value) == (
        f"{path}: 108 bytes; the path of a socket holds at most 107\n"
        "use a shorter folder, such as /run/netesto"
    )


@given(st.sampled_from(["h1", "192.0.2.1", "2001:db8::1"]), st.integers(0, 65535))
def test_address_reads_what_it_prints(host, port):
    address = TcpAddress(host, port)
    assert parse(str(address)) == address
