"""Parts of a script: what each does when it is carried out without the others."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from language_asked import Asked, run

from netesto.language.parts import OnePart, Part, Rehearsal

# A macro that is an experiment of its own.
ONE = """\
BEGIN one
    SET exp=COUNTER
    DO_CLIENT host=a server=b exp=$exp ca=$ca dur=10
    SET exp=PREV
    WAIT_FLOWS
    PROCESS_EXP exp=$exp
END one
"""


def rehearsed(text: str, counter: int = 0) -> Rehearsal:
    rehearsal = Rehearsal(counter=counter)
    run(ONE + text, rehearsal)
    return rehearsal


def carried_out(
    text: str, index: int | None, before: int, *, start: int = 0, **columns: str
) -> Asked:
    """What the hosts of a run are asked for that carries out one part alone."""
    asked = Asked(columns)
    run(ONE + text, OnePart(asked, index=index, start=start, before=before))
    return asked


def test_every_cell_of_a_sweep_is_a_part():
    script = "SWEEP ca=reno,bbr DO\nRUN one\nRUN one\nDONE\n"
    cells: list[Mapping[str, str]] = [{"ca": "reno", "rep": "1"}, {"ca": "bbr", "rep": "1"}]
    found = [replace(part, seconds=0.0) for part in rehearsed(script, counter=5).parts]
    assert found == [
        Part(name="ca=reno rep=1", cell=cells[0], before=5, numbers=2, seconds=0.0),
        Part(name="ca=bbr rep=1", cell=cells[1], before=7, numbers=2, seconds=0.0),
    ]


def test_a_part_takes_its_share_of_the_whole():
    whole = rehearsed("SWEEP ca=reno,bbr DO\nRUN one\nDONE\n")
    seconds = [part.seconds for part in whole.parts]
    assert seconds == pytest.approx([whole.totals().seconds / 2] * 2)


def test_every_repetition_of_a_macro_is_a_part():
    parts = rehearsed("RUN one,2 ca=reno\n").parts
    assert [(part.name, part.before) for part in parts] == [("one rep=1", 0), ("one rep=2", 1)]


def test_a_part_within_a_part_belongs_to_it():
    parts = rehearsed("SWEEP ca=reno,bbr DO\nRUN one,3\nDONE\n").parts
    assert [(part.name, part.numbers) for part in parts] == [
        ("ca=reno rep=1", 3),
        ("ca=bbr rep=1", 3),
    ]


def test_parts_of_one_name_are_told_apart():
    parts = rehearsed("SET ca=reno\nFOR n IN 1..2 DO\nRUN one,2\nDONE\n").parts
    assert [part.name for part in parts] == [
        "one rep=1",
        "one rep=2",
        "one rep=1 #2",
        "one rep=2 #2",
    ]


def test_a_rehearsal_knows_what_belongs_to_no_part():
    found = rehearsed("ECHO begin\nRUN one ca=reno\nRUN one,2 ca=bbr\nRUN one ca=nv\n")
    assert (found.has_rest, len(found.parts), found.echoes) == (True, 2, ["begin"])


def test_a_part_without_an_experiment_is_idle():
    found = rehearsed("SWEEP ca=reno,bbr DO\nECHO $ca\nIF $ca == bbr: RUN one\nDONE\n")
    assert ([part.is_idle for part in found.parts], found.echoes) == ([True, False], ["reno"])


def test_one_part_alone_has_its_own_commands():
    asked = carried_out("SWEEP ca=reno,bbr,nv DO\nRUN one\nDONE\n", 1, 41)
    assert asked.sent == ["DO_CLIENT a exp=42"]


def test_one_part_alone_has_the_values_that_the_others_left():
    script = "SET n=0\nSWEEP ca=reno,bbr,nv DO\nSET_EXP n=$n+1\nECHO $ca $n\nDONE\n"
    assert carried_out(script, 2, 0).echoed == ["nv 3"]


def test_one_part_alone_does_not_wait_for_the_others():
    script = "WAIT 9\nSWEEP ca=reno,bbr DO\nWAIT 3\nRUN one\nDONE\n"
    asked = carried_out(script, 0, 0)
    assert (asked.waited, asked.flows) == ([3.0], [("wait 1", None)])


def test_the_rest_is_what_belongs_to_no_part():
    script = "RUN one ca=reno\nSWEEP ca=bbr,nv DO\nRUN one\nDONE\nRUN one ca=reno\n"
    asked = carried_out(script, None, 0)
    assert asked.sent == ["DO_CLIENT a exp=1", "DO_CLIENT a exp=4"]


def test_a_part_finds_the_hosts_as_they_were_set_before_it():
    script = """\
SET_SYSCTL host=a net.ipv4.tcp_ecn=1
SET_QDISC host=a qdisc=tbf rate=1mbit burst=9K limit=9K
SWEEP delay=10,20 DO
    SET_NETEM host=a netem_delay=$delay
    SET_SYSCTL host=a net.ipv4.tcp_ecn=2
    RUN one ca=reno
    SET_NETEM host=b netem_delay=$delay
DONE
"""
    asked = carried_out(script, 1, 1)
    assert [(each.name, each.host, *each.arguments.values()) for each in asked.commands[:3]] == [
        ("SET_NETEM", "a", "a", "0", "Exp", "10", "1000", "0"),
        ("SET_SYSCTL", "a", "a", "0", "Exp", "2"),
        ("SET_NETEM", "b", "b", "1", "Exp", "10", "1000", "0"),
    ]


def test_what_changes_a_qdisc_step_by_step_is_kept_whole():
    script = """\
SET_QDISC host=a qdisc=pfifo limit=9
SET_QDISC host=a qdisc=tbf action=replace rate=1mbit burst=9K limit=9K
SWEEP ca=reno,bbr DO
    RUN one
DONE
"""
    assert [each.name for each in carried_out(script, 0, 0).commands] == [
        "SET_QDISC",
        "SET_QDISC",
        "DO_CLIENT",
    ]


def test_a_claim_after_the_parts_is_about_the_last_one():
    script = "SWEEP ca=reno,bbr DO\nRUN one\nDONE\nASSERT rate > 9\n"
    last = carried_out(script, 1, 1, rate="5")
    first = carried_out(script, 0, 0, rate="5")
    assert (last.failed, first.failed) == (["11: experiment 2: rate > 9, but rate is 5 Mbit/s"], [])


def test_numbers_are_those_of_the_whole_script():
    script = "SWEEP ca=reno,bbr DO\nRUN one\nDONE\nNEXT_COUNTER\nRUN one ca=nv\n"
    rest = carried_out(script, None, 0, start=3)
    assert (rest.sent, rehearsed(script, counter=3).last_number) == (["DO_CLIENT a exp=10"], 10)


def test_what_a_part_draws_does_not_depend_on_the_others():
    long, short = Asked(), Asked()
    run("SWEEP ca=reno,bbr,nv DO\nRAND_WAIT 5\nDONE\n", long)
    run("SWEEP ca=reno,nv DO\nRAND_WAIT 5\nDONE\n", short)
    assert long.waited[::2] == short.waited


def test_what_comes_after_a_part_does_not_depend_on_what_it_drew():
    with_draws, without = Asked(), Asked()
    run("SWEEP ca=reno DO\nRAND_WAIT 5\nDONE\nRAND_WAIT 7\n", with_draws)
    run("SWEEP ca=reno DO\nDONE\nRAND_WAIT 7\n", without)
    assert with_draws.waited[1:] == without.waited


def test_a_part_ends_with_the_script():
    asked = Asked()
    run("SWEEP ca=reno,bbr DO\nEND\nDONE\n", asked)
    assert asked.parts == ["ca=reno rep=1", "broken off"]


def test_a_part_is_run_again_when_the_port_wants_it():
    asked = Asked()
    asked.again = [True, False]
    run("SWEEP ca=reno,bbr DO\nECHO $ca\nDONE\n", asked)
    assert asked.echoed == ["reno", "reno", "bbr"]


def test_an_attempt_draws_anew():
    asked = Asked()
    asked.again = [True]
    run("SWEEP ca=reno DO\nRAND_WAIT 5\nDONE\n", asked)
    assert asked.waited[0] != asked.waited[1]


def test_a_part_alone_takes_new_numbers_when_it_is_run_again():
    asked = Asked()
    asked.again = [True]
    run(ONE + "SWEEP ca=reno,bbr DO\nRUN one\nDONE\n", OnePart(asked, index=1, start=0, before=7))
    assert asked.sent == ["DO_CLIENT a exp=8", "DO_CLIENT a exp=9"]
