"""Hosts are prepared for flows at the same time, and later steps wait for that."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import pytest
from scripted_agent import ScriptedAgent, Watcher, do_client, do_server, release

from netesto.controller.controller import Controller
from netesto.controller.inventory import Inventory
from netesto.controller.run import RunNetwork, RunOnHosts
from netesto.errors import AgentError
from netesto.grounds import LAB
from netesto.language import steps
from netesto.model import Endpoint
from netesto.results import fields, manifest
from netesto.results.store import Store

ROOT = Path(__file__).parents[2]

# What DO_SERVER calls at a host that has netperf.
STATS = "take_stats 1 0 TCP_STREAM TCP_RR netperf"


@dataclass
class Meeting(ScriptedAgent):
    """Its statistics are taken when those of all others have begun; one that `refuses` has none."""

    others: list["Meeting"] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def take_stats(
        self, exp: int, order: int, *, tests: Sequence[str] = (), tools: Sequence[str] = ()
    ) -> None:
        self.begun.set()
        for other in self.others:
            await asyncio.wait_for(other.begun.wait(), 60)
        if self.refuses:
            raise AgentError(self.refuses, host=self.host)
        await super().take_stats(exp, order, tests=tests, tools=tools)


@pytest.fixture
def agents() -> dict[str, Meeting]:
    return {name: Meeting(name, later_tools=("native",)) for name in "ab"}


@pytest.fixture
def tools() -> tuple[str, ...]:
    """Those that flows of the script name."""
    return ()


@pytest.fixture
def controller(
    agents: dict[str, Meeting], tools: tuple[str, ...], tmp_path: Path
) -> Iterator[Controller]:
    async def connect(endpoint: Endpoint):
        return contextlib.nullcontext(agents[endpoint.host])

    columns = fields.load(ROOT / "fields.txt")
    endpoints = [
        Endpoint(host=name, agent="", addresses={4: ip_address(f"10.0.0.{number}")})
        for number, name in enumerate(agents, start=1)
    ]
    with Controller(
        RunOnHosts(
            inventory=Inventory(endpoints),
            store=Store(tmp_path),
            connect=connect,
            observer=Watcher(),
            name="test",
            network=RunNetwork(ground=LAB),
            tools=frozenset(tools),
        ),
        fields=columns,
        claimable=columns,
        render=lambda _: None,
        index=lambda _: None,
    ) as made:
        made.open_hosts([])
        yield made


def test_hosts_are_prepared_at_the_same_time(controller, agents):
    agents["a"].others, agents["b"].others = [agents["b"]], [agents["a"]]
    controller.remote(do_server("a"))
    controller.remote(do_server("b"))
    controller.wait_flows(1, None)
    assert [agent.calls[-1] for agent in agents.values()] == [STATS] * 2


def test_commands_of_one_host_keep_their_order(controller, agents):
    agents["b"].others = [agents["a"]]
    controller.remote(do_server("b"))
    controller.remote(do_client(hold=True))
    controller.remote(do_server("a"))
    controller.start_flows(0.0)
    assert agents["b"].calls[:2] == [STATS, "expect 1 1"]


@pytest.mark.parametrize(
    ("tools", "started"),
    [((), True), (("netperf",), True), (("auto", "native"), True), (("native",), False)],
)
def test_no_server_is_started_that_no_flow_of_the_script_uses(controller, agents, started):
    controller.remote(do_server("a"))
    controller.wait_flows(1, None)
    assert agents["a"].calls == [STATS if started else "take_stats 1 0"]


def test_what_a_host_refuses_costs_the_experiment(controller, agents, tmp_path):
    agents["a"].refuses = "no room"
    controller.remote(do_server("a"))
    controller.remote(do_client())
    controller.wait_flows(1, None)
    controller.process_experiment(1, steps.ExperimentNotes())
    told = manifest.read(tmp_path / "1" / manifest.NAME)
    assert "a: no room (requested at a.nts:1:1)" in told.reasons


def test_a_released_host_that_cannot_be_held_again_costs_no_measurement(
    controller, agents, tmp_path
):
    controller.remote(do_client())
    controller.wait_flows(1, None)
    controller.remote(release(steps.Close, "b"))
    agents["b"].gone = True
    with pytest.raises(AgentError) as caught:
        controller.remote(do_client(group=2))
    processed = list(controller.interrupt(caught.value.message, {}, in_haste=False))
    told = manifest.read(tmp_path / "1" / manifest.NAME)
    assert (caught.value.message, [each.exp for each in processed], sorted(told.hosts)) == (
        "b: connection refused (requested at a.nts:1:1)",
        [1],
        ["a", "b"],
    )


def test_an_interrupted_run_leaves_no_preparation_behind(controller, agents):
    agents["a"].others = [Meeting("nobody")]
    controller.remote(do_server("a"))
    assert list(controller.interrupt("interrupted", {}, in_haste=True)) == []
    assert STATS not in agents["a"].calls
