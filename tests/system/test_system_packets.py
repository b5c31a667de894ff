"""Captures of whole runs: packets agree with the kernel."""

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, run_script

from netesto.results import packetfile
from netesto.results.packetfile import CaptureRecord

pytestmark = pytest.mark.timeout(600)

SCRIPT = """\
LAB pair {link}
DO_TCPDUMP host=a server=b packets=1000000 snap=128
DO_TCPDUMP host=b server=a packets=1000000 snap=128
DO_SERVER host=b
DO_CLIENT host=a server=b expName=Captured ca=reno dur=1 test=TCP_STREAM interval=0.1
WAIT_FLOWS
PROCESS_EXP
DO_TCPDUMP host=a server=b packets=1000000 snap=128
DO_SERVER host=b exp=COUNTER
DO_CLIENT host=a server=b expName=Flows test=TCP_FLOWS tool=native size=50K count=20 stats=1
WAIT_FLOWS
PROCESS_EXP
"""
SIZE = 50_000

# A short queue drops in the kernel of this machine, which need not have netem.
LINKS = {"lab": "rate=20mbit limit=20p offload=off", "sim": "rate=20mbit rtt=40 loss=2"}


@dataclass(frozen=True, slots=True)
class Run:
    ground: str
    outcome: Outcome
    captures: list[CaptureRecord]

    @property
    def row(self) -> dict[str, str]:
        return self.outcome.rows[1]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("lab", marks=pytest.mark.lab),
        pytest.param("sim", marks=pytest.mark.sim),
    ],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    ground = request.param
    if ground == "sim":
        kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("packets")
    script = SCRIPT.format(link=LINKS[ground])
    options = ["--ground", ground, "--seed", "1"]
    outcome = run_script(folder, script, options, pages=ground == "lab")
    assert outcome.status == 0, outcome.stderr
    return Run(ground, outcome, packetfile.read(outcome.out / "1"))


def test_packets_were_retransmitted_as_often_as_the_kernel_says(run: Run):
    assert float(run.row["pktRetrans"]) == float(run.row["retrans_total"]) > 0


def test_columns_add_what_captures_show_of_each_flow(run: Run):
    (record,) = packetfile.read(run.outcome.out / "2")
    again = sum(flow.segments_again or 0 for flow in record.capture.flows if flow.size == SIZE)
    assert [float(row["pktRetrans"]) for row in run.outcome.rows if row["exp"] == "2.1"] == [again]


def test_first_packets_follow_the_start_of_the_tool(run: Run):
    start, syn, data = (float(run.row[name]) for name in ("startSkew", "synSkew", "dataSkew"))
    assert start <= syn <= data


def test_nothing_disagrees(run: Run):
    warnings = run.outcome.manifest(1)["warnings"]
    assert [text for text in warnings if "captur" in text or "retransmitted" in text] == []


@pytest.mark.parametrize("run", [pytest.param("lab", marks=pytest.mark.lab)], indirect=True)
def test_the_page_has_the_time_sequence_graph(run: Run):
    page = Path(run.outcome.out, "1", "exp.html").read_text()
    assert 'id="graph-sequence-1"' in page


def test_each_of_many_flows_is_as_the_senders_kernel_saw_it(run: Run):
    """TX_ACK time stamps of the last byte, and tcpi_total_retrans then, of each connection."""
    folder = run.outcome.out / "2"
    with (folder / "raw" / "a" / "completions.1.1.csv").open() as file:
        told = list(csv.DictReader(file))
    (record,) = packetfile.read(folder)
    flows = [flow for flow in record.capture.flows if flow.size == SIZE]
    pairs = zip(flows, told, strict=True)
    # FINs may be sent again afterwards.
    assert [
        flow.number for flow, row in pairs if (flow.segments_again or 0) < int(row["retransmits"])
    ] == []
    # Packets have times in microseconds.
    found_ms = [flow.completion_ms for flow in flows]
    told_ms = [pytest.approx(float(row["us"]) / 1000, abs=0.0021) for row in told]
    if run.ground == "sim":
        assert found_ms == told_ms
        return
    # In real time the sender looks at the clock, then sends; an acknowledgement is captured, then
    # the socket knows. In between others may have the processor: for most flows not for long.
    later_ms = [
        float(row["us"]) / 1000 - (found or 0) for found, row in zip(found_ms, told, strict=True)
    ]
    assert (None in found_ms, min(later_ms) > -0.0021, median(later_ms) < 50) == (
        False, True, True,
    ), later_ms  # fmt: skip


def kernel_counts(folder: Path) -> dict[str, int]:
    """The increase of the counters of TCP at host a during an experiment."""
    found: dict[str, int] = {}
    for sign, part in ((-1, "0"), (1, "1")):
        files = (folder / part / "a.snmp", folder / part / "a.netstat")
        lines = [line for file in files for line in file.read_text().splitlines()]
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            for name, value in zip(names.split()[1:], values.split()[1:], strict=True):
                found[name] = found.get(name, 0) + sign * int(value)
    return found


def test_kinds_of_retransmissions_are_those_that_the_kernel_counted(run: Run):
    if run.ground != "sim":
        pytest.skip("other processes of this machine delay timers")
    kernel = kernel_counts(run.outcome.out / "2")
    (record,) = packetfile.read(run.outcome.out / "2")
    sent = [flow for flow in record.capture.flows if flow.side == "sender"]
    kinds = Counter[str]()
    for flow in sent:
        kinds.update(flow.by_kind or {})
    assert sum(flow.segments_again or 0 for flow in sent) == kernel["RetransSegs"]
    assert (kinds["fast"], kinds["timeout"], kinds["after timeout"], kinds["probe"]) == (
        kernel["TCPFastRetrans"],
        kernel["TCPTimeouts"] - kernel["TCPSynRetrans"],
        kernel["TCPSlowStartRetrans"],
        kernel["TCPLossProbes"],
    )


def test_the_path_has_its_round_trip_time(run: Run):
    if run.ground != "sim":
        pytest.skip("only in simulated time it is exact")
    flows = {
        record.host: max(record.capture.flows, key=lambda flow: flow.bytes)
        for record in run.captures
    }
    assert {host: flow.side for host, flow in flows.items()} == {"a": "sender", "b": "receiver"}
    assert [flow.handshake_ms for flow in flows.values()] == [pytest.approx(40, abs=0.2)] * 2
    rtt = flows["a"].rtt
    assert rtt is not None
    # A link of 20 Mbit/s sends a segment of 1514 bytes, and the acknowledgement of 66.
    assert rtt.min_ms == pytest.approx(40 + (1514 + 66) * 8 / 20_000, abs=0.002)
