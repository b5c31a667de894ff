from ipaddress import ip_address

from netesto.agent import examination
from netesto.model import PathState


def loopback(peer: str) -> PathState:
    return PathState(peer=peer, device="lo", mtu_bytes=65535, answer="whole")


async def test_an_agent_tries_the_paths_that_it_is_asked_for(start_daemon):
    daemon = start_daemon("h1")
    async with daemon.held() as agent:
        state = await agent.examine([ip_address("127.0.0.1"), ip_address("127.0.0.2")])
    assert state.paths == (loopback("127.0.0.1"), loopback("127.0.0.2"))


async def test_interfaces_have_mtu_and_state(tmp_path):
    state = await examination.examine([], device="lo", folder=tmp_path)
    [found] = [each for each in state.interfaces if each.name == "lo"]
    assert (found.mtu_bytes, found.is_up) == (65536, True)


async def test_free_disk_is_that_of_the_agents_folder(tmp_path):
    state = await examination.examine([], device="lo", folder=tmp_path)
    assert 0 < state.disk_free_bytes < 1 << 60


async def test_commands_that_are_not_installed_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    state = await examination.examine([], device="lo", folder=tmp_path)
    assert state.missing_commands == ("ethtool", "ip", "ping", "tc", "tcpdump")
