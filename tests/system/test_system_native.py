"""tool=native in simulated time, where the correct values are known to the microsecond."""

import csv
import struct
from pathlib import Path

import numpy as np
import pytest
from captured_frames import frames
from needs import kernel_or_reason
from whole_runs import Outcome, netesto, run_script

from netesto.results import completions, sockets

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

# In the last experiment the path is cut between the eleventh and the twelfth flow, and mended when
# all that began later have been given up.
SCRIPT = """\
LAB pair rate=10mbit delay=5
FOR test IN TCP_FLOWS,TCP_MESSAGES DO
    DO_SERVER exp=COUNTER host=b expName=$test start=1
    DO_CLIENT host=a server=b test=$test tool=native size=1000 count=5 gap=50ms dur=5
    DO_CLIENT host=a server=b test=$test tool=native size=14480 count=1 dur=5 delay=1
    WAIT_FLOWS
    PROCESS_EXP
DONE
FOR test IN TCP_BIDI,KV_RR DO
    DO_SERVER exp=COUNTER host=b expName=$test start=1
    DO_CLIENT host=a server=b test=$test tool=native dur=1 interval=50ms
    WAIT_FLOWS
    PROCESS_EXP
DONE
DO_SERVER exp=COUNTER host=b expName=Cut start=1
DO_CLIENT host=a server=b test=TCP_FLOWS tool=native size=1000 count=20 gap=1 dur=30 hold=1 \\
    interval=5
START_FLOWS lead=1
WAIT 10.5
SET_NETEM host=a netem_delay=0 loss=100
WAIT 42
SET_NETEM host=a netem_delay=0
WAIT_FLOWS
PROCESS_EXP
FOR loss IN 0,1 DO
    SET_LINK host=a to=b loss=$loss
    DO_SERVER host=b exp=COUNTER expName=messages start=1
    DO_CLIENT host=a server=b test=GBN_MESSAGES size=1500 count=500 rto=100ms
    WAIT_FLOWS
    PROCESS_EXP
DONE
SET_LINK host=a to=b loss=0 delay=5.000501
DO_SERVER host=b exp=COUNTER expName=delayed start=1
DO_CLIENT host=a server=b test=GBN_MESSAGES size=1500 count=5 rto=100ms
WAIT_FLOWS
PROCESS_EXP
SET_LINK host=a to=b dir=to loss=5 delay=5
SET_LINK host=a to=b dir=from loss=10 delay=5
DO_SERVER host=b exp=COUNTER expName=naks start=1
DO_TCPDUMP host=a server=b packets=20000 snap=96
DO_TCPDUMP host=b server=a packets=20000 snap=96
DO_CLIENT host=a server=b test=GBN_MESSAGES size=1500 count=500 rto=100ms
WAIT_FLOWS
PROCESS_EXP
"""

RTT_US = 10_000
RATE_BPS = 10e6
# A full segment, and an acknowledgement: Ethernet, IPv4 and TCP with time stamps.
FRAME_BYTES, ACK_BYTES = 1514, 66
SYN_BYTES = 74


def sent_us(*frames: int) -> float:
    """What it takes to send frames of so many bytes, one after the other."""
    return sum(frames) * 8 / RATE_BPS * 1e6


# A connection begins with a SYN each way.
HANDSHAKE_US = RTT_US + sent_us(SYN_BYTES, SYN_BYTES)
# A transfer of 1000 bytes: the last acknowledgement of the handshake, the data, and the reply.
FLOW_US = RTT_US + sent_us(ACK_BYTES, 1000 + ACK_BYTES, ACK_BYTES)
MESSAGE_US = RTT_US + sent_us(1000 + ACK_BYTES, ACK_BYTES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("native")
    (folder / "script.nts").write_text(SCRIPT)
    checked = netesto(folder, "check", "script.nts")
    assert (checked.status, checked.stdout) == (0, "no errors or warnings\n"), checked.stderr
    return run_script(folder, SCRIPT, ["--ground", "sim", "--seed", "1"])


def lines(run: Outcome, exp: int, group: int) -> list[dict[str, str]]:
    path = Path(run.out, str(exp), "raw", "a", f"completions.{group}.1.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("exp", "took_us"), [(1, FLOW_US), (2, MESSAGE_US)])
def test_a_transfer_takes_a_round_trip_and_the_time_to_send_its_frames(exp, took_us, run):
    times = [float(line["us"]) for line in lines(run, exp, 1)]
    assert times == [pytest.approx(took_us, abs=0.01)] * 5


def test_a_longer_transfer_takes_the_time_of_its_frames_too(run):
    (line,) = lines(run, 1, 2)
    frames_us = sent_us(ACK_BYTES, *[FRAME_BYTES] * 10, ACK_BYTES)
    assert float(line["us"]) == pytest.approx(RTT_US + frames_us, abs=0.05)


def test_an_incomplete_transfer_is_counted_and_in_no_percentile(run):
    (row,) = (row for row in run.rows if row["exp"] == "5.1")
    found = [float(row[name]) for name in ("latencies", "unfinished", "maxLatency")]
    assert found == pytest.approx([11, 9, FLOW_US], abs=0.11)


def test_the_time_of_an_incomplete_transfer_is_in_no_rate(run):
    # The last began after 10 s and had a handshake; the others were waited for until 59 s.
    took_s = 10 + (HANDSHAKE_US + FLOW_US) / 1e6
    assert float(group_values(run, 5)["rate"]) == pytest.approx(0.088 / took_s, abs=1e-6)


def test_an_incomplete_transfer_has_no_time(run):
    found = lines(run, 5, 1)
    assert [line["status"] == "ok" for line in found] == [True] * 11 + [False] * 9
    assert {line["us"] for line in found[11:]} == {""}


def test_the_run_warns_of_incomplete_transfers(run):
    assert "9 of 20 transfers were not completed: no percentile has them" in run.stderr


def row_of(run: Outcome, name: str) -> dict[str, str]:
    return next(row for row in run.rows if row["expName"] == name)


def test_both_directions_of_a_stream_have_nearly_the_rate_of_the_link(run):
    row = row_of(run, "TCP_BIDI")
    both = [float(row[name]) for name in ("rate", "reverseRate")]
    assert row["status"] == "ok"
    assert both == pytest.approx([RATE_BPS / 1e6 * 1448 / FRAME_BYTES] * 2, rel=0.1)


def test_a_request_to_a_store_takes_a_round_trip(run):
    row = row_of(run, "KV_RR")
    fastest_us, slowest_us = (RTT_US + sent_us(each, each) for each in (ACK_BYTES, FRAME_BYTES))
    assert row["status"] == "ok"
    assert fastest_us < float(row["p50Latency"]) < slowest_us
    assert 1e6 / slowest_us - 1 <= float(row["latencies"]) <= 1e6 / fastest_us


# ---- two sources of one value ------------------------------------------------------------------


def group_values(run: Outcome, exp: int, group: int = 1) -> dict[str, str]:
    """The values of a group."""
    text = Path(run.out, str(exp), f"a-b-{group}.exp.out").read_text()
    return dict(line.split(":", 1) for line in text.splitlines())


def test_the_rate_of_a_transfer_is_its_size_by_its_line_and_its_handshake(run):
    (line,) = lines(run, 1, 2)
    took_us = HANDSHAKE_US + float(line["us"])
    assert float(group_values(run, 1, 2)["rate"]) == pytest.approx(14480 * 8 / took_us, rel=1e-4)


@pytest.mark.parametrize(("column", "receiver"), [("rate", "b"), ("reverseRate", "a")])
def test_each_direction_of_a_stream_is_what_its_receivers_socket_counted(column, receiver, run):
    samples = sockets.read(Path(run.out, "3", "raw", receiver, "sockets.bin.gz"))
    (flow,) = run.manifest(3)["groups"][0]["instances"]
    # A second from the first byte on.
    end_s = flow["started_s"] + RTT_US / 2e6 + 1
    size = np.interp(end_s, sockets.times_s(samples), samples["tcpi_bytes_received"])
    assert float(group_values(run, 3)[column]) == pytest.approx(size * 8 / 1e6, rel=0.06)


def test_latencies_of_requests_are_those_of_their_times(run):
    values = group_values(run, 4)
    times_us = completions.read(Path(run.out, "4", "raw", "a", "times.1.1"))
    shares = {"p50Latency": 50, "p90Latency": 90, "p99Latency": 99, "maxLatency": 100}
    assert {name: float(values[name]) for name in shares} == {
        name: pytest.approx(np.percentile(times_us, percent), abs=0.001)
        for name, percent in shares.items()
    }
    counts = [float(values[name]) for name in ("latencies", "transactionRate")]
    assert counts == [len(times_us)] * 2


# Two packets of a message behind their headers: Ethernet, IPv4, UDP and the packet's own.
PACKETS_US = sent_us(58 + 1024, 58 + 476)
REPLY_US = RTT_US + sent_us(58)


def test_a_message_takes_a_round_trip_and_the_time_to_send_its_packets(run):
    found = {(line["us"], line["retransmits"]) for line in lines(run, 6, 1)}
    ((told_us, again),) = found
    assert float(told_us) == pytest.approx(PACKETS_US + REPLY_US, abs=0.01)
    assert again == "0"


def test_a_lost_packet_costs_a_round_trip_and_a_lost_last_packet_the_timeout(run):
    found = {(float(line["us"]), line["retransmits"]) for line in lines(run, 7, 1)}
    clean_us = PACKETS_US + REPLY_US
    # Behind a lost first packet the second one comes, and a NAK goes back.
    right = [(clean_us, "0"), (2 * clean_us, "2"), (100_000 + clean_us, "2")]
    exact, others = set(), set()
    for us, again in found:
        late = [(us - least, kind) for kind, (least, sent) in enumerate(right) if sent == again]
        if near := [kind for by, kind in late if abs(by) < 0.01]:
            exact.add(near[0])
        # Behind a ping, or its reply.
        elif not any(0 < by < 2 * sent_us(98) for by, _ in late):
            others.add((us, again))
    assert (exact, others) == ({0, 1, 2}, set())


def test_the_delay_of_a_link_is_exact_to_the_nanosecond(run):
    told_us = {line["us"] for line in lines(run, 8, 1)}
    assert {round(float(us) - PACKETS_US - REPLY_US, 3) for us in told_us} == {1.006}


# Of the packets of GBN_MESSAGES (traffic/native/source/gobackn.c): the number, and what it is.
UDP, UDP_HEADERS_BYTES, NAK = 17, 42, 3


def naks(run: Outcome, host: str) -> list[tuple[float, int]]:
    """When those of the ninth experiment passed a host, and the numbers that they ask for."""
    [capture] = Path(run.out, "9", "raw", host).glob("capture.*.pcap")
    found = []
    for time_s, frame in frames(capture):
        if len(frame) >= UDP_HEADERS_BYTES + 12 and frame[23] == UDP:
            number, form = struct.unpack_from("!QI", frame, UDP_HEADERS_BYTES)
            if form == NAK:
                found.append((time_s, number))
    return found


def test_a_lost_nak_costs_the_timeout(run):
    arrived = {number for _, number in naks(run, "a")}
    lost = [(time_s, number) for time_s, number in naks(run, "b") if number not in arrived]
    waited = []
    for line in lines(run, 9, 1):
        start_s, took_us = float(line["start_s"]), float(line["us"])
        # Only the first packet of a message is one behind which another comes.
        if any(start_s < at_s < start_s + took_us / 1e6 for at_s, _ in lost):
            waited.append(took_us)
    least_us = 100_000 + PACKETS_US + REPLY_US
    assert len(waited) >= len(lost) > 0
    assert min(waited) == pytest.approx(least_us, abs=0.01)
