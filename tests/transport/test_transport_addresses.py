from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import UsageError
from netesto.transport.addresses import SshAddress, UnixAddress, parse

A = Path("/run/n/a")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/netesto/a.sock", UnixAddress(Path("/run/netesto/a.sock"))),
        ("ssh://h1", SshAddress("h1")),
        ("ssh://h1/", SshAddress("h1")),
        ("ssh://ann@h1.example.net:2222/run/n/a", SshAddress("h1.example.net", "ann", 2222, A)),
        ("ssh://[2001:db8::1]:22", SshAddress("2001:db8::1", "", 22)),
        ("ssh://root@[fe80::1%eth0]", SshAddress("fe80::1%eth0", "root")),
    ],
)
def test_address_is_read(text, address):
    assert parse(text) == address


def test_relative_socket_is_below_the_working_directory():
    assert parse("unix:a.sock") == UnixAddress(Path.cwd() / "a.sock")


SSH = "ssh://[USER@]HOST[:PORT][/PATH/OF/SOCKET]"
WRITE_SSH = f"Write {SSH}."
WRITE_PATH = "It is an absolute path of letters, digits and -_./+,@=."
NO_PORTS = f"Write {SSH}, or unix:PATH: agents listen on no ports."
NO_TLS = "Reach the agent through ssh, or put stunnel before its Unix socket: see docs/hosts.md."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, f"invalid agent address {text!r}\n{NO_PORTS}")
            for text in ("", "h1", "h1:12870", "[::1]:12870", "2001:db8::1", "192.0.2.1")
        ),
        ("unix:", "'unix:': no socket path\nWrite unix:/run/netesto/agent.sock."),
        ("tls://h1:12870", f"'tls://h1:12870': netesto has no TLS of its own\n{NO_TLS}"),
        ("shs://h1", "'shs://h1': unknown scheme shs\nDid you mean ssh?"),
        ("http://h1", "'http://h1': unknown scheme http\nWrite ssh:// or unix:."),
        ("ssh:h1", "invalid agent address 'ssh:h1'\n" + WRITE_SSH),
        ("ssh://", "'ssh://': invalid host ''\n" + WRITE_SSH),
        (
            "ssh://-oProxyCommand=x",
            "'ssh://-oProxyCommand=x': invalid host '-oProxyCommand=x'\n" + WRITE_SSH,
        ),
        ("ssh://-v@h1", "'ssh://-v@h1': invalid user name '-v'\n" + WRITE_SSH),
        ("ssh://@h1", "'ssh://@h1': invalid user name ''\n" + WRITE_SSH),
        ("ssh://a b@h1", "'ssh://a b@h1': invalid user name 'a b'\n" + WRITE_SSH),
        ("ssh://h$x", "'ssh://h$x': invalid host 'h$x'\n" + WRITE_SSH),
        ("ssh://2001:db8::1", "'ssh://2001:db8::1': invalid port 'db8::1'\nA port is 1 to 65535."),
        ("ssh://[-v]", "'ssh://[-v]': invalid host '[-v]'\n" + WRITE_SSH),
        ("ssh://h1:0", "'ssh://h1:0': invalid port '0'\nA port is 1 to 65535."),
        ("ssh://h1:", "'ssh://h1:': invalid port ''\nA port is 1 to 65535."),
        ("ssh://h1/a:b", "'ssh://h1/a:b': invalid socket path '/a:b'\n" + WRITE_PATH),
        (
            "ssh://h1/$HOME/a",
            "'ssh://h1/$HOME/a': invalid socket path '/$HOME/a'\n" + WRITE_PATH,
        ),
        ("ssh://h1/a/", "'ssh://h1/a/': invalid socket path '/a/'\n" + WRITE_PATH),
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
        f"{path}: 108 bytes; a socket path has at most 107\n"
        "Use a shorter folder, such as /run/netesto."
    )


@given(
    st.sampled_from(["h1", "192.0.2.1", "2001:db8::1", "fe80::1%eth0"]),
    st.sampled_from(["", "ann"]),
    st.none() | st.integers(1, 65535),
    st.sampled_from([A, Path("/run/netesto/agent.sock")]),
)
def test_address_of_ssh_reads_what_it_prints(host, user, port, path):
    address = SshAddress(host, user, port, path)
    assert parse(str(address)) == address
