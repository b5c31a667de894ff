"""What TCP has learnt about paths and uses for later connections: deleted on request.

By generic netlink, as `ip tcp_metrics flush` does, without a process for each group of flows.
Messages and their layout: <linux/genetlink.h>, <linux/tcp_metrics.h>.
"""

import contextlib
import struct

from netesto.collectors.netlink import Netlink, attribute, attributes, opened

_NETLINK_GENERIC = 16

# The family that knows all others, and its command that returns the number of a family by name.
_NLCTRL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_TCP_METRICS, _DELETE = b"tcp_metrics\0", 2

# struct genlmsghdr: command, version.
_COMMAND = struct.Struct("=BBxx")


def forget() -> None:
    """Delete what TCP has learnt in this network namespace. OSError if the kernel refuses."""
    with contextlib.closing(Netlink(opened(_NETLINK_GENERIC))) as netlink:
        request = _COMMAND.pack(_GET_FAMILY, 1) + attribute(_FAMILY_NAME, _TCP_METRICS)
        [told] = netlink.ask(_NLCTRL, request)
        (family,) = struct.unpack("=H", attributes(told, _COMMAND.size)[_FAMILY_ID])
        # Without an address: of all.
        netlink.ask(family, _COMMAND.pack(_DELETE, 1))
