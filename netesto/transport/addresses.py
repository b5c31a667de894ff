"""Where an agent listens, as text: `unix:PATH` or `HOST:PORT`."""

from dataclasses import dataclass
from pathlib import Path

from netesto.errors import UsageError

DEFAULT_PORT = 12870

# sun_path holds 108 bytes with its NUL; a longer name fails only at bind, and says little.
SOCKET_PATH_MAX_BYTES = 107


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """`host` is a name or an address; an IPv6 address stands without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> UnixAddress | TcpAddress:
    """Read `unix:PATH`, `HOST:PORT`, `[IPV6]:PORT`, or HOST alone (port 12870). UsageError else."""
    if text.startswith("unix:"):
        return _parse_unix(text)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        if not bracket or (rest and not rest.startswith(":")):
            raise UsageError(f"{text!r} is no agent address", remedy="write [IPV6]:PORT")
    elif text.count(":") > 1:
        raise UsageError(f"{text!r} is no agent address", remedy=f"write [{text}]:{DEFAULT_PORT}")
    else:
        host, _, port = text.partition(":")
    if not host:
        raise UsageError(f"{text!r} is no agent address", remedy="write unix:PATH or HOST:PORT")
    if not port and not text.endswith(":"):
        return TcpAddress(host, DEFAULT_PORT)
    if not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise UsageError(f"{text!r}: {port!r} is no port", remedy="a port is 1 to 65535")
    return TcpAddress(host, int(port))


def _parse_unix(text: str) -> UnixAddress:
    path = text.removeprefix("unix:")
    if not path:
        raise UsageError(f"{text!r} names no socket", remedy="write unix:/run/netesto/agent.sock")
    absolute = Path(path).absolute()
    length = len(str(absolute).encode())
    if length > SOCKET_PATH_MAX_BYTES:
        raise UsageError(
            f"{absolute}: {length} bytes; the path of a socket holds at most"
            f" {SOCKET_PATH_MAX_BYTES}",
            remedy="use a shorter folder, such as /run/netesto",
        )
    return UnixAddress(absolute)
