"""The process that samples sockets: what it records, when, and how it ends."""

import asyncio
import contextlib
import gzip
import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samplers import running_sampler

from netesto.collectors import socketfile
from netesto.collectors.clock import Clock
from netesto.collectors.sampler import Sampled, Sampler, SocketCollector, launched, ranges
from netesto.collectors.sampling import Processors, tick, timer_without_ticks
from netesto.measured import SocketSample
from netesto.system import process

INTERVAL_S = 0.02
INTERVAL_NS = 5_000_000
DEADLINE_S = 60


@given(st.sets(st.integers(1, 65535)))
def test_ranges_hold_exactly_their_ports(ports):
    assert [port for first, last in ranges(ports) for port in range(first, last + 1)] == sorted(
        ports
    )


def test_neighbouring_ports_are_asked_for_as_a_range():
    assert ranges([7001, 5000, 7000, 7002]) == [(5000, 5000), (7000, 7002)]


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    with running_sampler() as sampler:
        yield sampler


@contextlib.asynccontextmanager
async def connection():
    """An open TCP connection over loopback that has carried three bytes; its server's port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(3))
        with contextlib.suppress(asyncio.CancelledError):
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


@contextlib.asynccontextmanager
async def collecting(collector: Sampled):
    async with asyncio.timeout(DEADLINE_S):
        await collector.start()
    yield
    async with asyncio.timeout(DEADLINE_S):
        await collector.stop()


def sampled(path: Path, sampler: Sampler, *, ticks: int) -> list[SocketSample]:
    """The record of a quiet connection after so many ticks."""

    async def run() -> None:
        collector = SocketCollector(path, Clock(), INTERVAL_S, sampler)
        async with connection() as port:
            collector.watch_ports([port])
            async with collecting(collector):
                is_there = lambda: len(socketfile.read(path)) >= 2 * ticks  # noqa: E731
                assert await process.wait_until_async(is_there, timeout=DEADLINE_S)

    asyncio.run(run())
    return socketfile.read(path)


def test_both_ends_of_a_connection_are_sampled(sampler, tmp_path):
    first = sampled(tmp_path / "sockets.bin.gz", sampler, ticks=1)[:2]
    assert [(sample.bytes_received, sample.bytes_sent) for sample in first] == [(3, 3), (3, 3)]


def test_samples_are_in_time_order(sampler, tmp_path):
    found = sampled(tmp_path / "sockets.bin.gz", sampler, ticks=3)
    times_s = [sample.time_s for sample in found]
    assert times_s == sorted(times_s)


def test_a_collector_that_is_held_takes_its_first_sample_at_the_instant_that_it_is_told(
    sampler, tmp_path
):
    path, clock = tmp_path / "cpu.jsonl", Clock()

    async def run() -> int:
        held = Sampled(path, clock, INTERVAL_S, sampler, is_held=True)
        async with collecting(held):
            first_ns = time.monotonic_ns() + 3 * INTERVAL_NS
            held.begin(first_ns)
            is_there = lambda: path.read_text().count("\n") > 1  # noqa: E731
            assert await process.wait_until_async(is_there, timeout=DEADLINE_S)
        return first_ns

    first_s = clock.at(asyncio.run(run()))
    times_s = [json.loads(line)["time_s"] for line in path.read_text().splitlines()]
    assert times_s[0] >= first_s - 1e-6


def test_samples_go_on_while_the_agent_computes(sampler, tmp_path):
    path = tmp_path / "sockets.bin.gz"

    async def run() -> bool:
        collector = SocketCollector(path, Clock(), INTERVAL_S, sampler)
        async with connection() as port, collecting(collector):
            collector.watch_ports([port])
            # The agent's event loop and its interpreter are occupied.
            return process.wait_until(lambda: len(socketfile.read(path)) >= 10, timeout=DEADLINE_S)

    assert asyncio.run(run())


def first_of_one_tick(folder: Path, sampler: Sampler, ahead_s: float) -> tuple[float, float] | None:
    """The instants of the first samples of sockets and of processors, whose first tick is in
    `ahead_s`; None if that was too soon. The sampler is frozen at this tick: afterwards it finds
    both due."""
    sockets, cpus = folder / "sockets.bin.gz", folder / "cpu.jsonl"

    def state() -> str:
        return Path(f"/proc/{sampler.pid}/stat").read_text().rpartition(")")[2].split()[0]

    async def run() -> bool:
        clock = Clock()
        second = Sampled(cpus, clock, INTERVAL_S, sampler, is_held=True)
        first = SocketCollector(sockets, clock, INTERVAL_S, sampler, is_held=True)
        async with connection() as port, collecting(second), collecting(first):
            first.watch_ports([port])
            tick_ns = time.monotonic_ns() + round(ahead_s * 10**9)
            second.begin(tick_ns)
            first.begin(tick_ns)
            # One that carries out another order has carried out these.
            async with collecting(Sampled(folder / "tcp.jsonl", clock, 60, sampler, is_held=True)):
                os.kill(sampler.pid, signal.SIGSTOP)
                assert process.wait_until(lambda: state() == "T", timeout=DEADLINE_S)
                is_early = time.monotonic_ns() < tick_ns
                process.wait_until(lambda: time.monotonic_ns() > tick_ns, timeout=DEADLINE_S)
                os.kill(sampler.pid, signal.SIGCONT)
            are_there = lambda: bool(cpus.read_text() and socketfile.read(sockets))  # noqa: E731
            assert await process.wait_until_async(are_there, timeout=DEADLINE_S)
        return is_early

    if not asyncio.run(run()):
        return None
    line = cpus.read_text().partition("\n")[0]
    return socketfile.read(sockets)[0].time_s, json.loads(line)["time_s"]


def test_at_the_same_tick_sockets_come_before_the_counters_of_the_host(
    sampler, tmp_path, monkeypatch
):
    # A frozen one is not replaced.
    monkeypatch.setattr("netesto.collectors.sampler._QUESTION_S", DEADLINE_S)
    found = None
    for ahead_s in (0.2, 2.0, 20.0):
        folder = tmp_path / f"{ahead_s}"
        folder.mkdir()
        found = found or first_of_one_tick(folder, sampler, ahead_s)
    assert found is not None
    assert found[0] < found[1]


def test_delays_of_ticks_do_not_add_up():
    earliest_ns = time.monotonic_ns()
    timer = timer_without_ticks()
    tick(timer, INTERVAL_NS, time.monotonic_ns())
    latest_ns = time.monotonic_ns()
    ticks = 0
    while ticks < 40:
        select.select([timer], [], [])
        before_ns = time.monotonic_ns()
        ticks += int.from_bytes(os.read(timer, 8), sys.byteorder)
        after_ns = time.monotonic_ns()
        # The first is at once. One that is read late counts with those that it has delayed.
        intervals = range(
            (before_ns - latest_ns) // INTERVAL_NS, (after_ns - earliest_ns) // INTERVAL_NS + 1
        )
        assert ticks - 1 in intervals
    os.close(timer)


def test_the_first_tick_of_a_timer_that_begins_late_is_at_once_and_the_next_as_if_it_had_not():
    first_ns = time.monotonic_ns() - 10 * INTERVAL_NS - INTERVAL_NS // 2
    timer = timer_without_ticks()
    tick(timer, INTERVAL_NS, first_ns)
    ticks = int.from_bytes(os.read(timer, 8), sys.byteorder)
    assert 11 <= ticks <= (time.monotonic_ns() - first_ns) // INTERVAL_NS + 1
    select.select([timer], [], [])
    assert time.monotonic_ns() - first_ns >= ticks * INTERVAL_NS
    assert int.from_bytes(os.read(timer, 8), sys.byteorder) >= 1
    os.close(timer)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one processor")
def test_a_sampler_that_sleeps_while_it_samples_shall_wake_up_on_one_processor_and_then_on_any():
    allowed = os.sched_getaffinity(0)
    processors = Processors()
    with processors.attended(0):
        time.sleep(0.001)

    def wait_in_vain() -> None:
        with processors.attended(0):
            is_on_one = lambda: len(os.sched_getaffinity(0)) == 1  # noqa: E731
            assert process.wait_until(is_on_one, timeout=DEADLINE_S)
            raise KeyError

    with pytest.raises(KeyError):
        wait_in_vain()
    assert os.sched_getaffinity(0) == allowed


# What the processes below do: wait, once for each tick, and say on which processors they may run.
WAITING = """\
import ctypes, os, resource, time
from netesto.collectors.sampling import Processors
{before}
processors = Processors()
for _ in range(20):
    with processors.attended(0):
        time.sleep(0.002)
print(sorted(os.sched_getaffinity(0)), flush=True)
# Under `make coverage`, an ordinary user cannot write what the end of Python would.
os._exit(0)
"""


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("os.sched_setaffinity(0, {0})", id="one processor"),
        pytest.param(
            "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)); os.setuid(65534)",
            id="an ordinary user who may start no thread",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
        ),
    ],
)
def test_a_sampler_that_cannot_go_to_another_processor_goes_on(before):
    told = process.run([sys.executable, "-c", WAITING.format(before=before)], timeout=DEADLINE_S)
    allowed = [0] if "affinity" in before else sorted(os.sched_getaffinity(0))
    assert (told.stdout, told.stderr) == (f"{allowed}\n", "")


def test_the_file_is_a_complete_gzip_file_when_the_collector_has_stopped(sampler, tmp_path):
    path = tmp_path / "sockets.bin.gz"
    sampled(path, sampler, ticks=1)
    assert gzip.decompress(path.read_bytes()).startswith(b'{"format": "netesto socket samples')


async def test_files_of_two_intervals_are_written_at_once(sampler, tmp_path):
    paths = [tmp_path / name for name in ("sockets.bin.gz", "sockets.2.bin.gz")]

    both = [SocketCollector(path, Clock(), INTERVAL_S, sampler) for path in paths]
    async with connection() as port, collecting(both[0]), collecting(both[1]):
        for collector in both:
            collector.watch_ports([port])
        are_there = lambda: all(len(socketfile.read(path)) >= 4 for path in paths)  # noqa: E731
        assert await process.wait_until_async(are_there, timeout=DEADLINE_S)


async def test_a_port_that_two_groups_watch_is_sampled_until_both_have_ended(sampler, tmp_path):
    path = tmp_path / "sockets.bin.gz"

    collector = SocketCollector(path, Clock(), INTERVAL_S, sampler)
    async with connection() as port:
        collector.watch_ports([port])
        collector.watch_ports([port])
        collector.unwatch([port])
        async with collecting(collector):
            is_there = lambda: len(socketfile.read(path)) >= 2  # noqa: E731
            assert await process.wait_until_async(is_there, timeout=DEADLINE_S)


async def test_a_file_that_cannot_be_written_is_a_warning(sampler, tmp_path):
    path = tmp_path / "missing" / "sockets.bin.gz"
    collector = SocketCollector(path, Clock(), INTERVAL_S, sampler)
    async with collecting(collector):
        pass
    assert collector.errors == ["sockets.bin.gz: No such file or directory"]


def test_stop_may_come_twice_and_without_start(sampler, tmp_path):
    path = tmp_path / "sockets.bin.gz"

    async def run() -> list[str]:
        collector = SocketCollector(path, Clock(), INTERVAL_S, sampler)
        await collector.stop()
        async with collecting(collector):
            pass
        await collector.stop()
        return collector.errors

    assert (asyncio.run(run()), socketfile.read(path)) == ([], [])


def interrupted(
    folder: Path, sampler: Sampler, *signs: signal.Signals
) -> tuple[list[str], list[str], dict[str, list[SocketSample]]]:
    """Warnings, losses and files of a quiet connection whose samplers get these signals, one after
    the other."""
    lost: list[str] = []

    def files() -> dict[str, list[SocketSample]]:
        return {path.name: socketfile.read(path) for path in sorted(folder.iterdir())}

    async def run() -> list[str]:
        path = folder / "sockets.bin.gz"
        collector = SocketCollector(path, Clock(), INTERVAL_S, sampler, on_loss=lost.append)
        async with connection() as port, collecting(collector):
            collector.watch_ports([port])
            for number, sign in enumerate(signs, start=1):
                samples = lambda: bool(lost) or len([*filter(None, files().values())]) >= number  # noqa: E731, B023
                assert await process.wait_until_async(samples, timeout=DEADLINE_S)
                os.kill(sampler.pid, sign)
            goes_on = lambda: bool(lost) or len([*filter(None, files().values())]) > len(signs)  # noqa: E731
            assert await process.wait_until_async(goes_on, timeout=DEADLINE_S)
        return collector.errors

    return asyncio.run(run()), lost, files()


def test_a_sampler_that_is_killed_is_replaced_and_the_gap_reported(sampler, tmp_path):
    errors, lost, files = interrupted(tmp_path, sampler, signal.SIGKILL)
    assert [*files] == ["sockets.again1.bin.gz", "sockets.bin.gz"]
    assert all(samples[0].bytes_received == 3 for samples in files.values() if samples)
    assert lost == []
    assert len(errors) == 1
    assert re.fullmatch(
        "the sampler was ended by SIGKILL and was restarted: no samples for [0-9.]+ s",
        errors[0],
    )


def test_a_sampler_that_is_frozen_is_replaced_and_the_gap_reported(sampler, tmp_path):
    errors, lost, files = interrupted(tmp_path, sampler, signal.SIGSTOP)
    assert files["sockets.again1.bin.gz"][0].bytes_received == 3
    assert (lost, len(errors)) == ([], 1)
    assert errors[0].startswith("the sampler did not respond and was restarted: no samples for")


def test_a_sampler_that_ends_again_and_again_is_a_loss(sampler, tmp_path):
    _, lost, files = interrupted(tmp_path, sampler, *4 * [signal.SIGKILL])
    assert lost == ["no further samples: the sampler was ended by SIGKILL, as 3 before it"]
    assert len(files) == 4


def test_a_sampler_that_was_killed_before_is_replaced(sampler, tmp_path):
    os.kill(sampler.pid, signal.SIGKILL)
    os.waitid(os.P_PID, sampler.pid, os.WEXITED | os.WNOWAIT)
    sampled(tmp_path / "sockets.bin.gz", sampler, ticks=0)
    assert sampler.pid


def test_an_experiment_after_a_loss_has_a_sampler_again(sampler, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    interrupted(tmp_path / "one", sampler, *4 * [signal.SIGKILL])
    _, lost, files = interrupted(tmp_path / "two", sampler, signal.SIGKILL)
    assert (lost, len(files)) == ([], 2)


def test_counters_go_on_in_their_file(sampler, tmp_path):
    path = tmp_path / "tcp.jsonl"

    async def run() -> list[str]:
        collector = Sampled(path, Clock(), INTERVAL_S, sampler)
        async with collecting(collector):
            lines = path.read_text().count("\n")
            os.kill(sampler.pid, signal.SIGKILL)
            goes_on = lambda: bool(collector.errors)  # noqa: E731
            assert await process.wait_until_async(goes_on, timeout=DEADLINE_S)
        assert path.read_text().count("\n") > lines
        return collector.errors

    assert len(asyncio.run(run())) == 1


def test_requests_to_end_do_not_end_it(sampler):
    """A request to end the agent's process group leaves it time to complete its files."""
    descriptor = os.pidfd_open(sampler.pid)
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(sampler.pid, sign)
    assert select.select([descriptor], [], [], 0.1)[0] == []
    sampler.close()
    assert select.select([descriptor], [], [], DEADLINE_S)[0] == [descriptor]
    os.close(descriptor)


def test_it_ends_well_when_the_agent_ends_without_reading_what_it_said():
    channel, child = launched()
    Sampler(channel, child).order(0, "answer")
    select.select([channel], [], [], DEADLINE_S)
    channel.close()
    assert child.exit_status() == 0
