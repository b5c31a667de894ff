"""The file of socket samples: what is written, and what this and later versions read."""

import json
import socket
import struct
import zlib
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.collectors import socketfile
from netesto.collectors.netlink import attribute
from netesto.collectors.sockdiag import (
    DIAG_BBRINFO,
    DIAG_CONG,
    DIAG_DCTCPINFO,
    DIAG_INFO,
    DIAG_SKMEMINFO,
    DIAG_VEGASINFO,
)
from netesto.errors import OutputError
from netesto.measured import SocketSample
from netesto.model import ClockOffset

# Three ticks of both ends of a connection over loopback, and what the kernel reported at their end.
STORED = "sockets-linux-6.18.bin.gz"
SAMPLES = 8

DOCUMENT = Path(__file__).parents[2] / "docs" / "data-formats.md"

CWND_OFFSET, RTT_OFFSET = 80, 68


def message(
    info: bytes | None = None, *, control: bytes | None = b"cubic\0", more: bytes = b""
) -> bytes:
    """An inet_diag_msg from port 5000 to port 6000, with its netlink header, and with `more` before
    its attributes."""
    found = struct.pack("=BBBB", socket.AF_INET, 1, 0, 0) + struct.pack(">HH", 5000, 6000)
    found += bytes(72 - len(found)) + more
    for kind, value in ((DIAG_INFO, info), (DIAG_CONG, control)):
        if value is not None:
            found += attribute(kind, value) + bytes(-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(found), 20, 2, 1, 1) + found


def tcp_info(size: int, *, cwnd: int = 10, rtt_us: int = 0) -> bytes:
    info = bytearray(size)
    struct.pack_into("=I", info, CWND_OFFSET, cwnd)
    struct.pack_into("=I", info, RTT_OFFSET, rtt_us)
    return bytes(info)


def content(path: Path) -> tuple[dict, bytes]:
    """The header and the records of a file."""
    header, _, records = zlib.decompress(path.read_bytes(), wbits=31).partition(b"\n")
    return json.loads(header), records


def written(path: Path, header: dict, records: bytes) -> Path:
    compressor = zlib.compressobj(wbits=31)
    data = compressor.compress(json.dumps(header).encode() + b"\n" + records)
    path.write_bytes(data + compressor.flush())
    return path


def only(path: Path, *messages: bytes, info_bytes: int, at_s: float = 5.0) -> SocketSample:
    """The one sample in a file of one record."""
    recorder = socketfile.Recorder(info_bytes)
    recorder.add(at_s, at_s, messages)
    path.write_bytes(recorder.end())
    (found,) = socketfile.read(path)
    return found


def test_samples_of_a_stored_file_are_what_the_kernel_reported(fixtures):
    samples = socketfile.read(fixtures / STORED)
    assert len(samples) == SAMPLES
    assert samples[3] == SocketSample(
        time_s=1000.2001,
        local_port=39876,
        peer_port=35503,
        peer=ip_address("::1"),
        cookie=49344,
        state="ESTAB",
        congestion_control="bbr",
        cwnd=16,
        mss_bytes=65464,
        rtt_ms=0.034,
        min_rtt_ms=0.006,
        unacked=0,
        lost=0,
        retransmits=0,
        total_retransmits=0,
        segments_out=8,
        data_segments_out=6,
        bytes_sent=200000,
        bytes_acked=200001,
        bytes_received=0,
        unread_bytes=0,
        busy_us=4000,
        window_limited_us=0,
        buffer_limited_us=0,
    )


def test_final_counts_of_a_socket_have_the_state_close(fixtures):
    ends = [each for each in socketfile.read(fixtures / STORED) if each.state == "CLOSE"]
    assert {(each.local_port, each.bytes_sent, each.bytes_received) for each in ends} == {
        (35503, 0, 300_001),
        (39876, 300_000, 1),
    }


def test_samples_move_to_the_clock_that_the_files_was_ahead_of(fixtures):
    times_s = [
        each.time_s for each in socketfile.read(fixtures / STORED, offset=ClockOffset(1000, 0.0))
    ]
    assert times_s == pytest.approx([0.0001, 0.0001, 0.2001, 0.2001, 0.4001, 0.4001, 0.7, 0.7])


@pytest.mark.parametrize("block", [1, 2])
def test_the_documents_lines_read_a_file_into_columns(fixtures, monkeypatch, tmp_path, block):
    code = (
        DOCUMENT.read_text()
        .split("```python\n")[block]
        .partition("```")[0]
        .replace("13399", "39876")
    )
    (tmp_path / "sockets.bin.gz").write_bytes((fixtures / STORED).read_bytes())
    monkeypatch.chdir(tmp_path)
    names: dict[str, np.ndarray] = {}
    exec(code, names)
    samples = names["samples"]
    assert list(samples["tcpi_bytes_sent"]) == [
        each.bytes_sent for each in socketfile.read(fixtures / STORED)
    ]


@given(st.data())
def test_a_file_truncated_anywhere_gives_the_samples_before(tmp_path_factory, fixtures, data):
    path = tmp_path_factory.mktemp("truncated") / "sockets.bin.gz"
    whole = (fixtures / STORED).read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    found = socketfile.read(path)
    assert found == socketfile.read(fixtures / STORED)[: len(found)]


def test_a_piece_can_be_read_before_the_next(tmp_path):
    path = tmp_path / "sockets.bin.gz"
    recorder = socketfile.Recorder(280)
    counts = []
    for number in range(3):
        recorder.add(number, number, [message(tcp_info(280))])
        with path.open("ab") as file:
            file.write(recorder.piece())
        counts.append(len(socketfile.read(path)))
    assert counts == [1, 2, 3]


def test_where_nothing_was_added_there_is_no_piece():
    recorder = socketfile.Recorder(280)
    assert (recorder.piece()[:2], recorder.piece()) == (b"\x1f\x8b", b"")


def test_a_file_without_samples_has_its_header(tmp_path):
    path = tmp_path / "sockets.bin.gz"
    path.write_bytes(socketfile.Recorder(280).end())
    assert (content(path)[0]["format"], socketfile.read(path)) == ("netesto socket samples 1", [])


@given(st.floats(0, 4e9), st.floats(0, 0.1))
def test_instants_are_full_microseconds(tmp_path_factory, before_s, took_s):
    path = tmp_path_factory.mktemp("times") / "sockets.bin.gz"
    recorder = socketfile.Recorder(280)
    recorder.add(before_s, before_s + took_s, [message(tcp_info(280))])
    path.write_bytes(recorder.end())
    # As text had them: exp.csv does not depend on the version that measured.
    before, after = float(f"{before_s:.6f}"), float(f"{before_s + took_s:.6f}")
    assert [each.time_s for each in socketfile.read(path)] == [before + (after - before) / 2]


def test_what_an_older_kernel_does_not_count_is_unknown(tmp_path):
    found = only(tmp_path / "a", message(tcp_info(104)), info_bytes=104)
    assert (found.cwnd, found.lost, found.segments_out, found.bytes_sent, found.min_rtt_ms) == (
        10,
        0,
        None,
        None,
        None,
    )


def test_what_is_newer_than_the_names_is_kept_raw(tmp_path):
    path = tmp_path / "sockets.bin.gz"
    info = tcp_info(288)[:-8] + b"newfield"
    only(path, message(info), info_bytes=288)
    header, records = content(path)
    samples = np.frombuffer(records, np.dtype(header["dtype"]))
    assert samples["tcpi_rest"][0].tobytes() == b"newfield"


@pytest.mark.parametrize(
    ("number", "size", "field"),
    [
        (DIAG_VEGASINFO, 16, "vegas_enabled"),
        (DIAG_DCTCPINFO, 16, "dctcp_enabled"),
        (DIAG_BBRINFO, 20, "bbr_bw_lo"),
    ],
)
def test_what_congestion_controls_report_is_in_their_fields(number, size, field, tmp_path):
    info = struct.pack("=H", 7) + bytes(size - 2) + b"newer"
    told = message(tcp_info(280), more=attribute(number, info) + bytes(3))
    path = tmp_path / "a"
    only(path, told, info_bytes=280)
    header, records = content(path)
    [sample] = np.frombuffer(records, np.dtype(header["dtype"]))
    assert (sample["cc_attribute"], sample[field], sample["cc_rest"].tobytes()[:5]) == (
        number,
        7,
        b"newer",
    )


def test_messages_of_one_length_may_have_other_attributes(tmp_path):
    path = tmp_path / "a"
    recorder = socketfile.Recorder(280)
    plain = message(None, control=b"reno\0\0")
    other = message(None, control=None, more=attribute(DIAG_VEGASINFO, b"reno\0\0") + bytes(2))
    recorder.add(1.0, 1.0, [plain + other, plain])
    path.write_bytes(recorder.end())
    found = [each.congestion_control for each in socketfile.read(path)]
    assert sorted(found) == ["", "reno", "reno"]


def test_padding_may_come_more_than_once(tmp_path):
    # As Linux 6.1 pads attributes of 64 bits.
    pad = struct.pack("=HH", 4, 14)
    padded = message(tcp_info(232, cwnd=7), control=b"reno\0", more=pad + pad)
    found = only(tmp_path / "a", padded, info_bytes=232)
    assert (found.cwnd, found.congestion_control) == (7, "reno")


def test_fields_that_a_later_version_adds_are_ignored(tmp_path, fixtures):
    header, records = content(fixtures / STORED)
    size = len(records) // SAMPLES
    for name, format_ in (("added", "<u4"), ("more", "V8")):
        header["dtype"]["names"].insert(2, name)
        header["dtype"]["formats"].insert(2, format_)
    wider = b"".join(
        records[place : place + 16] + bytes(12) + records[place + 16 : place + size]
        for place in range(0, len(records), size)
    )
    path = written(tmp_path / "sockets.bin.gz", header, wider)
    assert socketfile.read(path) == socketfile.read(fixtures / STORED)


def test_a_socket_without_tcp_info_knows_only_its_ports_its_cookie_and_its_queue(tmp_path):
    assert only(tmp_path / "a", message(control=None), info_bytes=280) == SocketSample(
        time_s=5.0,
        local_port=5000,
        peer_port=6000,
        peer=ip_address("0.0.0.0"),
        cookie=0,
        state="ESTAB",
        unread_bytes=0,
    )


def test_a_socket_has_the_limits_of_its_buffers(tmp_path):
    memory = attribute(DIAG_SKMEMINFO, struct.pack("=9I", 0, 131_072, 0, 87_040, 0, 0, 0, 0, 0))
    found = only(tmp_path / "a", message(tcp_info(280), more=memory), info_bytes=280)
    assert (found.send_buffer_bytes, found.receive_buffer_bytes) == (87_040, 131_072)


def test_an_rtt_that_is_not_measured_yet_is_unknown(tmp_path):
    found = only(tmp_path / "a", message(tcp_info(280)), info_bytes=280)
    assert (found.rtt_ms, found.min_rtt_ms, found.total_retransmits) == (None, None, 0)


@pytest.mark.parametrize(
    "data",
    [b"@10.0 10.5\n", zlib.compress(b"{}\n", wbits=31), zlib.compress(b"[1]\n", wbits=31)],
    ids=["text", "header without fields", "header of another kind"],
)
def test_another_file_is_named(data, tmp_path):
    path = tmp_path / "sockets.bin.gz"
    path.write_bytes(data)
    with pytest.raises(OutputError, match=r"sockets\.bin\.gz: not a file of socket samples"):
        socketfile.read(path)
