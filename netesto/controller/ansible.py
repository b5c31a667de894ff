"""Inventories of Ansible: hosts, and how ssh reaches them, as ansible-inventory(1) lists them."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netesto.errors import MissingError, ProcessError, UsageError
from netesto.files import jsontext, texts
from netesto.system import process
from netesto.transport.addresses import SshAddress

SUFFIXES = (".ini", ".yml", ".yaml")

# The variables of a host that matter here, and their names before Ansible 2.0, which are valid.
_VARIABLES = {
    "host": ("ansible_host", "ansible_ssh_host"),
    "user": ("ansible_user", "ansible_ssh_user"),
    "port": ("ansible_port", "ansible_ssh_port"),
}
_MEANT = frozenset(name for names in _VARIABLES.values() for name in names)
# Of ssh and of how to become root, in Ansible's own names. Others are for playbooks.
_OF_ANSIBLE = "ansible_"

# An argument of ssh must not look like an option.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")

# By default it lists no hosts if it cannot read an inventory, and succeeds.
_STRICT = {
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
    "ANSIBLE_NOCOLOR": "True",
}
_TIMEOUT_S = 60.0


def read(path: Path) -> tuple[dict[str, SshAddress], list[str]]:
    """The hosts of an inventory, by their names there, and the variables for Ansible's connections
    that have no effect here. UsageError if ansible-inventory, or ssh, cannot use it; MissingError
    if it is not installed."""
    # Whether the file can be read at all is told better here.
    texts.read(path)
    listed = _listed(path)
    variables: Mapping[str, Mapping[str, Any]] = listed.get("_meta", {}).get("hostvars", {})
    groups = (group.get("hosts", ()) for name, group in listed.items() if name != "_meta")
    names = dict.fromkeys([*(host for hosts in groups for host in hosts), *variables])
    if not names:
        raise UsageError(f"{path}: names no host")
    hosts = {name: _address(name, variables.get(name, {}), str(path)) for name in names}
    used = {name for own in variables.values() for name in own}
    ignored = (name for name in used - _MEANT if name.startswith(_OF_ANSIBLE))
    return hosts, sorted(ignored)


def _listed(path: Path) -> dict[str, Any]:
    argv = ["ansible-inventory", "-i", str(path.absolute()), "--list"]
    if shutil.which(argv[0]) is None:
        raise MissingError(
            f"{path}: ansible-inventory, which reads inventories of Ansible, is not installed here",
            remedy="Install it (pip install ansible-core), or name the hosts: host1,root@host2",
        )
    try:
        done = process.run(argv, timeout=_TIMEOUT_S, check=False, env=os.environ | _STRICT)
    except ProcessError as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        if done.status == 0:
            found: dict[str, Any] = jsontext.parse(done.stdout)
            return found
    except ValueError:
        pass
    raise UsageError(
        f"{path}: ansible-inventory cannot read it: {done.last_lines()}",
        remedy=f"This must list its hosts: ansible-inventory -i {path} --list",
    )


def _address(name: str, variables: Mapping[str, Any], where: str) -> SshAddress:
    values = {
        key: str(variables[each])
        for key, names in _VARIABLES.items()
        for each in reversed(names)
        if each in variables
    }
    for key, value in values.items():
        if "{{" in value:
            raise UsageError(
                f"{where}: host {name}: ansible_{key} is a template, {value}, which is not"
                " evaluated here",
                remedy="Write its value, or name the hosts in a hosts file (docs/hosts.md).",
            )
    host, port = values.get("host", name), values.get("port")
    for text, what in ((name, "name"), (host, f"ansible_host {host!r}")):
        if _HOST.fullmatch(text) is None:
            raise UsageError(f"{where}: host {name}: invalid {what}")
    if port is not None and not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"{where}: host {name}: invalid port {port!r}")
    return SshAddress(host, values.get("user", ""), None if port is None else int(port))
