"""Attacks on the server of netesto-flow, which everybody on its network can reach."""

import json
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from needs import unmet
from processes import serving

from netesto.traffic.native import PROGRAM, Native

PORT, DATA = 12_890, 12_891
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _program():
    if not PROGRAM.exists():
        unmet("native", "netesto-flow was not compiled: no C compiler")


class Server:
    """A server, and a client whose messages the test writes."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # The sanitizers, which a program under test may have, keep more than it asks for.
        self._before = self.memory_bytes()

    def memory_bytes(self) -> int:
        """The maximum memory that it ever had."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found, "no memory is told"
        return int(found[1]) * 1024

    @property
    def grown_bytes(self) -> int:
        return self.memory_bytes() - self._before

    @contextmanager
    def asked(self, options: str) -> Iterator[socket.socket]:
        """The control connection of a flow that is ready."""
        with socket.create_connection(("127.0.0.1", PORT), timeout=20) as control:
            control.sendall(f"netesto-flow 4 {options}\n".encode())
            assert control.recv(100) == b"ready\n"
            yield control


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with started(tmp_path) as found:
        yield found


@contextmanager
def started(folder: Path, *before: str) -> Iterator[Server]:
    """A server, started by the words `before` it."""
    command = [*before, *Native().server_command(PORT)]
    with serving(command, PORT, folder / "server.log") as child:
        yield Server(child.pid)


def datagram(number: int, sent_ns: int) -> bytes:
    return struct.pack("!QQ", number, sent_ns) + bytes(84)


def report_of(control: socket.socket) -> dict[str, Any]:
    """What the server says at the end."""
    with control.makefile() as lines:
        found: dict[str, Any] = json.loads(lines.read())
    return found


def test_datagrams_with_any_number_cost_no_memory_and_no_time(server):
    with (
        server.asked(f"test=UDP_STREAM port={DATA} duration=1 interval=0.1") as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        for number in (0, 2**36, 2**40, 5, 2**63, 2**64 - 1):
            data.sendto(datagram(number, 0), ("127.0.0.1", DATA))
        data.sendto(datagram(2**39, 2**63), ("127.0.0.1", DATA))
        control.sendall(f"end {2**40} 1000000000\n".encode())
        found = report_of(control)
    assert (found["arrived"], sum(found["server_lost"]), server.grown_bytes < 64 * MIB) == (
        3,
        2**40 - 2,
        True,
    )


def test_a_datagram_that_comes_behind_the_window_is_lost(server):
    with (
        server.asked(f"test=UDP_STREAM port={DATA} duration=1 interval=1") as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        for number in (1, 2**23, 0, 1, 2):
            data.sendto(datagram(number, 0), ("127.0.0.1", DATA))
        control.sendall(f"end {2**23 + 1} 1000000000\n".encode())
        found = report_of(control)
    counted = {key: found[f"server_{key}"] for key in ("arrived", "duplicates", "reordered")}
    assert (counted, sum(found["server_lost"])) == (
        {"arrived": [3], "duplicates": [1], "reordered": [1]},
        2**23 - 2,
    )


def test_datagrams_of_strangers_are_not_counted(server):
    with (
        server.asked(f"test=UDP_STREAM port={DATA} duration=1 interval=1") as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        stranger.bind(("127.0.0.2", 0))
        stranger.sendto(datagram(7, 0), ("127.0.0.1", DATA))
        data.sendto(datagram(0, 0), ("127.0.0.1", DATA))
        control.sendall(b"end 1 1000000000\n")
        assert (report_of(control)["arrived"]) == 1


def test_requests_of_strangers_are_not_answered(server):
    with (
        server.asked(f"test=UDP_RR port={DATA} duration=1 request=8 reply=1000"),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        stranger.bind(("127.0.0.2", 0))
        stranger.sendto(b"strange!", ("127.0.0.1", DATA))
        data.settimeout(20)
        data.sendto(b"a client", ("127.0.0.1", DATA))
        # The server takes one after the other.
        assert data.recv(2000)[:8] == b"a client"
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.recv(2000)


def test_the_length_of_writes_costs_no_memory(server):
    with (
        server.asked(f"test=TCP_MAERTS port={DATA} duration=1 length={2**30}") as control,
        socket.create_connection(("127.0.0.1", DATA), timeout=20) as data,
    ):
        control.sendall(b"go\n")
        data.recv(1)
    assert server.grown_bytes < 64 * MIB


def test_a_large_request_costs_no_memory(server):
    with (
        server.asked(f"test=TCP_RR port={DATA} duration=1 request={128 * MIB}"),
        socket.create_connection(("127.0.0.1", DATA), timeout=20) as data,
    ):
        piece = bytes(MIB)
        for _ in range(128):
            data.sendall(piece)
        assert (len(data.recv(10)), server.grown_bytes < 64 * MIB) == (1, True)


def test_a_server_without_descriptors_lives_until_there_are_some(tmp_path):
    with started(tmp_path, "prlimit", "--nofile=32:32") as server, ExitStack() as others:
        for _ in range(40):
            others.enter_context(socket.create_connection(("127.0.0.1", PORT)))
        # One that has ended has none.
        while 0 < len([*Path(f"/proc/{server.pid}/fd").iterdir()]) < 32:
            time.sleep(0.01)
        others.close()
        with server.asked(f"test=UDP_RR port={DATA} duration=1"):
            pass


def test_flows_wait_for_descriptors_of_those_before_them(tmp_path):
    with started(tmp_path, "prlimit", "--nofile=32:32") as server, ExitStack() as stack:
        control = stack.enter_context(server.asked(f"test=TCP_FLOWS port={DATA} count=60 size=2"))
        flows = [
            stack.enter_context(socket.create_connection(("127.0.0.1", DATA), timeout=20))
            for _ in range(60)
        ]
        for byte in (b"1", b"2"):
            for flow in flows:
                flow.sendall(byte)
        # The server closes each that it has whole.
        assert {flow.recv(1) for flow in flows} == {b""}
        control.sendall(b"end\n")
        assert report_of(control)["server_flows"] == 60
