import asyncio
import signal
from ipaddress import IPv4Address, ip_address

import pytest

from netesto import process
from netesto.collectors import ping
from netesto.collectors.clock import Clock, SetTime
from netesto.measured import PingSample


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
    path.write_text(train(1) + "@system-ahead 60.250000\n")
    assert ping.read(path) == [PingSample(39.75, 1.0, 1)]


def replies(*found: tuple[float, int, float]) -> str:
    return "".join(
        f"[{time_s:.6f}] 64 bytes from 10.0.0.2: icmp_seq={number} ttl=64 time={rtt_ms:g} ms\n"
        for time_s, number, rtt_ms in found
    )


def test_replies_after_the_system_time_was_set_are_on_the_agents_clock_too(tmp_path):
    path = tmp_path / "ping"
    sent = replies((9.2, 1, 10), (9.4, 2, 10), (3609.6, 3, 10), (3609.8, 4, 10))
    path.write_text(sent + "@system-ahead 1.000000\n@system-ahead 3601.000000\n")
    # Whether the last reply before came before is not known.
    assert [(round(each.time_s, 3), each.number) for each in ping.read(path)] == [
        (8.2, 1),
        (8.6, 3),
        (8.8, 4),
    ]


def test_replies_on_the_way_when_the_system_time_was_set_are_left_out(tmp_path):
    path = tmp_path / "ping"
    # Of the second one ping knows that it left later than it came back.
    sent = replies((7209.2, 1, 10), (3609.4, 2, 0), (3609.6, 3, 10), (3609.8, 4, 10))
    path.write_text(sent + "@system-ahead 3600.000000\n@system-ahead 0.000000\n")
    assert [(round(each.time_s, 3), each.number) for each in ping.read(path)] == [
        (3609.6, 3),
        (3609.8, 4),
    ]


def test_a_system_time_that_was_set_after_the_last_reply_moves_none(tmp_path):
    path = tmp_path / "ping"
    sent = replies((9.2, 1, 10), (9.4, 2, 10))
    path.write_text(sent + "@system-ahead 1.000000\n@system-ahead 1.500000\n")
    assert [round(each.time_s, 3) for each in ping.read(path)] == [8.2, 8.4]


def test_ping_is_asked_for_times_and_no_names():
    assert ping.command(ip_address("fd00::1"), 0.2) == [
        "ping", "-D", "-n", "-i", "0.2", "fd00::1",
    ]  # fmt: skip


async def test_a_train_over_loopback_has_its_summary_in_the_file(tmp_path):
    path = tmp_path / "ping"

    collector = ping.PingCollector(path, SetTime(Clock()), IPv4Address("127.0.0.1"), 0.05)
    await collector.start()
    await process.wait_until_async(lambda: "icmp_seq=2" in path.read_text(), timeout=5)
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
            SetTime(Clock()),
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

    collector = ping.PingCollector(path, SetTime(Clock()), IPv4Address("127.0.0.1"))
    await collector.start()
    await process.wait_until_async(lambda: "icmp_seq=1" in path.read_text(), timeout=5)
    assert collector._job is not None
    collector._job.send(signal.SIGSTOP)
    await collector.stop()

    (said,) = collector.errors
    assert said.startswith(
        "ping 127.0.0.1 was ended by SIGKILL at the end, being stopped or hung: ["
    )


@pytest.mark.usefixtures("no_tools")
async def test_a_missing_ping_is_a_warning(tmp_path):
    collector = ping.PingCollector(tmp_path / "ping", SetTime(Clock()), IPv4Address("127.0.0.1"))

    await collector.start()
    await collector.stop()
    assert collector.errors == [
        "round trips are not measured: ping: cannot start: No such file or directory"
    ]


def test_replies_of_a_time_that_was_set_and_set_back_are_in_order(tmp_path):
    sent = [0.0, 0.2, 0.4, 3600.6, 3600.8, 1.0, 1.2]
    lines = [
        f"[{1000 + time_s + 0.01:.6f}] 64 bytes from 127.0.0.1: icmp_seq={number} ttl=64"
        " time=10.0 ms\n"
        for number, time_s in enumerate(sent, start=1)
    ]
    lines += [f"@system-ahead {each:.6f}\n" for each in (0, 3600, 0)]
    (tmp_path / "ping").write_text("".join(lines))
    times = [round(each.time_s - 1000, 2) for each in ping.read(tmp_path / "ping")]
    # Without those that were on the way.
    assert times == [0.01, 0.21, 0.61, 1.01, 1.21]
