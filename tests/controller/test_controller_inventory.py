from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from netesto.controller.inventory import Inventory, load
from netesto.errors import UsageError, WorldError
from netesto.model import Endpoint, TlsFiles

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


def test_a_name_like_no_other_is_told_how_to_stand_for_a_host():
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
        f"{path}: host h1: agent: everybody who can connect to 127.0.0.1:7 could use the agent,"
        ' and impersonate it\nWrite agent = "ssh://h1". --insecure uses the port nevertheless: only'
        " for networks and machines without other users."
    )


def test_an_agent_without_a_port_has_the_default_port(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "127.0.0.1"\n')
    addresses = {4: ip_address("127.0.0.1")}
    expected = {"h1": Endpoint(host="h1", agent="127.0.0.1:12870", addresses=addresses)}
    assert load(str(path), insecure=True).endpoints == expected


def test_files_of_tls_are_those_of_all_hosts_or_of_one(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text(
        'tls = {certificate = "all.crt", key = "all.key", ca = "ca.crt"}\n'
        '[h1]\nagent = "tls://h1.example"\n'
        '[h2]\nagent = "tls://h2.example:99"\n'
        'tls = {certificate = "h2.crt", key = "h2.key", ca = "/etc/ca.crt"}\n'
        "[h3]\n"
    )

    def files(name: str, ca: Path) -> TlsFiles:
        return TlsFiles(certificate=tmp_path / f"{name}.crt", key=tmp_path / f"{name}.key", ca=ca)

    assert load(str(path)).endpoints == {
        "h1": Endpoint(
            host="h1", agent="tls://h1.example:12870", tls=files("all", tmp_path / "ca.crt")
        ),
        "h2": Endpoint(
            host="h2", agent="tls://h2.example:99", tls=files("h2", Path("/etc/ca.crt"))
        ),
        "h3": Endpoint(host="h3", agent="ssh://h3"),
    }


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(str(path), insecure=True)
    return str(caught.value).splitlines()[0].removeprefix(f"{path}: ")


def test_an_agent_of_an_ipv6_address_is_read_and_lends_it_to_the_traffic(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "2001:db8::1"\n[h2]\nagent = "[2001:db8::2]:7"\n')
    one, two = (ip_address(f"2001:db8::{number}") for number in (1, 2))
    assert load(str(path), insecure=True).endpoints == {
        "h1": Endpoint(host="h1", agent="[2001:db8::1]:12870", addresses={6: one}),
        "h2": Endpoint(host="h2", agent="[2001:db8::2]:7", addresses={6: two}),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[h1]\nagent = "tls://h1"', "host h1: agent: no certificate for tls://h1:12870"),
        ("[h1]\ntls = 1", "host h1: tls: not a table of the paths of certificate, key, ca"),
        ("tls = 1\n[h1]", "tls: not a table of the paths of certificate, key, ca"),
        ("", "names no host"),
        ("h1 = 7\n", "h1 is not a table"),
        ("[-v]\n", "host -v: agent: 'ssh://-v': invalid host '-v'"),
        ("[h1]\nagent = 7\n", "host h1: agent: not a string"),
        ('[h1]\nagent = "a:b"\n', "host h1: agent: 'a:b': invalid port 'b'"),
        ('[h1]\nagent = "127.0.0.1:0"\n', "host h1: agent: invalid port '0'"),
        (
            '[h1]\nagent = "unix:/s"\naddresses = "::1"\n',
            "host h1: addresses: not a list of strings",
        ),
        ('[h1]\nagent = "unix:/s"\naddresses = [1]\n', "host h1: addresses: not a list of strings"),
        ('[h1]\nagent = "router:7"\n', "host h1: invalid IP address 'router'"),
        (
            '[h1]\nagent = "unix:/s"\naddresses = ["192.0.2.1", "192.0.2.2"]\n',
            "host h1: two IPv4 addresses, 192.0.2.1 and 192.0.2.2",
        ),
        (
            '[h1]\nagent = "127.0.0.1"\n[h2]\nagent = "127.0.0.1:12870"\n',
            "hosts h1 and h2 have the same agent, 127.0.0.1:12870",
        ),
        (
            '[h1]\naddresses = ["192.0.2.1"]\n[h2]\naddresses = ["192.0.2.1"]\n',
            "hosts h1 and h2 have the same address, 192.0.2.1",
        ),
        ('[h1.net]\nagent = "127.0.0.1"\n', "host h1.net: a name with a dot needs quotes"),
        ('["h 1"]\nagent = "127.0.0.1"\n', "invalid host name 'h 1'"),
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
    path.write_text('[h1]\nagent = "127.0.0.1"\nadress = "127.0.0.1"\n')
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
