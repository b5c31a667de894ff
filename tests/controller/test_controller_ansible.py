"""Inventories of Ansible, which ansible-inventory reads."""

import json
import shutil
from pathlib import Path

import pytest
from needs import unmet

from netesto.controller import ansible
from netesto.controller.inventory import load
from netesto.errors import MissingError, UsageError
from netesto.transport.addresses import SshAddress

# ansible-inventory --list of ansible-core 2.19.14, and the inventory.
INI = """\
[servers]
db[01:05:2].example.com:2222
web ansible_host=192.0.2.9 colour=blue

[servers:vars]
ansible_user=root
ansible_become=true
"""
LISTED = {
    "_meta": {
        "hostvars": {
            **{
                f"db0{number}.example.com": {
                    "ansible_become": True,
                    "ansible_port": 2222,
                    "ansible_user": "root",
                }
                for number in (1, 3, 5)
            },
            "web": {
                "ansible_become": True,
                "ansible_host": "192.0.2.9",
                "ansible_user": "root",
                "colour": "blue",
            },
        },
        "profile": "inventory_legacy",
    },
    "all": {"children": ["ungrouped", "servers"]},
    "servers": {"hosts": ["db01.example.com", "db03.example.com", "db05.example.com", "web"]},
}
HOSTS = {
    **{
        f"db0{number}.example.com": SshAddress(f"db0{number}.example.com", "root", 2222)
        for number in (1, 3, 5)
    },
    "web": SshAddress("192.0.2.9", "root"),
}


@pytest.fixture
def real() -> None:
    if shutil.which("ansible-inventory") is None:
        unmet("ansible", "ansible-inventory is not installed")


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.ini"
    path.write_text(INI, encoding="utf-8")
    return path


def lists(found: object, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ansible-inventory prints this."""
    (folder / "printed").write_text(json.dumps(found), encoding="utf-8")
    program = folder / "ansible-inventory"
    program.write_text(f"#!/bin/sh\nexec cat {folder}/printed\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def one(variables: dict[str, object], name: str = "h1") -> dict[str, object]:
    return {"_meta": {"hostvars": {name: variables}}, "all": {"hosts": [name]}}


def test_hosts_have_the_addresses_users_and_ports_that_ansible_reports(
    inventory, tmp_path, monkeypatch
):
    lists(LISTED, tmp_path, monkeypatch)
    assert ansible.read(inventory) == (HOSTS, ["ansible_become"])


@pytest.mark.usefixtures("real")
def test_ansible_reports_what_it_has_reported(inventory):
    assert ansible.read(inventory) == (HOSTS, ["ansible_become"])


def test_hosts_without_variables_are_hosts(inventory, tmp_path, monkeypatch):
    lists({"_meta": {"hostvars": {}}, "a": {"hosts": ["h1"]}}, tmp_path, monkeypatch)
    assert ansible.read(inventory) == ({"h1": SshAddress("h1")}, [])


def test_older_names_of_variables_are_valid_and_newer_ones_win(inventory, tmp_path, monkeypatch):
    older = {"ansible_ssh_host": "192.0.2.1", "ansible_ssh_port": 23, "ansible_port": 24}
    lists(one(older), tmp_path, monkeypatch)
    assert ansible.read(inventory) == ({"h1": SshAddress("192.0.2.1", "", 24)}, [])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (one({"ansible_host": "-oProxyCommand=x"}), "h1: invalid ansible_host '-oProxyCommand=x'"),
        (one({}, name="-x"), "host -x: invalid name"),
        (one({"ansible_port": 0}), "host h1: invalid port '0'"),
        (one({"ansible_host": "{{ a }}"}), "h1: ansible_host is a template, {{ a }}, which is not"),
        ({"_meta": {"hostvars": {}}, "all": {"children": []}}, "names no host"),
    ],
)
def test_what_ssh_cannot_use_is_refused(inventory, tmp_path, monkeypatch, found, said):
    lists(found, tmp_path, monkeypatch)
    with pytest.raises(UsageError) as caught:
        ansible.read(inventory)
    assert said in caught.value.message


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    ("name", "text"), [("a.ini", "[servers\nweb\n"), ("a.yml", "all:\n  hosts: [a, b\n")]
)
def test_an_inventory_that_ansible_cannot_read_is_refused(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        ansible.read(path)
    assert caught.value.remedy == f"This must list its hosts: ansible-inventory -i {path} --list"


@pytest.mark.parametrize("printed", ["", "[WARNING]: what"])
def test_what_is_no_list_of_hosts_is_refused(inventory, tmp_path, monkeypatch, printed):
    lists({}, tmp_path, monkeypatch)
    (tmp_path / "printed").write_text(printed, encoding="utf-8")
    with pytest.raises(UsageError, match="ansible-inventory cannot read it"):
        ansible.read(inventory)


def test_without_ansible_an_inventory_is_refused(inventory, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError) as caught:
        load(str(inventory))
    assert str(caught.value) == (
        f"{inventory}: ansible-inventory, which reads inventories of Ansible, is not installed"
        " here\nInstall it (pip install ansible-core), or name the hosts: host1,root@host2"
    )


def test_what_has_no_effect_is_a_warning(inventory, tmp_path, monkeypatch):
    lists(LISTED, tmp_path, monkeypatch)
    found = load(str(inventory))
    assert (found.warnings, [*found.endpoints]) == (
        (f"{inventory}: without effect here: ansible_become",),
        [*HOSTS],
    )
