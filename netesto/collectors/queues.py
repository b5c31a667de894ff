"""Ask the kernel for qdiscs and interface counters by netlink, as tc(8) and ip(8) do.

A dump takes some ten microseconds; starting a tc takes milliseconds. Messages and their layout:
rtnetlink(7), <linux/rtnetlink.h>, <linux/gen_stats.h>, <linux/if_link.h>, <linux/pkt_sched.h>.
"""

import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from netesto.collectors.namespaces import within
from netesto.collectors.netlink import RTM_GETQDISC, TCMSG, Netlink, attribute, attributes, opened
from netesto.measured import InstalledQdisc
from netesto.model import Address

_RTM_GETLINK, _RTM_GETROUTE, _RTM_GETSTATS = 18, 26, 94
_RTA_DST, _RTA_OIF, _RTA_MULTIPATH = 1, 4, 9
_RT_TABLE_MAIN, _RTN_UNICAST = 254, 1
_IFLA_IFNAME, _IFLA_OPERSTATE, _IFLA_STATS_LINK_64 = 3, 16, 1
_IF_OPER_UP = b"\x06"
_TCA_KIND, _TCA_OPTIONS, _TCA_STATS2 = 1, 2, 7
_STATS_BASIC, _STATS_QUEUE, _STATS_APP, _STATS_PKT64 = 1, 3, 4, 8
_TBF_PARMS, _TBF_RATE64, _CAKE_BASE_RATE64 = 1, 4, 2
_NETEM_LOSS, _NETEM_RATE, _NETEM_RATE64 = 5, 6, 8
_CAKE_TIN_STATS, _CAKE_TIN_ECN_MARKED_PACKETS = 10, 8

_ROOT = 0xFFFFFFFF

_IF_STATS_MSG = struct.Struct("=BxxxII")
_IFINFOMSG = struct.Struct("=BxHiII")
_RTMSG = struct.Struct("=BBBBBBBBI")
# The share of lost packets in struct tc_netem_qopt; attributes follow it.
_NETEM_QOPT = struct.Struct("=8xI12x")

# Bytes and packets; packets in the queue, bytes in the queue, drops, requeues, overlimits.
_BASIC, _QUEUE = struct.Struct("=QI"), struct.Struct("=IIIII")

# The beginning of struct rtnl_link_stats64.
INTERFACE_COUNTS = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped",
    "tx_dropped",
)  # fmt: skip
_LINK_STATS = struct.Struct("=8Q")

# The counts of a qdisc in a sample. `marks` are packets marked with CE, None where the qdisc does
# not count them.
QDISC_COUNTS = (
    "bytes", "packets", "backlog_bytes", "backlog_packets", "drops", "requeues", "overlimits",
    "marks",
)  # fmt: skip

# The kind of an interface without a qdisc: packets never wait.
_WITHOUT_QUEUE = frozenset({"noqueue", "ingress"})

Counts = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class QueueReading:
    """All counts at one instant, in the order of QDISC_COUNTS and INTERFACE_COUNTS."""

    qdiscs: Mapping[InstalledQdisc, Counts]
    interfaces: Mapping[str, Counts]


class Queues:
    """A netlink socket of the network namespace called `namespace` (default: our own).

    Raises OSError if the kernel refuses.
    """

    def __init__(self, namespace: str = "") -> None:
        route = partial(opened, socket.NETLINK_ROUTE)
        self._netlink = Netlink(within(namespace, route) if namespace else route())
        self._names: dict[int, str] = {}

    def close(self) -> None:
        self._netlink.close()

    def read(self, is_wanted: Callable[[str], bool]) -> QueueReading:
        """The current counts of the interfaces with the wanted names."""
        interfaces: dict[str, Counts] = {}
        for body in self._netlink.dump(_RTM_GETSTATS, _IF_STATS_MSG.pack(0, 0, 1)):
            index = _IF_STATS_MSG.unpack_from(body)[1]
            if index not in self._names:
                self._names = self._read_names()
            name = self._names.get(index, "")
            if is_wanted(name):
                stats = attributes(body, _IF_STATS_MSG.size)[_IFLA_STATS_LINK_64]
                interfaces[name] = _LINK_STATS.unpack_from(stats)
        qdiscs: dict[InstalledQdisc, Counts] = {}
        for body in self._netlink.dump(RTM_GETQDISC, TCMSG.pack(0, 0, 0, 0, 0)):
            index = TCMSG.unpack_from(body)[1]
            if self._names.get(index) in interfaces and (found := _qdisc(body, self._names[index])):
                qdiscs[found[0]] = found[1]
        return QueueReading(qdiscs, interfaces)

    def device_to(self, address: Address) -> str:
        """The interface by which packets to `address` leave."""
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        packed = address.packed
        request = _RTMSG.pack(family, 8 * len(packed), 0, 0, 0, 0, 0, 0, 0)
        [route] = self._netlink.ask(_RTM_GETROUTE, request + attribute(_RTA_DST, packed))
        index = attributes(route, _RTMSG.size).get(_RTA_OIF, b"")
        return socket.if_indextoname(_number(index) or 0)

    def default_device(self, family: int) -> str:
        """The interface of the first default route of an address family, "" if there is none."""
        for body in self._netlink.dump(_RTM_GETROUTE, _RTMSG.pack(family, *[0] * 8)):
            found = attributes(body, _RTMSG.size)
            _, prefix, _, _, table, _, _, kind, _ = _RTMSG.unpack_from(body)
            # struct rtnexthop has the index after four other bytes.
            index = _number(found.get(_RTA_OIF) or found.get(_RTA_MULTIPATH, b"")[4:8])
            if index and (prefix, table, kind) == (0, _RT_TABLE_MAIN, _RTN_UNICAST):
                return socket.if_indextoname(index)
        return ""

    def up(self) -> set[str]:
        """The interfaces that carry packets: their operational state is `up`."""
        return {
            _text(found[_IFLA_IFNAME])
            for _, found in self._links()
            if found.get(_IFLA_OPERSTATE) == _IF_OPER_UP
        }

    def _read_names(self) -> dict[int, str]:
        return {index: _text(found[_IFLA_IFNAME]) for index, found in self._links()}

    def _links(self) -> Iterator[tuple[int, dict[int, bytes]]]:
        """The index and the attributes of each interface."""
        for body in self._netlink.dump(_RTM_GETLINK, _IFINFOMSG.pack(0, 0, 0, 0, 0)):
            yield _IFINFOMSG.unpack_from(body)[2], attributes(body, _IFINFOMSG.size)


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def _qdisc(body: bytes, device: str) -> tuple[InstalledQdisc, Counts] | None:
    """A qdisc and its counts; None for one without a queue, or without statistics."""
    _, _, handle, parent, _ = TCMSG.unpack_from(body)
    found = attributes(body, TCMSG.size)
    kind = _text(found.get(_TCA_KIND, b""))
    stats = attributes(found.get(_TCA_STATS2, b""))
    if kind in _WITHOUT_QUEUE or _STATS_BASIC not in stats or _STATS_QUEUE not in stats:
        return None
    size, packets = _BASIC.unpack_from(stats[_STATS_BASIC])
    if _STATS_PKT64 in stats:
        packets = int.from_bytes(stats[_STATS_PKT64], sys.byteorder)
    waiting, backlog, drops, requeues, overlimits = _QUEUE.unpack_from(stats[_STATS_QUEUE])
    marks = _marks(kind, stats.get(_STATS_APP, b""))
    rate_bps, is_lossless = _rate_bps(kind, found), _is_lossless(kind, found)
    names = (device, kind, _handle(handle), _handle(parent))
    qdisc = InstalledQdisc(*names, rate_bps, is_lossless)
    return qdisc, (size, packets, backlog, waiting, drops, requeues, overlimits, marks)


def _handle(number: int) -> str:
    """`8001:`, `1:2` or `root`."""
    if number == _ROOT:
        return "root"
    major, minor = number >> 16, number & 0xFFFF
    return f"{major:x}:{minor:x}" if minor else f"{major:x}:"


def _rate_bps(kind: str, found: Mapping[int, bytes]) -> float | None:
    """The rate of tbf, cake and netem, which are the shapers with one rate for all."""
    if kind not in {"tbf", "cake", "netem"}:
        return None
    content = found.get(_TCA_OPTIONS, b"")
    if kind == "netem":
        options = attributes(content, _NETEM_QOPT.size)
        wide = _number(options.get(_NETEM_RATE64, b""))
        narrow = int.from_bytes(options.get(_NETEM_RATE, b"")[:4], sys.byteorder)
        return 8.0 * (wide or narrow) or None
    options = attributes(content)
    if kind == "cake":
        rate = _number(options.get(_CAKE_BASE_RATE64, b""))
        return 8.0 * rate if rate else None
    if _TBF_RATE64 in options:
        return 8.0 * (_number(options[_TBF_RATE64]) or 0)
    # struct tc_ratespec: its rate comes after eight bytes.
    return 8.0 * int.from_bytes(options[_TBF_PARMS][8:12], sys.byteorder)


def _is_lossless(kind: str, found: Mapping[int, bytes]) -> bool:
    """Whether it is a netem that loses no packets by chance."""
    options = found.get(_TCA_OPTIONS, b"")
    if kind != "netem" or len(options) < _NETEM_QOPT.size:
        return False
    [lost] = _NETEM_QOPT.unpack_from(options)
    return not lost and _NETEM_LOSS not in attributes(options, _NETEM_QOPT.size)


def _number(value: bytes) -> int | None:
    return int.from_bytes(value, sys.byteorder) if value else None


# The position of marks in the statistics of a qdisc: formats of `struct`, whose numbers are added.
# codel and fq_codel count a mark of the control law and one of ce_threshold separately.
_MARKS: Mapping[str, struct.Struct] = {
    "choke": struct.Struct("=12xI"),
    "codel": struct.Struct("=24xI4xI"),
    "fq": struct.Struct("=80xQ"),
    "fq_codel": struct.Struct("=12xI12xI"),
    "fq_pie": struct.Struct("=16xI"),
    "pie": struct.Struct("=36xI"),
    "red": struct.Struct("=12xI"),
    "sfb": struct.Struct("=20xI"),
}


def _marks(kind: str, statistics: bytes) -> int | None:
    """Packets that a qdisc has marked; None if it does not count them."""
    if kind == "cake":
        tins = attributes(statistics).get(_CAKE_TIN_STATS, b"")
        counts = (
            _number(attributes(tin).get(_CAKE_TIN_ECN_MARKED_PACKETS, b""))
            for tin in attributes(tins).values()
        )
        known = [count for count in counts if count is not None]
        return sum(known) if known else None
    layout = _MARKS.get(kind)
    if layout is None or len(statistics) < layout.size:
        return None
    marks: tuple[int, ...] = layout.unpack_from(statistics)
    return sum(marks)
