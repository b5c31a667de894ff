"""Which of the documents in a client's output is its result."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from imports_trees import output

from netesto import cli
from netesto.imports import directions, documents, formats, iperf3
from netesto.imports.tree import File
from netesto.results import csvfile, manifest


def test_a_long_document_that_was_cut_off_hides_no_whole_one_behind_it():
    long = output(10, streams=8, seconds=200)
    found = iperf3.read((long[: len(long) * 3 // 4] + "\n" + output(20)).encode())
    assert (found.sent, found.documents) == (directions.Sent(20e9, 0), 1)


def test_a_text_of_v_tells_what_a_document_tells():
    found = iperf3.read(TEXT.encode())
    told = found.document or {}
    assert (found.sent, found.received_bps, found.duration_s, found.documents) == (
        directions.Sent(200.269e6, 3),
        200.21e6,
        2.0,
        0,
    )
    assert (iperf3.congestion_control(told), iperf3.mss_bytes(told)) == ("bbr", 8948)
    assert told["start"]["test_start"] == {
        "protocol": "TCP",
        "num_streams": 2,
        "blksize": 131072,
        "omit": 1,
        "duration": 2,
    }


@pytest.mark.parametrize(
    ("unit", "bps"), [("Kbits", 1126e3), ("bits", 1126.0), ("MBytes", 1126 * 8 * 2**20)]
)
def test_rates_of_a_text_are_in_bits_of_thousands_or_bytes_of_1024(unit, bps):
    line = f"[  4]   0.00-10.00  sec  11.0 GBytes  1126 {unit}/sec   21             sender\n"
    assert iperf3.read(line.encode()).sent == directions.Sent(bps, 21)


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
    assert (found.sent, found.received_bps) == (directions.Sent(100e6), 99e6)
    told = documents.at(found.document, "end", "sum_received")
    assert [documents.at(told, key) for key in ("jitter_ms", "lost_packets", "packets")] == [
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
        directions.Sent(5.0),
        2,
        1,
    )


def test_the_one_sum_of_udp_of_older_versions_is_what_was_sent():
    text = (
        '{"start": {}, "end": {"sum": {"bits_per_second": 8, "jitter_ms": 1, "lost_packets": 2}}}'
    )
    assert iperf3.read(text.encode(), received_is_enough=True).sent == directions.Sent(8.0)


def test_the_goodput_of_udp_of_older_versions_is_without_the_lost_datagrams():
    text = (
        '{"start": {}, "end": {"sum": {"bits_per_second": 8e6, "lost_packets": 1, "packets": 4}}}'
    )
    found = iperf3.read(text.encode(), received_is_enough=True)
    assert (found.sent, found.received_bps) == (directions.Sent(8e6), 6e6)


def test_a_text_with_times_in_front_of_its_lines_is_recognised(tmp_path):
    path = tmp_path / "log"
    path.write_text("Sun Nov  3 21:33:03 2024 Connecting to host 127.0.0.1, port 5201\n")
    assert formats.recognise(File(path, "log", 0)) == "iperf3"


Flow = tuple[str, bool, float | None, float | None, int | None]


def flows(found: directions.ToolOutput) -> list[Flow]:
    """Of each direction the test, whether the server sends, what arrived and was sent in Mbit/s,
    and the lost datagrams."""
    made: list[Flow] = []
    for each in found.directions:
        result = each.result
        assert result is not None
        udp = result.datagrams
        lost, sent_bps = (None, result.sent_bps) if udp is None else (udp.lost, udp.sent_bps)
        rates = (result.rate_bps, sent_bps)
        mbit = [None if bps is None else round(bps / 1e6, 3) for bps in rates]
        made.append((each.test, each.is_from_server, mbit[0], mbit[1], lost))
    return made


def sums(mbit_per_s: float, *, sender: bool, **other: float) -> dict[str, Any]:
    """A sum over 2 s."""
    size = round(mbit_per_s * 1e6 / 4)
    return {"start": 0, "end": 2, "seconds": 2, "bytes": size, "bits_per_second": mbit_per_s * 1e6,
            "sender": sender, **other}  # fmt: skip


def json_of(
    end: str, *, version: str = "3.12", server: bool = False, remote: float = 1.5, **test: Any
) -> str:
    """A document with the text of its sums."""
    start: dict[str, Any] = {
        "version": f"iperf {version}",
        "test_start": {"protocol": "TCP", **test},
    }
    if server:
        start["accepted_connection"] = {"host": "192.0.2.1", "port": 40000}
    cpu = json.dumps({"remote_total": remote, "remote_user": 0, "remote_system": remote})
    return (
        f'{{"start": {json.dumps(start)}, "intervals": [], "end": {{{end}, '
        f'"cpu_utilization_percent": {cpu}}}}}'
    )


def named(**each: Mapping[str, Any]) -> str:
    """Members of an object."""
    return ", ".join(f'"{name}": {json.dumps(value)}' for name, value in each.items())


@pytest.mark.parametrize("suffix", ["", "_bidir_reverse"])
def test_both_directions_of_a_document_are_kept_whatever_its_version_calls_them(suffix):
    # Before 3.8 one object has each key twice.
    parts = [
        named(sum_sent=sums(11, sender=True), sum_received=sums(9, sender=True)),
        named(**{
            f"sum_sent{suffix}": sums(10, sender=False, retransmits=7),
            f"sum_received{suffix}": sums(8, sender=False),
        }),
    ]  # fmt: skip
    found = iperf3.read(json_of(", ".join(parts)).encode())
    assert flows(found) == [
        ("TCP_STREAM", False, 9.0, 11.0, None),
        ("TCP_MAERTS", True, 8.0, 10.0, None),
    ]
    assert [each.retransmits for each in found.directions] == [None, 7]


def test_both_directions_of_a_text_are_kept_and_their_intervals():
    found = iperf3.read(BIDIR.encode())
    assert flows(found) == [
        ("TCP_STREAM", False, 8.88, 13.6, None),
        ("TCP_MAERTS", True, 9.06, 12.4, None),
    ]
    each = [one.result for one in found.directions if one.result is not None]
    assert [[i.rate_bps for i in one.intervals] for one in each] == [
        [16.7e6, 10.4e6], [8.97e6, 9.46e6],
    ]  # fmt: skip


def test_what_a_server_does_not_know_of_its_client_is_unknown_and_no_zero():
    sent, nothing = sums(20.4, sender=True), sums(0, sender=True)
    stream = json_of(named(sum_sent=sent, sum_received=nothing), server=True, remote=0, reverse=1)
    udp = {"packets": 3454, "lost_packets": 0, "jitter_ms": 0}
    datagrams = json_of(
        named(sum=sums(20, sender=True, **udp)), server=True, remote=0, reverse=1, protocol="UDP"
    )
    each = (iperf3.read(text.encode(), received_is_enough=True) for text in (stream, datagrams))
    assert list(map(flows, each)) == [
        [("TCP_MAERTS", True, 20.4, 20.4, None)], [("UDP_STREAM", True, None, 20.0, None)],
    ]  # fmt: skip


def test_the_document_of_the_test_that_a_server_waited_for_is_no_error_of_the_one_before():
    waiting = '{"start": {}, "error": "interrupt - the server has terminated"}'
    end = named(sum_sent=sums(0, sender=False), sum_received=sums(5, sender=False))
    found = iperf3.read(
        (json_of(end, server=True, remote=0) + waiting).encode(), received_is_enough=True
    )
    assert (found.reason, flows(found)) == ("", [("TCP_STREAM", False, 5.0, None, None)])


def test_a_receiver_that_counted_nothing_is_known_by_the_load_of_its_cpu():
    end = named(sum_sent=sums(9, sender=True), sum_received=sums(0, sender=False))
    rates = [flows(iperf3.read(json_of(end, remote=load).encode()))[0][2] for load in (1.5, 0.0)]
    assert rates == [0.0, 9.0]


def test_lost_datagrams_of_the_omitted_time_are_not_those_of_the_test():
    lost = {"packets": 3453, "lost_packets": 2629, "jitter_ms": 0.3}
    old = json_of(named(sum=sums(20, sender=True, **lost)), version="3.7", protocol="UDP", omit=1)
    assert flows(iperf3.read(old.encode(), received_is_enough=True)) == [
        ("UDP_STREAM", False, None, 20.0, None)
    ]
    without = json_of(named(sum=sums(20, sender=True, **lost)), version="3.7", protocol="UDP")
    ((*_, count),) = flows(iperf3.read(without.encode(), received_is_enough=True))
    assert count == 2629


def test_sent_datagrams_of_the_omitted_time_are_not_those_of_the_test(tmp_path):
    """iperf3 3.12 -u -R -b 20M -O 1 over a link of 10 Mbit/s."""
    sent = sums(20, sender=True, packets=3543)
    received = sums(9.708, sender=False, packets=3453, lost_packets=1777, jitter_ms=0.3)
    end = named(sum_sent=sent, sum_received=received)
    made = tmp_path / "in"
    made.mkdir()
    (made / "u.json").write_text(json_of(end, protocol="UDP", blksize=1448, omit=1))
    assert cli.main(["import", "results", str(made), "--out", str(tmp_path / "out")]) == 0
    row, *_ = csvfile.read(tmp_path / "out" / "exp.csv")
    shown = [row[name] for name in ("udpSent", "udpLost", "udpLost%", "warning")]
    said = "iperf3 reports 3543 sent datagrams, with some of the omitted time: 3453 by both rates"
    assert shown == ["3453.0", "1777.0", "51.4625", f"group 1, flow 1: {said}"]


@pytest.mark.parametrize(
    ("lost", "numbered", "said"),
    [
        (2629, 3453, "2629 lost datagrams, where 1696 arrived of 3453 that the receiver knew of"),
        (0, 3446, "0 lost datagrams, where 1696 arrived of 3446 that the receiver knew of"),
        (6190, 3446, "6190 lost datagrams of 3453 that were sent"),
    ],
)
def test_lost_datagrams_that_contradict_what_was_sent_and_arrived_are_those_of_the_rates(
    tmp_path, lost, numbered, said
):
    sent = sums(20, sender=True, packets=3453)
    received = sums(9.823, sender=False, packets=numbered, lost_packets=lost, jitter_ms=0.3)
    text = json_of(named(sum_sent=sent, sum_received=received), protocol="UDP", blksize=1448)
    made = tmp_path / "in"
    made.mkdir()
    (made / "a.json").write_text(text)
    assert cli.main(["import", "results", str(made), "--out", str(tmp_path / "out")]) == 0
    row, *_ = csvfile.read(tmp_path / "out" / "exp.csv")
    known = manifest.read(tmp_path / "out" / "1" / manifest.NAME)
    assert row["udpLost%"] == "50.8833"
    assert known.warnings[1:] == (
        f"group 1, flow 1: iperf3 reports {said}: loss is 50.9 % by both rates",
    )


def test_an_interrupted_text_and_one_that_ends_with_an_error_have_failed():
    text = TEXT.replace("iperf Done.", "iperf3: {}")
    said = ["interrupt - the client has terminated", "error - control socket has closed"]
    assert [iperf3.read(text.replace("{}", each).encode()).reason for each in said] == said


def test_numbers_that_are_none_do_not_hide_the_others():
    end = named(sum_sent=sums(9, sender=True), sum_received=sums(8, sender=False))
    text = json_of(end).replace(
        '"intervals": []', '"intervals": [{"sum": {"bits_per_second": -nan}}]'
    )
    assert flows(iperf3.read(text.encode())) == [("TCP_STREAM", False, 8.0, 9.0, None)]


def test_the_text_of_datagrams_of_older_versions_has_one_line_for_both_ends():
    found = iperf3.read(OLD_UDP.encode(), received_is_enough=True)
    assert flows(found) == [("UDP_STREAM", False, 0.787, 1.05, 40)]


def test_losses_that_iperf3_does_not_know_are_computed():
    text = UDP.replace("7/763 (0.92%)", "Unknown/763")
    assert flows(iperf3.read(text.encode(), received_is_enough=True)) == [
        ("UDP_STREAM", False, 99.0, 100.0, None)
    ]


def test_the_first_test_of_a_server_that_prints_text_counts():
    found = iperf3.read(SERVER.encode(), received_is_enough=True)
    assert (flows(found), found.documents) == ([("TCP_STREAM", False, 8.88, None, None)], 2)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_result_of_pscheduler_is_that_of_its_tool(wrapped):
    summary = {"start": 0, "end": 10, "throughput-bits": 9e9, "throughput-bytes": 11250000000,
               "retransmits": 3, "receiver-throughput-bits": 8.9e9}  # fmt: skip
    interval = {"start": 0, "end": 1, "throughput-bits": 9e9, "omitted": False}
    result: dict[str, Any] = {
        "schema": 1, "succeeded": True, "diags": "",
        "intervals": [{"streams": [], "summary": interval}],
        "summary": {"streams": [{}, {}], "summary": summary},
    }  # fmt: skip
    if wrapped:
        result = {"state": "finished", "result": [None, result]}
    found = iperf3.read(json.dumps(result, indent=4).encode())
    assert flows(found) == [("TCP_STREAM", False, 8900.0, 9000.0, None)]
    assert (found.directions[0].parallel, found.directions[0].retransmits) == (2, 3)


OLD_UDP = """\
Connecting to host 192.0.2.2, port 5201
[  4] local 192.0.2.1 port 50000 connected to 192.0.2.2 port 5201
[ ID] Interval           Transfer     Bandwidth       Total Datagrams
[  4]   0.00-1.00   sec   120 KBytes   983 Kbits/sec  15  \n\
[  4]   1.00-10.00  sec  1.13 MBytes  1.05 Mbits/sec  145  \n\
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams
[  4]   0.00-10.00  sec  1.25 MBytes  1.05 Mbits/sec  0.012 ms  40/160 (25%)  \n\
[  4] Sent 160 datagrams

iperf Done.
"""
SERVER = """\
-----------------------------------------------------------
Server listening on 5201
-----------------------------------------------------------
Accepted connection from 192.0.2.1, port 33830
[  5] local 192.0.2.2 port 5201 connected to 192.0.2.1 port 33832
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-2.04   sec  2.16 MBytes  8.88 Mbits/sec                  \n\
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-2.04   sec  2.16 MBytes  8.88 Mbits/sec                  receiver
-----------------------------------------------------------
Server listening on 5201
-----------------------------------------------------------
Accepted connection from 192.0.2.1, port 33840
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-2.00   sec  1.16 MBytes  4.88 Mbits/sec                  receiver
iperf3: interrupt - the server has terminated
"""
# Of 3.12, without its streams.
BIDIR = """\
Connecting to host 10.99.7.2, port 5201
[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd
[SUM][TX-C]   0.00-1.00   sec  2.00 MBytes  16.7 Mbits/sec  738             \n\
[SUM][RX-C]   0.00-1.00   sec  1.07 MBytes  8.97 Mbits/sec                  \n\
- - - - - - - - - - - - - - - - - - - - - - - - -
[SUM][TX-C]   1.00-2.01   sec  1.24 MBytes  10.4 Mbits/sec  179             \n\
[SUM][RX-C]   1.00-2.01   sec  1.13 MBytes  9.46 Mbits/sec                  \n\
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID][Role] Interval           Transfer     Bitrate         Retr
[SUM][TX-C]   0.00-2.01   sec  3.25 MBytes  13.6 Mbits/sec  917             sender
[SUM][TX-C]   0.00-2.04   sec  2.16 MBytes  8.88 Mbits/sec                  receiver
[SUM][RX-C]   0.00-2.01   sec  2.96 MBytes  12.4 Mbits/sec  197             sender
[SUM][RX-C]   0.00-2.04   sec  2.21 MBytes  9.06 Mbits/sec                  receiver
"""
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
