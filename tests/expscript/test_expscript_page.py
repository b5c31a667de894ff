import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from netesto.report import plotting

VOID = {"meta", "input", "br", "link", "img"}


class Balance(HTMLParser):
    """Tags that do not nest, duplicate ids, and addresses that a page loads from."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.loaded += [values[key] for key in ("src", "srcset") if key in values]
        self.loaded += [values["href"]] if tag in {"link", "image", "base"} else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [dict(attrs)["id"]] if "id" in dict(attrs) else []

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


PLOT = "plotX=instances\nplotY1=rate\nplotSeries=ca\nplotRepeats=mean\n"
ALL_KINDS = "".join(
    f"plotType={kind}\ndoPlot\n" for kind in ("bars", "line", "scatter", "cdf", "box", "stacked")
)


@pytest.fixture
def checked(run):
    def check(script: str, **options: str) -> Balance:
        balance = Balance()
        balance.feed(run(script, **options).html)
        balance.close()
        return balance

    return check


def test_a_page_is_one_well_formed_document(checked):
    script = (
        f"File=exp\nTitle=A\nHeading=B\nText=C\ndoTable\nPercentTable=1\ndoTable\n{PLOT}{ALL_KINDS}"
    )
    balance = checked(script)
    assert (balance.wrong, balance.open) == ([], [])


def test_no_id_is_there_twice(checked):
    balance = checked(f"File=exp\nHeading=B\ndoTable\ndoTable\n{PLOT}{ALL_KINDS}{ALL_KINDS}")
    assert len(balance.ids) == len(set(balance.ids))


def test_a_page_loads_nothing(checked, run):
    script = f"File=exp\ndoTable\n{PLOT}doPlot"
    assert checked(script).loaded == []
    assert re.findall(r"url\((?!#)|@import", run(script).html) == []


def test_references_within_a_plot_find_their_ids(run):
    html = run(f"File=exp\n{PLOT}doPlot\ndoPlot").html
    wanted = set(re.findall(r'(?:url\(#|href="#)([^")]+)', html))
    assert wanted - set(re.findall(r'id="([^"]+)"', html)) == set()


def test_everything_from_data_and_script_is_escaped(run):
    csv = 'exp,<b>ca,rate\n1.0,"<script>alert(1)</script>",5\n'
    script = (
        'Title=<i>T\nHeading=<i>H\nText=<i>P\nFile=exp\nColTitles=rate=<i>R\nrelPath="><i>\n'
        'doTable="<i>\nplotX=<b>ca\nplotY1=rate\nplotTitle=<i>$$x_1$$|<i>S\nplotXTitle=<i>X\ndoPlot'
    )
    html = run(script, csv=csv, explain=True).html
    assert [tag for tag in ("<i>", "<b>", "<script>alert") if tag in html] == []


def test_control_characters_can_be_seen_and_do_nothing(run):
    csv = "exp,ca,rate\n1.0,a\x1b[31m\u202eb,5\n"
    script = "Text=a\x07b\nFile=exp\ndoTable\nplotX=ca\nplotY1=rate\nplotTitle=c\x08d\ndoPlot=p\n"
    outcome = run(script, csv=csv)
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", outcome.html) == []
    shown = ("a␛[31m\ufffdb", "a␇b", "c␈d")
    assert [text for text in shown if text not in outcome.html] == []
    ET.fromstring(next(text for path, text in outcome.files.items() if path.suffix == ".svg"))


@pytest.mark.parametrize(
    "prefix", ["http://h/r", "https://h/r", "file:///r", "../r", "./a:b", "/r"]
)
def test_links_lead_to_folders_and_web_servers(run, prefix):
    assert f'href="{prefix}/1/exp.html"' in run(f"File=exp\nrelPath={prefix}\ndoTable").html


def test_what_a_folder_name_holds_means_nothing_in_a_link(run, tmp_path):
    (tmp_path / "javascript:a#b").mkdir()
    (tmp_path / "javascript:a#b" / "exp.csv").write_text("exp\n1.0\n")
    html = run("File=javascript:a#b/exp\ndoTable").html
    assert 'href="javascript%3Aa%23b/1/exp.html"' in html


def test_headings_make_a_table_of_contents(run):
    html = run("Heading=A & B\nHeading=C\nSubHeading=D").html
    assert '<a href="#section1">A &amp; B</a>' in html
    assert '<h3 id="section3">D</h3>' in html


def test_a_table_can_be_read_without_scripts(run):
    html = run("File=exp\nRows=1.0\nCols=exp,rate\ndoTable").html
    assert '<td class="number"><a href="./1/exp.html">1.0</a></td>' in html
    assert '<td class="number c-rate">94.5</td>' in html


COLORS = {
    ("m", "nv"): "#f5deb3", ("m", "reno"): "#b4eeb4", ("m", "cubic"): "var(--paper)",
    ("m", "dctcp"): "#eee3fe", ("m", "cdg"): "#fec0e0", ("m", "pcecn"): "#e3feee",
    ("m", "other"): "#c0c0c0", ("m", "changed"): "#00cc66",
    ("c", "nv"): "#f5deb3", ("c", "reno"): "#b4eeb4", ("c", "cubic"): "var(--paper)",
    ("c", "dctcp"): "#eee3fe", ("c", "cdg"): "#fec0e0", ("c", "pcecn"): "#e3feee",
    ("c", "rtt"): "#c0c0ff", ("c", "loss"): "#ff8080", ("c", "latency"): "#00c0c0",
    ("c", "rate"): "#80ff80",
}  # fmt: skip


def test_rows_and_cells_have_the_colours_of_the_classic_tool(run):
    html = run("File=exp\ndoTable").html
    rules = re.findall(r"\.([mc])-(\w+) \{ --of-(?:row|cell): ([^;]+); \}", html)
    assert {(kind, mark): color for kind, mark, color in rules} == COLORS


# ---- pictures ----------------------------------------------------------------------------


def test_the_same_script_gives_the_same_bytes(run):
    script = f"File=exp\n{PLOT}doPlot=a"
    assert run(script).files == run(script).files


def test_a_named_plot_comes_as_svg_pdf_and_png(run):
    files = run(f"File=exp\n{PLOT}plotSize=900x450\ndoPlot=my plot (1)").files
    assert {path.as_posix(): content[:5] for path, content in files.items()} == {
        "Plots/my plot (1).svg": b"<?xml",
        "Plots/my plot (1).pdf": b"%PDF-",
        "Plots/my plot (1).png": b"\x89PNG\r",
    }


def test_the_png_is_as_large_as_asked(run):
    files = run(f"File=exp\n{PLOT}plotSize=900x450\nplotFormats=png\ndoPlot=a").files
    (png,) = files.values()
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (900, 450)


def test_text_in_a_plot_is_text_as_written(run):
    script = f"File=exp\n{PLOT}plotTitle=A (b $$x$$ & c|sub\ndoPlot"
    svg = ET.fromstring(run(script).plots[0].svg)
    found = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"A (b $x$ & c", "sub", "cubic", "bbr", "instances", "rate"} <= set(found)


def test_bars_differ_without_colour(run):
    svg = run(f"File=exp\n{PLOT}doPlot").plots[0].svg
    assert svg.count("<pattern") == 1


@pytest.mark.parametrize(
    ("palette", "color"), [("safe", "#0072b2"), ("classic", "#000080"), ("grey", "#404040")]
)
def test_a_palette_colours_the_first_series(run, palette, color):
    svg = run(f"File=exp\n{PLOT}plotPalette={palette}\ndoPlot").plots[0].svg
    assert f"fill: {color}" in svg


def test_the_right_axis_shows_even_with_a_narrow_range(run):
    csv = "exp,n,a,b\n1.0,1,5,1.54\n2.0,2,6,1.79\n"
    svg = run("File=exp\nplotX=n\nplotY1=a\nplotY2=b\nxUniform=on\ndoPlot", csv=csv).plots[0].svg
    assert svg.count("<use") >= 2
    assert ">1.6<" in svg


@pytest.mark.parametrize("name", ["../up", "a/b", ".."])
def test_a_plot_cannot_be_put_elsewhere(run, name):
    with pytest.raises(Exception, match="invalid file name"):
        run(f"File=exp\n{PLOT}doPlot={name}")


def test_every_format_is_one_that_can_be_asked_for():
    assert plotting.FORMATS == ("svg", "pdf", "png")
