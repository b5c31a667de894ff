"""TLS from end to end: an agent's server and tunnels of controllers, with certificates of a PKI."""

import asyncio
import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import DAY, NOW, Pki
from recording_service import INFO, RecordingService

from netesto.errors import AgentError, ConnectionLostError, UsageError
from netesto.model import TlsFiles
from netesto.system import process
from netesto.transport import tls
from netesto.transport.addresses import TlsAddress, UnixAddress
from netesto.transport.client import AgentClient, connect
from netesto.transport.gate import Gate
from netesto.transport.server import AgentServer
from netesto.transport.tlsserver import TlsServer
from netesto.transport.tlstunnel import TlsTunnel

CONTROLLER = "controller.example"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """Another CA."""
    return Pki(tmp_path_factory.mktemp("strangers"))


@pytest.fixture(scope="module")
def agent_files(pki: Pki) -> TlsFiles:
    return pki.issue("agent", "127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def our_files(pki: Pki) -> TlsFiles:
    return pki.issue("controller", CONTROLLER)


@contextlib.asynccontextmanager
async def serving(folder: Path, files: TlsFiles, **changes: object) -> AsyncIterator[TlsAddress]:
    """An agent on a TLS port of loopback."""
    local = UnixAddress(folder / "agent.sock")
    server = AgentServer(Gate(RecordingService()))
    server.listen(local)
    await server.start()
    settings = {"admits": lambda _: True, "names": lambda: frozenset({CONTROLLER})} | changes
    front = TlsServer(TlsAddress("127.0.0.1", 0), files, local, {}, **settings)  # type: ignore[arg-type]
    await front.start()
    try:
        yield front.address
    finally:
        await front.stop()
        await server.stop()


async def ask(address: TlsAddress, files: TlsFiles) -> object:
    """The agent's reply; AgentError with the reason if there is none."""
    tunnel = TlsTunnel(address, files, host="h1")
    await tunnel.open(timeout=5)
    try:
        async with AgentClient(tunnel.local, host="h1") as agent:
            return await agent.info()
    finally:
        await tunnel.close()


async def why_not(address: TlsAddress, files: TlsFiles) -> tuple[str, str]:
    """The cause and the remedy of a failure, without the address."""
    with pytest.raises(AgentError) as caught:
        await ask(address, files)
    prefix = f"h1: agent unreachable at {address}: "
    return caught.value.message.removeprefix(prefix), caught.value.remedy


# ---- who gets in -----------------------------------------------------------------------------


async def test_a_controller_with_a_certificate_of_the_ca_and_a_known_name_gets_in(
    tmp_path, agent_files, our_files
):
    async with serving(tmp_path, agent_files) as address:
        assert await ask(address, our_files) == INFO


async def test_a_common_name_counts_where_there_are_no_other_names(tmp_path, pki, agent_files):
    files = pki.issue("common", common_name=CONTROLLER)
    async with serving(tmp_path, agent_files) as address:
        assert await ask(address, files) == INFO


async def test_a_common_name_does_not_count_beside_other_names(tmp_path, pki, agent_files):
    files = pki.issue("both", "other.example", common_name=CONTROLLER)
    async with serving(tmp_path, agent_files) as address:
        cause, _ = await why_not(address, files)
    assert cause == (
        "it ends the connection, as for a certificate with a name that it does not know:"
        f" {files.certificate}"
    )


async def test_a_name_that_is_not_let_in_is_told_where_to_write_it(tmp_path, pki, agent_files):
    files = pki.issue("other", "other.example")
    async with serving(tmp_path, agent_files) as address:
        _, remedy = await why_not(address, files)
    assert remedy == (
        "Write a name of the certificate into the agent's clients.txt:"
        f" openssl x509 -in {files.certificate} -noout -subject -ext subjectAltName"
    )


async def test_an_address_that_is_not_let_in_gets_no_handshake(tmp_path, agent_files, our_files):
    async with serving(tmp_path, agent_files, admits=lambda _: False) as address:
        cause, _ = await why_not(address, our_files)
    assert cause == "it ends the connection before TLS begins"


async def test_a_certificate_of_another_ca_is_refused(tmp_path, pki, strangers, agent_files):
    files = replace(strangers.issue("controller", CONTROLLER), ca=pki.ca)
    async with serving(tmp_path, agent_files) as address:
        cause, _ = await why_not(address, files)
    assert cause == (
        f"it refuses our certificate {files.certificate}: it is not from the CA of its agent.toml"
    )


async def test_a_client_without_a_certificate_gets_nothing(tmp_path, pki, agent_files):
    context = ssl.create_default_context(cafile=pki.ca)
    async with serving(tmp_path, agent_files) as address:
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
        with contextlib.closing(writer), pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            await reader.read(1)


async def test_tls_1_2_is_refused(tmp_path, agent_files, our_files):
    async with serving(tmp_path, agent_files) as address:
        cert, key = str(our_files.certificate), str(our_files.key)
        connect = f"{address.host}:{address.port}"
        words = ["openssl", "s_client", "-connect", connect, "-cert", cert, "-key", key]
        old = await process.run_async([*words, "-tls1_2"], timeout=10, check=False)
        new = await process.run_async([*words, "-tls1_3"], timeout=10, check=False)
    assert "alert protocol version" in old.stderr
    assert "New, TLSv1.3," in new.stdout


# ---- the agent's certificate -----------------------------------------------------------------


async def test_an_agent_with_an_expired_certificate_is_told(pki, our_files):
    old = pki.issue("expired", "127.0.0.1", not_after=NOW - DAY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(old.certificate, old.key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with server:
        address = TlsAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        assert await why_not(address, our_files) == (
            "its certificate has expired",
            "Renew it; no restart is needed.",
        )


async def test_an_agent_of_another_ca_is_told(tmp_path, strangers, agent_files, our_files):
    files = replace(our_files, ca=strangers.ca)
    async with serving(tmp_path, agent_files) as address:
        assert await why_not(address, files) == (
            f"its certificate is not from the CA in {strangers.ca}",
            "Write the CA of the agent's certificate into `ca` of the hosts file.",
        )


async def test_an_agent_with_another_name_is_told(tmp_path, pki, our_files):
    async with serving(tmp_path, pki.issue("elsewhere", "h2.example")) as address:
        cause, remedy = await why_not(address, our_files)
    assert cause == "its certificate is not for 127.0.0.1"
    assert remedy.startswith("Connect by a name of the certificate, or issue one with this name")


async def test_a_port_without_tls_is_told(our_files):
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    async with server:
        address = TlsAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        cause, _ = await why_not(address, our_files)
    assert cause == "no TLS there"


async def test_a_port_that_never_answers_is_told(our_files):
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        address = TlsAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        tunnel = TlsTunnel(address, our_files, host="h1")
        with pytest.raises(AgentError, match=r"no answer within 0\.2 s$"):
            await tunnel.open(timeout=0.2)


async def test_a_tunnel_ends_without_a_word(tmp_path, agent_files, our_files):
    said: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    async with serving(tmp_path, agent_files) as address:
        await ask(address, our_files)
    assert said == []


async def test_a_tunnel_connects_again_when_its_connection_was_cut(
    tmp_path, agent_files, our_files
):
    async with serving(tmp_path, agent_files) as address:
        tunnel = TlsTunnel(address, our_files, host="h1")
        await tunnel.open(timeout=5)
        for _ in range(2):
            async with AgentClient(tunnel.local, host="h1") as agent:
                assert await agent.info() == INFO
        await tunnel.close()


async def test_a_tunnel_that_is_opened_again_forgets_why_an_earlier_connection_failed(
    tmp_path, agent_files, our_files
):
    known = {CONTROLLER}
    async with serving(tmp_path, agent_files, names=lambda: frozenset(known)) as address:
        tunnel = TlsTunnel(address, our_files, host="h1")
        await tunnel.open(timeout=5)
        async with AgentClient(tunnel.local, host="h1") as agent:
            await agent.info()
        known.clear()
        async with AgentClient(tunnel.local, host="h1") as agent:
            with pytest.raises(AgentError):
                await agent.info()
        refused = tunnel.last_words()
        known.add(CONTROLLER)
        await tunnel.close()
        await tunnel.open(timeout=5)
        # On a busy machine its end may come while TLS begins here.
        assert ("it ends the connection" in refused, tunnel.last_words()) == (True, "")
        await tunnel.close()


async def test_a_port_on_which_nobody_listens_is_told(our_files):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = TlsAddress("127.0.0.1", taken.getsockname()[1])
        assert await why_not(address, our_files) == (
            "Connection refused",
            f'Is it running there? listen = ["tls://0.0.0.0:{address.port}"]',
        )


# ---- files -----------------------------------------------------------------------------------


async def test_a_certificate_that_was_replaced_is_shown_to_the_next_controller(
    tmp_path, pki, our_files
):
    async with serving(tmp_path, pki.issue("renewed", "h2.example")) as address:
        cause, _ = await why_not(address, our_files)
        pki.issue("renewed", "127.0.0.1")
        assert (cause, await ask(address, our_files)) == (
            "its certificate is not for 127.0.0.1",
            INFO,
        )


async def test_an_agent_keeps_what_it_has_while_its_new_files_are_wrong(tmp_path, pki, our_files):
    async with serving(tmp_path, pki.issue("aging", "127.0.0.1")) as address:
        pki.issue("aging", "127.0.0.1", not_after=NOW - DAY)
        assert await ask(address, our_files) == INFO


async def test_a_connection_outlives_the_certificate_that_it_was_made_with(
    tmp_path, pki, our_files
):
    async with serving(tmp_path, pki.issue("lasting", "127.0.0.1")) as address:
        tunnel = TlsTunnel(address, our_files, host="h1")
        await tunnel.open(timeout=5)
        async with AgentClient(tunnel.local, host="h1") as agent:
            await agent.info()
            pki.issue("lasting", "h9.example")
            assert await agent.info() == INFO
        await tunnel.close()


async def test_a_hold_that_is_cut_says_that_our_certificate_has_expired_meanwhile(
    tmp_path, pki, agent_files
):
    files = pki.issue("our own", CONTROLLER)
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving(tmp_path, agent_files))
        agent = await connect(str(address), host="h1", timeout=5, patience_s=0.3, tls=files)
        async with agent, contextlib.aclosing(agent.hold("ann", "r")) as events:
            await anext(events)
            pki.issue("our own", CONTROLLER, not_after=NOW - DAY)
            await stack.aclose()
            with pytest.raises(ConnectionLostError, match=f"{files.certificate}: has expired"):
                await anext(events)


def refused(files: TlsFiles) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        tls.client_context(files)
    return caught.value.message, caught.value.remedy


def test_an_expired_certificate_of_ours_is_named(pki):
    files = pki.issue("old", CONTROLLER, not_after=NOW - DAY)
    for context in (tls.client_context, tls.server_context):
        with pytest.raises(UsageError) as caught:
            context(files)
        assert str(caught.value) == (
            f"tls: certificate {files.certificate}: has expired\nRenew it; no restart is needed."
        )


def test_a_certificate_that_is_not_valid_yet_is_named(pki):
    files = pki.issue("young", CONTROLLER, not_before=NOW + DAY, not_after=NOW + 2 * DAY)
    assert refused(files) == (
        f"tls: certificate {files.certificate}: is not valid yet",
        "Compare the clocks of both machines.",
    )


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o660])
def test_a_key_that_others_can_read_or_write_is_refused(pki, mode):
    files = pki.issue("open", CONTROLLER)
    files.key.chmod(mode)
    others = "its group" if mode == 0o660 else "everybody on this machine"
    assert refused(files) == (
        f"tls: key {files.key}: {others} can read or write it",
        f"chmod 600 {files.key}",
    )


def test_a_key_that_its_group_can_read_is_taken(pki):
    files = pki.issue("group", CONTROLLER)
    files.key.chmod(0o640)
    assert isinstance(tls.client_context(files), ssl.SSLContext)


@pytest.mark.parametrize("what", ["certificate", "key", "ca"])
def test_a_file_that_is_not_there_is_named(our_files, tmp_path, what):
    missing = tmp_path / "missing.pem"
    message, _ = refused(replace(our_files, **{what: missing}))
    assert message == f"tls: {what} {missing}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("certificate", "not in PEM form"),
        ("key", "no private key in PEM form"),
        ("ca", "no certificate in PEM form"),
    ],
)
def test_a_file_that_is_not_pem_is_named(our_files, tmp_path, what, cause):
    path = tmp_path / "noise.pem"
    path.write_bytes(b"\x00noise")
    path.chmod(0o600)
    message, _ = refused(replace(our_files, **{what: path}))
    assert message == f"tls: {what} {path}: {cause}"


def test_the_key_of_another_certificate_is_named(our_files, agent_files):
    message, _ = refused(replace(our_files, key=agent_files.key))
    assert message == f"tls: key {agent_files.key}: not that of {our_files.certificate}"


def test_an_encrypted_key_is_named(our_files, tmp_path):
    path = tmp_path / "encrypted.key"
    words = ["-in", str(our_files.key), "-aes256", "-passout", "pass:secret", "-out", str(path)]
    process.run(["openssl", "pkey", *words], timeout=10)
    path.chmod(0o600)
    message, _ = refused(replace(our_files, key=path))
    assert message == f"tls: key {path}: encrypted; nobody can type its password"


# ---- strangers -------------------------------------------------------------------------------


async def test_silent_connections_keep_no_controller_out(tmp_path, agent_files, our_files):
    async with serving(tmp_path, agent_files) as address, contextlib.AsyncExitStack() as stack:
        for _ in range(500):
            _, writer = await asyncio.open_connection(address.host, address.port)
            stack.callback(writer.close)
        assert await ask(address, our_files) == INFO


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(self.request.recv(4))


async def test_data_by_tls_pass_while_the_agent_is_busy(tmp_path, agent_files, our_files):
    inner = UnixAddress(tmp_path / "inner.sock")
    with socketserver.ThreadingUnixStreamServer(str(inner.path), Echo) as echo:
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        front = TlsServer(
            *(TlsAddress("127.0.0.1", 0), agent_files, inner, {}),
            admits=lambda _: True,
            names=lambda: frozenset({CONTROLLER}),
        )
        await front.start()
        context = tls.client_context(our_files)
        # All of this blocks the agent's loop.
        with (
            socket.create_connection(("127.0.0.1", front.address.port), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as ours,
        ):
            ours.sendall(b"ping")
            answer = ours.recv(4)
        await front.stop()
        echo.shutdown()
    assert answer == b"ping"
