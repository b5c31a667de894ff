"""Commands of the language as requests of agents."""

from dataclasses import replace
from typing import Any

import pytest
from scripted_agent import HERE, do_client
from test_controller_preflight import A, B, info

from netesto.controller import requests
from netesto.errors import MissingError, ScriptError, WorldError
from netesto.hostsettings import Netem, Qdisc, Setting, Sysctl
from netesto.language import steps


def request_of(command: steps.DoClient, family: int = 4):
    return requests.group_request(command, (A, info("a")), (B, info("b")), family=family)


def test_a_family_without_an_address_is_refused():
    with pytest.raises(WorldError, match="a has no IPv6 address"):
        request_of(do_client(), family=6)


def test_ecn_of_one_flow_is_refused_with_what_can_be_done():
    with pytest.raises(ScriptError, match="no tool sets ecn for a single flow") as caught:
        requests.check_possible(do_client(ecn=True))
    assert caught.value.remedy == "SET_SYSCTL host=a net.ipv4.tcp_ecn=1 sets it for the host."


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        (Qdisc("fq"), "fq"),
        (Qdisc("fq", (), "delete"), ""),
        (Netem(10.5), "netem"),
        (Netem(0.0), ""),
        (Sysctl("net.ipv4.tcp_ecn", "1"), ""),
    ],
)
def test_qdisc_that_a_setting_needs(setting: Setting, kind: str):
    command = steps.Configure(
        name="SET", host="a", exp=0, exp_name="", arguments={}, place=HERE, settings=(setting,)
    )
    assert requests.needed_qdisc(command) == kind


@pytest.mark.parametrize(
    ("test", "receiver"), [("TCP_STREAM", "b"), ("TCP_RR", "b"), ("TCP_MAERTS", "a")]
)
def test_a_receiver_that_may_not_use_cubic_uses_reno(test: str, receiver: str):
    bounded = {"allowed_congestion_controls": ("bbr", "reno")}
    found = [
        requests.group_request(
            do_client(test=test),
            (A, info("a", **(bounded if name == "a" else {}))),
            (B, info("b", **(bounded if name == "b" else {}))),
            family=4,
        ).reverse_congestion_control
        for name in (receiver, "ab".replace(receiver, ""))
    ]
    assert found == ["reno", "cubic"]


def test_a_congestion_control_that_a_script_chose_for_both_ends_stays():
    bounded = info("b", allowed_congestion_controls=("reno",))
    command = do_client(reverse_congestion_control="dctcp")
    made = requests.group_request(command, (A, info("a")), (B, bounded), family=4)
    assert made.reverse_congestion_control == "dctcp"


@pytest.mark.parametrize(
    ("test", "tool"), [("UDP_STREAM", "auto"), ("UDP_STREAM", "native"), ("TCP_STREAM", "iperf3")]
)
def test_cubic_that_a_script_chose_for_the_receiver_is_refused_where_it_has_no_effect(test, tool):
    asked = replace(
        do_client(test=test, tool=tool, congestion_control="reno"),
        arguments={"remoteCa": "cubic"},
    )
    with pytest.raises(ScriptError, match=f"cannot do {test} with remoteCa"):
        requests.check_possible(asked)


def test_cubic_that_a_script_chose_for_the_receiver_is_not_replaced():
    bounded = info("b", allowed_congestion_controls=("reno",))
    asked = replace(do_client(), arguments={"remoteCa": "cubic"})
    made = requests.group_request(asked, (A, info("a")), (B, bounded), family=4)
    assert made.reverse_congestion_control == "cubic"


def datagrams(rates: dict[str, float], **flow: Any):
    """The request that a UDP_STREAM becomes on a lab in simulated time."""
    client = replace(A, is_simulated=True, first_rates_bps=rates)
    able = replace(info("a"), tools={"netperf": "2.7.0", "iperf3": "3.12", "native": "1"})
    command = do_client(test="UDP_STREAM", **flow)
    return requests.group_request(command, (client, able), (B, able), family=4)


def test_in_simulated_time_datagrams_are_sent_by_the_tool_that_can():
    assert datagrams({}, bitrate_bps=1e6).tool == "native"


def test_datagrams_without_a_rate_are_a_fifth_more_than_the_first_shaped_link_carries():
    assert datagrams({"b": 10e6}).bitrate_bps == 12e6


def test_a_rate_that_was_given_is_not_changed():
    assert datagrams({"b": 10e6}, bitrate_bps=1e6).bitrate_bps == 1e6


def test_datagrams_that_nothing_limits_are_refused_in_simulated_time():
    with pytest.raises(MissingError, match="UDP_STREAM needs bitrate= here"):
        datagrams({})
