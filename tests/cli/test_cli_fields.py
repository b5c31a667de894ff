"""The choice of fields.txt, and the messages about columns before a run."""

from pathlib import Path

import pytest

from netesto import cli
from netesto.files import paths
from netesto.run.settings import are_ours, fields_for

LACKING = """\
OTHER bw=10,cable=copper
DO_SERVER host=a
PROCESS_EXP
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working folder; scripts are in `scripts` below it."""
    (tmp_path / "scripts").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_columns_are_those_of_netesto_where_there_is_no_file(folder):
    assert are_ours(fields_for(None, Path("scripts/a.nts")))


def test_file_in_the_working_folder_goes_before_that_of_netesto(folder):
    (folder / "fields.txt").write_text("exp:one\n")
    assert fields_for(None, Path("scripts/a.nts")).source == "fields.txt"


def test_file_beside_the_script_goes_before_one_in_the_working_folder(folder):
    (folder / "fields.txt").write_text("exp:one\n")
    (folder / "scripts/fields.txt").write_text("exp:one\n")
    assert fields_for(None, Path("scripts/a.nts")).source == "scripts/fields.txt"


def test_file_that_is_named_goes_before_all(folder):
    (folder / "scripts/fields.txt").write_text("exp:one\n")
    (folder / "my.txt").write_text("exp:one\n")
    assert fields_for(Path("my.txt"), Path("scripts/a.nts")).source == "my.txt"


def test_script_on_standard_input_has_the_columns_of_the_working_folder(folder):
    (folder / "fields.txt").write_text("exp:one\n")
    assert fields_for(None, None).source == "fields.txt"


def begun(folder: Path, columns: str) -> Path:
    """A results folder whose exp.csv was begun with these columns."""
    (folder / "out").mkdir()
    (folder / "out/fields.txt").write_text(columns)
    (folder / "out/exp.csv").write_text("exp\n1.0\n")
    return folder / "out"


def test_columns_that_a_results_folder_was_begun_with_go_before_those_of_netesto(folder):
    out = begun(folder, "exp:one\nsentRate:sum\n")
    assert fields_for(None, None, out).source == str(out / "fields.txt")


def test_columns_of_netesto_and_those_of_a_script_are_those_of_netesto(folder):
    out = begun(folder, paths.fields_file().read_text() + "cable:one\n")
    assert are_ours(fields_for(None, None, out))


def test_file_in_the_working_folder_goes_before_that_of_a_results_folder(folder):
    (folder / "fields.txt").write_text("exp:one\n")
    out = begun(folder, "exp:one\nsentRate:sum\n")
    assert fields_for(None, None, out).source == "fields.txt"


def test_dry_run_says_which_file_it_is_and_what_it_lacks(folder, capsys):
    (folder / "my.txt").write_text("exp:one\nbw:one\n")
    (folder / "a.nts").write_text(LACKING)
    status = cli.main(["run", "-n", "--fields", "my.txt", "a.nts"])
    assert (status, capsys.readouterr().err.splitlines()) == (
        0,
        [
            "columns of exp.csv: my.txt",
            "warning: a.nts:1: my.txt has no column cable: exp.csv has it as the last",
        ],
    )


def test_check_warns_of_a_key_of_other_without_a_column_with_its_place(folder, capsys):
    (folder / "fields.txt").write_text("exp:one\nbw:one\n")
    (folder / "a.nts").write_text(LACKING)
    status = cli.main(["check", "a.nts"])
    assert (status, capsys.readouterr().err.splitlines()[:3]) == (
        0,
        [
            "a.nts:1:13: warning: fields.txt has no column cable: exp.csv has it as the last",
            "    OTHER bw=10,cable=copper",
            "                ^^^^^",
        ],
    )


@pytest.mark.parametrize("command", [["check"], ["run", "-n"]])
@pytest.mark.parametrize(
    ("factor", "warned"),
    [
        ("cable", False),
        ("mtus", "; did you mean mtu?"),
        # Like `lost`, which is measured: no factor can be meant for it.
        ("loss", False),
    ],
)
def test_factor_without_a_column_is_reported_if_it_is_like_one_that_a_script_may_fill(
    folder, capsys, command, factor, warned
):
    (folder / "a.nts").write_text(
        f"SWEEP {factor}=1,2 DO\nDO_SERVER host=a exp=COUNTER\nPROCESS_EXP\nDONE\n"
    )
    status = cli.main([*command, "a.nts"])
    said = f"has no column {factor}: exp.csv has it as the last"
    told = [
        line.partition(said)[2] for line in capsys.readouterr().err.splitlines() if said in line
    ]
    assert (status, told) == (0, [warned] if warned else [])


@pytest.mark.parametrize("command", [["check"], ["run", "-n"]])
def test_factor_with_a_column_is_not_reported(folder, capsys, command):
    (folder / "a.nts").write_text(
        "SWEEP mtu=1500,9000 parallel=1,2 DO\n"
        "DO_SERVER host=a exp=COUNTER expName=$mtu/$parallel\nPROCESS_EXP\nDONE\n"
    )
    status = cli.main([*command, "a.nts"])
    assert (status, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("command", [["check"], ["run", "-n"], ["run"]])
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("SWEEP rtt=1,2 DO\n    DO_SERVER host=a\n    PROCESS_EXP\nDONE\n", "a.nts:1:7: "),
        ("LAB pair\nOTHER bw=1,rx_frames=2\n", "a.nts:2:12: "),
        ("DO_SERVER host=a\nPROCESS_EXP\nASSERT raet > 1\n", "a.nts:3:8: "),
        ("DO_SERVER host=a\nPROCESS_EXP\nASSERT rate > 1mbitt\n", "a.nts:3:15: "),
        ("DO_SERVER host=a\nPROCESS_EXP\nASSERT status > 1\n", "a.nts:3:15: "),
        ("DO_SERVER host=a\nPROCESS_EXP\nASSERT rate == fast\n", "a.nts:3:16: "),
        ("DO_SERVER host=a\nPROCESS_EXP\nASSERT 2 * ca > 1\n", "a.nts:3:12: "),
        ("DO_SERVER host=a\nPROCESS_EXP\nASSERT rate > 1/0\n", "a.nts:3:"),
        ("DO_SERVER host=a\nPROCESS_EXP\nASSERT rate > 1 OR mean(rate) > 2\n", "a.nts:3:20: "),
    ],
)
def test_mistake_about_columns_is_reported_with_its_place_before_anything_runs(
    folder, capsys, command, script, said
):
    (folder / "a.nts").write_text(script)
    status = cli.main([*command, "a.nts"])
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith(said)]
    assert (status, len(told), (folder / "results").exists()) == (2, 1, False)


@pytest.mark.parametrize("command", [["check"], ["run", "-n"]])
@pytest.mark.parametrize(
    "claim",
    [
        "rate > 90mbit",
        "ca == cubic",
        'status == "ok"',
        "bw == 10 OR bw == ten",
        "cable == copper AND fairness > 0.9",
        "client-tx-packets > 10 AND retransPkts% < 1",
        "max(rateMin, 1) / rateMax > 0.8",
        "NOT rate < 5",
    ],
)
def test_sound_claim_passes_also_of_what_a_chosen_file_leaves_out(folder, capsys, command, claim):
    (folder / "fields.txt").write_text("exp:one\nbw:one\ncable:one\n")
    (folder / "a.nts").write_text(f"{LACKING}ASSERT {claim}\n")
    assert (cli.main([*command, "a.nts"]), "ASSERT" in capsys.readouterr().err) == (0, False)


def test_name_that_is_none_for_a_column_is_refused_with_its_place(folder, capsys):
    (folder / "a.nts").write_text("OTHER bw=10,a:b=1\n")
    status = cli.main(["check", "a.nts"])
    assert (status, capsys.readouterr().err.splitlines()[0]) == (
        2,
        "a.nts:1:13: error: OTHER: invalid column name 'a:b'",
    )
