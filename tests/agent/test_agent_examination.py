import contextlib
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from samplers import running_sampler

from netesto.agent import examination
from netesto.agent.experiment import Premises
from netesto.agent.journal import Journal
from netesto.agent.limits import AgentLimits
from netesto.agent.spool import Spool
from netesto.agent.tools import Tools
from netesto.collectors.clock import Clock
from netesto.collectors.sampler import Sampler
from netesto.model import InterfaceState, PathState
from netesto.traffic.ports import PortRange


@pytest.fixture(scope="module")
def sampler() -> Iterator[Sampler]:
    with running_sampler() as sampler:
        yield sampler


@pytest.fixture
def premises(tmp_path: Path, sampler: Sampler) -> Iterator[Premises]:
    with contextlib.closing(Journal(tmp_path / "journal")) as journal:
        yield Premises(
            host="a",
            device="lo",
            folder=tmp_path,
            spool=Spool(tmp_path / "spool"),
            journal=journal,
            clock=Clock(),
            sampler=sampler,
            tools=Tools({}),
            ports=PortRange(),
            limits=AgentLimits(),
        )


def loopback(peer: str) -> PathState:
    return PathState(peer=peer, device="lo", mtu_bytes=65535, answer="whole")


async def loopback_interface(premises: Premises) -> InterfaceState:
    state = await examination.examine([], premises)
    [found] = [each for each in state.interfaces if each.name == "lo"]
    return found


async def test_an_agent_tries_the_paths_that_it_is_asked_for(start_daemon):
    daemon = start_daemon("h1")
    async with daemon.held() as agent:
        state = await agent.examine([ip_address("127.0.0.1"), ip_address("127.0.0.2")])
    assert state.paths == (loopback("127.0.0.1"), loopback("127.0.0.2"))


async def test_a_path_to_where_no_flow_may_go_is_not_tried(premises):
    limits = AgentLimits(peers=(ip_network("10.0.0.0/8"),))
    state = await examination.examine([ip_address("127.0.0.9")], replace(premises, limits=limits))
    [path] = state.paths
    expected = (
        "To allow it, write in the agent.toml of an installed agent:"
        ' [limits] peers = ["127.0.0.9/32"]'
    )
    assert (path.answer, path.reason.split("\n")) == (
        "unreachable",
        ["no flows with 127.0.0.9", expected],
    )


async def test_interfaces_have_mtu_and_state(premises):
    found = await loopback_interface(premises)
    assert (found.mtu_bytes, found.is_up, found.refusal) == (65536, True, "")


async def test_an_interface_that_scripts_may_not_set_says_why(premises):
    found = await loopback_interface(replace(premises, device="eth9"))
    assert found.refusal == (
        "the interface lo is not the test interface\n"
        'To allow it, write in the agent.toml of an installed agent: [limits] interfaces = ["lo"]'
    )


async def test_a_disk_without_room_is_reported_with_the_key(premises):
    limits = AgentLimits(disk_reserve=1e18)
    state = await examination.examine([], replace(premises, limits=limits))
    assert ["[limits] disk_reserve" in each for each in state.refusals] == [True]


async def test_free_disk_is_that_of_the_agents_folder(premises):
    state = await examination.examine([], premises)
    assert 0 < state.disk_free_bytes < 1 << 60


async def test_commands_that_are_not_installed_are_named(premises, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    state = await examination.examine([], premises)
    assert state.missing_commands == ("ethtool", "ip", "ping", "tc", "tcpdump")
