from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netesto.errors import ScriptError
from netesto.report.expscript import csvcells
from netesto.report.expscript.csvcells import CsvCells, CsvText


def test_blank_lines_and_comments_of_a_csv_file_are_skipped(shown):
    assert shown("", csv="\n# x\n#Path:a\nexp\n\n1.0\n  # y\n2.0\r\n") == ["1.0", "2.0"]


def test_a_file_without_exp_is_wrong(run):
    with pytest.raises(ScriptError, match="has no column 'exp'"):
        run("File=exp", csv="Exp,ca\n1.0,bbr\n")


def test_a_file_that_is_not_there_is_named(run):
    with pytest.raises(ScriptError, match=r"csv file 'nothing.csv': No such file"):
        run("File=nothing")


def test_an_empty_file_is_wrong(run):
    with pytest.raises(ScriptError, match="is empty"):
        run("File=exp", csv="# nothing\n")


def test_a_file_in_latin_1_is_read_and_reported(run, tmp_path):
    (tmp_path / "old.csv").write_bytes(b"exp,desc\n1.0,caf\xe9\n2.0,\xb5s\n3.0,\xc3\xa9\n")
    outcome = run("File=old\nCols=desc\ndoTable")
    assert outcome.column("desc") == ["caf\xe9", "\xb5s", "\xe9"]
    assert outcome.warnings == [
        (
            "my.exp:1: old.csv: line 2 and 1 more are not UTF-8 (byte 0xe9), and read as Latin-1; "
            "iconv -f LATIN1 -t UTF-8 makes UTF-8 of such a file"
        )
    ]


def test_a_csv_file_in_utf_16_is_an_error_that_says_what_to_do(run, tmp_path):
    (tmp_path / "wide.csv").write_bytes("exp,a\n1.0,2\n".encode("utf-16"))
    with pytest.raises(ScriptError, match=r"wide\.csv: line 1: NUL character") as caught:
        run("File=wide")
    assert "iconv -f UTF-16" in caught.value.remedy


def test_lines_may_end_as_on_a_macintosh(run):
    assert run("File=exp\rdoTable\r", csv="exp,a\r1.0,2\r").table == [["1.0", "2"]]


def test_a_quoted_cell_beyond_the_limit_is_reported(run):
    outcome = run("File=exp\nCols=exp\ndoTable", csv=f'exp,a\n1.0,"{"x" * 200_000}"\n')
    assert outcome.warnings == [
        "my.exp:1: exp.csv: a quoted cell holds more than 131072 characters: each comma ends a cell"
    ]


def test_quoted_cells_may_hold_commas_quotes_and_line_ends(run):
    csv = 'exp,desc\n1.0,"a, ""b""\nc"\n'
    assert run("File=exp\ndoTable", csv=csv).table == [["1.0", 'a, "b"\nc']]


def test_quotes_that_are_no_pair_swallow_no_rows_and_are_reported(run):
    outcome = run("File=exp\ndoTable", csv='exp,desc\n1.0,"half\n2.0,5" disk\n')
    assert outcome.table == [["1.0", '"half'], ["2.0", '5" disk']]
    assert outcome.warnings == ["my.exp:1: exp.csv: unbalanced quotes: each comma ends a cell"]


def test_short_rows_are_filled_and_long_ones_cut_and_reported(run):
    outcome = run("File=exp\ndoTable", csv="exp,a,b\n1.0,x\n2.0,x,y,z\n")
    assert outcome.table == [["1.0", "x", ""], ["2.0", "x", "y"]]
    assert outcome.warnings == [
        "my.exp:1: exp.csv: row 1 has 2 cells, its header 3: empty cells are added",
        "my.exp:1: exp.csv: row 2 has 4 cells, its header 3: the others are left out",
    ]


def test_rows_with_the_same_id_are_all_kept_and_reported(run):
    outcome = run("File=exp\nSelect=a>0\ndoTable", csv="exp,a\n1.0,1\n1.0,2\n")
    assert outcome.table == [["1.0", "1"], ["1.0", "2"]]
    assert outcome.warnings == [
        "my.exp:1: exp.csv: exp 1.0 on more than one row; all of them are kept"
    ]


def test_blanks_around_names_of_columns_do_not_count(run):
    assert run("File=exp\nCols=ca\ndoTable", csv="exp, ca \n1.0,bbr\n").table == [["bbr"]]


def test_a_column_that_is_there_twice_gets_another_name(run):
    outcome = run("File=exp\ndoTable", csv="exp,a,a\n1.0,1,2\n")
    assert outcome.headings == ["exp", "a", "a.2"]


def test_no_column_of_the_same_name_takes_the_place_of_another(run):
    outcome = run("File=exp\ndoTable", csv="exp,a,a,a\n1.0,1,2,3\n")
    assert (outcome.headings, outcome.table) == (
        ["exp", "a", "a.2", "a.3"], [["1.0", "1", "2", "3"]],
    )  # fmt: skip
    assert outcome.warnings == [
        f"my.exp:1: exp.csv: column 'a' is there again; this one is called {name!r}"
        for name in ("a.2", "a.3")
    ]


def test_a_second_file_starts_anew(run, tmp_path):
    (tmp_path / "other.csv").write_text("exp,b:1\n9.0,2\n")
    outcome = run("File=exp\nSelect=ca==bbr\nCols=ca\nFile=other\ndoTable")
    assert (outcome.headings, outcome.table) == (["exp", "b"], [["9.00", "2.0"]])


def test_read_takes_a_whole_file_name_and_starts_anew(run, tmp_path):
    (tmp_path / "other.txt").write_text("b,exp\n2,9.0\n")
    outcome = run("File=exp\nSelect=ca==bbr\nread=other.txt\ndoTable")
    assert (outcome.headings, outcome.table) == (["b", "exp"], [["2", "9.0"]])


def test_a_results_folder_means_its_exp_csv(run, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results/exp.csv").write_text("exp\n5.0\n")
    assert run("File=results\ndoTable").table == [["5.0"]]


def test_commands_before_the_data_say_what_is_missing(run):
    with pytest.raises(ScriptError, match="no data has been read"):
        run("Select=all")


def test_append_numbers_rows_above_the_next_hundred_and_matches_columns(run, tmp_path):
    (tmp_path / "more.csv").write_text("rate,extra,exp\n7,x,12.0\n8,x,12.1\n")
    outcome = run("File=exp\nappend=more.csv\nSelect=rate<10\nCols=exp,ca,rate\ndoTable")
    assert outcome.table == [["112.0", " ", "7"], ["112.1", " ", "8"]]
    assert outcome.warnings == [
        "my.exp:2: more.csv: columns that the first file does not have are left out: extra"
    ]


def test_appended_rows_are_selected_and_link_to_their_own_folder(run, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old/exp.csv").write_text("exp\n12.0\n")
    (block,) = run("File=exp\nRows=1.0\nappend=old/exp.csv\nCols=exp\ndoTable").blocks
    cells = [(row.cells[0].text, row.cells[0].link) for row in block.table.rows]
    assert cells == [("1.0", "./1/exp.html"), ("112.0", "old/12/exp.html")]


def test_join_keeps_all_columns_and_labels_the_rows(run, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new/exp.csv").write_text("exp,b\n1.0,7\n")
    outcome = run("Join = old=exp, new=new\ndoTable", csv="exp,a\n1.0,5\n")
    assert outcome.headings == ["source", "exp", "a", "b"]
    assert outcome.table == [["old", "1.0", "5", ""], ["new", "1.0", "", "7"]]
    assert outcome.warnings == []


def test_links_of_joined_files_are_not_those_of_an_earlier_file(run, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new/exp.csv").write_text("exp\n2.0\n")
    script = "File=exp\nrelPath=http://lab\nJoin = old=exp, new=new\nCols=exp\ndoTable"
    (block,) = run(script, csv="exp\n1.0\n").blocks
    links = [row.cells[0].link for row in block.table.rows]
    assert links == ["./1/exp.html", "new/2/exp.html"]


CELL = st.text(alphabet="ab1.e- _", max_size=6)


@given(st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=8), st.data())
def test_the_index_reads_what_splitting_reads(rows, data):
    text = "a,b,c\n" + "".join(",".join(row) + "\n" for row in rows)
    cells = CsvCells.of(CsvText(["a", "b", "c"], text.encode(), 6, is_even=True))
    assert cells is not None
    column = data.draw(st.integers(0, 2))
    chosen = np.array(
        data.draw(st.lists(st.integers(0, len(rows) - 1)) if rows else st.just([])), dtype=np.intp
    )
    written = [row[column] for row in rows]
    some = [written[row] for row in chosen]
    assert (cells.texts(column, None), cells.texts(column, chosen)) == (written, some)
    for mine, theirs in zip(cells.numbers(column, chosen), csvcells.parse_all(some), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "body", ["c,d\ne\nf,g,h\n", "c,d\n\n", "c,d\n#,x\n", "c,d \n", "c,d\r\n", " c,d\n"]
)
def test_a_file_that_must_be_cleaned_has_no_index(body):
    assert CsvCells.of(CsvText(["a", "b"], f"a,b\n{body}".encode(), 4)) is None


def test_a_last_row_without_its_end_is_read(shown):
    assert shown("", csv="exp,a\n1.0,x\n2.0,y") == ["1.0", "2.0"]


def test_many_rows_are_read_in_parts(run, monkeypatch):
    monkeypatch.setattr(csvcells, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(csvcells, "BYTES_AT_ONCE", 5)
    outcome = run("File=exp\nNewCol = x = a + 1\nSelect=a!=\nCols=b,x\ndoTable",
                  csv="exp,a,b\n1.0,1,x\n2.0,2,y\n3.0,,z\n4.0,4,\n5.0,5,w\n")  # fmt: skip
    assert outcome.table == [["x", "2.0"], ["y", "3.0"], ["", "5.0"], ["w", "6.0"]]


def test_a_quoted_cell_may_hold_the_separators_that_the_index_uses(run):
    outcome = run("File=exp\ndoTable", csv='exp,a\n1.0,"x\x1f\x1ey,"\n')
    assert outcome.table == [["1.0", "x␟␞y,"]]


def test_long_cells_are_read_as_well(tmp_path):
    path = Path(tmp_path / "exp.csv")
    path.write_text(f"exp,note\n1.0,{'x' * 500}\n2.0,ü\n")
    _, cells = csvcells.load(path, warn=print)
    assert cells.texts(1, None) == ["x" * 500, "ü"]


def test_a_file_of_headings_alone_is_read(run):
    script = "NewCol = x = a; y = a != 1\nSort=a\nAverage=a\nSelect=x>1\ndoTable"
    outcome = run(f"File=exp\n{script}", csv="exp,a\n")
    assert outcome.notes == ["No rows are selected: there is no table."]


@pytest.mark.parametrize(
    "command", ["Average=ca", "plotX=ca\nplotY1=rate\ndoPlot"], ids=["Average", "doPlot"]
)
def test_rows_of_which_flows_failed_are_reported_with_where_their_values_are_used(run, command):
    found = run(
        f"File=exp\n{command}",
        csv="exp,ca,rate,status\n1.0,bbr,40,ok\n2.0,bbr,30,partial\n3.0,bbr,,failed\n",
    )
    line, name = command.count("\n") + 2, command.partition("=")[0]
    assert found.warnings[0] == (
        f"my.exp:{line}: {name if name == 'Average' else 'doPlot'}: 1 row with status partial: some"
        " flows failed, and the values are those of the others; Select=status!=partial leaves them"
        " out"
    )
