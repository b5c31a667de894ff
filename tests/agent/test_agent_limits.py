"""What agent.toml allows a controller, and what it refuses."""

import asyncio
import math
import re
import sys
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from agent_daemons import StartDaemon
from agent_values import request

from netesto.agent import limits
from netesto.agent.limits import OF_LAB, AgentLimits
from netesto.errors import AgentError, NotAllowedError
from netesto.hostsettings import Qdisc, Sysctl
from netesto.model import CaptureRequest, Ports
from netesto.system import process

PEER = ip_address("10.0.0.2")
WORLD = ip_address("8.8.8.8")

# Independent of this machine.
ROOMY = AgentLimits(memory_reserve=0, disk_reserve=0)

# Another process that wants to hold the agent at the address that it is given.
OTHER = """
import asyncio, sys
from netesto.errors import AgentBusyError
from netesto.transport.client import connect

async def main():
    async with await connect(sys.argv[1], host="a", timeout=60) as agent:
        try:
            await anext(agent.hold("other", "run"))
        except AgentBusyError:
            pass

asyncio.run(main())
"""


def refused(check, *values: object, **named: object) -> str:
    """The refusal; "" if there is none."""
    try:
        check(*values, **named)
    except NotAllowedError as error:
        return str(error)
    return ""


def test_every_key_is_read():
    table = {
        "interfaces": ["eth0"],
        "keep": True,
        "peers": ["192.0.2.0/24"],
        "ports": ["5201", "6000-6009"],
        "duration": "48h",
        "flows": 7,
        "captures": "2G",
        "spool": "1G",
        "spool_age": "1d",
        "disk_reserve": 5000,
        "memory_reserve": "64M",
    }
    assert limits.read(table) == AgentLimits(
        interfaces=("eth0",),
        keep=True,
        peers=(ip_network("192.0.2.0/24"),),
        ports=(range(5201, 5202), range(6000, 6010)),
        duration=48 * 3600,
        flows=7,
        captures=2e9,
        spool=1e9,
        spool_age=24 * 3600,
        disk_reserve=5000,
        memory_reserve=64e6,
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"flow": 1}, "unknown key 'flow' in [limits]; it has captures, disk_reserve, duration"),
        ({"flows": 0}, "limits.flows: a whole number above 0 is required"),
        ({"interfaces": "eth0"}, "limits.interfaces: a list of strings is required"),
        ({"peers": ["10.0.0.1/8"]}, "limits.peers: 10.0.0.1/8 has host bits set"),
        ({"duration": "long"}, "limits.duration: 'long' is not a time"),
        ({"spool": True}, 'limits.spool: a number, or a string with a unit, such as "10G"'),
        ({"flows": True}, "limits.flows: a whole number above 0 is required"),
        ({"keep": 1}, "limits.keep: true or false is required"),
        ({"duration": "nanh"}, "limits.duration: 'nanh' is not a time"),
        ({"spool_age": "-1d"}, "limits.spool_age: -1d is not more than 0 s"),
        ({"spool_age": "7"}, 'limits.spool_age: 7: a unit is required, such as "7s" or "24h"'),
        ({"duration": 86400}, "limits.duration: 86400: a unit is required"),
        ({"ports": ["5-1"]}, "limits.ports: '5-1' is neither a port nor a range of ports"),
        ({"ports": ["70000"]}, "limits.ports: '70000' is neither a port nor a range of ports"),
        ({"interfaces": ["a b"]}, "limits.interfaces: invalid interface name 'a b'"),
        ([], "limits: a table is required: [limits]"),
    ],
)
def test_what_is_wrong_is_named(table: object, message: str):
    with pytest.raises((ValueError, TypeError)) as caught:
        limits.read(table)
    assert str(caught.value).startswith(message)


def test_interface_that_carries_management_is_refused_unless_it_is_named():
    assert refused(AgentLimits().check_interface, "eth0", managing=["eth0"], test="eth0") == (
        "the interface eth0 carries management of this host (its default route)\n"
        "To test through it nevertheless, write in the agent.toml of an installed agent:"
        ' device = "eth0". If there is a separate interface for tests, name that one:'
        ' device = "eth1".'
    )
    replace(AgentLimits(), interfaces=("eth0",)).check_interface(
        "eth0", managing=["eth0"], test="eth0"
    )
    AgentLimits().check_interface("eth0", managing=[], test="eth0")


def test_interface_that_is_not_for_tests_is_refused():
    assert refused(AgentLimits().check_interface, "eth2", managing=["eth0"], test="eth1") == (
        "the interface eth2 is not the test interface\n"
        'To allow it, write in the agent.toml of an installed agent: [limits] interfaces = ["eth2"]'
    )


def test_long_flow_is_refused():
    asked = request(duration_s=24 * 3600, delay_s=1)
    assert refused(ROOMY.check_group, asked, PEER, running=0) == (
        "a flow of 86401 s, with its delay; the longest is 86400 s\n"
        'To allow it, write in the agent.toml of an installed agent: [limits] duration = "86401s"'
    )


def test_flows_are_counted_with_those_that_run():
    asked = request(instances=10, parallel=2)
    ROOMY.check_group(asked, PEER, running=980)
    assert refused(ROOMY.check_group, asked, PEER, running=981) == (
        "1001 flows at the same time; 1000 are allowed\n"
        "To allow it, write in the agent.toml of an installed agent: [limits] flows = 1001"
    )


def test_peer_in_the_world_is_refused_unless_it_is_named():
    assert refused(ROOMY.check_group, request(), WORLD, running=0) == (
        "no flows with 8.8.8.8\nTo allow it, write in the agent.toml of an installed agent:"
        ' [limits] peers = ["8.8.8.8/32"]'
    )
    named = replace(ROOMY, peers=(ip_network("8.8.8.0/24"),))
    named.check_group(request(), WORLD, running=0)
    assert refused(named.check_group, request(), PEER, running=0).startswith("no flows with 10.")


@pytest.mark.parametrize(
    ("peer", "may"),
    [
        ("10.9.8.7", True),
        ("100.64.0.1", True),
        ("198.51.100.7", True),
        ("fd00::1", True),
        ("127.0.0.1", True),
        # A cloud's metadata, with credentials of the host.
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("255.255.255.255", False),
        ("10.1.1.255", False),
        ("10.1.1.1", True),
        ("240.0.0.1", False),
        ("224.0.0.1", False),
        ("ff02::1", False),
        ("0.0.0.0", False),
    ],
)
def test_without_named_networks_peers_are_hosts_of_private_ones(monkeypatch, peer, may):
    networks = [ip_network(each) for each in ("10.1.1.0/24", "169.254.0.0/16", "fe80::/64")]
    monkeypatch.setattr(limits, "_connected", lambda: networks)
    assert (refused(ROOMY.check_peer, ip_address(peer)) == "") is may


def test_a_named_network_may_be_a_link_local_one():
    named = replace(ROOMY, peers=(ip_network("169.254.7.0/24"),))
    assert refused(named.check_peer, ip_address("169.254.7.1")) == ""


def test_little_memory_lets_no_flow_start():
    message = refused(
        replace(ROOMY, memory_reserve=math.inf).check_group, request(), PEER, running=0
    )
    assert "of memory are available" in message
    assert "[limits] memory_reserve = " in message


def test_ports_of_others_are_refused():
    ROOMY.check_ports(Ports(control=(12865, 12866), data=(12900, 13899)))
    assert refused(ROOMY.check_ports, Ports(control=(22,), data=(12900,))) == (
        "no server of traffic at port 22\n"
        'To allow it, write in the agent.toml of an installed agent: [limits] ports = ["22-22"]'
    )


def test_large_capture_is_refused():
    whole = CaptureRequest(exp=1, host="a", peer=None, packets=700_000, snap_bytes=0)
    replace(ROOMY, captures=math.inf).check_capture(whole, 1500)
    ROOMY.check_capture(replace(whole, snap_bytes=128), 9000)
    ROOMY.check_capture(replace(whole, packets=600_000), 1500)
    assert refused(ROOMY.check_capture, whole, 1500).endswith('[limits] captures = "2G"')


def test_full_disk_and_full_spool_let_no_flow_start(tmp_path: Path):
    spool = tmp_path / "spool"
    (spool / "run" / "1").mkdir(parents=True)
    (spool / "run" / "1" / "flow.1.1.out").write_bytes(bytes(2000))
    ROOMY.check_room(spool)
    no_disk = refused(replace(ROOMY, disk_reserve=math.inf).check_room, spool)
    no_spool = refused(replace(ROOMY, spool=1999).check_room, spool)
    make_room = "\nMake room there. To allow it, write in the agent.toml of an installed agent: "
    assert (" free on the disk " in no_disk, f"{make_room}[limits] disk_" in no_disk) == (
        True,
        True,
    )
    assert no_spool.startswith("2 kB of data not fetched yet are in ")
    assert no_spool.endswith('[limits] spool = "2G"')


def test_a_lab_has_no_limits(tmp_path: Path):
    assert [
        refused(OF_LAB.check_interface, "eth7", managing=["eth7"], test="eth0"),
        refused(OF_LAB.check_group, request(duration_s=1e9, instances=9000), WORLD, running=9000),
        refused(OF_LAB.check_room, tmp_path / "spool"),
    ] == ["", "", ""]


async def test_each_of_several_who_are_connected_is_audited_for_what_it_claims(
    start_daemon: StartDaemon,
):
    daemon = start_daemon("a")
    argv = [sys.executable, "-c", OTHER, daemon.address]
    async with daemon.held():
        other = await asyncio.create_subprocess_exec(*argv)
        await other.wait()
    log = daemon.log.read_text()
    told = re.findall(r"netesto\.audit (hold|refused) claims=('.*?'|\w+)", log)
    assert told == [("hold", "'the test'"), ("refused", "other")]


@pytest.mark.lab
async def test_refusal_change_and_hold_are_audited_with_who_asked(start_daemon: StartDaemon):
    daemon = start_daemon("a", prefix=("unshare", "--net"))
    async with daemon.held() as a:
        await a.configure(Sysctl("net.ipv4.tcp_ecn", "1"))
        with pytest.raises(AgentError, match="eth9 is not the test interface"):
            await a.configure(Qdisc("fq", (), "", "eth9"))
    assert process.wait_until(lambda: "hold ended" in daemon.log.read_text(), timeout=60)
    lines = [line.split(" ", 1)[1] for line in daemon.log.read_text().splitlines()]
    assert [line for line in lines if "netesto.audit" in line] == [
        "info netesto.audit hold claims='the test' run=run",
        "info netesto.audit change claims='the test' setting='sysctl net.ipv4.tcp_ecn=1'",
        (
            "warning netesto.audit refused claims='the test'"
            " reason='the interface eth9 is not the test interface'"
        ),
        "info netesto.audit hold ended claims='the test' run=run",
    ]
