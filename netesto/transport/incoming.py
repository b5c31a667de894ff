"""Listens for connections, and accepts them one after the other."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

from netesto.errors import UsageError

log = logging.getLogger(__name__)

# The delay when no descriptor is free; silent connections will soon release some.
_PAUSE_S = 0.5


@contextlib.contextmanager
def listening(family: int, address: object, backlog: int) -> Iterator[socket.socket]:
    """A socket that the body binds, and that then listens. UsageError if `address` cannot be
    used."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        yield listener
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {address}: {error.strerror}") from None


async def accepted(listener: socket.socket) -> AsyncIterator[tuple[socket.socket, Any]]:
    """Each connection, and the address of its other end."""
    # asyncio's own server logs a traceback for each connection that has to wait.
    while True:
        try:
            connection = await asyncio.get_running_loop().sock_accept(listener)
        except OSError as error:
            log.warning("cannot accept a connection", extra={"reason": error.strerror})
            await asyncio.sleep(_PAUSE_S)
            continue
        yield connection
