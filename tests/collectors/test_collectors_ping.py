import asyncio
from ipaddress import IPv4Address, ip_address

import pytest

from netesto import process
from netesto.collectors import ping
from netesto.collectors.clock import Clock
from netesto.model import PingSample


def test_every_echo_that_came_back_is_a_sample(fixtures):
    assert ping.read(fixtures / "ping-20221126-ipv6.txt") == [
        PingSample(1795183379.196773, 0.052),
        PingSample(1795183379.400363, 0.069),
        PingSample(1795183379.604380, 0.047),
    ]


def test_lost_echoes_are_counted_and_are_no_samples(fixtures):
    path = fixtures / "ping-20221126-loss.txt"
    assert (len(ping.read(path)), ping.lost(path)) == (9, 3)


def test_echoes_that_came_late_are_not_lost(fixtures):
    path = fixtures / "ping-20221126-late.txt"
    samples = ping.read(path)
    assert (len(samples), ping.lost(path)) == (12, 0)
    assert samples[5] == PingSample(1795183220.336435, 1004.0)


def test_a_host_that_cannot_be_reached_loses_every_echo(fixtures):
    path = fixtures / "ping-20221126-unreachable.txt"
    assert (ping.read(path), ping.lost(path)) == ([], 20)


def train(*sequences: int, rtt_ms: float = 1.0) -> str:
    return "".join(
        f"[{100 + number}.000000] 64 bytes from 10.0.0.2: icmp_seq={sequence} ttl=64"
        f" time={rtt_ms:g} ms\n"
        for number, sequence in enumerate(sequences)
    )


def summary(sent: int, received: int, elapsed_ms: int) -> str:
    return f"{sent} packets transmitted, {received} received, 0% packet loss, time {elapsed_ms}ms\n"


def test_the_last_echo_may_still_have_been_on_its_way(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1, 2, 3) + summary(4, 3, 600))
    assert ping.lost(path) == 0


def test_as_many_echoes_may_have_been_on_their_way_as_fit_into_a_round_trip(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1, 2, 3, rtt_ms=450.0) + summary(6, 3, 1000))
    assert ping.lost(path) == 0


def test_an_outage_at_the_end_is_loss(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1, 2, 3) + summary(9, 3, 1600))
    assert ping.lost(path) == 5


def test_silence_from_the_beginning_is_loss(tmp_path):
    path = tmp_path / "ping"
    path.write_text(summary(5, 0, 800))
    assert ping.lost(path) == 4


def test_a_killed_ping_has_lost_what_was_overtaken(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1, 2, 5))
    assert ping.lost(path) == 2


def test_the_count_goes_on_when_the_number_begins_anew(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(*range(1, 65536), 0, 1, 3))
    assert (ping.lost(path), len(ping.read(path))) == (1, 65538)


def test_of_an_echo_that_came_twice_the_first_counts(tmp_path):
    path = tmp_path / "ping"
    again = "[101.000000] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=9.0 ms (DUP!)\n"
    path.write_text(train(1) + again)
    assert ping.read(path) == [PingSample(100.0, 1.0)]


def test_a_last_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1, 2)[:-4])
    assert ping.read(path) == [PingSample(100.0, 1.0)]


def test_times_are_brought_to_the_clock_of_the_agent(tmp_path):
    path = tmp_path / "ping"
    path.write_text(train(1) + "@system-ahead 60.250000\n")
    assert ping.read(path) == [PingSample(39.75, 1.0)]


def test_ping_is_asked_for_times_and_no_names():
    assert ping.command(ip_address("fd00::1"), 0.2) == [
        "ping", "-D", "-n", "-i", "0.2", "fd00::1",
    ]  # fmt: skip


def test_a_train_over_loopback_has_its_summary_in_the_file(tmp_path):
    path = tmp_path / "ping"

    async def run() -> ping.PingCollector:
        collector = ping.PingCollector(path, Clock(), IPv4Address("127.0.0.1"), 0.05)
        await collector.start()
        await process.wait_until_async(lambda: "icmp_seq=2" in path.read_text(), timeout=5)
        await collector.stop()
        await collector.stop()
        return collector

    collector = asyncio.run(run())
    assert "packets transmitted" in path.read_text()
    assert (collector.errors, ping.lost(path)) == ([], 0)


def test_a_ping_that_ends_early_is_a_warning(tmp_path):
    # Without -b, ping refuses a broadcast address.
    told: asyncio.Queue[str] = asyncio.Queue()

    async def run() -> str:
        collector = ping.PingCollector(
            tmp_path / "ping",
            Clock(),
            IPv4Address("255.255.255.255"),
            on_warning=told.put_nowait,
        )
        await collector.start()
        said = await told.get()
        await collector.stop()
        return said

    assert asyncio.run(run()).startswith("ping 255.255.255.255 ended early, exit status 2: ")


@pytest.mark.usefixtures("no_tools")
def test_a_missing_ping_is_a_warning(tmp_path):
    collector = ping.PingCollector(tmp_path / "ping", Clock(), IPv4Address("127.0.0.1"))

    async def run() -> None:
        await collector.start()
        await collector.stop()

    asyncio.run(run())
    assert collector.errors == [
        "round trips are not measured: ping: cannot start: No such file or directory"
    ]
