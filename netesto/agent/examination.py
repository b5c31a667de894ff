"""What may be wrong with this host before a run: clock, disk, interfaces, paths."""

import asyncio
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

from netesto import process
from netesto.agent import routes
from netesto.collectors import hostfacts, pathmtu, timesync
from netesto.errors import ProcessError
from netesto.model import Address, HostState, InterfaceState, PathState
from netesto.traffic.ports import REFUSED_PORT

# What agents run besides the traffic tools.
COMMANDS = ("ethtool", "ip", "ping", "tc", "tcpdump")

_ETHTOOL_TIMEOUT_S = 2.0


async def examine(peers: Sequence[Address], *, device: str, folder: Path) -> HostState:
    """The state of this host, whose agent tests through `device` and keeps files in `folder`, and
    of its paths to `peers`. Takes at most 3 s."""
    clock, paths, managing = await asyncio.gather(
        timesync.read(),
        asyncio.gather(*(_path(peer, default=device) for peer in peers)),
        routes.default_device(),
    )
    used = {device, *(path.device for path in paths)}
    return HostState(
        is_synchronized=clock.is_synchronized,
        clock_error_s=clock.error_s,
        clock_source=clock.source,
        disk_free_bytes=shutil.disk_usage(folder).free,
        missing_commands=tuple(name for name in COMMANDS if shutil.which(name) is None),
        management=(managing,),
        interfaces=await _interfaces(used),
        paths=tuple(paths),
    )


async def _path(peer: Address, *, default: str) -> PathState:
    device = await routes.device_to(peer, default=default)
    return await pathmtu.measure(peer, port=REFUSED_PORT, device=device)


async def _interfaces(used: Iterable[str]) -> tuple[InterfaceState, ...]:
    """All interfaces, and the offloads of those that are used."""
    there = psutil.net_if_stats()
    names = [name for name in used if name in there]
    offloads = dict(zip(names, await asyncio.gather(*map(_offloads, names)), strict=True))
    return tuple(
        InterfaceState(
            name=name, mtu_bytes=state.mtu, is_up=state.isup, offloads=offloads.get(name, ())
        )
        for name, state in sorted(there.items())
    )


async def _offloads(device: str) -> tuple[str, ...]:
    try:
        argv = ("ethtool", "-k", device)
        shown = await process.run_async(argv, timeout=_ETHTOOL_TIMEOUT_S, check=False)
    except ProcessError:
        return ()
    found = hostfacts.offloads(shown.stdout)
    return tuple(name for name, state in found.items() if state == "on")
