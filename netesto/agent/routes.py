"""The interfaces by which this host reaches others."""

import contextlib
import json
from collections.abc import Sequence

import psutil

from netesto import process
from netesto.collectors.queues import Queues
from netesto.errors import ProcessError
from netesto.model import Address

_IP_TIMEOUT_S = 5.0

_LOOPBACK = "lo"


def device_to(address: Address, *, default: str) -> str:
    """The interface by which packets to `address` leave; `default` if it is unknown."""
    try:
        with contextlib.closing(Queues()) as asked:
            return asked.device_to(address)
    except OSError:
        return default


async def default_device() -> str:
    """The interface of the default route; else the first that is up; else loopback."""
    for family in ("-4", "-6"):
        if found := await _device(family, "route", "show", "default"):
            return found
    up = (name for name, state in psutil.net_if_stats().items() if state.isup)
    return next((name for name in up if name != _LOOPBACK), _LOOPBACK)


async def managing() -> tuple[str, ...]:
    """The interfaces of default routes: by one of them, others most likely manage this host."""
    found = [await _device(family, "route", "show", "default") for family in ("-4", "-6")]
    return tuple(dict.fromkeys(filter(None, found)))


async def _device(*question: str) -> str:
    try:
        finished = await process.run_async(("ip", "-j", *question), timeout=_IP_TIMEOUT_S)
    except ProcessError:
        return ""
    return parse(finished.stdout)


def parse(text: str) -> str:
    """The interface of the first route in the output of `ip -j route`, "" if there is none."""
    try:
        routes: Sequence[dict[str, object]] = json.loads(text)
        return str(routes[0]["dev"])
    except (ValueError, LookupError, TypeError):
        return ""
