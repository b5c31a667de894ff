"""The hosts that a run may use, and the names that scripts give them."""

import contextlib
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from netesto.controller import ansible, hostlist
from netesto.errors import UsageError, WorldError
from netesto.files import texts
from netesto.language.steps import spellings
from netesto.model import Address, Endpoint
from netesto.text.nearest import hint, nearest
from netesto.transport.addresses import (
    AGENT_SOCKET,
    NO_PORTS,
    AgentAddress,
    SshAddress,
    UnixAddress,
    parse,
)

KEYS = ("agent", "addresses")
# The client of a list of hosts: this machine, with its own agent.
SOURCE = "source"
ONE_EACH = "Each host has its own agent; --map gives a host a second name."
# Suffixes of file names that are not domains.
_OF_FILES = frozenset({".tml", ".tom", ".yam", ".txt", ".json", ".cfg", ".conf", ".nts"})
_ANSIBLE = "The name of an inventory of Ansible ends in .ini, .yml or .yaml here."

_EXAMPLE = """Write a host like this:
    [host1]
    agent = "ssh://root@host1"
    addresses = ["192.0.2.1", "2001:db8::1"]"""


class Inventory:
    """Hosts by their names, or by other names for them (`aliases`). A script may append one of
    `suffixes`, those of HOST_SUFFIX, to either. `warnings` are about their file. `text` is how the
    user names the hosts."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        *,
        aliases: Mapping[str, str] | None = None,
        suffixes: Collection[str] = (),
        warnings: Sequence[str] = (),
        text: str = "",
    ) -> None:
        self._suffixes = tuple(suffixes)
        self.warnings = tuple(warnings)
        self.text = text
        self.endpoints = {endpoint.host: endpoint for endpoint in endpoints}
        self._aliases = dict(aliases or {})
        for alias, host in self._aliases.items():
            if host not in self.endpoints:
                raise UsageError(
                    f"--map {alias}={host}: unknown host {host}",
                    remedy=f"The hosts are: {', '.join(self.endpoints)}",
                )

    def with_suffixes(self, suffixes: Collection[str]) -> "Inventory":
        """The same hosts, for a script that appends these suffixes to their names."""
        return self._with(self.endpoints.values(), suffixes)

    def only(self, names: Collection[str]) -> "Inventory":
        """These of the hosts."""
        return self._with(each for name, each in self.endpoints.items() if name in names)

    def at(self, endpoints: Iterable[Endpoint]) -> "Inventory":
        """The same hosts, with agents at other addresses. Given addresses of the traffic stay."""
        given = {name: each.addresses for name, each in self.endpoints.items()}
        return self._with(
            replace(each, addresses=given[each.host] or each.addresses) for each in endpoints
        )

    def _with(
        self, endpoints: Iterable[Endpoint], suffixes: Collection[str] | None = None
    ) -> "Inventory":
        return Inventory(
            endpoints,
            aliases=self._aliases,
            suffixes=self._suffixes if suffixes is None else suffixes,
            warnings=self.warnings,
            text=self.text,
        )

    def learn(self, host: str, reported: Sequence[str]) -> Endpoint:
        """The host, which has addresses from now on: if none were given, the first of each IP
        version among those that its agent has `reported`."""
        endpoint = self.endpoints[host]
        if not endpoint.addresses:
            found: dict[int, Address] = {}
            for text in reported:
                with contextlib.suppress(ValueError):
                    found.setdefault((address := ip_address(text)).version, address)
            endpoint = self.endpoints[host] = replace(endpoint, addresses=found)
        return endpoint

    def find(self, name: str) -> Endpoint:
        """The host that a script calls `name`. WorldError, with the nearest name, if there is
        none."""
        for candidate in spellings(name, self._suffixes):
            host = self._aliases.get(candidate, candidate)
            if host in self.endpoints:
                return self.endpoints[host]
        short, dot, rest = name.partition(".")
        near = nearest(short, [*self.endpoints, *self._aliases])
        meant = f"Did you mean {near}? " if near else ""
        if near == short and dot:
            meant = f"Is it {short}? Then write HOST_SUFFIX {rest}, or use --map {name}={short}. "
        hosts = list(self.endpoints.values())
        # A lab's script has the lab's names; it has no agents yet. That of a real host has others.
        is_foreign = not meant and hosts and hosts[0].agent
        other = f". To use one of them: --map {short}={hosts[0].host}" if is_foreign else ""
        raise WorldError(
            f"unknown host {name}",
            remedy=f"{meant}The hosts are: {', '.join(self.endpoints)}{other}",
        )


def load(text: str, *, aliases: Mapping[str, str] | None = None) -> Inventory:
    """The hosts of a hosts file (TOML): a table per host, with its `agent` and `addresses`; or the
    hosts of a list, [USER@]HOST,…, which ssh reaches. A `text` that exists or ends in .toml is a
    file; one that ends in .ini, .yml or .yaml is an inventory of Ansible; one that ends in .csv is
    a list of hosts of the testing harness, whose client is this machine.

    UsageError says what is wrong and where. docs/hosts.md documents the keys.
    """
    path = Path(text)
    warnings: list[str] = []
    is_file = path.suffix == ".toml" or (path.exists() and not path.is_dir())
    if path.suffix == hostlist.SUFFIX:
        listed = hostlist.read(path)
        endpoints = [*map(_listed, listed)]
        if all(endpoint.host != SOURCE for endpoint in endpoints):
            endpoints.append(Endpoint(host=SOURCE, agent=str(UnixAddress(AGENT_SOCKET))))
        others = {host.hostname: host.alias for host in listed if host.alias}
        aliases = {**others, **(aliases or {})}
    elif path.suffix in ansible.SUFFIXES:
        found, ignored = ansible.read(path)
        if ignored:
            warnings = [f"{path}: without effect here: {', '.join(ignored)}"]
        endpoints = [Endpoint(host=name, agent=str(address)) for name, address in found.items()]
    else:
        endpoints = (
            _read(path) if is_file else [_ssh_endpoint(word.strip()) for word in text.split(",")]
        )
        if not is_file and path.suffix and (meant := nearest(text, _files_of_hosts(path.parent))):
            warnings = [f"--hosts {text}: interpreted as the name of a host. Did you mean {meant}?"]
    [(name, count)] = Counter(endpoint.host for endpoint in endpoints).most_common(1)
    if count > 1:
        raise UsageError(f"{text}: host {name} is named twice", remedy="Leave one out.")
    by_agent: dict[str, str] = {}
    by_address: dict[Address, str] = {}
    for endpoint in endpoints:
        first = by_agent.setdefault(endpoint.agent, endpoint.host)
        if first != endpoint.host:
            raise UsageError(
                f"{text}: hosts {first} and {endpoint.host} have the same agent, {endpoint.agent}",
                remedy=ONE_EACH,
            )
        for address in endpoint.addresses.values():
            # Hosts on this machine may well share that.
            if address.is_loopback:
                continue
            if (first := by_address.setdefault(address, endpoint.host)) != endpoint.host:
                raise UsageError(
                    f"{text}: hosts {first} and {endpoint.host} have the same address, {address}",
                    remedy="Traffic between them would not leave the host: write its own.",
                )
    return Inventory(endpoints, aliases=aliases, warnings=warnings, text=text)


def _listed(host: hostlist.ListedHost) -> Endpoint:
    """A host of a list, which ssh reaches; if it has an address for a name, traffic uses that."""
    addresses: dict[int, Address] = {}
    with contextlib.suppress(ValueError):
        address = ip_address(host.hostname)
        addresses = {address.version: address}
    return Endpoint(host=host.name, agent=_ssh_endpoint(host.hostname).agent, addresses=addresses)


def _files_of_hosts(folder: Path) -> list[str]:
    """The names that a similar name may mean."""
    suffixes = {".toml", hostlist.SUFFIX, *ansible.SUFFIXES}
    try:
        return [path.name for path in folder.iterdir() if path.suffix in suffixes]
    except OSError:
        return []


def parse_map(text: str) -> Mapping[str, str]:
    """`--map a=b,c=d` as a mapping. UsageError where there is no `=`."""
    aliases: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        name, equals, host = word.partition("=")
        if not (name and equals and host):
            raise UsageError(
                f"--map {text}: {word!r} is not NAME=HOST",
                remedy="Write: --map client=h1,server=h2",
            )
        if name in aliases:
            raise UsageError(
                f"--map {text}: {name} is given twice",
                remedy="A name has one host; a host may have several names.",
            )
        aliases[name] = host
    return aliases


def _ssh_endpoint(word: str) -> Endpoint:
    """A host that ssh reaches under this name."""
    address: AgentAddress | None = None
    user, at, host = word.rpartition("@")
    if not at and Path(word).suffix in _OF_FILES:
        near = nearest(word, _files_of_hosts(Path()))
        raise UsageError(
            f"{word}: no such file",
            remedy=(f"Did you mean {near}? " if near else "")
            + f"If it is the name of a host, write: USER@{word}",
        )
    # With a slash it is the path of a missing file.
    if "/" not in word:
        with contextlib.suppress(ValueError):
            host = f"[{IPv6Address(host)}]"
        with contextlib.suppress(UsageError):
            address = parse(f"ssh://{user}{at}{host}")
    if not isinstance(address, SshAddress):
        raise UsageError(
            f"{word!r} is neither a hosts file nor a host",
            remedy="Write a file as in docs/hosts.md, or hosts that ssh reaches: host1,root@host2",
        )
    return Endpoint(host=address.host, agent=str(address))


def _read(path: Path) -> list[Endpoint]:
    remedy = "It is a file of hosts and their agents; see docs/hosts.md."
    try:
        document = tomllib.loads(texts.read(path, remedy=remedy))
    except tomllib.TOMLDecodeError as error:
        is_named = path.suffix == ".toml"
        raise UsageError(
            f"{path}: not TOML: {error}", remedy=_EXAMPLE if is_named else f"{_ANSIBLE}\n{_EXAMPLE}"
        ) from error
    if not document:
        raise UsageError(f"{path}: names no host", remedy=_EXAMPLE)
    return [_endpoint(path, name, table) for name, table in document.items()]


def _endpoint(path: Path, name: str, table: object) -> Endpoint:
    where = f"{path}: host {name}"
    if hostlist.NAME.fullmatch(name) is None:
        raise UsageError(f"{path}: invalid host name {name!r}", remedy=hostlist.IN_NAMES)
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {name} is not a table", remedy=_EXAMPLE)
    # Keys of earlier versions: of one host, or of all.
    if "tls" in table or (name == "tls" and "certificate" in table):
        raise UsageError(f"{where if 'tls' in table else path}: tls: removed", remedy=NO_PORTS)
    inner = [key for key, value in table.items() if isinstance(value, dict)]
    if inner:
        # In TOML the dot of [host1.example] separates two tables.
        full = f"{name}.{inner[0]}"
        raise UsageError(
            f"{path}: host {full}: a name with a dot needs quotes", remedy=f'Write ["{full}"].'
        )
    unknown = sorted(set(table) - {*KEYS})
    if unknown:
        remedy = hint(unknown[0], KEYS, otherwise=_EXAMPLE)
        raise UsageError(f"{where}: unknown key {unknown[0]}", remedy=remedy)
    agent = _agent(where, table.get("agent", str(SshAddress(name))))
    listed = table.get("addresses", [])
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise UsageError(f"{where}: addresses: not a list of strings", remedy=_EXAMPLE)
    return Endpoint(host=name, agent=str(agent), addresses=_addresses(where, listed))


def _agent(where: str, text: object) -> AgentAddress:
    if not isinstance(text, str):
        raise UsageError(f"{where}: agent: not a string", remedy=_EXAMPLE)
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{where}: agent: {error.message}", remedy=error.remedy) from None


def _addresses(where: str, texts: Sequence[str]) -> dict[int, Address]:
    """The addresses of the traffic by IP version, at most one of each."""
    addresses: dict[int, Address] = {}
    for text in texts:
        try:
            address = ip_address(text)
        except ValueError:
            raise UsageError(
                f"{where}: invalid IP address {text!r}",
                remedy='Write the addresses that traffic uses: addresses = ["192.0.2.1"]',
            ) from None
        known = addresses.setdefault(address.version, address)
        if known != address:
            raise UsageError(
                f"{where}: two IPv{address.version} addresses, {known} and {address}",
                remedy="Write the one that traffic uses.",
            )
    return addresses
