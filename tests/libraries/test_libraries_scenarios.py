"""scripts/*.nts: each is valid, has a description, and takes as long as it says."""

import re

import pytest
from library_runs import LIBRARY, SCRIPTS, dry_run, experiments, traffic_s
from typed import found

from netesto.flowspec import COMPLETION_TESTS, LINK_TESTS
from netesto.lab import topology
from netesto.language.check import check
from netesto.units import parse_time

NAMES = sorted(path.name for path in SCRIPTS.glob("*.nts"))


# Their flows end with the last transfer, at an instant that nobody knows.
UNTIL_DONE = {"protected-link-fct.nts", "protected-link-messages.nts"}

# What netesto says of scripts that are as they should be.
WARNINGS = {
    "trees-balance.nts": [
        "3584 of 3840 flows are not sampled as sockets: at most 256 are at a time"
    ]
}


def head(name):
    """The comment that a script begins with."""
    return found(r"\A(?:#.*\n)+", (SCRIPTS / name).read_text())[0]


def lab_hosts(request):
    return topology.build(request.topology, request.settings).hosts


def seconds(text):
    """`14 min`, `25 s`, `2 min 30 s` in seconds."""
    return sum(parse_time(number + unit) for number, unit in re.findall(r"(\d+) (min|s)\b", text))


@pytest.mark.parametrize("name", NAMES)
def test_script_is_sound(name):
    found = check([SCRIPTS / name], library_path=[LIBRARY], definitions={}, lab_hosts=lab_hosts)
    assert [each.message for each in found] == WARNINGS.get(name, [])


@pytest.mark.parametrize("name", NAMES)
def test_script_begins_with_what_it_is(name):
    parts = re.findall(r"^# (Compares|Topology|Takes|Look at) ", head(name), re.MULTILINE)
    assert parts == ["Compares", "Topology", "Takes", "Look at"]


@pytest.mark.parametrize("name", sorted({*NAMES} - UNTIL_DONE))
def test_script_takes_as_long_as_it_says(name):
    said = seconds(found(r"Takes +((?:\d+ (?:min|s) ?)+)", head(name))[1])
    assert said == pytest.approx(traffic_s((SCRIPTS / name).read_text()), rel=0.1)


@pytest.mark.parametrize("dur", [0.5, 2, 12])
@pytest.mark.parametrize("name", NAMES)
def test_flows_of_a_short_run_begin_and_end_within_it(name, dur):
    found = experiments(dry_run((SCRIPTS / name).read_text(), dur=str(dur)))
    ends = [
        float(flow["delay"]) + float(flow["dur"])
        for each in found
        for flow in each.flows
        if flow["test"] not in COMPLETION_TESTS | LINK_TESTS
    ]
    assert max(ends, default=0) <= dur + 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_columns_to_look_at_exist(name):
    fields = (SCRIPTS.parent / "fields.txt").read_text()
    columns = re.findall(r"^([^#\s:]+):", fields, re.MULTILINE)
    text = re.sub(r"--names \S+", "", head(name).partition("Look at")[2])
    named = set(re.findall(r"\b(?:rate|p\d+)[A-Z]\w+|\bretransSegs%|\w+(?==\w)", text))
    assert named - set(columns) == set()


def test_every_rate_test_runs():
    found = experiments(dry_run((SCRIPTS / "rate-tests.nts").read_text(), dur="2"))
    assert (len(found), len({each.per_client() for each in found})) == (41, 32)


def test_rate_tests_can_be_left_out():
    off = {"rate2": "0", "rate3": "0", "rate3s": "0", "rate3p": "0", "rate3x": "0"}
    found = experiments(dry_run((SCRIPTS / "rate-tests.nts").read_text(), **off))
    assert [each.name for each in found] == ["1s1c1fr", "1s1c1fs"]


@pytest.mark.parametrize("name", ["ca-tests.nts", "vs-tests.nts"])
def test_netem_is_used_only_when_asked_for(name):
    text = (SCRIPTS / name).read_text()
    without = [each for each in dry_run(text) if each.get("command") == "SET_NETEM"]
    asked = [
        each["args"] for each in dry_run(text, delay="20") if each.get("command") == "SET_NETEM"
    ]
    assert (without, [each["netem_delay"] for each in asked]) == ([], ["20", "0"])


def test_all_parts_of_the_ca_tests_run():
    found = experiments(dry_run((SCRIPTS / "ca-tests.nts").read_text()))
    assert [each.description for each in found] == [
        "cubic:cubic", "cubic:cubic", "bbr:bbr", "bbr:bbr",
        "cubic:bbr", "cubic:bbr", "bbr:cubic", "bbr:cubic",
    ]  # fmt: skip


def test_vs_tests_can_stop_after_the_first():
    found = experiments(dry_run((SCRIPTS / "vs-tests.nts").read_text(), ExpVsOne="1"))
    assert [each.name for each in found] == ["1s2c2frvs"]


def test_the_sweep_meets_every_cell_twice():
    found = experiments(dry_run((SCRIPTS / "sweep.nts").read_text()))
    cells = sorted((each.columns["ca"], int(each.columns["buffers"])) for each in found)
    assert cells == sorted(
        (ca, buffers)
        for ca in ("reno", "cubic", "bbr")
        for buffers in (30000, 100000, 300000)
        for _ in range(2)
    )


def test_the_custom_macro_starts_its_flows_together():
    found = experiments(dry_run((SCRIPTS / "custom-macro.nts").read_text()))
    assert [each.describe("instances", "dur", "delay", "hold") for each in found] == [
        "page | client1:500 instances=1 dur=8.0 delay=2.0 hold=1",
        (
            "page | client1:S instances=1 dur=10 delay=0 hold=1, "
            "client1:500 instances=1 dur=8.0 delay=2.0 hold=1"
        ),
        (
            "page | client1:S instances=4 dur=10 delay=0 hold=1, "
            "client1:500 instances=1 dur=8.0 delay=2.0 hold=1"
        ),
    ]
