"""`netesto report` of damaged data: it is reported and marked, and nothing is computed from it."""

import csv
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from netesto import cli
from netesto.files import paths
from netesto.report import drawing
from netesto.results import runs
from results import samples

MEASURED = Path(__file__).with_name("fixtures") / "measured"
SOCKETS = "1/raw/client1/sockets.bin.gz"
OF_SOCKETS = {
    "cwnd", "rtt", "lost", "retrans", "retrans_total", "effCa", "effMss", "sampleInterval",
    "sampleIntervalP99", "sampleIntervalWorst", "retransSegs%", "data_segs_out", "retransPkts%",
    "tcpi_busy_time", "rwnd_limited", "sndbuf_limited", "status",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _each_graph_is_drawn_once():
    """The same graph gives the same text (test_report_page), and drawing would take nearly all of
    the time of these tests."""
    really_draw, known = drawing._draw_graph, {}

    def draw(graph: drawing.Graph) -> str:
        key = repr(graph)
        if key not in known:
            known[key] = really_draw(graph)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "_draw_graph", draw)
        yield


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
    """Two measured experiments with all that is derived from them."""
    folder = tmp_path_factory.mktemp("measured") / "results"
    shutil.copytree(MEASURED, folder)
    assert cli.main(["report", str(folder)]) == 0
    return folder


@pytest.fixture
def results(rebuilt, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(rebuilt, tmp_path / "results"))


def report(folder: Path, exp: str = "1") -> int:
    """Rebuild all; draw one page, and those whose rows changed."""
    return cli.main(["report", str(folder), exp])


def rows(folder: Path) -> dict[str, dict[str, str]]:
    text = (folder / "exp.csv").read_text()
    return {row["exp"]: row for row in csv.DictReader(io.StringIO(text))}


def changed(folder: Path, before: Path, exp: str) -> set[str]:
    """The columns of a row that have changed; all of them except `status` are now empty."""
    now, then = rows(folder)[exp], rows(before)[exp]
    found = {name for name in now if now[name] != then[name]}
    assert {now[name] for name in found - {"status"}} <= {""}
    return found


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def scramble(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 8)


# ---- whole data ------------------------------------------------------------------------------


def test_what_is_whole_gives_the_same_rows_again(results, rebuilt):
    assert report(results) == 0
    assert (results / "exp.csv").read_bytes() == (rebuilt / "exp.csv").read_bytes()


def test_of_whole_data_nothing_is_said(results, capsys):
    report(results)
    assert capsys.readouterr().err == ""


# ---- damaged raw files -----------------------------------------------------------------------


@pytest.mark.parametrize("damage", [cut, flip, scramble, Path.unlink])
def test_nothing_is_computed_from_samples_that_are_not_what_was_measured(results, rebuilt, damage):
    damage(results / SOCKETS)
    assert report(results) == 1
    assert changed(results, rebuilt, "1.0") == OF_SOCKETS
    assert changed(results, rebuilt, "1.1") == OF_SOCKETS
    assert {row["status"] for exp, row in rows(results).items() if exp < "2"} == {"damaged"}


def test_a_damaged_file_is_named(results, capsys):
    cut(results / SOCKETS)
    report(results)
    assert f"{results}/{SOCKETS}: is damaged (its SHA-256 differs)" in capsys.readouterr().err


def test_a_missing_file_is_named(results, capsys):
    (results / SOCKETS).unlink()
    report(results)
    assert f"{results}/{SOCKETS}: is missing" in capsys.readouterr().err


def test_what_is_there_for_a_file_and_is_none_is_named(results, capsys):
    (results / SOCKETS).unlink()
    os.mkfifo(results / SOCKETS)
    assert report(results) == 1
    assert f"{results}/{SOCKETS}: is not a file" in capsys.readouterr().err


def test_a_file_that_was_added_is_named_and_not_read(results, rebuilt, capsys):
    added = results / "1/raw/client1/sockets.2.bin.gz"
    shutil.copy(results / SOCKETS, added)
    assert report(results) == 1
    assert f"{added}: was not there when the experiment ended" in capsys.readouterr().err
    assert (changed(results, rebuilt, "1.0"), changed(results, rebuilt, "1.1")) == (
        {"status"},
        set(),
    )


def test_nothing_is_computed_from_an_output_that_came_later(results):
    manifest = results / "1/manifest.json"
    value = json.loads(manifest.read_text())
    del value["files"]["raw/client1/flow.1.1.out"]
    manifest.write_text(json.dumps(value))
    assert report(results) == 1
    assert (rows(results)["1.1"]["rate"], rows(results)["1.1"]["status"]) == (
        "",
        "the output of netperf is missing: No such file or directory",
    )


def test_the_other_experiments_stay_as_they_were(results, rebuilt):
    cut(results / SOCKETS)
    report(results)
    others = ("26.0", "26.1", "26.2")
    assert [changed(results, rebuilt, exp) for exp in others] == [set()] * 3


def test_with_the_right_file_back_all_is_as_before(results, rebuilt):
    cut(results / SOCKETS)
    report(results)
    shutil.copy(rebuilt / SOCKETS, results / SOCKETS)
    assert report(results) == 0
    assert (results / "exp.csv").read_bytes() == (rebuilt / "exp.csv").read_bytes()
    assert (results / "1/exp.html").read_bytes() == (rebuilt / "1/exp.html").read_bytes()


def test_the_page_of_damaged_data_says_so(results):
    cut(results / SOCKETS)
    report(results)
    page = (results / "1/exp.html").read_text()
    assert '<span class="badge damaged">damaged</span>' in page
    assert '<h2 id="damaged-title">Damaged data</h2>' in page
    assert (
        "raw/client1/sockets.bin.gz: is damaged (its SHA-256 differs); nothing is computed from it"
    ) in page


def test_the_index_marks_damaged_data(results):
    cut(results / SOCKETS)
    report(results)
    index = (results / "exp.html").read_text()
    assert index.count('<span class="badge failed">damaged</span>') == 1


def test_what_was_measured_is_left_as_it_is(results):
    cut(results / SOCKETS)
    before = {path: path.read_bytes() for path in results.glob("1/raw/**/*") if path.is_file()}
    manifest = (results / "1/manifest.json").read_bytes()
    report(results)
    assert {path: path.read_bytes() for path in before} == before
    assert (results / "1/manifest.json").read_bytes() == manifest


def test_a_damaged_output_takes_the_tools_columns_of_its_group_and_of_the_whole(results, rebuilt):
    flip(results / "26/raw/client1/flow.2.1.out")
    report(results)
    of_tool = {
        "rate", "rateMin", "rateMax", "fairness", "localRetrans", "remoteRetrans", "localCpu",
        "remoteCpu", "status", "transactionRate",
        *(f"{which}Latency" for which in ("min", "max", "mean")),
        *(f"p{which}Latency" for which in (50, 90, 99)),
    }  # fmt: skip
    assert changed(results, rebuilt, "26.2") == of_tool
    # Different tests at once have no fairness in the first place.
    assert changed(results, rebuilt, "26.0") == of_tool - {"fairness"}
    assert changed(results, rebuilt, "26.1") == set()
    assert (rows(results)["26.2"]["flowsFailed"], rows(results)["26.1"]["status"]) == ("0.0", "ok")


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        (
            "raw/client1/ping.1.out",
            {"pingRtt", "pingP50", "pingP95", "pingMax", "pingLost", "rpm"},
        ),
        ("raw/client1/cpu.jsonl", set()),
        ("raw/server1/sockets.bin.gz", set()),
        ("raw/client1/flow.1.1.json", set()),
        ("0/client1.ethtool-k", {"tso", "gso", "lro", "gro"}),
        ("0/client1.sysctl", {"tcpRmem", "tcpWmem"}),
        (
            "raw/client1/group.1.json",
            {
                f"client-{way}-{what}"
                for way in ("rx", "tx")
                for what in ("packets", "bytes", "packet-len")
            }
            | {"retransPkts%"},
        ),
    ],
)
def test_a_damaged_file_takes_the_columns_that_need_it(results, rebuilt, path, columns):
    cut(results / "1" / path)
    assert report(results) == 1
    assert changed(results, rebuilt, "1.0") == columns | {"status"}


def test_only_the_experiments_asked_for_are_drawn_unless_they_changed(results, capsys):
    cut(results / SOCKETS)
    report(results, "26")
    assert capsys.readouterr().out.splitlines() == [
        f"rebuilt {results}/1",
        f"rebuilt {results}/26",
    ]


# ---- damaged manifests -----------------------------------------------------------------------


def emptied(path: Path) -> None:
    path.write_text("")


def of_another_experiment(path: Path) -> None:
    path.write_text(path.read_text().replace('"exp": 1,', '"exp": 2,', 1))


def with_a_text_for_a_number(path: Path) -> None:
    path.write_text(path.read_text().replace('"started_s": 17', '"started_s": "17"+17', 1))


def without_its_hosts(path: Path) -> None:
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"hosts": {}}))


def with_a_status_of_its_own(path: Path) -> None:
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"status": "fine"}))


def with_a_line_for_a_column(path: Path) -> None:
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"columns": {"a\nb": "1"}}))


def with_numbers_for_names(path: Path) -> None:
    value = json.loads(path.read_text())
    path.write_text(json.dumps(value | {"exp_name": 5}))


def no_object(path: Path) -> None:
    path.write_text("[1, 2]")


def nested(path: Path) -> None:
    path.write_text("[" * 100_000)


@pytest.mark.parametrize(
    "damage",
    [
        cut, scramble, emptied, of_another_experiment, with_a_text_for_a_number, without_its_hosts,
        with_numbers_for_names, with_a_status_of_its_own, with_a_line_for_a_column, no_object,
        nested, Path.unlink,
    ],
)  # fmt: skip
def test_without_its_manifest_an_experiment_is_damaged_and_the_others_are_rebuilt(
    results, rebuilt, damage, capsys
):
    damage(results / "1/manifest.json")
    assert report(results) == 1
    found = rows(results)
    assert list(found) == ["1.0", "26.0", "26.1", "26.2"]
    assert {name: text for name, text in found["1.0"].items() if text} == {
        "exp": "1.0",
        "expNumber": "1",
        "group": "0",
        "status": "damaged",
    }
    assert changed(results, rebuilt, "26.0") == set()
    assert f"{results}/1/manifest.json: " in capsys.readouterr().err


def test_what_was_computed_before_stays_where_the_manifest_is_damaged(results, rebuilt):
    cut(results / "1/manifest.json")
    report(results)
    derived = "1/all.exp.out"
    assert (results / derived).read_bytes() == (rebuilt / derived).read_bytes()
    assert "manifest.json is damaged" in (results / "1/exp.html").read_text()


def test_with_the_right_manifest_back_all_is_as_before(results, rebuilt):
    cut(results / "1/manifest.json")
    report(results)
    shutil.copy(rebuilt / "1/manifest.json", results / "1/manifest.json")
    assert report(results) == 0
    assert (results / "exp.csv").read_bytes() == (rebuilt / "exp.csv").read_bytes()
    assert (results / "1/exp.html").read_bytes() == (rebuilt / "1/exp.html").read_bytes()


# ---- damaged tables --------------------------------------------------------------------------


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace("1.1,netperf-stream-1", "1.1,another", 1))


def without_a_row(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:1] + lines[2:]))


def torn(path: Path) -> None:
    text = path.read_text()
    path.write_text(text[: -len(text.splitlines()[-1]) // 2])


def with_nul(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"netperf-stream-1", b"\0" * 16, 1))


def not_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"netperf-stream-1", b"\xff" * 16, 1))


@pytest.mark.parametrize(
    "damage", [edited, without_a_row, torn, with_nul, not_text, emptied, Path.unlink]
)
def test_a_damaged_table_is_made_anew(results, rebuilt, damage):
    damage(results / "exp.csv")
    assert report(results) == 0
    assert (results / "exp.csv").read_bytes() == (rebuilt / "exp.csv").read_bytes()


def test_rows_that_were_edited_are_reported(results, capsys):
    edited(results / "exp.csv")
    report(results)
    assert capsys.readouterr().err == (
        "warning: experiment 1: its rows in exp.csv differed from its data; rebuilt\n"
    )


def test_of_rows_that_get_a_column_more_nothing_is_said(results, capsys):
    with (results / "fields.txt").open("a") as file:
        file.write("cable:one\n")
    report(results)
    assert capsys.readouterr().err == ""


def test_of_rows_that_are_aggregated_otherwise_now_nothing_is_said(results, capsys):
    path = results / "fields.txt"
    path.write_text(path.read_text().replace("rate:sumRateDur", "rate:max"))
    report(results)
    capsys.readouterr()
    cli.main(["report", "--fields", str(paths.fields_file()), str(results)])
    assert capsys.readouterr().err == ""


def test_columns_that_are_named_replace_a_damaged_file(results):
    (results / "fields.txt").write_text("nonsense\n")
    assert cli.main(["report", "--fields", str(paths.fields_file()), str(results)]) == 0


def test_rows_of_an_experiment_without_a_folder_are_kept(results, rebuilt, capsys):
    shutil.rmtree(results / "1")
    assert report(results, "26") == 0
    assert (results / "exp.csv").read_bytes() == (rebuilt / "exp.csv").read_bytes()
    assert capsys.readouterr().err == ("warning: experiments without a folder keep their rows: 1\n")


def test_an_experiment_without_a_folder_is_shown(results, capsys):
    shutil.rmtree(results / "1")
    assert cli.main(["show", str(results), "1"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    # The last line is its first warning.
    assert shown == ["exp", "1.0", "1,"]


def test_show_says_which_cells_of_a_sweep_are_certain(results, capsys):
    runs.write(results, samples.certain_run())
    cli.main(["show", str(results)])
    assert capsys.readouterr().out.splitlines()[-1] == str(samples.certain_run().certainty[0])


def test_show_tells_of_rows_that_are_not_what_was_derived(results, capsys):
    text = (results / "exp.csv").read_text()
    (results / "exp.csv").write_text(text.replace("1.0,netperf-stream-1", "1.0,another", 1))
    cli.main(["show", str(results)])
    assert "the rows of experiment 1 differ from those derived" in capsys.readouterr().err


@pytest.mark.parametrize("experiment", [1, 26])
def test_a_row_of_a_group_that_was_edited_is_reported_by_show(
    rebuilt, tmp_path, capsys, experiment
):
    folder = shutil.copytree(rebuilt, tmp_path / "copy")
    path = folder / "exp.csv"
    lines = path.read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if line.startswith(f"{experiment}.1,"))
    lines[place] = lines[place].replace(".", ".9", 2)
    path.write_text("".join(lines))
    cli.main(["show", str(folder)])
    assert capsys.readouterr().err == (
        f"warning: {path}: the rows of experiment {experiment} differ from those derived from its"
        f" data; `netesto report {folder}` rebuilds them\n"
    )


@pytest.mark.parametrize("command", ["report", "show"])
def test_the_folder_of_an_experiment_is_no_results_folder(results, rebuilt, command, capsys):
    assert cli.main([command, str(results / "1")]) == 2
    assert f"Name its results folder first: {results} 1" in capsys.readouterr().err
    assert (results / "1/exp.html").read_bytes() == (rebuilt / "1/exp.html").read_bytes()


def test_the_folder_around_results_folders_names_them(results, capsys):
    assert cli.main(["show", str(results.parent)]) == 2
    assert f"Name one of: {results}." in capsys.readouterr().err


def test_show_does_not_send_to_report_what_report_cannot_mend(results, capsys):
    cut(results / "1/manifest.json")
    report(results)
    capsys.readouterr()
    assert cli.main(["show", str(results)]) == 0
    assert capsys.readouterr().err == ""


def test_show_of_an_rtt_that_is_no_number_shows_it(results, capsys):
    text = (results / "exp.csv").read_text()
    (results / "exp.csv").write_text(text + text)
    assert cli.main(["show", str(results)]) == 0
    repeated = [line for line in capsys.readouterr().out.splitlines() if line.startswith("exp ")]
    assert [line.split()[0] for line in repeated if " rtt " in line] == ["exp", "exp"]


def test_show_of_a_table_that_is_no_text_tells_how_to_mend_it(results, capsys):
    not_text(results / "exp.csv")
    assert cli.main(["show", str(results)]) == 3
    assert f"`netesto report {results}` rebuilds it" in capsys.readouterr().err


def test_show_of_a_torn_table_tells_how_to_mend_it(results, capsys):
    torn(results / "exp.csv")
    assert cli.main(["show", str(results)]) == 3
    assert f"`netesto report {results}` rebuilds it" in capsys.readouterr().err


def test_compare_tells_of_rows_that_are_not_what_was_derived(results, rebuilt, capsys):
    text = (results / "exp.csv").read_text()
    (results / "exp.csv").write_text(text.replace("1.0,netperf-stream-1", "1.0,another", 1))
    cli.main(["compare", str(rebuilt), str(results)])
    assert capsys.readouterr().err.count("differ from those derived") == 1


def test_exp_and_summary_tell_of_rows_that_are_not_what_was_derived(results, tmp_path, capsys):
    text = (results / "exp.csv").read_text()
    (results / "exp.csv").write_text(text.replace("1.0,netperf-stream-1", "1.0,another", 1))
    script = tmp_path / "my.exp"
    script.write_text(f"File={results}\ndoTable\n")
    cli.main(["exp", str(script)])
    cli.main(["summary", str(results)])
    assert capsys.readouterr().err.count("differ from those derived") == 2


def test_show_of_rows_without_numbers_is_no_internal_error(tmp_path, capsys):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "exp.csv").write_text("EXP,rate\n1.0,5\n")
    assert (cli.main(["show", str(folder)]), "5" in capsys.readouterr().out) == (0, True)
