"""Commands of the language as requests of agents, and what hosts lack for them."""

from ipaddress import ip_address
from typing import Any

import pytest
from scripted_agent import HERE, do_client
from test_controller_preflight import info

from netesto.controller import requests
from netesto.errors import ScriptError, WorldError
from netesto.language import ports
from netesto.model import Endpoint, Netem, Qdisc, Sysctl

A = Endpoint(host="a", agent="", addresses={4: ip_address("10.0.0.1")})
B = Endpoint(host="b", agent="", addresses={4: ip_address("10.0.0.2")})


def request_of(command: ports.DoClient, family: int = 4):
    return requests.group_request(
        command,
        client=A,
        server=B,
        client_info=info("a"),
        server_info=info("b"),
        family=family,
    )


def missing(command: ports.RemoteCommand) -> list[str]:
    infos = {"a": info("a"), "b": info("b")}
    return requests.missing(command, infos, {"a": A, "b": B}, family=4)


def set_command(kind: type[ports.RemoteCommand], **values: Any) -> ports.RemoteCommand:
    """A SET_* command to host a, outside of any experiment."""
    return kind(name="SET", host="a", exp=0, exp_name="", arguments={}, place=HERE, **values)


def test_a_family_without_an_address_is_refused():
    with pytest.raises(WorldError, match="a has no IPv6 address"):
        request_of(do_client(), family=6)


def test_nothing_is_missing_for_a_plain_flow():
    assert missing(do_client()) == []


def test_a_processor_that_a_host_does_not_have_is_missing():
    infos = {"a": info("a", processors=(0, 1)), "b": info("b", processors=(2, 3))}
    command = do_client(client_cpu=0, server_cpu=99)
    assert requests.missing(command, infos, {"a": A, "b": B}, family=4) == [
        "b: no processor 99 that its agent may use, only 2, 3"
    ]


def test_processors_are_not_looked_at_where_an_agent_does_not_tell_them():
    assert missing(do_client(client_cpu=0, server_cpu=99)) == []


def test_a_congestion_control_is_asked_of_who_sends():
    assert missing(do_client(congestion_control="nv", test="TCP_MAERTS")) == [
        "b: congestion control nv: not in this kernel (6.18.44), which has cubic, bbr"
    ]


def test_ecn_of_one_flow_is_refused_with_what_can_be_done():
    with pytest.raises(ScriptError, match="no tool sets ecn for one flow alone") as caught:
        requests.check_possible(do_client(ecn=True))
    assert caught.value.remedy == "SET_SYSCTL host=a net.ipv4.tcp_ecn=1 sets it for the host."


def test_what_no_tool_there_can_do_is_named():
    (lack,) = missing(do_client(zerocopy="msg"))
    assert lack.startswith("a→b: netperf cannot do TCP_STREAM with zerocopy=msg")


def test_a_qdisc_that_is_not_there_is_named():
    command = set_command(ports.SetQdisc, qdisc="fq", action="", options=())
    assert missing(command) == ["a: qdisc fq: not in this kernel (6.18.44)"]


def test_set_netem_becomes_a_setting():
    command = set_command(ports.SetNetem, delay_ms=10.5, limit_packets=1000, loss_percent=0.01)
    assert requests.settings(command) == [Netem(10.5, 1000, 0.01)]


def test_each_sysctl_becomes_a_setting():
    values = {"net.ipv4.tcp_ecn": "1", "net.ipv4.tcp_wmem": "1 2 3"}
    command = set_command(ports.SetSysctl, values=values)
    assert requests.settings(command) == [
        Sysctl("net.ipv4.tcp_ecn", "1"),
        Sysctl("net.ipv4.tcp_wmem", "1 2 3"),
    ]


def test_deleting_a_qdisc_needs_none():
    command = set_command(ports.SetQdisc, qdisc="fq", action="del", options=())
    assert (requests.needed_qdisc(command), requests.settings(command)) == (
        "",
        [Qdisc("fq", (), "del")],
    )
