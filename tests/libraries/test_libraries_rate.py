"""lib/inlib.rateTest: which tests run, in which order, with which flows."""

import re

import pytest
from library_runs import LIBRARY, dry_run, echoed, experiments, names, traffic_s
from typed import found

from netesto.language.check import check

GROUPS = ("rate1", "rate2", "rate3", "rate3s", "rate3p", "rate3x")
ALL = " ".join(f"{group}=1" for group in GROUPS)
CLASSIC = """\
SOURCE inlib
SOURCE inlib.rateTest
SET servers1=s
SET clients1=c1
SET clients2=c1,c2
SET clients3=c1,c2,c3
SET ca=cubic
SET dur=60
SET instances=1
SET reply=1
"""
CALL = "RUN ExpRate servers1=s clients1=c1 clients2=c1,c2 clients3=c1,c2,c3 ca=cubic dur=60"

# Name, clients, flows of each client: the table of the library, and what runs twice.
TESTS = [
    "1s1c1fr | c1 | 1x1M",
    "1s1c1fs | c1 | 1xS",
    "1s2c1.fr | c1 c2 | 1x1M",
    "1s2c1.fs | c1 c2 | 1xS",
    "1s2c2.fr | c1 c2 | 2x1M",
    "1s2c2.fr | c1 c2 | 2x16M",
    "1s2c2.1fr | c1 c2 | 1x1M + 1x1M + 1x10K",
    "1s2c2.1fr | c1 c2 | 1x16M + 1x16M + 1x10K",
    "1s3c01.0fr | c1 c2 c3 | 1x1M",
    "1s3c02.0fr | c1 c2 c3 | 2x1M",
    "1s3c04.0fr | c1 c2 c3 | 4x1M",
    "1s3c08.0fr | c1 c2 c3 | 2x1M + 2x1M + 2x1M + 2x1M",
    "1s3c16.0fr | c1 c2 c3 | 4x1M + 4x1M + 4x1M + 4x1M",
    "1s3c32.0fr | c1 c2 c3 | 8x1M + 8x1M + 8x1M + 8x1M",
    "1s3c01fs | c1 c2 c3 | 1xS",
    "1s3c02fs | c1 c2 c3 | 2xS",
    "1s3c04fs | c1 c2 c3 | 4xS",
    "1s3c08fs | c1 c2 c3 | 8xS",
    "1s3c16fs | c1 c2 c3 | 16xS",
    "1s3c32fs | c1 c2 c3 | 32xS",
    "1s3c01.pfr | c1 c2 c3 | 1x1M + 1x10K",
    "1s3c02.pfr | c1 c2 c3 | 2x1M + 2x10K",
    "1s3c04.pfr | c1 c2 c3 | 4x1M + 4x10K",
    "1s3c08.pfr | c1 c2 c3 | 8x1M + 8x10K",
    "1s3c16.pfr | c1 c2 c3 | 16x1M + 16x10K",
    "1s3c32.pfr | c1 c2 c3 | 32x1M + 32x10K",
    "1s3c01.xfr | c1 c2 c3 | 1x8M + 1x1M + 1x50K + 1x10K",
    "1s3c02.xfr | c1 c2 c3 | 2x8M + 2x1M + 2x50K + 2x10K",
    "1s3c04.xfr | c1 c2 c3 | 4x8M + 4x1M + 4x50K + 4x10K",
    "1s3c08.xfr | c1 c2 c3 | 8x8M + 8x1M + 8x50K + 8x10K",
    "1s3c16.xfr | c1 c2 c3 | 16x8M + 16x1M + 16x50K + 16x10K",
    "1s3c32.xfr | c1 c2 c3 | 32x8M + 32x1M + 32x50K + 32x10K",
]
TWICE = re.compile(r"1s3c(08|16|32)\.")


def test_all_tests_run_in_order_each_with_its_flows():
    ran = [each.per_client() for each in experiments(dry_run(f"{CLASSIC}RUN ExpRate {ALL}\n"))]
    assert ran == [test for test in TESTS for _ in range(2 if TWICE.match(test) else 1)]


def test_the_tests_of_the_table_are_counted():
    ran = experiments(dry_run(f"{CLASSIC}RUN ExpRate {ALL}\n"))
    tests = {each.per_client() for each in ran}
    assert (len(tests), len({each.name for each in ran}), len(ran)) == (32, 30, 41)


def test_the_comment_lists_what_runs():
    text = (LIBRARY / "inlib.rateTest").read_text()
    listed = re.findall(r"^#  .*?(1s\dc\d+\.?\w+)\b", text, re.MULTILINE)
    assert listed == [test.partition(" ")[0] for test in TESTS]


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("rate1", ["1s1c1fr", "1s1c1fs"]),
        ("rate1r", ["1s1c1fr"]),
        ("rate1s", ["1s1c1fs"]),
        ("rate2r", ["1s2c1.fr"]),
        ("rate2s", ["1s2c1.fs"]),
        ("rate2r1", ["1s2c2.fr", "1s2c2.1fr"]),
        ("rate2", ["1s2c1.fr", "1s2c1.fs", "1s2c2.fr", "1s2c2.fr", "1s2c2.1fr", "1s2c2.1fr"]),
        ("rate3r1", ["1s3c01.0fr"]),
        ("rate3r2", ["1s3c02.0fr"]),
        ("rate3r4", ["1s3c04.0fr"]),
        (
            "rate3",
            [
                "1s3c01.0fr", "1s3c02.0fr", "1s3c04.0fr", "1s3c08.0fr", "1s3c08.0fr",
                "1s3c16.0fr", "1s3c16.0fr", "1s3c32.0fr", "1s3c32.0fr",
            ],
        ),
        ("rate3s1", ["1s3c01fs"]),
        ("rate3s2", ["1s3c02fs"]),
        ("rate3s4", ["1s3c04fs"]),
        ("rate3s8", ["1s3c08fs"]),
        (
            "rate3s",
            ["1s3c01fs", "1s3c02fs", "1s3c04fs", "1s3c08fs", "1s3c16fs", "1s3c32fs"],
        ),
        ("rate3p1", ["1s3c01.pfr"]),
        ("rate3p2", ["1s3c02.pfr"]),
        ("rate3p4", ["1s3c04.pfr"]),
        ("rate3p8", ["1s3c08.pfr", "1s3c08.pfr"]),
        ("rate3p16", ["1s3c16.pfr", "1s3c16.pfr"]),
        ("rate3p32", ["1s3c32.pfr", "1s3c32.pfr"]),
        (
            "rate3p",
            [
                "1s3c01.pfr", "1s3c02.pfr", "1s3c04.pfr", "1s3c08.pfr", "1s3c08.pfr",
                "1s3c16.pfr", "1s3c16.pfr", "1s3c32.pfr", "1s3c32.pfr",
            ],
        ),
        (
            "rate3x",
            [
                "1s3c01.xfr", "1s3c02.xfr", "1s3c04.xfr", "1s3c08.xfr", "1s3c08.xfr",
                "1s3c16.xfr", "1s3c16.xfr", "1s3c32.xfr", "1s3c32.xfr",
            ],
        ),
    ],
)  # fmt: skip
def test_a_variable_enables(variable, expected):
    assert names(f"{CLASSIC}SET {variable}=1\nRUN ExpRate\n") == expected


def test_the_two_tests_of_rate2r1_are_those_of_1m():
    ran = experiments(dry_run(f"{CLASSIC}RUN ExpRate rate2r1=1\n"))
    assert [each.per_client() for each in ran] == [
        "1s2c2.fr | c1 c2 | 2x1M",
        "1s2c2.1fr | c1 c2 | 1x1M + 1x1M + 1x10K",
    ]


def test_a_variable_set_to_zero_enables_nothing():
    assert names(f"{CLASSIC}SET rate1=0\nSET rate1s=1\nRUN ExpRate\n") == ["1s1c1fs"]


def test_without_a_variable_it_says_that_nothing_runs():
    assert echoed(f"{CLASSIC}RUN ExpRate\n") == [
        "# ExpRate ran nothing: no test is enabled. SET rate1=1 enables two."
    ]


def test_it_brings_inlib_with_it():
    assert names(f"SOURCE inlib.rateTest\n{CALL} rate1=1\n") == ["1s1c1fr", "1s1c1fs"]


def test_a_script_that_has_an_inlib_of_its_own_keeps_it(tmp_path):
    (tmp_path / "own").write_text("BEGIN MServerRR\nECHO mine\nEND MServerRR\n")
    text = f"SOURCE {tmp_path}/own\nSOURCE inlib.rateTest\n{CALL} rate1r=1\n"
    assert echoed(text) == ["# mine"]


def test_each_congestion_control_of_a_list_is_tested():
    ran = experiments(dry_run(f"{CLASSIC}SET ca=cubic,bbr\nRUN ExpRate rate1=1\n"))
    assert [each.describe("ca", "dur", "delay", "group", "reply") for each in ran] == [
        "1s1c1fr | c1:1M ca=cubic dur=60 delay=0 group=1 reply=1",
        "1s1c1fr | c1:1M ca=bbr dur=60 delay=0 group=1 reply=1",
        "1s1c1fs | c1:S ca=cubic dur=60 delay=0 group=1 reply=1",
        "1s1c1fs | c1:S ca=bbr dur=60 delay=0 group=1 reply=1",
    ]


def test_arguments_reach_the_flows():
    text = f"SOURCE inlib.rateTest\n{CALL} instances=3 reply=9 reqs1F=2M reqs1=3M rate2r1=1\n"
    assert [each.describe("dur", "instances", "reply") for each in experiments(dry_run(text))] == [
        "1s2c2.fr | c1:2M dur=60 instances=6 reply=9, c2:2M dur=60 instances=6 reply=9",
        (
            "1s2c2.1fr | c1:3M dur=60 instances=3 reply=9, c1:3M dur=60 instances=3 reply=9, "
            "c1:10K dur=60 instances=3 reply=9, c2:3M dur=60 instances=3 reply=9, "
            "c2:3M dur=60 instances=3 reply=9, c2:10K dur=60 instances=3 reply=9"
        ),
    ]


def test_groups_are_numbered_from_one_in_each_experiment():
    ran = experiments(dry_run(f"{CLASSIC}RUN ExpRate rate2r1=1\n"))
    assert [[flow["group"] for flow in each.flows] for each in ran] == [
        ["1", "2"],
        ["1", "2", "3", "4", "5", "6"],
    ]


def test_duration_is_that_of_the_flows_and_nothing_is_waited_for_by_the_clock():
    assert traffic_s(f"{CLASSIC}SET randDelay=0\nRUN ExpRate {ALL}\n") == 41 * 60.0


def test_the_example_in_the_comment_is_sound(tmp_path):
    text = (LIBRARY / "inlib.rateTest").read_text()
    call = found(r"# Example:   (RUN (?:.*\\\n# +)*.*)", text)[1]
    path = tmp_path / "example.nts"
    path.write_text("SOURCE inlib.rateTest\n" + re.sub(r"\\\n# +", " ", call) + "\n")
    assert check([path], library_path=[LIBRARY], definitions={}) == []


def test_defaults_are_no_globals():
    said = echoed(
        "SOURCE inlib.rateTest\nRUN ExpRate servers1=s clients1=c1 ca=bbr rate1=1\n"
        "ECHO $dur $instances $reply $reqs1F $reqs1\n"
    )
    assert said[0] == "# $dur $instances $reply $reqs1F $reqs1"
