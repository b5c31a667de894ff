import asyncio
import signal
from ipaddress import IPv4Address, ip_address

import pytest

from netesto.collectors import ping
from netesto.measured import PingSample
from netesto.system import process


def test_every_echo_that_came_back_is_a_sample(fixtures):
    assert ping.read(fixtures / "ping-20221126-ipv6.txt") == [
        PingSample(1795183379.196773, 0.052, 1),
        PingSample(1795183379.400363, 0.069, 2),
        PingSample(1795183379.604380, 0.047, 3),
    ]


def test_lost_echoes_are_no_samples(fixtures):
    assert len(ping.read(fixtures / "ping-20221126-loss.txt")) == 9


def test_echoes_that_came_late_are_samples(fixtures):
    samples = ping.read(fixtures / "ping-20221126-late.txt")
    assert (len(samples), samples[5]) == (12, PingSample(1795183220.336435, 1004.0, 6))


def test_a_host_that_cannot_be_reached_gives_no_samples(fixtures):
    assert ping.read(fixtures / "ping-20221126-unreachable.txt") == []


def train(*sequences: int, rtt_ms: float = 1.0) -> str:
    return "".join(
        f"[{100 + number}.000000] 64 bytes from 10.0.0.2: icmp_seq={sequence} ttl=64"
        f" time={rtt_ms:g} ms\n"
        for number, sequence in enumerate(sequences)
    )


def test_of_an_echo_that_came_twice_the_first_counts(tmp_path):
    path = tmp_path / "ping"
    again = "[101.000000] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=9.0 ms (DUP!)\n"
    path.write_text(train(1) + again)
    assert ping.read(path) == [PingSample(100.0, 1.0, 1)]


def test_numbers_go_on_where_those_of_packets_begin_again(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(65534, 65535, 0, 2, 1))
    assert [each.number for each in ping.read(path)] == [65534, 65535, 65536, 65538, 65537]


def test_a_last_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1, 2)[:-4])
    assert ping.read(path) == [PingSample(100.0, 1.0, 1)]


def test_times_are_brought_to_the_clock_of_the_agent(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1))
    assert ping.read(path, system_ahead_s=60.25) == [PingSample(39.75, 1.0, 1)]


def test_ping_is_asked_for_times_and_no_names():
    assert ping.command(ip_address("fd00::1"), 0.2) == [
        "ping", "-D", "-n", "-i", "0.2", "fd00::1",
    ]  # fmt: skip


async def test_a_train_over_loopback_has_its_summary_in_the_file(tmp_path):
    path = tmp_path / "ping"

    collector = ping.PingCollector(path, IPv4Address("127.0.0.1"), 0.05)
    await collector.start()
    await process.wait_until_async(lambda: "icmp_seq=2" in path.read_text(), timeout=60)
    await collector.stop()
    await collector.stop()

    assert "packets transmitted" in path.read_text()
    assert collector.errors == []
    assert len(ping.read(path)) >= 2


def test_a_ping_that_ends_early_is_a_warning(tmp_path):
    # Without -b, ping refuses a broadcast address.
    told: asyncio.Queue[str] = asyncio.Queue()

    async def run() -> str:
        collector = ping.PingCollector(
            tmp_path / "ping",
            IPv4Address("255.255.255.255"),
            on_warning=told.put_nowait,
        )
        await collector.start()
        said = await told.get()
        await collector.stop()
        return said

    assert asyncio.run(run()).startswith("ping 255.255.255.255 exited 2 early: ")


@pytest.mark.lab
async def test_a_ping_that_was_stopped_is_a_warning_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.1)
    path = tmp_path / "ping"

    collector = ping.PingCollector(path, IPv4Address("127.0.0.1"))
    await collector.start()
    await process.wait_until_async(lambda: "icmp_seq=1" in path.read_text(), timeout=60)
    assert collector._job is not None
    collector._job.send(signal.SIGSTOP)
    await collector.stop()

    (said,) = collector.errors
    assert said.startswith(
        "ping 127.0.0.1 was ended by SIGKILL at the end, being stopped or hung: ["
    )


@pytest.mark.usefixtures("no_tools")
async def test_a_missing_ping_is_a_warning(tmp_path):
    collector = ping.PingCollector(tmp_path / "ping", IPv4Address("127.0.0.1"))

    await collector.start()
    await collector.stop()
    assert collector.errors == [
        "round trips are not measured: ping: cannot start: No such file or directory"
    ]
