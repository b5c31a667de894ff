"""lib/inlib.vsTest: the flows of two congestion controls against each other."""

import re

import pytest
from library_runs import LIBRARY, dry_run, echoed, experiments, names
from typed import found

from netesto.errors import ScriptError
from netesto.language.check import check

HEAD = """\
SOURCE inlib
SOURCE inlib.vsTest
SET client1=c1
SET client2=c2
SET client3=c3
SET server1=s
SET ca1=cubic
SET ca2=bbr
SET dur=60
"""
FOUR = "1x1M + 1x1M + 1x1M + 1x1M"
TESTS = [
    "2frvs | 1x1M + 1x10K",
    "2frvs | 1x8M + 1x10K",
    "2fsvs | 2xS",
    "3frvs | 1x1M + 1x1M + 1x10K",
    f"5frvs | {FOUR} + 1x10K",
    f"9frvs | {FOUR} + {FOUR} + 1x10K",
    f"17frvs | {FOUR} + {FOUR} + {FOUR} + {FOUR} + 1x10K",
    "9fRvs | 1x8M + 1x8M + 1x8M + 1x8M + 1x8M + 1x8M + 1x8M + 1x8M + 1x10K",
]


def test_all_tests_run_in_order_each_with_its_flows():
    ran = [each.per_client() for each in experiments(dry_run(f"{HEAD}RUN ExpVs\n"))]
    two = [f"1s2c{test}".replace("|", "| c1 c2 |") for test in TESTS]
    three = [f"1s3c{test}".replace("|", "| c1 c2 c3 |") for test in TESTS]
    assert ran == two + three


def test_client1_has_ca1_and_the_others_ca2():
    ran = experiments(dry_run(f"{HEAD}RUN ExpVs\n"))
    assert [
        ran[0].describe("ca", "dur", "delay", "group"),
        ran[10].describe("ca", "instances"),
    ] == [
        (
            "1s2c2frvs | c1:1M ca=cubic dur=60 delay=0 group=1, "
            "c1:10K ca=cubic dur=60 delay=0 group=2, c2:1M ca=bbr dur=60 delay=0 group=3, "
            "c2:10K ca=bbr dur=60 delay=0 group=4"
        ),
        "1s3c2fsvs | c1:S ca=cubic instances=2, c2:S ca=bbr instances=2, c3:S ca=bbr instances=2",
    ]


def test_the_comment_lists_what_runs():
    text = (LIBRARY / "inlib.vsTest").read_text()
    rows = re.findall(r"^#  .*?(1s2c\w+) +(1s3c\w+)$", text, re.MULTILINE)
    assert [two for two, _ in rows] + [three for _, three in rows] == names(f"{HEAD}RUN ExpVs\n")


def test_stops_after_the_first_when_a_variable_says_so():
    assert names(f"{HEAD}SET ExpVsOne=1\nRUN ExpVs\n") == ["1s2c2frvs"]


def test_stops_after_the_first_when_a_macro_says_so():
    text = f"{HEAD}BEGIN ExpVsOne\nEND ExpVsOne\nRUN ExpVs\nECHO goes on\n"
    assert names(text) == ["1s2c2frvs"]


@pytest.mark.parametrize("name", ["server", "servers1", "server1"])
def test_server_may_be_called(name):
    text = HEAD.replace("server1", name) + "SET ExpVsOne=1\nRUN ExpVs\n"
    assert {flow["server"] for flow in experiments(dry_run(text))[0].flows} == {"s"}


def test_arguments_reach_the_flows():
    text = f"{HEAD}RUN ExpVs instances=3 reply=9 dur=5\n"
    assert [each.describe("dur", "instances", "reply") for each in experiments(dry_run(text))][
        :3
    ] == [
        (
            "1s2c2frvs | c1:1M dur=5 instances=3 reply=9, c1:10K dur=5 instances=3 reply=9, "
            "c2:1M dur=5 instances=3 reply=9, c2:10K dur=5 instances=3 reply=9"
        ),
        (
            "1s2c2frvs | c1:8M dur=5 instances=3 reply=9, c1:10K dur=5 instances=3 reply=9, "
            "c2:8M dur=5 instances=3 reply=9, c2:10K dur=5 instances=3 reply=9"
        ),
        "1s2c2fsvs | c1:S dur=5 instances=6 reply=1, c2:S dur=5 instances=6 reply=1",
    ]


def test_a_server_of_an_earlier_run_is_not_taken():
    text = HEAD.replace("SET server1=s\n", "")
    with pytest.raises(ScriptError, match=r"undefined variable \$server1"):
        dry_run(f"{text}RUN ExpVs ExpVsOne=1 server1=s\nRUN ExpVs ExpVsOne=1\n")


def test_it_brings_inlib_with_it():
    text = HEAD.replace("SOURCE inlib\n", "") + "SET ExpVsOne=1\nRUN ExpVs\n"
    assert names(text) == ["1s2c2frvs"]


def test_the_example_in_the_comment_is_sound(tmp_path):
    text = (LIBRARY / "inlib.vsTest").read_text()
    call = found(r"# Example:   (RUN (?:.*\\\n# +)*.*)", text)[1]
    path = tmp_path / "example.nts"
    path.write_text("SOURCE inlib.vsTest\n" + re.sub(r"\\\n# +", " ", call) + "\n")
    assert check([path], library_path=[LIBRARY], definitions={}) == []


def test_defaults_are_no_globals():
    said = echoed(
        "SOURCE inlib.vsTest\nRUN ExpVs server1=s client1=c1 client2=c2 client3=c3 ca1=bbr "
        "ca2=reno\nECHO $dur $instances $reply\n"
    )
    assert said[0] == "# $dur $instances $reply"
