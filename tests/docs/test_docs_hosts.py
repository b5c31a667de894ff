"""docs/hosts.md: its hosts file is read as the page says, and no key is left out."""

import re
from ipaddress import ip_address
from pathlib import Path

import pytest
from typed import found

from netesto.cli import main
from netesto.controller import inventory
from netesto.model import Endpoint
from netesto.run.status import OK

FOLDER = Path(__file__).parents[2]
TEXT = (FOLDER / "docs" / "hosts.md").read_text(encoding="utf-8")
EXAMPLE = found(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[1]


def endpoint(name, number, agent):
    addresses = {4: ip_address(f"192.0.2.{number}"), 6: ip_address(f"2001:db8::{number}")}
    return Endpoint(host=name, agent=agent, addresses=addresses)


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "hosts.toml"
    path.write_text(EXAMPLE)
    return path


def test_the_hosts_file_of_the_page_is_read_as_it_says(example):
    hosts = [
        endpoint("host1", 1, "ssh://root@host1"),
        endpoint("host2.example.net", 2, "ssh://host2.example.net"),
    ]
    assert inventory.load(str(example)).endpoints == {each.host: each for each in hosts}


def test_the_hosts_file_to_copy_is_sound():
    hosts = [endpoint(name, n, f"ssh://root@{name}") for n, name in ((1, "host1"), (2, "host2"))]
    found = inventory.load(str(FOLDER / "local" / "hosts.toml")).endpoints
    assert found == {each.host: each for each in hosts}


def test_a_script_with_a_suffix_finds_the_hosts_of_the_page_with_it_and_without(example):
    found = inventory.load(str(example)).with_suffixes({"example.net"})
    hosts = [found.find(name).host for name in ("host1.example.net", "host2.example.net")]
    assert hosts == ["host1", "host2.example.net"]


def test_all_keys_are_in_the_table():
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE) == [*inventory.KEYS]


def test_the_command_that_lists_the_file_shows_it(example, capsys):
    status = main(["hosts", "list", str(example)])
    assert (status, capsys.readouterr().out.split()[-4:]) == (
        OK,
        ["host2.example.net", "ssh://host2.example.net", "192.0.2.2", "2001:db8::2"],
    )
