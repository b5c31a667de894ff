import json
from dataclasses import replace

import pytest

from netesto.collectors import counters
from netesto.collectors.clock import Clock
from netesto.collectors.counters import COUNTERS, CountersRecording, tcp
from netesto.errors import OutputError
from netesto.measured import CounterSamples
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
    assert tcp.parse(TEXT) == {
        "InSegs": 100, "OutSegs": 200, "RetransSegs": 3, "TCPTimeouts": 4, "TCPLossProbes": 5,
    }  # fmt: skip


def recorded(kind, tmp_path, warn=pytest.fail):
    """What a sample of counters appends to their file."""
    recording = CountersRecording(kind, tmp_path / f"{kind.name}.jsonl", Clock(), warn)
    found = recording.look()
    recording.close()
    return found


@pytest.mark.parametrize("name", COUNTERS)
def test_this_kernel_has_all_that_are_shown(name, tmp_path):
    kind = COUNTERS[name]
    assert kind.units.keys() <= json.loads(recorded(kind, tmp_path))["counters"].keys()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (KeyError("OutSegs"), "KeyError: 'OutSegs'"),
    ],
)
def test_counters_that_cannot_be_read_are_missing_with_the_reason(error, said, tmp_path):
    def fail():
        raise error

    said_by_it: list[str] = []
    kind = replace(COUNTERS["tcp"], read=fail)
    assert recorded(kind, tmp_path, said_by_it.append) == b""
    assert {*said_by_it} == {f"the counters tcp are missing: {said}"}


@pytest.mark.parametrize(
    "changes",
    [{"name": "cpu"}, {"name": "../tcp"}, {"drawn": ()}, {"drawn": ("InSegs",)}],
)
def test_counters_have_a_name_of_their_own_and_a_graph_of_what_they_count(changes):
    with pytest.raises(ValueError, match=r"counters|drawn"):
        replace(COUNTERS["tcp"], **changes)


def test_samples_are_columns_and_missing_counters_unknown(tmp_path):
    path = tmp_path / "tcp.jsonl"
    path.write_text(
        '{"time_s": 1.5, "counters": {"OutSegs": 5}}\n'
        '{"time_s": 2.5, "counters": {"OutSegs": 7, "InSegs": 1}}\n'
        '{"time_s": 3.5, "coun'
    )
    assert counters.read(path, offset=ClockOffset(0.5, 0.0)) == CounterSamples(
        (1.0, 2.0), {"OutSegs": (5, 7), "InSegs": (None, 1)}
    )


@pytest.mark.parametrize(
    "line", ['{"time_s": 1}', '{"time_s": 1, "counters": {"a": -1}}', "[]", "7", "{"]
)
def test_a_line_that_is_not_ours_is_named_with_its_place(tmp_path, line):
    path = tmp_path / "tcp.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(OutputError, match=r"tcp\.jsonl:1: not counters: "):
        counters.read(path)
