"""The captures on an experiment's page."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from netesto.errors import ResultsError
from netesto.packets.found import Capture, CapturedFlow, Drawing
from netesto.results import packetfile
from netesto.results.evidence import CaptureEvidence, ExperimentEvidence
from results import samples

DRAWING = Drawing(
    sent=((0.5, 0, 1000), (0.6, 1000, 2000)),
    again={"fast": ((0.7, 0, 1000),)},
    late=(),
    selective=((0.65, 1000, 2000),),
    acked=((0.54, 0), (0.74, 2000)),
    window=((0.54, 60_000),),
    rtt_ms=((0.74, 40.0),),
    interval_s=0.1,
    rate_time_s=(0.55, 0.65),
    sent_mbit_per_s=(0.08, 0.08),
    acked_mbit_per_s=(0.0, 0.16),
)


def capture(host: str, *flows: CapturedFlow) -> CaptureEvidence:
    start_s = samples.BEGIN_S + 3.0
    found = Capture(
        form="pcap", packets=9, other_packets=1, start_s=start_s, lasted_s=4.0, flows=flows
    )
    # The host's clock is ahead by a second.
    return CaptureEvidence(host=host, file=f"raw/{host}/capture.1.pcap", ahead_s=1.0, capture=found)


SENDER = samples.captured(1, drawing=DRAWING)
RECEIVER = samples.captured(1, side="receiver", drawing=DRAWING)


def evidence() -> ExperimentEvidence:
    captures = (capture("server1", RECEIVER), capture("client1", SENDER))
    return replace(samples.two_flows(), captures=captures)


@pytest.fixture
def folder(publish: Callable[..., Path]) -> Path:
    return publish(evidence(), files={})


def test_a_flow_that_was_captured_twice_is_drawn_once(folder: Path, read):
    page = read(folder)
    drawn = [each for each in page.ids if each.startswith(("graph-sequence", "graph-packet"))]
    assert drawn == ["graph-sequence-1", "graph-packet-rtt-1", "graph-packet-rates-1"]
    assert page.unclosed == []
    assert len(page.ids) == len(set(page.ids))
    assert "capture.1.pcap" in page.text
    assert {"plots/sequence-1.svg", "packets.json"} <= set(page.links)


def test_times_are_on_the_experiments_axis(folder: Path):
    (_, record) = packetfile.read(folder)
    assert (record.host, record.begin_s, record.capture.flows) == ("client1", 2.0, (SENDER,))


def test_of_many_flows_the_largest_are_kept(tmp_path: Path):
    flows = [samples.captured(number=i, bytes=i) for i in range(1, 151)]
    packetfile.write(tmp_path, (capture("client1", *flows),), 0.0)
    (record,) = packetfile.read(tmp_path)
    assert [flow.number for flow in record.capture.flows] == list(range(51, 151))
    assert record.further == 50


def test_an_experiment_without_captures_has_no_such_section(publish: Callable[..., Path], read):
    folder = publish(samples.two_flows(), files={})
    assert "From packets" not in read(folder).text
    assert not (folder / packetfile.NAME).exists()


def test_captures_that_are_gone_leave_no_file(folder: Path):
    packetfile.write(folder, (), samples.BEGIN_S)
    assert not (folder / packetfile.NAME).exists()


@pytest.mark.parametrize("text", ["", "[{}]", '{"host":1}', json.dumps([{"host": "a"}])])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str):
    (tmp_path / packetfile.NAME).write_text(text)
    with pytest.raises(ResultsError):
        packetfile.read(tmp_path)
