import re
import shutil
from pathlib import Path

import pytest

from netesto.report import index, neighbours
from netesto.report.index import IndexColumn
from netesto.report.neighbours import Neighbours
from netesto.results import runs
from netesto.results.store import experiments
from netesto.system import process
from results import samples

CHROMIUM = shutil.which("chromium") or ""


def two_failed_groups():
    """An experiment of two groups whose page has nothing to draw."""
    second = samples.request(group=2)
    return samples.experiment(
        samples.group(samples.failed()), samples.group(samples.failed(), asked=second)
    )


def test_index_links_to_the_page_of_each_experiment(store, publish, read):
    publish(samples.experiment())
    publish(samples.all_failed())
    index.write(store.folder)
    assert read(store.folder).links == ["exp.csv", "1/exp.html", "2/exp.html"]


def test_index_holds_every_row(store, publish, read):
    publish(two_failed_groups())
    index.write(store.folder)
    source = read(store.folder).source
    assert (source.count('<tr class="whole bad">'), source.count('<tr class="group">')) == (1, 2)


def test_failed_experiment_is_marked(store, publish, read):
    publish(samples.all_failed())
    index.write(store.folder)
    assert '<span class="badge failed">failed</span>' in read(store.folder).source


def test_index_needs_nothing_from_the_network_and_closes_its_tags(store, publish, read):
    publish(samples.all_failed())
    index.write(store.folder)
    found = read(store.folder)
    assert ([link for link in found.links if ":" in link], found.unclosed) == ([], [])


def test_cells_of_the_index_are_escaped(store, publish, read):
    publish(two_failed_groups(), description="<b>bold</b>")
    index.write(store.folder)
    source = read(store.folder).source
    assert ("<b>bold" in source, source.count("&lt;b&gt;bold")) == (False, 3)


def test_index_of_an_empty_folder_says_so(store, read):
    index.write(store.folder)
    assert "No experiment has been completed in this folder yet." in read(store.folder).text


def test_index_says_which_cells_of_a_sweep_are_certain(store, read):
    runs.write(store.folder, samples.certain_run())
    index.write(store.folder)
    assert str(samples.certain_run().certainty[0]) in read(store.folder).text


def test_experiment_without_a_page_has_no_link(tmp_path):
    found = index.experiments([{"exp": "4.0", "status": "ok"}], tmp_path)
    assert [(each.number, each.page) for each in found] == [("4", "")]


def test_columns_that_hold_nothing_are_left_out_and_factors_are_shown():
    rows = [
        {"exp": "1.0", "bw": "10mbit", "testNote": "", "qdisc": "fq", "status": "ok"},
        {"exp": "2.0", "bw": "20mbit", "testNote": "", "qdisc": "fq", "status": "ok"},
    ]
    assert index.columns(rows) == [
        IndexColumn("exp", is_main=True, is_number=True),
        IndexColumn("status", is_main=True, is_number=False),
        IndexColumn("bw", is_main=True, is_number=False),
        IndexColumn("qdisc", is_main=False, is_number=False),
    ]


def test_factors_come_before_what_was_measured():
    rows = [
        {"exp": "1.0", "expName": "a", "rate": "9", "bw": "10mbit", "status": "ok"},
        {"exp": "2.0", "expName": "a", "rate": "8", "bw": "20mbit", "status": "ok"},
    ]
    assert [column.name for column in index.columns(rows)] == [
        "exp", "status", "bw", "expName", "rate",
    ]  # fmt: skip


def test_of_an_experiment_without_a_manifest_nothing_is_a_factor():
    rows = [
        {"exp": "1.0", "qdisc": "", "status": "damaged"},
        {"exp": "2.0", "qdisc": "fq", "status": "ok"},
    ]
    assert index.columns(rows)[2] == IndexColumn("qdisc", is_main=False, is_number=False)


def test_of_an_experiment_without_a_flow_nothing_is_a_factor():
    rows = [
        {"exp": "1.0", "test": "", "qdisc": "", "status": "partial"},
        {"exp": "2.0", "test": "TCP_RR", "qdisc": "fq", "status": "ok"},
    ]
    assert index.columns(rows)[3] == IndexColumn("qdisc", is_main=False, is_number=False)


def test_headings_tell_units_and_rtt_is_in_milliseconds(store, publish, read):
    publish(samples.two_flows())
    index.write(store.folder)
    text = read(store.folder).text
    assert [each for each in ("rate Mbit/s", "rtt ms", "pingRtt ms", "dur s") if each in text] == [
        "rate Mbit/s", "rtt ms", "pingRtt ms", "dur s",
    ]  # fmt: skip


def test_rtt_of_the_index_is_a_thousandth_of_the_tables():
    assert [index.cell_text("43333.787", name) for name in ("rtt", "pingRtt", "p50Latency")] == [
        "43.334", "43.334", "43333.787",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("60.0", "60"),
        ("43333.787", "43333.787"),
        ("0.0001", "0.0001"),
        ("60+...", "60+..."),
        ("1M", "1M"),
        ("", ""),
    ],
)
def test_zeros_that_say_nothing_are_not_shown(cell, shown):
    assert index.cell_text(cell) == shown


# ---- neighbours ------------------------------------------------------------------------------


def test_pages_are_linked_to_their_neighbours(store, publish, read):
    folders = [publish(samples.all_failed()) for _ in range(3)]
    index.write(store.folder)
    navigation = [[link for link in read(each).links if link.startswith("../")] for each in folders]
    assert navigation == [
        ["../exp.html", "../2/exp.html"],
        ["../1/exp.html", "../exp.html", "../3/exp.html"],
        ["../2/exp.html", "../exp.html"],
    ]


def test_experiment_that_comes_between_is_linked_from_both_sides(store, publish, read):
    first, last = publish(samples.all_failed(), exp=1), publish(samples.all_failed(), exp=9)
    publish(samples.all_failed(), exp=5)
    index.write(store.folder)
    assert ("../5/exp.html" in read(first).links, "../5/exp.html" in read(last).links) == (
        True,
        True,
    )


def test_page_whose_neighbours_are_right_is_not_written_again(store, publish):
    folders = [publish(samples.all_failed()) for _ in range(2)]
    index.write(store.folder)
    before = [(each / "exp.html").stat().st_ino for each in folders]
    index.write(store.folder)
    assert [(each / "exp.html").stat().st_ino for each in folders] == before


def test_partial_experiment_is_nobodys_neighbour(store, publish, read):
    folder = publish(samples.all_failed())
    store.begin(2)
    index.write(store.folder)
    assert [link for link in read(folder).links if link.startswith("../")] == ["../exp.html"]


@pytest.mark.parametrize(
    ("exp", "found"),
    [
        (1, Neighbours(None, 3)),
        (3, Neighbours(1, 8)),
        (5, Neighbours(3, 8)),
        (9, Neighbours(8, None)),
    ],
)
def test_neighbours_of_a_number(exp, found):
    assert neighbours.of(exp, [1, 3, 8]) == found


# ---- large folders -----------------------------------------------------------------------


@pytest.fixture
def large(tmp_path):
    """The index of 400 experiments of two groups each."""
    rows = [
        f'{number}.{group},{"failed" if number == 7 else "ok"},{number},"a\nb"\n'
        for number in range(1, 401)
        for group in range(3)
    ]
    (tmp_path / "exp.csv").write_text("exp,status,rate,desc\n" + "".join(rows))
    index.write(tmp_path)
    return (tmp_path / neighbours.PAGE).read_text()


def test_a_large_index_is_whole_without_scripts(large):
    inside = large.partition("<noscript")[2].partition("</noscript>")[0]
    assert (inside.count("<tr class="), inside.count("<tbody>")) == (1200, 1)
    assert large.replace(inside, "").count('<tr class="whole">') == 0


def test_a_row_of_a_large_index_is_one_line(large):
    (failed,) = [line for line in large.splitlines() if line.startswith('<tr class="whole bad">')]
    assert failed.endswith('<td class="number">7</td><td class="more">a&#10;b</td></tr>')


def test_a_large_index_knows_the_widest_row_of_each_column(large):
    assert 'data-widest="298 18 297 0"' in large


def in_browser(folder: Path, page: str = neighbours.PAGE) -> str:
    """The index of a folder, or a page of it, as HTML when its scripts have run."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    return process.run(
        [CHROMIUM, *options, f"--user-data-dir={folder / 'profile'}",
         "--virtual-time-budget=5000", "--dump-dom", f"file://{folder}/{page}"],
        timeout=240,
    ).stdout  # fmt: skip


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_browser_makes_elements_of_some_experiments_only(large, tmp_path):
    shown = in_browser(tmp_path)
    assert 20 < shown.count("<tr class=") < 200
    assert "400 experiments;" in shown
    assert 'class="fold" aria-expanded="false" aria-label="groups of experiment 1"' in shown


def lines_of(html):
    """The rows of a very large index, or of one of its pages."""
    return html.partition("<tbody>")[2].partition("</tbody>")[0].split("\n")[1:-1]


@pytest.fixture
def very_large(tmp_path):
    """The index of 2,001 experiments of two groups each, of which the first has a page, and the
    third failed."""
    rows = [
        f'{number}.{group},{"failed" if number == 3 else "ok"},{number},"a\t<b>",5\n'
        for number in range(1, 2002)
        for group in range(3)
    ]
    (tmp_path / "exp.csv").write_text("exp,status,rate,expName,cwnd\n" + "".join(rows))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / neighbours.PAGE).write_text("<!-- neighbours  -->\n")
    index.write(tmp_path)
    return (tmp_path / neighbours.PAGE).read_text()


def test_a_very_large_index_has_the_aggregate_rows_and_main_columns_as_texts_between_tabs(
    very_large,
):
    lines = lines_of(very_large)
    assert (lines[0], lines[2], len(lines)) == (
        "11\t1.0\tok\t1\ta&#9;&lt;b&gt;",
        "01\t3.0\tfailed\t3\ta&#9;&lt;b&gt;",
        2001,
    )
    assert "opens the rows of its groups, with 1 more column." in very_large


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_browser_makes_rows_of_the_texts_of_a_very_large_index(very_large, tmp_path):
    shown = in_browser(tmp_path)
    assert 20 < shown.count("<tr class=") < 200
    assert "2,001 experiments;" in shown
    assert (
        '<a href="1/exp.html">1.0</a></th><td><span class="badge ok">ok</span></td>'
        '<td class="number">1</td><td class="wide">a\t&lt;b&gt;</td></tr>'
    ) in shown
    assert (
        '<tr class="whole bad" aria-rowindex="4"><th scope="row"><a class="rows"'
        ' href="rows/1.html#exp=3.0" aria-label="groups of experiment 3">▸</a>3.0</th>'
    ) in shown


def test_the_pages_of_a_very_large_index_have_all_rows_once(very_large, tmp_path):
    pages = sorted((tmp_path / "rows").iterdir(), key=lambda path: int(path.stem))
    lines = [line.split("\t") for path in pages for line in lines_of(path.read_text())]
    assert [line[1] for line in lines] == [
        f"{number}.{group}" for number in range(1, 2002) for group in range(3)
    ]
    assert lines[0] == ["10", "1.0", "ok", "1", "a&#9;&lt;b&gt;", "5"]
    assert lines[7] == ["-", "3.1", "failed", "3", "a&#9;&lt;b&gt;", "5"]


def test_the_index_links_each_experiment_to_the_page_that_has_its_rows(very_large, tmp_path):
    linked = {line.split("\t")[1]: line.split("\t")[0][1:] for line in lines_of(very_large)}
    found = {
        line.split("\t")[1]: path.stem
        for path in (tmp_path / "rows").iterdir()
        for line in lines_of(path.read_text())
        if not line.startswith("-")
    }
    assert linked == found


def test_a_page_of_rows_has_no_more_than_a_table_with_all_its_elements(very_large, tmp_path):
    counts = [len(lines_of(path.read_text())) for path in (tmp_path / "rows").iterdir()]
    assert sorted(counts) == [9, *[999] * 6]


def test_a_page_of_rows_leads_back_to_the_index(very_large, tmp_path):
    html = (tmp_path / "rows" / "1.html").read_text()
    base, link = re.findall(r'<(?:base|nav><a) href="(.*?)"', html)
    assert (tmp_path / "rows" / base / link).resolve() == tmp_path / neighbours.PAGE


def test_pages_of_rows_are_no_experiments(very_large, tmp_path):
    assert experiments(tmp_path) == [1]


def test_a_page_of_rows_that_is_the_same_is_not_written_again(very_large, tmp_path):
    before = [path.stat().st_ino for path in sorted((tmp_path / "rows").iterdir())]
    index.write(tmp_path)
    assert [path.stat().st_ino for path in sorted((tmp_path / "rows").iterdir())] == before


def test_pages_of_rows_that_are_not_needed_any_more_are_removed(very_large, tmp_path):
    (tmp_path / "rows" / "8.html").touch()
    (tmp_path / "rows" / "own.html").touch()
    index.write(tmp_path)
    names = {path.name for path in (tmp_path / "rows").iterdir()}
    assert names == {*(f"{number}.html" for number in range(1, 8)), "own.html"}


def test_an_index_that_has_all_rows_has_no_other_pages(very_large, tmp_path):
    (tmp_path / "exp.csv").write_text("exp,status\n1.0,ok\n1.1,ok\n")
    index.write(tmp_path)
    assert not (tmp_path / "rows").exists()


def test_during_a_run_a_very_large_index_has_no_pages_of_rows_and_says_so(very_large, tmp_path):
    index.write(tmp_path, is_final=False)
    html = (tmp_path / neighbours.PAGE).read_text()
    assert (lines_of(html)[0].split("\t")[0], (tmp_path / "rows").exists()) == ("1", False)
    assert "in exp.csv until the run ends, or <code>netesto report" in html


def test_during_a_run_a_very_large_index_is_no_younger_than_its_table(very_large, tmp_path):
    index.write(tmp_path, is_final=False)
    paths = [tmp_path / "exp.csv", tmp_path / neighbours.PAGE]
    assert len({path.stat().st_mtime_ns for path in paths}) == 1


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_link_to_the_rows_of_an_experiment_shows_these_and_no_others(very_large, tmp_path):
    shown = in_browser(tmp_path, "rows/1.html#exp=3.0").partition("</thead>")[2]
    assert re.findall(r'<tr class="([a-z ]*)"[^>]*><th scope="row">.*?([\d.]+)</th>', shown) == [
        ("whole bad", "3.0"),
        ("group", "3.1"),
        ("group", "3.2"),
    ]


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_browser_shows_cells_of_a_page_of_rows_as_the_index_does(tmp_path):
    cells = [("60.0", "40790.722"), ("0.0001", ""), ("62.50", "62.5"), ("100", "5"), ("60+...", "")]
    rows = [
        f"{number}.{group},{rate},{rtt}\n"
        for number in range(1, 2502)
        for group, (rate, rtt) in enumerate(cells)
    ]
    (tmp_path / "exp.csv").write_text("exp,rate,rtt\n" + "".join(rows))
    index.write(tmp_path)
    shown = in_browser(tmp_path, "rows/1.html#exp=1.0").partition("</thead>")[2]
    found = re.findall(r'<td class="[^"]*">(.*?)</td><td class="[^"]*">(.*?)</td></tr>', shown)
    assert found == [
        (index.cell_text(rate, "rate"), index.cell_text(rtt, "rtt")) for rate, rtt in cells
    ]


def test_pages_behind_a_symbolic_link_are_not_removed(tmp_path: Path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "77.html").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / index.ROWS).symlink_to(tmp_path / "own")
    (tmp_path / "out" / "exp.csv").write_text("exp,status\n1.0,ok\n")
    index.write(tmp_path / "out")
    assert (tmp_path / "own" / "77.html").read_text() == "mine"
