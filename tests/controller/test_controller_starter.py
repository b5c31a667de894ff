"""Flows that are held start together."""

import asyncio
from pathlib import Path

import pytest
from scripted_agent import do_client, release, statuses, world

from netesto.language import steps


async def test_held_flows_start_together_at_one_instant(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client(group=1, hold=True))
    await here.run.carry_out(do_client(group=2, hold=True))
    before = list(here.agents["a"].calls)
    await here.run.starter.start_held(0.2)
    assert (before, here.agents["a"].calls, len(here.agents["a"].starts_s)) == (
        [],
        ["start 1 1", "start 1 2", "begin 1 1 2"],
        1,
    )


async def test_the_server_of_held_flows_is_reported_their_instant(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client(hold=True))
    await here.run.starter.start_held(0.2)
    assert (here.agents["b"].calls[:2], here.agents["b"].starts_s == here.agents["a"].starts_s) == (
        ["expect 1 1", "begin 1 1"],
        True,
    )


async def test_a_flow_that_is_not_ready_in_time_fails_and_the_others_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("netesto.controller.starter.READY_TIMEOUT_S", 0.05)

    here = world(tmp_path)
    here.agents["b"].unready = True
    await here.run.carry_out(do_client(group=1, hold=True))
    await here.run.carry_out(do_client(group=2, between=("b", "a"), hold=True))
    await here.run.starter.start_held(0.0)
    await here.run.wait_flows(1, None)
    assert (statuses(here.run), "begin 1 2" in here.agents["b"].calls) == (
        ["ok", "b: not ready within 0.05 s"],
        False,
    )


async def test_a_flow_whose_agent_is_lost_while_it_gets_ready_fails_and_the_others_start(
    tmp_path: Path,
):
    here = world(tmp_path)
    here.agents["b"].unready = True
    await here.run.carry_out(do_client(group=1, between=("a", "a"), hold=True))
    await here.run.carry_out(do_client(group=2, between=("b", "b"), hold=True))
    starting = asyncio.create_task(here.run.starter.start_held(0.0))
    await here.agents["b"].asked.wait()
    here.agents["b"].events.put_nowait(None)
    await starting
    assert (statuses(here.run)[1], "begin 1 1" in here.agents["a"].calls) == (
        "b: agent lost: connection lost",
        True,
    )


async def test_a_flow_whose_client_lacks_what_it_needs_fails_and_the_others_start(tmp_path: Path):
    here = world(tmp_path)
    here.agents["b"].lacks = "netperf: no such traffic tool"
    await here.run.carry_out(do_client(group=1, hold=True))
    await here.run.carry_out(do_client(group=2, between=("b", "a"), hold=True))
    await here.run.starter.start_held(0.0)
    await here.run.wait_flows(1, None)
    assert statuses(here.run) == ["ok", "b: netperf: no such traffic tool"]


async def test_flows_start_as_soon_as_the_last_is_ready_but_not_before_the_lead(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client(hold=True))
    before_s = here.run.progress.clock.now()
    await here.run.starter.start_held(5.0)
    after_s = here.run.progress.clock.now()
    # It is ready at once. The offset of its clock is known to within some milliseconds.
    lead_s = here.agents["a"].starts_s[0] - before_s
    assert 4.8 < lead_s < 5.2 + after_s - before_s


async def test_held_flows_are_not_waited_for_before_they_are_started(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client(hold=True))
    await here.run.wait_flows(1, None)
    assert statuses(here.run) == [""]


@pytest.mark.parametrize("host", ["a", "b"])
@pytest.mark.parametrize("command", [steps.Close, steps.Exit])
def test_held_flows_of_a_host_that_is_released_fail_and_the_others_start(
    tmp_path: Path, command, host
):
    async def scenario():
        here = world(tmp_path)
        other = "b" if host == "a" else "a"
        await here.run.carry_out(do_client(group=1, hold=True))
        await here.run.carry_out(do_client(group=2, between=(other, other), hold=True))
        await here.run.carry_out(release(command, host))
        await here.run.starter.start_held(0.0)
        await here.run.wait_flows(1, None)
        return statuses(here.run)

    reason = f"{host}: {command.__name__.upper()} before the end of the flow"
    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == [reason, "ok"]
