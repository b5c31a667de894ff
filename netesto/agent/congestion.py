"""Congestion controls that this process may use: setting one on a socket loads its module."""

import contextlib
import errno
import platform
import socket
from collections.abc import Collection
from pathlib import Path

from netesto.collectors import capabilities
from netesto.errors import AgentError, MissingError
from netesto.grounds import elsewhere
from netesto.limits.allowed import allowing_control
from netesto.system import proc

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def allowed(known: Collection[str]) -> tuple[str, ...]:
    """Those that we may use; empty if we may use all that are `known` of this kernel, of which some
    may be modules that are not loaded."""
    found = []
    loaded = _AVAILABLE.read_text(encoding="utf-8").split()
    for name in loaded:
        with contextlib.suppress(AgentError):
            require(name)
            found.append(name)
    # It may load modules: one that we use is loaded by that.
    wanted = loaded if proc.has_capability(proc.CAP_NET_ADMIN) else known
    return () if set(wanted) <= set(found) else tuple(found)


def require(name: str) -> None:
    """MissingError if the kernel does not have it, AgentError if we may not use it.

    Traffic tools would silently use another one.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            if error.errno == errno.EPERM:
                raise _for_root(name, "only root may use it here") from None
            if name in capabilities.modules_on_disk(platform.release()).congestion_controls:
                said = "its module is not loaded, and cannot be loaded from here"
                raise _for_root(name, said) from None
            has = ", ".join(_AVAILABLE.read_text(encoding="utf-8").split())
            raise MissingError(
                f"congestion control {name}: not in this kernel ({platform.release()})",
                remedy=f"It has {has}{elsewhere(name, proc.ground_inside())}",
            ) from None


def _for_root(name: str, said: str) -> AgentError:
    return AgentError(
        f"congestion control {name}: {said}",
        remedy=allowing_control(name),
    )
