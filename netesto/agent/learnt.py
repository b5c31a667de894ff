"""What TCP has learnt of paths and uses for later connections: forgotten on request.

By generic netlink, as `ip tcp_metrics flush` does, without a process for each group of flows.
Messages and their layout: <linux/genetlink.h>, <linux/tcp_metrics.h>.
"""

import os
import socket
import struct

from netesto.collectors import sockdiag

_NETLINK_GENERIC = 16
_ACKNOWLEDGE = 0x4

# The family that knows all others, and its command that tells the number of one by name.
_NLCTRL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_TCP_METRICS, _DELETE = b"tcp_metrics\0", 2

_MESSAGE = struct.Struct("=IHHII")
# struct genlmsghdr: command, version.
_COMMAND = struct.Struct("=BBxx")
_ATTRIBUTE = struct.Struct("=HH")


def forget() -> None:
    """Delete what TCP has learnt in this network namespace. OSError if the kernel refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as netlink:
        size = _ATTRIBUTE.size + len(_TCP_METRICS)
        name = _ATTRIBUTE.pack(size, _FAMILY_NAME) + _TCP_METRICS
        told = _ask(netlink, _NLCTRL, _GET_FAMILY, name)
        (family,) = struct.unpack("=H", sockdiag.attributes(told, _COMMAND.size)[_FAMILY_ID])
        # Without an address: of all.
        _ask(netlink, family, _DELETE, b"", flags=_ACKNOWLEDGE)


def _ask(
    netlink: socket.socket, family: int, command: int, body: bytes, *, flags: int = 0
) -> bytes:
    body = _COMMAND.pack(command, 1) + body
    size = _MESSAGE.size + len(body)
    netlink.send(_MESSAGE.pack(size, family, flags | sockdiag.NLM_F_REQUEST, 0, 0) + body)
    kind, _, reply = next(sockdiag.messages(netlink.recv(sockdiag.BUFFER_BYTES)))
    if kind == sockdiag.NLMSG_ERROR and (error := -struct.unpack_from("=i", reply)[0]):
        raise OSError(error, os.strerror(error))
    return reply
