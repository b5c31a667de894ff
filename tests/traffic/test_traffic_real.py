"""The tools of this machine, over the loopback interface: one short flow each."""

import pytest
from processes import serving

from netesto.system import process
from netesto.traffic.iperf3 import Iperf3
from netesto.traffic.netperf import Netperf

pytestmark = pytest.mark.usefixtures("real_tools")


def run_netperf(request, ports):
    tool = Netperf()
    command = tool.client_command(request, ports, 1)
    finished = process.run(command, timeout=tool.deadline_s(request))
    return tool.parse(finished.stdout, request, started_s=0.0)


def run_iperf3(request, ports, folder):
    tool, (port,) = Iperf3(), ports.data
    with serving(tool.server_command(port), port, folder / "server.log"):
        command = tool.client_command(request, ports, 1)
        finished = process.run(command, timeout=tool.deadline_s(request))
    return tool.parse(finished.stdout, request, started_s=0.0)


def test_netperf_tells_its_version():
    tool = Netperf()
    finished = process.run(tool.version_command(), timeout=60)
    assert tool.parse_version(finished.stdout).startswith("2.")


def test_iperf3_tells_its_version():
    tool = Iperf3()
    finished = process.run(tool.version_command(), timeout=60)
    assert tool.parse_version(finished.stdout).startswith("3.")


@pytest.mark.parametrize("test", ["TCP_STREAM", "TCP_MAERTS", "UDP_STREAM"])
def test_netperf_streams(test, ask_loopback, netserver):
    assert run_netperf(ask_loopback(test=test), netserver).rate_bps > 0


@pytest.mark.parametrize("test", ["TCP_RR", "UDP_RR"])
def test_netperf_answers_requests(test, ask_loopback, netserver):
    request = ask_loopback(test=test, request_bytes=100, reply_bytes=100)
    assert run_netperf(request, netserver).p99_latency_us


@pytest.mark.parametrize("test", ["TCP_STREAM", "TCP_MAERTS", "UDP_STREAM"])
def test_iperf3_streams(test, ask_loopback, free_ports, tmp_path):
    result = run_iperf3(ask_loopback(test=test), free_ports, tmp_path)
    assert result.rate_bps > 0


def test_iperf3_intervals_cover_the_flow(ask_loopback, free_ports, tmp_path):
    result = run_iperf3(ask_loopback(), free_ports, tmp_path)
    covered_s = sum(interval.end_s - interval.start_s for interval in result.intervals)
    assert covered_s == pytest.approx(result.elapsed_s, rel=0.1)


def test_netperf_refused_says_why(ask_loopback, free_ports):
    tool, request = Netperf(), ask_loopback()
    command = tool.client_command(request, free_ports, 1)
    finished = process.run(command, timeout=tool.deadline_s(request), check=False)
    assert "are you sure there is a netserver listening" in tool.failure(
        finished.stdout + finished.stderr
    )


def test_iperf3_refused_says_why(ask_loopback, free_ports):
    tool, request = Iperf3(), ask_loopback()
    command = tool.client_command(request, free_ports, 1)
    finished = process.run(command, timeout=tool.deadline_s(request), check=False)
    assert "Connection refused" in tool.failure(finished.stdout + finished.stderr)
