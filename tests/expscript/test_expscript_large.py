"""Tables of more than a thousand rows: text in the page, elements only in view."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typed import found

import netesto.report
from netesto.system import process

TEMPLATES = Path(netesto.report.__file__).with_name("templates")
NODE, CHROMIUM = shutil.which("node") or "", shutil.which("chromium") or ""

CSV = "exp,ca,rate,note\n" + "".join(
    f'{row}.0,{("cubic", "bbr")[row % 2]},{row % 100}.5,"<b> & ""x""\n2"\n'
    for row in range(1, 1502)
)
SCRIPT = "File=exp\ndoTable\n"


@pytest.fixture
def html(run) -> str:
    return run(SCRIPT, csv=CSV).html


def inside(html: str) -> str:
    """What a browser without scripts shows, and one with scripts takes as text."""
    return found(r'<noscript class="large"[^>]*>(.*?)</noscript>', html, re.DOTALL)[1]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1


def test_a_table_of_a_thousand_rows_is_elements(run):
    assert '<noscript class="large"' not in run(SCRIPT, csv="exp\n" + "1.0\n" * 1000).html


def test_without_scripts_a_large_table_is_whole(html):
    assert inside(html).count("<tr") == 1502
    assert html.replace(inside(html), "").count("<tr") == 0


def test_a_row_is_one_line_with_its_colours_and_link(html):
    row = inside(html).splitlines()[-3]
    assert row == (
        '<tr class="m-other"><td><a href="./1501/exp.html">1501.0</a><td>bbr<td class="c-rate">1.5'
        "<td>&lt;b&gt; &amp; &#34;x&#34;&#10;2"
    )


def test_columns_of_numbers_of_a_large_table_stand_at_the_right(html):
    rules = re.findall(r"#table1 td:nth-child\((\d)\)", html)
    assert rules == ["1", "3"]


def test_the_widest_row_of_each_column_is_known(html):
    assert found(r'data-widest="([^"]*)"', html)[1] == "999 1 9 0"


@pytest.mark.skipif(not NODE, reason="node is not installed")
def test_the_texts_of_a_row_are_those_of_its_cells(html):
    row = inside(html).splitlines()[-3]
    code = (TEMPLATES / "virtual.js").read_text()
    script = f"{code}\nconsole.log(JSON.stringify(virtual.textsOf({json.dumps(row)})))"
    found = json.loads(process.run([NODE, "-e", script], timeout=60).stdout)
    assert found == ["1501.0", "bbr", "1.5", '<b> & "x"\n2']


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_browser_makes_elements_of_some_rows_only(html, tmp_path):
    (tmp_path / "page.html").write_text(html)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    shown = process.run(
        [CHROMIUM, *options, f"--user-data-dir={tmp_path / 'profile'}",
         "--virtual-time-budget=5000", "--dump-dom", f"file://{tmp_path / 'page.html'}"],
        timeout=240,
    ).stdout  # fmt: skip
    tags = Tags()
    tags.feed(shown)
    assert 20 < tags.counts["tr"] < 200
    assert ">1,501 rows;" in shown
    assert '<tr class="m-other" aria-rowindex="2"><td><a href="./1/exp.html">1.0</a></td>' in shown
