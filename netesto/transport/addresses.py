"""Where an agent listens, as text: `unix:PATH`, `HOST:PORT` or `[IPV6]:PORT`. Its one reader."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from netesto.errors import UsageError

DEFAULT_PORT = 12870
PORT_MAX = 65535

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NUMBERS = re.compile(r"[0-9.]+")
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
# No zone, or one that could be the name of an interface.
_ZONE = re.compile(r"^[^%]*(?:%[^\s%/\[\]]{1,15})?$")
_IPV6_EXAMPLE = "[2001:db8::1]:12870"

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
    """Read `unix:PATH`, `HOST:PORT`, `[IPV6]:PORT`, or a HOST alone (port 12870), which may be an
    IPv6 address without brackets. UsageError for anything else."""
    if text.startswith("unix:"):
        return _parse_unix(text)
    if text.startswith("["):
        inside, bracket, rest = text[1:].partition("]")
        if not bracket or not _is_ipv6(inside) or (rest and not rest.startswith(":")):
            raise UsageError(f"{text!r} is no agent address", remedy=f"Write {_IPV6_EXAMPLE}.")
        return TcpAddress(inside, _port(rest[1:], text) if rest else DEFAULT_PORT)
    if text.count(":") > 1:
        if _is_ipv6(text):
            return TcpAddress(text, DEFAULT_PORT)
        # A port behind an address without brackets, most often.
        host, _, port = text.rpartition(":")
        remedy = f"Write [{host}]:{port}." if _is_ipv6(host) else f"Write {_IPV6_EXAMPLE}."
        raise UsageError(f"{text!r} is no agent address", remedy=remedy)
    host, colon, port = text.partition(":")
    if _NAME.fullmatch(host) is None or (_NUMBERS.fullmatch(host) and not _is_ipv4(host)):
        raise UsageError(f"{text!r} is no agent address", remedy="Write unix:PATH or HOST:PORT.")
    return TcpAddress(host, _port(port, text) if colon else DEFAULT_PORT)


def _port(port: str, text: str) -> int:
    if _PORT.fullmatch(port) is None or int(port) > PORT_MAX:
        raise UsageError(f"{text!r}: {port!r} is no port", remedy="A port is 1 to 65535.")
    return int(port)


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    """Whether `text` is an IPv6 address; it may name its zone (`fe80::1%eth0`)."""
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return _ZONE.search(text) is not None


def _parse_unix(text: str) -> UnixAddress:
    path = text.removeprefix("unix:")
    if not path:
        raise UsageError(f"{text!r} names no socket", remedy="Write unix:/run/netesto/agent.sock.")
    absolute = Path(path).absolute()
    length = len(str(absolute).encode())
    if length > SOCKET_PATH_MAX_BYTES:
        raise UsageError(
            f"{absolute}: {length} bytes; the path of a socket holds at most"
            f" {SOCKET_PATH_MAX_BYTES}",
            remedy="Use a shorter folder, such as /run/netesto.",
        )
    return UnixAddress(absolute)
