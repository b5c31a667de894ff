"""What cells that are passed over were measured with."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from netesto.controller import resume
from netesto.errors import ResultsError
from netesto.results import fields
from netesto.results.store import Store

CELL = {"ca": "bbr", "rep": "1"}
FIELDS = fields.parse("exp:one\nrate:sum\n", source="fields.txt")


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "out") as opened:
        opened.take_fields(FIELDS)
        opened.begin(1)
        opened.complete(1)
        opened.append([{"exp": "1.0", "rate": "94.1"}, {"exp": "1.1", "rate": "94.1"}])
        opened.note_cell("a", CELL, [1])
        yield opened


def measured(store: Store, script: str, text: str) -> list[Mapping[str, str]] | None:
    claimable = fields.parse(text, source="fields.txt")
    found = resume.earlier(store, script, claimable)(CELL)
    return None if found is None else [dict(columns) for columns in found]


def test_a_finished_cell_has_the_first_row_of_its_experiment(store):
    assert measured(store, "a", "exp:one\nrate:sum\n") == [{"exp": "1.0", "rate": "94.1"}]


def test_a_cell_that_was_not_finished_has_nothing(store):
    assert measured(store, "b", "exp:one\n") is None


def test_a_column_that_the_table_lacks_comes_from_the_experiments_own_files(store):
    with pytest.raises(ResultsError, match=r"1/manifest\.json"):
        measured(store, "a", "exp:one\nrtt:avg\n")
