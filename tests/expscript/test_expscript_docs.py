"""Every example of docs/reports.md is run, and shows what the page says it shows."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from netesto.errors import ScriptError
from netesto.report.expscript import options, tables
from netesto.report.expscript.blocks import TableBlock
from netesto.report.expscript.plotaxes import Request
from netesto.report.expscript.runner import Runner
from netesto.report.expscript.session import Reporting, Session

PAGE = (Path(__file__).parents[2] / "docs/reports.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
CSV = next(text for kind, text in BLOCKS if kind == "csv")


@dataclass(frozen=True)
class Example:
    """A script of the page, and the blocks that follow it and tell what it shows."""

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
    """What a script shows, under the names of the page's blocks; only what there is."""
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


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.script.split("\n")[-2])
def test_an_example_shows_what_the_page_says(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("results/exp.csv").write_text(CSV)
    assert outcome(example.script) == example.shown


def test_every_option_is_described():
    described = set(re.findall(r"`(\w+)`", PAGE))
    known = options.CLASSIC_PLOT + options.NEW_PLOT + options.TABLE + options.AVERAGE
    assert set(known) - described == set()


def test_every_command_is_described():
    session = Session(Reporting(pytest.fail, print, explain=False, out=None))
    described = set(re.findall(r"`(\w+)`", PAGE))
    assert set(session.commands) - described == set()


def test_every_link_within_the_page_leads_somewhere():
    anchors = {
        re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - anchors == set()


def test_an_option_is_read_without_blanks():
    assert Request({"plotX": " n "}, pytest.fail).get("plotX") == "n"
