"""Identifies the peer of a connection, as far as this machine can know.

gRPC identifies the connection of a call only by the name of the peer's socket, and clients of a
Unix socket have no name. So each connection from outside is joined to gRPC's own socket by one of
ours, which has a name.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping, MutableMapping
from urllib.parse import unquote

from netesto.transport.addresses import UnixAddress
from netesto.transport.passage import Stream, join

# A call may still be executed, and logged, after its connection has ended.
_REMEMBERED_S = 60.0


async def join_as(
    caller: str, stream: Stream, inner: UnixAddress, callers: MutableMapping[str, str]
) -> None:
    """Join the connection of `caller` to gRPC's own socket, and enter it in `callers`, until either
    end closes. OSError of either end is raised."""
    loop = asyncio.get_running_loop()
    # Abstract, so that it needs no file and no short path. Nobody else can connect to gRPC's own
    # socket; the number prevents others from taking the name first.
    name = f"netesto-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as ours:
        ours.setblocking(False)
        ours.bind(f"\0{name}")
        callers[name] = caller
        try:
            await loop.sock_connect(ours, str(inner.path))
            await join(stream, await asyncio.open_unix_connection(sock=ours))
        finally:
            loop.call_later(_REMEMBERED_S, callers.pop, name)


def who(peer: str, callers: Mapping[str, str]) -> str:
    """A description by gRPC's name of a peer: its address, or the entry in `callers`.

    gRPC's own Unix socket is for its user alone.
    """
    kind, _, rest = unquote(peer).partition(":")
    if not kind.startswith("unix"):
        return rest
    return callers.get(rest, "") or f"uid {os.getuid()}"
