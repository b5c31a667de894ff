"""The hosts a run may use, and how the names in a script lead to them."""

import difflib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path

from netesto.errors import UsageError, WorldError
from netesto.language.remote import spellings
from netesto.model import Address, Endpoint

# The port of an agent whose address names none (the daemon's own default).
AGENT_PORT = 12870


class Inventory:
    """Hosts by name, or by a mapped one (`aliases`); `suffixes` are those of HOST_SUFFIX, which a
    script may put behind either."""

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
                    f"--map {alias}={host}: there is no host {host}",
                    remedy=f"The hosts are: {', '.join(self.endpoints)}",
                )

    def with_suffixes(self, suffixes: Collection[str]) -> "Inventory":
        """The same hosts, for a script that puts these suffixes behind their names."""
        hosts = list(self.endpoints.values())
        return Inventory(hosts, aliases=self._aliases, suffixes=suffixes)

    def find(self, name: str) -> Endpoint:
        """The host that a script calls `name`. WorldError, with the nearest name, if none is."""
        for candidate in spellings(name, self._suffixes):
            host = self._aliases.get(candidate, candidate)
            if host in self.endpoints:
                return self.endpoints[host]
        short, dot, rest = name.partition(".")
        near = difflib.get_close_matches(short, [*self.endpoints, *self._aliases], n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        if near == [short] and dot:
            hint = f"Is it {short}? Then write HOST_SUFFIX {rest}, or use --map {name}={short}. "
        raise WorldError(
            f"there is no host {name}",
            remedy=f"{hint}The hosts are: {', '.join(self.endpoints)}",
        )


def load(path: Path, *, aliases: Mapping[str, str] | None = None) -> Inventory:
    """Read a hosts file (TOML): a table per host, with its `agent` and its `addresses`.

    ```
    [host1]
    agent = "192.0.2.1:12870"
    addresses = ["192.0.2.1", "2001:db8::1"]
    ```
    UsageError names what is wrong and where.
    """
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    endpoints = [_endpoint(path, name, table) for name, table in document.items()]
    if not endpoints:
        raise UsageError(f"{path}: names no host", remedy=_EXAMPLE)
    return Inventory(endpoints, aliases=aliases)


_EXAMPLE = 'A host is written so:  [host1]  agent = "127.0.0.1:12870"  addresses = ["127.0.0.1"]'


def _endpoint(path: Path, name: str, table: object) -> Endpoint:
    if not isinstance(table, dict) or not isinstance(table.get("agent"), str):
        raise UsageError(f"{path}: host {name}: `agent` is missing", remedy=_EXAMPLE)
    unknown = sorted(set(table) - {"agent", "addresses"})
    if unknown:
        raise UsageError(f"{path}: host {name}: unknown key {unknown[0]}", remedy=_EXAMPLE)
    agent = table["agent"]
    if not agent.startswith("unix:") and ":" not in agent.rsplit("]", 1)[-1]:
        agent = f"{agent}:{AGENT_PORT}"
    texts = table.get("addresses") or _address_of(agent)
    addresses: dict[int, Address] = {}
    for text in texts:
        try:
            address = ip_address(text)
        except ValueError:
            raise UsageError(f"{path}: host {name}: {text!r} is no IP address") from None
        addresses.setdefault(address.version, address)
    return Endpoint(host=name, agent=agent, addresses=addresses)


def _address_of(agent: str) -> list[str]:
    if agent.startswith("unix:"):
        return []
    return [agent.rsplit(":", 1)[0].strip("[]")]
