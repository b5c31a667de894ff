from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from netesto.controller.inventory import Inventory, load
from netesto.errors import UsageError, WorldError
from netesto.model import Endpoint

CLIENT = Endpoint(host="client1", agent="unix:/run/c.sock")
SERVER = Endpoint(host="server1", agent="unix:/run/s.sock")


def test_a_host_is_found_by_its_name():
    assert Inventory([CLIENT, SERVER]).find("server1") == SERVER


def test_a_host_is_found_by_its_name_with_the_suffix_of_the_script():
    inventory = Inventory([CLIENT, SERVER], suffixes=["example.net"])
    assert inventory.find("client1.example.net") == CLIENT


def test_a_name_is_not_cut_at_a_dot_that_no_suffix_has_put_there():
    with pytest.raises(WorldError) as caught:
        Inventory([CLIENT, SERVER]).find("client1.example.net")
    assert str(caught.value) == (
        "unknown host client1.example.net\n"
        "Is it client1? Then write HOST_SUFFIX example.net, or use --map"
        " client1.example.net=client1. The hosts are: client1, server1"
    )


def test_a_mapped_name_is_found_with_and_without_the_suffix_of_the_script():
    inventory = Inventory(
        [CLIENT, SERVER], aliases={"kerneltest010": "client1"}, suffixes=["example.net"]
    )
    found = [inventory.find("kerneltest010"), inventory.find("kerneltest010.example.net")]
    assert found == [CLIENT, CLIENT]


def test_an_unknown_host_is_refused_with_the_nearest_name():
    with pytest.raises(WorldError) as caught:
        Inventory([CLIENT, SERVER]).find("cleint1")
    assert str(caught.value) == (
        "unknown host cleint1\nDid you mean client1? The hosts are: client1, server1"
    )


def test_a_name_like_no_other_is_reported_with_how_to_stand_for_a_host():
    with pytest.raises(WorldError) as caught:
        Inventory([CLIENT, SERVER]).find("kerneltest010")
    assert str(caught.value) == (
        "unknown host kerneltest010\n"
        "The hosts are: client1, server1. To use one of them: --map kerneltest010=client1"
    )


def test_a_map_to_a_host_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="--map a=router: unknown host router"):
        Inventory([CLIENT], aliases={"a": "router"})


def test_a_hosts_file_names_agents_and_addresses(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "ssh://ann@h1:7/s"\naddresses = ["127.0.0.1", "::1"]\n')
    addresses = {4: ip_address("127.0.0.1"), 6: ip_address("::1")}
    expected = {"h1": Endpoint(host="h1", agent="ssh://ann@h1:7/s", addresses=addresses)}
    assert load(str(path)).endpoints == expected


def test_ssh_reaches_the_agent_of_a_host_by_the_name_of_its_table(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('["h1.net"]\n["2001:db8::1"]\n')
    expected = {"h1.net": "ssh://h1.net", "2001:db8::1": "ssh://[2001:db8::1]"}
    assert {name: each.agent for name, each in load(str(path)).endpoints.items()} == expected


def test_traffic_keeps_its_addresses_where_an_agent_is_elsewhere():
    given, found = {4: ip_address("192.0.2.1")}, {4: ip_address("198.51.100.7")}
    named = [
        Endpoint(host="h1", agent="ssh://h1", addresses=given),
        Endpoint(host="h2", agent="ssh://h2"),
    ]
    moved = Inventory(named).at([replace(each, agent="unix:a", addresses=found) for each in named])
    assert [each.addresses for each in moved.endpoints.values()] == [given, found]


def test_hosts_are_named_without_a_file():
    expected = {
        "h1": Endpoint(host="h1", agent="ssh://h1"),
        "h2": Endpoint(host="h2", agent="ssh://root@h2:2222"),
        "::1": Endpoint(host="::1", agent="ssh://[::1]"),
    }
    assert load("h1, root@h2:2222,[::1]").endpoints == expected


def test_what_exists_is_a_file_and_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("h1").write_text("[h2]\n")
    assert [*load("h1").endpoints] == ["h2"]


def test_a_name_like_that_of_a_hosts_file_beside_is_taken_for_a_host_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("hosts.toml").write_text("[h2]\n")
    found = load("hosts.ml")
    assert (found.warnings, [*found.endpoints]) == (
        ("--hosts hosts.ml: interpreted as the name of a host. Did you mean hosts.toml?",),
        ["hosts.ml"],
    )
    assert load("h1.example").warnings == ()


def test_a_name_that_no_host_has_is_that_of_a_file_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    told = []
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            load("hosts.tml")
        told.append((caught.value.message, caught.value.remedy))
        Path("hosts.toml").touch()
    by_user = "If it is the name of a host, write: USER@hosts.tml"
    assert told == [
        ("hosts.tml: no such file", by_user),
        ("hosts.tml: no such file", f"Did you mean hosts.toml? {by_user}"),
    ]
    assert [*load("ann@hosts.tml").endpoints] == ["hosts.tml"]


@pytest.mark.parametrize("text", ["fd00::1", "[fd00::1]", "root@fd00::1", "root@[fd00::1]"])
def test_an_ipv6_address_is_a_host_with_brackets_or_without(text: str):
    user = "root@" if "@" in text else ""
    assert load(text).endpoints["fd00::1"].agent == f"ssh://{user}[fd00::1]"


@pytest.mark.parametrize("text", ["", "h1,", "-v", "h1,-oProxyCommand=x", "no/such", "h 1", "h1:0"])
def test_a_list_of_hosts_with_something_else_is_refused(text: str):
    with pytest.raises(UsageError, match="is neither a hosts file nor a host"):
        load(text)


def test_a_host_that_is_named_twice_is_refused():
    with pytest.raises(UsageError, match="h1,root@h1: host h1 is named twice"):
        load("h1,root@h1")


def test_an_agent_on_a_port_is_refused_loopback_included(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "127.0.0.1:7"\n')
    with pytest.raises(UsageError) as caught:
        load(str(path))
    assert str(caught.value) == (
        f"{path}: host h1: agent: invalid agent address '127.0.0.1:7'\nWrite"
        " ssh://[USER@]HOST[:PORT][/PATH/OF/SOCKET], or unix:PATH: agents listen on no ports."
    )


FILES = 'tls = {certificate = "a.crt", key = "a.key", ca = "ca.crt"}\n'


@pytest.mark.parametrize(
    ("text", "place"), [(f"{FILES}[h1]\n", ""), (f"[h1]\n{FILES}", " host h1:")]
)
def test_the_files_of_tls_are_refused_with_what_to_do_instead(
    tmp_path: Path, text: str, place: str
):
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(str(path))
    assert str(caught.value) == (
        f"{path}:{place} tls: removed\n"
        "Reach the agent through ssh, or put stunnel before its Unix socket: see docs/hosts.md."
    )


def test_a_host_may_be_called_tls(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text("[tls]\n")
    assert load(str(path)).endpoints == {"tls": Endpoint(host="tls", agent="ssh://tls")}


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(str(path))
    return str(caught.value).splitlines()[0].removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[h1]\nagent = "tls://h1"',
            "host h1: agent: 'tls://h1': netesto has no TLS of its own",
        ),
        ("", "names no host"),
        ("h1 = 7\n", "h1 is not a table"),
        ("[-v]\n", "host -v: agent: 'ssh://-v': invalid host '-v'"),
        ("[h1]\nagent = 7\n", "host h1: agent: not a string"),
        (
            '[h1]\nagent = "unix:/s"\naddresses = "::1"\n',
            "host h1: addresses: not a list of strings",
        ),
        ('[h1]\nagent = "unix:/s"\naddresses = [1]\n', "host h1: addresses: not a list of strings"),
        (
            '[h1]\nagent = "unix:/s"\naddresses = ["router"]\n',
            "host h1: invalid IP address 'router'",
        ),
        (
            '[h1]\nagent = "unix:/s"\naddresses = ["192.0.2.1", "192.0.2.2"]\n',
            "host h1: two IPv4 addresses, 192.0.2.1 and 192.0.2.2",
        ),
        (
            '[h1]\nagent = "unix:/s"\n[h2]\nagent = "unix:/s"\n',
            "hosts h1 and h2 have the same agent, unix:/s",
        ),
        (
            '[h1]\naddresses = ["192.0.2.1"]\n[h2]\naddresses = ["192.0.2.1"]\n',
            "hosts h1 and h2 have the same address, 192.0.2.1",
        ),
        ('[h1.net]\nagent = "unix:/s"\n', "host h1.net: a name with a dot needs quotes"),
        ('["h 1"]\nagent = "unix:/s"\n', "invalid host name 'h 1'"),
    ],
)
def test_a_hosts_file_that_is_wrong_is_refused(tmp_path: Path, text: str, message: str):
    assert refused(tmp_path, text) == message


def test_a_hosts_file_in_another_encoding_is_refused(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_bytes(b'[h1]\nagent = "\xe4"\n')
    with pytest.raises(UsageError, match="not UTF-8 text"):
        load(str(path))


def test_a_hosts_file_with_an_unknown_key_is_refused(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "unix:/s"\nadress = "127.0.0.1"\n')
    with pytest.raises(UsageError, match="host h1: unknown key adress"):
        load(str(path))


def test_an_inventory_of_ansible_without_a_suffix_is_refused_with_the_one_to_give(tmp_path: Path):
    path = tmp_path / "hosts"
    path.write_text("[all]\nh1\n")
    with pytest.raises(UsageError, match="not TOML") as caught:
        load(str(path))
    assert caught.value.remedy.startswith("The name of an inventory of Ansible ends in .ini,")


def test_a_hosts_file_that_is_no_toml_is_refused(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text("h1: 127.0.0.1\n")
    with pytest.raises(UsageError, match="not TOML"):
        load(str(path))


def test_some_of_the_hosts_keep_what_is_known_of_their_file():
    hosts = [Endpoint(host=name, agent=f"unix:{name}") for name in ("a", "b")]
    found = Inventory(hosts, warnings=["old"], text="hosts.toml").only(["a"]).with_suffixes({"x"})
    assert (list(found.endpoints), found.warnings, found.text) == (["a"], ("old",), "hosts.toml")
