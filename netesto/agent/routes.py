"""The interfaces by which this host reaches others, and what TCP has learnt about paths."""

import contextlib
import socket
import struct

import psutil

from netesto.collectors.netlink import Netlink, attribute, attributes, opened
from netesto.collectors.queues import Queues
from netesto.model import Address

_LOOPBACK = "lo"

# Generic netlink: <linux/genetlink.h>, <linux/tcp_metrics.h>.
_NETLINK_GENERIC = 16

# The family that knows all others, and its command that returns the number of a family by name.
_NLCTRL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_TCP_METRICS, _DELETE = b"tcp_metrics\0", 2

# struct genlmsghdr: command, version.
_COMMAND = struct.Struct("=BBxx")


def device_to(address: Address, *, default: str) -> str:
    """The interface by which packets to `address` leave; `default` if it is unknown."""
    try:
        with contextlib.closing(Queues()) as asked:
            return asked.device_to(address)
    except OSError:
        return default


def default_device() -> str:
    """The interface of the default route; else the first that is up; else loopback."""
    if found := managing():
        return found[0]
    up = (name for name, state in psutil.net_if_stats().items() if state.isup)
    return next((name for name in up if name != _LOOPBACK), _LOOPBACK)


def managing() -> tuple[str, ...]:
    """The interfaces of default routes: one of them most likely carries management of this host."""
    with contextlib.closing(Queues()) as asked:
        found = [asked.default_device(family) for family in (socket.AF_INET, socket.AF_INET6)]
    return tuple(dict.fromkeys(filter(None, found)))


def forget() -> None:
    """Delete what TCP has learnt about paths in this network namespace, and uses for later
    connections. OSError if the kernel refuses.

    As `ip tcp_metrics flush` does, without a process for each group of flows.
    """
    with contextlib.closing(Netlink(opened(_NETLINK_GENERIC))) as netlink:
        request = _COMMAND.pack(_GET_FAMILY, 1) + attribute(_FAMILY_NAME, _TCP_METRICS)
        [reply] = netlink.ask(_NLCTRL, request)
        (family,) = struct.unpack("=H", attributes(reply, _COMMAND.size)[_FAMILY_ID])
        # Without an address: of all.
        netlink.ask(family, _COMMAND.pack(_DELETE, 1))
