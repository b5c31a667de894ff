"""Congestion controls that this process may use: setting one on a socket loads its module."""

import contextlib
import errno
import platform
import socket
from pathlib import Path

from netesto.errors import AgentError, MissingError

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def allowed() -> tuple[str, ...]:
    """The loaded ones that we may use; empty if we may use all."""
    loaded = _AVAILABLE.read_text(encoding="utf-8").split()
    found = []
    for name in loaded:
        with contextlib.suppress(AgentError):
            require(name)
            found.append(name)
    return tuple(found) if len(found) < len(loaded) else ()


def require(name: str) -> None:
    """MissingError if the kernel does not have it, AgentError if we may not use it.

    Traffic tools would silently use another one.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            if error.errno == errno.EPERM:
                raise AgentError(
                    f"congestion control {name}: only root may use it here",
                    remedy="sysctl net.ipv4.tcp_allowed_congestion_control lists the others",
                ) from None
            has = ", ".join(_AVAILABLE.read_text(encoding="utf-8").split())
            raise MissingError(
                f"congestion control {name}: not in this kernel ({platform.release()})",
                remedy=f"it has {has}; `--ground uml` has all",
            ) from None
