import asyncio
import signal
import socket
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest

from netesto.collectors import capture
from netesto.model import CaptureRequest
from netesto.system import process

# An address of lo that nothing else on this machine talks to.
PEER = IPv4Address("127.77.0.1")


def request(*, packets: int = 10, snap_bytes: int = 0, peer: str | None = None) -> CaptureRequest:
    address = None if peer is None else ip_address(peer)
    return CaptureRequest(exp=1, host="a", peer=address, packets=packets, snap_bytes=snap_bytes)


def test_a_capture_for_a_peer_has_its_command():
    wanted = request(packets=1000, snap_bytes=100, peer="10.0.0.2")
    assert capture.command(Path("/x/a.pcap"), wanted, "eth0", is_root=True) == [
        "tcpdump", "-n", "-U", "--immediate-mode", "-B", "2048", "-i", "eth0", "-c", "1000",
        "-s", "100", "-w", "/x/a.pcap", "-Z", "root", "host", "10.0.0.2",
    ]  # fmt: skip


def test_a_capture_of_everything_has_its_command():
    assert capture.command(Path("/x/a.pcap"), request(), "eth0", is_root=False) == [
        "tcpdump", "-n", "-U", "--immediate-mode", "-B", "2048", "-i", "eth0", "-c", "10",
        "-s", "0", "-w", "/x/a.pcap",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("packets", "snap_bytes", "kib"),
    [(10, 0, 2048), (100_000, 128, 25_000), (100_000, 0, 65_536)],
)
def test_the_buffer_holds_what_is_asked_for_within_limits(packets, snap_bytes, kib):
    assert capture._buffer_kib(request(packets=packets, snap_bytes=snap_bytes)) == kib


def test_dropped_packets_are_read():
    said = "3125 packets captured\n6558 packets received by filter\n3422 packets dropped by kernel"
    assert capture.packets_of(capture.DROPPED, said) == 3422


def send(count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(count):
            sender.sendto(b"x", (str(PEER), 9))


def reported(collector: capture.CaptureCollector) -> list[str]:
    """Its errors, but for packets that the kernel drops when other tests fill the loopback."""
    return [each for each in collector.errors if "the kernel dropped" not in each]


def packets_in(path: Path, *which: str) -> int:
    argv = ["tcpdump", "-n", "-r", str(path), *which]
    return len(process.run(argv, timeout=60).stdout.splitlines())


@pytest.mark.lab
def test_a_capture_that_ends_at_its_limit_says_so_and_what_raises_it(tmp_path):
    path = tmp_path / "a.pcap"

    async def run() -> capture.CaptureCollector:
        collector = capture.CaptureCollector(path, request(packets=3, peer=str(PEER)), "lo")
        await collector.start()
        send(5)
        assert await process.wait_until_async((tmp_path / "a.log").exists, timeout=60)
        await collector.stop()
        return collector

    warning = (
        "a.pcap: the capture ended at its limit of 3 packets; packets= of DO_TCPDUMP raises it."
        " Columns pkt… need all packets of a flow"
    )
    assert (reported(asyncio.run(run())), packets_in(path)) == ([warning], 3)


@pytest.mark.lab
async def test_a_capture_ends_at_the_size_that_its_host_allows(tmp_path):
    path = tmp_path / "a.pcap"
    collector = capture.CaptureCollector(
        path, request(packets=1000, peer=str(PEER)), "lo", most_bytes=1024
    )
    await collector.start()
    send(100)
    assert await process.wait_until_async((tmp_path / "a.log").exists, timeout=60)
    await collector.stop()
    warning = (
        "a.pcap: the capture ended at the limit of its host, 1.02 kB (captures in its agent.toml)."
        " Columns pkt… need all packets of a flow"
    )
    assert (reported(collector), path.stat().st_size) == ([warning], 1024)


@pytest.mark.lab
def test_a_stopped_capture_has_all_that_was_sent_before(tmp_path):
    path = tmp_path / "a.pcap"

    async def run() -> capture.CaptureCollector:
        collector = capture.CaptureCollector(path, request(packets=1000, peer=str(PEER)), "lo")
        await collector.start()
        send(5)
        # A packet is in the file as soon as tcpdump has seen it.
        await process.wait_until_async(lambda: packets_in(path, "udp") >= 5, timeout=60)
        await collector.stop()
        await collector.stop()
        return collector

    assert (reported(asyncio.run(run())), packets_in(path, "udp")) == ([], 5)


@pytest.mark.lab
async def test_a_device_that_is_not_there_is_a_warning(tmp_path):
    collector = capture.CaptureCollector(tmp_path / "a.pcap", request(), "nothing0")
    await collector.start()
    await collector.stop()

    (said,) = collector.errors
    assert said.startswith("tcpdump exited 1: ")


@pytest.mark.lab
async def test_a_capture_that_somebody_ended_is_a_warning_although_tcpdump_exited_0(tmp_path):
    collector = capture.CaptureCollector(tmp_path / "a.pcap", request(peer=str(PEER)), "lo")
    await collector.start()
    assert collector._job is not None
    collector._job.send(signal.SIGTERM)
    assert await process.wait_until_async((tmp_path / "a.log").exists, timeout=60)
    await collector.stop()
    assert reported(collector) == ["a.pcap: tcpdump was ended by a signal, before the end"]


@pytest.mark.usefixtures("no_tools")
async def test_a_missing_tcpdump_is_a_warning(tmp_path):
    collector = capture.CaptureCollector(tmp_path / "a.pcap", request(), "lo")
    await collector.start()
    await collector.stop()
    assert collector.errors == ["no capture: tcpdump: cannot start: No such file or directory"]
