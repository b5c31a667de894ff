import hashlib
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.agent import spool
from netesto.agent.spool import Spool
from netesto.errors import AgentError
from netesto.model import FileEntry, FilePiece


def test_small_files_are_listed_with_their_hashes_and_content(tmp_path: Path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "h1.snmp").write_bytes(b"Ip: 1")
    (tmp_path / "cpu.jsonl").write_bytes(b"")
    assert spool.listed(tmp_path) == (
        [
            FileEntry("0/h1.snmp", 5, hashlib.sha256(b"Ip: 1").hexdigest()),
            FileEntry("cpu.jsonl", 0, hashlib.sha256(b"").hexdigest()),
        ],
        [FilePiece("0/h1.snmp", b"Ip: 1")],
    )


def test_large_files_are_listed_with_their_hashes_alone(tmp_path: Path):
    content = bytes(spool.SMALL_BYTES)
    (tmp_path / "capture.1.pcap").write_bytes(content)
    (tmp_path / "cpu.jsonl").write_bytes(b"1")
    assert spool.listed(tmp_path) == (
        [
            FileEntry("capture.1.pcap", len(content), hashlib.sha256(content).hexdigest()),
            FileEntry("cpu.jsonl", 1, hashlib.sha256(b"1").hexdigest()),
        ],
        [],
    )


def test_experiment_that_never_was_here_has_no_files(tmp_path: Path):
    assert spool.listed(tmp_path / "7") == ([], [])


def test_file_comes_in_pieces(tmp_path: Path):
    content = bytes(range(256)) * 2500
    (tmp_path / "capture.1.pcap").write_bytes(content)
    pieces = list(spool.pieces(tmp_path, "capture.1.pcap"))
    assert (list(map(len, pieces)), b"".join(pieces) == content) == ([262144, 262144, 115712], True)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "0/../../secret", "missing", "0", ""])
def test_nothing_else_is_read(path: str, tmp_path: Path):
    folder = tmp_path / "3"
    (folder / "0").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(AgentError, match=r"^experiment 3 has no file "):
        list(spool.pieces(folder, path))


@given(st.text())
def test_folder_of_a_run_is_in_the_spool_or_refused(run: str):
    try:
        folder = Spool(Path("/spool")).experiment(run, 3)
    except AgentError:
        return
    assert folder.resolve().parent.parent == Path("/spool")


def test_confirmed_experiment_goes_and_the_run_with_its_last(tmp_path: Path):
    files = Spool(tmp_path)
    for exp in (1, 2):
        files.experiment("run", exp).mkdir(parents=True)
    files.remove("run", 1)
    assert files.runs() == ["run"]
    files.remove("run", 2)
    assert files.runs() == []


def test_removing_what_is_not_there_is_nothing(tmp_path: Path):
    Spool(tmp_path).remove("run", 1)
    assert Spool(tmp_path / "spool").runs() == []


def test_earlier_statistics_are_kept_aside(tmp_path: Path):
    place = tmp_path / "1"
    for content in ("first", "second", "third"):
        spool.set_aside(place)
        place.mkdir()
        (place / "h1.info").write_text(content)
    assert {path.name: (path / "h1.info").read_text() for path in tmp_path.iterdir()} == {
        "1": "third",
        "1.1": "first",
        "1.2": "second",
    }


def test_each_member_of_a_record_has_a_line(tmp_path: Path):
    record = {"request": {"address": ip_address("10.0.0.1"), "cpus": (1, 2)}, "reason": "ä"}
    spool.write_json(tmp_path / "flow.json", record)
    assert (tmp_path / "flow.json").read_text() == (
        '{\n  "request": {"address": "10.0.0.1", "cpus": [1, 2]},\n  "reason": "ä"\n}\n'
    )
