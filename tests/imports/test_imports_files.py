"""Folders of files: names as columns, other tools, and hostile files."""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from imports_trees import IDLE, Tree, document, failed, output
from imports_trees import mpstat as mpstat_file
from typed import nearly

from netesto import cli
from netesto.errors import OutputError
from netesto.imports import directions, evidence, formats, iperf3, mpstat, tree
from netesto.results import csvfile, manifest, store
from netesto.results import imported as imported_runs

PATTERN = "iperf_mtu{mtu}_{zerocopy}_P{parallel}_{*}.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As netns-iperf-lab leaves it."""
    made = tmp_path / "json"
    made.mkdir()
    texts = {
        "iperf_mtu9000_Z_P4_a.json": output(333.16, mss=8948, streams=4),
        "iperf_mtu1500_noZ_P10_a.json": output(189.3456, retransmits=771, mss=1448, ca="bbr"),
        "iperf_mtu1500_Z_P2_a.json": output(331.65, mss=8948),
        "iperf_mtu1500_Z_P10_a.json": failed("unable to connect to server"),
        "summary.csv": "file,mtu\n",
    }
    for name, text in texts.items():
        (made / name).write_text(text)
    return made


def imported(folder: Path, *words: str) -> int:
    return cli.main(["import", "results", str(folder), "--out", str(out(folder)), *words])


def out(folder: Path) -> Path:
    return folder.parent / "out"


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((out(folder) / "exp.csv").read_text())))


def findings(folder: Path) -> list[tuple[str, str]]:
    with (out(folder) / "findings.csv").open() as file:
        return [(row["file"], row["kind"]) for row in csv.DictReader(file)]


def test_names_fill_columns_and_the_table_is_that_of_the_lab(folder, capsys):
    assert imported(folder, "--name", PATTERN) == 1
    capsys.readouterr()
    assert cli.main(["summary", str(out(folder)), "-f", "csv"]) == 0
    captured = capsys.readouterr()
    assert "as iperf-lab, because they were imported from files of single runs" in captured.err
    assert captured.out == (
        "file,mtu,zerocopy,P,gbps,retrans,status,ca,mss\n"
        "iperf_mtu1500_Z_P10_a.json,1500,Z,10,,,failed: unable to connect to server,,\n"
        "iperf_mtu1500_Z_P2_a.json,1500,Z,2,331.650,0,ok,cubic,8948\n"
        "iperf_mtu1500_noZ_P10_a.json,1500,noZ,10,189.346,771,ok,bbr,1448\n"
        "iperf_mtu9000_Z_P4_a.json,9000,Z,4,333.160,0,ok,cubic,8948\n"
    )


def test_an_mss_that_is_not_of_the_mtu_and_files_of_other_names_are_findings(folder):
    imported(folder, "--name", PATTERN)
    assert findings(folder) == [
        ("iperf_mtu1500_Z_P10_a.json", "error"),
        ("iperf_mtu1500_Z_P2_a.json", "mss-differs"),
        ("summary.csv", "unlisted"),
    ]


def test_columns_of_names_are_columns_of_exp_csv(folder):
    imported(folder, "--name", PATTERN)
    found = [[row[name] for name in ("mtu", "zerocopy", "parallel")] for row in rows(folder)]
    assert found[::2] == [
        ["1500", "Z", "10"], ["1500", "Z", "2"], ["1500", "noZ", "10"], ["9000", "Z", "4"],
    ]  # fmt: skip


def test_runs_with_what_was_received_alone_count_in_files_and_not_in_trees():
    value = document(10.0)
    del value["end"]["sum_sent"]  # type: ignore[attr-defined]
    data = json.dumps(value).encode()
    assert iperf3.read(data, received_is_enough=True).sent == directions.Sent(10e9, None)
    assert iperf3.read(data).kind == "no-result"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nothing{here}", "no file has such a name"),
        ("a{b", "a brace without its other half"),
        ("{a}{a}", "invalid or repeated name {a}"),
        ("{rate}.json", "column rate is measured"),
    ],
)
def test_a_pattern_without_a_file_is_refused(folder, capsys, text, names):
    assert imported(folder, "--name", text) == 2
    assert names in capsys.readouterr().err
    assert not out(folder).exists()


def test_of_several_paths_one_that_does_not_fit_the_pattern_is_a_finding(folder, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("hello\n")
    words = ["import", "results", str(folder), str(other), "--name", PATTERN]
    assert cli.main([*words, "--out", str(out(folder))]) == 1
    assert ("other.txt", "unlisted") in findings(folder)


def test_pages_of_imported_runs_invent_nothing(folder, capsys):
    assert imported(folder, "--name", "iperf_mtu9000_{*}.json") == 0
    assert cli.main(["report", str(out(folder)), "1"]) == 0
    page = (out(folder) / "1" / "exp.html").read_text()
    hosts = page[page.index("<h3>Hosts</h3>") :]
    assert [words in page for words in ("0.0 GiB", "+0 ±", "No flow succeeded")] == [False] * 3
    assert '<td class="number">0</td>' not in hosts


def test_a_folder_without_results_is_refused(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes").write_text("hello\n")
    assert imported(tmp_path / "in") == 2
    assert "nothing to import" in capsys.readouterr().err


def test_numbers_without_test_and_unit_are_refused_with_the_remedy(tmp_path, capsys):
    (tmp_path / "out.txt").write_text(" 87380  16384  16384    10.00    9421.34   \n")
    assert imported(tmp_path / "out.txt") == 2
    assert "measure with -k, or without -P 0" in " ".join(capsys.readouterr().err.split())


def test_files_are_recognised_by_their_content(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.json").write_text(output(1.5))
    (source / "b.txt").write_text(
        "Connecting to host h, port 5201\n"
        "[  5]   0.00-10.00  sec  1.10 GBytes   941 Mbits/sec    4             sender\n"
    )
    (source / "c.out").write_text(
        "MIGRATED TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to h () port 0 AF_INET\n"
        "Recv   Send    Send\n\n131072  16384  16384    10.00    9411.52\n"
    )
    flent = {
        "metadata": {
            "SERIES_META": {"TCP download": {"UNITS": "Mbits/s", "MEAN_VALUE": 200}},
            "LENGTH": 10,
        },
        "results": {"TCP download": [100.0, None, 300.0], "Ping (ms) ICMP": [2.0, 4.0]},
    }
    (source / "d.flent.gz").write_bytes(gzip.compress(json.dumps(flent).encode()))
    assert imported(source) == 0
    found = [(row["expName"], row["tool"], row["rate"]) for row in rows(source)[::2]]
    assert found == [
        ("a", "iperf3", "1500.000"),
        ("b", "iperf3", "941.000"),
        ("c", "netperf", "9411.520"),
        ("d", "netperf", "200.000"),
    ]


def test_what_an_imported_run_omitted_is_left_out_once(tmp_path):
    # -O 2 -t 2: iperf3 counts the time anew after the omitted part.
    told: dict[str, Any] = document(1.0)
    told["start"]["test_start"]["omit"] = 2
    omitted = json.loads(json.dumps(told["intervals"]))
    for entry in omitted:
        entry["sum"]["omitted"] = entry["streams"][0]["omitted"] = True
    for entry, segments in zip(told["intervals"], (20, 40), strict=True):
        entry["streams"][0]["snd_cwnd"] = segments * 8948
    told["intervals"] = [*omitted, *told["intervals"]]
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.json").write_text(json.dumps(told))
    assert imported(source) == 0
    known = manifest.read(out(source) / "1" / manifest.NAME)
    assert (rows(source)[0]["cwnd"], known.ended_s - known.started_s) == ("30.000", 4.0)


def flent(
    results: Mapping[str, Sequence[float | None]],
    *,
    length: float = 0.4,
    means: Mapping[str, float] | None = None,
) -> bytes:
    """A file of flent 2.1.1: measured series of values every 0.2 s, those of their sockets, and
    what it computes."""
    computed = {"UNITS": "Mbits/s", "RUNNER": "SumRunner", "COMPUTED_LATE": False}
    measured: dict[str, object] = {"UNITS": "Mbits/s", "RUNNER": "NetperfDemoRunner"}
    ping: dict[str, object] = {"UNITS": "ms", "RUNNER": "PingRunner"}
    series: dict[str, dict[str, object]] = {
        "TCP upload avg": computed, "TCP upload sum": computed, "TCP totals": computed,
        # Of files without COMPUTED_LATE.
        "TCP upload fairness": {"UNITS": "Mbits/s"},
        **{
            name: ping if name.startswith("Ping") else measured
            for name in results
            if "::tcp" not in name
        },
        "Ping (ms) ICMP": ping,
    }  # fmt: skip
    for name, mean in (means or {}).items():
        series[name] = {**series.get(name, {"UNITS": "ms"}), "MEAN_VALUE": mean}
    count = max(len(each) for each in results.values())
    known = {
        "metadata": {"SERIES_META": series, "LENGTH": length},
        "x_values": [round(0.2 * place, 1) for place in range(count)],
        "results": {name: [700.0, 700.0] for name in series} | dict(results),
    }
    return gzip.compress(json.dumps(known).encode())


def of_flows(data: bytes) -> list[tuple[str, str, float | None]]:
    """Name, test and rate of the flows of a file of flent."""
    return [
        (each.name, each.test, each.result.rate_bps if each.result is not None else None)
        for each in formats.read(data, "flent").directions
    ]


@pytest.mark.parametrize(
    "names", [("TCP upload BE", "TCP download BK"), ("TCP upload::1", "TCP download::2")]
)
def test_each_measured_flow_of_flent_has_its_direction_and_rate(names):
    one, other = names
    series: dict[str, Sequence[float | None]] = {
        one: [100.0, 300.0], other: [50.0, 50.0], "TCP upload::tcp_delivery_rate": [999.0],
    }  # fmt: skip
    found = of_flows(flent(series))
    assert found == [(one, "TCP_STREAM", 200e6), (other, "TCP_MAERTS", 50e6)]


SPARSE = (
    "rate 0.7 Mbit/s is the mean of the file; that of its values, which cover 0.4 of 10 s, is "
    "3.2 Mbit/s"
)


def test_the_rate_of_a_flow_of_flent_is_its_mean_in_the_file_and_not_that_of_sparse_values():
    values: dict[str, Sequence[float | None]] = {
        "TCP upload::1": [*[None] * 10, 5.0, 1.4, *[None] * 10]
    }
    (told,) = formats.read(
        flent(values, length=10, means={"TCP upload::1": 0.7}), "flent"
    ).directions
    (own,) = formats.read(flent(values, length=10), "flent").directions
    assert [each.result and (each.result.rate_bps, each.result.doubts) for each in (told, own)] == [
        (
            0.7e6,
            (SPARSE,),
        ),
        (None, ("rate is unknown: its values cover 0.4 of 10 s, and the file has no mean",)),
    ]


def test_the_flows_and_pings_of_rrul_are_groups_with_their_series(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    series: dict[str, Sequence[float | None]] = {
        "Ping (ms) ICMP": [10.0, 30.0, 50.0, 20.0],
        "Ping (ms) UDP BE": [None, 40.0, 60.0, None],
        "TCP upload BE": [None, 4.0, 6.0, None],
        "TCP download BE": [None, 8.0, 8.0, None],
    }
    means = {"TCP upload BE": 5.0, "TCP download BE": 8.0, "Ping (ms) UDP BE": 50.0}
    (source / "rrul.flent.gz").write_bytes(flent(series, means=means))
    assert imported(source) == 0
    names = ("expName", "test", "rate", "meanLatency", "pingRtt")
    assert [[row[name] for name in names] for row in rows(source)[1:]] == [
        ["rrul Ping (ms) UDP BE", "UDP_RR", "", "50000.000", "60000.000"],
        ["rrul TCP upload BE", "TCP_STREAM", "5.000", "", "35000.000"],
        ["rrul TCP download BE", "TCP_MAERTS", "8.000", "", "35000.000"],
    ]
    folder = out(source) / "1"
    run = imported_runs.read(folder)
    assert run is not None
    known = evidence.of(folder, run, manifest.read(folder / manifest.NAME))
    zero_s = known.started_s
    assert [
        [
            (round(each.start_s - zero_s, 1), each.rate_bps)
            for flow in group.instances
            if flow.result is not None
            for each in flow.result.intervals
        ]
        for group in known.groups[1:]
    ] == [[(0.2, 4e6), (0.4, 6e6)], [(0.2, 8e6), (0.4, 8e6)]]


def test_a_file_of_flent_that_unpacks_to_more_than_the_limit_is_refused_unread(monkeypatch):
    monkeypatch.setattr(formats.flent, "BYTES_MAX", 2**20)
    found = formats.read(gzip.compress(b" " * (2**20 + 1)), "flent")
    assert (found.sent, found.reason) == (None, "no result: more than 1 MiB when it is unpacked")


def test_a_file_of_flent_with_more_values_than_the_limit_is_refused_unread(monkeypatch):
    monkeypatch.setattr(formats.flent, "VALUES_MAX", 1000)
    found = formats.read(gzip.compress(b'{"results": [' + b"{}," * 1000 + b"0]}"), "flent")
    assert (found.sent, found.reason) == (None, "no result: more than 1000 values")


def test_a_flow_of_flent_without_values_has_failed_and_the_others_have_not(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    series: dict[str, Sequence[float | None]] = {
        "TCP upload::1": [1.0, 1.0], "TCP upload::2": [None],
    }  # fmt: skip
    (source / "a.flent.gz").write_bytes(flent(series))
    assert imported(source) == 0
    assert [(row["status"], row["rate"]) for row in rows(source)] == [
        ("partial", "1.000"), ("ok", "1.000"), ("no values", ""),
    ]  # fmt: skip


def test_what_an_earlier_version_imported_as_a_result_and_is_none_has_failed(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    series: dict[str, Sequence[float | None]] = {"TCP upload::1": [1.0, 1.0]}
    (source / "a.flent.gz").write_bytes(flent(series))
    assert imported(source) == 0
    folder = out(source) / "1"
    run = imported_runs.read(folder)
    assert run is not None
    (folder / run.output).unlink()
    (folder / run.output).write_bytes(flent({"TCP upload::1": [None]}))
    evidence.update(folder, run, damaged=())
    again = imported_runs.read(folder)
    assert again is not None
    (group,) = evidence.of(folder, again, manifest.read(folder / manifest.NAME)).groups
    reason = "1 of 1 flows have no values"
    assert [again.reason, group.instances[0].status] == [reason, reason]


# Output of netperf 2.7.0 -f g, without the spaces at the ends of its lines.
NETPERF_TABLE = """\
MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () port 0 AF_INET : demo
Recv   Send    Send
Socket Socket  Message  Elapsed
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    10^9bits/sec

131072  16384  16384    1.01        4.75
"""


@pytest.mark.parametrize(
    ("unit", "bps"),
    [
        ("10^3bits/s", 4750),
        ("10^6bits/s", 4.75e6),
        ("10^9bits/s", 4.75e9),
        ("KBytes/s", 38912),
        ("MBytes/s", 4.75 * 8 * 2**20),
        ("GBytes/s", 4.75 * 8 * 2**30),
    ],
)
def test_the_throughput_of_netperf_is_in_the_units_that_it_prints(unit, bps):
    table = NETPERF_TABLE.replace("10^9bits/s", unit)
    words = f"THROUGHPUT=4.75\nTHROUGHPUT_UNITS={unit}\nELAPSED_TIME=1.01\n"
    found = [formats.read(text.encode(), "netperf") for text in (table, words)]
    assert [(each.sent, each.duration_s) for each in found] == [(directions.Sent(bps), 1.01)] * 2


# Of netperf 2.7.0 over a link of 10 Mbit/s; without the spaces at the ends of lines, and the titles
# without their addresses.
NETPERF = {
    "MIGRATED TCP REQUEST/RESPONSE TEST from h (): demo : first burst 0\n"
    "Local /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\n"
    "bytes  Bytes  bytes    bytes   secs.    per sec\n\n"
    "16384  131072 64       128     1.00     16970.49\n16384  131072\n": (
        "TCP_RR", 16970.49 * 64 * 8, 16970.49, (64, 128),
    ),
    "MIGRATED TCP Connect/Request/Response TEST from h () port 0\n"
    "bytes  Bytes  bytes    bytes   secs.    per sec\n\n"
    "16384  131072 1        1       1.00     3106.58   100.00 100.00 117.588  117.588\n": (
        "TCP_CRR", 3106.58 * 8, 3106.58, (1, 1),
    ),
    "MIGRATED UDP REQUEST/RESPONSE TEST from h () port 0\nREQUEST_SIZE=1\nTHROUGHPUT=7313.81\n": (
        "UDP_RR", 7313.81 * 8, 7313.81, (1, None),
    ),
    "THROUGHPUT=15952.81\nMEAN_LATENCY=62.63\nP99_LATENCY=1835\n": (
        "TCP_RR", None, 15952.81, (None, None),
    ),
    "OMNI Send|Recv TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to h () port 0 AF_INET : demo\n"
    "Local       Request Response Elapsed Throughput Throughput\n"
    "Send Socket Size    Size     Time               Units\n"
    "Size        Bytes   Bytes    (sec)\n"
    "Final\n"
    "69120       1       1        1.01    11976.69   Trans/s\n": (
        "TCP_RR", 11976.69 * 8, 11976.69, (1, 1),
    ),
    "OMNI Send TEST from h () port 0 AF_INET to h () port 0 AF_INET : demo\n"
    "Local Send Socket Size Final,Local Send Size,Elapsed Time (sec),Throughput,Throughput Units\n"
    "725760,16384,1.42,9.23,10^6bits/s\n": ("TCP_STREAM", 9.23e6, None, (None, None)),
    # -v 2, with a second table that has other units; and the first lines of -k all.
    "MIGRATED TCP REQUEST/RESPONSE TEST from h () port 0 AF_INET to h () port 0 AF_INET : demo\n"
    "Local /Remote\n"
    "Socket Size   Request  Resp.   Elapsed  Trans.\n"
    "Send   Recv   Size     Size    Time     Rate\n"
    "bytes  Bytes  bytes    bytes   secs.    per sec\n\n"
    "16384  131072 1        1       2.00     16940.92\n"
    "16384  131072\n"
    "Alignment      Offset         RoundTrip  Trans    Throughput\n"
    "Local  Remote  Local  Remote  Latency    Rate     10^6bits/s\n"
    "Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound\n"
    "    8      0       0      0   59.029   16940.924 0.136     0.136\n": (
        "TCP_RR", 16940.92 * 8, 16940.92, (1, 1),
    ),
    "MIGRATED TCP STREAM TEST from h () port 0 AF_INET to h () port 0 AF_INET : demo\n"
    "DIRECTION=Send\nELAPSED_TIME=2.00\nTHROUGHPUT=8.74\nTHROUGHPUT_UNITS=10^6bits/s\n"
    "REQUEST_SIZE=-1\nRESPONSE_SIZE=-1\nTRANSACTION_RATE=1.000\n": (
        "TCP_STREAM", 8.74e6, None, (None, None),
    ),
    "ELAPSED_TIME=2.00\nTHROUGHPUT=8.74\nTHROUGHPUT_UNITS=10^6bits/s\n"
    "REQUEST_SIZE=-1\nRESPONSE_SIZE=-1\nTRANSACTION_RATE=1.000\n": (
        "TCP_STREAM", 8.74e6, None, (None, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", NETPERF)
def test_each_form_of_netperfs_results_is_read(text):
    (found,) = formats.read(text.encode(), "netperf").directions
    assert found.result is not None
    test, rate_bps, transactions, sizes = NETPERF[text]
    assert (found.test, found.result.transactions_per_s) == (test, transactions)
    assert found.result.rate_bps == (None if rate_bps is None else pytest.approx(rate_bps))
    assert (found.request_bytes, found.reply_bytes) == sizes


@pytest.mark.parametrize(
    ("throughput", "doubts"),
    [("0.01", ("rate is rounded to 50 %: 0.01 10^9bits/s",)), ("4.75", ())],
)
def test_a_throughput_of_too_few_digits_is_doubted(throughput, doubts):
    text = NETPERF_TABLE.replace("4.75", throughput)
    (found,) = formats.read(text.encode(), "netperf").directions
    assert found.result is not None
    assert found.result.doubts == doubts


def test_both_lines_of_netperfs_datagrams_are_read():
    text = (
        "MIGRATED UDP STREAM TEST from h () port 0 AF_INET to h () port 0 AF_INET : demo\n"
        "Socket  Message  Elapsed      Messages\nSize    Size     Time\n"
        "bytes   bytes    secs            #      #   10^6bits/sec\n\n"
        "212992   65507   1.00        32333      0    16869.54\n"
        "212992           1.00         4629           2415.15\n\n"
    )
    (found,) = formats.read(text.encode(), "netperf").directions
    assert found.result is not None
    udp = found.result.datagrams
    assert udp is not None
    assert (found.test, udp.sent, udp.lost) == ("UDP_STREAM", 32333, 27704)
    assert (found.result.rate_bps, udp.sent_bps) == (nearly(2415.15e6), nearly(16869.54e6))


def test_a_title_of_netperf_without_a_table_is_no_result():
    title = b"MIGRATED TCP STREAM TEST from h () port 0 AF_INET to h () port 0 AF_INET : demo\n"
    found = [formats.read(title + rest, "netperf") for rest in (b"", b"   8.51 \n")]
    assert [(each.sent, each.kind) for each in found] == [(None, "no-result")] * 2


def test_a_throughput_of_an_unknown_test_and_unit_is_no_result():
    found = formats.read(b"THROUGHPUT=9420.64\nELAPSED_TIME=1.00\n", "netperf")
    assert (found.sent, found.kind) == (None, "no-result")


def test_a_doubt_comes_before_the_note_that_a_run_was_imported(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.out").write_text("MIGRATED TCP STREAM TEST from h () port 0\nTHROUGHPUT=1.25\n")
    (source / "b.out").write_text(NETPERF_TABLE)
    assert imported(source) == 0
    names = ("warnings", "severity", "warning")
    unit = "the unit of its THROUGHPUT is not told: read as 10^6bits/s, the default of netperf"
    assert [[row[name] for name in names] for row in rows(source)[1::2]] == [
        ["2", "affects", f"group 1, flow 1: {unit}"],
        ["1", "note", "imported from b.out: what its files do not report is unknown"],
    ]


# Of netperf 2.7.0 -t TCP_RR -f m, once as a table and once with -k THROUGHPUT,MEAN_LATENCY.
RR_IN_BITS = (
    "MIGRATED TCP REQUEST/RESPONSE TEST from h () port 0 AF_INET to h () : demo : first burst 0\n"
    "Local /Remote\nSocket Size   Request  Resp.   Elapsed\n"
    "Send   Recv   Size     Size    Time     Throughput\n"
    "bytes  Bytes  bytes    bytes   secs.    10^6bits/sec\n\n"
    "16384  131072 1        1       1.00        0.10\n16384  131072\n"
)


def test_bits_of_netperfs_requests_are_no_transactions():
    (table,) = formats.read(RR_IN_BITS.encode(), "netperf").directions
    assert table.result is not None
    assert table.result.transactions_per_s == pytest.approx(0.10e6 / 16)
    assert table.result.doubts == ("transactions are computed from 0.10 10^6bits/s",)
    title = RR_IN_BITS.splitlines()[0]
    words = f"{title}\nTHROUGHPUT=0.10\nMEAN_LATENCY=161.51\n"
    found = formats.read(words.encode(), "netperf")
    assert (found.directions, found.reason) == (
        (), "no result: the unit of THROUGHPUT is not known: -k THROUGHPUT_UNITS",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("title", "unit"),
    [("TCP STREAM", "10^6bits/s"), ("UDP STREAM", "10^6bits/s"), ("TCP RR", "Trans/s")],
)
def test_a_throughput_whose_unit_is_not_reported_is_doubted(title, unit):
    text = f"MIGRATED {title} TEST from h () port 0 to h () port 0\nTHROUGHPUT=1.25\n"
    (found,) = formats.read(text.encode(), "netperf").directions
    assert found.result is not None
    untold = f"the unit of its THROUGHPUT is not told: read as {unit}, the default of netperf"
    assert untold in found.result.doubts


def test_a_reverse_test_of_netperf_has_the_retransmissions_of_its_sender(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    # Verbatim output of netperf 2.7.0.
    (source / "a.out").write_text(
        "MIGRATED TCP MAERTS TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () port 0"
        " AF_INET : demo\nTHROUGHPUT=0.20\nTHROUGHPUT_UNITS=GBytes/s\nREMOTE_RECV_THROUGHPUT=0.00\n"
        "LOCAL_TRANSPORT_RETRANS=0\nREMOTE_TRANSPORT_RETRANS=52\nELAPSED_TIME=1.00\n"
    )
    assert imported(source) == 0
    names = ("test", "rate", "localRetrans", "remoteRetrans")
    assert [rows(source)[1][name] for name in names] == ["TCP_MAERTS", "1717.987", "", "52.0"]


@pytest.mark.parametrize(
    "text",
    [
        '{"end": {"sum_sent": {"bits_per_second": NaN}}}',
        '{"end": {"sum_sent": {"bits_per_second": 1e999}}}',
        '{"end": {"sum_sent": {"bits_per_second": -1}}}',
        '{"end": {"sum_sent": {"bits_per_second": true}}}',
        '{"end": {"sum_sent": {"bits_per_second": ' + "9" * 5000 + "}}}",
        '{"end": {"sum_sent": [1]}}',
        '{"end": ' + '{"a": ' * 100_000,
        "{" * 100_000,
        output(5.0)[:-60],
        "\x00\xff garbage {}",
        "[SUM] 0.00-1.00 sec 1 GBytes 99999999999999999999 Tbits/sec sender",
    ],
)
def test_impossible_outputs_are_runs_without_a_result(text):
    found = iperf3.read(text.encode("utf-8", errors="surrogateescape"))
    assert (found.sent, found.kind) == (None, "no-result")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"sysstat": {"hosts": [{"statistics": [{"cpu-load": [{"cpu": "1", "usr": NaN}]}]}]}}',
        '{"sysstat": {"hosts": [{"statistics": [{"cpu-load": [{"cpu": "1", "usr": "x"}]}]}]}}',
        '{"sysstat": {"hosts": [{"statistics": [{"cpu-load": [{"usr": 1}]}]}]}}',
        "[" * 100_000,
    ],
)
def test_mpstat_files_that_are_none_are_refused(text):
    with pytest.raises(OutputError):
        mpstat.read(text.encode())


@pytest.mark.parametrize(
    "clocks",
    [
        ("11:59:59 AM", "12:00:00 PM", "12:00:01 PM", "01:00:01 PM"),
        ("23.59.59", "00.00.00", "00.00.01", "01.00.01"),
        ("11:59:59 PM", "12:00:00 AM", "12:00:01 AM", "01:00:01 AM"),
        ("2024-03-01T11:59:59+0000", "12:00:00", "12:00:01", "13:00:01"),
    ],
)
def test_times_of_mpstat_are_those_of_any_locale(clocks):
    value = json.loads(mpstat_file(IDLE[:4]))
    for entry, clock in zip(value["sysstat"]["hosts"][0]["statistics"], clocks, strict=True):
        entry["timestamp"] = clock
    found = mpstat.read(json.dumps(value).encode())
    assert [each.after_s for each in found.samples] == [0, 1, 2, 3602]


def test_no_link_is_followed(tmp_path):
    made = Tree(tmp_path / "in")
    made.run("a", 1, output(1.0))
    secret = tmp_path / "secret"
    secret.write_text(output(2.0))
    (made.section("a") / "src-cmd:10.0.0.1:2").symlink_to(secret)
    (made.root / "up").symlink_to(tmp_path)
    os.mkfifo(made.section("a") / "src-cmd:10.0.0.1:3")
    assert imported(made.root) == 0
    assert [row["rate"] for row in rows(made.root)[::2]] == ["1000.000"]
    assert [kind for _, kind in findings(made.root)] == ["unlisted"] * 3


@pytest.fixture
def beside(tmp_path: Path) -> Tree:
    """A tree with ten runs, and files most of which belong to none of them."""
    made = Tree(tmp_path / "in")
    for number in range(1, 11):
        made.run("a", number, output(1.0))
    made.file("a", "pre-src-cmd", "tuned\n")
    made.file("a", "dst-cmd:10.3.54.2:99", "nobody called\n")
    made.file("b", "10.3.54.9-meta.json", '{"rtt": 0}')
    made.file("b", "jobs.ini", "src-cmd = iperf3\n")
    for name in ("1.log", "2.log", "3.log", "4.log"):
        made.file("a", name, "")
    return made


def test_files_of_no_run_are_named(beside, capsys):
    imported(beside.root)
    told = capsys.readouterr().err.replace(f"sender/{beside.date}/", "")
    names = "a/1.log, a/2.log, a/3.log, a/4.log, a/dst-cmd:10.3.54.2:99, …"
    assert f"6 other files were ignored: {names}\n" in told


def test_metadata_and_job_files_of_no_run_have_their_findings(beside):
    imported(beside.root)
    found = imported_runs.read_findings(out(beside.root))
    assert [(Path(each.file).name, each.kind) for each in found] == [
        ("10.3.54.9-meta.json", "rtt-zero"),
        ("jobs.ini", "unlisted"),
    ]


def test_experiments_are_in_the_order_of_the_numbers_of_runs(beside):
    imported(beside.root)
    assert [run.number for run in imported_runs.runs(out(beside.root))] == list(range(1, 11))


def test_outputs_of_commands_that_ran_once_are_kept_with_each_run(beside):
    imported(beside.root)
    assert len(list(out(beside.root).glob("*/raw/*/pre-src-cmd"))) == 10


def test_a_tree_deeper_than_the_limit_is_cut(tmp_path):
    deep = tmp_path / "in"
    for _ in range(tree.DEPTH_MAX + 2):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "src-cmd:h:1").write_text(output(1.0))
    assert imported(tmp_path / "in") == 2


def test_a_host_that_is_a_path_is_no_host(tmp_path):
    made = Tree(tmp_path / "in")
    made.run("a", 1, output(1.0))
    made.file("a", "src-cmd:..:1", output(9.0))
    assert imported(made.root) == 0
    assert len(rows(made.root)) == 2


def test_copies_are_other_files(folder):
    imported(folder, "--name", PATTERN, "--copy")
    (raw,) = (out(folder) / "4" / "raw").rglob("*.json")
    source = folder / raw.name
    assert raw.read_bytes() == source.read_bytes()
    assert not raw.samefile(source)


def children(process: psutil.Process) -> list[psutil.Process]:
    """The processes that do its work."""
    return [each for each in process.children() if "spawn_main" in " ".join(each.cmdline())]


def stop(folder: Path, by: signal.Signals) -> tuple[int, str]:
    """Import, and signal all processes of the import while it writes; its status, and what it
    printed. None of them is left."""
    words = ["import", "results", str(folder), "--out", str(out(folder)), "--name", PATTERN]
    argv = [sys.executable, "-m", "netesto", *words]
    process = psutil.Popen(argv, stderr=subprocess.PIPE, process_group=0, text=True)
    deadline = time.monotonic() + 60
    while not (out(folder) / ".importing" / "2" / "manifest.json").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    # Its end must not come before the signal: to find its workers takes a while.
    os.killpg(process.pid, signal.SIGSTOP)
    workers = children(process)
    # Ctrl-C is for all of a terminal; whoever kills one process does not see the others.
    if by == signal.SIGINT:
        os.killpg(process.pid, by)
    else:
        process.send_signal(by)
    os.killpg(process.pid, signal.SIGCONT)
    told = process.communicate(timeout=60)[1]
    assert psutil.wait_procs(workers, timeout=60)[1] == []
    return process.returncode, told


def test_an_import_that_was_interrupted_or_killed_is_done_again_whole(folder):
    for number in range(100):
        (folder / f"iperf_mtu9000_Z_P1_{number}.json").write_text(output(10.0))
    assert stop(folder, signal.SIGINT) == (130, "netesto: interrupted\n")
    assert not out(folder).exists()
    assert stop(folder, signal.SIGKILL)[0] == -signal.SIGKILL
    assert not (out(folder) / "exp.csv").exists()
    assert imported(folder, "--name", PATTERN) == 1
    assert [row["exp"] for row in rows(folder)][-1] == "104.1"
    assert not (out(folder) / ".importing").exists()
    assert imported(folder, "--name", PATTERN) == 0


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was imported from files whose names and errors are not what one expects."""
    place = tmp_path_factory.mktemp("odd")
    for name in (b"new\nline", b"s\xff\x1b[2J"):
        folder = place / "in" / os.fsdecode(name)
        folder.mkdir(parents=True)
        (folder / "src-cmd:h:1").write_text(output(3))
    (folder / "src-cmd:h:2").write_text('{"start": {}, "error": "a\\ud800\\u001b[2J"}')
    (place / "in" / ("src-cmd:" + "x" * 240 + ":1")).write_text(output(3))
    os.mkfifo(place / "in" / "src-cmd:pipe:1")
    assert cli.main(["import", "results", str(place / "in"), "--out", str(place / "out")]) == 1
    return place / "out"


def test_names_that_a_terminal_obeys_or_that_are_no_text_are_written_as_numbers(odd):
    rows = csvfile.read(odd / store.TABLE)
    assert [row["expName"] for row in rows if row["exp"].endswith(".0")] == [
        "new\\nline",
        "s\\xff\\x1b[2J",
        "s\\xff\\x1b[2J",
    ]


def test_an_error_that_a_terminal_obeys_is_visible(odd):
    (run,) = [each for each in imported_runs.runs(odd) if each.reason]
    assert run.reason == "a�␛[2J"


def test_outputs_of_clients_that_cannot_be_taken_are_findings(odd):
    assert [(each.file[:11], each.kind) for each in imported_runs.read_findings(odd)] == [
        ("s\\xff\\x1b[2", "error"),
        ("src-cmd:pip", "unlisted"),
        ("src-cmd:xxx", "unlisted"),
    ]


def test_an_import_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    tree = Tree(tmp_path / "in")
    tree.run("one", 1, output(3))
    tree.run("one", 2, output(3, streams=40))
    words = ["import", "results", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--copy"]
    done = subprocess.run(
        # Truncated bytecode would remain for later processes.
        ["prlimit", "--fsize=20000", sys.executable, "-B", "-m", "netesto", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "File too large" in done.stderr) == (3, True)
    assert not (tmp_path / "out").exists()


def test_a_run_that_failed_may_have_a_file_whose_name_is_no_text(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / os.fsdecode(b"iperf_mtu9000_Z_P1_\xff.json")).write_text("")
    assert imported(tmp_path / "in", "--name", PATTERN) == 1
    assert [row["status"] for row in rows(tmp_path / "in")] == ["failed", "empty"]


def test_an_mpstat_file_of_no_run_may_have_the_longest_name(tmp_path):
    tree = Tree(tmp_path / "in")
    tree.run("one", 1, output(3))
    path = tree.cpu("sender", "one", 1, mpstat_file(IDLE), host="x" * 234)
    assert len(path.name) == 255
    assert imported(tree.root) == 0


def test_pages_that_were_drawn_on_request_link_to_each_other(tmp_path):
    tree = Tree(tmp_path / "in")
    for number in (1, 2, 3):
        tree.run("one", number, output(3))
    out = tmp_path / "out"
    assert cli.main(["import", "results", str(tmp_path / "in"), "--out", str(out)]) == 0
    assert cli.main(["report", str(out), "1", "3"]) == 0
    page = (out / "1" / "exp.html").read_text()
    assert re.findall(r'href="(\.\./[^"]*)"', page) == ["../exp.html", "../3/exp.html"]


def test_what_was_imported_into_its_own_tree_is_not_imported_again(tmp_path, capsys):
    Tree(tmp_path / "in").run("one", 1, output(3))
    words = ["import", "results", str(tmp_path / "in"), "--out", str(tmp_path / "in")]
    assert [cli.main(words), cli.main(words)] == [0, 0]
    assert "imported 0 runs; 1 had been imported before" in capsys.readouterr().out


def test_the_rate_that_was_asked_of_each_stream_is_that_of_the_flow_times_streams(tmp_path):
    made = tmp_path / "json"
    made.mkdir()
    told = document(5, streams=4)
    told["start"]["test_start"]["target_bitrate"] = 2_500_000_000  # type: ignore[index]
    (made / "a.json").write_text(json.dumps(told))
    assert imported(made) == 0
    assert rows(made)[1]["bitrate"] == "10000"


def test_files_of_runs_that_all_failed_have_the_table_of_files(tmp_path, capsys):
    made = tmp_path / "json"
    made.mkdir()
    (made / "a.json").write_text(failed("refused"))
    assert imported(made) == 1
    capsys.readouterr()
    assert cli.main(["summary", str(out(made)), "-f", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["a.json,,,,,,failed: refused,,"]
