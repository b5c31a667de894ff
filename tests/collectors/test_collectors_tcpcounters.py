import json

import pytest

from netesto.collectors import tcpcounters
from netesto.collectors.clock import Clock
from netesto.collectors.tcpcounters import TcpRecording
from netesto.errors import OutputError
from netesto.measured import Counted
from netesto.model import ClockOffset

# The two files, each shortened to a few counters.
TEXT = """\
Ip: Forwarding InReceives
Ip: 1 99
Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs
Tcp: 1 -1 100 200 3
TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes
TcpExt: 7 4 5
IpExt: InNoRoutes OutSegs
IpExt: 0 12345
"""


def test_counters_are_those_of_tcp():
    assert tcpcounters.parse(TEXT) == {
        "InSegs": 100, "OutSegs": 200, "RetransSegs": 3, "TCPTimeouts": 4, "TCPLossProbes": 5,
    }  # fmt: skip


def test_this_kernel_has_all_that_are_shown(tmp_path):
    recording = TcpRecording(tmp_path / "tcp.jsonl", Clock(), pytest.fail)
    found = json.loads(recording.look())["counters"]
    recording.close()
    shown = {"OutSegs", "RetransSegs", "TCPTimeouts", "TCPSpuriousRTOs", "TCPLossProbes"}
    assert shown <= found.keys()


def test_samples_are_columns_and_missing_counters_unknown(tmp_path):
    path = tmp_path / "tcp.jsonl"
    path.write_text(
        '{"time_s": 1.5, "counters": {"OutSegs": 5}}\n'
        '{"time_s": 2.5, "counters": {"OutSegs": 7, "InSegs": 1}}\n'
        '{"time_s": 3.5, "coun'
    )
    assert tcpcounters.read(path, offset=ClockOffset(0.5, 0.0)) == Counted(
        (1.0, 2.0), {"OutSegs": (5, 7), "InSegs": (None, 1)}
    )


@pytest.mark.parametrize(
    "line", ['{"time_s": 1}', '{"time_s": 1, "counters": {"a": -1}}', "[]", "7", "{"]
)
def test_a_line_that_is_not_ours_is_named_with_its_place(tmp_path, line):
    path = tmp_path / "tcp.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(OutputError, match=r"tcp\.jsonl:1: not counters of TCP"):
        tcpcounters.read(path)
