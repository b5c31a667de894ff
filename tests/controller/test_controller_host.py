"""A host's clock, where it is the controller's own; and an agent that cannot come back."""

import asyncio
import contextlib

from scripted_agent import ScriptedAgent

from netesto.collectors.clock import Clock
from netesto.controller.host import RETURN_S, HostConnection, of_one_clock
from netesto.errors import AgentGoneError
from netesto.model import ClockOffset, Endpoint


def test_one_clock_has_no_offset_though_its_measurement_is_not_exact():
    assert of_one_clock(ClockOffset(0.0004, 0.0005)) == ClockOffset(0.0, 0.0)


def test_a_clock_that_was_set_meanwhile_is_believed_as_measured():
    assert of_one_clock(ClockOffset(-0.05, 0.0005)) == ClockOffset(-0.05, 0.0005)


def test_an_agent_for_one_run_that_has_ended_is_not_waited_for():
    """Others are waited for for 60 s."""
    agent, lost = ScriptedAgent("a"), asyncio.Event()
    ways = iter([agent])

    async def connect(endpoint: Endpoint):
        found = next(ways, None)
        if found is None:
            raise AgentGoneError("its ssh has ended", host=endpoint.host)
        return contextlib.nullcontext(found)

    async def scenario() -> str | None:
        host = HostConnection(
            Endpoint(host="a", agent="", addresses={}),
            connect=connect,
            clock=Clock(),
            on_event=lambda *_: None,
            on_lost=lambda *_: lost.set(),
        )
        await host.open(run="1")
        agent.events.put_nowait(None)
        await lost.wait()
        await asyncio.wait_for(host.ready(), RETURN_S / 2)
        reason = host.lost
        await host.close()
        return reason

    assert asyncio.run(scenario()) == "agent lost: connection lost"
