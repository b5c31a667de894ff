"""The figures of the Netesto paper (2017), from the scripts that we ship."""

import sys
from pathlib import Path

import pytest

from netesto.report.expscript.page import PlotBlock, TableBlock
from netesto.report.expscript.runner import Runner
from netesto.system import process

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
DATA = Path(__file__).with_name("data")

# The last column of figure 8, as printed.
FAIRNESS = [
    "1.79", "1.64", "1.54", "1.8", "1.74", "1.49", "1.78", "1.57", "2.05", "2.42", "4.8", "3.8",
]  # fmt: skip


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    """What a shipped script shows of some data; a warning is an error."""
    monkeypatch.chdir(tmp_path)

    def run(script: str, data: str):
        runner = Runner(warn=pytest.fail, tell=print, strict=True, explain=False, out=None)
        # The paper's data come from the classic tool.
        variables = {"data": str(DATA / data), "again": "retransPkts%"}
        runner.run_script(SCRIPTS / script, variables)
        return runner.session.blocks

    return run


def cells(block: TableBlock) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in block.table.rows]


def test_figure_8_comes_out_as_printed(blocks):
    table, _ = blocks("figure-8-table-and-plot.exp", "paper-figure-8")
    lines = (DATA / "paper-figure-8.csv").read_text().splitlines()
    printed = [line.split(",") for line in lines]
    # The paper's table has every column of our data but `group`, and one more.
    group = printed[0].index("group")
    expected = [row[:group] + row[group + 1 :] for row in printed]
    assert [heading.name for heading in table.table.headings] == [*expected[0], "fairness"]
    assert cells(table) == [
        [*row, fairness] for row, fairness in zip(expected[1:], FAIRNESS, strict=True)
    ]


def test_figure_8_links_as_the_paper_says(blocks):
    table, _ = blocks("figure-8-table-and-plot.exp", "paper-figure-8")
    assert table.table.rows[0].cells[0].link == "bbr/1514/exp.html"


@pytest.mark.parametrize(
    "script", ["figure-7-retransmissions-and-fairness.exp", "figure-8-table-and-plot.exp"]
)
def test_figure_7_shows_bars_diamonds_axes_and_legend(blocks, script):
    plot = blocks(script, "paper-figure-8")[-1]
    assert isinstance(plot, PlotBlock)
    wanted = [
        ">Retransmissions and Fairness<", ">Flows per host (3 hosts)<", ">Fairness =<",
        ">Fastest/Slowest BW<", ">cubic<", ">bbr<", ">CA<", ">1.0<", ">32.0<", ">16<", ">5<",
    ]  # fmt: skip
    assert [text for text in wanted if text not in plot.svg] == []


def test_figure_6_shows_second_flows_and_leaves_out_what_failed(blocks):
    plot, table = blocks("figure-6-second-flow.exp", "second-flow")
    assert cells(table) == [
        ["1.2", "1s2clfs", "cubic", "40", "10mbit", "2.5", "129000.0"],
        ["2.2", "1s2clfs", "bbr", "40", "10mbit", "4.2", "59000.0"],
        ["3.2", "1s2clfs", "cubic", "40", "100mbit", "24.0", "99000.0"],
        ["4.2", "1s2clfs", "bbr", "40", "100mbit", "", ""],
        ["5.2", "1s2clfs", "bbr", "40", "100mbit", "43.0", "57000.0"],
    ]
    assert [
        text for text in (">10mbit<", ">100mbit<", ">Ping RTT (ms)<") if text not in plot.svg
    ] == []


def test_the_classic_command_line_prints_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = SCRIPTS / "figure-7-retransmissions-and-fairness.exp"
    data = DATA / "paper-figure-8"
    run = process.run(
        [
            sys.executable,
            str(ROOT / "local/exp.py"),
            f"--file={script},data={data},again=retransPkts%",
        ],
        timeout=60,
    )
    expected = Runner().run_words([f"--file={script},data={data},again=retransPkts%"]).html
    assert run.stdout == expected
    assert sorted(path.name for path in Path("Plots").iterdir()) == [
        "figure-7.pdf", "figure-7.png", "figure-7.svg",
    ]  # fmt: skip


def test_the_classic_command_line_tells_a_full_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, str(ROOT / "local/exp.py"), "Text=a"]
    run = process.run(["sh", "-c", 'exec "$@" > /dev/full', "sh", *words], timeout=60, check=False)
    assert (run.status, run.stderr.splitlines()[0]) == (
        3, "netesto: standard output: No space left on device",
    )  # fmt: skip


def test_the_classic_command_line_tells_errors_and_exits_with_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = process.run(
        [sys.executable, str(ROOT / "local/exp.py"), "File=nothing"], timeout=60, check=False
    )
    assert (run.status, run.stderr.splitlines()[:1]) == (
        2, ["command line:1:1: csv file 'nothing.csv': No such file or directory"],
    )  # fmt: skip
