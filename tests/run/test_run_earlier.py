"""The parts that `--resume` skips, and the script's claims about them."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from watched import Watched

from netesto.grounds import LAB
from netesto.language.plan import Plan, SourceFile
from netesto.results import fields, manifest
from netesto.results.runs import RunRecord
from netesto.results.store import Store
from netesto.run import earlier
from netesto.run.earlier import Passed
from netesto.run.request import RunRequest
from netesto.run.session import RunSession, script_name
from netesto.run.settings import RunSettings
from results import samples

RAW = "raw/h1/ping.1.out"
SETTINGS = RunSettings(libraries=(), definitions={}, max_iterations=1000, seed=1)
RUN = RunRecord(name="r", argv=(), script_path="a.nts", script="", seed=1, started="")
FIELDS = fields.parse("exp:one\nrate:sum\nca:all\n", source="fields.txt")
ONE = """\
SET exp=COUNTER
DO_CLIENT host=a server=b exp=$exp ca=$ca test=TCP_STREAM dur=24
PROCESS_EXP
"""
SWEEP = f"SWEEP ca=cubic,bbr DO\n{ONE}DONE\n"
CUBIC = '"cell": {"ca": "cubic", "rep": "1"}'


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "out") as opened:
        opened.take_fields(FIELDS)
        yield opened


def planned(text: str) -> Plan:
    return SETTINGS.plan(SourceFile("a.nts", text), FIELDS)


def measure(store: Store, exp: int, *, rate: str = "94.1") -> None:
    """An experiment with one flow of cubic, for 24 s."""
    evidence = samples.experiment(samples.lively_group(samples.request()))
    folder = store.begin(exp)
    (folder / RAW).parent.mkdir(parents=True)
    (folder / RAW).write_text("[]")
    digest = hashlib.sha256(b"[]").hexdigest()
    told = samples.manifest(evidence, exp=exp, files={RAW: digest})
    manifest.write(told, folder / manifest.NAME)
    store.complete(exp)
    store.append([{"exp": f"{exp}.0", "rate": rate, "ca": "cubic"}])


def finish(store: Store, plan: Plan, index: int, exp: int, *, rate: str = "94.1") -> None:
    """Record that a part of a plan has succeeded."""
    measure(store, exp, rate=rate)
    part = plan.part(index)
    store.note_cell("a", part.cell, [exp], part_hash=part.hash)


def passed_over(
    store: Store,
    plan: Plan,
    *,
    nested: bool = True,
    columns: fields.Fields = FIELDS,
    kernel_hash: str = "",
) -> tuple[Passed, list[str]]:
    """The skipped parts, and the messages about them."""
    watched = Watched()
    session = replace(session_of(store, plan), fields=columns, watcher=watched)
    session = replace(session, kernel_hash=kernel_hash)
    return earlier.pass_over(session, store, nested=nested), watched.said


def session_of(store: Store, plan: Plan) -> RunSession:
    """A run with --resume."""
    return RunSession(
        request=RunRequest(script="a.nts", settings=SETTINGS, resume=True),
        plan=plan,
        record=RUN,
        fields=FIELDS,
        ground=LAB,
        out=store.folder,
        watcher=Watched(),
    )


def test_a_finished_cell_is_passed_over_and_said_so(store):
    finish(store, planned(SWEEP), 1, 1)
    assert passed_over(store, planned(SWEEP)) == (
        Passed({1: (1,)}),
        ["skipped ca=bbr rep=1: finished by an earlier run"],
    )


def test_several_cells_that_are_passed_over_are_one_line(store):
    finish(store, planned(SWEEP), 0, 1)
    finish(store, planned(SWEEP), 1, 2)
    assert passed_over(store, planned(SWEEP))[1] == [
        "skipped 2 cells, ca=cubic rep=1 … ca=bbr rep=1: finished by an earlier run"
    ]


def test_a_changed_comment_changes_nothing(store):
    finish(store, planned(SWEEP), 1, 1)
    changed = SWEEP.replace("PROCESS_EXP", "PROCESS_EXP  # now")
    assert passed_over(store, planned(changed))[0] == Passed({1: (1,)})


def test_a_changed_cell_is_run_again(store):
    finish(store, planned(SWEEP), 1, 1)
    warning = (
        "warning: run again: ca=bbr rep=1: the script, a library, the LAB, the seed, the columns"
        " of fields.txt, the kernel or memory of a guest, or the version of netesto has changed."
        " Their earlier experiments stay in exp.csv, and count as repetitions"
    )
    again = passed_over(store, planned(SWEEP.replace("dur=24", "dur=60")))
    assert again == (Passed(), [warning])


def test_cells_that_were_never_tried_come_first(store):
    plan = planned(SWEEP)
    cubic, bbr = plan.head.parts
    store.note_try("a", cubic.cell, part_hash=cubic.hash)
    assert passed_over(store, plan) == (Passed(), [])
    session = session_of(store, plan)
    assert earlier.untried_first(session, store, plan.outer) == [bbr, cubic]
    fresh = replace(session, request=replace(session.request, resume=False))
    assert earlier.untried_first(fresh, store, plan.outer) == [cubic, bbr]


def test_a_cell_that_another_kernel_has_measured_is_run_again(store):
    finish(store, planned(SWEEP), 1, 1)
    passed, [warning] = passed_over(store, planned(SWEEP), kernel_hash="another")
    assert (passed, "run again: ca=bbr rep=1: " in warning) == (Passed(), True)


def test_a_cell_of_the_same_name_that_was_never_finished_has_not_changed(store):
    """A SWEEP in a loop, interrupted in its second turn."""
    plan = planned(f"FOR turn IN 1,2 DO\n{SWEEP}DONE\n")
    finish(store, plan, 0, 1)
    assert passed_over(store, plan) == (
        Passed({0: (1,)}),
        ["skipped ca=cubic rep=1: finished by an earlier run"],
    )


def test_a_changed_cell_is_reported_beside_a_finished_one_of_the_same_name(store):
    """Of two SWEEPs, the second has changed."""
    plan = planned(SWEEP + SWEEP)
    finish(store, plan, 0, 1)
    finish(store, plan, 2, 2)
    found, said = passed_over(store, planned(SWEEP + SWEEP.replace("dur=24", "dur=60")))
    assert (found, [text.partition(": the script")[0] for text in said]) == (
        Passed({0: (1,)}),
        [
            "warning: run again: ca=cubic rep=1",
            "skipped ca=cubic rep=1: finished by an earlier run",
        ],
    )


@pytest.mark.parametrize(("nested", "parts"), [(True, {1: (1,)}), (False, {})])
def test_a_cell_within_another_that_was_not_finished(store, nested, parts):
    plan = planned(f"SWEEP outer=1 DO\n{SWEEP}DONE\n")
    finish(store, plan, 1, 1)
    assert passed_over(store, plan, nested=nested)[0].parts == parts


def test_a_cell_within_one_that_is_passed_over_belongs_to_that(store):
    plan = planned(f"SWEEP outer=1 DO\n{SWEEP}DONE\n")
    finish(store, plan, 0, 1)
    finish(store, plan, 1, 2)
    assert passed_over(store, plan)[0].parts == {0: (1,)}


@pytest.mark.parametrize(("before", "line"), [("PROCESS_EXP\n", 5), ("DONE\n", 6)])
def test_a_false_claim_is_judged_on_what_was_measured(store, before, line):
    """In the cell, or behind it about its last experiment."""
    cell = SWEEP.replace("ca=cubic,bbr", "ca=cubic")
    plan = planned(cell.replace(before, f"{before}ASSERT ca == bbr: no\n"))
    finish(store, plan, 0, 7)
    failure = (
        f"ca=cubic rep=1, of an earlier run: a.nts:{line}: experiment 7: no: ca == bbr, but ca is"
        " cubic"
    )
    found, said = passed_over(store, plan)
    assert (found.failures, said[-1]) == ((failure,), f"warning: assertion failed: {failure}")


UNTIL = SWEEP.replace("cubic,bbr", "cubic reps=3..5 until=rate:2%")


@pytest.mark.parametrize(
    ("rates", "needed"),
    [
        (["94", "94.1"], [True, None, None]),
        (["94", "94.1", "93.9"], [False, False]),
        (["94", "104", "84"], [True, None]),
    ],
)
def test_what_an_earlier_run_measured_decides_which_repetitions_are_needed(store, rates, needed):
    plan = planned(UNTIL)
    for index, rate in enumerate(rates):
        finish(store, plan, index, index + 1, rate=rate)
    session = session_of(store, plan)
    passed = earlier.pass_over(session, store, nested=True)
    rounds = earlier.rounds_of(session, store, passed)
    left = [part for part in plan.outer if part.index not in passed.parts]
    assert [rounds.needs(part) for part in left] == needed


def test_a_claim_about_a_cell_that_is_run_is_not_judged(store):
    plan = planned(SWEEP.replace("PROCESS_EXP\n", "PROCESS_EXP\nASSERT ca == nothing\n"))
    finish(store, plan, 1, 1)
    [failure] = passed_over(store, plan)[0].failures
    start = "ca=bbr rep=1, of an earlier run: a.nts:5: experiment 1: ca == nothing"
    assert failure.startswith(start)


def test_a_column_that_the_table_lacks_comes_from_the_experiments_own_files(store):
    plan = planned(SWEEP.replace("PROCESS_EXP\n", "PROCESS_EXP\nASSERT flowsFailed < 0\n"))
    finish(store, plan, 0, 1)
    columns = fields.parse("exp:one\nflowsFailed:sum\n", source="fields.txt")
    [failure] = passed_over(store, plan, columns=columns)[0].failures
    assert "flowsFailed < 0, but flowsFailed is" in failure


def test_a_cell_that_was_noted_without_a_hash_is_run_again_and_reported(store):
    measure(store, 1)
    entry = f'{{{CUBIC}, "experiments": [1], "script": "a"}}\n'
    (store.folder / "cells.jsonl").write_text(entry)
    found, [said] = passed_over(store, planned(SWEEP))
    assert (found, said.partition(": the script")[0]) == (
        Passed(),
        "warning: run again: ca=cubic rep=1",
    )


# ---- what became of experiments ------------------------------------------------------------------


def test_a_cell_whose_raw_data_are_damaged_is_run_again_and_reported(store):
    finish(store, planned(SWEEP), 1, 1)
    path = store.whole(1) / RAW
    path.write_text("[")
    fault = f"{path}: is damaged (its SHA-256 differs)"
    assert passed_over(store, planned(SWEEP)) == (
        Passed(),
        [f"warning: ca=bbr rep=1 is run again: experiment 1 is damaged ({fault})"],
    )


def test_a_cell_whose_manifest_is_gone_is_run_again_and_reported(store):
    finish(store, planned(SWEEP), 1, 1)
    (store.whole(1) / manifest.NAME).unlink()
    found, [said] = passed_over(store, planned(SWEEP))
    start = "warning: ca=bbr rep=1 is run again: experiment 1 is damaged ("
    assert (found, said[: len(start)]) == (Passed(), start)


def test_a_cell_whose_experiment_is_gone_is_run_again_and_reported(store):
    finish(store, planned(SWEEP), 1, 1)
    shutil.rmtree(store.whole(1))
    assert passed_over(store, planned(SWEEP)) == (
        Passed(),
        ["warning: ca=bbr rep=1 is run again: experiment 1 is missing"],
    )


@pytest.mark.parametrize("script", ["..", "/", ".", "a/..", ""])
def test_a_plan_of_a_script_without_a_name_has_results_of_its_own(script):
    assert script_name(script) == "plan"


def test_without_a_sweep_nothing_can_be_passed_over(store):
    warning = "--resume skips finished cells of a SWEEP; this script has none, and all of it runs"
    script = f"BEGIN one\nSET ca=cubic\n{ONE}END one\nRUN one,3\n"
    assert passed_over(store, planned(script)) == (Passed(), [f"warning: {warning}"])
