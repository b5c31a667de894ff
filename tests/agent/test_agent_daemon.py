import asyncio
import contextlib
import json
import os
import re
import resource
import select
import signal
import socket
import sys
from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path

import pytest
from agent_daemons import Daemon, HoldingClient, StartDaemon
from agent_values import request

from netesto.agent import recovery
from netesto.errors import AgentError, MissingError
from netesto.model import CaptureRequest, Ports
from netesto.system import life, proc, process
from netesto.transport.files import ship

# Flows here take a second or two; the deadline only keeps a broken test from hanging.
DEADLINE_S = 60

# Nobody listens there; netperf says so at once.
NOBODY = Ports(control=(13898,), data=(13899,))


async def events_until(agent: HoldingClient, kind: str) -> list:
    """Events up to the first of a kind, without progress and what a busy machine warns of."""
    events = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in agent.events:
            if event.kind not in ("progress", "warning"):
                events.append(event)
            if event.kind == kind:
                break
    return events


def kinds(events: list) -> list[tuple[str, int, int]]:
    return [(event.kind, event.group, event.instance) for event in events]


def life_of(daemon: Daemon) -> str:
    lines = map(json.loads, (daemon.state / "journal").read_text().splitlines())
    return [line["life"] for line in lines if "life" in line][-1]


def processes_of(life: str) -> list[str]:
    """Names of the processes that carry an agent's mark."""
    names: list[str] = []
    for pid in proc.numbers():
        # It may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if recovery.carries(pid, life):
                names.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return names


async def pid_of(life: str, name: str) -> int:
    """The number of a process of an agent, once it runs."""
    found: list[int] = []

    def is_there() -> bool:
        found.clear()
        for pid in proc.numbers():
            # It may end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                its_name = Path(f"/proc/{pid}/comm").read_text().strip()
                if its_name == name and recovery.carries(pid, life):
                    found.append(pid)
        return bool(found)

    assert await process.wait_until_async(is_there, timeout=DEADLINE_S)
    return found[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it captures packets and pings")
@pytest.mark.usefixtures("netperf")
async def test_flow_runs_between_two_agents(pair: tuple[Daemon, Daemon], tmp_path: Path):
    client, server = pair
    made = request(instances=2, stats=True)
    async with client.held() as a, server.held() as b:
        ports = await b.expect(made)
        await a.start_capture(CaptureRequest(exp=1, host="a", peer=None, packets=5))
        await a.start(made, ports, 0.0)
        events = await events_until(a, "complete")
        await b.forget(1, 1)
        of_a, of_b = await a.finish(1), await b.finish(1)
        await ship(a, 1, of_a.files, lambda entry: tmp_path / "raw" / "a" / entry.path, host="a")
        await ship(b, 1, of_b.files, lambda entry: tmp_path / "raw" / "b" / entry.path, host="b")
        await a.confirm(1)
        await b.confirm(1)
    assert sorted(kinds(events)) == [
        ("accepted", 1, 0),
        ("complete", 1, 0),
        ("ended", 1, 1),
        ("ended", 1, 2),
        ("started", 1, 1),
        ("started", 1, 2),
    ]
    assert sorted(path.name for path in (tmp_path / "raw" / "a").iterdir()) == [
        "0",
        "1",
        "capture.1.log",
        "capture.1.pcap",
        "cpu.jsonl",
        "events.jsonl",
        "flow.1.1.err",
        "flow.1.1.json",
        "flow.1.1.out",
        "flow.1.2.err",
        "flow.1.2.json",
        "flow.1.2.out",
        "group.1.json",
        "links.jsonl.gz",
        "ping.1.out",
        "sockets.bin.gz",
        "tcp.jsonl",
    ]
    assert sorted(path.name for path in (tmp_path / "raw" / "b").iterdir()) == [
        "cpu.jsonl",
        "events.jsonl",
        "links.jsonl.gz",
        "server.1.json",
        "sockets.bin.gz",
        "tcp.jsonl",
    ]
    assert [list((daemon.state / "spool").iterdir()) for daemon in (client, server)] == [[], []]


@pytest.mark.usefixtures("netperf")
async def test_statistics_lie_around_all_groups(pair: tuple[Daemon, Daemon], tmp_path: Path):
    client, server = pair
    groups = [request(stats=True), request(stats=True, group=2, delay_s=0.2)]
    async with client.held() as a, server.held() as b:
        for group in groups:
            await a.start(group, await b.expect(group), 0.0)
        for _ in groups:
            await events_until(a, "complete")
        paths = [entry.path for entry in (await a.finish(1)).files]
    folders = {path.partition("/")[0] for path in paths if "/" in path}
    assert folders == {"0", "1"}


@pytest.mark.usefixtures("netperf")
async def test_statistics_between_groups_are_kept_aside(pair: tuple[Daemon, Daemon]):
    client, server = pair
    groups = [request(stats=True), request(stats=True, group=2)]
    async with client.held() as a, server.held() as b:
        for group in groups:
            await a.start(group, await b.expect(group), 0.0)
            await events_until(a, "complete")
        paths = [entry.path for entry in (await a.finish(1)).files]
    folders = {path.partition("/")[0] for path in paths if "/" in path}
    assert folders == {"0", "1", "1.1"}


@pytest.mark.usefixtures("netperf")
@pytest.mark.parametrize("tool", ["netperf", "iperf3"])
async def test_flow_runs_over_ipv6(tool: str, pair: tuple[Daemon, Daemon]):
    client, server = pair
    loopback = ip_address("::1")
    made = request(tool=tool, client_address=loopback, server_address=loopback)
    async with client.held() as a, server.held() as b:
        await a.start(made, await b.expect(made), 0.0)
        events = await events_until(a, "complete")
    assert [(event.kind, event.text) for event in events[2:]] == [("ended", ""), ("complete", "")]


@pytest.mark.usefixtures("netperf")
async def test_flow_starts_at_the_instant_given(pair: tuple[Daemon, Daemon], tmp_path: Path):
    client, server = pair
    async with client.held() as a, server.held() as b:
        ports = await b.expect(request(delay_s=0.25))
        base_s = (await a.probe_clock()).sent_s + 0.5
        await a.start(request(delay_s=0.25), ports, base_s)
        await events_until(a, "complete")
        finished = await a.finish(1)
        await ship(a, 1, finished.files, lambda entry: tmp_path / "raw" / entry.path, host="a")
    record = json.loads((tmp_path / "raw" / "flow.1.1.json").read_text())
    assert (record["asked_start_s"], record["started_s"] >= base_s + 0.25) == (base_s + 0.25, True)


def test_many_flows_may_have_their_files(start_daemon: StartDaemon):
    daemon = start_daemon("a", prefix=("prlimit", "--nofile=256:4000"))
    assert resource.prlimit(daemon.child.pid, resource.RLIMIT_NOFILE) == (4000, 4000)


@pytest.mark.usefixtures("netperf")
async def test_killed_tool_is_a_failed_flow(pair: tuple[Daemon, Daemon]):
    client, server = pair
    async with client.held() as a, server.held() as b:
        await a.start(request(duration_s=30), await b.expect(request()), 0.0)
        await events_until(a, "started")
        os.kill(await pid_of(life_of(client), "netperf"), signal.SIGKILL)
        failed, complete = await events_until(a, "complete")
    assert (failed.kind, failed.text, complete.kind) == (
        "failed",
        "netperf was ended by SIGKILL",
        "complete",
    )


@pytest.mark.usefixtures("netperf")
async def test_flow_without_a_server_fails_with_what_the_tool_says(pair: tuple[Daemon, Daemon]):
    async with pair[0].held() as a:
        await a.start(request(), NOBODY, 0.0)
        events = await events_until(a, "complete")
    assert kinds(events) == [
        ("accepted", 1, 0),
        ("started", 1, 1),
        ("failed", 1, 1),
        ("complete", 1, 0),
    ]
    assert events[2].text.startswith("netperf exited 255: establish control")


@pytest.mark.usefixtures("netperf")
async def test_frozen_server_is_replaced(start_daemon: StartDaemon):
    server = start_daemon("b")
    async with server.held() as b:
        await b.take_stats(1, 0, tests=("TCP_STREAM",), tools=("netperf",))
        frozen = await pid_of(life_of(server), "netserver")
        os.kill(frozen, signal.SIGSTOP)
        assert process.wait_until(lambda: proc.is_stopped(frozen), timeout=DEADLINE_S)
        await b.take_stats(1, 0, tests=("TCP_STREAM",), tools=("netperf",))
        assert await pid_of(life_of(server), "netserver") != frozen


async def test_missing_tool_is_a_failed_flow(start_daemon: StartDaemon, tmp_path: Path):
    async with start_daemon("a", env={**os.environ, "PATH": str(tmp_path)}).held() as a:
        assert "netperf" not in (await a.info()).tools
        await a.start(request(), NOBODY, 0.0)
        events = await events_until(a, "complete")
    assert [event.text for event in events if event.kind == "failed"] == [
        "netperf: cannot start: No such file or directory"
    ]


async def test_missing_server_is_named(start_daemon: StartDaemon, tmp_path: Path):
    async with start_daemon("b", env={**os.environ, "PATH": str(tmp_path)}).held() as b:
        with pytest.raises(MissingError, match=r"^b: netserver: cannot start: No such file"):
            await b.expect(request())


async def test_unknown_congestion_control_is_refused_before_anything_runs(
    pair: tuple[Daemon, Daemon],
):
    async with pair[0].held() as a:
        with pytest.raises(MissingError, match=r"^a: congestion control nosuch: not in this kern"):
            await a.start(request(congestion_control="nosuch"), NOBODY, 0.0)


async def test_group_that_has_run_is_refused(pair: tuple[Daemon, Daemon]):
    async with pair[0].held() as a:
        await a.start(request(), NOBODY, 0.0)
        with pytest.raises(AgentError, match=r"^a: experiment 1: group 1 was started before$"):
            await a.start(request(), NOBODY, 0.0)


@pytest.mark.parametrize("run", ["../escape", "", "a/b", ".hidden"])
async def test_run_that_is_no_name_is_refused(run: str, pair: tuple[Daemon, Daemon]):
    with pytest.raises(AgentError, match="invalid run name"):
        async with pair[0].held(run):
            pass


@pytest.mark.usefixtures("netperf")
async def test_abort_ends_flows_and_keeps_what_was_measured(
    pair: tuple[Daemon, Daemon], tmp_path: Path
):
    client, server = pair
    async with client.held() as a, server.held() as b:
        await a.start(request(duration_s=30), await b.expect(request()), 0.0)
        await events_until(a, "started")
        await a.abort()
        failed, complete = await events_until(a, "complete")
        finished = await a.finish(1)
        shipped = await ship(
            a, 1, finished.files, lambda entry: tmp_path / "raw" / entry.path, host="a"
        )
    assert (failed.text, complete.kind) == ("aborted by the controller", "complete")
    assert {"flow.1.1.out", "flow.1.1.json", "ping.1.out", "sockets.bin.gz"} <= shipped.keys()


@pytest.mark.usefixtures("netperf")
async def test_finish_is_refused_while_flows_run(pair: tuple[Daemon, Daemon]):
    client, server = pair
    async with client.held() as a, server.held() as b:
        await a.start(request(duration_s=30), await b.expect(request()), 0.0)
        with pytest.raises(AgentError, match=r"^a: experiment 1: flows of group 1 still run$"):
            await a.finish(1)


@pytest.mark.usefixtures("netperf")
async def test_end_of_the_hold_ends_all_processes_and_keeps_files(start_daemon: StartDaemon):
    client, server = start_daemon("a"), start_daemon("b")
    async with client.held() as a, server.held() as b:
        await a.start(request(duration_s=30), await b.expect(request()), 0.0)
        await events_until(a, "started")
    lives = [life_of(daemon) for daemon in (client, server)]
    assert await process.wait_until_async(
        lambda: not any(processes_of(life) for life in lives), timeout=DEADLINE_S
    )
    async with client.held() as a:
        paths = [entry.path for entry in (await a.finish(1)).files]
    assert "flow.1.1.out" in paths


async def signal_in_mid_flow(
    client: Daemon,
    b: HoldingClient,
    sign: signal.Signals,
    *,
    programs: Collection[str] = ("netperf",),
) -> None:
    """Signal the client's agent while a flow to `b` and these programs run, and read its events to
    their end."""
    async with client.held() as a:
        await a.start(request(duration_s=30), await b.expect(request()), 0.0)
        await events_until(a, "started")
        # Of a flow that has started, a busy machine may not have started a program yet.
        for program in programs:
            await pid_of(life_of(client), program)
        client.child.send_signal(sign)
        await events_until(a, "never")


@pytest.mark.usefixtures("netperf")
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
async def test_terminated_agent_leaves_no_process_and_no_socket(
    start_daemon: StartDaemon, sign: signal.Signals
):
    client, server = start_daemon("a"), start_daemon("b")
    life = life_of(client)
    async with server.held() as b:
        with pytest.raises(AgentError, match=r"^a: the agent was asked to end$"):
            await signal_in_mid_flow(client, b, sign)
    assert (client.child.wait(DEADLINE_S), processes_of(life), client.socket.exists()) == (
        0,
        [],
        False,
    )


@pytest.mark.usefixtures("netperf")
def test_the_sampler_of_a_killed_agent_ends(start_daemon: StartDaemon):
    client = start_daemon("a")
    [sampler] = (
        Path(f"/proc/{client.child.pid}/task/{client.child.pid}/children").read_text().split()
    )
    descriptor = os.pidfd_open(int(sampler))
    client.child.kill()
    assert select.select([descriptor], [], [], DEADLINE_S)[0] == [descriptor]
    os.close(descriptor)


@pytest.mark.usefixtures("netperf")
async def test_no_thread_waits_for_a_process(start_daemon: StartDaemon):
    """Guests in simulated time have one processor, and figures that such a thread would change."""
    on_one = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
    client, server = start_daemon("a", prefix=on_one), start_daemon("b")
    # More than there are threads in the pools of asyncio and gRPC.
    many = request(instances=20)
    async with client.held() as a, server.held() as b:
        before = threads_of(client)
        # Their programs wait until they are told to begin.
        await a.start(many, await b.expect(many), None)
        await events_until(a, "ready")
        assert threads_of(client) - before < many.instances


def threads_of(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.child.pid}/task").iterdir()))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it captures packets and pings")
async def test_processes_of_a_killed_agent_end_with_recover(start_daemon: StartDaemon):
    client, server = start_daemon("a"), start_daemon("b")
    life = life_of(client)
    async with server.held() as b:
        with pytest.raises(AgentError, match=r"^a: connection lost"):
            await signal_in_mid_flow(client, b, signal.SIGKILL, programs=("netperf", "ping"))
        client.child.wait(DEADLINE_S)
        # The sampler ends by itself, and netperf when it has something to print, which nobody reads
        # any more.
        remaining = ({"netperf", "ping"}, {"ping"})
        assert await process.wait_until_async(
            lambda: set(processes_of(life)) in remaining, timeout=DEADLINE_S
        )
        recover(client.state)
    assert processes_of(life) == []


def recover(state: Path) -> process.CompletedCommand:
    argv = [sys.executable, "-m", "netesto.agent.daemon", "--recover", "--state", str(state)]
    return process.run(argv, timeout=DEADLINE_S)


def test_recover_leaves_a_living_agent_alone(start_daemon: StartDaemon):
    daemon = start_daemon("a")
    argv = [sys.executable, "-m", "netesto.agent.daemon", "--recover"]
    finished = process.run([*argv, "--state", str(daemon.state)], timeout=DEADLINE_S, check=False)
    who = life.described(daemon.child.pid)
    said = f"netesto-agent: {daemon.state}: another agent has this folder: {who}\n"
    assert (finished.status, finished.stderr) == (3, said + "Give each its own --state.\n")


async def test_frozen_agent_is_given_up(start_daemon: StartDaemon):
    daemon = start_daemon("a")
    with pytest.raises(AgentError, match=r"^a: connection lost: "):
        await freeze_while_held(daemon)


async def freeze_while_held(daemon: Daemon) -> None:
    """Stop the agent's process and read its events until they end."""
    async with daemon.held() as a:
        daemon.child.send_signal(signal.SIGSTOP)
        try:
            await events_until(a, "never")
        finally:
            daemon.child.send_signal(signal.SIGCONT)


def test_service_manager_is_told_when_it_is_ready(start_daemon: StartDaemon, tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(DEADLINE_S)
        start_daemon("a", env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(100) == b"READY=1"


def test_service_manager_hears_again_and_again_that_the_agent_answers(
    start_daemon: StartDaemon, tmp_path: Path
):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(DEADLINE_S)
        ours = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        start_daemon("a", env={**os.environ, **ours})
        heard = [manager.recv(100) for _ in range(4)]
    assert heard == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]


@pytest.mark.thorough
def test_agent_that_was_stopped_for_20_s_lives_on(start_daemon: StartDaemon, tmp_path: Path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(DEADLINE_S)
        ours = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"}
        daemon = start_daemon("a", env={**os.environ, **ours})
        heard = [manager.recv(100) for _ in range(2)]
        daemon.child.send_signal(signal.SIGSTOP)
        process.wait_until(lambda: False, timeout=20)
        daemon.child.send_signal(signal.SIGCONT)
        # Two calls without an answer in a row would have ended it.
        heard += [manager.recv(100) for _ in range(3)]
    assert heard == [b"READY=1"] + [b"WATCHDOG=1"] * 4


def test_interfaces_that_are_missing_are_reported_at_the_start(
    start_daemon: StartDaemon, tmp_path: Path
):
    (tmp_path / "agent.toml").write_text('[limits]\ninterfaces = ["lo", "eth8"]\n')
    daemon = start_daemon("a", "--config", str(tmp_path / "agent.toml"), "--device", "eth9")
    told = re.findall(r"no such interface.*interface=(\w+) key=(\w+)", daemon.log.read_text())
    assert told == [("eth9", "device"), ("eth8", "interfaces")]


async def test_asked_to_shut_down_it_ends_well(start_daemon: StartDaemon):
    daemon = start_daemon("a")
    async with daemon.held() as a:
        await a.shut_down()
        assert await events_until(a, "never") == []
    assert daemon.child.wait(DEADLINE_S) == 0


WRONG = [
    (["--listen", "127.0.0.1:0"], "invalid agent address '127.0.0.1:0'"),
    (["--listen", "tls://0.0.0.0:9"], "'tls://0.0.0.0:9': netesto has no TLS of its own"),
    (["--insecure"], "error: --insecure: removed. Reach the agent through ssh, or put stunnel"),
    (["--clients", "c.txt"], "error: --clients: removed. Reach the agent through ssh, or put"),
    (["--listen", "ssh://h1"], "cannot listen on ssh://h1: controllers reach an agent"),
    (
        ["--listen", "unix:/no/such/folder/s"],
        "cannot listen in /no/such/folder: No such file or directory",
    ),
    (["--listen", "unix:/tmp/s"], "/tmp: others can write to this folder"),
    (["--group", "no-such"], "group = 'no-such': no such group here"),
    (
        ["--config", "/no/agent.toml"],
        "/no/agent.toml: cannot be read: No such file or directory",
    ),
]

# Each command line in a process of its own, all with the modules of the first one.
EACH = """
import json, os, sys
from netesto.agent import daemon
for words in json.loads(sys.argv[1]):
    pid = os.fork()
    if pid == 0:
        os._exit(daemon.main(words))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=sys.stderr)
"""


def test_wrong_command_line_is_reported(tmp_path: Path):
    lines = [["--state", str(tmp_path), *options] for options, _ in WRONG]
    argv = [sys.executable, "-c", EACH, json.dumps(lines)]
    said = process.run(argv, timeout=DEADLINE_S).stderr
    told = re.findall(r"^netesto-agent: (.*?)^(\d+)\n", said, re.MULTILINE | re.DOTALL)
    found = [
        (options, text[: len(message)], status)
        for (options, message), (text, status) in zip(WRONG, told, strict=True)
    ]
    assert found == [(options, message, "2") for options, message in WRONG], said


def test_agent_loads_nothing_of_language_and_report(tmp_path: Path):
    script = "import sys, netesto.agent.daemon; print(*sys.modules)"
    finished = process.run([sys.executable, "-c", script], timeout=DEADLINE_S)
    loaded = {name.partition(".")[0] for name in finished.stdout.split()}
    assert loaded.isdisjoint({"lark", "jinja2", "matplotlib", "numpy", "rich", "pyroute2"})
