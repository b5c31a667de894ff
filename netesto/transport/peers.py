"""Who is at the other end of a connection, as far as this machine can know."""

import os
from collections.abc import Mapping
from urllib.parse import unquote

from netesto.transport import door


def who(peer: str, callers: Mapping[str, str]) -> str:
    """In words, by gRPC's name of a peer: its address; the user and process that came by a door;
    one of `callers`, who come by TLS, by the socket that is connected for them.

    gRPC's own Unix socket is for its user alone.
    """
    kind, _, rest = unquote(peer).partition(":")
    if not kind.startswith("unix"):
        return rest
    return callers.get(rest, "") or door.caller(peer) or f"uid {os.getuid()}"
