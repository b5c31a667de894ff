"""The script that the tables of all pages share, as Node reads it."""

import json
import shutil
from pathlib import Path

import pytest

import netesto.report
from netesto.system import process

SCRIPT = Path(netesto.report.__file__).with_name("templates") / "tables.js"
NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(not NODE, reason="node is not installed")

NAMES = ["exp", "ca", "rate"]
ROWS = [["1.0", "cubic", "94.5"], ["2.0", "bbr", ""], ["10.0", "bbr", "8K"], ["3.0", "reno", "**"]]

# Stands in for a page: heads that remember what a click would do.
PAGE = """
const heads = NAMES.map((name) => ({
  childNodes: [name], sorted: null,
  dataset: name === "exp" ? { name, order: "pairs" } : { name },
  replaceChildren(button) { this.button = button; },
  click() { this.button.listener(); },
  getAttribute() { return this.sorted; },
  setAttribute(_, value) { this.sorted = value; },
  removeAttribute() { this.sorted = null; },
}));
const document = {
  createElement: () => ({
    append() {}, addEventListener(_, listener) { this.listener = listener; },
  }),
};
tables.sortable(heads, (column, order) => ROWS.sort((a, b) => order(a[column], b[column])));
"""


def evaluate(code: str) -> object:
    values = f"const NAMES = {json.dumps(NAMES)}; const ROWS = {json.dumps(ROWS)};"
    script = f"{SCRIPT.read_text()}\n{values}\n{PAGE}\nconsole.log(JSON.stringify({code}))"
    return json.loads(process.run([NODE, "-e", script], timeout=30).stdout)


@pytest.mark.parametrize(
    ("filter_text", "exps"),
    [
        ("", ["1.0", "2.0", "10.0", "3.0"]),
        ("BBR", ["2.0", "10.0"]),
        ("rate>90", ["1.0", "10.0"]),
        ("rate<=94.5", ["1.0"]),
        ("ca=bbr rate!=0", ["2.0", "10.0"]),
        ("Rate=8000", ["10.0"]),
        ("speed>1", []),
        ("ca>5", []),
    ],
)
def test_a_filter_keeps(filter_text, exps):
    code = f"""ROWS.filter((row) => tables.conditions({json.dumps(filter_text)}, heads)
        .every((each) => each(row))).map((row) => row[0])"""
    assert evaluate(code) == exps


@pytest.mark.parametrize(
    ("clicks", "column", "exps"),
    [
        (1, 0, ["1.0", "2.0", "3.0", "10.0"]),
        (2, 0, ["10.0", "3.0", "2.0", "1.0"]),
        (1, 2, ["1.0", "10.0", "2.0", "3.0"]),
        (2, 2, ["10.0", "1.0", "2.0", "3.0"]),
        (1, 1, ["2.0", "10.0", "1.0", "3.0"]),
    ],
)
def test_a_heading_sorts_and_what_is_missing_comes_last(clicks, column, exps):
    code = (
        f"(heads[{column}].click(), {clicks} > 1 && heads[{column}].click(), ROWS.map((r) => r[0]))"
    )
    assert evaluate(code) == exps


def test_a_heading_tells_how_it_sorts():
    code = "(heads[0].click(), heads[2].click(), heads[2].click(), heads.map((h) => h.sorted))"
    assert evaluate(code) == [None, None, "descending"]


def test_changes_are_sorted_by_their_size():
    code = """(() => { const rows = ["+1134.6%", "-  50.0%", "-   0.0%", "+   3.1%"];
        tables.sortable([heads[0]], (_, order) => rows.sort(order)); heads[0].sorted = null;
        heads[0].click(); return rows; })()"""
    assert evaluate(code) == ["-  50.0%", "-   0.0%", "+   3.1%", "+1134.6%"]


@pytest.mark.parametrize(
    ("filter_text", "exps"),
    [
        ("exp=1.10", ["1.10"]),
        ("exp=1.1", ["1.1"]),
        ("exp>1.9", ["1.10", "2.0"]),
        ("exp>=2", ["2.0"]),
        ("rate=1.10", ["1.1"]),
    ],
)
def test_a_filter_compares_exp_as_a_pair_and_numbers_as_numbers(filter_text, exps):
    code = f"""[["1.9", "", "2"], ["1.10", "", "3"], ["1.1", "", "1.1"], ["2.0", "", "4"]]
        .filter((row) => tables.conditions({json.dumps(filter_text)}, heads)
        .every((each) => each(row))).map((row) => row[0])"""
    assert evaluate(code) == exps


def test_exp_sorts_by_experiment_and_then_by_group():
    code = """(ROWS.splice(0, 9, ["2.0"], ["1.10"], ["1.9"], ["1.1"]), heads[0].click(),
        ROWS.map((row) => row[0]))"""
    assert evaluate(code) == ["1.1", "1.9", "1.10", "2.0"]
