"""The interfaces by which this host reaches others."""

import contextlib
import socket

import psutil

from netesto.collectors.queues import Queues
from netesto.model import Address

_LOOPBACK = "lo"


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
