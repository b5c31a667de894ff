"""The address of an agent as text: `ssh://[USER@]HOST`, or `unix:PATH` on this machine."""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import TypeAlias

from netesto.errors import UsageError
from netesto.text.nearest import hint

PORT_MAX = 65535

_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
# Without a zone, or with one that can be the name of an interface.
_ZONE = re.compile(r"[^%]*(?:%[^\s%/\[\]]{1,15})?")

# Where an agent listens by default.
AGENT_SOCKET = Path("/run/netesto/agent.sock")

# The socket below the home folder of its user, if 'hosts install' had no root.
USER_SOCKET = Path(".local/state/netesto/run/agent.sock")

_SSH = re.compile(
    r"ssh://(?:(?P<user>[^@/]*)@)?(?P<host>\[[^]/]*\]|[^:/]*)(?::(?P<port>[^/]*))?(?P<path>/.*)?"
)
_SSH_EXAMPLE = "ssh://[USER@]HOST[:PORT][/PATH/OF/SOCKET]"

# What to do instead of listening on a port, or with TLS.
NO_PORTS = "Reach the agent through ssh, or put stunnel before its Unix socket: see docs/hosts.md."

# Neither must look like an option of ssh, nor have a meaning for a shell or ssh_config.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\\+-]*")
_SSH_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SOCKET = re.compile(r"/[A-Za-z0-9_./+,@=-]+")

# sun_path holds 108 bytes with its NUL; a longer path fails only in bind(), without a reason.
SOCKET_PATH_MAX_BYTES = 107


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class SshAddress:
    """The Unix socket `path` on a host that the user's ssh reaches: `host` is the argument of ssh,
    possibly a name in ssh_config, without the brackets of an IPv6 address. "" and None stand for
    the values of ssh_config."""

    host: str
    user: str = ""
    port: int | None = None
    path: Path = AGENT_SOCKET

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port is not None else ""
        path = str(self.path) if self.path != AGENT_SOCKET else ""
        return f"ssh://{user}{host}{port}{path}"


AgentAddress: TypeAlias = SshAddress | UnixAddress


def parse(text: str) -> AgentAddress:
    """Read `ssh://[USER@]HOST[:PORT][/PATH]` or `unix:PATH`. UsageError for anything else."""
    if text.startswith("ssh:"):
        return _parse_ssh(text)
    if text.startswith("unix:"):
        return _parse_unix(text)
    scheme, separator, _ = text.partition("://")
    if scheme == "tls" and separator:
        raise UsageError(f"{text!r}: netesto has no TLS of its own", remedy=NO_PORTS)
    if separator:
        raise UsageError(
            f"{text!r}: unknown scheme {scheme}",
            remedy=hint(scheme, ("ssh", "unix"), otherwise="Write ssh:// or unix:."),
        )
    raise UsageError(
        f"invalid agent address {text!r}",
        remedy=f"Write {_SSH_EXAMPLE}, or unix:PATH: agents listen on no ports.",
    )


def _port(port: str, text: str) -> int:
    if _PORT.fullmatch(port) is None or int(port) > PORT_MAX:
        raise UsageError(f"{text!r}: invalid port {port!r}", remedy="A port is 1 to 65535.")
    return int(port)


def _is_ipv6(text: str) -> bool:
    """Whether `text` is an IPv6 address, with or without a zone (`fe80::1%eth0`)."""
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return _ZONE.fullmatch(text) is not None


def _parse_ssh(text: str) -> SshAddress:
    match = _SSH.fullmatch(text)
    if match is None:
        raise UsageError(f"invalid agent address {text!r}", remedy=f"Write {_SSH_EXAMPLE}.")
    user, host, port, path = match["user"], match["host"], match["port"], match["path"]
    if user is not None and _USER.fullmatch(user) is None:
        raise UsageError(f"{text!r}: invalid user name {user!r}", remedy=f"Write {_SSH_EXAMPLE}.")
    bare = host.removeprefix("[").removesuffix("]")
    if not (_is_ipv6(bare) if bare != host else _SSH_HOST.fullmatch(host)):
        raise UsageError(f"{text!r}: invalid host {host!r}", remedy=f"Write {_SSH_EXAMPLE}.")
    number = None if port is None else _port(port, text)
    if number == 0:
        raise UsageError(f"{text!r}: invalid port '0'", remedy="A port is 1 to 65535.")
    if path in {None, "/"}:
        return SshAddress(bare, user or "", number)
    if _SOCKET.fullmatch(path) is None or path.endswith("/"):
        raise UsageError(
            f"{text!r}: invalid socket path {path!r}",
            remedy="It is an absolute path of letters, digits and -_./+,@=.",
        )
    return SshAddress(bare, user or "", number, socket_path(path))


def _parse_unix(text: str) -> UnixAddress:
    path = text.removeprefix("unix:")
    if not path:
        raise UsageError(f"{text!r}: no socket path", remedy=f"Write unix:{AGENT_SOCKET}.")
    return UnixAddress(socket_path(path))


def socket_path(path: str) -> Path:
    """The absolute path. UsageError if no socket can have it."""
    absolute = Path(path).absolute()
    length = len(str(absolute).encode())
    if length > SOCKET_PATH_MAX_BYTES:
        raise UsageError(
            f"{absolute}: {length} bytes; a socket path has at most {SOCKET_PATH_MAX_BYTES}",
            remedy="Use a shorter folder, such as /run/netesto.",
        )
    return absolute
