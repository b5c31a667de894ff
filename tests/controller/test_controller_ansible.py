"""Inventories of Ansible, as far as they name hosts and how ssh reaches them."""

import sys
from pathlib import Path

import pytest

from netesto.controller import ansible
from netesto.errors import MissingError, UsageError
from netesto.transport.addresses import SshAddress

INI = """\
# two racks
mail ansible_host=192.0.2.9

[web]
w[01:03].example.net ansible_user=net  # the user of all
w9 ansible_port=2222 colour=blue

[db]
db-[a:b]

[rack:children]
web
db

[rack:vars]
ansible_user = root
ansible_port=22
proxy={{ lookup('pipe', 'touch /tmp/evil') }}

[web:vars]
ansible_port=23
"""

YAML = """\
all:
  vars: {ansible_user: root}
  hosts:
    mail: {ansible_host: 192.0.2.9, ansible_user: "{{ lookup('pipe', 'id') }}"}
  children:
    web:
      hosts:
        w[1:2]:
        w9: {ansible_port: 2222, colour: blue}
      vars:
        ansible_user: net
"""


def read(
    folder: Path, text: str, name: str = "hosts.ini"
) -> tuple[dict[str, SshAddress], list[str]]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return ansible.read(path)


def refused(folder: Path, text: str, name: str = "hosts.ini") -> str:
    with pytest.raises(UsageError) as caught:
        read(folder, text, name)
    return caught.value.message.removeprefix(f"{folder / name}")


def test_hosts_of_an_ini_file_have_what_they_and_their_groups_say(tmp_path):
    hosts, _ = read(tmp_path, INI)
    assert [*hosts.items()] == [
        ("mail", SshAddress("192.0.2.9")),
        ("w01.example.net", SshAddress("w01.example.net", "net", 23)),
        ("w02.example.net", SshAddress("w02.example.net", "net", 23)),
        ("w03.example.net", SshAddress("w03.example.net", "net", 23)),
        ("w9", SshAddress("w9", "root", 2222)),
        ("db-a", SshAddress("db-a", "root", 22)),
        ("db-b", SshAddress("db-b", "root", 22)),
    ]


def test_what_has_no_meaning_here_is_named_and_a_template_is_not_executed(tmp_path):
    _, ignored = read(tmp_path, INI)
    assert ignored == ["colour", "proxy"]


def test_folders_with_variables_beside_an_inventory_are_named(tmp_path):
    (tmp_path / "group_vars").mkdir()
    _, ignored = read(tmp_path, "h1\n")
    assert ignored == ["group_vars/"]


def test_hosts_of_a_yaml_file_have_what_they_and_their_groups_say(tmp_path):
    pytest.importorskip("yaml")
    hosts, ignored = read(tmp_path, YAML, "hosts.yml")
    assert ([*hosts.items()], ignored) == (
        [
            ("mail", SshAddress("192.0.2.9", "root")),
            ("w1", SshAddress("w1", "net")),
            ("w2", SshAddress("w2", "net")),
            ("w9", SshAddress("w9", "net", 2222)),
        ],
        ["ansible_user", "colour"],
    )


def test_yaml_constructs_no_objects(tmp_path):
    pytest.importorskip("yaml")
    text = "all: !!python/object/apply:os.system ['touch evil']\n"
    assert "not YAML" in refused(tmp_path, text, "hosts.yml")


def test_without_pyyaml_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingError, match="reading YAML needs the package PyYAML"):
        read(tmp_path, YAML, "hosts.yaml")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("h", ["h"]),
        ("h[1:3]", ["h1", "h2", "h3"]),
        ("h[08:10]", ["h08", "h09", "h10"]),
        ("h[a:c]x", ["hax", "hbx", "hcx"]),
        ("h[1:5:2]", ["h1", "h3", "h5"]),
        ("r[1:2]h[a:b]", ["r1ha", "r1hb", "r2ha", "r2hb"]),
    ],
)
def test_a_range_stands_for_names(pattern, names):
    assert list(ansible.expanded(pattern, "f:1")) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": names no host"),
        ("h[3:1]\n", ":1: invalid range [3:1]"),
        ("h[1:99999999]\n", ":1: invalid range [1:99999999]"),
        ("h[1:x]\n", ":1: invalid range [1:x]"),
        ("h[1:2:0]\n", ":1: invalid range [1:2:0]"),
        ("h x\n", ":1: 'x' is not NAME=VALUE"),
        ("h 'x\n", ":1: No closing quotation"),
        ("h ansible_port=ssh\n", ": host h: invalid port 'ssh'"),
        ("-oProxyCommand=x\n", ": host -oProxyCommand=x: invalid name"),
        ("h ansible_host=-oProxyCommand=x\n", ": host h: invalid ansible_host '-oProxyCommand=x'"),
    ],
)
def test_an_inventory_that_is_wrong_is_refused_with_the_place(tmp_path, text, message):
    assert refused(tmp_path, text) == message


def test_groups_that_contain_each_other_are_read(tmp_path):
    text = "[a]\nh\n[a:children]\nb\n[b:children]\na\n[b:vars]\nansible_user=u\n"
    hosts, _ = read(tmp_path, text)
    assert hosts == {"h": SshAddress("h", "u")}
