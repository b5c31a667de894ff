"""Who may connect to an agent, which acts as root on its host.

A Unix socket is guarded by the file system: its mode is 0600, or 0660 with an admitted group, and
nobody else can replace it in its folder. Every user of a host can connect to its TCP ports,
loopback included: an agent listens on none.
"""

import grp
import os
import stat
from pathlib import Path

from netesto.errors import UsageError
from netesto.transport.addresses import AGENT_SOCKET, SshAddress, UnixAddress, parse

# Others may or may not pass through the folder of a socket, but can never write to it.
_OWNER, _OWNER_AND_GROUP = 0o700, 0o750


def listen_address(text: str) -> UnixAddress:
    """The address to listen on. UsageError if it is invalid, or an agent cannot listen there."""
    address = parse(text)
    if isinstance(address, SshAddress):
        raise UsageError(
            f"cannot listen on {address}: controllers reach an agent through ssh",
            remedy=f"Listen on unix:{AGENT_SOCKET}.",
        )
    return address


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
