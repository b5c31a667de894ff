"""The Unix sockets of an agent, which identify their callers to the server.

Each connection is accepted, and joined to gRPC's own socket with the user and process that the
kernel reports (peers.join_as). A separate thread does that, so that pings pass however busy the
agent is.
"""

import asyncio
import contextlib
import os
import socket
import stat
import struct
import threading
from collections.abc import Iterator, MutableMapping
from concurrent.futures import Future
from pathlib import Path

from netesto.errors import AgentError, UsageError
from netesto.transport import incoming, peers
from netesto.transport.addresses import UnixAddress

# struct ucred of <sys/socket.h>: process, user, group.
_CREDENTIALS = struct.Struct("3i")

_BACKLOG = 1024

# The time for last messages to connected peers, after the server has ended.
_LAST_WORDS_S = 1.0


class Door:
    """Admits our user and `group` at `address`, joins them to gRPC's socket at `inner`, and enters
    them in `callers`. UsageError if the address cannot be used."""

    def __init__(
        self,
        address: UnixAddress,
        inner: UnixAddress,
        callers: MutableMapping[str, str],
        *,
        group: int | None = None,
    ) -> None:
        self.address = address
        self._inner = inner
        self._callers = callers
        with (
            incoming.listening(socket.AF_UNIX, address, _BACKLOG) as self._socket,
            made_for(address.path, 0o600 if group is None else 0o660),
        ):
            self._socket.bind(str(address.path))
            if group is not None:
                os.chown(address.path, -1, group)
        self._thread = threading.Thread(target=self._run, name=str(address), daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._begun: Future[asyncio.AbstractEventLoop] = Future()
        self._closing = asyncio.Event()
        self._end: Future[None] = Future()

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
        async for came, _ in incoming.accepted(self._socket):
            task = asyncio.create_task(self._carry(came))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _carry(self, came: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=came)
        raw = came.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(raw)
        # Suppressed: either end is gone.
        with contextlib.closing(writer), contextlib.suppress(OSError):
            caller = f"uid {user} pid {process}"
            await peers.join_as(caller, (reader, writer), self._inner, self._callers)


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
