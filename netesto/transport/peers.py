"""Who is at the other end of a connection, as far as this machine can know.

gRPC does not tell by which of its connections a call came, but for the name of the socket at the
other end, and whoever connects to a Unix socket has none. So each connection from outside is joined
to gRPC's own socket by one of ours, which has a name.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping, MutableMapping
from urllib.parse import unquote

from netesto.transport.addresses import UnixAddress
from netesto.transport.passage import Stream, join

# A call may still be carried out, and logged, when its connection has ended.
_REMEMBERED_S = 60.0


async def join_as(
    caller: str, stream: Stream, inner: UnixAddress, callers: MutableMapping[str, str]
) -> None:
    """Join the connection of `caller` to gRPC's own socket, and enter it in `callers`, until either
    end closes. OSError of either end is raised."""
    loop = asyncio.get_running_loop()
    # Abstract, so that it takes no file and no room in a path. Nobody else can connect to gRPC's
    # own socket; the number keeps others from taking the name first.
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
    """In words, by gRPC's name of a peer: its address, or which of `callers` it is.

    gRPC's own Unix socket is for its user alone.
    """
    kind, _, rest = unquote(peer).partition(":")
    if not kind.startswith("unix"):
        return rest
    return callers.get(rest, "") or f"uid {os.getuid()}"
