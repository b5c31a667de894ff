import pytest

from netesto.controller import preflight
from netesto.controller.inventory import Inventory
from netesto.errors import MissingError, Place
from netesto.language.ports import Requirement
from netesto.model import HostInfo

HERE = Place("a.nts", 1)


def info(host: str, **changes: object) -> HostInfo:
    facts: dict[str, object] = {
        "host": host,
        "version": "0.1.0",
        "kernel": "6.18.44",
        "cpus": 2,
        "memory_bytes": 1 << 30,
        "device": "eth0",
        "addresses": (),
        "tools": {"netperf": "2.7.0"},
        "congestion_controls": ("cubic", "bbr"),
        "qdiscs": ("tbf",),
    }
    return HostInfo(**{**facts, **changes})  # type: ignore[arg-type]


def requirement(what: str, operator: str, value: str) -> Requirement:
    return Requirement(what=what, operator=operator, value=value, place=HERE)


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        ("6.18.44", "6.1", 1),
        ("6.1.0-18-amd64", "6.1", 0),
        ("5.15.2", "6.1", -1),
        ("6", "6.1", -1),
    ],
)
def test_versions_compare_by_their_numbers(left: str, right: str, order: int):
    assert preflight.compare_versions(left, right) == order


def lacks(what: str, operator: str, value: str, *hosts: HostInfo) -> list[str]:
    infos = {each.host: each for each in hosts or [info("h1")]}
    return preflight.lacks(requirement(what, operator, value), infos)


def test_a_met_requirement_is_silent():
    found = [lacks("kernel", ">=", "6.1"), lacks("ca", "=", "bbr,cubic")]
    assert found == [[], []]


def test_an_unmet_requirement_names_host_and_what_is_missing():
    assert [*lacks("ca", "=", "dctcp,cubic"), *lacks("tool", "=", "iperf3")] == [
        "REQUIRE ca=dctcp,cubic: h1 lacks dctcp; it has cubic bbr",
        "REQUIRE tool=iperf3: h1 lacks iperf3; it has netperf",
    ]


def test_what_must_not_be_there_is_told_where_it_is():
    assert lacks("ca", "!=", "dctcp,cubic") == ["REQUIRE ca!=dctcp,cubic: h1 has cubic"]


def test_what_must_not_be_there_and_is_not_is_silent():
    assert lacks("ca", "!=", "dctcp") == []


def test_qdiscs_that_are_not_known_meet_no_requirement():
    assert lacks("qdisc", "!=", "fq", info("h1", qdiscs=())) == [
        "REQUIRE qdisc!=fq: h1 could not find out which qdiscs its kernel has"
    ]


def test_too_few_hosts_do_not_meet_hosts():
    assert lacks("hosts", "=", "4") == ["REQUIRE hosts=4: there is 1 host"]


def test_more_hosts_than_asked_meet_hosts():
    assert lacks("hosts", "=", "2", info("h1"), info("h2"), info("h3")) == []


def test_all_that_is_required_and_missing_is_told_with_its_line_before_a_run():
    asked = [requirement("ca", "=", "dctcp"), requirement("hosts", ">", "1")]
    with pytest.raises(MissingError) as caught:
        preflight.check([], Inventory([]), {"h1": info("h1")}, asked, family=4)
    assert str(caught.value) == (
        "REQUIRE ca=dctcp: h1 lacks dctcp; it has cubic bbr (needed at a.nts:1:1)\n"
        "REQUIRE hosts>1: there is 1 host (needed at a.nts:1:1)"
    )
