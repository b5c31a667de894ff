"""Inventories of Ansible, in INI and YAML: the hosts, and how ssh reaches them. Nothing in them is
executed: no templates, no vault, no plugins.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netesto import texts
from netesto.errors import MissingError, UsageError
from netesto.transport.addresses import SshAddress

SUFFIXES = (".ini", ".yml", ".yaml")

# The variables of a host that matter here: its address, user and port for ssh.
_VARIABLES = ("ansible_host", "ansible_user", "ansible_port")
# Beside an inventory, with variables of its groups and hosts.
_FOLDERS = ("group_vars", "host_vars")
# [01:12], [a:f], [1:9:2], ends included; leading zeros give the width.
_RANGE = re.compile(r"\[(\w+):(\w+)(?::([0-9]+))?\]")
_SECTION = re.compile(r"\[([^\]:]+)(?::(\w+))?\]")
# An argument of ssh must not look like an option.
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")
# A mistake in a range could fill the memory.
HOSTS_MAX = 10_000


@dataclass(slots=True)
class _Group:
    hosts: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Found:
    """Groups by name, the variables of hosts, and what is ignored."""

    groups: dict[str, _Group] = field(default_factory=dict)
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    ignored: dict[str, None] = field(default_factory=dict)

    def group(self, name: str) -> _Group:
        return self.groups.setdefault(name, _Group())

    def add(self, group: str, pattern: str, variables: Mapping[str, Any], where: str) -> None:
        own = self.known(variables)
        for name in expanded(pattern, where):
            self.group(group).hosts.append(name)
            self.hosts.setdefault(name, {}).update(own)
            if len(self.hosts) > HOSTS_MAX:
                raise UsageError(f"{where}: more than {HOSTS_MAX} hosts")

    def known(self, variables: Mapping[str, Any]) -> dict[str, str]:
        """The variables that matter here. A template would have to be executed, and is refused."""
        own: dict[str, str] = {}
        for name, value in variables.items():
            if name in _VARIABLES and "{{" not in str(value):
                own[name] = str(value)
            else:
                self.ignored[name] = None
        return own


def read(path: Path) -> tuple[dict[str, SshAddress], list[str]]:
    """The hosts of an inventory, by their names there; and the variables, sections and folders that
    have no meaning here. UsageError says what is wrong and where; MissingError if a required
    package is not installed."""
    text = texts.read(path)
    found = _Found()
    if path.suffix == ".ini":
        _read_ini(text, str(path), found)
    else:
        _read_yaml(text, str(path), found)
    found.ignored |= {f"{each}/": None for each in _FOLDERS if (path.parent / each).is_dir()}
    hosts = {name: _address(name, _variables(name, found), str(path)) for name in found.hosts}
    if not hosts:
        raise UsageError(f"{path}: names no host")
    return hosts, list(found.ignored)


def _address(name: str, variables: Mapping[str, str], where: str) -> SshAddress:
    host = variables.get("ansible_host", name)
    for text, what in ((name, "name"), (host, f"ansible_host {host!r}")):
        if _HOST.fullmatch(text) is None:
            raise UsageError(f"{where}: host {name}: invalid {what}")
    port = variables.get("ansible_port")
    if port is not None and not (port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"{where}: host {name}: invalid port {port!r}")
    return SshAddress(host, variables.get("ansible_user", ""), None if port is None else int(port))


def _variables(name: str, found: _Found) -> dict[str, str]:
    """The variables of a host override those of its groups, and inner groups override outer
    ones."""
    merged: dict[str, str] = {}
    for group in _outermost_first(found):
        if name in _all_hosts(group, found, set()):
            merged.update(found.groups[group].variables)
    return {**merged, **found.hosts[name]}


def _outermost_first(found: _Found) -> list[str]:
    """`all`, then the groups by depth."""
    depth = dict.fromkeys(found.groups, 0)
    for _ in found.groups:
        for name, group in found.groups.items():
            for child in group.children:
                depth[child] = max(depth.get(child, 0), min(depth[name] + 1, len(depth)))
    return sorted(found.groups, key=lambda name: (name != "all", depth[name], name))


def _all_hosts(group: str, found: _Found, seen: set[str]) -> set[str]:
    """The hosts of a group and of its children; of `all`, all."""
    if group == "all":
        return set(found.hosts)
    if group in seen or group not in found.groups:
        return set()
    seen.add(group)
    inner = (_all_hosts(child, found, seen) for child in found.groups[group].children)
    return set(found.groups[group].hosts).union(*inner)


def expanded(pattern: str, where: str) -> Iterator[str]:
    """The names that a pattern with ranges stands for: `h[1:3]` for h1, h2, h3. UsageError if a
    range is invalid."""
    match = _RANGE.search(pattern)
    if match is None:
        yield pattern
        return
    first, last, step = match[1], match[2], int(match[3] or 1)
    for each in _between(first, last, step, f"{where}: invalid range {match[0]}"):
        yield from expanded(f"{pattern[: match.start()]}{each}{pattern[match.end() :]}", where)


def _between(first: str, last: str, step: int, wrong: str) -> Iterator[str]:
    letters = first + last
    if first.isdecimal() and last.isdecimal():
        begin, end, width = int(first), int(last), len(first) if first.startswith("0") else 0
    elif len(first) == len(last) == 1 and letters.isascii() and letters.isalpha():
        begin, end, width = ord(first), ord(last), 0
    else:
        raise UsageError(wrong)
    if step == 0 or not 0 <= end - begin <= HOSTS_MAX:
        raise UsageError(wrong)
    for number in range(begin, end + 1, step):
        yield str(number).rjust(width, "0") if first.isdecimal() else chr(number)


def _read_ini(text: str, name: str, found: _Found) -> None:
    group, kind = "ungrouped", "hosts"
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{name}:{number}"
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        section = _SECTION.fullmatch(stripped.partition("#")[0].strip())
        if section is not None:
            group, kind = section[1], section[2] or "hosts"
            found.group(group)
            if kind not in {"hosts", "children", "vars"}:
                found.ignored[f"[{group}:{kind}]"] = None
        elif kind == "hosts":
            words = _words(stripped, where)
            found.add(group, words[0], _pairs(words[1:], where), where)
        elif kind == "children":
            child = _words(stripped, where)[0]
            found.group(child)
            found.group(group).children.append(child)
        elif kind == "vars":
            key, _, value = stripped.partition("=")
            words = _words(value, where)
            own = found.known({key.strip(): " ".join(words)})
            found.group(group).variables.update(own)


def _words(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _pairs(words: list[str], where: str) -> dict[str, str]:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{where}: {word!r} is not NAME=VALUE")
        pairs[key] = value
    return pairs


def _read_yaml(text: str, name: str, found: _Found) -> None:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingError(
            f"{name}: reading YAML needs the package PyYAML",
            remedy="Install it: pip install netesto[ansible]. Inventories in INI need nothing.",
        ) from None
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{name}: not YAML: {error}") from None
    for group, content in _mapping(document, name).items():
        _read_group(group, _mapping(content, f"{name}: {group}"), name, found, depth=0)


def _read_group(
    group: str, content: Mapping[str, Any], name: str, found: _Found, *, depth: int
) -> None:
    where = f"{name}: {group}"
    if depth > 50:
        raise UsageError(f"{where}: nested too deeply")
    found.group(group)
    for key, value in content.items():
        match key:
            case "hosts":
                for pattern, variables in _mapping(value, f"{where}: hosts").items():
                    found.add(group, pattern, _mapping(variables, f"{where}: {pattern}"), where)
            case "children":
                for child, inner in _mapping(value, f"{where}: children").items():
                    found.group(group).children.append(child)
                    inside = _mapping(inner, f"{where}: {child}")
                    _read_group(child, inside, name, found, depth=depth + 1)
            case "vars":
                own = found.known(_mapping(value, f"{where}: vars"))
                found.group(group).variables.update(own)
            case _:
                found.ignored[key] = None


def _mapping(value: object, where: str) -> dict[str, Any]:
    """A mapping of YAML, whose keys may be numbers, by their texts."""
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"{where}: not a mapping")
    return {str(key): each for key, each in (value or {}).items()}
