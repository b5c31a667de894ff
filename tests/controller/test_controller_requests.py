"""Commands of the language as requests of agents."""

from typing import Any

import pytest
from scripted_agent import HERE, do_client
from test_controller_preflight import A, B, info

from netesto.controller import requests
from netesto.errors import ScriptError, WorldError
from netesto.language import ports
from netesto.model import Netem, Qdisc, Sysctl


def request_of(command: ports.DoClient, family: int = 4):
    return requests.group_request(
        command,
        client=A,
        server=B,
        client_info=info("a"),
        server_info=info("b"),
        family=family,
    )


def set_command(kind: type[ports.RemoteCommand], **values: Any) -> ports.RemoteCommand:
    """A SET_* command to host a, outside of any experiment."""
    return kind(name="SET", host="a", exp=0, exp_name="", arguments={}, place=HERE, **values)


def test_a_family_without_an_address_is_refused():
    with pytest.raises(WorldError, match="a has no IPv6 address"):
        request_of(do_client(), family=6)


def test_ecn_of_one_flow_is_refused_with_what_can_be_done():
    with pytest.raises(ScriptError, match="no tool sets ecn for a single flow") as caught:
        requests.check_possible(do_client(ecn=True))
    assert caught.value.remedy == "SET_SYSCTL host=a net.ipv4.tcp_ecn=1 sets it for the host."


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
