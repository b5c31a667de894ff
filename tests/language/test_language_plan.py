"""A script as a plan: its steps, its parts, and the hashes of what decides their results."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from language_plans import ONE, SWEEP, in_words, planned

from netesto.errors import Place, ScriptError
from netesto.files.paths import fields_file
from netesto.language.plan import Part, SourceFile, Until, read
from netesto.language.planner import again, renumbered
from netesto.language.steps import Configure, DoClient, LabRequest, RemoteCommand, Step, Wait
from netesto.results.fields import load
from netesto.run.settings import column_knowledge

NOWHERE = Place("--lab", 1)


def hashes(text: str, **options: Any) -> list[str]:
    return [part.hash for part in planned(text, **options).head.parts]


# ---- steps and parts -----------------------------------------------------------------------------


def test_a_plan_has_the_steps_of_the_script_in_order():
    text = f"{ONE}WAIT 3\nSET_NETEM host=a netem_delay=5\n{SWEEP}ASSERT rate > 9: slow\nECHO end\n"
    assert in_words(planned(text, counter=4).steps()) == [
        "wait 3",
        "SET_NETEM a exp=0",
        "enter 0",
        "DO_CLIENT a exp=5",
        "flows 5",
        "process 5",
        "leave 0",
        "enter 1",
        "DO_CLIENT a exp=6",
        "flows 6",
        "process 6",
        "leave 1",
        "claim 6: rate > 9",
        "echo end",
    ]


def test_every_cell_of_a_sweep_is_a_part():
    found = [
        replace(part, seconds=0.0, simulated_s=0.0, hash="")
        for part in planned(
            ONE + SWEEP.replace("RUN one", "RUN one\nRUN one"), counter=5
        ).head.parts
    ]
    same: dict[str, Any] = {"numbers": 2, "hash": "", "seconds": 0.0, "simulated_s": 0.0}
    assert found == [
        Part(
            index=0,
            name="ca=reno rep=1",
            cell={"ca": "reno", "rep": "1"},
            before=5,
            ranges=((0, 8),),
            **same,
        ),
        Part(
            index=1,
            name="ca=bbr rep=1",
            cell={"ca": "bbr", "rep": "1"},
            before=7,
            ranges=((8, 16),),
            **same,
        ),
    ]


def test_a_part_takes_its_share_of_the_whole():
    head = planned(ONE + SWEEP).head
    assert [part.seconds for part in head.parts] == pytest.approx([head.totals.seconds / 2] * 2)


def test_every_repetition_of_a_macro_is_a_part():
    parts = planned(f"{ONE}RUN one,2 ca=reno\n").head.parts
    assert [(part.name, part.before) for part in parts] == [("one rep=1", 0), ("one rep=2", 1)]


def test_a_repetition_within_a_part_belongs_to_it():
    parts = planned(f"{ONE}SWEEP ca=reno,bbr DO\nRUN one,3\nDONE\n").head.parts
    assert [(part.name, part.numbers) for part in parts] == [
        ("ca=reno rep=1", 3),
        ("ca=bbr rep=1", 3),
    ]


def test_a_cell_within_a_part_is_listed_within_it():
    plan = planned(f"{ONE}SWEEP n=1 DO\n{SWEEP}DONE\n")
    assert ([(part.name, part.within) for part in plan.head.parts], len(plan.outer)) == (
        [("n=1 rep=1", None), ("n=1 rep=1 ca=reno rep2=1", 0), ("n=1 rep=1 ca=bbr rep2=1", 0)],
        1,
    )


def test_parts_of_one_name_are_told_apart():
    parts = planned(f"{ONE}SET ca=reno\nFOR n IN 1..2 DO\nRUN one,2\nDONE\n").head.parts
    assert [part.name for part in parts] == [
        "one rep=1",
        "one rep=2",
        "one rep=1 #2",
        "one rep=2 #2",
    ]


def test_a_plan_knows_what_belongs_to_no_part():
    text = f"{ONE}ECHO begin\nRUN one ca=reno\nRUN one,2 ca=bbr\nRUN one ca=nv\n"
    plan = planned(text)
    assert plan.head.rest is not None
    assert (in_words(plan.slice(plan.head.rest).steps()), plan.head.echoes) == (
        [
            "DO_CLIENT a exp=1",
            "flows 1",
            "process 1",
            "DO_CLIENT a exp=4",
            "flows 4",
            "process 4",
        ],
        ("begin",),
    )


def test_a_plan_without_experiments_outside_of_parts_has_no_rest():
    assert planned(f"ECHO a\n{ONE}{SWEEP}").head.rest is None


def test_a_part_without_an_experiment_is_idle():
    head = planned(f"{ONE}SWEEP ca=reno,bbr DO\nECHO $ca\nIF $ca == bbr: RUN one\nDONE\n").head
    assert ([part.is_idle for part in head.parts], head.echoes) == ([True, False], ("reno",))


def test_an_experiment_of_two_parts_entangles_them():
    text = "DO_CLIENT host=a server=b exp=7\nSWEEP ca=reno DO\nPROCESS_EXP exp=7\nDONE\n"
    assert planned(text).head.entangled == 7


def test_a_part_breaks_off_where_the_script_ends():
    assert in_words(planned("SWEEP ca=reno,bbr DO\nEND\nDONE\n").steps()) == [
        "enter 0",
        "leave 0 broken off",
    ]


# ---- one part alone ------------------------------------------------------------------------------


def alone(text: str, index: int, **options: Any) -> list[str]:
    plan = planned(text, **options)
    return in_words(plan.slice(plan.head.parts[index]).steps())


def test_a_part_alone_has_its_own_steps():
    assert alone(f"{ONE}WAIT 9\n{SWEEP}", 1, counter=40) == [
        "enter 1",
        "DO_CLIENT a exp=42",
        "flows 42",
        "process 42",
        "leave 1",
    ]


def test_a_part_alone_has_the_values_that_the_others_left():
    text = "SET n=0\nSWEEP ca=reno,bbr,nv DO\nSET_EXP n=$n+1\nECHO $ca $n\nDONE\n"
    assert alone(text, 2) == ["enter 2", "echo nv 3", "leave 2"]


SETTINGS = """\
SET_SYSCTL host=a net.ipv4.tcp_ecn=1
SET_QDISC host=a qdisc=tbf rate=1mbit burst=9K limit=9K
SWEEP delay=10,20 DO
    SET_NETEM host=a netem_delay=$delay
    SET_SYSCTL host=a net.ipv4.tcp_ecn=2
    RUN one ca=reno
    SET_NETEM host=b netem_delay=$delay
DONE
"""


def test_a_part_alone_sets_hosts_as_they_were_before_it():
    plan = planned(ONE + SETTINGS)
    steps = list(plan.slice(plan.head.parts[1]).steps())[:3]
    assert [
        (step.name, step.host, step.arguments.get("netem_delay", "2"))
        for step in steps
        if isinstance(step, RemoteCommand)
    ] == [("SET_NETEM", "a", "10"), ("SET_SYSCTL", "a", "2"), ("SET_NETEM", "b", "10")]


def test_the_rest_alone_finds_hosts_as_parts_have_set_them():
    plan = planned(f"{ONE}{SETTINGS}RUN one ca=bbr\n")
    assert plan.head.rest is not None
    steps = [
        f"{step.host} {step.arguments['netem_delay']}"
        for step in plan.slice(plan.head.rest).steps()
        if isinstance(step, Configure) and step.name == "SET_NETEM"
    ]
    assert steps == ["a 10", "b 10", "a 20", "b 20"]


def test_what_changes_a_qdisc_step_by_step_is_kept_whole():
    text = (
        "SET_QDISC host=a qdisc=pfifo limit=9\n"
        "SET_QDISC host=a qdisc=tbf action=replace rate=1mbit burst=9K limit=9K\n"
    )
    assert alone(ONE + text + SWEEP, 1)[:3] == [
        "SET_QDISC a exp=0",
        "SET_QDISC a exp=0",
        "enter 1",
    ]


def test_what_every_cell_changes_alike_is_set_once_before_the_next():
    change = "SET_QDISC host=a qdisc=fq action=replace limit=$limit\n"
    text = (
        f"{ONE}SWEEP n=1..9 DO\nSET limit=10\n{change}SET limit=20\n{change}RUN one ca=reno\nDONE\n"
    )
    assert [step.split()[0] for step in alone(text, 8)] == [
        *["SET_QDISC", "SET_QDISC"],
        *["enter", "SET_QDISC", "SET_QDISC", "DO_CLIENT", "flows", "process", "leave"],
    ]


def test_qdiscs_that_are_added_and_deleted_are_set_step_by_step():
    text = "".join(
        f"SET_QDISC host=a qdisc=fq action={action}\n"
        for action in ("replace", "delete", "replace")
    )
    assert alone(ONE + text + SWEEP, 0)[:4] == [*["SET_QDISC a exp=0"] * 3, "enter 0"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SET_LINK host=a rate=10mbit", "SET_LINK host=a delay=20ms"),
        ("SET_LINK host=a to=b loss=0", "SET_LINK host=a to=b limit=50p"),
        ("SET_ROUTE host=a to=b initcwnd=20", "SET_ROUTE host=a to=b rto_min=50"),
    ],
)
def test_a_part_alone_has_what_a_later_setting_left_as_it_was(one: str, other: str):
    text = f"{ONE}{one}\n{other}\n{SWEEP}"
    name = one.split(maxsplit=1)[0]
    assert alone(text, 1)[:3] == [f"{name} a exp=0", f"{name} a exp=0", "enter 1"]


def test_of_the_same_limits_of_a_link_the_last_count():
    text = f"{ONE}SET_LINK host=a rate=1mbit\nSET_LINK host=a rate=2mbit\n{SWEEP}"
    assert alone(text, 1)[:2] == ["SET_LINK a exp=0", "enter 1"]


def test_of_equal_commands_of_a_part_the_first_of_the_longest_stands_for_all():
    """Line 2: 1 s; lines 3 and 4: 9 s."""
    flows = "".join(
        f"DO_CLIENT host=a server=b exp=1 group={number} dur={dur}\n"
        for number, dur in enumerate((1, 9, 9), start=1)
    )
    plan = planned(f"SWEEP ca=cubic DO\n{flows}PROCESS_EXP exp=1\nDONE\n")
    [part] = plan.outer
    each = (plan.head.commands, plan.slice(part).commands())
    assert [[command.place.line for command in found] for found in each] == [[3], [3]]


def test_a_claim_behind_the_parts_goes_with_the_last_one():
    text = f"{ONE}{SWEEP}ASSERT rate > 9\nRUN one ca=nv\nASSERT rate > 8\n"
    assert [
        [step for step in alone(text, index) if step.startswith("claim")] for index in (0, 1)
    ] == [[], ["claim 2: rate > 9"]]


def test_a_part_alone_has_the_commands_of_no_other():
    text = "SWEEP server=b,c DO\nDO_CLIENT host=a server=$server exp=COUNTER\nPROCESS_EXP\nDONE\n"
    plan = planned(text)
    alone = [plan.slice(part).commands() for part in plan.outer]
    assert [[command.hosts for command in each] for each in (plan.commands(), *alone)] == [
        [("a", "b"), ("a", "c")],
        [("a", "b")],
        [("a", "c")],
    ]


def test_slices_together_are_the_plan():
    plan = planned(f"{ONE}RUN one ca=nv\n{SWEEP}RUN one ca=nv\n")
    assert plan.head.rest is not None
    slices = [plan.slice(part) for part in (plan.head.rest, *plan.outer)]
    together = [step for each in slices for step in in_words(each.steps())]
    assert sorted(together) == sorted(in_words(plan.steps()))


# ---- hashes --------------------------------------------------------------------------------------

HASHED = f"LAB pair rate=10mbit\n{ONE}SET_NETEM host=a netem_delay=5\n{SWEEP}"


@pytest.mark.parametrize(
    "same",
    [
        f"# why\n\n{HASHED}",
        HASHED.replace("$dur", "10s"),
        HASHED.replace("host=a server=b exp=$exp", "server=b host=a exp=$exp"),
        HASHED.replace("one", "two"),
        HASHED.replace("WAIT_FLOWS", "ECHO wait\nWAIT_FLOWS"),
        HASHED.replace("PROCESS_EXP exp=$exp", "PROCESS_EXP\nASSERT rate > 9"),
        HASHED.replace("SWEEP", "RUN one ca=nv\nSWEEP"),
    ],
)
def test_what_decides_no_result_leaves_the_hash(same: str):
    assert hashes(same) == hashes(HASHED)


def test_the_number_of_the_first_experiment_leaves_the_hash():
    text = HASHED.replace("RUN one", "RUN one\nNEXT_COUNTER\nRUN one")
    assert hashes(text, counter=7) == hashes(text)


@pytest.mark.parametrize(
    "changed",
    [
        HASHED.replace("10mbit", "20mbit"),
        HASHED.replace("dur=10", "dur=11"),
        HASHED.replace("netem_delay=5", "netem_delay=6"),
        HASHED.replace("WAIT_FLOWS", "WAIT 3\nWAIT_FLOWS"),
        HASHED.replace("WAIT_FLOWS", "DESC why\nWAIT_FLOWS"),
        HASHED.replace("SWEEP ca", "SWEEP n=1 ca"),
    ],
)
def test_what_decides_results_changes_the_hash_of_every_part(changed: str):
    assert set(hashes(changed)).isdisjoint(hashes(HASHED))


def test_a_changed_cell_leaves_the_hashes_of_the_others():
    changed = hashes(HASHED.replace("RUN one", "IF $ca == bbr: WAIT 1\nRUN one"))
    assert [old == new for old, new in zip(hashes(HASHED), changed, strict=True)] == [True, False]


def test_a_cell_that_changes_a_link_changes_the_hashes_of_all_since_it_can_change_in_every_cell():
    changing = HASHED.replace("RUN one", "IF $ca == bbr: SET_LINK host=a to=b rate=1mbit\nRUN one")
    assert set(hashes(changing)).isdisjoint(hashes(HASHED))


def test_a_cell_that_protects_a_link_changes_the_hashes_of_all_since_a_program_carries_it_then():
    protect = "IF $ca == bbr: SET_LINK host=a to=b protect=ordered"
    protecting = HASHED.replace("RUN one", f"{protect}\nRUN one")
    assert set(hashes(protecting)).isdisjoint(hashes(HASHED))


def test_another_value_of_a_factor_leaves_the_hashes_of_the_others():
    assert hashes(HASHED.replace("reno,bbr", "reno,nv,bbr"))[::2] == hashes(HASHED)


def test_another_memory_of_guests_is_in_the_plan_and_changes_the_hash():
    larger = planned(HASHED, memory_mb=lambda _: 2048)
    assert larger.head.memory_mb == 2048
    assert {part.hash for part in larger.head.parts}.isdisjoint(hashes(HASHED))


def test_another_seed_changes_the_hash():
    assert set(hashes(HASHED, seed=2)).isdisjoint(hashes(HASHED))


def test_the_text_of_a_lab_file_counts_and_not_its_name():
    def with_file(name: str, text: str) -> list[str]:
        lab = HASHED.replace("pair rate=10mbit", f"file={name}")
        return hashes(lab, lab_text=lambda _: text)

    first = with_file("a.toml", "x")
    assert (with_file("b.toml", "x") == first, with_file("a.toml", "y") == first) == (True, False)


# ---- parts that are skipped ------------------------------------------------------------------


def test_parts_that_are_passed_over_take_no_numbers():
    text = f"{ONE}SWEEP ca=reno,bbr,nv DO\nRUN one\nDONE\n"
    parts = renumbered(planned(text), counter=3, passed=[1]).head.parts
    assert [part.before for part in (parts[0], parts[2])] == [3, 4]


def test_parts_that_are_passed_over_keep_their_hashes():
    parts = renumbered(planned(HASHED), counter=0, passed=[0]).head.parts
    assert [part.hash for part in parts] == hashes(HASHED)


# ---- sources -------------------------------------------------------------------------------------


def test_a_plan_keeps_what_it_was_made_from(tmp_path: Path):
    (tmp_path / "more").write_text("SET x=1\n")
    plan = planned("SOURCE more\n", library_path=[tmp_path])
    assert (plan.head.sources, plan.head.resolved) == (
        (
            SourceFile("test.nts", "SOURCE more\n"),
            SourceFile(f"{tmp_path}/more", "SET x=1\n"),
        ),
        (("test.nts", "more", f"{tmp_path}/more"),),
    )


# ---- made again from what a plan keeps -----------------------------------------------------------

RANDOM = "SOURCE more\nSWEEP ca=reno,bbr DO\nRAND_WAIT 5\nRUN one\nDONE\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "more").write_text(ONE)
    return tmp_path


def test_a_plan_with_other_numbers_needs_no_files(library: Path):
    plan = planned(RANDOM, library_path=[library])
    expected = planned(RANDOM, library_path=[library], counter=30)
    (library / "more").unlink()
    other = renumbered(plan, counter=30)
    assert (other.head, list(other.steps())) == (expected.head, list(expected.steps()))


def test_a_plan_with_other_numbers_keeps_the_lab_and_the_hashes():
    plan = planned(HASHED, lab=LabRequest(topology="pair", settings={}, place=NOWHERE))
    head = renumbered(plan, counter=30).head
    assert (head.lab, [part.hash for part in head.parts]) == (
        plan.head.lab,
        [part.hash for part in plan.head.parts],
    )


def test_parts_of_a_plan_with_other_numbers_may_be_passed_over():
    parts = renumbered(planned(HASHED), counter=30, passed=[0]).head.parts
    assert parts[1].before == 30


def test_another_attempt_has_new_numbers_and_draws_again(library: Path):
    plan = planned(RANDOM, library_path=[library])
    first = list(plan.slice(plan.head.parts[1]).steps())
    second = list(again(plan, plan.head.parts[1], attempt=2, before=7).steps())
    assert (in_words(second[2:]), first[1] == second[1]) == (
        ["DO_CLIENT a exp=8", "flows 8", "process 8", "leave 1"],
        False,
    )


def test_another_attempt_is_the_same_part(library: Path):
    plan = planned(RANDOM, library_path=[library])
    part = plan.head.parts[1]
    [second] = again(plan, part, attempt=2, before=7).head.parts
    assert (second.hash, second.index, second.before, second.drawn) == (
        part.hash,
        1,
        7,
        "ca=bbr rep=1, attempt 2",
    )


def test_another_attempt_may_skip_more_numbers_than_the_first():
    plan = planned(f"{ONE}SWEEP ca=reno DO\nRUN one\nNEXT_COUNTER\nRUN one\nDONE\n")
    part = plan.head.parts[0]
    [second] = again(plan, part, attempt=2, before=10).head.parts
    assert (part.numbers, second.numbers) == (10, 10)
    [third] = again(plan, part, attempt=2, before=9).head.parts
    assert third.numbers == 11


def test_another_attempt_of_the_rest_has_new_numbers():
    plan = planned(f"{ONE}RUN one ca=nv\n{SWEEP}")
    assert plan.head.rest is not None
    second = again(plan, plan.head.rest, attempt=2, before=40)
    assert in_words(second.steps()) == ["DO_CLIENT a exp=41", "flows 41", "process 41"]


def seeds(steps: Iterable[Step]) -> list[int]:
    return [step.seed for step in steps if isinstance(step, DoClient)]


def test_flows_of_a_cell_draw_the_same_whatever_cells_there_are():
    text = f"{ONE}SWEEP ca=reno,bbr reps=2 DO\nRUN one\nDONE\n"
    of_bbr = planned(text.replace("reno,", ""))
    # The repetitions of all cells follow each other.
    assert seeds(planned(text).steps())[1::2] == seeds(of_bbr.steps())


def test_flows_of_each_cell_repetition_experiment_group_and_seed_draw_otherwise():
    text = (
        f"{ONE.replace('WAIT_FLOWS', 'DO_CLIENT host=a server=b exp=$exp')}SET ca=nv\nRUN one\n"
        "SWEEP ca=reno,bbr reps=2 DO\nRUN one\nRUN one\nDONE\n"
    )
    drawn = [*seeds(planned(text).steps()), *seeds(planned(text, seed=2).steps())]
    assert len(set(drawn)) == len(drawn) == 36


def test_flows_of_another_attempt_draw_otherwise():
    plan = planned(f"{ONE}{SWEEP}")
    second = again(plan, plan.head.parts[1], attempt=2, before=7)
    [drawn] = seeds(second.steps())
    assert drawn not in seeds(plan.steps())


def test_draws_of_a_part_do_not_depend_on_the_others():
    def waits(values: str) -> list[float]:
        plan = planned(f"SWEEP ca={values} DO\nRAND_WAIT 5\nDONE\n")
        return [step.seconds for step in plan.steps() if isinstance(step, Wait)]

    assert waits("reno,bbr,nv")[::2] == waits("reno,nv")


def test_of_flows_that_differ_in_their_duration_a_plan_names_the_longest_to_hosts():
    text = "DO_CLIENT host=a server=b exp=1 dur={}\n"
    head = planned(text.format(5) + text.format(7) + text.format(6)).head
    assert [each.flow.duration_s for each in head.commands if isinstance(each, DoClient)] == [7]


# ---- until something is certain ------------------------------------------------------------------

UNTIL = SWEEP.replace(" DO", " reps=3..5 until=rate:2%,rtt:5% DO")


def test_a_plan_has_all_repetitions_and_the_rule_that_may_omit_some():
    head = planned(ONE + UNTIL).head
    rule = Until(columns={"rate": 2.0, "rtt": 5.0}, least=3, most=5, sweep=1)
    assert (len(head.parts), head.untils, head.totals.experiments) == (10, [rule], 10)


def test_a_plan_knows_what_runs_at_least():
    head, least = planned(ONE + UNTIL).head, planned(ONE + SWEEP.replace(" DO", " reps=3 DO")).head
    assert head.at_least is not None
    assert head.at_least.experiments == least.totals.experiments
    assert head.at_least.seconds == pytest.approx(least.totals.seconds)


def test_a_repetition_is_the_same_with_and_without_a_rule():
    assert hashes(ONE + UNTIL) == hashes(ONE + SWEEP.replace(" DO", " reps=5 DO"))


@pytest.mark.parametrize(
    ("column", "message", "remedy"),
    [
        ("rat", "until: column rat is not measured", "Did you mean rate?"),
        (
            "expName",
            "until: column expName has texts, which have no mean",
            "fields.txt lists the columns.",
        ),
    ],
)
def test_a_rule_is_about_columns_with_numbers(column, message, remedy):
    with pytest.raises(ScriptError) as found:
        planned(ONE + UNTIL.replace("rate", column), columns=column_knowledge(load(fields_file())))
    assert (found.value.message, found.value.remedy) == (message, remedy)


@pytest.mark.parametrize(
    "text",
    [UNTIL + "ASSERT rate > 9\n", UNTIL.replace("RUN one", "ASSERT rate > 9\nRUN one")],
)
def test_a_claim_about_a_repetition_that_may_not_run_is_refused(text):
    with pytest.raises(ScriptError) as found:
        planned(ONE + "RUN one ca=reno\n" + text)
    assert found.value.message == (
        "ASSERT about a repetition of a SWEEP with until=, which may not run"
    )


def test_all_repetitions_of_a_cell_have_the_same_experiments():
    text = ONE + UNTIL.replace("RUN one", "RUN one\nIF $rep == 2: RUN one")
    with pytest.raises(ScriptError) as found:
        planned(text)
    assert found.value.message == (
        "ca=reno rep=2 has the experiments Exp, Exp; its first repetition has Exp"
    )


def test_a_plan_with_a_rule_is_read_as_it_was_written(tmp_path):
    plan, path = planned(ONE + UNTIL), tmp_path / "plan.json"
    with path.open("wb") as file:
        plan.write(file)
    assert read(path).head == plan.head
