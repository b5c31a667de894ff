"""Custom columns, in runs and when tables are rebuilt."""

import shutil
from pathlib import Path

import pytest
from whole_runs import Outcome, netesto, run_script

from netesto.report import index
from netesto.results import keyvalue

pytestmark = pytest.mark.lab

SCRIPT = """\
LAB pair rate=50mbit
OTHER burst=3000
SWEEP size=1 DO
    DO_CLIENT host=a server=b ca=cubic dur=0.5 exp=COUNTER test=TCP_RR
    WAIT_FLOWS
    PROCESS_EXP
    ASSERT rate > 1mbit AND size == 1
DONE
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run with the columns of every run, which a test that changes its results copies."""
    return run_script(tmp_path_factory.mktemp("fields"), SCRIPT)


def test_rows_have_the_chosen_columns_then_those_of_the_script_and_are_rebuilt_with_them(
    tmp_path: Path,
):
    chosen = tmp_path / "fields.txt"
    chosen.write_text("exp:one\nca:all\n")
    outcome = run_script(tmp_path, SCRIPT)
    table = outcome.out / "exp.csv"
    first = table.read_bytes()
    chosen.unlink()
    again = netesto(tmp_path, "report", "out")
    assert (outcome.status, outcome.rows[0], again.status, table.read_bytes()) == (
        0,
        {"exp": "1.0", "ca": "cubic", "burst": "3000", "size": "1", "rep": "1"},
        0,
        first,
    )
    assert "columns of exp.csv: fields.txt" in outcome.stderr
    assert "script.nts:2: fields.txt has no column burst" in outcome.stderr


def test_report_rebuilds_the_table_with_columns_of_another_file_which_later_runs_keep(
    made: Outcome, tmp_path: Path
):
    shutil.copytree(made.out.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "few.txt").write_text("exp:one\nexpName:one\n")
    again = netesto(tmp_path, "report", "out", "--fields", "few.txt")
    more = netesto(tmp_path, "run", "--plain", "--no-pages", "--out", "out", "script.nts")
    rows = Outcome(0, "", "", tmp_path / "out").rows
    kept = [list(row) for row in rows if row["exp"].endswith(".0")]
    assert (again.status, more.status, kept) == (
        0,
        0,
        [["exp", "expName", "burst", "size", "rep"]] * 2,
    )
    assert "columns of exp.csv: out/fields.txt\n" in more.stderr
    assert "differed from its data" not in again.stderr


def test_a_run_without_pages_names_its_table_and_report_draws_them(made: Outcome, tmp_path: Path):
    out = shutil.copytree(made.out, tmp_path / "out")
    drawn = list(out.rglob("exp.html"))
    again = netesto(tmp_path, "report", "out")
    assert (made.stdout.splitlines()[-1], drawn, again.status) == ("results  out/exp.csv", [], 0)
    assert sorted(path.parent.name for path in out.rglob("exp.html")) == ["1", "out"]


def test_what_failed_is_shown_as_failed_even_without_a_column_for_it(tmp_path: Path):
    (tmp_path / "fields.txt").write_text("exp:one\nexpName:one\n")
    outcome = run_script(
        tmp_path,
        "LAB pair\nDO_CLIENT host=a server=b ca=cubic dur=5 req=S\n"
        "WAIT_FLOWS timeout=0.5\nPROCESS_EXP\n",
    )
    whole = keyvalue.read(outcome.out / "1" / "all.exp.out")
    (experiment,) = index.experiments(outcome.rows, outcome.out)
    again = netesto(tmp_path, "report", "out")
    assert (outcome.status, whole["status"], experiment.status, again.status) == (
        1,
        "failed",
        "failed",
        0,
    )
    assert keyvalue.read(outcome.out / "1" / "all.exp.out") == whole
