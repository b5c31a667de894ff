"""Summaries of our own runs, and as pages."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from imports_trees import Tree, document, failed, output

from netesto import cli
from netesto.collectors import cpu
from netesto.controller import watched
from netesto.report.expscript import dataset
from netesto.results import derive, manifest, store, summary

MEASURED = Path(__file__).parents[1] / "cli" / "fixtures" / "measured"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two measured experiments, the first with the accounts of two CPUs."""
    folder = tmp_path_factory.mktemp("own") / "results"
    shutil.copytree(MEASURED, folder)
    place = folder / "1" / "manifest.json"
    value = json.loads(place.read_text())
    (group,) = value["groups"][:1]
    flow = group["instances"][0]
    host = group["request"]["client"]
    lines = []
    for second in range(12):
        ticks = {0: (30 * second, 0, 0, 70 * second, *[0] * 6), 1: (0, 0, 0, 9 * second, *[0] * 6)}
        lines.append(cpu.format_sample(flow["started_s"] + second * 0.01 + 0.001, ticks))
    content = "".join(lines).encode()
    (folder / "1" / "raw" / host / "cpu.jsonl").write_bytes(content)
    value["files"][f"raw/{host}/cpu.jsonl"] = hashlib.sha256(content).hexdigest()
    place.write_text(json.dumps(value))
    assert cli.main(["report", str(folder), "1"]) in {0, 1}
    return folder


def test_summary_of_our_own_runs_has_their_goodput(own, capsys):
    assert cli.main(["summary", str(own), "--as", "harness", "-f", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    runs = [cell["runs"] for tests in found.values() for cell in tests.values()]
    assert sum(runs) == sum(
        len(manifest.read(own / str(exp) / manifest.NAME).groups) for exp in store.experiments(own)
    )


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    """The table of two cells of a SWEEP, with two congestion controls each."""
    lines = ["exp,expName,server,ca,n,rate,status"]
    for exp, (n, ca, rate) in enumerate(
        [(1, "reno", "47.61"), (1, "cubic", "0.0482"), (2, "reno", "47.8"), (2, "reno", "47.9")], 1
    ):
        lines.append(f"{exp}.1,one,b,{ca},{n},{rate},ok")
    (tmp_path / "exp.csv").write_text("\n".join(lines) + "\n")
    cells = [
        {"script": "s", "cell": {"n": str(n), "rep": "1"}, "experiments": exps, "hash": "h"}
        for n, exps in ((1, [1, 2]), (2, [3, 4]))
    ]
    (tmp_path / "cells.jsonl").write_text("".join(f"{json.dumps(cell)}\n" for cell in cells))
    return tmp_path


def test_our_own_runs_are_pooled_by_their_factors_and_congestion_controls(swept):
    data = summary.read(swept, lambda _: {})
    assert [(cell.test, len(cell.runs)) for cell in summary.cells(data, "ok")] == [
        ("one n=1 ca=cubic", 1),
        ("one n=1 ca=reno", 1),
        ("one n=2 ca=reno", 2),
    ]


def test_our_own_rates_have_three_digits_in_the_unit_that_fits(swept):
    found = summary.cells(summary.read(swept, lambda _: {}), "ok")
    told = [line for line in summary.harness_text(found).splitlines() if "Mean" in line]
    assert [line.split("Mean: ")[1].replace("   ", "  ") for line in told] == [
        "48.2 kbps  Min: 48.2 kbps  Max: 48.2 kbps  STDEV: 0.0  Retr: —",
        "47.6 Mbps  Min: 47.6 Mbps  Max: 47.6 Mbps  STDEV: 0.0  Retr: —",
        "47.9 Mbps  Min: 47.8 Mbps  Max: 47.9 Mbps  STDEV: 0.1  Retr: —",
    ]


def of_rows(folder: Path, *lines: str) -> list[summary.SummaryCell]:
    (folder / "exp.csv").write_text("\n".join(lines) + "\n")
    return summary.cells(summary.read(folder, lambda _: {}), "ok")


def test_retransmissions_of_our_own_runs_are_those_of_the_sender(tmp_path):
    found = of_rows(
        tmp_path,
        "exp,expName,server,test,rate,localRetrans,remoteRetrans,status",
        "1.1,down,b,TCP_MAERTS,46.4,0.0,14.0,ok",
        "2.1,up,b,TCP_STREAM,45.2,23.0,0.0,ok",
    )
    assert [(cell.test, cell.retransmits) for cell in found] == [("down", 14), ("up", 23)]


def test_groups_of_different_tests_are_not_pooled(tmp_path):
    found = of_rows(
        tmp_path,
        "exp,expName,server,test,req,rate,status",
        "1.1,one,b,TCP_STREAM,S,46.4,ok",
        "1.2,one,b,TCP_RR,10K,0.2,ok",
        "1.3,one,b,TCP_RR,1,0.1,ok",
    )
    assert [(cell.test, cell.mean) for cell in found] == [
        ("one test=TCP_RR req=1", 0.0001),
        ("one test=TCP_RR req=10K", 0.0002),
        ("one test=TCP_STREAM req=S", 0.0464),
    ]


def test_what_fields_txt_leaves_out_tells_our_own_runs_apart(tmp_path):
    for exp, ca in ((1, "cubic"), (2, "reno")):
        (tmp_path / str(exp)).mkdir()
        (tmp_path / str(exp) / "a-b-1.exp.out").write_text(f"server:b\nca:{ca}\n")
    found = of_rows(tmp_path, "exp,expName,rate,status", "1.1,one,90,ok", "2.1,one,50,ok")
    assert [(cell.test, cell.host, cell.mean) for cell in found] == [
        ("one ca=cubic", "b", 0.09),
        ("one ca=reno", "b", 0.05),
    ]


def test_experiments_whose_raw_data_are_damaged_are_named(tmp_path, capsys):
    header = "exp,expName,server,rate,status"
    rows = ["1.0,one,b,9.0,ok", "1.1,one,b,9.0,ok", "2.0,one,b,,damaged", "2.1,one,b,,damaged"]
    (tmp_path / "exp.csv").write_text("\n".join([header, *rows]) + "\n")
    cli.main(["summary", str(tmp_path), "--as", "harness"])
    assert "experiment 2 is left out: its raw data are damaged" in capsys.readouterr().err


def test_a_run_of_our_own_of_which_a_flow_failed_has_failed(tmp_path):
    (cell,) = of_rows(
        tmp_path,
        "exp,expName,server,instances,rate,flowsFailed,status",
        "1.1,one,b,4,40.0,0.0,ok",
        "2.1,one,b,4,30.0,1,partial",
    )
    assert (cell.mean, [run.reason for run in cell.runs]) == (0.04, ["", "1 of 4 flows failed"])


def test_our_own_rates_keep_three_digits_in_gbit_per_s(swept):
    data = summary.read(swept, lambda _: {})
    rows = summary.harness_rows(summary.cells(data, "ok"))
    assert [row["mean"] for row in rows] == ["4.82e-05", "0.0476", "0.0479"]
    assert [row["gbps"] for row in summary.lab_rows(data)] == [
        "0.0476",
        "0.0000482",
        "0.0478",
        "0.0479",
    ]


def test_cpus_of_our_own_runs_count_as_those_of_mpstat(own):
    (file, *_) = watched.of(own / "1")[1]
    # Of eleven intervals the first four and the last do not count.
    sums = [(core.cpu, core.samples, core.sums[0], core.sums[-1]) for core in file.cores]
    assert sums == [("0", 6, pytest.approx(180.0), pytest.approx(420.0)), ("1", 6, 0.0, 600.0)]


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The folder of an experiment with another manifest."""
    place = folder / "manifest.json"
    value = json.loads(place.read_text())
    change(value)
    place.write_text(json.dumps(value))
    return folder


def test_cpus_count_only_while_flows_were_to_run(own, tmp_path):
    copy = Path(shutil.copytree(own / "1", tmp_path / "1"))

    def waits_at_the_end(value: dict[str, Any]) -> None:
        value["groups"][0]["request"]["duration_s"] = 0.09

    (file, *_) = watched.of(changed(copy, waits_at_the_end))[1]
    assert [core.samples for core in file.cores] == [3, 3]


def test_cpus_do_not_count_in_simulated_time(own, tmp_path):
    copy = Path(shutil.copytree(own / "1", tmp_path / "1"))
    assert watched.of(changed(copy, lambda value: value.update(simulated_time=True))) == {}


def test_damaged_accounts_of_cpus_are_not_summed(own, tmp_path):
    copy = Path(shutil.copytree(own / "1", tmp_path / "1"))
    for path in copy.rglob("cpu.jsonl"):
        path.write_text(path.read_text() + "\n")
    assert all(not file.cores for files in watched.of(copy).values() for file in files)


@pytest.fixture
def timed(own: Path, tmp_path: Path) -> Path:
    """The experiments as two cells of a SWEEP, the first with the times of three transfers."""
    folder = Path(shutil.copytree(own, tmp_path / "results"))
    content = "number,start_s,us,bytes,retransmits,status\n" + "".join(
        f"{number},1.0,{us},1000,0,{status}\n"
        for number, (us, status) in enumerate(
            [("100.0", "ok"), ("300.0", "ok"), ("", "unfinished"), ("200.0", "ok")]
        )
    )
    place = folder / "1" / "manifest.json"
    value = json.loads(place.read_text())
    path = "raw/client1/completions.1.1.csv"
    (folder / "1" / path).write_text(content)
    value["files"][path] = hashlib.sha256(content.encode()).hexdigest()
    value["columns"] = {"protect": "off", "loss": "0.1", "rep": "1"}
    place.write_text(json.dumps(value))
    cell = {"script": "s", "cell": value["columns"], "experiments": [1], "hash": "h"}
    (folder / "cells.jsonl").write_text(json.dumps(cell, sort_keys=True) + "\n")
    return folder


def test_completions_have_a_column_for_each_case(timed, capsys):
    assert cli.main(["summary", str(timed), "--as", "completions", "-f", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["row,protect=off loss=0.1", "min,100.000", "mean,200.000", "50%,200.000"]
    assert lines[-3:] == ["max,300.000", "std,100.000", "count,3"]


def test_completions_of_different_tests_are_not_pooled(timed, capsys):
    place = timed / "1" / "manifest.json"
    value = json.loads(place.read_text())
    (first,) = value["groups"]
    second = first | {"request": first["request"] | {"group": 2, "test": "TCP_MESSAGES"}}
    first["request"]["test"] = "TCP_FLOWS"
    value["groups"].append(second)
    path = "raw/client1/completions.2.1.csv"
    content = "number,start_s,us,bytes,retransmits,status\n0,1.0,900.0,1000,0,ok\n"
    (timed / "1" / path).write_text(content)
    value["files"][path] = hashlib.sha256(content.encode()).hexdigest()
    value.pop("checksum", None)
    place.write_text(json.dumps(value))
    assert cli.main(["summary", str(timed), "--as", "completions", "-f", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "row,protect=off loss=0.1 test=TCP_FLOWS,protect=off loss=0.1 test=TCP_MESSAGES",
        "min,100.000,900.000",
    ]


def test_transfers_that_losses_affected_have_a_table_of_their_own(timed, capsys):
    place = timed / "1" / "manifest.json"
    value = json.loads(place.read_text())
    value["groups"][0]["request"]["test"] = "TCP_FLOWS"
    value.pop("checksum", None)
    place.write_text(json.dumps(value))
    words = ["summary", str(timed), "--as", "completions", "--by", "affected"]
    words += ["--names", "protect=off loss=0.1=Off"]
    assert cli.main([*words, "-f", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[:2], lines[13], lines[-1]) == (
        ["part,row,Off", "unaffected,min,100.000"],
        "affected,min,",
        "all,count,3",
    )
    assert cli.main(words) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    titles = [line for line in lines if line.endswith("Off")]
    assert titles == ["unaffected (µs) Off", "affected (µs) Off", "all (µs) Off", "transfers Off"]
    assert lines[-3:] == ["affected 0", "tail 0", "retransmitted 0"]


def test_a_page_shows_one_part_of_the_transfers_at_a_time(timed, tmp_path):
    page = tmp_path / "page.html"
    words = ["summary", str(timed), "--as", "completions", "-f", "html", "-o", str(page)]
    assert cli.main(words) == 0
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert text.count('type="radio"') == 1
    assert "share that took longer" in text


def test_quantiles_of_few_transfers_are_marked_in_text(timed, capsys):
    cli.main(["summary", str(timed), "--as", "completions"])
    assert capsys.readouterr().out.splitlines()[4].split() == ["90%", "~280.000"]


def test_times_that_were_altered_are_left_out(timed, capsys):
    (timed / "1/raw/client1/completions.1.1.csv").write_text("number,us,status\n1,5,ok\n")
    assert cli.main(["summary", str(timed), "--as", "completions"]) == 2
    err = capsys.readouterr().err
    assert "is damaged (its SHA-256 differs)" in err
    assert "no completion times here" in err


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tree(tmp_path_factory.mktemp("tree") / "in")
    for number, rate in enumerate((10.0, 12.0), start=1):
        made.run("fast <b>", number, output(rate))
    made.run("slow", 1, output(1.0))
    made.run("slow", 2, failed("the server is busy running a test"))
    out = made.root.parent / "out"
    assert cli.main(["import", "results", str(made.root), "--out", str(out)]) == 1
    return out


def test_page_of_tests_has_bars_the_table_failures_and_findings(harness, tmp_path):
    page = tmp_path / "page.html"
    assert cli.main(["summary", str(harness), "-f", "html", "-o", str(page)]) == 0
    text = page.read_text()
    assert "Throughput of each test to 10.3.54.2" in text
    assert "slow to 10.3.54.2, src-cmd:10.3.54.2:2: the server is busy running a test" in text
    assert "findings" in text
    assert "<b>" not in text


@pytest.fixture(scope="module")
def imported_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Experiment 1 was deleted, and is 3 now."""
    folder = tmp_path_factory.mktemp("again")
    tree, out = Tree(folder / "tree"), folder / "out"
    for number, rate in ((1, 10.0), (2, 12.0)):
        tree.run("one", number, output(rate))
    words = ["import", "results", str(tree.root), "--out", str(out)]
    cli.main(words)
    shutil.rmtree(out / "1")
    cli.main(words)
    return out


AGAIN = "warning: experiment 1 was deleted and imported again as 3: it counts once\n"


def test_an_experiment_that_was_deleted_and_imported_again_counts_once(imported_again, capsys):
    assert cli.main(["summary", str(imported_again), "--as", "harness", "-f", "json"]) == 0
    done = capsys.readouterr()
    assert (json.loads(done.out)["10.3.54.2"]["one"]["runs"], done.err) == (2, AGAIN)


def test_show_has_an_experiment_that_was_imported_again_once(imported_again, capsys):
    assert cli.main(["show", str(imported_again)]) == 0
    done = capsys.readouterr()
    first = [line.split()[0] for line in done.out.splitlines()]
    assert (first, done.err) == (["exp", "2.0", "3.0"], AGAIN)


def test_a_report_script_has_an_experiment_that_was_imported_again_once(imported_again):
    told: list[str] = []
    data = dataset.load(imported_again / "exp.csv", decimals=None, warn=told.append)
    assert (data.columns["exp"].texts, told) == (
        ["2.0", "2.1", "3.0", "3.1"],
        [AGAIN.removeprefix("warning: ").rstrip()],
    )


def test_compare_counts_an_experiment_that_was_imported_again_once(imported_again, capsys):
    cli.main(["compare", str(imported_again), str(imported_again), "--lenient"])
    done = capsys.readouterr()
    assert (" 2/2 " in done.out, done.err) == (True, 2 * AGAIN)


def test_the_index_has_an_experiment_that_was_imported_again_once(imported_again):
    page = (imported_again / "exp.html").read_text()
    rows = re.findall(r'<tr class="(?:whole|group)"><th scope="row">.*?(\d\.\d)', page)
    told = f"Left out:</span> {AGAIN.removeprefix('warning: ').rstrip()}.</p>" in page
    assert (rows, told) == (["2.0", "2.1", "3.0", "3.1"], True)


def test_index_says_what_was_found(harness):
    assert (
        '<a href="findings.csv">Findings</a> of the import: error 1'
        in (harness / "exp.html").read_text()
    )


def test_page_of_a_run_that_failed_says_so(harness):
    cli.main(["report", str(harness), "4"])
    assert "the server is busy running a test" in (harness / "4" / "exp.html").read_text()


def test_page_of_runs_has_lines_over_streams(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for streams in (1, 4):
        for mtu in (1500, 9000):
            name = f"iperf_mtu{mtu}_Z_P{streams}_.json"
            (folder / name).write_text(output(mtu / 100 * streams, streams=streams))
    out, page = tmp_path / "out", tmp_path / "page.html"
    pattern = "iperf_mtu{mtu}_{zerocopy}_P{parallel}_{*}.json"
    cli.main(["import", "results", str(folder), "--out", str(out), "--name", pattern])
    assert cli.main(["summary", str(out), "-f", "html", "-o", str(page)]) == 0
    text = page.read_text()
    for wanted in ("Throughput over parallel", "Retransmits over parallel", "MTU 9000, zerocopy Z"):
        assert wanted in text


def test_steady_throughput_of_imported_runs_is_that_of_the_sender_s_intervals(tmp_path, capsys):
    tree = Tree(tmp_path / "tree")
    for number, rate in ((1, 1e9), (2, 2e9)):
        told = document(5, seconds=7)
        for second, entry in enumerate(told["intervals"]):  # type: ignore[arg-type, var-annotated]
            entry["sum"]["bits_per_second"] = rate if 2 <= second < 5 else 9e9
        tree.run("one", number, json.dumps(told))
    tree.run("one", 3, failed("refused"))
    assert (
        cli.main(["import", "results", str(tmp_path / "tree"), "--out", str(tmp_path / "o")]) == 1
    )
    capsys.readouterr()
    words = ["summary", str(tmp_path / "o"), "--as", "steady", "-f", "csv"]
    assert cli.main([*words, "--skip", "2"]) == 0
    done = capsys.readouterr()
    assert done.out == "case,throughput_bps\none,1500000000\n"
    assert "one: flow 3.1.1 is not in the mean: refused" in done.err
    assert cli.main(words) == 2


def test_a_mean_between_two_decimals_is_rounded_as_the_harness_rounds_it():
    # Their decimal mean is 63.95, that of the numbers that computers make of them less; added up
    # one by one they give more.
    rates = (63.0, 63.3, 64.0, 64.1, 63.4, 63.3, 63.8, 65.8, 65.4, 63.4)
    runs = [
        summary.ResultRun(test="a", host="h", file="", reason="", bps=rate * 1e9, retransmits=0)
        for rate in rates
    ]
    (row,) = summary.harness_rows([summary.SummaryCell("a", "h", runs, ())])
    assert row["mean"] == "63.9"


def test_report_rebuilds_what_another_version_read_in_the_output_of_an_imported_run(
    tmp_path, capsys
):
    tree, out = Tree(tmp_path / "tree"), tmp_path / "out"
    tree.run("one", 1, output(9.4, retransmits=3))
    cli.main(["import", "results", str(tree.root), "--out", str(out)])
    for name, old, new in (
        ("import.json", '"sent_bps": 9400000000.0', '"sent_bps": 9.4'),
        ("all.exp.out", f"formulas:{derive.FORMULAS}", "formulas:1"),
    ):
        text = (out / "1" / name).read_text()
        assert old in text
        (out / "1" / name).write_text(text.replace(old, new))
    told = []
    for words in (["summary", str(out), "-f", "csv"], ["report", str(out)], ["summary", str(out)]):
        capsys.readouterr()
        assert cli.main(words) == 0
        told.append(capsys.readouterr())
    warning = f"`netesto report {out}` rebuilds them"
    assert [warning in each.err for each in told] == [True, False, False]
    assert "Mean: 9.4 Gbps" in told[2].out
