"""Who may connect to an agent, which acts as root on its host.

A Unix socket is guarded by the file system: its mode is 0600, or 0660 with an admitted group, and
nobody else can replace it in its folder. Every user of a host can connect to its TCP ports,
loopback included: an agent listens on one only with `--insecure`, and then admits only the
addresses in clients.txt, if there is one. With TLS it admits controllers whose certificates have a
name in clients.txt.
"""

import grp
import os
import re
import stat
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from netesto.agent.reread import Reread
from netesto.errors import UsageError
from netesto.files import texts
from netesto.model import Address
from netesto.transport.addresses import (
    AGENT_SOCKET,
    SshAddress,
    TcpAddress,
    TlsAddress,
    UnixAddress,
    parse,
)

# In a certificate, these are names: DNS names, e-mail addresses, URIs such as spiffe://… .
_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_*.@+:/%-]+")
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:./]*")

# Others may or may not pass through the folder of a socket, but can never write to it.
_OWNER, _OWNER_AND_GROUP = 0o700, 0o750


def listen_address(text: str, *, insecure: bool) -> UnixAddress | TlsAddress | TcpAddress:
    """The address to listen on. UsageError if it is invalid, or an agent may not listen there."""
    address = parse(text)
    if isinstance(address, UnixAddress):
        return address
    if isinstance(address, SshAddress):
        raise UsageError(
            f"cannot listen on {address}: controllers reach an agent through ssh",
            remedy=f"Listen on unix:{AGENT_SOCKET}.",
        )
    if isinstance(address, TcpAddress) and not insecure:
        raise UsageError(
            f"cannot listen on {address}: everybody who reaches a port could use the agent",
            remedy=f"Listen on unix:{AGENT_SOCKET}; controllers reach it through ssh. --insecure"
            " listens on the port nevertheless.",
        )
    host = "127.0.0.1" if address.host == "localhost" else address.host
    try:
        ip_address(host)
    except ValueError:
        raise UsageError(
            f"cannot listen on {address}: invalid address {host!r}",
            remedy="Write an address of this host, such as 127.0.0.1.",
        ) from None
    return replace(address, host=host)


def group_number(name: str) -> int:
    """The number of a group of this host. UsageError if there is none."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(
            f"group = {name!r}: no such group here", remedy=f"Make it: groupadd --system {name}"
        ) from None


def others_can_write(found: os.stat_result) -> bool:
    """Whether its group, or everybody, may write to a folder."""
    return bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def prepare_folder(folder: Path, group: int | None) -> None:
    """Make the folder of a socket, which only its user and `group` can enter. An existing one that
    others can pass through stays so. UsageError if others can write to it, or it is another user's:
    they could replace the socket."""
    mode = _OWNER if group is None else _OWNER_AND_GROUP
    try:
        folder.mkdir(mode=_OWNER, exist_ok=True)
        found = folder.stat()
        if found.st_uid not in {0, os.geteuid()}:
            raise UsageError(
                f"{folder}: this folder belongs to the user with number {found.st_uid}, who can"
                " replace a socket in it",
                remedy=f"Listen in a folder of your own, such as {AGENT_SOCKET.parent}.",
            )
        if others_can_write(found):
            raise UsageError(
                f"{folder}: others can write to this folder, and replace a socket in it",
                remedy=f"Listen in a folder that only you can write to, such as"
                f" {AGENT_SOCKET.parent}, or: chmod go-w {folder}",
            )
        is_closed = not found.st_mode & stat.S_IRWXO
        if is_closed and (stat.S_IMODE(found.st_mode) != mode or group not in {None, found.st_gid}):
            os.chown(folder, -1, -1 if group is None else group)
            folder.chmod(mode)
    except OSError as error:
        raise UsageError(
            f"cannot listen in {folder}: {error.strerror}",
            remedy="An agent of an ordinary user needs a folder of that user: --listen unix:PATH",
        ) from None


@dataclass(frozen=True, slots=True)
class Clients:
    """The networks that may connect by TCP (None: all), and the certificate names that may connect
    by TLS."""

    networks: tuple[IPv4Network | IPv6Network, ...] | None = None
    names: frozenset[str] = frozenset()

    def admits(self, address: Address) -> bool:
        """True if a controller at this address may connect."""
        return self.networks is None or any(address in network for network in self.networks)

    def admits_to_tls(self, address: Address) -> bool:
        """True if a controller at this address may present a certificate: no networks are listed,
        or one contains it."""
        return not self.networks or self.admits(address)


class ClientsFile(Reread[Clients]):
    """The current clients.txt at `path`. Without a file everybody is admitted. Each port with TLS
    asks in a thread of its own."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(
            path, lambda: Clients() if path is None else _read_clients(path), what="clients"
        )


def _read_clients(path: Path) -> Clients:
    return parse_clients(texts.read(path), str(path))


def parse_clients(text: str, name: str) -> Clients:
    """One address, network or name a line; `#` starts a comment. UsageError names a line of the
    file `name` without a valid one."""
    networks, names = [], set()
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        if _NAME.fullmatch(entry) and not _HEXADECIMAL.fullmatch(entry):
            names.add(entry)
            continue
        try:
            networks.append(ip_network(entry))
        except ValueError as error:
            raise UsageError(f"{name}:{number}: {error}") from None
    return Clients(tuple(networks), frozenset(names))
