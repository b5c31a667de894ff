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
        "there is no host client1.example.net\n"
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
        "there is no host cleint1\ndid you mean client1? The hosts are: client1, server1"
    )


def test_a_map_to_a_host_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="--map a=router: there is no host router"):
        Inventory([CLIENT], aliases={"a": "router"})


def test_a_hosts_file_names_agents_and_addresses(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "127.0.0.1:7"\naddresses = ["127.0.0.1", "::1"]\n')
    addresses = {4: ip_address("127.0.0.1"), 6: ip_address("::1")}
    expected = {"h1": Endpoint(host="h1", agent="127.0.0.1:7", addresses=addresses)}
    assert load(path).endpoints == expected


def test_an_agent_without_a_port_has_the_default_port(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "127.0.0.1"\n')
    addresses = {4: ip_address("127.0.0.1")}
    expected = {"h1": Endpoint(host="h1", agent="127.0.0.1:12870", addresses=addresses)}
    assert load(path).endpoints == expected


def test_a_hosts_file_with_an_unknown_key_is_refused(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text('[h1]\nagent = "127.0.0.1"\nadress = "127.0.0.1"\n')
    with pytest.raises(UsageError, match="host h1: unknown key adress"):
        load(path)


def test_a_hosts_file_that_is_no_toml_is_refused(tmp_path: Path):
    path = tmp_path / "hosts.toml"
    path.write_text("h1: 127.0.0.1\n")
    with pytest.raises(UsageError, match="not TOML"):
        load(path)
