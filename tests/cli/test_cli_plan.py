"""`netesto plan`, and what `netesto run` makes of a plan."""

import json
from pathlib import Path

import pytest

from netesto import cli

SCRIPT = """\
LAB pair rate=10mbit
DEFAULT dur=5
DO_CLIENT host=a server=b exp=COUNTER ca=cubic dur=$dur
PROCESS_EXP
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    """A folder with a script, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.nts").write_text(SCRIPT)
    return tmp_path


def test_a_plan_is_one_json_document(here):
    status = cli.main(["plan", "--seed", "7", "a.nts", "-o", "plan.json"])
    plan = json.loads((here / "plan.json").read_text())
    steps = [step["step"] for step in plan["steps"]]
    assert (status, plan["head"]["seed"], steps) == (
        0,
        7,
        ["DoClient", "ProcessExperiment"],
    )


def test_a_plan_goes_to_standard_output_without_a_name(capfdbinary):
    status = cli.main(["plan", "a.nts"])
    assert (status, json.loads(capfdbinary.readouterr().out)["head"]["script"]) == (0, "a.nts")


def test_a_plan_is_shown_as_its_script_is(capsys):
    cli.main(["run", "-n", "a.nts"])
    of_script = capsys.readouterr()
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    cli.main(["run", "-n", "plan.json"])
    assert capsys.readouterr() == of_script


def test_numbers_of_experiments_are_those_of_the_results_folder(here, capsys):
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    (here / "out").mkdir()
    (here / "out" / "counter").write_text("8\n")
    cli.main(["run", "-n", "--out", "out", "plan.json"])
    assert "PROCESS_EXP exp=9 " in capsys.readouterr().out


def test_a_plan_knows_its_sources(here, capsys):
    """They may be gone when experiments get other numbers."""
    (here / "lib.nts").write_text(SCRIPT)
    (here / "a.nts").write_text("SOURCE lib.nts\n")
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    (here / "lib.nts").unlink()
    (here / "counter").write_text("1\n")
    status = cli.main(["run", "-n", "--out", ".", "plan.json"])
    assert (status, "PROCESS_EXP exp=2 " in capsys.readouterr().out) == (0, True)


@pytest.mark.parametrize(
    "words", [("-D", "dur=9"), ("--seed", "3"), ("--lib", "."), ("--lab", "pair")]
)
def test_what_a_plan_has_decided_is_refused(words, capsys):
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    status = cli.main(["run", *words, "plan.json"])
    told = (
        f"netesto: {words[0]}: plan.json is a plan, which has decided that\n"
        f"Make another plan: netesto plan {words[0]} … SCRIPT -o plan.json\n"
    )
    assert (status, capsys.readouterr().err) == (2, told)


def test_a_plan_that_was_changed_is_refused(here, capsys):
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    text = (here / "plan.json").read_text()
    (here / "plan.json").write_text(text.replace('"cubic"', '"reno"'))
    status = cli.main(["run", "-n", "plan.json"])
    assert (status, "was changed" in capsys.readouterr().err) == (2, True)


def test_a_script_that_is_wrong_makes_no_plan(here, capsys):
    (here / "a.nts").write_text("DO_CLIENT\n")
    status = cli.main(["plan", "a.nts", "-o", "plan.json"])
    assert (status, capsys.readouterr().err[:8], (here / "plan.json").exists()) == (
        2,
        "a.nts:1:",
        False,
    )
