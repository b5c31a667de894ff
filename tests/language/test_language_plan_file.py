"""A plan in a file: it is read as it was written, and refused if it was changed."""

import gzip
import json
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from language_plans import ONE, SWEEP, in_words, planned

from netesto.errors import Place, UsageError
from netesto.language import plan, steps
from netesto.language.plan import Plan

EVERYTHING = f"""\
LAB pair rate=10mbit
REQUIRE ca=bbr kernel>=5.4
SOURCE inlib
{ONE}SET_SYSCTL host=a net.ipv4.tcp_ecn=1
SET_NETEM host=a netem_delay=5 loss=0.01 keep=1
SET_QDISC host=b qdisc=tbf rate=1mbit burst=9K limit=9K
SET_MODULE_PARAMS host=a module=tcp_cubic hystart=0
SET_LINK host=a to=b mtu=9000 tso=off rate=5mbit keep=1
SET_ROUTE host=a to=b rto_min=9
DO_COMMAND host=a name=tell rx=9
DESC "what \\" is ü"
OTHER bw=5
DO_TCPDUMP host=a server=X packets=9
DO_SERVER host=b exp=COUNTER start=1
DO_CLIENT host=a server=b exp=PREV ca=bbr dur=1.5 parallel=2 cpu=0,1 pace=10mbit hold=1 test=TCP_RR
START_FLOWS lead=0.3
WAIT_FLOWS timeout=9
GET_DATA host=a
PROCESS_EXP
RAND_WAIT 1 3
{SWEEP}ASSERT rate > 9mbit: slow
CLOSE host=a
EXIT host=b
DO_CLIENT host=a server=b exp=77 test=TCP_RR
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def write(made: Plan, path: Path) -> None:
    with path.open("wb") as file:
        made.write(file)


def test_a_plan_that_is_read_is_the_one_that_was_written(path: Path):
    made = planned(EVERYTHING, counter=3)
    write(made, path)
    read = plan.read(path)
    assert (read.head, list(read.steps())) == (made.head, list(made.steps()))


def test_places_and_chains_are_kept(path: Path):
    write(planned(EVERYTHING), path)
    commands = [step for step in plan.read(path).steps() if isinstance(step, steps.DoClient)]
    place = Place(
        "test.nts", 6, 5, 9, "    DO_CLIENT host=a server=b exp=$exp ca=$ca dur=$dur test=TCP_RR"
    )
    chain = ("test.nts:29: SWEEP (ca=reno, rep=1)", "test.nts:30: RUN one")
    assert (commands[1].place, commands[1].chain) == (place, chain)


def test_the_same_script_gives_the_same_file(path: Path, tmp_path: Path):
    write(planned(EVERYTHING), path)
    write(planned(EVERYTHING), tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


def test_a_plan_is_one_json_document(path: Path):
    write(planned(ONE + SWEEP), path)
    document = json.loads(path.read_text())
    assert (document["netesto_plan"], len(document["steps"])) == (
        plan.FORMAT,
        document["summary"]["steps"],
    )


def test_a_plan_without_steps_can_be_read(path: Path):
    write(planned("SET a=1\n"), path)
    assert in_words(plan.read(path).steps()) == []


def test_a_slice_can_be_written_and_read(path: Path):
    made = planned(ONE + SWEEP)
    write(made.slice(made.head.parts[1]), path)
    assert in_words(plan.read(path).steps())[:2] == ["enter 1", "DO_CLIENT a exp=2"]


def test_a_script_is_not_a_plan(path: Path):
    path.write_text(ONE)
    assert not plan.is_plan(path)


MAKE_AGAIN = "Make it again from its script: netesto plan SCRIPT -o plan.json"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('_plan": 3,', '_plan": 7,', ": a plan of version 7; this netesto reads version 3"),
        ('{"netesto_plan"', '{"a_plan"', ":1: not a plan"),
        ('"seed": 1', '"seed": "1"', ":2: invalid value for type, expected int"),
        ('"steps": [', '"steps": []', ":3: unexpected content"),
        ('"step": "DoClient"', '"step": "DoHarm"', ":6: unexpected content: 'DoHarm'"),
        ('"flow": {', '"flow": {"instances": 1.5, ', ":6: invalid value for type, expected int"),
        ('"flow": {', '"flow": {"many": 1, ', ":6: extra fields found (many)"),
        ('"mean_s": 3.0}', '"mean_s": 4.0}', ":16: the plan was modified after it was written"),
        ('\n"summary"', '\n{}\n"summary"', ":16: the plan was modified after it was written"),
        ('_plan": 3,', f'_plan": {"9" * 6000},', ":1: not a plan"),
        ('"mean_s": 3.0}', '"mean_s": NaN}', ":4: unexpected content: NaN is not a"),
        ('"mean_s": 3.0}', '"mean_s": 1e999}', ":4: unexpected content: 1e999 is not"),
        ('"exp": 1,', '"exp": -1,', ":6: unexpected content: experiment -1,"),
        ('"group": 1', '"group": 4294967296', ":6: unexpected content: experiment 1,"),
        ('"flow": {', '"flow": {"interval_s": 0, ', ":6: unexpected content: interval_s=0.0 is"),
        ('Part", "index": 1', 'Part", "index": 7', ":10: the plan has no part 7"),
    ],
)
def test_a_file_that_was_changed_is_refused(path: Path, old: str, new: str, message: str):
    write(planned(f"LAB pair\nWAIT 3\n{ONE}{SWEEP}"), path)
    head, steps, rest = path.read_text().partition('"steps"')
    changed = head.replace(old, new) + (steps + rest).replace(old, new)
    path.write_text(head + (steps + rest).replace(old, new) if old in rest else changed)
    with pytest.raises(UsageError) as caught:
        plan.read(path)
    error = str(caught.value).partition("\n")
    assert (error[0].startswith(f"{path}{message}"), error[2]) == (True, MAKE_AGAIN), error


@pytest.mark.parametrize("left", [0, 10, 500, -3])
def test_a_file_that_was_cut_off_is_refused(path: Path, left: int):
    write(planned(ONE + SWEEP), path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(UsageError, match=r":\d+: the plan is truncated"):
        plan.read(path)


def test_a_compressed_plan_is_read_as_it_is(path: Path):
    write(made := planned(EVERYTHING), path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    read = plan.read(path)
    assert (plan.is_plan(path), read.head, list(read.steps())) == (
        True,
        made.head,
        list(made.steps()),
    )


@pytest.mark.parametrize("left", [2, 100, -3])
def test_a_compressed_plan_that_was_cut_off_is_refused(path: Path, left: int):
    write(planned(ONE + SWEEP), path)
    path.write_bytes(gzip.compress(path.read_bytes())[:left])
    with pytest.raises(UsageError, match="damaged: Compressed file ended"):
        plan.read(path)


def test_a_compressed_plan_with_other_bytes_is_refused(path: Path):
    write(planned(ONE + SWEEP), path)
    data = gzip.compress(path.read_bytes())
    # RFC 1951, section 3.2.3: the type of the first block, which follows ten bytes, is the one that
    # is an error.
    path.write_bytes(data[:10] + b"\x07" + data[11:])
    with pytest.raises(UsageError, match="damaged: Error -3 while decompressing"):
        plan.read(path)


def test_what_no_script_may_set_no_plan_may_set(path: Path):
    write(planned("SET_SYSCTL host=a net.ipv4.tcp_ecn=1\n"), path)
    head, steps, rest = path.read_text().partition('"steps"')
    path.write_text(head + steps + rest.replace("net.ipv4.tcp_ecn", "kernel.core_pattern"))
    with pytest.raises(UsageError, match=r":4: .*kernel\.core_pattern"):
        plan.read(path)


def test_parts_have_steps_of_the_plan(path: Path):
    made = planned(ONE + SWEEP)
    [first, *others] = made.head.parts
    made.head = replace(made.head, parts=(replace(first, ranges=((-1, 1),)), *others))
    write(made, path)
    with pytest.raises(UsageError, match=f":{len(list(made.steps())) + 5}: {first.name} has steps"):
        plan.read(path)


def test_parts_end_where_they_began(path: Path):
    write(planned(ONE + SWEEP), path)
    text = path.read_text()
    begin = '{"step": "EnterPart", "index": 0},\n'
    path.write_text(text.replace(begin, "", 1))
    with pytest.raises(UsageError, match=r":\d+: part 0 ends before it begins"):
        plan.read(path)


def test_a_file_that_goes_on_behind_its_end_is_refused(path: Path):
    write(planned(ONE + SWEEP), path)
    with path.open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(UsageError, match=r":\d+: the plan continues after its end"):
        plan.read(path)


def test_what_is_in_a_pipe_is_left_there(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert not plan.is_plan(tmp_path / "pipe")


def test_a_file_that_is_not_there_is_reported(path: Path):
    with pytest.raises(UsageError, match="No such file"):
        plan.read(path)


def peak_bytes(text: str) -> int:
    tracemalloc.start()
    with planned(text) as made:
        assert sum(1 for _ in made.steps()) > 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_number_of_steps():
    text = f"{ONE}FOR n IN 1..{{}} DO\nSET_NETEM host=a netem_delay=$n\nWAIT $n\nDONE\n"
    # So many that the file is no longer in memory.
    few, many = peak_bytes(text.format(2_000)), peak_bytes(text.format(3_000))
    assert many < few * 1.2


def test_a_plan_has_the_fields_of_a_setting_that_differ_from_their_defaults(path: Path):
    text = f"{ONE}SET_SYSCTL host=a net.ipv4.tcp_ecn=1 keep=0\n"
    write(planned(text), path)
    assert (
        '"settings": [{"type": "Sysctl", "name": "net.ipv4.tcp_ecn", "value": "1"}]'
        in path.read_text()
    )
