"""Several controllers want the same hosts: each gets them, one after the other."""

import asyncio
import contextlib
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from scripted_agent import ScriptedAgent, Watcher

from netesto.controller import waiting
from netesto.controller.inventory import Inventory
from netesto.controller.run import RunNetwork, RunOnHosts
from netesto.errors import AgentBusyError, AgentError
from netesto.grounds import HOSTS
from netesto.model import Endpoint
from netesto.results.store import Store
from netesto.system import process

# Nothing here takes long; it only keeps a broken test from hanging.
DEADLINE_S = 60

FOR_EVER = float("inf")


class Party:
    """A controller that wants agents, in its own order."""

    def __init__(self, folder: Path, agents: Sequence[ScriptedAgent]) -> None:
        self.watcher = Watcher()
        by_name = {agent.host: agent for agent in agents}
        self.held = {agent.host: agent for agent in agents}

        async def connect(endpoint: Endpoint):
            return contextlib.nullcontext(by_name[endpoint.host])

        self.hosts = RunOnHosts(
            inventory=Inventory(
                [
                    Endpoint(host=name, agent="", addresses={4: ip_address("10.0.0.1")})
                    for name in by_name
                ]
            ),
            store=Store(folder),
            connect=connect,
            observer=self.watcher,
            network=RunNetwork(ground=HOSTS),
            name=folder.name,
        ).hosts

    async def wait(self, timeout_s: float = FOR_EVER) -> list[str]:
        await waiting.until_held(self.hosts, self.watcher, timeout_s=timeout_s)
        return sorted(self.hosts.held)


def in_time(scenario):
    return asyncio.run(asyncio.wait_for(scenario, DEADLINE_S))


def test_hosts_that_nobody_uses_are_held_at_once(tmp_path: Path):
    party = Party(tmp_path / "1", [ScriptedAgent("a"), ScriptedAgent("b")])
    assert (in_time(party.wait()), party.watcher.said) == (["a", "b"], [])


def test_who_waits_is_reported_who_uses_a_host_and_gets_it_when_it_is_free(tmp_path: Path):
    async def scenario():
        busy = ScriptedAgent("a", holder="ann@h pid 5")
        party = Party(tmp_path / "1", [busy, ScriptedAgent("b")])
        waits = asyncio.create_task(party.wait())
        assert await process.wait_until_async(lambda: bool(party.watcher.said), timeout=DEADLINE_S)
        busy.let_go()
        return await waits, party.watcher.said

    assert in_time(scenario()) == (["a", "b"], ["waiting: a: in use by ann@h pid 5"])


def test_who_waits_for_one_host_holds_no_other(tmp_path: Path):
    async def scenario():
        free = ScriptedAgent("b")
        party = Party(tmp_path / "1", [ScriptedAgent("a", holder="ann"), free])
        waits = asyncio.create_task(party.wait())
        assert await process.wait_until_async(lambda: bool(party.watcher.said), timeout=DEADLINE_S)
        holder = free.holder
        waits.cancel()
        await asyncio.wait({waits})
        return holder, waits.cancelled()

    assert in_time(scenario()) == ("", True)


def test_the_time_to_wait_has_an_end(tmp_path: Path):
    party = Party(tmp_path / "1", [ScriptedAgent("a", holder="ann")])
    with pytest.raises(AgentBusyError) as caught:
        in_time(party.wait(timeout_s=0.05))
    assert str(caught.value) == (
        "a: in use by ann\nIt was not free within 0.05 s; --wait without a time waits on."
    )


def test_a_host_that_we_hold_under_another_name_is_not_waited_for(tmp_path: Path):
    async def scenario():
        agents = [
            ScriptedAgent("a", identity="1"),
            ScriptedAgent("b", identity="1", holder="us"),
        ]
        hosts = Party(tmp_path / "1", agents).hosts
        await hosts.ready("a")
        try:
            await hosts.ready("b")
        finally:
            await hosts.close_all()

    with pytest.raises(AgentError) as caught:
        in_time(scenario())
    assert str(caught.value) == (
        "b: same agent as a\nEach host has its own agent; --map gives a host a second name."
    )


def test_controllers_that_name_hosts_in_different_orders_all_get_them(tmp_path: Path):
    async def scenario():
        agents = [ScriptedAgent(name) for name in "abcd"]
        orders = [agents, agents[::-1], agents[2:] + agents[:2], agents[1:] + agents[:1]]
        parties = [Party(tmp_path / str(number), each) for number, each in enumerate(orders)]

        async def turn(party: Party) -> list[str]:
            held = await party.wait()
            await asyncio.sleep(0)
            await party.hosts.close_all()
            return held

        return await asyncio.gather(*map(turn, parties))

    assert in_time(scenario()) == [["a", "b", "c", "d"]] * 4
