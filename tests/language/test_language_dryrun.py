"""The dry run: what it prints, its clock, its counter, and what it keeps for pre-flight."""

import re

import pytest
from language_plans import planned
from typed import nearly

from netesto.language import steps
from netesto.language.dryrun import Printer
from netesto.language.plan import Totals


def test_json_has_one_object_for_each_command_and_a_summary(dry):
    """
    DO_SERVER host=a exp=COUNTER
    DESC some text
    OTHER bw=10
    PROCESS_EXP
    """
    assert dry == [
        {
            "command": "DO_SERVER",
            "host": "a",
            "args": {"host": "a", "exp": "1", "expName": "Exp", "order": "0", "start": "0"},
            "at": "test.nts:1",
            "exp": 1,
            "group": 0,
        },
        {
            "command": "PROCESS_EXP",
            "host": "",
            "args": {"exp": "1", "expName": "Exp", "desc": "some text", "bw": "10"},
            "at": "test.nts:4",
            "exp": 1,
            "group": 0,
        },
        {"summary": {"experiments": 1, "flows": 0, "seconds": 0.2}},
    ]


def test_plain_lines_show_arguments_time_and_place():
    lines: list[str] = []
    printer = Printer(lines.append)
    plan = planned('WAIT 5\nSET_QDISC host=a qdisc=fq other="a b"\nECHO hi\n')
    for step in plan.steps():
        printer.show(step)
    printer.finish(plan.head)
    assert lines == [
        'SET_QDISC host=a exp=0 expName=Exp qdisc=fq action= other="a b"  # 5 s, test.nts:2',
        "# hi",
        "# 0 experiments, 0 flows, about 5 s",
    ]


def flows_and_waits(text):
    return planned(text).head.totals.simulated_s


def test_random_waits_count_as_their_mean():
    assert flows_and_waits("RAND_WAIT 4\nRAND_WAIT 1 2\n") == 3.5


def test_waiting_for_flows_lasts_to_the_end_of_the_last():
    text = (
        "DO_CLIENT host=a server=b dur=60\n"
        "WAIT 1\n"
        "DO_CLIENT host=c server=b dur=20 delay=50 instances=3\n"
        "WAIT_FLOWS\n"
    )
    assert flows_and_waits(text) == 71.0


def test_waiting_for_flows_ends_at_its_timeout():
    assert flows_and_waits("DO_CLIENT host=a server=b dur=60\nWAIT_FLOWS timeout=10\n") == 10


def test_flows_that_have_ended_are_not_waited_for():
    assert flows_and_waits("DO_CLIENT host=a server=b dur=5\nWAIT 60\nWAIT_FLOWS\n") == 60


COUNTED = "DO_CLIENT host=a server=b test=TCP_FLOWS size=1K count=9"


@pytest.mark.parametrize(
    ("words", "duration_s", "known_s"),
    [("", 3600.0, 0.0), (" dur=5", 5.0, 5.0), (" gap=0.1", 20.0, 20.0)],
)
def test_transfers_one_after_the_other_last_until_all_are_done(words, duration_s, known_s):
    plan = planned(f"{COUNTED}{words}\nWAIT_FLOWS\n")
    (command, *_) = plan.steps()
    assert isinstance(command, steps.DoClient)
    assert (command.flow.duration_s, command.arguments["dur"], plan.head.totals.simulated_s) == (
        duration_s,
        f"{duration_s:g}",
        known_s,
    )


def test_a_dry_run_says_what_duration_it_does_not_know():
    lines: list[str] = []
    printer = Printer(lines.append)
    plan = planned(f"{COUNTED}\n")
    for step in plan.steps():
        printer.show(step)
    printer.finish(plan.head)
    assert lines[-1].endswith(", and as long as 1 DO_CLIENT with count= and without dur= needs")


def test_held_flows_count_from_their_common_start():
    text = "DO_CLIENT host=a server=b dur=5 hold=1\nWAIT 10\nSTART_FLOWS lead=1\nWAIT_FLOWS\n"
    assert flows_and_waits(text) == 16


def test_numbers_follow_the_counter_given():
    head = planned(
        "DO_SERVER host=a exp=PREV\nDO_SERVER host=a exp=COUNTER\nEND\n", counter=12
    ).head
    assert ([each.exp for each in head.commands], head.last_number) == ([12], 19)


def test_one_command_of_each_sort_is_kept():
    head = planned(
        "LAB pair\nREQUIRE ca=bbr\n"
        "FOR i IN 1..50 DO\n"
        "DO_CLIENT host=a server=b dur=$i test=TCP_RR ca=bbr\n"
        "DO_CLIENT host=a server=b dur=$i test=TCP_RR ca=cubic\n"
        "SET_NETEM host=r netem_delay=$i\n"
        "DONE\n"
    ).head
    assert [(each.name, each.arguments.get("ca")) for each in head.commands] == [
        ("DO_CLIENT", "bbr"),
        ("DO_CLIENT", "cubic"),
        ("SET_NETEM", None),
    ]
    assert head.lab is not None
    assert (head.lab.topology, [each.value for each in head.requirements]) == ("pair", ["bbr"])


def test_nothing_is_asserted_without_results():
    assert (
        planned("DO_SERVER host=a\nPROCESS_EXP\nASSERT nosuch > 1\n").head.totals.experiments == 1
    )


def test_the_papers_script_takes_the_time_it_says():
    text = """\
SOURCE inlib
SET dur=60
SET_EXP dur2=dur/3
SET_EXP delay2=$dur2+3
SET ca=bbr
RUN twoFlowBaseStream,1 server=h1 client1=h2 client2=h3 expName=1s2c1fs ca1=$ca ca2=$ca \\
    dur1=$dur dur2=$dur2 delay2=$delay2
END
"""
    assert planned(text).head.totals == Totals(1, 2, nearly(60.85, abs=0.1), 60.0)


def test_a_dry_run_says_what_runs_at_least_and_until_when():
    lines: list[str] = []
    printer = Printer(lines.append)
    text = (
        "SWEEP dur=10 reps=3..30 until=rate:2%,rtt:5% DO\n"
        "DO_CLIENT host=a server=b exp=COUNTER dur=$dur\nWAIT_FLOWS\nPROCESS_EXP\nDONE\n"
    )
    plan = planned(text, watch=printer.show)
    printer.finish(plan.head)
    assert [re.sub("about .*", "", line) for line in lines[-3:]] == [
        "# at most 30 experiments, 30 flows, ",
        f"# {plan.head.untils[0]}",
        "# at least 3 experiments, 3 flows, ",
    ]
