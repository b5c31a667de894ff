"""A tree of the harness, with every irregularity found in such trees, and its summary."""

import csv
import io
import json
import statistics
from pathlib import Path

import pytest
from imports_trees import DATE, IDLE, Tree, failed, mpstat, output

from netesto import cli

ONE, TWO, SIX = "iperf3_1stream", "iperf3_2streams", "iperf3_v6"
HOST, OTHER, V6 = "10.3.54.2", "10.3.56.2", "2001:db8::2"
RATES = (60.04, 57.25, 61.312345)
RETRANSMITS = (101, 344, 78)
TEXT = """\
Connecting to host 10.3.56.2, port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  10.0 GBytes  8.59 Gbits/sec    7             sender
[  5]   0.00-10.04  sec  10.0 GBytes  8.55 Gbits/sec                  receiver
[  7]   0.00-10.00  sec  10.0 GBytes  8.59 Gbits/sec    5             sender
[SUM]   0.00-10.00  sec  20.0 GBytes  17.2 Gbits/sec   12             sender
[SUM]   0.00-10.04  sec  20.0 GBytes  17.1 Gbits/sec                  receiver
"""


def kept(values: list[float]) -> list[float]:
    """The samples of a file that count."""
    return values[4:-1]


def sys_of(number: int) -> list[float]:
    """The sys share of the sender's core 2 in the samples of a run."""
    return [number * 7.3 + second * 1.37 for second in range(9)]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tree(tmp_path_factory.mktemp("harness") / "ubuntu22-6.8")
    for number, (rate, again) in enumerate(zip(RATES, RETRANSMITS, strict=True), start=1):
        made.run(ONE, number, output(rate, retransmits=again))
        samples = [
            {"2": {"usr": 0.9, "sys": share, "steal": 0.001, "idle": 20.0}, "1": {"idle": 100.0}}
            for share in sys_of(number)
        ]
        made.cpu("sender", ONE, number, mpstat(samples))
        made.cpu("receiver", ONE, number, mpstat([{"7": {"soft": 30.0, "idle": 70.0}}] * 9))
    # Its client never connected; its CPUs were watched all the same.
    made.run(ONE, 4, failed("unable to connect to server: Connection refused"))
    made.cpu("sender", ONE, 4, mpstat(IDLE))
    made.cpu("receiver", ONE, 3, mpstat(IDLE)[:-40], host=OTHER)
    made.cpu("sender", ONE, 9, mpstat([{"2": {"sys": 50.0, "idle": 50.0}}] * 9))
    made.run(TWO, 1, output(50.0, ca="bbr") * 2)
    made.run(TWO, 2, f"Warning: {{ not JSON }}\n{output(40.0, retransmits=3)}\niperf3: done\n")
    made.run(TWO, 3, "")
    made.run(TWO, 1, TEXT, host=OTHER)
    made.run(TWO, 2, "iperf3: error - unable to send\n", host=OTHER)
    made.run(SIX, 1, output(9.96, host=V6), host=V6)
    # The same cell on another day, and one without a date.
    later = Tree(made.root, date="2024-03-02:11:30")
    later.run(SIX, 1, output(9.94, host=V6), host=V6)
    dateless = Tree(made.root, date="")
    dateless.run(SIX, 2, output(9.92, host=V6), host=V6)
    for section, control in ((ONE, "cubic"), (TWO, "cubic")):
        command = f"iperf3 -J -t 60 -c {HOST} -P 1 -C {control}"
        meta = {"src-cmd": command, "MTU": 9000, "NIC": "ens1", "kernel": "6.8.0"}
        made.file(section, "jobmeta.json", json.dumps(meta))
    made.file(ONE, f"{HOST}-meta.json", json.dumps({"rtt": 0}))
    made.file(ONE, f"dst-cmd:{HOST}:1", "server\n", branch="receiver")
    made.file(ONE, "pacing.out", "")
    (made.root / "jobs.ini").write_text(
        f"[{ONE}]\nsrc-cmd = iperf3 -J -t 60  -c {{dst}} -P 1 -C cubic  # as run\n"
        f"[{TWO}]\nsrc-cmd = iperf3 -J -t 60 -c {{dst}} -P 2 -C cubic\n"
    )
    (made.root / "notes.txt").write_text("tuned on Monday\n")
    outside = made.root.parent / "outside"
    Tree(outside).run(ONE, 99, output(999.0))
    (made.root / "sender" / DATE / "link").symlink_to(outside)
    return made.root


@pytest.fixture(scope="module")
def results(tree: Path) -> Path:
    out = tree.parent / "results"
    assert cli.main(["import", "results", str(tree), "--out", str(out)]) == 1
    return out


def summary(results: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["summary", str(results), *words]) == 0
    return capsys.readouterr().out


def lines_of(rates: tuple[float, ...], retransmits: str) -> list[str]:
    """The numbers of a cell in part one and in part two, by the rules."""
    mean, low, high = statistics.mean(rates), min(rates), max(rates)
    spread = statistics.stdev(rates) if len(rates) > 1 else 0.0
    return f"""\
       Throughput:   Mean: {mean:.1f} Gbps   Min: {low:.1f} Gbps  Max: {high:.1f} Gbps   \
STDEV: {spread:.1f}   Retr: {retransmits}
Ave Throughput: {mean:.1f} Gbps (std: {spread:.1f}, min: {low:.1f}, max: {high:.1f}),  \
Retr: {retransmits}""".splitlines()


def expected(sender: str, failed_cpu: str) -> str:
    one, two = lines_of(RATES, "174"), lines_of((50.0, 40.0), "1")
    text, six = lines_of((17.2,), "12"), lines_of((9.96, 9.94, 9.92), "0")
    return f"""\
Test {ONE} to Host: {HOST}   (num tests: 3)
{one[0]}   failed: 1 of 4
{sender}
{failed_cpu}
   Receiver CPU 7:   soft: 30.0   idle: 70.0   Total:30.0
Test {TWO} to Host: {HOST}   (num tests: 2)
{two[0]}   failed: 1 of 3
Test {TWO} to Host: {OTHER}   (num tests: 1)
{text[0]}   failed: 1 of 2
Test {SIX} to Host: {V6}   (num tests: 3)
{six[0]}
IP Address: {HOST}
    Test Name: {ONE}, {one[1]}
    Test Name: {TWO}, {two[1]}
IP Address: {OTHER}
    Test Name: {TWO}, {text[1]}
IP Address: {V6}
    Test Name: {SIX}, {six[1]}
"""


def test_summary_has_the_lines_of_the_harness_without_the_cpus_of_failed_runs(results, capsys):
    pooled = [share for number in (1, 2, 3) for share in kept(sys_of(number))]
    share = round(statistics.mean(pooled), 1)
    core = f"usr :  0.9   sys : {share}   steal:  0.0   idle: 20.0   Total:{0.9 + share:.1f}"
    assert summary(results, capsys, "--as", "harness") == expected(
        f"     Sender CPU 2:   {core}", "     Sender CPU 1:   idle: 100.0   Total:0.0"
    )


def test_pool_all_has_the_cpus_of_failed_runs_and_of_none(results, capsys):
    pooled = [share for number in (1, 2, 3) for share in kept(sys_of(number))] + [50.0] * 4
    share = round(statistics.mean(pooled), 1)
    user = round(statistics.mean([0.9] * 12 + [0.0] * 4), 1)
    idle = round(statistics.mean([20.0] * 12 + [50.0] * 4), 1)
    core = f"usr :  {user}   sys : {share}   steal:  0.0   idle: {idle}   Total:{user + share:.1f}"
    # The core of the failed run is another one: 5.
    lines = expected(
        f"     Sender CPU 2:   {core}",
        "     Sender CPU 1:   idle: 100.0   Total:0.0\n"
        "     Sender CPU 5:   idle: 100.0   Total:0.0",
    )
    assert summary(results, capsys, "--as", "harness", "--pool", "all") == lines


def test_csv_has_a_row_for_each_core(results, capsys):
    text = summary(results, capsys, "--as", "harness", "-f", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    found = [tuple(row[name] for name in ("test", "host", "side", "cpu")) for row in rows]
    assert found == [
        (ONE, HOST, "sender", "2"),
        (ONE, HOST, "sender", "1"),
        (ONE, HOST, "receiver", "7"),
        (TWO, HOST, "", ""),
        (TWO, OTHER, "", ""),
        (SIX, V6, "", ""),
    ]
    assert rows[2] == {
        "test": ONE, "host": HOST, "side": "receiver", "cpu": "7", "runs": "4", "failed": "1",
        "mean": "59.5", "min": "57.2", "max": "61.3", "stdev": "2.1", "retr": "174", "usr": "",
        "nice": "", "sys": "", "iowait": "", "irq": "", "soft": "30.0", "steal": "", "guest": "",
        "gnice": "", "idle": "70.0",
    }  # fmt: skip


def test_json_nests_tests_in_hosts(results, capsys):
    found = json.loads(summary(results, capsys, "--as", "harness", "-f", "json"))
    assert list(found) == [HOST, OTHER, V6]
    assert found[OTHER] == {
        TWO: {
            "runs": 2, "failed": 1, "mean": 17.2, "min": 17.2, "max": 17.2, "stdev": 0.0,
            "retr": 12, "cpu": {},
        }
    }  # fmt: skip


def test_every_finding_is_listed(results):
    with (results / "findings.csv").open() as file:
        found = {(row["file"], row["kind"]) for row in csv.DictReader(file)}
    sender, receiver = f"sender/{DATE}", f"receiver/{DATE}"
    assert found == {
        (f"{sender}/{ONE}/src-cmd:{HOST}:4", "error"),
        (f"{sender}/{ONE}/mpstat-sender:{HOST}:4.json", "idle-pooled"),
        (f"{sender}/{ONE}/mpstat-sender:{HOST}:9.json", "orphan"),
        (f"{receiver}/{ONE}/mpstat-receiver:{OTHER}:3.json", "orphan"),
        (f"{receiver}/{ONE}/mpstat-receiver:{OTHER}:3.json", "truncated"),
        (f"{sender}/{ONE}/{HOST}-meta.json", "rtt-zero"),
        (f"{sender}/{TWO}/src-cmd:{HOST}:1", "doubled"),
        (f"{sender}/{TWO}/src-cmd:{HOST}:1", "cc-differs"),
        (f"{sender}/{TWO}/src-cmd:{HOST}:3", "empty"),
        (f"{sender}/{TWO}/src-cmd:{OTHER}:2", "no-result"),
        (f"{sender}/{TWO}/jobmeta.json", "job-differs"),
        (f"{sender}/link", "unlisted"),
    }


def rows(results: Path) -> dict[str, dict[str, str]]:
    with (results / "exp.csv").open() as file:
        return {row["exp"]: row for row in csv.DictReader(file)}


def test_a_run_is_an_experiment_with_its_columns(results):
    row = rows(results)["1.1"]
    found = {name: row[name] for name in ("expName", "host", "server", "rep", "status", "effCa")}
    found |= {name: row[name] for name in ("effMss", "rate", "localRetrans", "parallel", "mtu")}
    assert found == {
        "expName": ONE, "host": "dtn1", "server": HOST, "rep": "1", "status": "ok",
        "effCa": "cubic", "effMss": "8948.0", "rate": "60040.000", "localRetrans": "101.0",
        "parallel": "1", "mtu": "9000",
    }  # fmt: skip


def test_cpu_of_a_run_is_that_of_its_watched_cores(results):
    row = rows(results)["1.1"]
    assert (row["localCpu"], row["remoteCpu"]) == ("40.000", "30.000")


def test_a_failed_run_has_a_row_with_its_reason_and_no_number(results):
    row = rows(results)["4.1"]
    assert {row["startSkew"] for row in rows(results).values()} == {""}
    measured = ("rate", "rateMin", "localRetrans", "retrans_total", "localCpu", "cwnd", "effCa")
    assert row["status"] == "unable to connect to server: Connection refused"
    assert [row[name] for name in measured] == [""] * len(measured)


def test_a_failed_run_was_asked_for_what_the_others_of_its_section_were(results):
    found = rows(results)
    asked = ("expName", "test", "ca", "dur", "parallel", "mtu", "kernel", "host", "server")
    assert [found["4.1"][name] for name in asked] == [found["1.1"][name] for name in asked]


def test_raw_files_are_the_same_files(tree, results):
    source = tree / "sender" / DATE / ONE / f"src-cmd:{HOST}:1"
    raw = results / "1" / "raw" / "dtn1" / source.name
    assert raw.samefile(source)


def test_files_of_both_branches_are_kept(results):
    found = {path.relative_to(results / "1" / "raw").as_posix()
             for path in (results / "1" / "raw").rglob("*") if path.is_file()}  # fmt: skip
    assert found == {
        f"dtn1/src-cmd:{HOST}:1",
        f"dtn1/mpstat-sender:{HOST}:1.json",
        "dtn1/jobmeta.json",
        "dtn1/pacing.out",
        f"{HOST}/mpstat-receiver:{HOST}:1.json",
        f"{HOST}/dst-cmd:{HOST}:1",
        f"{HOST}/{HOST}-meta.json",
    }


def test_a_second_import_adds_nothing(tree, results):
    before = (results / "exp.csv").read_bytes()
    assert cli.main(["import", "results", str(tree), "--out", str(results)]) == 0
    assert (results / "exp.csv").read_bytes() == before


def test_a_branch_imported_later_is_what_the_whole_tree_gives(tree, tmp_path, results, capsys):
    out = str(tmp_path / "out")
    cli.main(["import", "results", str(tree / "sender"), "--out", out])
    cli.main(["import", "results", str(tree), "--out", out])
    capsys.readouterr()
    whole = summary(results, capsys, "--as", "harness", "--pool", "all")
    assert summary(Path(out), capsys, "--as", "harness", "--pool", "all") == whole


def test_report_rebuilds_the_same_rows_and_draws_a_page(results, tmp_path):
    before = (results / "exp.csv").read_bytes()
    assert cli.main(["report", str(results), "1"]) == 0
    assert (results / "exp.csv").read_bytes() == before
    assert (results / "1" / "exp.html").is_file()


def test_what_fits_is_said(results, capsys):
    cli.main(["summary", str(results)])
    assert "as harness, because they were imported from a tree" in capsys.readouterr().err


def test_two_kernels_are_compared(tree, results, tmp_path, capsys):
    other = tmp_path / "other"
    cli.main(["import", "results", str(tree), "--out", str(other)])
    capsys.readouterr()
    assert cli.main(["compare", str(results), str(other), "--lenient"]) == 0
    out = capsys.readouterr().out
    assert "iperf3_1stream" in out
