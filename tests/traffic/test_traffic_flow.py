"""The program netesto-flow, over the loopback interface: one short flow each."""

import contextlib
import csv
import itertools
import json
import math
import os
import re
import resource
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from needs import unmet
from processes import serving

from netesto.results import completions
from netesto.system import process
from netesto.traffic.native import PROGRAM, Native


@pytest.fixture(scope="module", autouse=True)
def _program():
    if not PROGRAM.exists():
        unmet("native", "netesto-flow was not compiled: no C compiler")


REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of our own: its port."""
    port = 12_877
    with serving(Native().server_command(port), port, tmp_path_factory.mktemp("flow") / "log"):
        yield port


def flow(server, *words, port=12_878):
    """Run a client: its exit status, its last object, and what it said."""
    command = [str(PROGRAM), "client", "127.0.0.1", str(server), f"port={port}", *words]
    finished = process.run(command, timeout=60, check=False)
    lines = finished.stdout.splitlines()
    return finished.status, json.loads(lines[-1]) if lines else {}, finished.stderr


def result(server, *words):
    status, last, said = flow(server, *words)
    assert (status, said) == (0, "")
    return last


def test_bytes_of_a_stream_are_those_of_its_intervals(server):
    told = result(server, "test=TCP_STREAM", "duration=0.5", "interval=0.1")
    assert sum(told["server_received"]) == told["server_received_bytes"] > 0


def test_segments_with_data_are_at_least_those_of_the_bytes(server):
    got = result(server, "test=TCP_STREAM", "duration=0.2")
    assert got["client_data_segments"] * got["client_mss_bytes"] >= got["server_received_bytes"]


def test_the_window_is_the_duration_in_intervals(server):
    told = result(server, "test=TCP_MAERTS", "duration=0.5", "interval=0.2")
    assert len(told["client_received"]) == 3


def test_what_is_omitted_is_not_counted(server):
    told = result(server, "test=TCP_STREAM", "duration=0.2", "omit=0.2", "interval=0.1")
    assert sum(told["server_received"][2:]) == told["server_received_bytes"]


def test_both_directions_at_once(server):
    told = result(server, "test=TCP_BIDI", "duration=0.3", "interval=0.1", "parallel=2")
    assert min(told["client_received_bytes"], told["server_received_bytes"]) > 0


@pytest.mark.parametrize("way", ["msg", "sendfile"])
def test_data_is_sent_without_copies(way, server):
    told = result(server, "test=TCP_STREAM", "duration=0.3", f"zerocopy={way}", "skip_receive=1")
    assert told["server_received_bytes"] > 0


@pytest.mark.parametrize("test", ["TCP_RR", "TCP_CRR", "UDP_RR"])
def test_transactions_are_those_of_the_intervals(test, server):
    told = result(server, f"test={test}", "duration=0.3", "interval=0.1", "request=10", "reply=20")
    assert sum(told["client_transactions"]) == told["count"] > 0


def test_requests_at_a_rate_are_no_more_than_their_instants(server):
    # Fewer, if this machine is busy when they end.
    told = result(server, "test=TCP_RR", "duration=0.5", "rate=100")
    assert 0 < told["count"] <= 50


def test_a_late_reply_delays_the_latencies_of_the_requests_behind_it(server):
    # A request a microsecond: each begins long before the one ahead of it is answered.
    told = result(server, "test=TCP_RR", "duration=0.2", "rate=1000000")
    assert told["p90_ns"] > 20_000_000


def test_datagrams_of_a_rate_are_sent_or_counted_as_skipped(server):
    told = result(server, "test=UDP_STREAM", "duration=0.5", "bitrate=800000", "length=1000")
    assert told["sent"] + told["skipped"] == 50


def test_datagrams_that_arrive_are_those_that_were_sent(server):
    told = result(server, "test=UDP_STREAM", "duration=0.3", "bitrate=800000", "length=1000")
    assert (told["arrived"], sum(told["server_lost"]), sum(told["server_duplicates"])) == (
        told["sent"], 0, 0,
    )  # fmt: skip


def datagrams(server, *each, count, port=12_878):
    """What a server tells of these datagrams, `(number, sent in ms)`, of `count` sent in 300 ms."""
    with (
        socket.create_connection(("127.0.0.1", server)) as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
        control.makefile("rw") as lines,
    ):
        hello = process.run([str(PROGRAM), "version"], timeout=60).stdout.strip()
        lines.write(f"{hello} test=UDP_STREAM port={port} duration=0.3 interval=0.1\n")
        lines.flush()
        assert lines.readline() == "ready\n"
        for number, sent_ms in each:
            content = struct.pack("!QQ", number, sent_ms * 1_000_000) + bytes(84)
            data.sendto(content, ("127.0.0.1", port))
        lines.write(f"end {count} 300000000\n")
        lines.flush()
        found: dict[str, Any] = json.loads(lines.read())
        return found


def test_of_known_datagrams_the_server_counts_what_became_of_them(server):
    told = datagrams(server, (0, 10), (2, 110), (1, 60), (2, 110), (5, 180), count=8)
    counted = {key: told[f"server_{key}"] for key in ("arrived", "lost", "duplicates", "reordered")}
    # 3 and 4 were sent between 110 and 180 ms, 6 and 7 between 180 and 300 ms.
    assert counted == {
        "arrived": [2, 2, 0],
        "lost": [0, 2, 2],
        "duplicates": [0, 1, 0],
        "reordered": [1, 0, 0],
    }


def datagram_with_wrong_checksum(port: int) -> bytes:
    """Of UDP, without the IP header."""
    return struct.pack("!HHHH", 40_000, port, 8 + 100, 1) + bytes(100)


def test_datagrams_with_a_wrong_checksum_are_told_from_those_without_room(server):
    if os.geteuid():
        unmet("lab", "raw sockets need root")
    with (
        socket.create_connection(("127.0.0.1", server)) as control,
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as raw,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
        control.makefile("rw") as lines,
    ):
        hello = process.run([str(PROGRAM), "version"], timeout=60).stdout.strip()
        lines.write(f"{hello} test=UDP_STREAM port=12878 duration=0.3 interval=0.1\n")
        lines.flush()
        assert lines.readline() == "ready\n"
        for _ in range(3):
            raw.sendto(datagram_with_wrong_checksum(12_878), ("127.0.0.1", 0))
        data.sendto(struct.pack("!QQ", 0, 0) + bytes(84), ("127.0.0.1", 12_878))
        lines.write("end 1 300000000\n")
        lines.flush()
        told = json.loads(lines.read())
    # Other datagrams of this machine may be damaged, too.
    assert (told["arrived"], told["server_host_checksum_errors"] >= 3) == (1, True)
    assert told["server_dropped"] <= told["server_host_checksum_errors"]


def test_without_an_arrival_all_are_lost_when_they_were_sent(server):
    assert datagrams(server, count=3)["server_lost"] == [1, 1, 1]


# Of GBN_MESSAGES: a busy machine is no loss.
PATIENT = "rto=5"
SIZED = ["TCP_FLOWS", "TCP_MESSAGES", f"GBN_MESSAGES {PATIENT}"]


@pytest.mark.parametrize("test", SIZED)
def test_each_completion_has_a_line(test, server, tmp_path):
    path = tmp_path / "completions.csv"
    told = result(server, *f"test={test}".split(), "size=20000", "count=20", f"times={path}")
    with path.open(newline="") as file:
        rows = [(row["number"], row["bytes"], row["status"]) for row in csv.DictReader(file)]
    assert (told["count"], rows) == (20, [(str(n), "20000", "ok") for n in range(1, 21)])


@pytest.mark.parametrize(
    ("test", "of_flow"), [("TCP_FLOWS", 3), ("TCP_MESSAGES", 1), (f"GBN_MESSAGES {PATIENT}", 1)]
)
def test_each_completion_has_the_port_of_its_connection(test, of_flow, server, tmp_path):
    path = tmp_path / "completions.csv"
    result(server, *f"test={test}".split(), "size=2000", "count=3", f"times={path}")
    with path.open(newline="") as file:
        ports = {int(row["port"]) for row in csv.DictReader(file)}
    assert (len(ports), min(ports) > 0) == (of_flow, True)


@pytest.mark.parametrize("test", SIZED)
def test_arrivals_have_a_gap(test, server):
    told = result(server, *f"test={test}".split(), "size=1000", "count=11", "gap=0.01")
    assert told["elapsed_ns"] >= 100_000_000


def first_gap_s(seed: int, mean_s: float) -> float:
    """The first number of xorshift64*, as an exponential one (Marsaglia 2003; Vigna 2014)."""
    state, mask = seed * 2 + 1, 2**64 - 1
    state ^= state >> 12
    state ^= state << 25 & mask
    state ^= state >> 27
    uniform = ((state * 0x2545F4914F6CDD1D & mask) >> 11) + 1
    return -mean_s * math.log(uniform / 2**53)


@pytest.mark.parametrize("test", SIZED)
def test_the_first_transfer_of_a_poisson_process_has_a_gap_before_it_too(test, server):
    gap_s = first_gap_s(7, 0.1)
    words = (*f"test={test}".split(), "size=1000", "count=1", "gap=0.1", "arrivals=poisson")
    told = result(server, *words, "seed=7")
    assert told["elapsed_ns"] >= gap_s * 1e9 > 10_000_000


@pytest.mark.parametrize("test", ["TCP_FLOWS", "TCP_MESSAGES"])
def test_no_transfer_begins_after_the_duration_however_long_the_last_one_takes(test, server):
    slow = ("size=3000000", "pacing=20000000")  # about a second
    assert result(server, f"test={test}", "duration=0.4", *slow)["begun"] == 1


# The packets of GBN_MESSAGES, by hand: number and form, and bytes of the message.
DATA, ASKS, ACK, NAK = range(4)


def packet(number, form, size=0):
    return struct.pack("!QII", number, form, 0) + bytes(size)


class Receiver:
    """The other end of a client, by hand."""

    def __init__(self, *words, port=12_884):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.data = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # Room for all packets before the first is read.
        self.data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200_000)
        self.data.bind(("127.0.0.1", port))
        self.data.settimeout(60)
        own = self._listener.getsockname()[1]
        command = [str(PROGRAM), "client", "127.0.0.1", str(own), "test=GBN_MESSAGES"]
        self.client = subprocess.Popen(
            [*command, f"port={port}", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.control, _ = self._listener.accept()
        self.control.recv(1000)
        self.control.sendall(b"ready\n")

    def packets(self, count):
        """The next ones: number and form."""
        found = []
        for _ in range(count):
            content, self.sender = self.data.recvfrom(70_000)
            found.append(struct.unpack("!QI", content[:12]))
        return found

    def numbers(self, count):
        return [number for number, _ in self.packets(count)]

    def say(self, number, form):
        self.data.sendto(packet(number, form), self.sender)

    def end(self):
        """The client's exit status, result and words."""
        with contextlib.suppress(ConnectionResetError):
            self.control.recv(100)
            self.control.sendall(b"{}")
        for each in (self.control, self.data, self._listener):
            each.close()
        printed, said = self.client.communicate(timeout=60)
        return self.client.returncode, json.loads(printed or "{}"), said


def test_the_last_packet_of_a_message_and_every_32nd_ask_for_an_acknowledgement():
    peer = Receiver("size=100000", "count=1", PATIENT)
    asking = [number for number, form in peer.packets(98) if form == ASKS]
    peer.say(98, ACK)
    assert (asking, peer.end()[0]) == ([31, 63, 95, 97], 0)


def test_a_window_is_full_until_a_packet_is_acknowledged():
    peer = Receiver("size=100000", "count=1", "window=8", PATIENT)
    found = peer.packets(8)
    peer.say(3, ACK)
    found += peer.packets(3)
    peer.data.settimeout(0.2)
    with pytest.raises(TimeoutError):
        peer.packets(1)
    peer.client.kill()
    peer.end()
    # With a window below 32 packets its last one asks.
    assert found == [(number, ASKS if number == 7 else DATA) for number in range(11)]


def test_a_lost_packet_is_sent_again_with_all_behind_it():
    peer = Receiver("size=24387", "count=1", PATIENT)
    first = peer.numbers(24)
    peer.say(5, NAK)
    again = peer.numbers(19)
    peer.say(24, ACK)
    status, told, _ = peer.end()
    assert (status, first, again) == (0, list(range(24)), list(range(5, 24)))
    assert (told["client_retransmits"], told["failed"]) == (19, 0)


def test_without_progress_the_oldest_packet_and_all_behind_it_are_sent_again():
    peer = Receiver("size=70000", "count=1", "rto=2")
    first = peer.numbers(69)
    peer.say(32, ACK)
    again = peer.numbers(37)
    peer.say(69, ACK)
    status, told, _ = peer.end()
    assert (status, first, again) == (0, list(range(69)), list(range(32, 69)))
    assert told["max_ns"] >= 2_000_000_000


def test_seven_timeouts_in_a_row_fail_the_message_and_the_flow(tmp_path):
    path = tmp_path / "completions.csv"
    peer = Receiver("size=1000", "count=2", "rto=0.2", f"times={path}")
    found = peer.numbers(1)
    peer.say(1, ACK)
    # The first packet, and six after a timeout.
    while found.count(1) < 7:
        found += peer.numbers(1)
    status, _, said = peer.end()
    with path.open(newline="") as file:
        rows = [(row["retransmits"], row["status"]) for row in csv.DictReader(file)]
    assert (status, said) == (
        1,
        "netesto-flow: message 2: no acknowledgement in 7 timeouts of 200 ms\n",
    )
    # The acknowledgement of the first message comes late if this machine is busy.
    late = found.count(0) - 1
    assert (found, rows) == (
        [0] * (late + 1) + [1] * 7,
        [(f"{late}", "ok"), ("6", "failed")],
    )


def test_what_no_receiver_says_is_ignored():
    peer = Receiver("size=24387", "count=1", PATIENT)
    peer.packets(24)
    for number, form in ((25, ACK), (2**64 - 1, ACK), (2**63, NAK), (24, DATA), (24, 9)):
        peer.say(number, form)
    peer.data.sendto(b"short", peer.sender)
    peer.data.sendto(packet(24, ACK, 5), peer.sender)
    peer.say(23, NAK)
    again = peer.numbers(1)
    peer.say(24, ACK)
    status, told, _ = peer.end()
    assert (status, again, told["client_retransmits"]) == (0, [23], 1)


def answers(server, *packets, window=128):
    """What a server answers to packets of messages of 3000 bytes, and what it took."""
    with (
        socket.create_connection(("127.0.0.1", server)) as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
        control.makefile("rw") as lines,
    ):
        hello = process.run([str(PROGRAM), "version"], timeout=60).stdout.strip()
        words = f"test=GBN_MESSAGES port=12885 size=3000 count=9 window={window}"
        lines.write(f"{hello} {words}\n")
        lines.flush()
        assert lines.readline() == "ready\n"
        data.connect(("127.0.0.1", 12_885))
        data.settimeout(20)
        # The last of them repeats packet 0, which asks: its answer comes behind all others.
        for content in (*packets, packet(0, ASKS, 1024)):
            data.send(content)
        found: list[tuple[int, int]] = []
        while not found or found[-1][1] != ACK:
            found.append(struct.unpack("!QI", data.recv(100)[:12]))
        lines.write("end\n")
        lines.flush()
        return found, json.loads(lines.read())["server_received_bytes"]


def test_a_receiver_says_once_which_packet_it_misses(server):
    first, third = packet(0, DATA, 1024), packet(2, ASKS, 952)
    assert answers(server, first, third, third, packet(3, DATA, 1024)) == (
        [(1, NAK), (1, ACK)],
        1024,
    )


def test_a_receiver_says_again_what_it_misses_when_that_came_and_another_is_missing(server):
    sent = [packet(n, DATA, 952 if n % 3 == 2 else 1024) for n in (0, 2, 1, 3, 4)]
    assert answers(server, *sent) == ([(1, NAK), (2, NAK), (2, ACK)], 2048)


def test_a_receiver_ignores_what_no_sender_sends(server):
    odd = [
        packet(2**64 - 1, ASKS, 1024),
        packet(5, ASKS, 952),  # beyond the window
        packet(0, ASKS, 1000),  # of another size
        packet(0, ACK, 1024),
        b"short",
    ]
    assert answers(server, *odd, window=4) == ([(1, ACK)], 1024)


def test_the_server_gets_each_flow_whole(server):
    told = result(server, "test=TCP_FLOWS", "size=100000", "count=10")
    assert (told["server_flows"], told["server_received_bytes"]) == (10, 1_000_000)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("test=TCP_STREAM",), "the option duration is required"),
        (("test=TCP_STREAM", "duration=1", "speed=1"), "unknown option: speed=1"),
        (("test=TCP_STREAM", "duration=-1"), "invalid option: duration=-1"),
        (("test=SCTP_STREAM", "duration=1"), "invalid option: test=SCTP_STREAM"),
        (
            ("test=TCP_STREAM", "duration=1", "congestion_control=nonesuch"),
            "congestion control nonesuch: No such file or directory",
        ),
        (
            ("test=TCP_STREAM", "duration=1", "reverse_congestion_control=nonesuch"),
            "server: congestion control nonesuch: No such file or directory",
        ),
        (("test=TCP_STREAM", "duration=1", "server_cpu=1023"), "server: processors 1023: "),
        (("test=UDP_STREAM", "duration=1", "length=4"), "datagrams of 4 bytes"),
        (("test=TCP_FLOWS", "size=1", "count=1", "arrivals=poisson"), "arrivals=poisson needs"),
        (("test=TCP_STREAM", "duration=1001", "interval=0.001"), "more than 1000000 intervals"),
    ],
)
def test_a_flow_that_cannot_be_says_why(words, reason, server):
    status, _, said = flow(server, *words)
    assert (status, said.startswith(f"netesto-flow: {reason}")) == (1, True), said


def test_a_port_in_use_is_reported(server):
    status, _, said = flow(server, "test=TCP_STREAM", "duration=1", port=server)
    assert (status, said) == (
        1,
        f"netesto-flow: server: cannot listen on port {server}: Address already in use\n",
    )


def test_without_a_server_the_client_says_so():
    status, _, said = flow(12_879, "test=TCP_STREAM", "duration=1")
    assert (status, said) == (1, "netesto-flow: cannot connect: Connection refused\n")


def test_a_stranger_of_the_server_is_reported_with_what_it_is(server):
    said = process.run(
        ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{server}; echo hello >&3; cat <&3"], timeout=60
    )
    assert said.stdout == "error this is netesto-flow, not another tool's server\n"


def test_options_in_the_program_and_in_its_commands_are_the_same(ask, ports):
    source = (PROGRAM.parent / "source" / "options.c").read_text()
    known = set(re.findall(r'^    \{"(\w+)", ', source, re.MULTILINE))
    request = ask(test="TCP_RR", parallel=2, mss_bytes=1, dscp=1, length_bytes=1, zerocopy="msg")
    used = {word.partition("=")[0] for word in Native().client_command(request, ports, 1)[4:]}
    assert used <= known


def test_the_manual_reads_all_times(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = result(server, "test=TCP_RR", "duration=0.2", "times=times.1.1")
    text = (REPOSITORY / "docs" / "data-formats.md").read_text()
    (code,) = re.findall(r"```python\n(import numpy\n.*?)```", text, re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)
    latencies = found["latencies_ns"]
    assert [len(latencies), latencies.min(), latencies.max()] == [
        told["count"],
        told["min_ns"],
        told["max_ns"],
    ]


def test_a_file_that_is_there_is_not_written_over(server, tmp_path):
    path = tmp_path / "times"
    path.write_text("measured before")
    status, _, said = flow(server, "test=TCP_RR", "duration=0.1", f"times={path}")
    assert (status, said, path.read_text()) == (
        1,
        f"netesto-flow: {path}: File exists\n",
        "measured before",
    )


@pytest.mark.parametrize(
    "words",
    [
        "TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR", "UDP_STREAM bitrate=80000000", "UDP_RR",
        "KV_RR", "TCP_FLOWS size=1000", "TCP_MESSAGES size=1000", "GBN_MESSAGES size=1000 rto=5",
    ],
)  # fmt: skip
def test_the_load_at_the_server_is_that_of_the_time_under_load_as_at_the_client(server, words):
    options = f"test={words} duration=0.4 port=12878 hold=1".split()
    # Both ends read the load of this machine, in ticks of 10 ms. Without a flow it may be idle.
    # Where others compute too, one end may read it later than the other: the best of five flows.
    for _ in range(5):
        with held("client", "127.0.0.1", str(server), *options) as (child, _, line):
            line.readline()
            line.write(f"{time.monotonic_ns() + 900_000_000}\n")
            line.flush()
            printed, _ = child.communicate(timeout=60)
        told = json.loads(printed.splitlines()[-1])
        if abs(told["server_cpu_percent"] - told["client_cpu_percent"]) <= 12:
            break
    assert told["server_cpu_percent"] == pytest.approx(told["client_cpu_percent"], abs=12)


def test_a_slow_stream_without_copies_waits_instead_of_polling(server):
    before_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    result(server, "test=TCP_STREAM", "duration=1", "zerocopy=msg", "bitrate=1000000")
    after_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = after_s.ru_utime + after_s.ru_stime - before_s.ru_utime - before_s.ru_stime
    assert took_s < 0.5


@contextlib.contextmanager
def held(*words):
    """A process that waits for its start, the other end of its standard input, and what it says."""
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    with (
        ours,
        subprocess.Popen(
            [str(PROGRAM), *words],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child,
    ):
        theirs.close()
        try:
            yield child, ours, ours.makefile("rw")
        finally:
            child.kill()


def test_a_held_flow_is_ready_and_begins_at_the_instant_that_it_is_told(server):
    words = ("client", "127.0.0.1", str(server), "test=TCP_RR", "duration=0.1", "hold=1")
    with held(*words, "port=12881") as (_, _, line):
        ready = line.readline()
        start = time.monotonic_ns() + 100_000_000
        line.write(f"{start}\n")
        line.flush()
        word, begun = line.readline().split()
    # Not before; how late is a question of how busy the machine is.
    assert (ready, word, int(begun) >= start) == ("ready\n", "begun", True)


def test_a_held_flow_ends_with_the_agent(server):
    words = ("client", "127.0.0.1", str(server), "test=TCP_RR", "duration=0.1", "hold=1")
    with held(*words, "port=12882") as (child, ours, line):
        line.readline()
        ours.shutdown(socket.SHUT_RDWR)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (1, b"netesto-flow: ended before its start\n")


def test_a_rate_is_kept():
    """A byte in a microsecond, in writes of 1000. A sender that a busy machine delays is behind for
    a while: the test ends when it has caught up, and at a lower rate it never does."""
    words = ("test=TCP_STREAM", "duration=60", "bitrate=8000000", "length=1000", "hold=1")
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:
        listener.settimeout(60)
        server = str(listener.getsockname()[1])
        _, _, line = stack.enter_context(held("client", "127.0.0.1", server, "port=12884", *words))
        control = stack.enter_context(listener.accept()[0])
        control.recv(1000)
        with socket.create_server(("127.0.0.1", 12_884)) as data:
            control.sendall(b"ready\n")
            connection = stack.enter_context(data.accept()[0])
        assert line.readline() == "ready\n"
        line.write(f"{time.monotonic_ns()}\n")
        line.flush()
        began_ns = int(line.readline().split()[1])
        size, passed_us, most_ahead_us = 0, 0.0, 0.0
        while passed_us < 500_000 or size < 0.99 * passed_us:
            size += len(connection.recv(1_000_000))
            passed_us = (time.monotonic_ns() - began_ns) / 1000
            most_ahead_us = max(most_ahead_us, size - passed_us)
            assert passed_us < 30_000_000, f"{size} bytes in {passed_us} us"
    # A write is sent when what is before it is due.
    assert most_ahead_us <= 1000


def test_a_low_rate_is_kept_in_a_short_time(server):
    told = result(server, "test=TCP_STREAM", "duration=1", "bitrate=1000000")
    # The first segment of 1448 bytes is sent at once, and none before its instant. The server's
    # second begins when it has read the first: on a busy machine later.
    passed_us = 1_000_000 + told["server_received_after_ns"] / 1000
    assert told["server_received_bytes"] <= (passed_us // (8 * 1448) + 1) * 1448


def test_a_held_flow_fails_when_its_server_ends(tmp_path):
    words = ("client", "127.0.0.1", "12879", "test=TCP_RR", "duration=0.1", "hold=1")
    with contextlib.ExitStack() as stack:
        command = Native().server_command(12_879)
        server = stack.enter_context(serving(command, 12_879, tmp_path / "log"))
        child, _, line = stack.enter_context(held(*words, "port=12883"))
        line.readline()
        process.end(server)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (1, b"netesto-flow: the server has ended\n")


def test_another_tool_is_started_at_its_instant_with_nothing_to_read():
    script = "cat; date +%s%N"
    with held("at", "/bin/sh", "-c", script) as (child, _, line):
        ready = line.readline()
        start, utc = time.monotonic_ns() + 100_000_000, time.time_ns() + 100_000_000
        line.write(f"{start}\n")
        line.flush()
        begun = int(line.readline().split()[1])
        printed, _ = child.communicate(timeout=60)
    # The clocks were read one after the other.
    assert (ready, begun >= start, int(printed) >= utc - 1_000_000) == ("ready\n", True, True)


def test_a_server_that_sends_waits_for_the_word_of_its_client(server):
    client = Client(server, "test=TCP_MAERTS port=12878 duration=0.1")
    data = client.data(12_878)
    data.settimeout(0.2)
    with pytest.raises(TimeoutError):
        data.recv(1)
    client.say("go\n")
    data.settimeout(60)
    assert len(data.recv(1)) == 1
    data.close()
    client.close()


def test_a_store_has_what_was_set(server):
    told = result(server, "test=KV_RR", "duration=0.3", "size=1000", "get=500000")
    assert (told["count"] > told["gets"] > 0, told["misses"]) == (True, 0)


def test_a_store_has_room_for_all_keys_of_long_values(server):
    # 500 requests fill it, if there is a new key in every other.
    told = result(server, "test=KV_RR", "duration=2", "size=1000000", "get=0")
    assert told["exchanges"] == told["sent_bytes"] // 1_000_000 > 0


class Client:
    """A client of the server that says what it has to, word for word."""

    def __init__(self, server: int, options: str) -> None:
        self._control = socket.create_connection(("127.0.0.1", server), timeout=60)
        self._control.sendall(f"netesto-flow 4 {options}\n".encode())
        assert self._control.recv(100) == b"ready\n"

    def data(self, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), timeout=60)

    def say(self, words: str) -> None:
        self._control.sendall(words.encode())

    def end(self) -> None:
        self._control.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """When the server has closed its end, its ports are free."""
        with contextlib.suppress(OSError):
            self.end()
        while self._control.recv(1000):
            pass
        self._control.close()

    def rest(self) -> list[str]:
        """The lines until the server closes its end."""
        with self._control.makefile() as lines:
            return lines.read().splitlines()


def test_a_stream_that_got_nothing_while_it_lasted_is_a_measurement_of_nothing(server):
    client = Client(server, "test=TCP_STREAM port=12880 duration=0.2 interval=0.1")
    with client.data(12880):
        client.say("nothing\n")
        done, said = client.rest()
        client.close()
    told = json.loads(said)
    assert (done, told["server_received_bytes"], told["server_received"]) == ("done", 0, [0, 0])


def test_a_stream_whose_client_ends_before_its_data_has_failed(server):
    client = Client(server, "test=TCP_STREAM port=12880 duration=0.2 interval=0.1")
    with client.data(12880):
        client.say("")
        client.end()
        assert client.rest() == ["error the client has ended"]
        client.close()


def test_a_reverse_stream_that_got_nothing_while_it_lasted_is_a_measurement_of_nothing():
    with (
        socket.create_server(("127.0.0.1", 12_876)) as control,
        socket.create_server(("127.0.0.1", 12_878)) as data,
        subprocess.Popen(
            [
                PROGRAM,
                "client",
                "127.0.0.1",
                "12876",
                "test=TCP_MAERTS",
                "port=12878",
                "duration=0.2",
            ],
            stdout=subprocess.PIPE,
        ) as running,
    ):
        connection, _ = control.accept()
        with connection, connection.makefile("rw") as lines:
            lines.readline()
            lines.write("ready\n")
            lines.flush()
            silent, _ = data.accept()
            with silent:
                assert (lines.readline(), lines.readline()) == ("go\n", "done\n")
                lines.write("{}")
                lines.flush()
                connection.shutdown(socket.SHUT_WR)
                output, _ = running.communicate(timeout=60)
    told = json.loads(output.splitlines()[-1])
    assert (running.returncode, told["client_received_bytes"]) == (0, 0)


@pytest.mark.parametrize(
    ("said", "replied"),
    [
        ("set a 5 0 3\r\nxyz\r\nget a \r\n", "STORED\r\nVALUE a 5 3\r\nxyz\r\nEND\r\n"),
        ("get none\r\n", "END\r\n"),
        ("set a 0 0 0\r\n\r\nget a\r\n", "STORED\r\nVALUE a 0 0\r\n\r\nEND\r\n"),
        (
            "set a 0 0 1\r\nx\r\nset a 0 0 2\r\nyz\r\nget a\r\n",
            "STORED\r\nSTORED\r\nVALUE a 0 2\r\nyz\r\nEND\r\n",
        ),
        ("set a 0 0 2\r\nxyz\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
        (f"get {'k' * 251}\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("erase a\r\n", "ERROR\r\n"),
    ],
)
def test_the_store_speaks_the_protocol_of_memcached(said, replied, server):
    client = Client(server, "test=KV_RR port=12880 duration=1")
    with client.data(12880) as data:
        data.sendall(said.encode())
        got = b""
        while len(got) < len(replied):
            got += data.recv(1000)
    client.close()
    assert got.decode() == replied


def test_datagrams_may_be_marked_on_their_path(server):
    told = result(server, "test=UDP_STREAM", "duration=0.1", "bitrate=800000", "ecn=1")
    assert (told["arrived"], told["marked"]) == (told["sent"], 0)


def test_each_end_of_both_directions_has_its_congestion_control(server):
    # Those that an ordinary user may have.
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    if len(allowed) < 2:
        pytest.skip(f"this kernel allows users {allowed} alone")
    one, other = allowed[:2]
    words = (f"congestion_control={one}", f"reverse_congestion_control={other}")
    told = result(server, "test=TCP_BIDI", "duration=0.2", *words)
    assert [told[f"{end}_congestion_control"] for end in ("client", "server")] == [one, other]


@pytest.mark.parametrize(
    ("cpus", "is_valid"), [("0", True), ("0-0", True), ("0,", True), ("1-0", False), ("a", False)]
)
def test_processors_are_a_list(cpus, is_valid, server):
    status, _, _ = flow(server, "test=TCP_RR", "duration=0.05", f"client_cpu={cpus}")
    assert (status == 0) == is_valid


def stall(listener: socket.socket, port: int, stall_s: float) -> None:
    """A server of TCP_RR that lets its fifth request wait."""
    control, _ = listener.accept()
    control.recv(1000)
    with control, socket.create_server(("127.0.0.1", port)) as data:
        control.sendall(b"ready\n")
        connection, _ = data.accept()
        # A client drops its connection at the end: one request may be on its way, or its reply.
        with connection, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for number in itertools.count(1):
                if not connection.recv(1):
                    break
                if number == 5:
                    time.sleep(stall_s)
                connection.sendall(b"x")
        assert control.recv(100) == b"end\n"
        control.sendall(b"{}")


def test_every_request_that_a_stall_delays_has_the_delay_in_its_latency(tmp_path):
    path = tmp_path / "times.1.1"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=stall, args=(listener, 12881, 0.2))
        server.start()
        words = ("test=TCP_RR", "duration=1", "rate=500", f"times={path}")
        told = flow(listener.getsockname()[1], *words, port=12881)
        server.join()
    assert told[0] == 0, told
    # One is due every 2 ms, and each is answered behind the one before it.
    times_us = completions.read(path)
    assert times_us.max() >= 200_000
    assert (times_us[1:] - times_us[:-1]).min() >= -2000.01


def swallow(listener: socket.socket, port: int, connections: list[socket.socket]) -> None:
    """A server whose data connections are accepted and not read, until the client has ended."""
    control, _ = listener.accept()
    control.recv(1000)
    with control, socket.create_server(("127.0.0.1", port)) as data:
        control.sendall(b"ready\n")
        connections.append(data.accept()[0])
        while (said := control.recv(100)) and said != b"end\n":
            pass
        control.sendall(b"{}" if said else b"")


@pytest.mark.parametrize("test", ["TCP_RR", "TCP_CRR"])
def test_a_request_that_takes_longer_than_its_flow_ends_with_it(test):
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=swallow, args=(listener, 12883, connections))
        server.start()
        words = (f"test={test}", "duration=0.2", "request=100000000")
        status, told, said = flow(listener.getsockname()[1], *words, port=12883)
        server.join()
    connections[0].close()
    assert (status, told["count"], said) == (0, 0, "")


def read_to_the_end(connection: socket.socket) -> str:
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionResetError:
        return "reset"
    return "closed"


@pytest.mark.parametrize("test", ["TCP_STREAM", "TCP_BIDI"])
def test_what_a_killed_flow_still_held_is_dropped(test):
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = threading.Thread(target=swallow, args=(listener, 12884, connections))
        server.start()
        words = [str(PROGRAM), "client", "127.0.0.1", str(port), "port=12884"]
        with subprocess.Popen([*words, f"test={test}", "duration=60"]) as child:
            while not connections or not connections[0].recv(1, socket.MSG_PEEK):
                time.sleep(0.01)
            child.kill()
        server.join()
    with connections[0] as held_by_server:
        assert read_to_the_end(held_by_server) == "reset"


def test_a_silent_control_connection_is_the_reason_before_the_agent_ends_the_flow():
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=mute, args=(listener, connections))
        server.start()
        words = ("test=UDP_STREAM", "duration=0.1", "bitrate=1000000")
        status, _, said = flow(listener.getsockname()[1], *words, port=12886)
        server.join()
    connections[0].close()
    assert (status, said) == (
        1,
        "netesto-flow: the other end's results did not arrive: the control connection is silent\n",
    )


def mute(listener: socket.socket, connections: list[socket.socket]) -> None:
    control, _ = listener.accept()
    control.recv(1000)
    control.sendall(b"ready\n")
    connections.append(control)


def test_datagrams_last_for_the_duration_also_if_only_one_is_due_in_it(server):
    began = time.monotonic()
    told = result(server, "test=UDP_STREAM", "duration=1", "bitrate=1000", "length=1000")
    assert (told["sent"], time.monotonic() - began >= 1) == (1, True)


def test_requests_without_a_reply_are_counted_after_omit():
    """Nobody answers: of the requests at 0, 1 and 2 s the first is omitted, the last in flight."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        data.bind(("127.0.0.1", 12885))
        server = threading.Thread(target=ignore, args=(listener,))
        server.start()
        words = ("test=UDP_RR", "duration=2", "omit=0.5", "request=10", "reply=10")
        status, told, _ = flow(listener.getsockname()[1], *words, port=12885)
        server.join()
    assert (status, told["count"], told["lost"]) == (0, 0, 1)


def ignore(listener: socket.socket) -> None:
    control, _ = listener.accept()
    with control:
        control.recv(1000)
        control.sendall(b"ready\n")
        assert control.recv(100) == b"end\n"
        control.sendall(b"{}")


def test_a_request_of_a_trace_without_a_reply_fails_when_the_trace_ends(tmp_path):
    trace, lines = tmp_path / "trace.txt", tmp_path / "trace.csv"
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_server(("127.0.0.1", 0)) as silent_store,
    ):
        port, data = listener.getsockname()[1], silent_store.getsockname()[1]
        trace.write_text(f"P b 127.0.0.1 {port} {data}\nS 0 0 key value\n")
        words = ("test=TRACE_KV", f"trace={trace}", f"lines={lines}", "duration=0.3")
        client = subprocess.Popen(
            [str(PROGRAM), "client", "127.0.0.1", str(port), f"port={data}", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        control, _ = listener.accept()
        with control, control.makefile() as told:
            told.readline()
            control.sendall(b"ready\n")
            assert "end\n" in told
            control.sendall(b"done\n")
            said = client.communicate(timeout=60)[1]
    with lines.open(newline="") as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["failed: no reply"]
    assert said == "netesto-flow: all failed, the first: no reply\n"
