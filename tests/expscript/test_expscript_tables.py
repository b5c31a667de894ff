import json
from pathlib import Path

import pytest

from netesto.errors import ScriptError
from netesto.report.expscript.page import TableBlock
from netesto.report.expscript.tables import (
    ColumnHeading,
    Table,
    TableCell,
    TableRow,
    as_csv,
    as_markdown,
    as_text,
)


def links(outcome) -> list[str]:
    (block,) = [block for block in outcome.blocks if isinstance(block, TableBlock)]
    return [row.cells[0].link for row in block.table.rows]


def marks(outcome) -> list[str]:
    """The marks of the rows of the last table."""
    tables = [block.table for block in outcome.blocks if isinstance(block, TableBlock)]
    return [row.mark for row in tables[-1].rows]


# ---- columns -----------------------------------------------------------------------------


def test_columns_are_shown_in_the_order_of_the_file(run):
    assert run("File=exp\nCols=rate, ca,exp,ca\ndoTable").headings == ["exp", "ca", "rate"]


def test_columns_can_be_shown_in_their_own_order(run):
    outcome = run("File=exp\nColsOrder=on\nCols=rate,ca,exp\ndoTable")
    assert outcome.headings == ["rate", "ca", "exp"]


def test_columns_can_have_titles(run):
    outcome = run("File=exp\nColTitles=rate=Goodput (Mbit/s)\nCols=exp,rate\ndoTable")
    assert outcome.headings == ["exp", "Goodput (Mbit/s)"]


def test_all_restores_every_column(run):
    outcome = run("File=exp\nCols=exp\nCols=ALL\ndoTable")
    assert len(outcome.headings) == 9


def test_columns_can_be_hidden_and_are_still_of_use(run):
    outcome = run("File=exp\nRemoveCols=rate, group\nSelect=rate>90\ndoTable")
    assert outcome.headings == [
        "exp", "expName", "ca", "instances", "rateMin", "rateMax", "note",
    ]  # fmt: skip
    assert outcome.column("exp") == ["1.0"]


def test_a_new_column_is_visible_until_the_next_cols(run):
    script = "File=exp\nCols=exp\nNewCol=x=1\ndoTable\nCols=ca\ndoTable"
    outcome = run(script)
    assert [len(table[0]) for table in outcome.tables] == [2, 1]


def test_an_unknown_column_is_reported(run):
    outcome = run("File=exp\nCols=exp,Rate\ndoTable")
    assert outcome.warnings == [
        "my.exp:2: Cols: no column 'Rate'; did you mean 'rate' or 'rateMin' or 'rateMax'?"
    ]


# ---- numbers -----------------------------------------------------------------------------

NUMBERS = "exp,a,b\n1514.0,60,x\n2.0,1e3,*\n3.0,nan,-0.126\n"


def test_without_format_cells_are_as_written(run):
    assert run("File=exp\ndoTable", csv=NUMBERS).table == [
        ["1514.0", "60", "x"], ["2.0", "1e3", "*"], ["3.0", "nan", "-0.126"],
    ]  # fmt: skip


def test_format_shows_every_number_with_its_decimals(run):
    assert run("format=2\nFile=exp\ndoTable", csv=NUMBERS).table == [
        ["1514.00", "60.00", "x"], ["2.00", "1000.00", "*"], ["3.00", "nan", "-0.13"],
    ]  # fmt: skip


def test_decimals_of_a_header_win(run):
    csv = "exp:1,a:0,b\n1.0,2.6,3.14159\n"
    outcome = run("format=3\nFile=exp\nSelect=a>2\ndoTable", csv=csv)
    assert (outcome.headings, outcome.table) == (["exp", "a", "b"], [["1.0", "3", "3.142"]])


def test_decimals_of_a_header_turn_formatting_on(run):
    assert run("File=exp\ndoTable", csv="exp,a:0,b\n1.0,2.6,3\n").table == [["1.00", "3", "3.00"]]


@pytest.mark.parametrize("value", ["2.5", "-1", "two", "", "100000000"])
def test_format_must_be_a_count(run, value):
    with pytest.raises(ScriptError, match="format: invalid number of decimals"):
        run(f"format={value}\nFile=exp")


# ---- links -------------------------------------------------------------------------------


def test_rows_link_to_the_page_of_their_experiment(run):
    outcome = run("File=exp\nSelect=exp<2\nCols=exp\ndoTable")
    assert links(outcome) == ["./1/exp.html", "./1/exp.html"]


def test_links_follow_the_folder_of_the_file(run, tmp_path):
    (tmp_path / "bbr3").mkdir()
    (tmp_path / "bbr3/exp.csv").write_text("exp\n7.0\n")
    assert links(run("File=bbr3/exp\ndoTable")) == ["bbr3/7/exp.html"]


def test_links_lead_from_where_the_page_will_be(run, tmp_path):
    outcome = run("File=exp\nRows=1.0\nCols=exp\ndoTable", out=Path("pages/report.html"))
    assert links(outcome) == ["../1/exp.html"]


def test_relpath_and_iterfile_make_the_link(run):
    script = "File=exp\nrelPath=http://lab/bbr\nIterFile=my.html\nRows=2.0\nCols=exp\ndoTable"
    assert links(run(script)) == ["http://lab/bbr/2/my.html"]


def test_a_second_file_has_links_of_its_own(run, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new/exp.csv").write_text("exp\n7.0\n")
    assert links(run("File=exp\nrelPath=old\nFile=new/exp\ndoTable")) == ["new/7/exp.html"]


def test_an_empty_relpath_means_no_links(run):
    assert links(run("File=exp\nrelPath=\nRows=2.0\nCols=exp\ndoTable")) == [""]


def test_an_id_that_is_no_number_has_no_link(run):
    assert links(run("File=exp\ndoTable", csv="exp\nx\n")) == [""]


# ---- marks -------------------------------------------------------------------------------


def test_rows_are_marked_by_their_congestion_control(run):
    csv = "exp,ca\n1.0,cubic\n2.0,reno\n3.0,bbr\n4.0,cubic/bbr\n"
    assert marks(run("File=exp\ndoTable", csv=csv)) == ["cubic", "reno", "other", "other"]


def test_cells_are_marked_by_the_number_as_shown(run):
    csv = "exp,rtt,retransPkts%,rate,p99Latency\n1.0,5,0.001,0,\n"
    (block,) = run("format=2\nFile=exp\ndoTable", csv=csv).blocks
    assert [cell.mark for cell in block.table.rows[0].cells] == ["", "rtt", "", "rate", ""]


def test_rowcolorchange_paints_a_change_across_tables(run):
    csv = "exp,bw\n1.0,10\n2.0,10\n3.0,20\n4.0,30\n"
    script = "File=exp\nrowColorChange=bw\nRows=1.0,2.0,3.0\ndoTable\nRows=3.0,4.0\ndoTable"
    outcome = run(script, csv=csv)
    painted = [[row.mark for row in block.table.rows] for block in outcome.blocks]
    assert painted == [["other", "other", "changed"], ["other", "changed"]]


def test_rowcolorchange_exp_paints_another_experiment(run):
    csv = "exp\n1.0\n1.1\n2.0\n4.0\n"
    outcome = run("File=exp\nrowColorChange=exp\ndoTable", csv=csv)
    assert marks(outcome) == ["changed", "other", "other", "changed"]


def test_a_column_ver_paints_its_changes(run):
    csv = "exp,Ver\n1.0,1\n2.0,2\n3.0,2.0\n"
    assert marks(run("File=exp\ndoTable", csv=csv)) == ["other", "changed", "other"]


# ---- the percent table -------------------------------------------------------------------


def test_percenttable_adds_changes_from_the_first_row(run):
    csv = "exp,ca,rate,zero\n1.0,cubic,100,0\n2.0,bbr,50,7\n3.0,bbr,1234.6,x\n4.0,bbr,100,\n"
    outcome = run("File=exp\nPercentTable=1\ndoTable", csv=csv)
    assert outcome.tables[1] == [
        ["cubic", "100.0", "0.0"],
        ["bbr", "-  50.0%", "7.0"],
        ["bbr", "+1134.6%", "x"],
        ["bbr", "-   0.0%", ""],
    ]


def test_percenttable_is_on_when_empty_and_off_when_off(run):
    script = "File=exp\nPercentTable=\ndoTable\nPercentTable=off\ndoTable"
    assert len(run(script).tables) == 3


# ---- other forms -------------------------------------------------------------------------

TABLE = Table(
    (
        ColumnHeading("exp", "exp", is_numeric=True),
        ColumnHeading("note", "Remark", is_numeric=False),
    ),
    (
        TableRow((TableCell("1.0"), TableCell('a "b", c'))),
        TableRow((TableCell("12.0"), TableCell("x|y\nz"))),
    ),
)


def test_a_table_as_csv_has_the_names_of_the_data():
    assert as_csv(TABLE) == 'exp,note\n1.0,"a ""b"", c"\n12.0,"x|y\nz"\n'


def test_a_table_as_markdown_escapes_its_bars():
    assert as_markdown(TABLE) == (
        '| exp | Remark |\n| --: | :-- |\n| 1.0 | a "b", c |\n| 12.0 | x\\|y z |\n'
    )


def test_a_table_as_text_stands_in_columns():
    table = Table(
        TABLE.headings,
        (
            TableRow((TableCell("1.0"), TableCell("base"))),
            TableRow((TableCell("12.0"), TableCell(""))),
        ),
    )
    assert as_text(table) == " exp  Remark\n 1.0  base\n12.0\n"


def test_a_named_table_is_kept_in_the_forms_asked_for(run):
    outcome = run("File=exp\nRows=1.0\nCols=exp,ca\ntableFormats=csv, md\ndoTable=rates")
    assert outcome.files == {
        Path("Tables/rates.csv"): b"exp,ca\n1.0,cubic\n",
        Path("Tables/rates.md"): b"| exp | ca |\n| --: | :-- |\n| 1.0 | cubic |\n",
    }


def test_no_table_of_nothing(run):
    outcome = run("File=exp\nSelect=ca==reno\ndoTable")
    assert outcome.notes == ["No rows are selected: there is no table."]
    assert outcome.warnings == ["my.exp:3: doTable: no rows are selected; there is no table"]


def test_an_empty_page_of_nothing_is_reported(run):
    outcome = run("File=exp\nSelect=ca==reno\nText=Rates")
    assert outcome.warnings == ["my: no rows are selected; the page is empty"]


# ---- listing -----------------------------------------------------------------------------


def test_columns_are_listed_with_what_is_in_them(run):
    csv = "exp,ca,rate\n1.0,cubic,5\n2.0,bbr,\n3.0,bbr,x\n"
    assert run("File=exp\nList=columns", csv=csv).table == [
        ["exp", "3", "3", "3", "1.0, 2.0, 3.0"],
        ["ca", "3", "0", "2", "cubic, bbr"],
        ["rate", "2", "1", "2", "5, x"],
    ]


def test_values_are_listed_with_their_rows(run):
    csv = "exp,ca\n1.0,cubic\n2.0,bbr\n3.0,bbr\n4.0,\n"
    assert run("File=exp\nList=ca", csv=csv).table == [
        ["cubic", "1"], ["bbr", "2"], ["(missing)", "1"],
    ]  # fmt: skip


def test_a_table_is_numeric_where_numbers_and_signs_of_missing_ones_are(run):
    csv = "exp,a,b,Notes\n1.0,1,x,1\n2.0,*,2,2\n3.0,,3,3\n"
    (block,) = run("File=exp\ndoTable", csv=csv).blocks
    numeric = {heading.name: heading.is_numeric for heading in block.table.headings}
    assert json.dumps(numeric) == '{"exp": true, "a": true, "b": false, "Notes": false}'
