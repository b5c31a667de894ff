"""Commands of the language as requests of agents."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType

import pytest
from scripted_agent import do_client
from test_controller_preflight import A, B, info

from netesto.controller import requests
from netesto.errors import MissingError, ScriptError, WorldError
from netesto.language import steps
from netesto.model import LabLink
from netesto.traces import played

group_request = partial(requests.group_request, family=4, changed_rates_bps={})


def request_of(command: steps.DoClient, family: int = 4):
    return group_request(command, (A, info("a")), (B, info("b")), family=family)


def test_a_family_without_an_address_is_refused():
    with pytest.raises(WorldError, match="a has no IPv6 address"):
        request_of(do_client(), family=6)


def test_ecn_of_one_flow_is_refused_with_what_can_be_done():
    with pytest.raises(ScriptError, match="no tool sets ecn for a single flow") as caught:
        requests.check_possible(do_client(ecn=True))
    assert caught.value.remedy == "SET_SYSCTL host=a net.ipv4.tcp_ecn=1 sets it for the host."


@pytest.mark.parametrize(
    ("test", "receiver"), [("TCP_STREAM", "b"), ("TCP_RR", "b"), ("TCP_MAERTS", "a")]
)
def test_a_receiver_that_may_not_use_cubic_uses_reno(test: str, receiver: str):
    bounded = {"allowed_congestion_controls": ("bbr", "reno")}
    found = [
        group_request(
            do_client(test=test),
            (A, info("a", **(bounded if name == "a" else {}))),
            (B, info("b", **(bounded if name == "b" else {}))),
        ).reverse_congestion_control
        for name in (receiver, "ab".replace(receiver, ""))
    ]
    assert found == ["reno", "cubic"]


def test_a_congestion_control_that_a_script_chose_for_both_ends_stays():
    bounded = info("b", allowed_congestion_controls=("reno",))
    command = do_client(reverse_congestion_control="dctcp")
    made = group_request(command, (A, info("a")), (B, bounded))
    assert made.reverse_congestion_control == "dctcp"


@pytest.mark.parametrize(
    ("test", "tool"), [("UDP_STREAM", "auto"), ("UDP_STREAM", "native"), ("TCP_STREAM", "iperf3")]
)
def test_cubic_that_a_script_chose_for_the_receiver_is_refused_where_it_has_no_effect(test, tool):
    asked = replace(
        do_client(test=test, tool=tool, congestion_control="reno"),
        arguments={"remoteCa": "cubic"},
    )
    with pytest.raises(ScriptError, match=f"can(not)? do {test} with remoteCa"):
        requests.check_possible(asked)


def test_cubic_that_a_script_chose_for_the_receiver_is_not_replaced():
    bounded = info("b", allowed_congestion_controls=("reno",))
    asked = replace(do_client(), arguments={"remoteCa": "cubic"})
    made = group_request(asked, (A, info("a")), (B, bounded))
    assert made.reverse_congestion_control == "cubic"


def datagrams(
    *rates_bps: float | None,
    changed: Mapping[tuple[str, str], float | None] = MappingProxyType({}),
    **flow,
):
    """The request that a UDP_STREAM becomes on a lab in simulated time, where it passes links with
    these rates: from a to 1, from 1 to 2, and so on."""
    nodes = ["a", *map(str, range(1, len(rates_bps)))]
    ends = pairwise([*nodes, "b"])
    links = [LabLink(*each) for each in zip(ends, rates_bps, strict=bool(rates_bps))]
    client = replace(A, is_simulated=True, paths={"b": links})
    able = replace(info("a"), tools={"netperf": "2.7.0", "iperf3": "3.12", "native": "1"})
    command = do_client(test="UDP_STREAM", **flow)
    return group_request(command, (client, able), (B, able), changed_rates_bps=changed)


@pytest.mark.parametrize(
    ("tool", "simulated", "asked_s", "stagger_s"),
    [
        ("netperf", True, None, 0.001),
        ("iperf3", True, None, 0.001),
        ("netperf", True, 0.0, 0.0),
        # It is ready, and sends at its instant.
        ("native", True, None, None),
        ("native", True, 0.02, 0.02),
        ("netperf", False, None, None),
        ("netperf", False, 0.02, 0.02),
    ],
)
def test_programs_take_time_to_start_also_in_simulated_time(tool, simulated, asked_s, stagger_s):
    able = replace(info("a"), tools={"netperf": "2.7.0", "iperf3": "3.12", "native": "1"})
    client = replace(A, is_simulated=simulated)
    asked = do_client(test="TCP_STREAM", tool=tool, stagger_s=asked_s)
    assert group_request(asked, (client, able), (B, able)).stagger_s == stagger_s


def test_in_simulated_time_datagrams_are_sent_by_the_tool_that_can():
    assert datagrams(bitrate_bps=1e6).tool == "native"


def test_datagrams_without_a_rate_are_a_fifth_more_than_the_first_shaped_link_carries():
    assert datagrams(None, 10e6, 1e6).bitrate_bps == 12e6


def test_a_rate_of_a_link_that_the_script_has_changed_is_the_one_that_counts():
    assert datagrams(None, 10e6, changed={("1", "b"): 5e6}).bitrate_bps == 6e6


def test_a_rate_that_was_given_is_not_changed():
    assert datagrams(10e6, bitrate_bps=1e6).bitrate_bps == 1e6


def trace_rate_bps(*first_bps: float | None, elsewhere_bps: float | None = None):
    """The rate of a's datagrams of a trace to b and c, to which its first links have these rates;
    before them is the path of another command, to a host beyond a link of another rate."""
    peers = {name: replace(B, host=name) for name in ("b", "c")[: len(first_bps)]}
    head = played.HostPart(end_us=1e6, drain_s=1, peers=tuple(peers), count=1)
    links = {"d": [LabLink(("a", "3"), elsewhere_bps)]} | {
        name: [LabLink(("a", name), rate_bps), LabLink((name, "z"), 1e3)]
        for name, rate_bps in zip(peers, first_bps, strict=True)
    }
    able = replace(info("a"), tools={"native": "1"})
    asked = do_client(test="TRACE_UDP", tool="native", trace=head.text)
    members = {each.name: getattr(asked, each.name) for each in fields(asked)}
    command = steps.DoTrace(**members, peers=tuple(peers))
    client = replace(A, paths=links)
    made = group_request(command, (client, able), (peers["b"], able), peers=peers)
    return made.bitrate_bps


def test_a_trace_has_the_rate_of_its_own_first_link_not_of_that_to_hosts_of_other_commands():
    assert trace_rate_bps(2e6, elsewhere_bps=10e6) == 0.95 * 2e6


def test_a_trace_that_begins_on_links_of_one_rate_has_it():
    assert trace_rate_bps(2e6, 2e6) == 0.95 * 2e6


@pytest.mark.parametrize("rates_bps", [(2e6, 10e6), (2e6, None)])
def test_a_trace_that_begins_on_links_of_different_rates_needs_one(rates_bps):
    with pytest.raises(MissingError, match="to the hosts of the trace have different rates"):
        trace_rate_bps(*rates_bps)


def test_a_trace_without_a_rate_on_its_own_first_link_is_refused():
    with pytest.raises(MissingError, match="the first link of a has no rate"):
        trace_rate_bps(None, elsewhere_bps=10e6)


def test_datagrams_that_nothing_limits_are_refused_in_simulated_time():
    with pytest.raises(MissingError, match="UDP_STREAM needs bitrate= here"):
        datagrams(None)
