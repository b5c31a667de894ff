import csv
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import returned

from netesto.errors import ResultsError
from netesto.results import csvfile

ROWS = [{"exp": "1.0", "desc": 'a, "b"\nc'}, {"exp": "1.1", "desc": ""}]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "exp.csv"
    csvfile.append(path, ROWS)
    return path


def test_any_csv_library_reads_what_was_written(table):
    with table.open(newline="") as file:
        assert list(csv.DictReader(file)) == ROWS


def test_header_is_written_once(table):
    csvfile.append(table, [{"exp": "2.0", "desc": "d"}])
    assert csvfile.read(table) == [*ROWS, {"exp": "2.0", "desc": "d"}]


def test_no_file_has_no_rows(tmp_path):
    assert csvfile.read(tmp_path / "none.csv") == []


def test_rows_of_no_experiment_begin_no_file(tmp_path):
    csvfile.append(tmp_path / "exp.csv", [])
    assert list(tmp_path.iterdir()) == []


def test_other_columns_are_refused_and_named(table):
    with pytest.raises(ResultsError, match=r"other columns; no longer present: desc; new: bw, rtt"):
        csvfile.check_header(table, ["exp", "bw", "rtt"])


def test_other_order_is_refused_and_its_place_reported(table):
    with pytest.raises(ResultsError, match="differs from column 1 on: exp, desc"):
        csvfile.check_header(table, ["desc", "exp"])


def test_same_columns_pass(table):
    assert returned(csvfile.check_header, table, ["exp", "desc"]) is None


def test_rows_with_other_columns_are_not_appended(table):
    with pytest.raises(ResultsError):
        csvfile.append(table, [{"exp": "2.0"}])
    assert csvfile.read(table) == ROWS


def test_torn_last_row_stops_a_run_and_names_the_cure(table):
    table.write_text("exp,desc\n1.0,whole\n1.1,to")
    with pytest.raises(ResultsError, match="netesto report"):
        csvfile.check_header(table, ["exp", "desc"])


def test_row_with_too_few_cells_is_named(table):
    table.write_text("exp,desc\n1.0\n")
    with pytest.raises(ResultsError, match="row 2 has 1 cells, not 2"):
        csvfile.read(table)


def test_rewriting_gives_what_appending_gave(table, tmp_path):
    again = tmp_path / "again.csv"
    csvfile.rewrite(again, ["exp", "desc"], ROWS)
    assert again.read_bytes() == table.read_bytes()


def test_full_disk_is_reported_with_a_remedy():
    with pytest.raises(ResultsError, match="No space left") as caught:
        csvfile.durable.append(csvfile.Path("/dev/full"), "1.0,x\n")
    assert "Make room" in caught.value.remedy


# Room for the file as it is and 4 bytes more; a write beyond is cut, then refused.
SHORT_OF_ROOM = """
import resource, sys
from pathlib import Path
from netesto.errors import ResultsError
from netesto.results import csvfile
path = Path(sys.argv[1])
room = path.stat().st_size + 4
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
try:
    csvfile.append(path, [{"exp": "2.0", "desc": "more than there is room for"}])
except ResultsError as error:
    print(error.message)
"""


def test_row_that_does_not_fit_leaves_the_file_as_it_was(table):
    before = table.read_bytes()
    command = [sys.executable, "-c", SHORT_OF_ROOM, str(table)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ("cannot write" in told, table.read_bytes()) == (True, before)


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(st.lists(st.fixed_dictionaries({"exp": CELLS, "b": CELLS}), min_size=1, max_size=5))
def test_every_text_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "exp.csv"
    csvfile.append(path, rows)
    assert csvfile.read(path) == rows


@pytest.mark.parametrize("text", ["=cmd|'/c calc'!A1", "@SUM(1)", "+x", "-x, y", "\t=1", "'=1"])
def test_a_cell_that_a_spreadsheet_would_execute_is_a_text_there_and_the_same_here(tmp_path, text):
    path = tmp_path / "exp.csv"
    csvfile.append(path, [{"exp": "1.0", "desc": text}])
    with path.open(newline="") as file:
        assert [row["desc"] for row in csv.DictReader(file)] == [f"'{text}"]
    assert csvfile.read(path) == [{"exp": "1.0", "desc": text}]


@pytest.mark.parametrize("text", ["-1.5", "+3", "-2e-3", "1-2", "'quoted'", "—", "a=b"])
def test_numbers_and_plain_texts_are_cells_as_they_are(text):
    assert (csvfile.guarded(text), csvfile.plain(text)) == (text, text)
