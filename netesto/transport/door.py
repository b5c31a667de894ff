"""The way into an agent by a Unix socket: who comes in is known to the server.

gRPC does not tell by which of its connections a call came, but for the name of the socket at the
other end, and whoever connects has none. Here each connection is accepted, and joined to gRPC's own
socket by one of ours, whose name is the user and the process that the kernel vouches for
(`caller`). A thread of its own does that: pings get through however busy the agent is.
"""

import asyncio
import logging
import os
import re
import secrets
import socket
import stat
import struct
import threading
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import unquote

from netesto.errors import AgentError, UsageError
from netesto.transport.addresses import UnixAddress
from netesto.transport.passage import join

log = logging.getLogger(__name__)

# struct ucred of <sys/socket.h>: process, user, group.
_CREDENTIALS = struct.Struct("3i")

# Abstract, so that it takes no file and no room in a path. Nobody else can connect to gRPC's own
# socket; the number keeps others from taking the name first.
_NAME = "\0netesto {number} uid {user} pid {process}"
_CALLER = re.compile(r"unix-abstract:.*?netesto [0-9a-f]+ (uid \d+ pid \d+)")

_BACKLOG = 1024

# When no descriptor is free. gRPC ends connections that say nothing, and frees theirs.
_PAUSE_S = 0.5

# For what was said last to those who are connected, when the server has ended.
_LAST_WORDS_S = 1.0


def caller(peer: str) -> str:
    """Who is at the other end of a door, by gRPC's name of it; "" if it has come another way."""
    found = _CALLER.fullmatch(unquote(peer))
    return found[1] if found is not None else ""


class Door:
    """Lets our user, and `group`, in at `address`, to gRPC's socket at `inner`. UsageError if the
    address cannot be used."""

    def __init__(
        self, address: UnixAddress, inner: UnixAddress, *, group: int | None = None
    ) -> None:
        self.address = address
        self._inner = str(inner.path)
        self._socket = _listening(address, group)
        self._thread = threading.Thread(target=self._run, name=str(address), daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._begun: Future[asyncio.AbstractEventLoop] = Future()
        self._closing = asyncio.Event()
        self._end: Future[None] = Future()

    async def start(self) -> None:
        """Begin to let in."""
        self._thread.start()
        await asyncio.wrap_future(self._begun)

    async def ended(self) -> None:
        """AgentError when the door has closed by itself."""
        try:
            await asyncio.shield(asyncio.wrap_future(self._end))
        except Exception as error:  # whatever ended its loop
            raise AgentError(f"{self.address}: {type(error).__name__}: {error}") from error

    async def stop(self) -> None:
        """Let nobody in any more, and end all connections; the server has done so before."""
        if self._begun.done():
            self._begun.result().call_soon_threadsafe(self._closing.set)
            await asyncio.wait({asyncio.ensure_future(asyncio.wrap_future(self._end))})
        self._socket.close()
        self.address.path.unlink(missing_ok=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - `ended` raises it
            self._end.set_exception(error)
        else:
            self._end.set_result(None)

    async def _serve(self) -> None:
        self._begun.set_result(asyncio.get_running_loop())
        accepting = asyncio.create_task(self._accept())
        closing = asyncio.create_task(self._closing.wait())
        await asyncio.wait({accepting, closing}, return_when=asyncio.FIRST_COMPLETED)
        if accepting.done():
            accepting.result()
        accepting.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_LAST_WORDS_S)

    async def _accept(self) -> None:
        # asyncio's own server logs a traceback for each connection that has to wait.
        while True:
            try:
                came, _ = await asyncio.get_running_loop().sock_accept(self._socket)
            except OSError as error:
                log.warning("cannot accept a connection", extra={"reason": error.strerror})
                await asyncio.sleep(_PAUSE_S)
                continue
            task = asyncio.create_task(self._carry(came))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _carry(self, came: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=came)
        raw = came.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(raw)
        name = _NAME.format(number=secrets.token_hex(8), user=user, process=process)
        try:
            with socket.socket(socket.AF_UNIX) as ours:
                ours.setblocking(False)
                ours.bind(name)
                await asyncio.get_running_loop().sock_connect(ours, self._inner)
                await join((reader, writer), await asyncio.open_unix_connection(sock=ours))
        except OSError:
            # Either end is gone.
            return
        finally:
            writer.close()


def _listening(address: UnixAddress, group: int | None) -> socket.socket:
    remove_dead_socket(address.path)
    listener = socket.socket(socket.AF_UNIX)
    # The socket is nobody else's from the start, not only after chmod.
    mask = os.umask(0o177)
    try:
        listener.bind(str(address.path))
        if group is not None:
            os.chown(address.path, -1, group)
        address.path.chmod(0o600 if group is None else 0o660)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {address}: {error.strerror}") from None
    finally:
        os.umask(mask)
    return listener


def remove_dead_socket(path: Path) -> None:
    """Remove the socket of an agent that is gone. UsageError if it is in use, or no socket."""
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise UsageError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        else:
            raise UsageError(f"{path}: another agent listens there")
