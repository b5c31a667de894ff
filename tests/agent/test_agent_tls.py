"""An agent that listens with TLS, and the controllers that it accepts."""

from contextlib import aclosing
from pathlib import Path

import pytest
from agent_daemons import Daemon, StartDaemon
from certificates import DAY, NOW, Pki

from netesto import cli
from netesto.errors import AgentError
from netesto.model import TlsFiles
from netesto.system import process
from netesto.transport.client import connect

CONTROLLER = "controller.example"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def files(pki: Pki) -> TlsFiles:
    return pki.issue("controller", CONTROLLER)


def table(files: TlsFiles) -> str:
    paths = f'certificate = "{files.certificate}", key = "{files.key}", ca = "{files.ca}"'
    return f"tls = {{{paths}}}\n"


def configuration(folder: Path, files: TlsFiles, clients: str = CONTROLLER) -> Path:
    (folder / "clients.txt").write_text(clients)
    path = folder / "agent.toml"
    path.write_text(f'clients = "{folder}/clients.txt"\n{table(files)}')
    return path


@pytest.fixture
def daemon(tmp_path: Path, pki: Pki, start_daemon: StartDaemon) -> Daemon:
    config = configuration(tmp_path, pki.issue("agent", "127.0.0.1"))
    words = ["--config", str(config), "--listen", "tls://127.0.0.1:0"]
    return start_daemon("h1", *words)


async def test_an_agent_is_held_by_tls(daemon: Daemon, files: TlsFiles):
    [address] = daemon.others
    async with (
        await connect(address, host="h1", timeout=10, tls=files) as agent,
        aclosing(agent.hold("the test", "run")) as events,
    ):
        assert (await anext(events)).kind == "held"
        assert (await agent.info()).holder == "the test"


async def test_the_log_says_who_came_and_who_was_refused(daemon: Daemon, files: TlsFiles, pki: Pki):
    [address] = daemon.others
    async with await connect(address, host="h1", timeout=10, tls=files) as agent:
        await agent.info()
    with pytest.raises(AgentError):
        await connect(address, host="h1", timeout=10, tls=pki.issue("other", "other.example"))
    lines = [line for line in daemon.log.read_text().splitlines() if "tlsserver" in line]
    assert [line.split(" netesto.transport.tlsserver ")[1] for line in lines] == [
        f"controller connected names={CONTROLLER} peer=127.0.0.1",
        "refused names=other.example peer=127.0.0.1 reason='not in clients.txt'",
    ]


async def test_a_name_that_was_taken_out_is_refused_without_a_restart(
    daemon: Daemon, files: TlsFiles, pki: Pki, tmp_path: Path
):
    [address] = daemon.others
    other = pki.issue("other", "other.example")
    (tmp_path / "clients.txt").write_text("other.example\n")
    async with await connect(address, host="h1", timeout=10, tls=other) as agent:
        await agent.info()
    with pytest.raises(AgentError, match="a name that it does not know"):
        await connect(address, host="h1", timeout=10, tls=files)


async def test_clients_that_are_wrong_change_nothing(
    daemon: Daemon, files: TlsFiles, tmp_path: Path
):
    [address] = daemon.others
    (tmp_path / "clients.txt").write_text("192.0.2.1/33\n")
    async with await connect(address, host="h1", timeout=10, tls=files) as agent:
        await agent.info()
    assert "clients not read again" in daemon.log.read_text()


async def test_the_log_says_for_whom_an_agent_acts(daemon: Daemon, files: TlsFiles):
    [address] = daemon.others
    async with (
        await connect(address, host="h1", timeout=10, tls=files) as agent,
        aclosing(agent.hold("the test", "run")) as events,
    ):
        await anext(events)
    held = [line for line in daemon.log.read_text().splitlines() if "'the test'" in line]
    assert f"by='{CONTROLLER} at 127.0.0.1'" in held[0]


async def test_no_socket_stays_of_a_controller_that_has_gone(daemon: Daemon, files: TlsFiles):
    [address] = daemon.others
    async with await connect(address, host="h1", timeout=10, tls=files) as agent:
        await agent.info()
    daemon.child.terminate()
    daemon.child.wait(20)
    assert not [path for path in daemon.socket.parent.iterdir() if path.is_socket()]


def test_hosts_are_checked_by_tls(daemon: Daemon, files: TlsFiles, tmp_path: Path):
    [address] = daemon.others
    hosts = tmp_path / "hosts.toml"
    hosts.write_text(f'{table(files)}[h1]\nagent = "{address}"\naddresses = ["127.0.0.1"]\n')
    assert cli.main(["hosts", "check", str(hosts)]) == 0


@pytest.mark.parametrize(
    ("clients", "expected"),
    [
        ("127.0.0.1", "clients.txt names no controller"),
        (CONTROLLER, "has expired"),
    ],
)
def test_an_agent_does_not_start_with_what_lets_nobody_or_everybody_in(
    tmp_path: Path, pki: Pki, clients: str, expected: str
):
    config = configuration(tmp_path, pki.issue("old", "127.0.0.1", not_after=NOW - DAY), clients)
    words = ["--config", str(config), "--listen", "tls://127.0.0.1:0", "--state", str(tmp_path)]
    ended = process.run(process.python("netesto.agent.daemon", *words), timeout=30, check=False)
    assert (ended.status, expected in ended.stderr) == (2, True)
