import pytest

from netesto.controller import preflight
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


def test_a_met_requirement_is_silent():
    asked = [requirement("kernel", ">=", "6.1"), requirement("ca", "=", "bbr,cubic")]
    assert preflight.require(asked, {"h1": info("h1")}) is None


def test_an_unmet_requirement_names_host_and_what_is_missing():
    asked = [requirement("ca", "=", "dctcp"), requirement("tool", "=", "iperf3")]
    with pytest.raises(MissingError) as caught:
        preflight.require(asked, {"h1": info("h1")})
    assert str(caught.value) == (
        "REQUIRE ca=dctcp: h1 has cubic bbr (needed at a.nts:1:1)\n"
        "REQUIRE tool=iperf3: h1 has netperf (needed at a.nts:1:1)"
    )


def test_too_few_hosts_do_not_meet_hosts():
    with pytest.raises(MissingError, match="REQUIRE hosts=4: there are 1 hosts"):
        preflight.require([requirement("hosts", "=", "4")], {"h1": info("h1")})


def test_more_hosts_than_asked_meet_hosts():
    hosts = {"h1": info("h1"), "h2": info("h2"), "h3": info("h3")}
    assert preflight.require([requirement("hosts", "=", "2")], hosts) is None
