"""What may be wrong with this host before a run: clock, disk, interfaces, paths."""

import asyncio
import math
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from netesto.agent import routes
from netesto.agent.experiment import Premises
from netesto.agent.limits import absent
from netesto.collectors import hostfacts, pathmtu, timesync
from netesto.errors import ProcessError
from netesto.limits import amounts
from netesto.model import Address, HostState, InterfaceState, PathState
from netesto.system import proc, process
from netesto.traffic.ports import REFUSED_PORT

# What agents run besides the traffic tools.
COMMANDS = ("ethtool", "ip", "ping", "tc", "tcpdump")

_ETHTOOL_TIMEOUT_S = 2.0

# <linux/if.h>
_IFF_UP = 1


async def examine(
    peers: Sequence[Address], premises: Premises, *, carrier_s: float = 0.0
) -> HostState:
    """The state of this host, as its agent would use it, and of its paths to those `peers` with
    which it may have flows. Takes at most 3 s, and before up to `carrier_s` until the interfaces
    are connected."""
    used = {premises.device, *(_device_to(peer, premises) for peer in peers)}
    await process.wait_until_async(lambda: not any(map(_lacks_carrier, used)), timeout=carrier_s)
    clock, paths = await asyncio.gather(
        timesync.read(), asyncio.gather(*(_path(peer, premises) for peer in peers))
    )
    room = partial(premises.limits.check_room, premises.folder / "spool")
    full = await asyncio.to_thread(amounts.refused, room)
    managing = routes.managing()
    device = _tests_through(peers, premises)
    used = {device or premises.device, *(path.device for path in paths)}
    premises = replace(premises, device=device)
    return HostState(
        is_synchronized=clock.is_synchronized,
        clock_error_s=clock.error_s,
        clock_source=clock.source,
        disk_free_bytes=shutil.disk_usage(premises.folder).free,
        missing_commands=tuple(name for name in COMMANDS if shutil.which(name) is None),
        management=managing,
        interfaces=await _interfaces(used, premises, managing),
        paths=tuple(paths),
        refusals=(full,) if full else (),
        keep_refusal=amounts.refused(premises.limits.check_keep),
        absent_interfaces=absent(premises.limits.interfaces or ()),
        setting_refusal=_lack_of(proc.CAP_NET_ADMIN, "changes no settings"),
        capture_refusal=""
        if _tcpdump_has_rights()
        else _lack_of(proc.CAP_NET_RAW, "captures nothing"),
        longest_flow_s=_most(premises.limits.duration),
        most_flows=_most(premises.limits.flows),
        largest_capture_bytes=_most(premises.limits.captures),
        device=device,
    )


def _tests_through(peers: Sequence[Address], premises: Premises) -> str:
    """The interface that was named for tests, or else the one by which all peers are reached, other
    than loopback; "" if there are several."""
    if not premises.is_device_named and not premises.is_in_lab:
        may = premises.limits.check_peer
        ways = {
            routes.device_to(each, default="") for each in peers if not amounts.refused(may, each)
        }
        if found := ways - {"", "lo"}:
            return found.pop() if len(found) == 1 else ""
    return premises.device


def _lacks_carrier(device: str) -> bool:
    """Whether an interface is set up, and not connected: IFF_UP without IFF_RUNNING."""
    try:
        flags = int(Path(f"/sys/class/net/{device}/flags").read_text(encoding="ascii"), 16)
    except OSError:
        return False
    state = psutil.net_if_stats().get(device)
    return bool(flags & _IFF_UP) and state is not None and not state.isup


def _device_to(peer: Address, premises: Premises) -> str:
    return routes.device_to(peer, default=premises.device)


async def _path(peer: Address, premises: Premises) -> PathState:
    device = _device_to(peer, premises)
    if refusal := amounts.refused(premises.limits.check_peer, peer):
        return PathState(
            peer=str(peer), device=device, mtu_bytes=0, answer="unreachable", reason=refusal
        )
    return await pathmtu.measure(peer, port=REFUSED_PORT, device=device)


def _most(limit: float) -> float:
    """A limit; 0 for none."""
    return limit if math.isfinite(limit) else 0.0


def _lack_of(capability: int, what: str) -> str:
    """Why this agent cannot do what takes a capability; "" if it has it, or all rights of files."""
    if os.geteuid() == 0 or proc.has_capability(capability):
        return ""
    return (
        f"its agent does not run as root, and {what}\n"
        "An agent of root does: netesto hosts install root@HOST, or run --ssh root@HOST."
    )


def _tcpdump_has_rights() -> bool:
    """Whether its file has capabilities, as setcap(8) gives them."""
    program = shutil.which("tcpdump")
    return program is not None and "security.capability" in os.listxattr(program)


async def _interfaces(
    used: Iterable[str], premises: Premises, managing: Iterable[str]
) -> tuple[InterfaceState, ...]:
    """All interfaces, and the offloads of those that are used."""
    present = psutil.net_if_stats()
    names = [name for name in used if name in present]
    offloads = dict(zip(names, await asyncio.gather(*map(_offloads, names)), strict=True))

    def refusal(name: str) -> str:
        return amounts.refused(premises.check_interface, name, managing=managing)

    return tuple(
        InterfaceState(
            name=name,
            mtu_bytes=state.mtu,
            is_up=state.isup,
            offloads=offloads.get(name, ()),
            refusal=refusal(name),
            lacks_carrier=_lacks_carrier(name),
        )
        for name, state in sorted(present.items())
    )


async def _offloads(device: str) -> tuple[str, ...]:
    try:
        argv = ("ethtool", "-k", device)
        shown = await process.run_async(argv, timeout=_ETHTOOL_TIMEOUT_S, check=False)
    except ProcessError:
        return ()
    found = hostfacts.offloads(shown.stdout)
    return tuple(name for name, state in found.items() if state == "on")
