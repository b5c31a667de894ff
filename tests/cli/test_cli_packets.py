"""`netesto packets`: output, files and exit statuses."""

import csv
import io
import json
import struct
from pathlib import Path

import pytest

from netesto import cli


def frame(time_s: float, sequence: int, acked: int, size: int, *, is_reply: bool = False) -> bytes:
    ends = [b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"]
    ports = [40000, 5201]
    if is_reply:
        ends.reverse()
        ports.reverse()
    network = struct.pack(">BBHHHBBH", 0x45, 0, 40 + size, 0, 0, 64, 6, 0) + ends[0] + ends[1]
    transport = struct.pack(">HHIIBBHHH", *ports, sequence, acked, 0x50, 16, 1000, 0, 0)
    data = bytes(12) + b"\x08\x00" + network + transport + bytes(size)
    header = (int(time_s), round(time_s % 1 * 1e6), len(data), len(data))
    return struct.pack("<IIII", *header) + data


CAPTURE = b"".join(
    (
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1),
        frame(100.0, 1, 1, 1000),
        frame(100.04, 1, 1001, 0, is_reply=True),
        frame(100.5, 1001, 1, 1000),
        frame(100.54, 1, 2001, 0, is_reply=True),
    )
)

TEXT = """\
{path}: pcap: 4 packets in 0.54 s.
flow  from            to               s  bytes  Mbit/s  min RTT ms  median ms  max ms
   1  10.0.0.1:40000  10.0.0.2:5201  0.5   2000   0.032          40         40      40
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "a.pcap"
    found.write_bytes(CAPTURE)
    return found


def test_the_table_has_what_is_known(path: Path, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["packets", str(path)]) == 0
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == (TEXT.format(path=path), "")


def test_csv_and_json_have_the_same_values(path: Path, capfd: pytest.CaptureFixture[str]):
    assert cli.main(["packets", "-f", "csv", str(path), str(path)]) == 0
    rows = list(csv.DictReader(io.StringIO(capfd.readouterr().out)))
    assert cli.main(["packets", "-f", "json", str(path), str(path)]) == 0
    captures = json.loads(capfd.readouterr().out)
    flows = [flow | {"file": each["file"]} for each in captures for flow in each["flows"]]
    assert [
        {name: float(row[name] or "nan") for name in ("bytes", "rtt_min_ms")} for row in rows
    ] == [{"bytes": 2000.0, "rtt_min_ms": 40.0}] * 2
    for row, flow in zip(rows, flows, strict=True):
        assert row.keys() == flow.keys()
        assert [name for name in row if (row[name] == "") != (flow[name] is None)] == []


def test_one_flow_is_shown_with_everything_known_of_it(
    path: Path, capfd: pytest.CaptureFixture[str]
):
    assert cli.main(["packets", str(path), "--flow", "1"]) == 0
    shown = capfd.readouterr().out
    assert "rtt_samples          2\n" in shown
    assert "completion_ms" not in shown


def test_the_page_has_table_and_figures(path: Path, tmp_path: Path):
    out = tmp_path / "new" / "a.html"
    assert cli.main(["packets", str(path), "-f", "html", "-o", str(out)]) == 0
    page = out.read_text()
    titles = ("Time and sequence: 10.0.0.1:40000", "RTT: 10.0.0.1:40000", "Rates: 10.0.0.1:40000")
    assert [title in page for title in titles] == [True] * 3


def test_a_damaged_file_is_shown_and_is_status_1(path: Path, capfd: pytest.CaptureFixture[str]):
    path.write_bytes(CAPTURE[:-10])
    assert cli.main(["packets", str(path)]) == 1
    shown = capfd.readouterr()
    assert shown.out.startswith(f"{path}: pcap: 3 packets")
    place = len(CAPTURE) - 70
    assert shown.err == (
        f"{path}: byte {place}: the file ends inside a packet (60 bytes of it are there)\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{path}", "--flow", "2"], "{path}: no flow 2: there are flows 1 to 1"),
        (["/nothing"], "/nothing: cannot read: No such file or directory"),
        (["/"], "/: cannot read: Is a directory"),
        (["{path}", "-f", "xml"], "packets: unknown -f/--format value 'xml'"),
    ],
)
def test_what_cannot_be_shown_is_status_2(
    path: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str
):
    assert cli.main(["packets", *(word.format(path=path) for word in words)]) == 2
    shown = capfd.readouterr()
    assert (shown.out, shown.err.splitlines()[0]) == ("", f"netesto: {message.format(path=path)}")


def test_files_beside_those_that_cannot_be_read_are_analysed_and_status_is_2(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    empty = tmp_path / "empty.pcap"
    empty.touch()
    assert cli.main(["packets", str(empty), str(path), "/nothing"]) == 2
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == (
        TEXT.format(path=path),
        (
            f"netesto: {empty}: empty\n"
            "netesto packets reads files of tcpdump -w, dumpcap and Wireshark, also compressed with"
            " gzip.\n"
            "netesto: /nothing: cannot read: No such file or directory\n"
        ),
    )


def test_of_files_none_of_which_can_be_read_each_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    out = tmp_path / "a.html"
    assert cli.main(["packets", "/none", "/nothing", "-f", "html", "-o", str(out)]) == 2
    shown = capfd.readouterr()
    assert (shown.out, shown.err, out.exists()) == (
        "",
        (
            "netesto: /none: cannot read: No such file or directory\n"
            "netesto: /nothing: cannot read: No such file or directory\n"
        ),
        False,
    )
