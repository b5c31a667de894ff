"""The agent's end of TLS: admits controllers, and forwards their data to the agent's own socket.

Without a certificate of the right CA and an admitted name, no byte reaches gRPC. Replaced files are
read for the next connection.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, MutableMapping
from ipaddress import IPv6Address, ip_address
from typing import Any, cast

from netesto.errors import UsageError
from netesto.model import Address, TlsFiles
from netesto.transport import tls
from netesto.transport.addresses import TlsAddress, UnixAddress
from netesto.transport.door import Door, listening

log = logging.getLogger(__name__)

_HANDSHAKE_S = 5.0

# Controllers are few. Connections that have not yet presented a certificate have a separate limit,
# and the oldest is closed first: opening many of them keeps nobody out.
_CONNECTIONS_MAX = 64
_STRANGERS_MAX = 64

_RECORD_BYTES = 64 * 1024


class TlsServer(Door):
    """Admits at `address` controllers at addresses that `admits` accepts, with one of the current
    `names` in their certificates. UsageError if the files or the address cannot be used."""

    address: TlsAddress

    def __init__(
        self,
        address: TlsAddress,
        files: TlsFiles,
        inner: UnixAddress,
        callers: MutableMapping[str, str],
        *,
        admits: Callable[[Address], bool],
        names: Callable[[], frozenset[str]],
    ) -> None:
        self._files = files
        self._admits = admits
        self._names = names
        self._context = tls.server_context(files)
        self._signature = tls.signature(files)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with listening(family, address) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address.host, address.port))
        there = TlsAddress(address.host, listener.getsockname()[1])
        super().__init__(listener, there, inner, callers)
        self._strangers: dict[asyncio.Task[None], None] = {}

    def _came(self, connection: socket.socket, peer: Any) -> None:
        address = _plain(ip_address(peer[0].partition("%")[0]))
        if not self._admits(address):
            connection.close()
            log.warning("refused", extra={"peer": str(address), "reason": "not in clients.txt"})
            return
        if len(self._strangers) >= _STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()
        stranger = self._add(self._carry(connection, address))
        self._strangers[stranger] = None
        stranger.add_done_callback(lambda task: self._strangers.pop(task, None))

    async def _carry(self, connection: socket.socket, address: Address) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        with contextlib.closing(writer), contextlib.suppress(OSError):
            end = _TlsEnd(reader, writer, self._current())
            if caller := await self._welcomed(end, address):
                self._strangers.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
                await self._join(caller, (end, end))

    async def _welcomed(self, end: "_TlsEnd", address: Address) -> str:
        """The admitted peer, in words; "" if it is refused."""
        try:
            async with asyncio.timeout(_HANDSHAKE_S):
                await end.handshake()
        except (OSError, TimeoutError) as error:
            log.warning("refused", extra={"peer": str(address), "reason": _reason(error)})
            return ""
        shown = end.names()
        who = {"peer": str(address), "names": " ".join(sorted(shown))}
        is_full = len(self._connections) - len(self._strangers) >= _CONNECTIONS_MAX
        if is_full or self._names().isdisjoint(shown):
            reason = "too many connections" if is_full else "not in clients.txt"
            log.warning("refused", extra=who | {"reason": reason})
            return ""
        log.info("controller connected", extra=who)
        return f"{who['names']} at {address}"

    def _current(self) -> ssl.SSLContext:
        """The context of the current files; if these are invalid, that of the previous ones."""
        try:
            signature = tls.signature(self._files)
            if signature != self._signature:
                self._context = tls.server_context(self._files)
                self._signature = signature
                log.info(
                    "TLS files read again", extra={"certificate": str(self._files.certificate)}
                )
        except (OSError, UsageError) as error:
            log.error("TLS files not read again", extra={"reason": str(error)})  # noqa: TRY400 - the reason says it all
        return self._context


class _TlsEnd:
    """A server's end of TLS over a connection. asyncio's own closes a connection whose handshake
    fails before the client gets the reason."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)

    async def handshake(self) -> None:
        """Do the handshake. SSLError if the client has no valid certificate."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            else:
                return
            finally:
                self._send()
            await self._receive()

    def names(self) -> frozenset[str]:
        """The names in the client's certificate."""
        return tls.names(self._tls.getpeercert() or {})

    async def read(self, most: int, /) -> bytes:
        while True:
            try:
                return self._tls.read(most)
            except ssl.SSLWantReadError:
                await self._receive()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""

    def write(self, content: bytes, /) -> None:
        self._tls.write(content)
        self._send()

    async def drain(self) -> None:
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        await self._writer.wait_closed()

    async def _receive(self) -> None:
        if content := await self._reader.read(_RECORD_BYTES):
            self._arrived.write(content)
        else:
            self._arrived.write_eof()

    def _send(self) -> None:
        if content := self._leaving.read():
            self._writer.write(content)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate {tls.explained(error)[0]}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS 1.3 with a certificate: {error.reason}"
    return "no TLS"


def _plain(address: Address) -> Address:
    """The IPv4 address in an IPv6 address that maps one."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
