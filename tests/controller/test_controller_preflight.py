from dataclasses import replace
from ipaddress import ip_address

import pytest
from scripted_agent import HERE, do_client

from netesto.controller import preflight
from netesto.controller.inventory import Inventory
from netesto.hostsettings import Qdisc, Sysctl
from netesto.language import steps
from netesto.language.finding import Finding
from netesto.language.steps import Requirement
from netesto.model import Endpoint, HostInfo, LabLink

A = Endpoint(host="a", agent="", addresses={4: ip_address("10.0.0.1")})
B = Endpoint(host="b", agent="", addresses={4: ip_address("10.0.0.2")})


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


def unmet(what: str, operator: str, value: str, *hosts: HostInfo) -> list[str]:
    infos = {each.host: each for each in hosts or [info("h1")]}
    return preflight.unmet(requirement(what, operator, value), infos, count=len(infos))


def test_a_met_requirement_is_silent():
    found = [unmet("kernel", ">=", "6.1"), unmet("ca", "=", "bbr,cubic")]
    assert found == [[], []]


def test_an_unmet_requirement_names_host_and_what_is_missing():
    assert [*unmet("ca", "=", "dctcp,cubic"), *unmet("tool", "=", "iperf3")] == [
        "REQUIRE ca=dctcp,cubic: h1 has no dctcp, only cubic bbr",
        "REQUIRE tool=iperf3: h1 has no iperf3, only netperf",
    ]


def test_what_must_not_be_there_is_reported_with_where_it_is():
    assert unmet("ca", "!=", "dctcp,cubic") == ["REQUIRE ca!=dctcp,cubic: h1 has cubic"]


def test_what_must_not_be_there_and_is_not_is_silent():
    assert unmet("ca", "!=", "dctcp") == []


def test_qdiscs_that_are_not_known_meet_no_requirement():
    assert unmet("qdisc", "!=", "fq", info("h1", qdiscs=())) == [
        "REQUIRE qdisc!=fq: h1 could not find out which qdiscs its kernel has"
    ]


def test_too_few_hosts_do_not_meet_hosts():
    assert unmet("hosts", "=", "4") == ["REQUIRE hosts=4: there is 1 host"]


def test_more_hosts_than_asked_meet_hosts():
    assert unmet("hosts", "=", "2", info("h1"), info("h2"), info("h3")) == []


def test_all_that_is_required_and_missing_is_reported_with_its_line_before_a_run():
    asked = [requirement("ca", "=", "dctcp"), requirement("hosts", ">", "1")]
    found = preflight.findings([], Inventory([A]), {"a": info("a")}, asked, family=4)
    assert found == [
        Finding("REQUIRE ca=dctcp: a has no dctcp, only cubic bbr", HERE),
        Finding("REQUIRE hosts>1: there is 1 host", HERE),
    ]


def missing(command: steps.RemoteCommand, **infos: HostInfo) -> list[tuple[str, str]]:
    """What is missing on hosts a and b, and what to do about it."""
    return missing_between(A, command, **infos)


def missing_between(
    client: Endpoint, command: steps.RemoteCommand, **infos: HostInfo
) -> list[tuple[str, str]]:
    known = {"a": info("a"), "b": info("b")} | infos
    found = preflight.missing(command, known, {"a": client, "b": B}, family=4)
    return [(finding.message, finding.remedy) for finding in found]


def test_nothing_is_missing_for_a_plain_flow():
    assert missing(do_client()) == []


def test_a_processor_that_an_agent_may_not_use_is_missing():
    hosts = {"a": info("a", processors=(0, 1)), "b": info("b", processors=(2, 3))}
    assert missing(do_client(client_cpus=(0,), server_cpus=(99,)), **hosts) == [
        ("b: its agent may not use processor 99, only 2-3", "")
    ]


def test_processors_are_not_checked_where_an_agent_does_not_report_them():
    assert missing(do_client(client_cpus=(0,), server_cpus=(99,))) == []


def test_the_sender_needs_the_congestion_control():
    assert missing(do_client(congestion_control="nv", test="TCP_MAERTS")) == [
        (
            "b: congestion control nv: not in this kernel (6.18.44), which has cubic, bbr",
            "Use another one, or a kernel with tcp_nv.",
        )
    ]


def test_a_misspelt_congestion_control_leads_to_the_one_that_is_there():
    assert [remedy for _, remedy in missing(do_client(congestion_control="cubik"))] == [
        "Did you mean cubic?"
    ]


def test_a_congestion_control_that_the_agent_of_the_sender_may_not_use_is_reported():
    bounded = info("a", allowed_congestion_controls=("bbr", "reno"))
    key = "net.ipv4.tcp_allowed_congestion_control"
    remedy = f'As root on the host: modprobe tcp_cubic; sysctl {key}="$(sysctl -n {key}) cubic".'
    assert missing(do_client(), a=bounded) == [
        (
            "a: congestion control cubic: only root may use it, its agent may use bbr, reno",
            f"{remedy} An agent that runs as root may use all.",
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, []),
        (
            {"remoteCa": "cubic"},
            ["b: congestion control cubic: only root may use it, its agent may use bbr, reno"],
        ),
    ],
)
def test_the_receiver_needs_the_usual_control_only_if_a_script_chose_it(arguments, found):
    bounded = info("b", allowed_congestion_controls=("bbr", "reno"))
    asked = replace(do_client(congestion_control="bbr"), arguments=arguments)
    assert [text for text, _ in missing(asked, b=bounded)] == found


def test_a_host_that_is_both_ends_needs_no_control_that_nobody_chose():
    controls = ("bbr", "cubic")
    alone = info("a", congestion_controls=controls, allowed_congestion_controls=("bbr",))
    command = replace(do_client(congestion_control="bbr"), server="a")
    assert missing(command, a=alone) == []


def test_two_names_of_a_script_for_one_host_are_a_warning():
    both = Inventory([A], aliases={"b": "a"})
    found = preflight.findings([do_client()], both, {"a": info("a")}, family=4)
    said = "a and b are one host, a: flows between them never leave it"
    assert found == [Finding(said, HERE, "warning")]


def test_hosts_that_have_one_host_name_are_reported_by_the_names_of_their_file():
    infos = dict.fromkeys("ab", info("debian", congestion_controls=("bbr",)))
    asked = replace(do_client(), arguments={"remoteCa": "cubic"})
    found = preflight.findings([asked], Inventory([A, B]), infos, family=4)
    lacks = "congestion control cubic: not in this kernel (6.18.44), which has bbr"
    assert [each.message for each in found] == [f"a: {lacks}", f"b: {lacks}"]


def test_a_host_without_an_address_of_the_family_is_one_finding_of_all():
    requirements = [requirement("ca", "=", "dctcp")]
    infos = {"a": info("a"), "b": info("b", congestion_controls=("cubic", "dctcp"))}
    found = preflight.findings([do_client()], Inventory([A, B]), infos, requirements, family=6)
    assert [(each.message, each.remedy) for each in found] == [
        ("REQUIRE ca=dctcp: a has no dctcp, only cubic bbr", ""),
        (
            "a→b: a has no IPv6 address",
            "It has 10.0.0.1; choose the version with --family.",
        ),
    ]


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        (False, [
            "a→b: UDP_STREAM needs bitrate= here: in simulated time, no link on its path limits it"
        ]),
        (True, []),
    ],
)  # fmt: skip
def test_a_link_that_the_script_changes_may_get_its_rate_in_the_run(changes, lacking):
    """LAB pair                     # without rate=
    SET_LINK host=h1 rate=10mbit
    DO_CLIENT host=h1 server=h2 test=UDP_STREAM
    """
    path = [LabLink(("a", "b"), None, changes=changes)]
    client = replace(A, is_simulated=True, paths={"b": path})
    a, b = info("a", tools={"native": "1"}), info("b", tools={"native": "1"})
    found = missing_between(client, do_client(test="UDP_STREAM"), a=a, b=b)
    assert [message for message, _ in found] == lacking


def test_what_no_tool_there_can_do_is_missing_with_what_to_do():
    assert missing(do_client(tool="iperf3", test="TCP_RR")) == [
        ("a→b: iperf3 cannot do TCP_RR", "tool=netperf can.")
    ]


def test_a_qdisc_that_is_not_there_is_missing():
    command = steps.Configure(
        name="SET_QDISC", host="a", exp=0, exp_name="", arguments={}, place=HERE,
        settings=(Qdisc("fq"),),
    )  # fmt: skip
    told = "a: qdisc fq: not in this kernel (6.18.44), which has tbf"
    assert missing(command) == [(told, "Use another one, or a kernel with sch_fq.")]


def test_a_misspelt_qdisc_of_a_sysctl_leads_to_the_one_that_is_there():
    command = steps.Configure(
        name="SET_SYSCTL", host="a", exp=0, exp_name="", arguments={}, place=HERE,
        settings=(Sysctl("net.core.default_qdisc", "tbff"),),
    )  # fmt: skip
    told = "a: qdisc tbff: not in this kernel (6.18.44), which has tbf"
    assert missing(command) == [(told, "Did you mean tbf?")]


def test_what_is_missing_for_commands_is_reported_with_what_to_do():
    absent = {"a": info("a", tools={}), "b": info("b", tools={})}
    command = do_client(tool="netperf")
    found = preflight.findings([command, command], Inventory([A, B]), absent, family=4)
    message, remedy = "netperf is not installed at both hosts", "In Debian: apt install netperf"
    assert found == [Finding(f"a→b: {message}", HERE, remedy=remedy)]


def test_a_tool_that_does_not_answer_is_not_missing():
    hangs = info(
        "b", tools={}, unusable_tools={"netperf": "netperf: still running after 2 s, ended"}
    )
    told = "a→b: netperf of b is not used: netperf: still running after 2 s, ended"
    assert missing(do_client(tool="netperf"), b=hangs) == [(told, "")]


def test_a_tool_that_does_not_answer_does_not_meet_a_requirement():
    hangs = info("a", tools={"iperf3": "3.12"}, unusable_tools={"netperf": "ended"})
    needed = requirement("tool", "=", "netperf")
    assert preflight.unmet(needed, {"a": hangs}, count=1) == [
        "REQUIRE tool=netperf: a has no usable netperf, only iperf3"
    ]


def test_nothing_is_missing_on_a_host_of_which_nothing_is_known():
    known = {"a": info("a", tools={})}
    found = preflight.findings([do_client()], Inventory([A, B]), known, family=4)
    assert found == []


def test_a_version_that_cannot_do_a_test_is_missing_before_the_run():
    old = {name: info(name, tools={"iperf3": version}) for name, version in OLD_IPERF3.items()}
    found = preflight.findings(
        [do_client(tool="iperf3", test="UDP_STREAM")], Inventory([A, B]), old, family=4
    )
    lack = "3.9 does not report which datagrams arrived; versions since 3.10 do"
    assert [each.message for each in found] == [f"a→b: iperf3 {lack}"]


OLD_IPERF3 = {"a": "3.12", "b": "3.9"}
