import os
import stat
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from netesto.agent.access import (
    Clients,
    ClientsFile,
    listen_address,
    parse_clients,
    prepare_folder,
)
from netesto.errors import UsageError
from netesto.files import texts
from netesto.transport.addresses import TcpAddress, TlsAddress, UnixAddress

CHECKOUT = Path(__file__).resolve().parents[2]


def test_an_agent_listens_on_a_unix_socket():
    address = listen_address("unix:/run/a.sock", insecure=False)
    assert address == UnixAddress(Path("/run/a.sock"))


@pytest.mark.parametrize("text", ["127.0.0.1:99", "[::1]:99", "0.0.0.0:99", "192.0.2.1:99"])
def test_an_agent_listens_on_no_port_loopback_included(text: str):
    with pytest.raises(UsageError) as caught:
        listen_address(text, insecure=False)
    assert str(caught.value) == (
        f"cannot listen on {text}: everybody who reaches a port could use the agent\n"
        "Listen on unix:/run/netesto/agent.sock; controllers reach it through ssh. --insecure"
        " listens on the port nevertheless."
    )


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[::]:99", TcpAddress("::", 99)),
        ("localhost", TcpAddress("127.0.0.1", 12870)),
    ],
)
def test_an_insecure_agent_listens_on_a_port(text: str, address):
    assert listen_address(text, insecure=True) == address


def test_name_is_no_address_to_listen_on():
    with pytest.raises(UsageError) as caught:
        listen_address("h1.example.net:99", insecure=True)
    assert str(caught.value) == (
        "cannot listen on h1.example.net:99: invalid address 'h1.example.net'\n"
        "Write an address of this host, such as 127.0.0.1."
    )


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_the_folder_of_a_socket_is_made_for_its_user_alone(tmp_path: Path, mask: int):
    before = os.umask(mask)
    try:
        prepare_folder(tmp_path / "run", None)
    finally:
        os.umask(before)
    assert mode(tmp_path / "run") == 0o700


def test_the_folder_of_a_socket_is_opened_to_a_group_and_closed_again(tmp_path: Path):
    folder, group = tmp_path / "run", os.getgid()
    modes = []
    for each in (None, group, None):
        prepare_folder(folder, each)
        modes.append(mode(folder))
    assert modes == [0o700, 0o750, 0o700]


def test_a_folder_that_everybody_may_pass_stays_so(tmp_path: Path):
    tmp_path.chmod(0o755)
    prepare_folder(tmp_path, os.getgid())
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("writable", [0o770, 0o1777, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, writable: int):
    tmp_path.chmod(writable)
    with pytest.raises(UsageError) as caught:
        prepare_folder(tmp_path, None)
    tmp_path.chmod(0o700)
    assert str(caught.value) == (
        f"{tmp_path}: others can write to this folder, and replace a socket in it\nListen in a"
        f" folder that only you can write to, such as /run/netesto, or: chmod go-w {tmp_path}"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root: it gives a folder to another user")
def test_a_folder_of_another_user_is_refused(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    os.chown(folder, 12345, -1)
    with pytest.raises(UsageError) as caught:
        prepare_folder(folder, None)
    assert caught.value.message == (
        f"{folder}: this folder belongs to the user with number 12345, who can replace a socket in"
        " it"
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
    with pytest.raises(UsageError, match=r"^clients\.txt:2: '192\.0\.2' does not appear to be an"):
        parse_clients("::1\n192.0.2\n", "clients.txt")


@pytest.mark.parametrize("address", ["192.0.2.1/33", "1:2", "dead:beef"])
def test_an_address_that_is_none_is_no_name(address: str):
    with pytest.raises(UsageError, match=r"^clients\.txt:1: "):
        parse_clients(address, "clients.txt")


NAMES = ["controller.example", "spiffe://lab/controller", "ann@example.net", "ci-7"]


def test_other_lines_are_names_in_certificates():
    clients = parse_clients("\n".join(["192.0.2.0/24", *NAMES]), "clients.txt")
    assert clients == Clients((ip_network("192.0.2.0/24"),), frozenset(NAMES))


@pytest.mark.parametrize(
    ("text", "admitted"),
    [("a.example", True), ("a.example\n192.0.2.1", True), ("a.example\n192.0.2.2", False)],
)
def test_networks_limit_tls_where_there_are_any(text: str, admitted: bool):
    clients = parse_clients(text, "clients.txt")
    assert clients.admits_to_tls(ip_address("192.0.2.1")) is admitted


def test_names_alone_admit_nobody_without_tls():
    assert not parse_clients("a.example", "clients.txt").admits(ip_address("192.0.2.1"))


def test_an_agent_listens_to_the_network_by_tls():
    address = listen_address("tls://0.0.0.0:99", insecure=False)
    assert address == TlsAddress("0.0.0.0", 99)


def test_example_admits_this_host_alone():
    assert ClientsFile(CHECKOUT / "remote" / "clients.txt").now() == Clients(
        (ip_network("127.0.0.1/32"), ip_network("::1/128"))
    )


def test_nobody_gets_the_earlier_clients_while_a_new_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, read = tmp_path / "clients.txt", texts.read
    path.write_text("a.example")
    file, meanwhile = ClientsFile(path), list[Clients]()

    def read_while_another_thread_asks(path: Path) -> str:
        monkeypatch.setattr(texts, "read", read)
        meanwhile.append(file.now())
        return read(path)

    path.write_text("other.example")
    monkeypatch.setattr(texts, "read", read_while_another_thread_asks)
    new = Clients((), frozenset({"other.example"}))
    assert ([file.now()], meanwhile) == ([new], [new])
