"""Which of the documents in a client's output is its result."""

import pytest
from imports_trees import output

from netesto.imports import evidence, formats, iperf3
from netesto.imports.tree import File


def test_a_long_document_that_was_cut_off_hides_no_whole_one_behind_it():
    long = output(10, streams=8, seconds=200)
    found = iperf3.read((long[: len(long) * 3 // 4] + "\n" + output(20)).encode())
    assert (found.sent, found.documents) == (iperf3.Sent(20e9, 0), 1)


def test_a_text_of_v_tells_what_a_document_tells():
    found = iperf3.read(TEXT.encode())
    told = found.document or {}
    assert (found.sent, found.received_bps, found.duration_s, found.documents) == (
        iperf3.Sent(200.269e6, 3),
        200.21e6,
        2.0,
        0,
    )
    assert (evidence.congestion_control(told), evidence.mss_bytes(told)) == ("bbr", 8948)
    assert told["start"]["test_start"] == {
        "protocol": "TCP",
        "num_streams": 2,
        "omit": 1,
        "duration": 2,
    }


@pytest.mark.parametrize(
    ("unit", "bps"), [("Kbits", 1126e3), ("bits", 1126.0), ("MBytes", 1126 * 8 * 2**20)]
)
def test_rates_of_a_text_are_in_bits_of_thousands_or_bytes_of_1024(unit, bps):
    line = f"[  4]   0.00-10.00  sec  11.0 GBytes  1126 {unit}/sec   21             sender\n"
    assert iperf3.read(line.encode()).sent == iperf3.Sent(bps, 21)


def test_an_error_without_a_text_is_an_error():
    document = output(5).replace('"start"', '"error": " ", "start"', 1)
    found = iperf3.read(document.encode())
    assert (found.sent, found.kind, found.reason) == (None, "error", "an error without a text")


def test_the_intervals_of_a_text_are_those_of_all_streams():
    told = iperf3.read(TEXT.encode()).document or {}
    assert [
        (each["sum"]["end"], each["sum"]["bits_per_second"], each["sum"]["omitted"])
        for each in told["intervals"]
    ] == [(1.0, 301.312e6, True), (1.0, 201.312e6, False), (2.0, 199.227e6, False)]


def test_the_lost_datagrams_of_a_text_are_those_of_the_receiver():
    found = iperf3.read(UDP.encode())
    assert (found.sent, found.received_bps) == (iperf3.Sent(100e6), 99e6)
    told = iperf3.at(found.document, "end", "sum_received")
    assert [iperf3.at(told, key) for key in ("jitter_ms", "lost_packets", "packets")] == [
        0.004,
        7,
        763,
    ]


def test_the_first_of_two_streams_of_events_counts():
    streams = [
        f'{{"event":"start","data":{{}}}}\n{{"event":"interval","data":{{"sum":{{}}}}}}\n'
        f'{{"event":"end","data":{{"sum_sent":{{"bits_per_second":{rate}}}}}}}\n'
        for rate in (5, 7)
    ]
    found = iperf3.read("".join(streams).encode())
    assert (found.sent, found.documents, len((found.document or {})["intervals"])) == (
        iperf3.Sent(5.0),
        2,
        1,
    )


def test_the_one_sum_of_udp_of_older_versions_is_what_was_sent():
    text = (
        '{"start": {}, "end": {"sum": {"bits_per_second": 8, "jitter_ms": 1, "lost_packets": 2}}}'
    )
    assert iperf3.read(text.encode(), received_is_enough=True).sent == iperf3.Sent(8.0)


def test_the_goodput_of_udp_of_older_versions_is_without_the_lost_datagrams():
    text = (
        '{"start": {}, "end": {"sum": {"bits_per_second": 8e6, "lost_packets": 1, "packets": 4}}}'
    )
    found = iperf3.read(text.encode(), received_is_enough=True)
    assert (found.sent, found.received_bps) == (iperf3.Sent(8e6), 6e6)


def test_a_text_with_times_in_front_of_its_lines_is_recognised(tmp_path):
    path = tmp_path / "log"
    path.write_text("Sun Nov  3 21:33:03 2024 Connecting to host 127.0.0.1, port 5201\n")
    assert formats.recognise(File(path, "log", 0)) == "iperf3"


TEXT = """\
iperf 3.12
Linux dtn1 6.8.0 #1 SMP x86_64
Control connection MSS 8948
Connecting to host 10.0.0.2, port 5201
      TCP MSS: 8948 (default)
[  5] local 10.0.0.1 port 35128 connected to 10.0.0.2 port 5201
[  7] local 10.0.0.1 port 35142 connected to 10.0.0.2 port 5201
Starting Test: protocol: TCP, 2 streams, 131072 byte blocks, omitting 1 seconds, 2 second test
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  12.0 MBytes  150656 Kbits/sec    0   1.12 MBytes       (omitted)
[  7]   0.00-1.00   sec  12.0 MBytes  150656 Kbits/sec    0   1.12 MBytes       (omitted)
[SUM]   0.00-1.00   sec  24.0 MBytes  301312 Kbits/sec    0             (omitted)
[  5]   0.00-1.00   sec  12.0 MBytes  100656 Kbits/sec    0   1.12 MBytes       \n\
[  7]   0.00-1.00   sec  12.0 MBytes  100656 Kbits/sec    0   1.12 MBytes       \n\
[SUM]   0.00-1.00   sec  24.0 MBytes  201312 Kbits/sec    0             \n\
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   1.00-2.00   sec  11.9 MBytes  99613 Kbits/sec    3   1.12 MBytes       \n\
[  7]   1.00-2.00   sec  11.9 MBytes  99613 Kbits/sec    0   1.12 MBytes       \n\
[SUM]   1.00-2.00   sec  23.8 MBytes  199227 Kbits/sec    3             \n\
- - - - - - - - - - - - - - - - - - - - - - - - -
Test Complete. Summary Results:
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec  23.9 MBytes  100135 Kbits/sec    3             sender
[  5]   0.00-2.00   sec  23.9 MBytes  100105 Kbits/sec                  receiver
[  7]   0.00-2.00   sec  23.9 MBytes  100135 Kbits/sec    0             sender
[  7]   0.00-2.00   sec  23.9 MBytes  100105 Kbits/sec                  receiver
[SUM]   0.00-2.00   sec  47.8 MBytes  200269 Kbits/sec    3             sender
[SUM]   0.00-2.00   sec  47.8 MBytes  200210 Kbits/sec                  receiver
snd_tcp_congestion bbr
rcv_tcp_congestion cubic

iperf Done.
"""
UDP = """\
[  5]   1.00-2.00   sec  11.9 MBytes  99.9 Mbits/sec  381  \n\
[  5]   0.00-2.00   sec  23.8 MBytes   100 Mbits/sec  0.000 ms  0/763 (0%)  sender
[  5]   0.00-2.00   sec  23.8 MBytes  99.0 Mbits/sec  0.004 ms  7/763 (0.92%)  receiver
"""
