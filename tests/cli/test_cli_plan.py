"""`netesto plan`, and `netesto run` of a plan."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from netesto import cli
from netesto.language import plan

SCRIPT = """\
LAB pair rate=10mbit
DEFAULT dur=5
DO_CLIENT host=a server=b exp=COUNTER ca=cubic dur=$dur test=TCP_RR
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
    made = json.loads((here / "plan.json").read_text())
    steps = [step["step"] for step in made["steps"]]
    assert (status, made["head"]["seed"], steps) == (
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


def test_warnings_name_the_numbers_of_the_results_folder(here, capsys):
    (here / "a.nts").write_text(SCRIPT.replace("PROCESS_EXP\n", "OTHER beside=1\n"))
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    as_planned = capsys.readouterr().err
    (here / "counter").write_text("8\n")
    cli.main(["run", "-n", "--out", ".", "plan.json"])
    assert "experiment 1 has no PROCESS_EXP" in as_planned
    assert capsys.readouterr().err == as_planned.replace("experiment 1 ", "experiment 9 ")


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
    "words",
    [
        ("-D", "dur=9"),
        ("--seed", "3"),
        ("--lib", "."),
        ("--lab", "pair"),
        ("--max-iterations", "5"),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_what_a_plan_has_decided_is_refused(command, words, capsys):
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    status = cli.main([command, *words, "plan.json"])
    told = (
        f"netesto: plan.json is a plan: {words[0]} has no effect on it\n"
        f"Make another plan: netesto plan {words[0]} … SCRIPT -o plan.json\n"
    )
    assert (status, capsys.readouterr().err) == (2, told)


def test_a_plan_that_was_changed_is_refused(here, capsys):
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    text = (here / "plan.json").read_text()
    (here / "plan.json").write_text(text.replace('"cubic"', '"reno"'))
    status = cli.main(["run", "-n", "plan.json"])
    assert (status, "was modified" in capsys.readouterr().err) == (2, True)


def test_a_script_that_is_wrong_makes_no_plan(here, capsys):
    (here / "a.nts").write_text("DO_CLIENT\n")
    status = cli.main(["plan", "a.nts", "-o", "plan.json"])
    assert (status, capsys.readouterr().err[:8], (here / "plan.json").exists()) == (
        2,
        "a.nts:1:",
        False,
    )


def test_a_link_to_a_plan_stays_a_link(here):
    (here / "link.json").symlink_to("plan.json")
    cli.main(["plan", "a.nts", "-o", "link.json"])
    assert ((here / "link.json").is_symlink(), plan.is_plan(here / "plan.json")) == (True, True)


def test_a_pipe_gets_the_plan_and_stays_a_pipe(here):
    os.mkfifo(here / "pipe")
    reader = os.open(here / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = cli.main(["plan", "a.nts", "-o", "pipe"])
        begin = os.read(reader, len(plan.BEGINNING))
    finally:
        os.close(reader)
    assert (status, begin, (here / "pipe").is_fifo()) == (0, plan.BEGINNING, True)


def test_a_dash_is_standard_output(here, capfdbinary):
    status = cli.main(["plan", "a.nts", "-o", "-"])
    found = (status, json.loads(capfdbinary.readouterr().out)["head"]["script"])
    assert (found, (here / "-").exists()) == ((0, "a.nts"), False)


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_a_plan_is_no_script(command, capsys):
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    status = cli.main([command, "plan.json"])
    assert (status, "this is a plan, not a script" in capsys.readouterr().err) == (2, True)


def test_a_plan_in_a_pipe_is_refused(here, capsys, monkeypatch):
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    # A file of this name is not standard input.
    (here / "-").write_bytes((here / "plan.json").read_bytes())
    with (here / "plan.json").open() as script:
        monkeypatch.setattr("sys.stdin", script)
        status = cli.main(["run", "-n", "-"])
    told = (
        "<standard input>:1:1: this is a plan, not a script\n"
        "Only 'netesto run' takes a plan, as a file: netesto run plan.json\n"
    )
    assert (status, capsys.readouterr().err) == (2, told)


def test_a_part_of_a_plan_is_not_run_alone(here, capsys):
    (here / "a.nts").write_text(f"SET x=1\n{SCRIPT}")
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    whole = plan.read(here / "plan.json")
    assert whole.head.rest is not None
    with (here / "part.json").open("wb") as file:
        whole.slice(whole.head.rest).write(file)
    status = cli.main(["run", "-n", "part.json"])
    told = (
        "netesto: part.json: a part of a plan, which runs only within the run that made it\n"
        "The plan of the whole run is in its results folder: runs/RUN.plan.gz\n"
    )
    assert (status, capsys.readouterr().err) == (2, told)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SWEEP x=1,2", "SWEEP x=1,3", "the plan has other cells and repetitions than its script"),
        ("SET y=1", "SOURCE b", "SOURCE b: the plan does not have this file"),
    ],
)
def test_a_plan_and_its_script_agree(here, capsys, old, new, message):
    """Else its experiments cannot have other numbers."""
    (here / "a.nts").write_text("SET y=1\nSWEEP x=1,2 DO\nWAIT 1\nDONE\n")
    cli.main(["plan", "a.nts", "-o", "plan.json"])
    made = plan.read(here / "plan.json")
    [source] = made.head.sources
    source = replace(source, text=source.text.replace(old, new))
    made.head = replace(made.head, sources=(source,), counter=5)
    with (here / "plan.json").open("wb") as file:
        made.write(file)
    status = cli.main(["run", "-n", "plan.json"])
    assert (status, message in capsys.readouterr().err) == (2, True)
