import asyncio
import contextlib
import gzip
import operator
import os
import resource
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto import process
from netesto.collectors import sockdiag, socketfile, sockets, sstext
from netesto.collectors.clock import Clock
from netesto.collectors.sockdiag import SocketDiagnosis
from netesto.collectors.socketfile import Recorder
from netesto.model import SocketSample

# ---- the kernel's reports --------------------------------------------------------------------


@given(st.sets(st.integers(1, 65535)))
def test_ranges_hold_exactly_their_ports(ports):
    ranges = sockets._ranges(ports)
    assert [port for first, last in ranges for port in range(first, last + 1)] == sorted(ports)


def test_neighbouring_ports_are_asked_for_as_a_range():
    assert sockets._ranges([7001, 5000, 7000, 7002]) == [(5000, 5000), (7000, 7002)]


def reported(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    with contextlib.closing(SocketDiagnosis()) as diagnosis:
        return diagnosis.sockets(ranges)


@pytest.fixture(params=["127.0.0.1", "::1"])
def server_port(request) -> Iterator[int]:
    """The server's port of a quiet TCP connection over loopback that has carried some data."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((request.param, port)) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"x" * 100_000)
                left = 100_000
                while left:
                    left -= len(accepted.recv(left))
                yield port


def test_the_kernel_reports_to_us_what_it_reports_to_ss(server_port, tmp_path):
    words = f"( sport = :{server_port} or dport = :{server_port} )"
    printed = process.run(["ss", "-tiOHn", words], timeout=5).stdout
    recorder = Recorder(sockdiag.tcp_info_bytes())
    recorder.add(1.0, 1.0, reported([(server_port, server_port)]))
    path = tmp_path / "sockets.bin.gz"
    path.write_bytes(recorder.end())
    by_port = operator.attrgetter("local_port")
    assert sorted(socketfile.read(path), key=by_port) == sorted(
        [sstext.parse(line, 1.0) for line in printed.splitlines()], key=by_port
    )


def test_a_port_within_a_range_is_reported(server_port):
    assert len(reported([(server_port - 1, server_port + 1)])) >= 2


def test_of_many_ports_the_last_is_reported_like_the_first(server_port):
    others = [(port, port) for port in range(2, 402, 2)]
    both = ([(server_port, server_port), *others], [*others, (server_port, server_port)])
    assert [len(reported(ranges)) for ranges in both] == [2, 2]


def test_other_ports_are_not_reported(server_port):
    assert reported([(server_port - 1, server_port - 1), (2, 2), (3, 9)]) == []


# ---- the collector ---------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def connection():
    """An open TCP connection over loopback that has carried three bytes; its server's port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(3))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"abc")
    await reader.readexactly(3)
    try:
        yield port
    finally:
        writer.close()
        server.close()


def sampled(path: Path, *, ticks: int) -> list[SocketSample]:
    """What a collector has written of a quiet connection after so many ticks."""

    async def run() -> None:
        collector = sockets.SocketCollector(path, Clock(), 0.02)
        async with connection() as port:
            collector.watch([port])
            await collector.start()
            is_there = lambda: len(socketfile.read(path)) >= 2 * ticks  # noqa: E731
            assert await process.wait_until_async(is_there, timeout=10)
            await collector.stop()

    asyncio.run(run())
    return socketfile.read(path)


def test_both_ends_of_a_connection_are_sampled(tmp_path):
    first = sampled(tmp_path / "sockets.bin.gz", ticks=1)[:2]
    assert [(sample.bytes_received, sample.bytes_sent) for sample in first] == [(3, 3), (3, 3)]


def test_samples_are_in_time_order(tmp_path):
    times_s = [sample.time_s for sample in sampled(tmp_path / "sockets.bin.gz", ticks=3)]
    assert times_s == sorted(times_s)


def test_file_is_a_complete_gzip_file_when_the_collector_has_stopped(tmp_path):
    path = tmp_path / "sockets.bin.gz"
    sampled(path, ticks=1)
    assert gzip.decompress(path.read_bytes()).startswith(b'{"format": "netesto socket samples')


def test_ports_no_longer_watched_are_not_sampled(tmp_path):
    path = tmp_path / "sockets.bin.gz"
    collector = sockets.SocketCollector(path, Clock(), 0.02)
    collector.watch([1, 2])
    collector.unwatch([1, 2])
    path.write_bytes(asyncio.run(collector._look()))
    assert socketfile.read(path) == []


def test_a_kernel_that_refuses_is_a_warning(tmp_path):
    async def run() -> list[str]:
        collector = sockets.SocketCollector(tmp_path / "sockets.bin.gz", Clock(), 0.02)
        with no_more_files():
            await collector.start()
        await collector.stop()
        return collector.errors

    assert asyncio.run(run()) == [
        "socket samples are missing: Too many open files",
        "the final counts of sockets are missing: Too many open files",
        "sockets.bin.gz: Too many open files",
    ]


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """The kernel refuses to open any more files and sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as last:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
