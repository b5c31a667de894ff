"""TLS 1.3 with certificates of the user's own PKI, for both ends: contexts, and errors with causes.

A certificate, its key and a CA are files in PEM form, which may be replaced at any time. Both ends
present a certificate; the client compares the server's with the name that it connects to.
"""

import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from netesto.errors import UsageError
from netesto.model import TlsFiles

# X509_V_ERR_… of <openssl/x509_vfy.h>.
_NOT_YET_VALID, _EXPIRED, _WRONG_PURPOSE = 9, 10, 26
UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21, 33})
OTHER_NAME = frozenset({62, 64})


def files_of(table: object, folder: Path) -> TlsFiles:
    """The files that a table `tls` of a configuration in `folder` names. UsageError says what is
    wrong with the table."""
    keys = [field.name for field in fields(TlsFiles)]
    if (
        not isinstance(table, dict)
        or set(table) != set(keys)
        or not all(isinstance(path, str) and path for path in table.values())
    ):
        raise UsageError(
            f"tls: not a table of the paths of {', '.join(keys)}",
            remedy='Write: tls = {certificate = "tls.crt", key = "tls.key", ca = "ca.crt"}',
        )
    return TlsFiles(**{key: folder.absolute() / Path(table[key]).expanduser() for key in keys})


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """For an agent, which requires a certificate of `ca` from clients. UsageError names the file
    that is wrong."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, files)
    context.verify_mode = ssl.CERT_REQUIRED
    # A resumed session would not present the certificate again.
    context.num_tickets = 0
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """For a controller, which compares the agent's certificate with the name that it connects to.
    UsageError names the file that is wrong."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, files)


def signature(files: TlsFiles) -> tuple[tuple[int, int, int], ...]:
    """A value that changes when a file is replaced. OSError if one is missing."""
    states = [path.stat() for path in (files.certificate, files.key, files.ca)]
    return tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)


def names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The names in a peer's certificate, as `SSLSocket.getpeercert` has them: subject alternative
    names (DNS, URI, email), and only without any the common name (RFC 6125, section 6.4.4)."""
    alternatives = certificate.get("subjectAltName", ())
    found = {value for kind, value in alternatives if kind in {"DNS", "URI", "email"}}
    if not alternatives:
        subject = [pair for part in certificate.get("subject", ()) for pair in part]
        found = {value for kind, value in subject if kind == "commonName"}
    return frozenset(found)


def _context(protocol: int, files: TlsFiles) -> ssl.SSLContext:
    for what in ("certificate", "key", "ca"):
        _check_readable(what, getattr(files, what))
    _check_private(files.key)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    _load_own(context, files)
    try:
        context.load_verify_locations(cafile=files.ca)
    except ssl.SSLError:
        raise _wrong("ca", files.ca, "no certificate in PEM form") from None
    _check_valid(protocol, files)
    return context


def _wrong(what: str, path: Path, cause: str, remedy: str = "") -> UsageError:
    return UsageError(
        f"tls: {what} {path}: {cause}", remedy=remedy or f"Correct `{what}` of `tls`, or the file."
    )


def _check_readable(what: str, path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        cause = error.strerror or str(error)
        raise _wrong(what, path, f"cannot be read: {cause}") from None


def _check_private(key: Path) -> None:
    mode = key.stat().st_mode
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        others = "everybody on this machine" if mode & stat.S_IRWXO else "its group"
        raise _wrong("key", key, f"{others} can read or write it", f"chmod 600 {key}")


def _load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    def no_password() -> str:
        raise _wrong(
            "key",
            files.key,
            "encrypted; nobody can type its password",
            f"Keep it unencrypted, for its owner alone: openssl pkey -in {files.key}",
        )

    try:
        context.load_cert_chain(files.certificate, files.key, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _wrong("key", files.key, f"not that of {files.certificate}") from None
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files.certificate)
        except ssl.SSLError:
            raise _wrong("certificate", files.certificate, "not in PEM form") from None
        raise _wrong("key", files.key, "no private key in PEM form") from None


def _check_valid(protocol: int, files: TlsFiles) -> None:
    """UsageError if our certificate has expired, which otherwise only peers would notice: verify it
    locally, with itself as the only trusted one."""
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    _load_own(server, files)
    _load_own(client, files)
    judge = client if protocol == ssl.PROTOCOL_TLS_SERVER else server
    judge.verify_mode = ssl.CERT_REQUIRED
    judge.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    judge.load_verify_locations(cafile=files.certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(2):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                if error.verify_code in {_EXPIRED, _NOT_YET_VALID}:
                    cause, remedy = explained(error)
                    raise _wrong("certificate", files.certificate, cause, remedy) from None
                return
            except ssl.SSLError:
                return


def explained(error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    """The problem of a peer's certificate or of ours, and the remedy."""
    code = error.verify_code
    if code == _EXPIRED:
        return "has expired", "Renew it; no restart is needed."
    if code == _NOT_YET_VALID:
        return "is not valid yet", "Compare the clocks of both machines."
    if code in UNKNOWN_ISSUER:
        return "is not from that CA", ""
    if code == _WRONG_PURPOSE:
        return "may not be used for this end", (
            "Agents need one for servers, controllers one for clients (extended key usage)."
        )
    return f"is refused: {error.verify_message}", "Issue another one; `openssl verify` checks it."
