"""Whatever a peer sends, the agent serves others afterwards, or ends."""

import asyncio
import contextlib
import itertools
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
import raw_http2
from agent_daemons import Daemon, StartDaemon

from netesto.errors import AgentError, ConnectionLostError
from netesto.hostsettings import Sysctl
from netesto.system import process
from netesto.transport.channel import REQUEST_BYTES_MAX
from netesto.transport.client import connect

# What an answer may take of a processor, whatever else the agent does meanwhile, and the agent of
# memory. How long it takes depends on what else the machine does.
ANSWER_CPU_S = 2.0
MEMORY_BYTES = 200e6

DEADLINE_S = 60

NOT_UTF8 = raw_http2.connection(raw_http2.request(b"/netesto.v1.Agent/\xff", b""))

# The last release of gRPC that answers it.
ANSWERS_NOT_UTF8 = (1, 83)
GRPC = tuple(map(int, version("grpcio").split(".")[:2]))

DEAF = "the agent did not answer 2 calls of its own"


@contextlib.contextmanager
def connected(daemon: Daemon, count: int = 1) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(count)]
        for peer in peers:
            peer.connect(str(daemon.socket))
        yield peers


def send(peer: socket.socket, content: bytes) -> None:
    """Send as much of it as the agent accepts."""
    with contextlib.suppress(OSError):
        peer.sendall(content)


def takes(daemon: Daemon, contents: Sequence[bytes]) -> bool:
    """Send each on a connection of its own. Whether the agent took the last one."""
    with contextlib.suppress(OSError), connected(daemon, len(contents)) as peers:
        for peer, content in zip(peers, contents, strict=True):
            send(peer, content)
        peers[-1].settimeout(DEADLINE_S)
        # What an agent sends first, to anybody.
        return peers[-1].recv(1) != b""
    return False


async def answers(daemon: Daemon) -> bool:
    before_s = cpu_s(daemon)
    async with await connect(daemon.address, host="a", timeout=DEADLINE_S) as agent:
        async with asyncio.timeout(DEADLINE_S):
            is_answered = (await agent.probe_clock()).received_s > 0
    return is_answered and cpu_s(daemon) - before_s < ANSWER_CPU_S


async def reach(daemon: Daemon) -> None:
    """Connect until that succeeds."""
    until_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            agent = await connect(daemon.address, host="a", timeout=DEADLINE_S)
        except ConnectionLostError:
            if time.monotonic() > until_s:
                raise
        else:
            await agent.close()
            return


def has_ended_deaf(daemon: Daemon) -> bool:
    """Whether it has ended, or is about to, because it does not answer itself."""
    return daemon.child.wait(DEADLINE_S) == 3 and DEAF in daemon.log.read_text()


def cpu_s(daemon: Daemon) -> float:
    times = psutil.Process(daemon.child.pid).cpu_times()
    return times.user + times.system


def memory_is_bounded(daemon: Daemon) -> bool:
    """Whether the agent never had more memory than it may."""
    status = Path(f"/proc/{daemon.child.pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024 < MEMORY_BYTES


@pytest.fixture(scope="module")
def streams(request: pytest.FixtureRequest) -> int:
    count = request.config.getoption("--streams")
    assert isinstance(count, int)
    return count


@pytest.mark.skipif(GRPC > ANSWERS_NOT_UTF8, reason="it makes a later gRPC deaf")
async def test_path_that_is_not_utf8_leaves_the_holder_alone(start_daemon: StartDaemon):
    daemon = start_daemon("a")
    async with daemon.held() as a:
        with connected(daemon) as (peer,):
            peer.sendall(NOT_UTF8)
            # Headers with the status come, after settings and acknowledgements.
            peer.settimeout(DEADLINE_S)
            reply = b""
            while b"grpc-status" not in reply:
                reply += peer.recv(4096)
        assert (await a.finish(1)).files == ()


@pytest.mark.skipif(GRPC <= ANSWERS_NOT_UTF8, reason="this gRPC answers the path")
@pytest.mark.lab
async def test_agent_that_a_path_made_deaf_puts_the_host_back_and_fails(start_daemon: StartDaemon):
    daemon = start_daemon("a", prefix=("unshare", "--net"))
    async with daemon.held() as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "1"))
        with connected(daemon) as (peer,):
            peer.sendall(NOT_UTF8)
            with pytest.raises(AgentError, match=DEAF):
                await asyncio.wait_for(anext(a.events), DEADLINE_S)
    status = await asyncio.to_thread(daemon.child.wait, DEADLINE_S)
    said = daemon.log.read_text()
    assert (status, (daemon.state / "journal").read_text()) == (3, "")
    assert "setting put back setting='sysctl net.ipv4.tcp_ecn=1'" in said
    assert f"netesto-agent: {DEAF}" in said


# 100,000 streams take minutes.
@pytest.mark.timeout(3600)
async def test_agent_answers_after_streams_of_any_kind_or_ends(
    start_daemon: StartDaemon, streams: int
):
    daemon = start_daemon("a")
    contents = raw_http2.hostile(streams, seed=11)
    while batch := list(itertools.islice(contents, 50)):
        if not takes(daemon, batch):
            assert await asyncio.to_thread(has_ended_deaf, daemon)
            daemon = start_daemon("a")
    try:
        assert await answers(daemon)
    except AgentError:
        assert await asyncio.to_thread(has_ended_deaf, daemon)
    else:
        assert memory_is_bounded(daemon)


async def test_agent_answers_beside_a_thousand_silent_connections(start_daemon: StartDaemon):
    daemon = start_daemon("a")
    with connected(daemon, 1000):
        # It accepts them one after the other, and a connection waits for its turn for 2 s only.
        await reach(daemon)
        assert await answers(daemon)
    assert await answers(daemon)


async def test_agent_without_free_descriptors_answers_when_there_are_some(
    start_daemon: StartDaemon,
):
    daemon = start_daemon("a")
    assert await answers(daemon)
    few = psutil.Process(daemon.child.pid).num_fds() + 20
    before = resource.prlimit(daemon.child.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.child.pid, resource.RLIMIT_NOFILE, (few, before[1]))
    # A new descriptor is the lowest one that is free.
    last = Path(f"/proc/{daemon.child.pid}/fd/{few - 1}")
    with connected(daemon, 100):
        assert await process.wait_until_async(last.is_symlink, timeout=DEADLINE_S)
        resource.prlimit(daemon.child.pid, resource.RLIMIT_NOFILE, before)
        assert (await answers(daemon), "Traceback" in daemon.log.read_text()) == (True, False)


@pytest.mark.parametrize("size", [REQUEST_BYTES_MAX - 100, 16_000_000])
async def test_agent_answers_beside_a_hundred_maximal_messages(
    size: int, start_daemon: StartDaemon
):
    daemon = start_daemon("a")
    message = b"\x0a" + b"x" * size
    content = raw_http2.connection(raw_http2.request(b"/netesto.v1.Agent/Hold", message))
    with connected(daemon, 100) as peers:
        for peer in peers:
            # What the agent does not accept stays here.
            peer.setblocking(False)
            send(peer, content)
        assert await answers(daemon)
    assert memory_is_bounded(daemon)


async def test_messages_that_never_end_take_little_memory(start_daemon: StartDaemon):
    daemon = start_daemon("a")
    whole = (
        raw_http2.request(b"/netesto.v1.Agent/Hold", bytes(60_000), stream=number)
        for number in range(1, 201, 2)
    )
    content = raw_http2.connection(*(each[:-10] for each in whole))
    with connected(daemon, 200) as peers:
        for peer in peers:
            peer.setblocking(False)
            send(peer, content)
        assert await answers(daemon)
    assert memory_is_bounded(daemon)
