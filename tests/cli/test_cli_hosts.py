"""`netesto hosts list|check`, with an agent that runs for the tests."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netesto import cli, process


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("agent")
    path = folder / "sock"
    words = ["--listen", f"unix:{path}", "--state", str(folder / "state")]
    argv = [sys.executable, "-m", "netesto.agent.daemon", *words]
    log = folder / "log"
    with process.background(argv, stdout=log, ready=path.is_socket, timeout=60):
        yield f"unix:{path}"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, and nobody else can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def hosts_file(folder: Path, *agents: str) -> str:
    path = folder / "hosts.toml"
    tables = [f'[h{number}]\nagent = "{agent}"\n' for number, agent in enumerate(agents, start=1)]
    path.write_text("".join(tables))
    return str(path)


def test_list_shows_agents_and_addresses(tmp_path, capsys):
    file = hosts_file(tmp_path, "192.0.2.1", "[2001:db8::1]:99", "unix:/run/a")
    assert cli.main(["hosts", "list", file]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["h1", "192.0.2.1:12870", "192.0.2.1"],
        ["h2", "[2001:db8::1]:99", "2001:db8::1"],
        ["h3", "unix:/run/a", "-"],
    ]


def test_check_names_every_host_that_cannot_be_used(tmp_path, capsys, agent, closed_port):
    status = cli.main(["hosts", "check", hosts_file(tmp_path, f"127.0.0.1:{closed_port}", agent)])
    done = capsys.readouterr()
    assert (status, [line.split()[0] for line in done.out.splitlines()]) == (3, ["host", "h2"])
    assert done.err.startswith(f"netesto: h1: agent unreachable at 127.0.0.1:{closed_port}")


def test_check_tells_what_a_script_would_lack(tmp_path, capsys, agent):
    script = tmp_path / "s.nts"
    script.write_text("REQUIRE hosts=7\n")
    assert cli.main(["hosts", "check", hosts_file(tmp_path, agent), str(script)]) == 3
    told = f"netesto: REQUIRE hosts=7: there is 1 host (needed at {script}:1:9)\n"
    assert capsys.readouterr().err == told


def test_check_tells_that_a_script_can_be_run(tmp_path, capsys, agent):
    script = tmp_path / "s.nts"
    script.write_text("REQUIRE hosts=1\n")
    assert cli.main(["hosts", "check", hosts_file(tmp_path, agent), str(script)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{script}: the hosts have all that it needs"
