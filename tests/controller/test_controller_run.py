"""The requests of a run to agents, and its handling of their replies."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from scripted_agent import CONTENT, do_client, do_server, get_data, release, set_sysctl, world

from netesto import process
from netesto.collectors.clock import Clock
from netesto.controller.run import WARNINGS_MAX
from netesto.errors import AgentError
from netesto.language import steps
from netesto.model import Endpoint, Event, TimeSync


def statuses(run) -> list[str]:
    return [flow.status for flow in run.experiments[1].flows]


def test_a_flow_is_expected_at_the_server_started_at_the_client_and_forgotten(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        return here.agents["a"].calls, here.agents["b"].calls

    assert asyncio.run(scenario()) == (["start 1 1"], ["expect 1 1", "forget 1 1"])


def test_no_host_is_being_opened_any_more_when_one_could_not_be(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        given_up: list[str] = []

        async def connect(endpoint: Endpoint):
            if endpoint.host == "a":
                raise AgentError("no answer")
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(endpoint.host)

        here.run.hosts.connect = connect
        with pytest.raises(AgentError, match="no answer"):
            await here.run.hosts.open_all()
        return given_up, here.run.hosts.held

    assert asyncio.run(scenario()) == (["b"], {})


def test_flows_that_end_well_make_an_experiment_that_is_ok(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client(instances=2))
        await here.run.wait_flows(1, None)
        return here.run.experiments[1].status, statuses(here.run)

    assert asyncio.run(scenario()) == ("ok", ["ok", "ok"])


@pytest.mark.parametrize(
    ("ground", "after"), [("hosts", TimeSync(True, 0.001, "chronyd")), ("lab", None)]
)
def test_what_keeps_the_clock_of_another_machine_is_asked_after_its_flows(
    tmp_path: Path, ground, after
):
    async def scenario():
        here = world(tmp_path, ground=ground)
        await here.run.carry_out(do_client())
        before = here.run.hosts.held["a"].time_sync
        await here.run.carry_out(get_data("a"))
        return before, here.run.hosts.held["a"].time_sync

    assert asyncio.run(scenario()) == (None, after)


def test_a_flow_that_fails_keeps_its_reason(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, fails="netperf exited 1")
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        return here.run.experiments[1].status, statuses(here.run), here.watcher.ended

    assert asyncio.run(scenario()) == (
        "failed",
        ["netperf exited 1"],
        [("cubic a→b #1.1", "netperf exited 1")],
    )


def test_a_lost_agent_fails_its_flows_with_the_reason(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, dies=True)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        return statuses(here.run), here.run.experiments[1].reasons

    reason = "a: agent lost: connection lost"
    assert asyncio.run(scenario()) == ([reason], [reason])


def test_a_lost_agent_is_not_asked_for_more_of_the_experiment(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, dies=True)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.carry_out(do_client(group=2))
        return statuses(here.run), here.run.experiments[1].reasons, here.agents["a"].calls

    reason = "a: agent lost: connection lost"
    assert asyncio.run(scenario()) == ([reason, reason], [reason], ["start 1 1"])


def test_a_host_that_is_lost_before_its_flow_takes_part_in_the_experiment(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_server("a"))
        here.agents["a"].events.put_nowait(None)
        await here.watcher.until("a: agent lost: connection lost")
        await here.run.carry_out(do_client())
        experiment = here.run.experiments[1]
        return statuses(here.run), sorted(experiment.hosts)

    reason = "a: agent lost: connection lost"
    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ([reason], ["a", "b"])


def test_flows_that_are_overdue_at_a_host_that_cannot_be_reached_end_the_experiment_alone(
    tmp_path: Path,
):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        here.agents["a"].gone = True
        await here.run.wait_flows(1, 0)
        return statuses(here.run), here.watcher.warnings, "abort" in here.agents["b"].calls

    late = "still running after WAIT_FLOWS timeout=0"
    found = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert found == ([late], ["a: the hold has ended"], True)


def test_the_end_of_a_run_releases_an_agent_that_is_being_held_again(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        agent = here.agents["a"]
        holders: list[str] = []

        @contextlib.asynccontextmanager
        async def connection():
            yield agent
            holders.append(agent.holder)

        async def connect(endpoint: Endpoint):
            del endpoint
            return connection()

        here.run.hosts.connect = connect
        await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "0"))
        agent.deaf = True
        agent.events.put_nowait(None)
        await agent.asked.wait()
        await here.run.close_all()
        return holders

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ["", ""]


def test_a_lost_agent_is_held_again_with_its_settings(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "0"))
        await here.run.carry_out(set_sysctl("net.ipv4.tcp_sack", "0"))
        await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1"))
        here.agents["a"].calls.clear()
        here.agents["a"].events.put_nowait(None)
        await here.watcher.until("a: its agent is back, with its settings made again")
        return here.agents["a"].calls

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == [
        "configure Sysctl(name='net.ipv4.tcp_sack', value='0', keep=False)",
        "configure Sysctl(name='net.ipv4.tcp_ecn', value='1', keep=False)",
    ]


def test_after_a_lost_agent_is_back_the_next_experiment_goes_well(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, dies=True)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        here.agents["a"].dies = False
        await here.run.carry_out(do_client(exp=2))
        await here.run.wait_flows(2, None)
        return [here.run.experiments[exp].status for exp in (1, 2)]

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ["failed", "ok"]


def test_what_a_lost_agent_had_written_is_fetched_when_it_is_back(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, dies=True)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.fetch_rest(here.run.experiments[1])
        return sorted(here.run.experiments[1].files)

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ["raw/a/log", "raw/b/log"]


@pytest.mark.parametrize("call", ["finish", "confirm"])
def test_data_whose_fetch_finds_the_lease_ended_is_fetched_when_the_agent_is_back(
    tmp_path: Path, call: str
):
    async def scenario():
        here = world(tmp_path, expires=call)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.fetch_rest(here.run.experiments[1])
        experiment = here.run.experiments[1]
        return sorted(experiment.files), experiment.pending_data, experiment.reasons

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == (
        ["raw/a/log", "raw/b/log"],
        set(),
        ["a: agent lost: connection lost"],
    )


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
        return here.run.experiments[1].status, here.watcher.warnings

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == (
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
        experiment = here.run.experiments[1]
        return statuses(here.run), experiment.reasons, experiment.lost

    reason = "a: the hold has ended"
    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == (
        [reason],
        [f"{reason} (requested at a.nts:1:1)"],
        {"a": reason},
    )


def test_a_host_that_waits_for_its_turn_to_send_data_has_finished(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        experiment, nobody = here.run.experiments[1], asyncio.Semaphore(0)
        fetching = asyncio.create_task(here.run.fetch(experiment, "b", places=nobody))
        calls = here.agents["b"].calls
        await process.wait_until_async(lambda: "finish 1" in calls, timeout=30)
        before = [*experiment.files]
        nobody.release()
        await fetching
        return before, [*experiment.files]

    assert asyncio.run(scenario()) == ([], ["raw/b/log"])


def test_a_client_whose_server_is_lost_is_told_to_end_its_flows(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        here.agents["b"].events.put_nowait(None)
        await here.run.wait_flows(1, None)
        await here.run.fetch_rest(here.run.experiments[1])
        return here.agents["a"].calls

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == [
        "start 1 1",
        "abort",
        "finish 1",
        "confirm 1",
    ]


def test_a_flow_that_an_agent_refuses_fails_and_the_run_goes_on(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        here.agents["b"].refuses = "No space left on device"
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        return statuses(here.run), here.run.experiments[1].reasons, here.watcher.warnings

    reason = "b: No space left on device (requested at a.nts:1:1)"
    assert asyncio.run(scenario()) == (
        ["b: No space left on device"],
        [reason],
        [f"experiment 1: {reason}"],
    )


def test_after_an_abort_a_lost_agent_is_not_waited_for(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        here.agents["a"].gone = True
        here.agents["a"].events.put_nowait(None)
        await here.watcher.until("a: agent lost: connection lost")
        await here.run.abort()
        await here.run.fetch_rest(here.run.experiments[1])
        return here.run.experiments[1].reasons, here.agents["a"].is_given_up

    reason = "a: agent lost: connection lost"
    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ([reason], True)


def test_wait_flows_gives_up_at_its_timeout_and_fails_what_runs(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, 0.05)
        return statuses(here.run), here.agents["a"].calls

    assert asyncio.run(scenario()) == (
        ["still running after WAIT_FLOWS timeout=0.05"],
        ["start 1 1", "abort"],
    )


class Stopped(Clock):
    """The clock of a process that was stopped for `stopped_s`; `asked`, if it was asked since."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped_s = 0.0
        self.asked = asyncio.Event()

    def now(self) -> float:
        if self.stopped_s:
            self.asked.set()
        return super().now() + self.stopped_s


@pytest.mark.parametrize("timeout_s", [None, 20.0])
def test_what_was_reported_while_the_controller_was_stopped_counts(
    tmp_path: Path, timeout_s: float | None
):
    async def scenario():
        here, clock = world(tmp_path, silent=True), Stopped()
        here.run.clock = clock
        await here.run.carry_out(do_client())
        waiting = asyncio.create_task(here.run.wait_flows(1, timeout_s))
        await asyncio.sleep(0)
        clock.stopped_s = 100.0
        # It wakes, and finds what it waits for overdue.
        here.run._changed.set()
        await clock.asked.wait()
        for kind in ("started", "ended"):
            here.agents["a"].tell(kind, 1, 1, 1)
        here.agents["a"].tell("complete", 1, 1)
        await waiting
        return here.run.experiments[1].status, statuses(here.run)

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ("ok", ["ok"])


def test_held_flows_start_together_at_one_instant(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client(group=1, hold=True))
        await here.run.carry_out(do_client(group=2, hold=True))
        before = list(here.agents["a"].calls)
        await here.run.start_held(0.2)
        return before, here.agents["a"].calls, len(here.agents["a"].starts_s)

    assert asyncio.run(scenario()) == ([], ["start 1 1", "start 1 2", "begin 1 1 2"], 1)


def test_the_server_of_held_flows_is_told_their_instant(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client(hold=True))
        await here.run.start_held(0.2)
        return here.agents["b"].calls[:2], here.agents["b"].starts_s == here.agents["a"].starts_s

    assert asyncio.run(scenario()) == (["expect 1 1", "begin 1 1"], True)


def test_a_flow_that_is_not_ready_in_time_fails_and_the_others_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("netesto.controller.run.READY_TIMEOUT_S", 0.05)

    async def scenario():
        here = world(tmp_path)
        here.agents["b"].unready = True
        await here.run.carry_out(do_client(group=1, hold=True))
        await here.run.carry_out(do_client(group=2, between=("b", "a"), hold=True))
        await here.run.start_held(0.0)
        await here.run.wait_flows(1, None)
        return statuses(here.run), "begin 1 2" in here.agents["b"].calls

    assert asyncio.run(scenario()) == (["ok", "b: not ready within 0.05 s"], False)


def test_a_flow_whose_agent_is_lost_while_it_gets_ready_fails_and_the_others_start(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        here.agents["b"].unready = True
        await here.run.carry_out(do_client(group=1, between=("a", "a"), hold=True))
        await here.run.carry_out(do_client(group=2, between=("b", "b"), hold=True))
        starting = asyncio.create_task(here.run.start_held(0.0))
        await here.agents["b"].asked.wait()
        here.agents["b"].events.put_nowait(None)
        await starting
        return statuses(here.run)[1], "begin 1 1" in here.agents["a"].calls

    assert asyncio.run(scenario()) == ("b: agent lost: connection lost", True)


def test_flows_start_as_soon_as_the_last_is_ready_but_not_before_the_lead(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client(hold=True))
        before_s = here.run.clock.now()
        await here.run.start_held(5.0)
        return here.agents["a"].starts_s[0] - before_s

    # It is ready at once. The offset of its clock is known to within some milliseconds.
    assert asyncio.run(scenario()) == pytest.approx(5.0, abs=0.2)


def test_held_flows_are_not_waited_for_before_they_are_started(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client(hold=True))
        await here.run.wait_flows(1, None)
        return statuses(here.run)

    assert asyncio.run(scenario()) == [""]


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
        await here.run.start_held(0.0)
        await here.run.wait_flows(1, None)
        return statuses(here.run)

    reason = f"{host}: {command.__name__.upper()} before the end of the flow"
    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == [reason, "ok"]


@pytest.mark.parametrize("host", ["a", "b"])
def test_flows_of_a_host_that_is_released_fail_and_end_at_their_client(tmp_path: Path, host):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        await here.run.carry_out(release(steps.Close, host))
        await here.run.wait_flows(1, None)
        await here.run.fetch_rest(here.run.experiments[1])
        return statuses(here.run), here.agents["a"].calls

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == (
        [f"{host}: CLOSE before the end of the flow"],
        ["start 1 1", "abort", "finish 1", "confirm 1"],
    )


def test_a_host_is_released_after_its_data_was_brought(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.carry_out(release(steps.Close, "a"))
        experiment = here.run.experiments[1]
        return experiment.status, sorted(experiment.files), here.agents["a"].holder

    assert asyncio.run(scenario()) == ("ok", ["raw/a/log"], "")


def test_a_host_that_was_released_does_no_more_for_its_experiment(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.carry_out(release(steps.Close, "a"))
        await here.run.carry_out(do_client(group=2))
        await here.run.carry_out(do_client(exp=2))
        await here.run.wait_flows(2, None)
        return statuses(here.run), here.run.experiments[2].status

    assert asyncio.run(scenario()) == (["ok", "a: CLOSE has released it"], "ok")


def test_commands_that_run_together_open_a_released_host_once(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.hosts.open_all()
        await here.run.carry_out(release(steps.Close, "a"))
        at_once = here.run.hosts.connect

        async def connect(endpoint: Endpoint):
            await asyncio.sleep(0)
            return await at_once(endpoint)

        here.run.hosts.connect = connect
        await asyncio.gather(
            *(here.run.carry_out(do_client(group=group, hold=True)) for group in (1, 2))
        )
        return statuses(here.run), here.agents["b"].calls

    assert asyncio.run(scenario()) == (["", ""], ["expect 1 1", "expect 1 2"])


def test_the_end_of_an_agent_that_exit_ends_is_no_loss(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.carry_out(release(steps.Exit, "a"))
        return here.run.experiments[1].status, here.watcher.warnings

    assert asyncio.run(scenario()) == ("ok", [])


def test_data_is_brought_once_and_confirmed(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.carry_out(get_data("a"))
        await here.run.carry_out(get_data("a"))
        return here.agents["a"].calls

    assert asyncio.run(scenario()) == ["start 1 1", "finish 1", "confirm 1"]
    assert (tmp_path / "1.partial" / "raw" / "a" / "log").read_bytes() == CONTENT


def test_processing_brings_what_get_data_has_not(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.fetch_rest(here.run.experiments[1])
        return sorted(here.run.experiments[1].files)

    assert asyncio.run(scenario()) == ["raw/a/log", "raw/b/log"]


def test_settings_that_a_host_does_not_put_back_are_warned_of(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        here.agents["a"].left.append("sysctl net.ipv4.tcp_ecn=1: not put back")
        await here.run.close_all()
        return here.watcher.warnings

    assert asyncio.run(scenario()) == ["a: sysctl net.ipv4.tcp_ecn=1: not put back"]


def test_a_host_whose_data_is_lost_makes_the_experiment_partial(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        here.agents["b"].events.put_nowait(None)
        await asyncio.sleep(0)
        await here.run.fetch_rest(here.run.experiments[1])
        return here.run.experiments[1].status, here.run.experiments[1].reasons

    assert asyncio.run(scenario()) == ("partial", ["b: agent lost: connection lost"])


def test_what_was_interrupted_while_an_agent_accepted_it_is_over_after_an_abort(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, deaf=True)
        starting = asyncio.create_task(here.run.carry_out(do_client(duration_s=3600.0)))
        await here.agents["a"].asked.wait()
        starting.cancel()
        await here.run.abort()
        await here.run.wait_flows(1, None)
        await here.run.fetch_rest(here.run.experiments[1])
        return statuses(here.run), sorted(here.run.experiments[1].files)

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == (
        ["interrupted"],
        ["raw/a/log", "raw/b/log"],
    )


def test_after_an_abort_the_end_of_a_flow_is_not_waited_for_long(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client(duration_s=3600.0))
        await here.run.abort()
        await here.run.fetch_rest(here.run.experiments[1])
        return sorted(here.run.experiments[1].files)

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ["raw/a/log", "raw/b/log"]


def test_an_abort_ends_flows_on_all_hosts(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        await here.run.abort()
        return statuses(here.run), here.agents["a"].calls[-1], here.agents["b"].calls[-1]

    assert asyncio.run(scenario()) == (["interrupted"], "abort", "abort")


def test_a_tool_that_only_a_newer_agent_has_is_left_alone(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, later_tools=["later"])
        await here.run.carry_out(do_server("a"))
        return here.agents["a"].calls

    assert asyncio.run(scenario()) == [
        "start_servers TCP_STREAM TCP_RR netperf",
        "take_stats 1 0",
    ]


def test_in_haste_a_host_that_does_not_answer_is_left_and_all_others_are_not(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, frozen=True, silent=True)
        await here.run.carry_out(do_client(duration_s=3600.0))
        await here.run.abort(in_haste=True)
        await here.run.fetch_open()
        await here.run.close_all()
        experiment = here.run.experiments[1]
        return sorted(experiment.files), experiment.reasons, here.watcher.warnings

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == (
        ["raw/b/log"],
        ["a: its data did not arrive in time"],
        [
            "a: did not confirm that it ended its flows",
            "a: did not confirm that it put its settings back",
        ],
    )


# ---- hosts are not trusted ---------------------------------------------------------------------


def test_an_event_at_an_impossible_time_fails_its_flow_and_no_other(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        await here.run.carry_out(do_client(group=2))
        here.agents["a"].tell("started", 1, 1, 1, time_s=4e9)
        for group in (1, 2):
            here.agents["a"].tell("ended", 1, group, 1)
            here.agents["a"].tell("complete", 1, group)
        await here.run.wait_flows(1, None)
        return statuses(here.run), here.run.experiments[1].reasons

    reason = "a: reported an event at an impossible time"
    assert asyncio.run(scenario()) == ([reason, "ok"], [reason])


def test_events_of_what_does_not_exist_change_nothing(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.carry_out(do_client())
        for exp, group, instance in ((2**32 - 1, 1, 1), (1, 2**32 - 1, 1), (1, 1, 2**32 - 1)):
            here.agents["a"].tell("failed", exp, group, instance, text="a lie")
            here.agents["b"].tell("failed", exp, group, instance, text="a lie")
        await here.run.wait_flows(1, None)
        return here.run.experiments[1].status, statuses(here.run)

    assert asyncio.run(scenario()) == ("ok", ["ok"])


def test_a_host_that_never_stops_warning_is_left_unheard(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        for _ in range(WARNINGS_MAX + 5):
            here.agents["a"].tell("warning", 1, 1, text="w")
        here.agents["a"].tell("complete", 1, 1)
        await here.run.wait_flows(1, None)
        found = here.watcher.warnings
        return len(found), found[0], found[-1]

    assert asyncio.run(scenario()) == (
        WARNINGS_MAX,
        "a: w",
        "a: w (further warnings of hosts are not shown)",
    )


def test_what_a_host_could_not_measure_to_the_end_makes_its_experiment_partial(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        for _ in range(4):
            here.agents["a"].tell("lost", 1, 0, text="no samples")
        here.agents["a"].tell("ended", 1, 1, 1)
        here.agents["a"].tell("complete", 1, 1)
        await here.run.wait_flows(1, None)
        experiment = here.run.experiments[1]
        return experiment.status, experiment.reasons, len(here.watcher.warnings)

    assert asyncio.run(scenario()) == ("partial", ["a: no samples"], 1)


def test_a_file_that_get_data_cannot_fetch_ends_no_run(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        here.agents["a"].announced = "../outside"
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.carry_out(get_data("a"))
        await here.run.fetch_rest(here.run.experiments[1])
        experiment = here.run.experiments[1]
        return experiment.status, experiment.reasons, sorted(experiment.files)

    assert asyncio.run(scenario()) == (
        "partial",
        ["a: announces a file outside the experiment: '../outside'"],
        ["raw/b/log"],
    )


def test_who_ended_while_a_host_was_taken_does_not_hold_it(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        here.agents["a"].ending = "bob"
        return (await here.run.hosts.ready("a")).info.holder

    assert asyncio.run(scenario()) == ""


def test_what_a_host_left_is_a_warning_and_for_the_record(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.hosts.ready("a")
        here.agents["a"].events.put_nowait(Event(time_s=0.0, kind="left", text="ecn: left"))
        await here.watcher.until("a: ecn: left")
        return here.watcher.left

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == ["a: ecn: left"]
