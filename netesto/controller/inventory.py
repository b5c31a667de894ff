"""The hosts that a run may use, and the names that scripts give them."""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path

from netesto.errors import UsageError, WorldError
from netesto.language.remote import spellings
from netesto.model import Address, Endpoint
from netesto.nearest import hint, nearest
from netesto.transport.addresses import TcpAddress, UnixAddress, parse

KEYS = ("agent", "addresses")
_NAME = re.compile(r"[A-Za-z0-9_.:%-]+")
_EXAMPLE = """Write a host like this:
    [host1]
    agent = "192.0.2.1:12870"
    addresses = ["192.0.2.1", "2001:db8::1"]"""


class Inventory:
    """Hosts by their names, or by other names for them (`aliases`). A script may append one of
    `suffixes`, those of HOST_SUFFIX, to either."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        aliases: Mapping[str, str] | None = None,
        suffixes: Collection[str] = (),
    ) -> None:
        self._suffixes = tuple(suffixes)
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
        hosts = list(self.endpoints.values())
        return Inventory(hosts, aliases=self._aliases, suffixes=suffixes)

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
        raise WorldError(
            f"unknown host {name}",
            remedy=f"{meant}The hosts are: {', '.join(self.endpoints)}",
        )


def load(path: Path, *, aliases: Mapping[str, str] | None = None) -> Inventory:
    """Read a hosts file (TOML): a table per host, with its `agent` and its `addresses`.

    UsageError says what is wrong and where; docs/hosts.md documents the keys.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}",
            remedy="It is a file of hosts and their agents; see docs/hosts.md.",
        ) from error
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text", remedy="Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}", remedy=_EXAMPLE) from error
    if not document:
        raise UsageError(f"{path}: names no host", remedy=_EXAMPLE)
    endpoints = [_endpoint(path, name, table) for name, table in document.items()]
    by_agent: dict[str, str] = {}
    for endpoint in endpoints:
        first = by_agent.setdefault(endpoint.agent, endpoint.host)
        if first != endpoint.host:
            raise UsageError(
                f"{path}: hosts {first} and {endpoint.host} have the same agent, {endpoint.agent}",
                remedy="Each host has its own agent; --map gives a host a second name.",
            )
    return Inventory(endpoints, aliases=aliases)


def _endpoint(path: Path, name: str, table: object) -> Endpoint:
    where = f"{path}: host {name}"
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{path}: invalid host name {name!r}",
            remedy="A name has letters, digits, `.`, `-` and `_`.",
        )
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {name} is not a table", remedy=_EXAMPLE)
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
    agent = _agent(where, table.get("agent"))
    texts = table.get("addresses", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{where}: addresses: not a list of texts", remedy=_EXAMPLE)
    if not texts and isinstance(agent, TcpAddress):
        texts = [agent.host]
    return Endpoint(host=name, agent=str(agent), addresses=_addresses(where, texts))


def _agent(where: str, text: object) -> UnixAddress | TcpAddress:
    if not isinstance(text, str):
        fault = "missing" if text is None else "not a text"
        raise UsageError(f"{where}: agent: {fault}", remedy=_EXAMPLE)
    try:
        address = parse(text)
    except UsageError as error:
        raise UsageError(f"{where}: agent: {error.message}", remedy=error.remedy) from None
    if isinstance(address, TcpAddress) and address.port == 0:
        raise UsageError(f"{where}: agent: invalid port '0'", remedy="A port is 1 to 65535.")
    return address


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
