"""`netesto hosts list|check|status|fetch`, with an agent that runs for the tests."""

import contextlib
import json
import os
import platform
import re
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netesto import cli
from netesto.collectors import capabilities
from netesto.controller import ansible, visit
from netesto.controller import unfetched as unfetched_data
from netesto.controller.readiness import Visited
from netesto.controller.unfetched import Fetched
from netesto.lab.agents import spawned
from netesto.model import AgentStatus, Endpoint, Unfetched
from netesto.run import agents
from netesto.system import proc, process
from netesto.transport import client
from netesto.transport.addresses import SshAddress
from netesto.transport.client import AgentClient


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("agent")) as address:
        yield address


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of an agent with its files in this folder."""
    path = folder / "sock"
    words = ["--listen", f"unix:{path}", "--state", str(folder / "state"), "--device", "lo"]
    argv = [sys.executable, "-m", "netesto.agent.daemon", *words]
    log = folder / "log"
    with process.background(argv, stdout=log, ready=path.is_socket, timeout=60):
        yield f"unix:{path}"


@pytest.fixture(scope="module")
def fifty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of 49 agents, and among them one at which nobody ever answers."""
    folder = tmp_path_factory.mktemp("fifty")
    sockets = [folder / f"{number}.sock" for number in range(50)]
    own_network = Path("/proc/self/ns/net")
    with contextlib.ExitStack() as stack:
        dead = stack.enter_context(socket.socket(socket.AF_UNIX))
        dead.bind(str(sockets[6]))
        dead.listen()
        pipes = []
        starter = stack.enter_context(spawned(folder / "log"))
        for path in sockets[:6] + sockets[7:]:
            reader, writer = os.pipe()
            words = ["--listen", f"unix:{path}", "--state", str(path.with_suffix(""))]
            words += ["--device", "lo"]
            pid = starter.start(
                {own_network: words},
                names=Path("/etc/hosts"),
                log=folder / "log",
                ready=writer,
            )
            os.close(writer)
            stack.callback(proc.end, [pid], grace_s=10)
            pipes.append(stack.enter_context(os.fdopen(reader)))
        for pipe in pipes:
            assert pipe.readline().startswith("ready"), (folder / "log").read_text()
        yield [f"unix:{path}" for path in sockets]


def hosts_file(folder: Path, *agents: str) -> str:
    path = folder / "hosts.toml"
    tables = [f'[h{number}]\nagent = "{agent}"\n' for number, agent in enumerate(agents, start=1)]
    path.write_text("".join(tables))
    return str(path)


def test_list_shows_agents_and_addresses(tmp_path, capsys):
    file = hosts_file(tmp_path, "ssh://192.0.2.1", "unix:/run/a")
    assert cli.main(["hosts", "list", file]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["h1", "ssh://192.0.2.1", "-"],
        ["h2", "unix:/run/a", "-"],
    ]


def test_check_names_every_host_that_cannot_be_used(tmp_path, capsys, agent):
    dead, none = tmp_path / "dead", tmp_path / "none"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(dead))
    file = hosts_file(tmp_path, f"unix:{dead}", agent, f"unix:{none}")
    status = cli.main(["hosts", "check", "-f", "json", file])
    document = json.loads(capsys.readouterr().out)
    wrong = [(each["host"], each["message"]) for each in document["problems"]]
    assert (status, [entry for entry in wrong if "unreachable" in entry[1]]) == (
        3,
        [
            ("h1", f"agent unreachable at unix:{dead}: Connection refused"),
            ("h3", f"agent unreachable at unix:{none}: No such file or directory"),
        ],
    )


def test_an_option_of_earlier_versions_is_refused_with_what_to_do_instead(capsys):
    status = cli.main(["hosts", "check", "--insecure", "h1"])
    assert (status, capsys.readouterr().err) == (
        2,
        (
            "netesto: hosts check: unknown option --insecure\n"
            "Reach the agent through ssh, or put stunnel before its Unix socket: see"
            " docs/hosts.md.\n"
        ),
    )


def test_check_tells_what_a_script_would_lack(tmp_path, capsys, agent):
    script = tmp_path / "s.nts"
    script.write_text("REQUIRE hosts=7\n")
    assert cli.main(["hosts", "check", hosts_file(tmp_path, agent), str(script)]) == 3
    told = f"error: REQUIRE hosts=7: there is 1 host (needed at {script}:1:9)"
    assert told in capsys.readouterr().out.splitlines()


def test_check_tells_of_what_a_script_sets_which_interface_it_changes(tmp_path, capsys, agent):
    script = tmp_path / "s.nts"
    script.write_text("SET_QDISC host=h1 qdisc=pfifo limit=10\n")
    cli.main(["hosts", "check", hosts_file(tmp_path, agent), str(script), "-f", "json"])
    settings = json.loads(capsys.readouterr().out)["settings"]
    place = f"{script}:1:1"
    assert settings == [{"host": "h1", "command": "SET_QDISC", "device": "lo", "place": place}]


@pytest.mark.lab
def test_check_of_50_hosts_tells_which_one_is_dead(fifty, tmp_path, capsys, monkeypatch):
    async def connect(endpoint: Endpoint) -> AgentClient:
        """The others may take longer than usual: all are on this machine, which may be busy."""
        patience_s = 0.5 if endpoint.agent == fifty[6] else 60
        return await client.connect(endpoint.agent, host=endpoint.host, timeout=patience_s)

    monkeypatch.setattr(agents, "connect", connect)
    monkeypatch.setattr(visit, "REPLY_S", 60.0)
    status = cli.main(["hosts", "check", "-f", "json", hosts_file(tmp_path, *fifty)])
    hosts = json.loads(capsys.readouterr().out)["hosts"]
    unreachable = [host["host"] for host in hosts if host["info"] is None]
    assert (status, unreachable, len(hosts)) == (3, ["h7"], 50)


def test_check_asks_all_hosts_at_the_same_time(tmp_path):
    together = threading.Barrier(3)

    def hang_up_together(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        listener.close()
        with connection:
            together.wait(timeout=30)

    sockets = [tmp_path / f"{number}.sock" for number in range(together.parties)]
    with ThreadPoolExecutor() as hosts:
        for path in sockets:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen()
            hosts.submit(hang_up_together, listener)
        assert (
            cli.main(["hosts", "check", hosts_file(tmp_path, *map("unix:{}".format, sockets))]) == 3
        )
    assert not together.broken


@pytest.mark.lab
def test_check_shows_what_is_the_same_on_all_hosts_below_the_table(fifty, tmp_path, capsys):
    assert cli.main(["hosts", "check", hosts_file(tmp_path, *fifty[:3])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:4]] == ["h1", "h2", "h3"]
    assert f"kernel: {platform.release()}" in lines


@pytest.mark.lab
def test_a_run_is_refused_for_all_hosts_that_cannot_be_used(fifty, tmp_path, capsys):
    script, none = tmp_path / "s.nts", tmp_path / "none"
    script.write_text("REQUIRE ca=nothing\n")
    file = hosts_file(tmp_path, f"unix:{none}-1", fifty[0], f"unix:{none}-2")
    words = ["run", "--hosts", file, "--out", str(tmp_path / "out"), "--plain", str(script)]
    assert cli.main(words) == 3
    told = [
        line
        for line in capsys.readouterr().err.splitlines()
        if "h1: " in line or "h3: " in line or "h2 has" in line
    ]
    why = "No such file or directory"
    assert told == [
        f"netesto: h1: agent unreachable at unix:{none}-1: {why}",
        f"h3: agent unreachable at unix:{none}-2: {why}",
        f"REQUIRE ca=nothing: h2 has no nothing, only {controls()} (needed at {script}:1:9)",
    ]


@pytest.fixture
def unfetched(agent: str) -> Path:
    return measured(agent)


def measured(agent: str) -> Path:
    """The folder of an experiment that the agent has measured, and nobody fetched."""
    folder = Path(agent.removeprefix("unix:")).with_name("state") / "spool" / "2026-11-19T1" / "3"
    (folder / "0").mkdir(parents=True)
    (folder / "events.jsonl").write_text("{}\n")
    (folder / "0" / "uname").write_bytes(b"Linux" * 200_000)
    return folder


@pytest.mark.usefixtures("unfetched")
def test_what_was_not_fetched_is_shown_fetched_and_gone(tmp_path, capsys, agent):
    file, out = hosts_file(tmp_path, agent), tmp_path / "results"
    shown = []
    for words in (["status", file], ["fetch", file, "--out", str(out)], ["status", file]):
        assert cli.main(["hosts", *words]) == 0
        shown.append(re.sub(r"\d+ m?s old", "0 s old", capsys.readouterr().out).splitlines())
    folder = out / "runs" / "2026-11-19T1-unfetched" / "h1" / "3"
    assert shown == [
        [
            "h1: free",
            "    not fetched: run 2026-11-19T1, experiment 3: 2 files, 1 MB, 0 s old",
            f"netesto hosts fetch {file} fetches these data.",
        ],
        [f"h1: experiment 3 of run 2026-11-19T1, 1 MB: in {folder}"],
        ["h1: free"],
    ]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}
    assert found == {"events.jsonl": b"{}\n"}
    assert (folder / "0" / "uname").read_bytes() == b"Linux" * 200_000


@pytest.mark.usefixtures("unfetched")
def test_a_second_fetch_has_nothing_to_do(tmp_path, capsys, agent):
    words = ["hosts", "fetch", hosts_file(tmp_path, agent), "--out", str(tmp_path / "results")]
    assert cli.main(words) == 0
    capsys.readouterr()
    assert (cli.main(words), capsys.readouterr().out) == (0, "h1: nothing to fetch\n")


def test_there_may_be_more_than_an_agent_lists_at_once(tmp_path, capsys, monkeypatch):
    left = tuple(
        Unfetched(run="1", exp=exp, files=1, size_bytes=1, age_s=0.0) for exp in range(1000)
    )

    async def ask(*_, **__):
        return [
            Visited(endpoint=Endpoint(host=name, agent=""), status=AgentStatus(unfetched=unfetched))
            for name, unfetched in (("h1", left), ("h2", ()))
        ]

    async def fetch(*_, **__):
        return [Fetched("h1", [(each, tmp_path) for each in left]), Fetched("h2", [])]

    monkeypatch.setattr(visit, "ask", ask)
    monkeypatch.setattr(unfetched_data, "fetch", fetch)
    file = hosts_file(tmp_path, "unix:/none", "unix:/nothing")
    shown = []
    for words in (["status", file], ["fetch", file]):
        assert cli.main(["hosts", *words]) == 0
        lines = capsys.readouterr().out.splitlines()
        shown.append([line for line in lines if "experiment " not in line])
    assert shown == [
        [
            "h1: free",
            "    not fetched: there may be more: an agent lists at most 1000 experiments at once",
            "h2: free",
            f"netesto hosts fetch {file} fetches these data.",
        ],
        [
            (
                "h1: there may be more: an agent lists at most 1000 experiments at once;"
                " repeat the command"
            ),
            "h2: nothing to fetch",
        ],
    ]


def test_a_fetch_that_is_killed_midway_leaves_nothing_that_looks_whole_and_can_be_repeated(
    tmp_path, capsys
):
    with running(tmp_path) as address:
        folder = measured(address)
        with (folder / "b.pcap").open("wb") as file:
            file.truncate(200_000_000)
        words = ["hosts", "fetch", hosts_file(tmp_path, address), "--out", str(tmp_path / "out")]
        child = process.launch([sys.executable, "-m", "netesto", *words], stdout=tmp_path / "log")
        place = tmp_path / "out" / "runs" / "2026-11-19T1-unfetched" / "h1" / "3"
        part = place.with_name("3.part")
        begun = (part / ".b.pcap.new").exists
        assert process.wait_until(lambda: begun() or child.poll() is not None, timeout=60)
        process.kill_group(child.pid)
        child.wait(60)
    assert (place.exists(), (part / "b.pcap").exists()) == (False, False)
    # The lease of the killed one's hold goes with its agent.
    with running(tmp_path):
        assert cli.main(words) == 0, capsys.readouterr().err
    found = {each.name: each.stat().st_size for each in place.rglob("*") if each.is_file()}
    assert found == {"uname": 1_000_000, "b.pcap": 200_000_000, "events.jsonl": 3}


def test_a_run_says_that_its_hosts_have_unfetched_data(tmp_path, capsys, agent, unfetched):
    script = tmp_path / "s.nts"
    script.write_text("REQUIRE hosts=1\n")
    file = hosts_file(tmp_path, agent)
    words = ["run", "--hosts", file, "--out", str(tmp_path / "out"), "--plain", str(script)]
    assert cli.main(words) == 0
    said = " ".join(capsys.readouterr().err.split())
    shutil.rmtree(unfetched.parent)
    assert "h1: has data of 1 experiment of earlier runs that was never fetched (1 MB)" in said
    assert f"netesto hosts fetch {file} fetches it." in said


def test_status_names_a_host_that_does_not_answer(tmp_path, capsys, agent):
    file = hosts_file(tmp_path, f"unix:{tmp_path}/none", agent)
    assert cli.main(["hosts", "status", "-f", "json", file]) == 3
    document = json.loads(capsys.readouterr().out)
    nobody = {"holder": "", "run": "", "held_s": 0.0, "waiting": []}
    free = nobody | {"unfetched": [], "settings": [], "left": []}
    reason = f"h1: agent unreachable at unix:{tmp_path}/none: No such file or directory"
    assert document == {
        "hosts": [
            {"host": "h1", "status": None, "error": reason},
            {"host": "h2", "status": free, "error": None},
        ]
    }


def test_hosts_with_the_same_error_are_named_together(tmp_path, capsys):
    file = hosts_file(tmp_path, "unix:/none/h1", "unix:/none/h2")
    assert cli.main(["hosts", "status", file]) == 3
    assert capsys.readouterr().err == (
        "netesto: h1, h2: agent unreachable at unix:/none/HOST: No such file or directory\n"
        "    Is it running there? netesto-agent --listen unix:/none/HOST\n"
    )


def controls() -> str:
    return " ".join(capabilities.probe().congestion_controls)


def test_check_tells_that_a_script_can_be_run(tmp_path, capsys, agent):
    script = tmp_path / "s.nts"
    script.write_text("REQUIRE hosts=1\n")
    assert cli.main(["hosts", "check", hosts_file(tmp_path, agent), str(script)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{script}: the hosts have all that it needs"


def test_hosts_toml_of_the_folder_is_used_without_others(tmp_path, capsys, monkeypatch, agent):
    hosts_file(tmp_path, agent)
    monkeypatch.chdir(tmp_path)
    Path("s.nts").write_text("REQUIRE hosts=1\n")
    words = (["list"], ["status"], ["fetch"], ["verify"], ["check"], ["check", "s.nts"])
    assert [cli.main(["hosts", *each]) for each in words] == [0] * 6
    assert capsys.readouterr().out.splitlines()[-1] == "s.nts: the hosts have all that it needs"


def test_without_hosts_and_hosts_toml_the_remedy_is_an_example(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["hosts", "status"]) == 2
    assert capsys.readouterr().err == (
        "netesto: no hosts given, and no hosts.toml here\n"
        "Write: netesto hosts status host1,root@host2\n"
    )


def test_warnings_about_the_hosts_are_shown_by_every_command_that_reads_them(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    found = {"h1": SshAddress("h1")}
    monkeypatch.setattr(ansible, "read", lambda _: (found, ["ansible_become"]))
    Path("s.nts").write_text("ECHO x\n")
    cli.main(["hosts", "list", "hosts.ini"])
    cli.main(["check", "--hosts", "hosts.ini", "s.nts"])
    warning = "warning: hosts.ini: without effect here: ansible_become\n"
    assert capsys.readouterr().err == 2 * warning
