"""The addresses that traces have for hosts. They are names only: a lab has addresses of its own."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

_NUMBERED = re.compile(r"h([1-9][0-9]{0,6})")
_BASE = int(IPv4Address("10.0.0.0"))
_MOST = 2**24 - 1


def numbered(host: str) -> str | None:
    """The address 10.0.0.K of a host hK; K beyond 255 carries. None for other names."""
    found = _NUMBERED.fullmatch(host)
    if found is None or int(found[1]) > _MOST:
        return None
    return str(IPv4Address(_BASE + int(found[1])))


def host_numbered(address: str) -> str | None:
    """The host hK of an address 10.0.0.K."""
    try:
        number = int(IPv4Address(address)) - _BASE
    except ValueError:
        return None
    return f"h{number}" if 0 < number <= _MOST else None


def by_switch(address: str) -> str | None:
    """The host hK of an address 10.S.K.2 (strategy `l3`)."""
    found = _OCTETS.fullmatch(address)
    return f"h{int(found[2])}" if found is not None and found[3] == "2" and int(found[2]) else None


def mixed(address: str) -> str | None:
    """The host hK of an address 10.x.y.K (strategy `mixed`)."""
    found = _OCTETS.fullmatch(address)
    return f"h{int(found[3])}" if found is not None and int(found[3]) else None


_OCTETS = re.compile(r"10\.(\d+)\.(\d+)\.(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Which host an address means: `hosts`, or 10.0.0.K for hK if that is None. A host may have
    several addresses; traces are written with its first. `is_open`: hosts without one are known,
    too."""

    hosts: Mapping[str, str] | None = None
    is_open: bool = False

    def host_of(self, address: str) -> str | None:
        return host_numbered(address) if self.hosts is None else self.hosts.get(address)

    def address_of(self, host: str) -> str | None:
        if self.hosts is None:
            return numbered(host)
        return next((address for address, name in self.hosts.items() if name == host), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts, as far as they are known."""
        return tuple(dict.fromkeys((self.hosts or {}).values()))


def of_file(text: str) -> Addresses | None:
    """The `[aliases]` in the text of a topology file, which its reader checks; None without any."""
    try:
        table = tomllib.loads(text).get("aliases")
    except ValueError:
        return None
    if not isinstance(table, dict) or not table:
        return None
    return Addresses({address: str(host) for address, host in table.items()}, is_open=True)
