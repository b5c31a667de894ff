"""The paper's two-flow experiment on this machine's kernel."""

import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from typed import nearly
from whole_runs import Outcome, left_of_labs, netesto

from netesto.collectors import socketfile

pytestmark = pytest.mark.lab

OVERLAP_MBPS = 85.0
BOTTLENECK_MBPS = 100.0


def series_of(outcome: Outcome) -> list[dict[str, Any]]:
    return json.loads((outcome.out / "1" / "series.json").read_text())["flows"]


def test_the_run_ends_well(two_flows: Outcome):
    assert (two_flows.status, two_flows.rows[0]["status"]) == (0, "ok")


def test_there_is_a_row_for_the_experiment_and_one_for_each_group(two_flows: Outcome):
    assert [row["exp"] for row in two_flows.rows] == ["1.0", "1.1", "1.2"]


def test_the_terminal_shows_the_table_and_the_page(two_flows: Outcome):
    firsts = [line.split()[0] for line in two_flows.stdout.splitlines() if line]
    assert firsts == ["exp", "1.0", "1.1", "1.2", "page", "results"]


def test_effective_congestion_controls_are_those_requested(two_flows: Outcome):
    assert [row["effCa"] for row in two_flows.rows] == ["cubic/bbr", "cubic", "bbr"]


def test_the_total_fits_the_bottleneck(two_flows: Outcome):
    assert 80.0 < float(two_flows.rows[0]["rate"]) <= BOTTLENECK_MBPS


def test_the_flows_fill_the_bottleneck_while_both_run(two_flows: Outcome):
    cubic, bbr = (flow["goodput"] for flow in series_of(two_flows))
    # The first second of a flow is its start, and its sender's buffer filling.
    begin, end = bbr["time_s"][0] + 1, bbr["time_s"][-1]
    during = [
        fmean(
            rate
            for time, rate in zip(flow["time_s"], flow["mbit_per_s"], strict=True)
            if begin <= time <= end
        )
        for flow in (cubic, bbr)
    ]
    assert OVERLAP_MBPS <= sum(during) <= BOTTLENECK_MBPS


def test_retransmissions_are_those_of_segments_and_of_packets(two_flows: Outcome):
    whole = two_flows.rows[0]
    share = 100 * float(whole["retrans_total"]) / float(whole["data_segs_out"])
    assert (float(whole["retransPkts%"]), float(whole["retransSegs%"])) == (
        nearly(share, abs=0.05),
        nearly(share, abs=1e-3),
    )


def test_sockets_report_their_final_counts(two_flows: Outcome):
    raw = two_flows.out / "1" / "raw"
    ends = [
        sum(each.state == "CLOSE" for each in socketfile.read(raw / host / "sockets.bin.gz"))
        for host in ("client1", "client2", "server1")
    ]
    assert ends == [1, 1, 2]


def test_tool_sockets_and_interfaces_agree(two_flows: Outcome):
    warnings = two_flows.manifest(1)["warnings"]
    assert [text for text in warnings if "reports" in text or "carried" in text] == []


def test_the_start_of_each_flow_is_recorded_beside_the_requested_one(two_flows: Outcome):
    flows = [flow for group in two_flows.manifest(1)["groups"] for flow in group["instances"]]
    skews = [1000 * (flow["started_s"] - flow["asked_start_s"]) for flow in flows]
    assert [flow["start_skew_ms"] for flow in flows] == nearly(skews, abs=0.001)


def test_the_second_flow_is_to_start_later_by_its_delay(two_flows: Outcome):
    [first], [second] = (group["instances"] for group in two_flows.manifest(1)["groups"])
    assert second["asked_start_s"] - first["asked_start_s"] >= 1.0


def test_every_kind_of_sample_was_taken(two_flows: Outcome):
    flow = series_of(two_flows)[0]
    filled = {name for name, values in flow["sockets"][0].items() if any(values)}
    assert filled | {name for name, values in flow["goodput"].items() if values} == {
        "acked_mbit_per_s",
        "cwnd",
        "mbit_per_s",
        "min_rtt_ms",
        "retransmits",
        "rtt_ms",
        "source",
        "time_s",
        "unacked",
    }


def test_the_manifest_holds_the_hash_of_every_raw_file(two_flows: Outcome):
    folder = two_flows.out / "1"
    there = {
        str(path.relative_to(folder))
        for part in ("raw", "0", "1")
        for path in (folder / part).rglob("*")
        if path.is_file()
    }
    assert set(two_flows.manifest(1)["files"]) == there


def test_host_statistics_are_there_before_and_after(two_flows: Outcome):
    hosts = {"client1", "client2", "server1"}
    found = [
        {path.name.partition(".")[0] for path in (two_flows.out / "1" / order).iterdir()}
        for order in ("0", "1")
    ]
    assert found == [hosts, hosts]


def test_the_page_needs_no_network(two_flows: Outcome):
    text = (two_flows.out / "1" / "exp.html").read_text()
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(?!data:)([^\"]+)\"", text)
    assert loaded == []


def test_the_graphs_are_kept_beside_the_page(two_flows: Outcome):
    found = sorted(path.name for path in (two_flows.out / "1" / "plots").iterdir())
    assert found == [
        "acked_rate.svg",
        "backlog.svg",
        "cores.svg",
        "cpu.svg",
        "cwnd.svg",
        "drops.svg",
        "minrtt.svg",
        "ping.svg",
        "rates.svg",
        "retrans.svg",
        "rtt.svg",
        "tcp.svg",
        "unacked.svg",
    ]


def test_the_run_is_recorded_with_script_seed_and_exit_status(two_flows: Outcome):
    (path,) = (two_flows.out / "runs").glob("*.json")
    record = json.loads(path.read_text())
    script = (two_flows.out.parent / "script.nts").read_text()
    assert (record["script"], record["exit_status"], record["experiments"]) == (script, 0, [1])


def test_rebuilding_from_raw_data_gives_the_same_bytes(two_flows: Outcome):
    derived = [two_flows.out / "exp.csv", two_flows.out / "1" / "all.exp.out"]
    before = [path.read_bytes() for path in derived]
    done = netesto(two_flows.out.parent, "report", "out")
    assert (done.status, [path.read_bytes() for path in derived]) == (0, before)


def test_the_lab_is_gone(two_flows: Outcome):
    assert left_of_labs(two_flows.out) == []


def test_a_second_run_adds_an_experiment(two_flows: Outcome, tmp_path: Path):
    script = tmp_path / "again.nts"
    script.write_text(
        "LAB pair\nSOURCE inlib\nRUN OneFlowStream server=b client=a expName=again ca=cubic dur=1\n"
    )
    before = two_flows.rows
    done = netesto(tmp_path, "run", "-q", "--no-pages", "--out", str(two_flows.out), str(script))
    after = two_flows.rows
    assert (done.status, after[:3], [row["exp"] for row in after[3:]]) == (
        0,
        before,
        ["2.0", "2.1"],
    )
