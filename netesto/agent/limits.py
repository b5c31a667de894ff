"""Limits for what controllers do on this host: the table [limits] of agent.toml.

Each check raises NotAllowedError, whose remedy names the key to change.
"""

import math
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network
from pathlib import Path
from typing import TypeAlias

import psutil

from netesto import units
from netesto.errors import NotAllowedError
from netesto.limits import allowed, amounts
from netesto.model import Address, CaptureRequest, GroupRequest, Ports
from netesto.traffic.ports import (
    DATA_PORTS,
    FIRST_DATA_PORT,
    FLOW_SERVER_PORT,
    NETSERVER_PORT,
)

Network: TypeAlias = IPv4Network | IPv6Network

# RFC 919.
_EVERYBODY = ip_address("255.255.255.255")

_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_PORT_MAX = 65_535

OUR_PORTS = (
    range(NETSERVER_PORT, FLOW_SERVER_PORT + 1),
    range(FIRST_DATA_PORT, FIRST_DATA_PORT + DATA_PORTS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Amounts are bytes and seconds.

    interfaces      whose qdiscs may be set, besides the test interface; None: all
    peers           to which networks flows may go; None: those that this host is connected to, and
                    all private and shared ones (RFC 6890), but not link-local ones, in which some
                    clouds serve a host its credentials
    keep            whether settings may be left on purpose (keep=1)
    ports           at which servers of traffic listen
    duration        of a flow, with its delay
    flows           of one hold at the same time
    captures        what one capture may write
    spool           what the agent keeps of data not fetched yet, and `spool_age` for how long
    disk_reserve    free space on the agent's disk, and `memory_reserve` available memory, below
                    which no flow starts
    """

    interfaces: tuple[str, ...] | None = ()
    keep: bool = False
    peers: tuple[Network, ...] | None = None
    ports: tuple[range, ...] = OUR_PORTS
    duration: float = 24 * 3600
    flows: float = 1000
    captures: float = 1e9
    spool: float = 10e9
    spool_age: float = 7 * 24 * 3600
    disk_reserve: float = 1e9
    memory_reserve: float = 128e6

    def check_interface(self, device: str, *, managing: Iterable[str], test: str) -> None:
        """Whether a script may set the qdisc of `device`, the host testing through `test`. The
        interfaces `managing` carry its management, and nobody named them for tests."""
        if self.interfaces is None or device in self.interfaces:
            return
        if device != test:
            raise amounts.refusal(
                f"the interface {device} is not the test interface", "interfaces", [device]
            )
        if device in managing:
            raise NotAllowedError(
                f"the interface {device} carries management of this host (its default route)",
                remedy=f"To test through it nevertheless, write in {amounts.FILE}:"
                f' device = "{device}". If there is a separate interface for tests, name that one:'
                ' device = "eth1".',
            )

    def check_keep(self) -> None:
        """Whether a setting may stay on the host when the run ends."""
        if not self.keep:
            raise NotAllowedError(
                "keep=1: this host keeps no setting of a run",
                remedy=f"To allow it, write in {amounts.FILE}: [limits] keep = true",
            )

    def check_group(self, request: GroupRequest, peer: Address, *, running: int) -> None:
        """Whether a group of flows with `peer` may start beside the `running` flows of the hold."""
        amounts.check_duration(request, self.duration)
        amounts.check_flows(request, self.flows, running=running)
        self.check_peer(peer)
        available = psutil.virtual_memory().available
        if available < self.memory_reserve:
            raise amounts.refusal(
                f"{units.format_bytes(available)} of memory are available",
                "memory_reserve",
                f"{available // 2_000_000}M",
            )

    def check_peer(self, peer: Address) -> None:
        """Whether there may be flows with `peer`."""
        named = self.peers
        networks = [*_connected()] if named is None else named
        is_inside = any(peer in network for network in networks)
        if not (is_inside if named is not None else _may_be(peer, is_connected=is_inside)):
            raise amounts.refusal(f"no flows with {peer}", "peers", [str(ip_network(peer))])

    def check_ports(self, ports: Ports) -> None:
        """Whether servers of traffic are at these ports."""
        for port in (*ports.control, *ports.data):
            if not any(port in each for each in self.ports):
                raise amounts.refusal(
                    f"no server of traffic at port {port}", "ports", [f"{port}-{port}"]
                )

    def check_capture(self, request: CaptureRequest, mtu_bytes: int) -> None:
        """Whether a capture at an interface with this MTU stays small enough."""
        amounts.check_capture(request.packets, request.snap_bytes, mtu_bytes, self.captures)

    def check_room(self, spool: Path) -> None:
        """Whether the disk has room for another experiment."""
        free = shutil.disk_usage(spool.parent).free
        if free < self.disk_reserve:
            said = f"{units.format_bytes(free)} are free on the disk of the agent's folder {spool}"
            raise amounts.refusal(
                said, "disk_reserve", f"{free // 2_000_000}M", first="Make room there. "
            )
        if self.spool != math.inf and (size := _size(spool)) > self.spool:
            said = f"{units.format_bytes(size)} of data not fetched yet are in {spool}"
            fetch = "Fetch them: netesto hosts fetch. "
            raise amounts.refusal(said, "spool", f"{math.ceil(size / 1e9) + 1}G", first=fetch)


# A lab's hosts have no other users and no management, and their disk is that of the controller.
OF_LAB = AgentLimits(
    interfaces=None,
    keep=True,
    peers=(ip_network("0.0.0.0/0"), ip_network("::/0")),
    duration=math.inf,
    flows=math.inf,
    captures=math.inf,
    spool=math.inf,
    spool_age=math.inf,
    disk_reserve=0,
    memory_reserve=0,
)


def read(table: object) -> AgentLimits:
    """The limits of an agent.toml. ValueError or TypeError names the key that is wrong."""
    if not isinstance(table, dict):
        raise TypeError("limits: a table is required: [limits]")
    known = {field.name for field in fields(AgentLimits)}
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key {key!r} in [limits]; it has {', '.join(sorted(known))}")
    values: dict[str, object] = {}
    for key, value in table.items():
        try:
            values[key] = _READERS[key](value)
        except (ValueError, TypeError, NotAllowedError) as error:
            raise ValueError(f"limits.{key}: {error}") from None
    return AgentLimits(**values)  # type: ignore[arg-type]  # each has the type of its reader


def absent(names: Iterable[str]) -> tuple[str, ...]:
    """Those of these interfaces that this host does not have."""
    present = psutil.net_if_stats()
    return tuple(name for name in names if name not in present)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("a list of strings is required")
    return tuple(value)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is required")  # noqa: TRY004 - as the other readers
    return value


def _interfaces(value: object) -> tuple[str, ...]:
    for name in _texts(value):
        allowed.check_device(name)
    return _texts(value)


def _ranges(value: object) -> tuple[range, ...]:
    ranges = []
    for text in _texts(value):
        found = _PORTS.fullmatch(text)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= _PORT_MAX:
            raise ValueError(f"{text!r} is neither a port nor a range of ports, such as 5201-5300")
        ranges.append(range(first, last + 1))
    return tuple(ranges)


def _count(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number above 0 is required")
    return float(value)


def seconds(text: str) -> float:
    """A time with its unit, also in hours or days. Without one, seconds could be meant or days, and
    data would be removed or a disk filled."""
    if text[-1:].isdecimal():
        raise ValueError(f'{text}: a unit is required, such as "{text}s" or "24h"')
    factor = {"h": 3600, "d": 24 * 3600}.get(text[-1:])
    is_whole = factor is not None and text[-2:-1].isdecimal()
    found = units.parse_time(text[:-1]) * (factor or 1) if is_whole else units.parse_time(text)
    # An age that is not above 0 would remove all measurements.
    if found <= 0:
        raise ValueError(f"{text} is not more than 0 s")
    return found


def _amount(parse: Callable[[str], float]) -> Callable[[object], float]:
    def read_amount(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError('a number, or a string with a unit, such as "10G" or "24h"')
        return float(parse(str(value)))

    return read_amount


_READERS: Mapping[str, Callable[[object], object]] = {
    "interfaces": _interfaces,
    "keep": _truth,
    "peers": lambda value: tuple(map(ip_network, _texts(value))),
    "ports": _ranges,
    "duration": _amount(seconds),
    "flows": _count,
    "captures": _amount(units.parse_size),
    "spool": _amount(units.parse_size),
    "spool_age": _amount(seconds),
    "disk_reserve": _amount(units.parse_size),
    "memory_reserve": _amount(units.parse_size),
}


def _may_be(peer: Address, *, is_connected: bool) -> bool:
    """Whether there may be flows with a peer, if nobody named networks."""
    if peer.is_link_local or peer.is_multicast or peer.is_unspecified or _is_broadcast(peer):
        return False
    # 240.0.0.0/4, but for the broadcast address, is in no network.
    return is_connected or not (peer.is_global or (peer.version == 4 and peer.is_reserved))


def _is_broadcast(peer: Address) -> bool:
    """Whether it is the broadcast address of all networks, or of one that this host is in."""
    if peer.version == 6:
        return False
    # A network of one or two addresses has none (RFC 3021).
    own = (each for each in _connected() if each.version == 4 and each.prefixlen < 31)
    return peer == _EVERYBODY or any(peer == each.broadcast_address for each in own)


def _connected() -> Iterable[Network]:
    """The networks of the addresses of this host."""
    for entries in psutil.net_if_addrs().values():
        for entry in entries:
            if entry.family in (socket.AF_INET, socket.AF_INET6) and entry.netmask:
                address = entry.address.partition("%")[0]
                yield ip_interface(f"{address}/{_prefix(entry.netmask)}").network


def _prefix(netmask: str) -> int:
    family = socket.AF_INET6 if ":" in netmask else socket.AF_INET
    return int.from_bytes(socket.inet_pton(family, netmask)).bit_count()


def _size(folder: Path) -> int:
    """The bytes of all files below a folder."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - many files
            except FileNotFoundError:
                continue
    return total
