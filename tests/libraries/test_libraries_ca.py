"""lib/inlib.caTest: which flows run together, and when."""

import re

import pytest
from library_runs import LIBRARY, dry_run, echoed, experiments
from typed import found

from netesto.errors import ScriptError
from netesto.language.check import check

HEAD = """\
SOURCE inlib
SOURCE inlib.caTest
SET client1=c1
SET client2=c2
SET client3=c3
SET server1=s
SET baselineCA=cubic
SET testCA=bbr,reno
SET dur=60
"""
FLAGS = "tcpCA23_baseline=1 tcpCA23_test=1 tcpCA23_vs1=1 tcpCA23_vs2=1"


def ran(text):
    return experiments(dry_run(HEAD + text))


def test_two_flows_start_and_end_as_documented():
    assert ran("RUN tcpCA23 tcpCA23_baseline=1\n")[0].describe("ca", "dur", "delay", "group") == (
        "1s2cmid.vs | c1:S ca=cubic dur=60 delay=0 group=1, c2:S ca=cubic dur=20 delay=23 group=2"
    )


def test_three_flows_start_and_end_as_documented():
    assert ran("RUN tcpCA23 tcpCA23_baseline=1\n")[1].describe("ca", "dur", "delay", "group") == (
        "1s3cmid.vs | c1:S ca=cubic dur=60 delay=0 group=1, "
        "c2:S ca=cubic dur=40 delay=13 group=2, c3:S ca=cubic dur=20 delay=25 group=3"
    )


def test_all_parts_run_in_order():
    assert [(each.name, each.description) for each in ran(f"RUN tcpCA23 {FLAGS}\n")] == [
        ("1s2cmid.vs", "cubic:cubic"),
        ("1s3cmid.vs", "cubic:cubic"),
        ("1s2cmid.vs", "bbr:bbr"),
        ("1s3cmid.vs", "bbr:bbr"),
        ("1s2cmid.vs", "cubic:bbr"),
        ("1s3cmid.vs", "cubic:bbr"),
        ("1s2cmid.vs", "bbr:cubic"),
        ("1s3cmid.vs", "bbr:cubic"),
        ("1s2cmid.vs", "reno:reno"),
        ("1s3cmid.vs", "reno:reno"),
        ("1s2cmid.vs", "cubic:reno"),
        ("1s3cmid.vs", "cubic:reno"),
        ("1s2cmid.vs", "reno:cubic"),
        ("1s3cmid.vs", "reno:cubic"),
    ]


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("tcpCA23_baseline", ["cubic cubic", "cubic cubic cubic"]),
        ("tcpCA23_test", ["bbr bbr", "bbr bbr bbr", "reno reno", "reno reno reno"]),
        ("tcpCA23_vs1", ["cubic bbr", "cubic bbr bbr", "cubic reno", "cubic reno reno"]),
        ("tcpCA23_vs2", ["bbr cubic", "bbr cubic cubic", "reno cubic", "reno cubic cubic"]),
    ],
)
def test_a_variable_enables(flag, expected):
    found = ran(f"SET {flag}=1\nRUN tcpCA23\n")
    assert [" ".join(flow["ca"] for flow in each.flows) for each in found] == expected


def test_without_a_variable_it_says_that_nothing_runs():
    assert echoed(f"{HEAD}RUN tcpCA23\n") == [
        "# tcpCA23 ran nothing. SET tcpCA23_baseline=1 enables a part."
    ]


def netem(text):
    keys = ("host", "netem_delay", "limit", "loss")
    return [
        [each["args"].get(key, "") for key in keys]
        for each in dry_run(HEAD + text)
        if each.get("command") == "SET_NETEM"
    ]


def test_delay_stands_at_the_server_while_the_tests_run():
    commands = [
        each["command"]
        for each in dry_run(f"{HEAD}RUN tcpCA23 delay=10 tcpCA23_baseline=1\n")
        if each.get("command") in {"SET_NETEM", "PROCESS_EXP"}
    ]
    assert commands == ["SET_NETEM", "PROCESS_EXP", "PROCESS_EXP", "SET_NETEM"]


def test_delay_is_set_with_the_documented_limit_and_loss_and_removed():
    assert netem("SET delay=10\nRUN tcpCA23 tcpCA23_baseline=1\n") == [
        ["s", "10", "20000", "0"],
        ["s", "0", "", "0"],
    ]


def test_limit_and_loss_of_netem_can_be_chosen():
    assert netem("RUN tcpCA23 netemLimit=500 netemLoss=0.01 tcpCA23_baseline=1\n") == [
        ["s", "0", "500", "0.01"],
        ["s", "0", "", "0"],
    ]


@pytest.mark.parametrize("setting", ["", "SET delay=0\n"])
def test_without_a_delay_netem_is_left_alone(setting):
    assert netem(f"{setting}RUN tcpCA23 tcpCA23_baseline=1\n") == []


def test_server_may_be_called_server():
    text = HEAD.replace("server1", "server") + "RUN tcpCA23 tcpCA23_baseline=1\n"
    assert [flow["server"] for flow in experiments(dry_run(text))[0].flows] == ["s", "s"]


def test_description_ends_with_the_test():
    text = "RUN tcpCA23 tcpCA23_vs1=1\nRUN OneFlowStream server=s client=c1 ca=bbr\n"
    assert ran(text)[-1].description == ""


def test_a_server_of_an_earlier_run_is_not_taken():
    text = HEAD.replace("SET server1=s\n", "")
    with pytest.raises(ScriptError, match=r"undefined variable \$server1"):
        dry_run(f"{text}RUN tcpCA23 tcpCA23_baseline=1 server1=s\nRUN tcpCA23 tcpCA23_baseline=1\n")


def test_it_brings_inlib_with_it():
    text = HEAD.replace("SOURCE inlib\n", "") + "RUN tcpCA23 tcpCA23_baseline=1\n"
    assert [each.name for each in experiments(dry_run(text))] == ["1s2cmid.vs", "1s3cmid.vs"]


def test_the_example_in_the_comment_is_sound(tmp_path):
    text = (LIBRARY / "inlib.caTest").read_text()
    call = found(r"# Example:   (RUN (?:.*\\\n# +)*.*)", text)[1]
    path = tmp_path / "example.nts"
    path.write_text("SOURCE inlib.caTest\n" + re.sub(r"\\\n# +", " ", call) + "\n")
    assert check([path], library_path=[LIBRARY], definitions={}) == []


def test_defaults_are_no_globals():
    head = HEAD.replace("SET dur=60\n", "")
    said = echoed(f"{head}RUN tcpCA23 tcpCA23_vs1=1\nECHO $dur $delay $netemLimit $netemLoss\n")
    assert said[0] == "# $dur $delay $netemLimit $netemLoss"
