"""Where connections come in: the Unix sockets of an agent, and what they share with its TLS ports.

gRPC identifies the connection of a call only by the name of the peer's socket, and clients of a
Unix socket have no name. So each connection from outside is joined to gRPC's own socket by one of
ours, which has a name. A separate thread does that, so that pings pass however busy the agent is.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import stat
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, MutableMapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from netesto.errors import AgentError, UsageError
from netesto.transport.addresses import TlsAddress, UnixAddress
from netesto.transport.passage import Stream, join

log = logging.getLogger(__name__)

# struct ucred of <sys/socket.h>: process, user, group.
_CREDENTIALS = struct.Struct("3i")

_BACKLOG = 1024

# The delay when no descriptor is free; silent connections will soon release some.
_PAUSE_S = 0.5

# A call may still be executed, and logged, after its connection has ended.
_REMEMBERED_S = 60.0

# The time for last messages to connected peers, after the server has ended.
_LAST_WORDS_S = 1.0


class Door(ABC):
    """Accepts connections at `listener`, joins those that may come in to gRPC's own socket at
    `inner`, and enters who they are in `callers`."""

    def __init__(
        self,
        listener: socket.socket,
        address: UnixAddress | TlsAddress,
        inner: UnixAddress,
        callers: MutableMapping[str, str],
    ) -> None:
        self.address = address
        self._socket = listener
        self._inner = inner
        self._callers = callers
        self._thread = threading.Thread(target=self._run, name=str(address), daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._begun: Future[asyncio.AbstractEventLoop] = Future()
        self._closing = asyncio.Event()
        self._end: Future[None] = Future()

    @abstractmethod
    def _came(self, connection: socket.socket, peer: Any) -> None:
        """Take a connection of the peer at this address: `_add` what serves it, or close it."""

    async def start(self) -> None:
        """Begin to admit connections."""
        self._thread.start()
        await asyncio.wrap_future(self._begun)

    async def ended(self) -> None:
        """AgentError when the door has closed by itself."""
        try:
            await asyncio.shield(asyncio.wrap_future(self._end))
        except Exception as error:  # whatever ended its loop
            raise AgentError(f"{self.address}: {type(error).__name__}: {error}") from error

    async def stop(self) -> None:
        """Admit nobody, and end all connections; the server has ended before."""
        if self._begun.done():
            self._begun.result().call_soon_threadsafe(self._closing.set)
            await asyncio.wait({asyncio.ensure_future(asyncio.wrap_future(self._end))})
        self._socket.close()

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
                connection, peer = await asyncio.get_running_loop().sock_accept(self._socket)
            except OSError as error:
                log.warning("cannot accept a connection", extra={"reason": error.strerror})
                await asyncio.sleep(_PAUSE_S)
                continue
            self._came(connection, peer)

    def _add(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        return task

    async def _join(self, caller: str, stream: Stream) -> None:
        """Join the connection of `caller` to gRPC's own socket until either end closes. OSError of
        either end is raised."""
        loop = asyncio.get_running_loop()
        # Abstract, so that it needs no file and no short path. Nobody else can connect to gRPC's
        # own socket; the number prevents others from taking the name first.
        name = f"netesto-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX) as ours:
            ours.setblocking(False)
            ours.bind(f"\0{name}")
            self._callers[name] = caller
            try:
                await loop.sock_connect(ours, str(self._inner.path))
                await join(stream, await asyncio.open_unix_connection(sock=ours))
            finally:
                loop.call_later(_REMEMBERED_S, self._callers.pop, name)


class UnixDoor(Door):
    """Admits our user and `group` at `address`, with the user and process that the kernel reports.
    UsageError if the address cannot be used."""

    address: UnixAddress

    def __init__(
        self,
        address: UnixAddress,
        inner: UnixAddress,
        callers: MutableMapping[str, str],
        *,
        group: int | None = None,
    ) -> None:
        with (
            listening(socket.AF_UNIX, address) as listener,
            made_for(address.path, 0o600 if group is None else 0o660),
        ):
            listener.bind(str(address.path))
            if group is not None:
                os.chown(address.path, -1, group)
        super().__init__(listener, address, inner, callers)

    async def stop(self) -> None:
        await super().stop()
        self.address.path.unlink(missing_ok=True)

    def _came(self, connection: socket.socket, peer: Any) -> None:
        del peer
        self._add(self._carry(connection))

    async def _carry(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(raw)
        # Suppressed: either end is gone.
        with contextlib.closing(writer), contextlib.suppress(OSError):
            await self._join(f"uid {user} pid {process}", (reader, writer))


@contextlib.contextmanager
def listening(family: int, address: object) -> Iterator[socket.socket]:
    """A socket that the body binds, and that then listens. UsageError if `address` cannot be
    used."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        yield listener
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen on {address}: {error.strerror}") from None


@contextlib.contextmanager
def made_for(path: Path, mode: int = 0o600) -> Iterator[None]:
    """The body makes a socket at `path`, where an earlier agent may have left one. UsageError if it
    is in use, or not a socket."""
    _remove_dead_socket(path)
    # The socket is private from the start, not only after chmod.
    mask = os.umask(0o177)
    try:
        yield
        path.chmod(mode)
    finally:
        os.umask(mask)


def _remove_dead_socket(path: Path) -> None:
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
