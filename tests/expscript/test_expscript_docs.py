"""Every example of docs/reports.md runs, with the output that the page shows."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from netesto.cli import options as options_of_commands
from netesto.errors import ScriptError
from netesto.report import ranks
from netesto.report.compare import ALPHA
from netesto.report.expscript import options, tables
from netesto.report.expscript.options import Options
from netesto.report.expscript.page import TableBlock
from netesto.report.expscript.runner import Runner
from netesto.report.expscript.session import ReportSession
from netesto.results import series
from netesto.results.series import FlowSeries, RateSeries, SocketSeries

PAGE = (Path(__file__).parents[2] / "docs/reports.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
NUMBERS = {"one": 1, "four": 4, "five": 5, "six": 6, "twenty-three": 23}
CSV = next(text for kind, text in BLOCKS if kind == "csv")


@dataclass(frozen=True)
class Example:
    """A script of the page, and the blocks after it with its output."""

    script: str
    shown: dict[str, str]


def examples() -> list[Example]:
    found: list[Example] = []
    for kind, text in BLOCKS:
        if kind == "exp":
            found.append(Example(text, {}))
        elif kind in {"text", "warning", "error"}:
            found[-1].shown[kind] = text
    return found


def outcome(script: str) -> dict[str, str]:
    """The output of a script, under the names of the page's blocks; without empty ones."""
    Path("my.exp").write_text(script)
    warnings: list[str] = []
    runner = Runner(warn=warnings.append, tell=print, strict=False, explain=False, out=None)
    try:
        runner.run_script(Path("my.exp"), {})
    except ScriptError as error:
        return {"error": f"{error}\n"}
    found = [block.table for block in runner.session.blocks if isinstance(block, TableBlock)]
    shown = {
        "text": "\n".join(tables.as_text(table) for table in found),
        "warning": "".join(f"{line}\n" for line in warnings),
    }
    return {kind: text for kind, text in shown.items() if text}


def flow(group: int, ca: str) -> FlowSeries:
    return FlowSeries(
        group=group, instance=0, test="TCP_STREAM", ca=ca, host="a", server="b", number=str(group),
        status="ok", start_s=0.0, end_s=2.0, goodput=RateSeries(source="tool"),
        sockets=(
            SocketSeries(
                time_s=(0.5, 1.0), acked_mbit_per_s=(None, 9.0), cwnd=(10, 20), unacked=(5, 6),
                rtt_ms=(1.0, 2.0), min_rtt_ms=(1.0, 1.0), retransmits=(None, 3),
            ),
        ),
    )  # fmt: skip


@pytest.fixture
def results(tmp_path, monkeypatch) -> None:
    """The data of the examples: the page's CSV file, and two flows over time."""
    monkeypatch.chdir(tmp_path)
    Path("results/two-flows/1").mkdir(parents=True)
    Path("results/exp.csv").write_text(CSV)
    Path("results/two-flows/exp.csv").write_text("exp,ca\n1.0,cubic/bbr\n1.1,cubic\n1.2,bbr\n")
    one = series.Series(exp=1, duration_s=2.0, flows=(flow(1, "cubic"), flow(2, "bbr")))
    series.write(one, Path("results/two-flows/1/series.json"))


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("example", examples(), ids=lambda example: example.script.split("\n")[-2])
def test_an_example_shows_what_the_page_says(example):
    assert outcome(example.script) == example.shown


def test_the_commands_of_the_page_are_commands():
    commands = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
    chosen = [options_of_commands.parser().parse_args(line.split()[1:]) for line in commands]
    assert [one.command for one in chosen] == ["exp", "run", "compare"]


@pytest.mark.parametrize(
    ("runs", "comparisons"),
    re.findall(r"(four|five|six) (?:suffice\s+)?for (one|six|twenty-three)", PAGE),
)
def test_so_many_runs_suffice_and_one_less_does_not(runs, comparisons):
    n, m = NUMBERS[runs], NUMBERS[comparisons]
    assert ranks.least_p(n) * m < ALPHA <= ranks.least_p(n - 1) * m


def test_every_option_is_described():
    described = set(re.findall(r"`(\w+)`", PAGE))
    assert set(options.KNOWN) - described == set()


def test_every_command_is_described():
    session = ReportSession(warn=pytest.fail, step=print, explain=False, folder=None)
    described = set(re.findall(r"`(\w+)`", PAGE))
    assert set(session.commands) - described == set()


def test_every_link_within_the_page_leads_somewhere():
    anchors = {
        re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - anchors == set()


def test_an_option_is_read_without_blanks():
    assert Options({"plotX": " n "}, pytest.fail).get("plotX") == "n"
