"""What agents report on experiments, and waiting for it."""

import asyncio
from pathlib import Path

import pytest
from scripted_agent import do_client, statuses, world

from netesto.collectors.clock import Clock
from netesto.controller.progress import WARNINGS_MAX
from netesto.model import Event
from netesto.results import severity


def test_flows_that_are_overdue_at_a_host_that_cannot_be_reached_end_the_experiment_alone(
    tmp_path: Path,
):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        here.agents["a"].gone = True
        await here.run.wait_flows(1, 0)
        return statuses(here.run), here.watcher.warnings, "abort 1" in here.agents["b"].calls

    late = "still running after WAIT_FLOWS timeout=0"
    found = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert found == ([late], ["a: the hold has ended"], True)


async def test_wait_flows_gives_up_at_its_timeout_and_fails_what_runs(tmp_path: Path):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, 0.05)
    assert (statuses(here.run), here.agents["a"].calls) == (
        ["still running after WAIT_FLOWS timeout=0.05"],
        ["start 1 1", "abort 1"],
    )


async def test_wait_flows_gives_up_at_its_timeout_and_other_experiments_go_on(tmp_path: Path):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client(exp=1))
    await here.run.carry_out(do_client(exp=2))
    await here.run.wait_flows(2, 0.05)
    assert [*here.agents["a"].calls[-1:], *here.agents["b"].calls[-1:]] == ["abort 2", "abort 2"]


@pytest.mark.parametrize(
    ("options", "due_s"),
    [
        ({"test": "TCP_STREAM", "tool": "native", "omit_s": 35.0, "duration_s": 36.0}, 71.0),
        ({"test": "TCP_RR", "duration_s": 4.0, "idle_s": 2.0}, 6.0),
        # The last may begin at the end, and has 30 s.
        ({"test": "TCP_FLOWS", "tool": "native", "size_bytes": 9, "duration_s": 4.0}, 34.0),
    ],
)
async def test_a_flow_is_due_after_all_that_its_tool_does(tmp_path: Path, options, due_s):
    here = world(tmp_path, silent=True)
    for agent in here.agents.values():
        agent.later_tools = ["native"]
    await here.run.carry_out(do_client(**options))
    experiment = here.run.progress.experiments[1]
    (flow,) = experiment.flows
    assert experiment.expected_end_s - (flow.asked_start_s or 0) == pytest.approx(due_s)


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
        clock = Stopped()
        here = world(tmp_path, clock=clock, silent=True)
        await here.run.carry_out(do_client())
        waiting = asyncio.create_task(here.run.wait_flows(1, timeout_s))
        await asyncio.sleep(0)
        clock.stopped_s = 100.0
        # It wakes, and finds what it waits for overdue.
        here.run.progress._changed.set()
        await clock.asked.wait()
        for kind in ("started", "ended"):
            here.agents["a"].tell(kind, 1, 1, 1)
        here.agents["a"].tell("complete", 1, 1)
        await waiting
        return here.run.progress.experiments[1].status, statuses(here.run)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ("ok", ["ok"])


async def test_an_event_at_an_impossible_time_fails_its_flow_and_no_other(tmp_path: Path):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client())
    await here.run.carry_out(do_client(group=2))
    here.agents["a"].tell("started", 1, 1, 1, time_s=4e9)
    for group in (1, 2):
        here.agents["a"].tell("ended", 1, group, 1)
        here.agents["a"].tell("complete", 1, group)
    await here.run.wait_flows(1, None)
    reason = "a: reported an event at an impossible time"
    assert (statuses(here.run), here.run.progress.experiments[1].reasons) == (
        [reason, "ok"],
        [reason],
    )


async def test_events_of_what_does_not_exist_change_nothing(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    for exp, group, instance in ((2**32 - 1, 1, 1), (1, 2**32 - 1, 1), (1, 1, 2**32 - 1)):
        here.agents["a"].tell("failed", exp, group, instance, text="a lie")
        here.agents["b"].tell("failed", exp, group, instance, text="a lie")
    await here.run.wait_flows(1, None)
    assert (here.run.progress.experiments[1].status, statuses(here.run)) == ("ok", ["ok"])


async def test_a_host_that_never_stops_warning_is_left_unheard(tmp_path: Path):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client())
    for _ in range(WARNINGS_MAX + 5):
        here.agents["a"].tell("warning", 1, 1, text="w")
    here.agents["a"].tell("complete", 1, 1)
    await here.run.wait_flows(1, None)
    found = here.watcher.warnings
    assert (len(found), found[0], found[-1]) == (
        WARNINGS_MAX,
        "a: w",
        "a: w (further warnings of hosts are not shown)",
    )


async def test_a_run_with_too_many_warnings_keeps_those_of_later_experiments(tmp_path: Path):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client())
    await here.run.carry_out(do_client(exp=2))
    a = here.agents["a"]
    for _ in range(WARNINGS_MAX + 5):
        a.tell("warning", 1, 1, text="w")
    a.tell("warning", 2, 1, text="the test interface is gone")
    a.tell("lost", 2, 1, text="no samples of sockets since 3 s")
    a.tell("left", 2, 0, text="qdisc of eth0")
    a.tell("ended", 2, 1, 1)
    a.tell("complete", 2, 1)
    await here.run.wait_flows(2, None)
    later = here.run.progress.experiments[2]
    assert (later.status, later.reasons, later.warnings, here.watcher.warnings[-1]) == (
        "partial",
        ["a: no samples of sockets since 3 s"],
        ["a: the test interface is gone"],
        "a: qdisc of eth0",
    )


async def test_what_a_host_could_not_measure_to_the_end_makes_its_experiment_partial(
    tmp_path: Path,
):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client())
    for _ in range(4):
        here.agents["a"].tell("lost", 1, 0, text="no samples")
    here.agents["a"].tell("ended", 1, 1, 1)
    here.agents["a"].tell("complete", 1, 1)
    await here.run.wait_flows(1, None)
    experiment = here.run.progress.experiments[1]
    assert (experiment.status, experiment.reasons, len(here.watcher.warnings)) == (
        "partial",
        ["a: no samples"],
        1,
    )


async def test_what_changed_before_the_flows_ended_is_in_the_rows_of_all_groups(tmp_path: Path):
    here = world(tmp_path, silent=True)
    await here.run.carry_out(do_client())
    here.agents["a"].tell("changed", 1, 0, text="another program")
    here.agents["a"].tell("lost", 1, 0, text="no samples")
    here.agents["a"].tell("ended", 1, 1, 1)
    here.agents["a"].tell("complete", 1, 1)
    await here.run.wait_flows(1, None)
    experiment = here.run.progress.experiments[1]
    assert (experiment.reasons, severity.unusual(experiment.warnings)) == (
        ["a: another program", "a: no samples"],
        {"a: another program": "invalidates"},
    )


def test_what_a_host_left_is_a_warning_and_for_the_record(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        await here.run.hosts.ready("a")
        here.agents["a"].events.put_nowait(Event(time_s=0.0, kind="left", text="ecn: left"))
        await here.watcher.until("a: ecn: left")
        return here.watcher.left

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ["a: ecn: left"]


async def test_an_experiment_that_is_processed_while_a_cut_is_noted_does_no_harm(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client(exp=1))
    await here.run.carry_out(do_client(exp=2))
    open_ones = here.run.progress.experiments

    class Processed(set[str]):
        def __contains__(self, name: object) -> bool:
            open_ones.pop(1, None)
            return super().__contains__(name)

    open_ones[1].hosts = Processed("ab")
    here.run.progress.on_cut(here.run.hosts.held["a"], "no answer")
    assert open_ones[2].warnings == ["a: no answer; joining again, for up to 60 s"]
