"""Delays of netem to the nanosecond.

tc of iproute2 6.1 cuts a delay to whole microseconds, and sends these in ticks of 64 ns: 7.5 µs are
6.976. The kernel keeps nanoseconds (TCA_NETEM_LATENCY64; <linux/pkt_sched.h>).

`python -m netesto.collectors.delays NAMESPACE DEVICE NANOSECONDS` makes one exact.
"""

import contextlib
import errno
import os
import socket
import struct
import sys

from netesto.collectors import namespaces, netlink

_NETLINK_ROUTE, _RTM_NEWQDISC = 0, 36
_KIND, _OPTIONS, _LATENCY64 = 1, 2, 10
_NETEM = b"netem\0"
# struct tc_netem_qopt, in front of netem's attributes.
_QOPT_BYTES = 24


def make_exact(namespace: str, device: str, delay_ns: int) -> None:
    """Change the delay of the netem of an interface, which has one, and nothing else. OSError."""
    namespaces.within(namespace, lambda: _change(device, delay_ns))


def _change(device: str, delay_ns: int) -> None:
    index = socket.if_nametoindex(device)
    with contextlib.closing(netlink.Netlink(netlink.opened(_NETLINK_ROUTE))) as kernel:
        for message in kernel.dump(netlink.RTM_GETQDISC, netlink.TCMSG.pack(0, index, 0, 0, 0)):
            _, own, handle, parent, _ = netlink.TCMSG.unpack_from(message)
            found = netlink.attributes(message, netlink.TCMSG.size)
            if own == index and found.get(_KIND) == _NETEM:
                kind = netlink.attribute(_KIND, _NETEM).ljust(12, b"\0")
                options = netlink.attribute(_OPTIONS, _with_delay(found[_OPTIONS], delay_ns))
                place = netlink.TCMSG.pack(0, index, handle, parent, 0)
                kernel.ask(_RTM_NEWQDISC, place + kind + options)
                return
    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), f"netem of {device}")


def _with_delay(options: bytes, delay_ns: int) -> bytes:
    """What the kernel reports of a netem is what sets it."""
    changed = bytearray(options)
    for number, first, _ in netlink.places(options, _QOPT_BYTES, len(options)):
        if number == _LATENCY64:
            struct.pack_into("=q", changed, first, delay_ns)
    return bytes(changed)


if __name__ == "__main__":
    try:
        make_exact(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    except OSError as error:
        sys.exit(f"cannot set the delay of {sys.argv[2]}: {error}")
