"""Hosts of a run: opened, lost, held again, released."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from scripted_agent import ScriptedAgent, do_client, release, set_sysctl, statuses, world

from netesto.collectors.clock import Clock
from netesto.controller import visit
from netesto.controller.host import HostConnection
from netesto.controller.inventory import Inventory
from netesto.controller.visit import had_no_rest
from netesto.errors import AgentError, MissingError
from netesto.hostsettings import Command
from netesto.language import steps
from netesto.log import KeyFormatter
from netesto.model import ClockReading, Endpoint, Event


async def test_no_host_is_being_opened_any_more_when_one_could_not_be(tmp_path: Path):
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
    assert (given_up, here.run.hosts.held) == (["b"], {})


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

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ["", ""]


async def test_the_return_of_a_lost_agent_is_waited_for_from_the_cut_on(tmp_path: Path):
    """Not for as long again after attempts to join have ended."""

    class Now:
        time_s = 1000.0

        def now(self) -> float:
            return self.time_s

    clock = Now()
    host = HostConnection(
        Endpoint(host="a", agent="unix:/x"),
        connect=None,  # type: ignore[arg-type]  # it is not used
        clock=clock,  # type: ignore[arg-type]  # only now() is
        listener=world(tmp_path).run.progress,
    )
    waits = []
    for cut, after_s in (("a: cut", 55.0), ("", 0.0)):
        host._note_cut(cut)
        clock.time_s += after_s
        host._lose("no answer")
        waits.append(host.awaited_s)
    assert waits == [5.0, 60.0]


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

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == [
        "configure Sysctl(name='net.ipv4.tcp_sack', value='0', keep=False)",
        "configure Sysctl(name='net.ipv4.tcp_ecn', value='1', keep=False)",
    ]


def test_a_lost_agent_that_could_not_make_a_setting_is_held_again_with_those_before(tmp_path: Path):
    async def scenario():
        here = world(tmp_path)
        here.agents["a"].lacks = "7"
        await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1"))
        with pytest.raises(MissingError, match="not in this kernel"):
            await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "7"))
        here.agents["a"].calls.clear()
        here.agents["a"].events.put_nowait(None)
        await here.watcher.until("a: its agent is back, with its settings made again")
        return here.agents["a"].calls

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == [
        "configure Sysctl(name='net.ipv4.tcp_ecn', value='1', keep=False)",
    ]


@pytest.mark.parametrize(
    ("again", "refused"), [((), "command rings"), (("7",), "sysctl net.ipv4.tcp_ecn")]
)
def test_a_command_does_not_run_again_and_again_if_settings_of_a_lost_agent_fail(
    tmp_path: Path, again: tuple[str, ...], refused: str
):
    async def scenario():
        here = world(tmp_path)
        agent = here.agents["a"]
        rings = replace(set_sysctl("", ""), name="DO_COMMAND", settings=(Command("rings"),))
        await here.run.carry_out(rings)
        for value in again:
            await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", value))
        agent.calls.clear()
        agent.lacks = again[0] if again else "rings"
        agent.events.put_nowait(None)
        reason = f"its settings could not be made again: {refused}: not in this kernel"
        await here.watcher.until(f"a: not held again: {reason}")
        await here.run.carry_out(do_client())
        failed = f"a: agent lost: connection lost; {reason} (requested at a.nts:1:1)"
        assert here.run.progress.experiments[1].reasons == [failed]
        return [call.partition("(")[0] for call in agent.calls]

    calls = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert calls == ["configure Command", *("configure Sysctl" for _ in again)]


async def test_commands_that_run_together_open_a_released_host_once(tmp_path: Path):
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
    assert (statuses(here.run), here.agents["b"].calls) == (["", ""], ["expect 1 1", "expect 1 2"])


async def test_the_end_of_an_agent_that_exit_ends_is_no_loss(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.carry_out(release(steps.Exit, "a"))
    assert (here.run.progress.experiments[1].status, here.watcher.warnings) == ("ok", [])


async def test_an_agent_that_exit_does_not_end_is_released(tmp_path: Path):
    here = world(tmp_path)
    await here.run.hosts.open_all()
    here.agents["a"].stays = True
    with pytest.raises(AgentError, match="internal error"):
        await here.run.carry_out(release(steps.Exit, "a"))
    assert here.agents["a"].holder == ""


async def test_settings_that_a_host_does_not_put_back_are_warned_of(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    here.agents["a"].left.append("sysctl net.ipv4.tcp_ecn=1: not put back")
    await here.run.close_all()
    assert here.watcher.warnings == ["a: sysctl net.ipv4.tcp_ecn=1: not put back"]


async def test_who_ended_while_a_host_was_taken_does_not_hold_it(tmp_path: Path):
    here = world(tmp_path)
    here.agents["a"].ending = "bob"
    assert (await here.run.hosts.ready("a")).info.holder == ""


# user nice system idle iowait irq softirq steal guest guest_nice, of two processors in 3 s.
BEFORE = (100.0, 0.0, 50.0, 900.0, 3.0, 0.0, 1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("after", "is_so"),
    [
        ((104.0, 0.0, 51.5, 900.1, 3.1, 0.0, 1.3, 0.0, 0.0, 0.0), True),
        ((102.0, 0.0, 51.0, 902.9, 3.0, 0.0, 1.1, 0.0, 0.0, 0.0), False),
        ((100.5, 0.0, 50.5, 902.0, 6.0, 0.0, 1.0, 0.0, 0.0, 0.0), False),
        (BEFORE, False),
    ],
)
def test_a_machine_whose_processors_were_hardly_idle_may_be_why_hosts_do_not_answer(after, is_so):
    assert had_no_rest(BEFORE, after) is is_so


@pytest.mark.parametrize("rest_s", [0.0, 3.0])
def test_a_host_has_more_time_while_this_machines_processors_have_no_rest(rest_s, monkeypatch):
    """It answers after the decision on more time."""
    monkeypatch.setattr(visit, "REPLY_S", 0.1)
    monkeypatch.setattr(visit, "MORE_S", 60.0)
    answered = asyncio.Event()
    times = itertools.count()

    def cpu_times() -> tuple[float, ...]:
        number = next(times)
        if number:
            asyncio.get_running_loop().call_later(0.1, answered.set)
        return (100.0 + 3 * number, 0.0, 50.0, 900.0 + rest_s * number, *[0.0] * 6)

    async def scenario() -> str:
        try:
            async with visit.in_time(Endpoint(host="a", agent="ssh://a")):
                await answered.wait()
        except AgentError as error:
            return error.message
        return "answered"

    monkeypatch.setattr(psutil, "cpu_times", cpu_times)
    late = "a: agent unreachable at ssh://a: no answer within 0.1 s"
    assert asyncio.run(scenario()) == (late if rest_s else "answered")


async def test_hosts_that_wait_for_a_turn_to_tell_their_clock_are_not_late(monkeypatch):
    monkeypatch.setattr(visit, "CLOCKS_AT_ONCE", 1)
    # Longer than one host takes, 0.15 s, and shorter than all together.
    monkeypatch.setattr(visit, "REPLY_S", 1.2)
    monkeypatch.setattr(visit, "LONGEST_REPLY_S", 1.2)

    class Far(ScriptedAgent):
        async def probe_clock(self) -> ClockReading:
            await asyncio.sleep(0.03)
            return await super().probe_clock()

    async def connect(endpoint: Endpoint):
        return contextlib.nullcontext(Far(endpoint.host))

    names = "abcdefghij"
    hosts = Inventory([Endpoint(host=name, agent="") for name in names])
    found = await visit.visit(hosts, lambda _: dict.fromkeys(names, ()), connect=connect)
    assert [each.error for each in found] == [None] * len(names)


async def test_an_exception_of_a_listener_is_logged_with_its_traceback_and_loses_the_host(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch
):
    here = world(tmp_path)

    def hear(flow: str) -> None:
        raise ZeroDivisionError(flow)

    monkeypatch.setattr(here.watcher, "flow_progress", lambda exp, flow, rate_bps: hear(flow))
    await here.run.carry_out(do_client())
    here.agents["a"].tell("progress", 1, 1, 1)
    await here.watcher.until("a: agent lost: internal error: ZeroDivisionError: cubic a→b #1.1")
    with pytest.raises(ZeroDivisionError):
        await here.run.close_all()
    (record,) = [each for each in caplog.records if each.exc_info]
    lines = KeyFormatter().format(record).splitlines()
    assert lines[0].endswith("error netesto.controller.host an event was not heard host=a")
    assert "in hear" in lines[-3]
    assert lines[-1] == "ZeroDivisionError: cubic a→b #1.1"


async def test_a_host_lost_for_good_is_waited_for_once_and_the_last_reason_is_shown(
    tmp_path: Path, monkeypatch
):
    """The clock goes ahead to the end of the 60 s when the agent was tried again."""

    class Ahead(Clock):
        by_s = 0.0

        def now(self) -> float:
            return super().now() + self.by_s

    clock, doing = Ahead(), list[str]()
    here = world(tmp_path, clock=clock)
    agent = here.agents["a"]
    monkeypatch.setattr(here.watcher, "doing", doing.append)
    await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "0"))
    agent.gone = True
    tried = asyncio.Event()
    take = here.run.hosts.held["a"]._retaken

    async def retaken() -> AsyncGenerator[Event, None] | None:
        events = await take()
        tried.set()
        return events

    monkeypatch.setattr(here.run.hosts.held["a"], "_retaken", retaken)
    agent.events.put_nowait(None)
    await here.watcher.until("a: agent lost: connection lost")
    await asyncio.wait_for(tried.wait(), 60)
    clock.by_s = 59.9
    for exp in (1, 2):
        await here.run.carry_out(do_client(exp=exp))
    assert here.run.hosts.held["a"].awaited_s == 0
    await here.run.close_all()
    waited = "waiting up to 60 s for the agent of a: agent lost: connection lost"
    assert [each for each in doing if "waiting up" in each] == [waited]
    assert "waiting up to 60 s for the agent of a" in here.watcher.said
    lost = "a: agent lost: connection refused (requested at a.nts:1:1)"
    assert [each.reasons for each in here.run.progress.experiments.values()] == [[lost]] * 2
