"""The controller's end of TLS: a local Unix socket that leads to the agent's port.

gRPC neither reports why a certificate was refused nor can require TLS 1.3; Python's ssl does both.
The first connection is made when the tunnel is opened, so that errors come with their causes.
"""

import asyncio
import contextlib
import os
import ssl
from pathlib import Path

from netesto.errors import AgentError, UsageError
from netesto.model import TlsFiles
from netesto.system import owned
from netesto.transport import tls
from netesto.transport.addresses import TlsAddress, UnixAddress
from netesto.transport.passage import Stream, join

_SOCKET = "agent"

_FIRST_BYTES = 65_536

_OURS = "Use a certificate of the CA that the agent trusts, made for clients; see docs/hosts.md."

# The agent's reply to our certificate: reasons of OpenSSL for the alerts of RFC 8446.
_ALERTS = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "TLSV1_ALERT_UNKNOWN_CA": "it is not from the CA of its agent.toml",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is not valid",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it may not be used by clients (extended key usage)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it is not accepted",
}


class TlsTunnel:
    """A tunnel to the agent of `host` at `address`, for one connection after another."""

    def __init__(self, address: TlsAddress, files: TlsFiles, *, host: str) -> None:
        self.address = address
        self.host = host
        self._files = files
        self._stack = contextlib.AsyncExitStack()
        self._folder = Path()
        self._timeout_s = 0.0
        # An established connection, and the first bytes received on it.
        self._ready: tuple[Stream, bytes] | None = None
        self._failed: AgentError | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def local(self) -> UnixAddress:
        """The local socket that leads to the agent's, once the tunnel is open."""
        return UnixAddress(self._folder / _SOCKET)

    async def open(self, *, timeout: float) -> None:
        """Returns when connections to `local` arrive at the agent. AgentError says why they do not,
        at the latest after `timeout` seconds; UsageError which of our files is wrong."""
        self._timeout_s = timeout
        self._ready = await self._connect()
        self._failed = None
        self._folder = self._stack.enter_context(owned.folder_for_sockets())
        server = await asyncio.start_unix_server(self._accepted, str(self.local.path))
        self._stack.callback(server.close)

    async def close(self) -> None:
        """End all connections and remove the socket."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ready is not None:
            (_, writer), _ = self._ready
            writer.close()
            self._ready = None
        await self._stack.aclose()

    def last_words(self) -> str:
        """Why the last connection failed; "" if it did not."""
        return "" if self._failed is None else self._failed.message

    async def unreachable(self) -> AgentError:
        """Why nothing responds behind an open tunnel."""
        return self._failed or self._failure("the agent ended the connection")

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs, first = self._ready or await self._connect()
            self._ready = None
            writer.write(first)
            await join((reader, writer), theirs)
        except (AgentError, UsageError) as error:
            self._failed = AgentError(error.message, remedy=error.remedy)
        except OSError as error:
            self._failed = self._failure(*self._cause(error))
        finally:
            writer.close()

    async def _connect(self) -> tuple[Stream, bytes]:
        """A connection on which the agent has sent data: it has accepted our certificate."""
        context = tls.client_context(self._files)
        try:
            async with asyncio.timeout(self._timeout_s):
                stream: Stream = await asyncio.open_connection(
                    self.address.host, self.address.port, ssl=context
                )
                first = await _first_bytes(stream)
        except TimeoutError:
            raise self._failure(f"no answer within {self._timeout_s:g} s") from None
        except OSError as error:
            raise self._failure(*self._cause(error)) from None
        if not first:
            certificate = self._files.certificate
            raise self._failure(
                f"it ends the connection, as for a certificate with a name that it does not know:"
                f" {certificate}",
                "Write a name of the certificate into the agent's clients.txt: openssl x509 -in"
                f" {certificate} -noout -subject -ext subjectAltName",
            )
        return stream, first

    def _cause(self, error: OSError) -> tuple[str, str]:
        """The meaning of an error, and the remedy."""
        name = self.address.host
        match error:
            case ssl.SSLCertVerificationError():
                cause, remedy = tls.explained(error)
                if error.verify_code in tls.UNKNOWN_ISSUER:
                    cause = f"is not from the CA in {self._files.ca}"
                    remedy = "Write the CA of the agent's certificate into `ca` of the hosts file."
                elif error.verify_code in tls.OTHER_NAME:
                    cause = f"is not for {name}"
                    remedy = (
                        "Connect by a name of the certificate, or issue one with this name"
                        " (subject alternative name)."
                    )
                return f"its certificate {cause}", remedy
            case ConnectionResetError() | ConnectionAbortedError() | ssl.SSLEOFError():
                return "it ends the connection before TLS begins", (
                    "Is our address in the agent's clients.txt? Its log has the reason."
                )
            case ssl.SSLError(reason=reason) if reason in _ALERTS:
                refused = f"it refuses our certificate {self._files.certificate}"
                return f"{refused}: {_ALERTS[reason]}", _OURS
            case ssl.SSLError(reason="TLSV1_ALERT_PROTOCOL_VERSION" | "UNSUPPORTED_PROTOCOL"):
                return "it has no TLS 1.3", "Something else may respond there, or on the path."
            case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
                return "no TLS there", f'Does the agent listen on "{self.address}"?'
            case ssl.SSLError():
                return f"TLS fails: {error.reason or error}", "The agent's log has its reason."
            case _:
                # asyncio gives the address instead of the reason.
                number = error.errno or 0
                cause = os.strerror(number) if number > 0 else error.strerror or str(error)
                return cause, (
                    f'Is it running there? listen = ["tls://0.0.0.0:{self.address.port}"]'
                )

    def _failure(self, cause: str, remedy: str = "") -> AgentError:
        return AgentError(
            f"agent unreachable at {self.address}: {cause}", host=self.host, remedy=remedy
        )


async def _first_bytes(stream: Stream) -> bytes:
    """The first data of the agent; b"" if it closes the connection. In TLS 1.3 a server refuses a
    client's certificate after the handshake."""
    reader, writer = stream
    first = b""
    try:
        first = await reader.read(_FIRST_BYTES)
    except ConnectionResetError:
        return b""
    finally:
        if not first:
            writer.close()
    return first
