"""The requests of a run to agents, and its handling of their replies."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from scripted_agent import do_client, do_server, get_data, release, set_sysctl, statuses, world

from netesto.errors import AgentError
from netesto.language import steps
from netesto.model import ClockReading, TimeSync
from netesto.results import severity
from netesto.system import process


async def test_a_flow_is_expected_at_the_server_started_at_the_client_and_forgotten(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    assert (here.agents["a"].calls, here.agents["b"].calls) == (
        ["start 1 1"],
        ["expect 1 1", "forget 1 1"],
    )


async def test_flows_that_end_well_make_an_experiment_that_is_ok(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client(instances=2))
    await here.run.wait_flows(1, None)
    assert (here.run.progress.experiments[1].status, statuses(here.run)) == ("ok", ["ok", "ok"])


@pytest.mark.parametrize(
    ("ground", "after"), [("hosts", TimeSync(True, 0.001, "chronyd")), ("lab", None)]
)
async def test_what_keeps_the_clock_of_another_machine_is_asked_after_its_flows(
    tmp_path: Path, ground, after
):
    here = world(tmp_path, ground=ground)
    await here.run.carry_out(do_client())
    before = here.run.hosts.held["a"].time_sync
    await here.run.carry_out(get_data("a"))
    assert (before, here.run.hosts.held["a"].time_sync) == (None, after)


@pytest.mark.parametrize(
    ("ground", "where"), [("hosts", "the controller"), ("lab", "this machine")]
)
async def test_a_set_system_time_of_the_controller_makes_the_experiment_partial(
    tmp_path: Path, ground: str, where: str
):
    here = world(tmp_path, ground=ground)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    here.run.network.clock.anchor_ns -= 3600 * 10**9
    experiment = here.run.progress.experiments[1]
    experiment.system.look()
    [reason] = experiment.reasons
    told = f"{where}: the system's time was set by +3600.0000 s (seen at "
    assert (experiment.status, reason.startswith(told)) == ("partial", True)


async def test_a_flow_that_fails_keeps_its_reason(tmp_path: Path):
    here = world(tmp_path, fails="netperf exited 1")
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    assert (here.run.progress.experiments[1].status, statuses(here.run), here.watcher.ended) == (
        "failed",
        ["netperf exited 1"],
        [("cubic a→b #1.1", "netperf exited 1")],
    )


async def test_a_lost_agent_fails_its_flows_with_the_reason(tmp_path: Path):
    here = world(tmp_path, dies=True)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    reason = "a: agent lost: connection lost"
    assert (statuses(here.run), here.run.progress.experiments[1].reasons) == ([reason], [reason])


async def test_an_agent_that_is_lost_as_soon_as_it_is_held_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    agent = (here := world(tmp_path, ground="hosts")).agents["a"]

    async def closed() -> ClockReading:
        await process.wait_until_async(agent.events.empty, timeout=60)
        raise AgentError("the connection was closed", host="a")

    monkeypatch.setattr(agent, "probe_clock", closed)
    agent.events.put_nowait(None)
    with pytest.raises(AgentError) as caught:
        await here.run.carry_out(do_client())
    reason = "a: agent lost: connection lost (requested at a.nts:1:1)"
    assert caught.value.message == reason


async def test_a_lost_agent_is_not_asked_for_more_of_the_experiment(tmp_path: Path):
    here = world(tmp_path, dies=True)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.carry_out(do_client(group=2))
    reason = "a: agent lost: connection lost"
    assert (
        statuses(here.run),
        here.run.progress.experiments[1].reasons,
        here.agents["a"].calls,
    ) == ([reason, reason], [reason], ["start 1 1"])


def test_a_host_that_is_lost_before_its_flow_takes_part_in_the_experiment(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_server("a"))
        here.agents["a"].events.put_nowait(None)
        await here.watcher.until("a: agent lost: connection lost")
        await here.run.carry_out(do_client())
        experiment = here.run.progress.experiments[1]
        return statuses(here.run), sorted(experiment.hosts)

    reason = "a: agent lost: connection lost"
    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ([reason], ["a", "b"])


def test_after_a_lost_agent_is_back_the_next_experiment_goes_well(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, dies=True)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        here.agents["a"].dies = False
        await here.run.carry_out(do_client(exp=2))
        await here.run.wait_flows(2, None)
        return [here.run.progress.experiments[exp].status for exp in (1, 2)]

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ["failed", "ok"]


@pytest.mark.parametrize(
    ("call", "command"), [("take_stats", do_server("a")), ("expect", do_client(between=("b", "a")))]
)
def test_an_experiment_that_a_lost_agent_had_not_begun_begins_when_it_is_back(
    tmp_path: Path, call: str, command: steps.RemoteCommand
):
    async def scenario():
        here = world(tmp_path, expires=call)
        await here.run.carry_out(command)
        await here.run.wait_flows(1, None)
        return here.run.progress.experiments[1].status, here.watcher.warnings

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (
        "ok",
        [
            "a: agent lost: connection lost",
            "a: its agent is back, with its settings made again",
        ],
    )


def test_an_experiment_that_a_lost_agent_had_begun_fails_for_the_loss(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, expires="expect")
        here.agents["a"].refuses = "experiment 1 of this run was finished before"
        await here.run.carry_out(do_client(between=("b", "a")))
        experiment = here.run.progress.experiments[1]
        return statuses(here.run), experiment.reasons, experiment.lost

    reason = "a: the hold has ended"
    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (
        [reason],
        [f"{reason} (requested at a.nts:1:1)"],
        {"a": reason},
    )


async def test_data_that_a_released_host_has_sent_are_not_asked_for_again(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.carry_out(release(steps.Close, "b"))
    here.agents["b"].gone = True
    await here.run.carry_out(get_data("b"))
    assert here.run.progress.experiments[1].reasons == []


async def test_a_flow_that_an_agent_refuses_fails_and_the_run_goes_on(tmp_path: Path):
    here = world(tmp_path)
    here.agents["b"].refuses = "No space left on device\nMake room."
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    reason = "b: No space left on device (requested at a.nts:1:1)"
    assert (
        statuses(here.run),
        here.run.progress.experiments[1].reasons,
        here.watcher.warnings,
    ) == (
        ["b: No space left on device"],
        [reason],
        [f"experiment 1: {reason}\n    Make room."],
    )


async def test_a_setting_that_an_agent_refuses_invalidates_the_experiment(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    here.agents["b"].lacks = "1"
    await here.run.carry_out(replace(set_sysctl("net.ipv4.tcp_ecn", "1", "b"), exp=1))
    experiment = here.run.progress.experiments[1]
    reason = "b: sysctl net.ipv4.tcp_ecn: not in this kernel (requested at a.nts:1:1)"
    assert (experiment.reasons, severity.unusual(experiment.warnings)) == (
        [reason],
        {reason: "invalidates"},
    )


async def test_a_flow_whose_client_lacks_what_it_needs_fails_at_once(tmp_path: Path):
    here = world(tmp_path)
    here.agents["a"].lacks = "netperf: no such traffic tool"
    await here.run.carry_out(do_client())
    await asyncio.wait_for(here.run.wait_flows(1, None), 60)
    assert statuses(here.run) == ["a: netperf: no such traffic tool"]


def test_after_an_abort_a_lost_agent_is_not_waited_for(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        here.agents["a"].gone = True
        here.agents["a"].events.put_nowait(None)
        await here.watcher.until("a: agent lost: connection lost")
        await here.run.abort()
        await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
        return here.run.progress.experiments[1].reasons, here.agents["a"].is_given_up

    reason = "a: agent lost: connection lost"
    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ([reason], True)


@pytest.mark.parametrize("host", ["a", "b"])
def test_flows_of_a_host_that_is_released_fail_and_end_at_their_client(tmp_path: Path, host):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        await here.run.carry_out(release(steps.Close, host))
        await here.run.wait_flows(1, None)
        await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
        return statuses(here.run), here.agents["a"].calls

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (
        [f"{host}: CLOSE before the end of the flow"],
        ["start 1 1", "abort 1", "finish 1", "confirm 1"],
    )


async def test_a_host_that_was_released_does_no_more_for_its_experiment(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.carry_out(release(steps.Close, "a"))
    await here.run.carry_out(do_client(group=2))
    await here.run.carry_out(do_client(exp=2))
    await here.run.wait_flows(2, None)
    assert (statuses(here.run), here.run.progress.experiments[2].status) == (
        ["ok", "a: CLOSE has released it"],
        "ok",
    )


def test_what_was_interrupted_while_an_agent_accepted_it_is_over_after_an_abort(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, deaf=True)
        starting = asyncio.create_task(here.run.carry_out(do_client(duration_s=3600.0)))
        await here.agents["a"].asked.wait()
        starting.cancel()
        await here.run.abort()
        await here.run.wait_flows(1, None)
        await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
        return statuses(here.run), sorted(here.run.progress.experiments[1].files)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (
        ["interrupted"],
        ["raw/a/log", "raw/b/log"],
    )


def test_after_an_abort_the_end_of_a_flow_is_not_waited_for_long(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client(duration_s=3600.0))
        await here.run.abort()
        await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
        return sorted(here.run.progress.experiments[1].files)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ["raw/a/log", "raw/b/log"]


async def test_an_abort_ends_flows_on_all_hosts(tmp_path: Path):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client())
    await here.run.abort()
    assert (statuses(here.run), here.agents["a"].calls[-1], here.agents["b"].calls[-1]) == (
        ["interrupted"],
        "abort",
        "abort",
    )


async def test_a_tool_that_only_a_newer_agent_has_is_left_alone(tmp_path: Path):
    here = world(tmp_path, later_tools=["later"])
    await here.run.carry_out(do_server("a"))
    assert here.agents["a"].calls == ["take_stats 1 0 TCP_STREAM TCP_RR netperf"]


def unconfirmed(reason: str) -> str:
    return (
        f"did not confirm that it put its settings back ({reason}); it may still have: sysctl"
        " net.ipv4.tcp_ecn=1. Its agent puts them back when its hold ends, or when it is started"
        " again; by hand: sysctl -w net.ipv4.tcp_ecn=2"
    )


@pytest.mark.parametrize(
    ("ground", "left"),
    [("hosts", [f"a: {unconfirmed('agent lost: connection lost')}"]), ("lab", [])],
)
async def test_a_host_that_is_lost_when_the_run_ends_is_named_with_what_is_set_and_its_undoing(
    tmp_path: Path, ground: str, left: list[str]
):
    here = world(tmp_path, ground=ground)
    await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "3"))
    await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1"))
    here.agents["a"].gone = True
    here.agents["a"].events.put_nowait(None)
    await here.watcher.until("a: agent lost: connection lost")
    await here.run.close_all()
    assert here.watcher.left == left


async def test_a_host_that_was_not_put_back_when_its_agent_was_lost_is_named(tmp_path: Path):
    here = world(tmp_path, ground="hosts")
    await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1"))
    # Its next agent does not know of the change.
    here.agents["a"].sysctl = "1"
    here.agents["a"].events.put_nowait(None)
    await here.watcher.until("a: its agent is back, with its settings made again")
    assert here.watcher.left == [
        (
            "a: sysctl net.ipv4.tcp_ecn=1: was not put back when the agent was lost; to undo it:"
            " sysctl -w net.ipv4.tcp_ecn=2"
        )
    ]


async def test_a_host_that_was_put_back_when_its_agent_was_lost_leaves_nothing(tmp_path: Path):
    here = world(tmp_path, ground="hosts")
    await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1"))
    here.agents["a"].events.put_nowait(None)
    await here.watcher.until("a: its agent is back, with its settings made again")
    await here.run.close_all()
    assert here.watcher.left == []


def test_in_haste_a_host_that_does_not_answer_is_left_and_all_others_are_not(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, ground="hosts", frozen=True, silent=True)
        await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1"))
        await here.run.carry_out(do_client(duration_s=3600.0))
        await here.run.abort(in_haste=True)
        await here.run.fetcher.fetch_open()
        await here.run.close_all()
        experiment = here.run.progress.experiments[1]
        return sorted(experiment.files), experiment.reasons, here.watcher.warnings

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (
        ["raw/b/log"],
        ["a: its data did not arrive in time"],
        [
            "a: did not confirm that it ended its flows",
            f"a: {unconfirmed('no time was left')}",
        ],
    )


# ---- hosts are not trusted ---------------------------------------------------------------------
