"""The service in this process, with a tool that is any command."""

import asyncio
import contextlib
import gc
import json
import re
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from agent_values import ShellTool, request
from samplers import running_sampler

from netesto.agent.experiment import HostExperiment, Premises
from netesto.agent.journal import Journal
from netesto.agent.service import Service
from netesto.agent.spool import Spool
from netesto.agent.tools import Abilities, InstalledTool, Tools
from netesto.collectors.capabilities import Capabilities
from netesto.collectors.clock import Clock
from netesto.errors import AgentError, MissingError
from netesto.model import CaptureRequest, Event, Ports
from netesto.run import agents
from netesto.traffic.ports import PortRange

PORTS = Ports(control=(13000,), data=(13100,))

# Nothing here takes long; the deadline only keeps a broken test from hanging.
DEADLINE_S = 60


def asked(**changes: object):
    return request(tool="shelltool", **changes)


ServiceIn: TypeAlias = Callable[[Path, ShellTool], Service]


@pytest.fixture(scope="module")
def service_in() -> Iterator[ServiceIn]:
    """Makes an agent's service with one tool, with its files in a folder."""
    with running_sampler() as sampler, contextlib.ExitStack() as stack:

        def make(folder: Path, tool: ShellTool) -> Service:
            folder.mkdir(exist_ok=True)
            journal = stack.enter_context(contextlib.closing(Journal(folder / "journal")))
            premises = Premises(
                host="a",
                device="lo",
                folder=folder,
                spool=Spool(folder / "spool"),
                journal=journal,
                clock=Clock(),
                sampler=sampler,
                tools=Tools({"shelltool": tool}),
                ports=PortRange(),
            )
            return Service(premises, on_shut_down=lambda: None)

        yield make


@contextlib.asynccontextmanager
async def held(service: Service) -> AsyncIterator:
    async with contextlib.aclosing(service.hold("ann", "run")) as events:
        await anext(events)
        yield events


async def told_until_complete(events) -> list[tuple[str, int, str]]:
    told = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in events:
            if event.kind != "warning":
                told.append((event.kind, event.instance, event.text))
            if event.kind == "complete":
                break
    return told


async def test_a_tool_whose_version_is_known_is_not_asked_for_it():
    kernel = Capabilities(kernel="6.1", congestion_controls=("reno",), qdiscs=())
    found = Abilities({"shelltool": InstalledTool("7")}, kernel)
    _, version = await Tools({"shelltool": ShellTool()}, found).get("shelltool")
    assert version == "7"


def program(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


async def test_a_tool_that_is_installed_later_is_found(tmp_path: Path):
    known = {"shelltool": ShellTool(asked=[str(tmp_path / "tool")])}
    tools = Tools(known)
    found = [dict((await tools.current()).tools)]
    program(tmp_path / "tool", "echo shelltool 2.0")
    found.append(dict((await tools.current()).tools))
    assert found == [{}, {"shelltool": InstalledTool("2.0")}]


async def test_a_tool_that_hangs_is_reported_before_a_controller_has_waited_too_long(
    tmp_path: Path,
):
    hangs = ShellTool(asked=[str(program(tmp_path / "tool", "exec sleep 30"))])
    async with asyncio.timeout(agents.CONNECT_TIMEOUT_S):
        found = await Tools({"one": hangs, "other": hangs}).current()
    assert (found.tools, {*found.broken.values()}) == (
        {},
        {f"{tmp_path / 'tool'}: still running after 2 s, ended"},
    )


async def test_one_instance_may_fail_and_others_end_well(service_in: ServiceIn, tmp_path: Path):
    # Only one of them can make the folder.
    script = 'mkdir "$0.first" || exit 1; sleep 0.2; echo result 5'
    tool = ShellTool(argv=["sh", "-c", script, str(tmp_path / "mark")])
    service = service_in(tmp_path / "state", tool)
    async with held(service) as events:
        ports = Ports(control=(13000, 13001), data=(13100, 13101))
        await service.start(asked(instances=2), ports, 0.0)
        told = await told_until_complete(events)
    assert sorted(kind for kind, *_ in told) == [
        "accepted",
        "complete",
        "ended",
        "failed",
        "started",
        "started",
    ]


async def test_every_event_is_kept_with_the_experiment(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool(script="echo rate 3; echo result 5"))
    async with held(service) as events:
        await service.start(asked(), PORTS, 0.0)
        await told_until_complete(events)
        await service.finish(1)
    lines = (tmp_path / "state" / "spool" / "run" / "1" / "events.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in lines]
    assert [(event["kind"], event["rate_bps"]) for event in kept if event["kind"] != "warning"] == [
        ("accepted", 0.0),
        ("started", 0.0),
        ("progress", 3.0),
        ("ended", 5.0),
        ("complete", 0.0),
    ]


async def test_flow_aborted_before_its_instant_has_failed_and_never_started(
    service_in: ServiceIn, tmp_path: Path
):
    service = service_in(tmp_path / "state", ShellTool(script=f": > {tmp_path}/ran"))
    async with held(service) as events:
        await service.start(asked(delay_s=1000), PORTS, 0.0)
        await service.abort()
        told = await told_until_complete(events)
    assert (told, (tmp_path / "ran").exists()) == (
        [("accepted", 0, ""), ("failed", 1, "aborted by the controller"), ("complete", 0, "")],
        False,
    )


async def test_flows_of_other_experiments_outlive_the_abort_of_one(
    service_in: ServiceIn, tmp_path: Path
):
    service = service_in(tmp_path / "state", ShellTool())
    async with held(service) as events:
        await service.start(asked(exp=2, delay_s=1000), PORTS, 0.0)
        await service.start(asked(), PORTS, 0.0)
        await service.abort(2)
        ends: list[tuple[int, str, str]] = []
        while len(ends) < 2:
            event = await anext(events)
            if event.kind in {"ended", "failed"}:
                ends.append((event.exp, event.kind, event.text))
    assert sorted(ends) == [(1, "ended", ""), (2, "failed", "aborted by the controller")]


async def test_group_without_a_start_gets_ready_and_begins_when_it_is_told(
    service_in: ServiceIn, tmp_path: Path
):
    service = service_in(tmp_path / "state", ShellTool())
    async with held(service) as events:
        await service.start(asked(delay_s=0.1), PORTS, None)
        kinds: list[str] = []
        while "ready" not in kinds:
            kinds.append((await anext(events)).kind)
        start_s = Clock().now()
        await service.begin(1, (1, 2), start_s)
        async for event in events:
            kinds.append(event.kind)
            if event.kind == "started":
                started_s = event.time_s
            if event.kind == "complete":
                break
    # Without root a warning says that TCP's metrics were not flushed.
    others = [kind for kind in kinds if kind != "warning"]
    assert others == ["accepted", "ready", "started", "ended", "complete"]
    assert started_s >= start_s + 0.1


async def test_flow_that_is_aborted_when_it_is_ready_has_failed_and_never_started(
    service_in: ServiceIn, tmp_path: Path
):
    service = service_in(tmp_path / "state", ShellTool(script=f": > {tmp_path}/ran"))
    async with held(service) as events:
        await service.start(asked(), PORTS, None)
        while (await anext(events)).kind != "ready":
            pass
        await service.abort()
        told = await told_until_complete(events)
    assert (told, (tmp_path / "ran").exists()) == (
        [("failed", 1, "aborted by the controller"), ("complete", 0, "")],
        False,
    )


def experiment_of(
    service: Service,
    told: list[tuple[str, str]],
    *routers: str,
    clock: Clock | None = None,
    is_in_lab: bool = False,
) -> HostExperiment:
    """Experiment 1 of an agent in a lab with these routers; `told` gets its events."""
    premises = replace(
        service._premises,
        nodes=dict.fromkeys(routers, ""),
        clock=clock or Clock(),
        is_in_lab=is_in_lab,
    )

    def emit(event: Event) -> None:
        told.append((event.kind, event.text))

    async def unchanged() -> list[str]:
        return []

    return HostExperiment(
        1, premises.folder / "1", premises, emit=emit, hung=set(), changed=unchanged
    )


async def test_a_set_system_time_makes_the_experiment_partial(
    service_in: ServiceIn, tmp_path: Path
):
    told: list[tuple[str, str]] = []
    clock = Clock()
    experiment = experiment_of(service_in(tmp_path, ShellTool()), told, clock=clock)
    clock.anchor_ns -= 3600 * 10**9
    await experiment.finish()
    [(kind, text)] = told
    words = (
        r"the system's time was set by \+3600\.0000 s \(seen at .*\); what was measured by it .*"
    )
    assert (kind, bool(re.fullmatch(words, text)), noted(experiment)) == ("lost", True, None)


async def test_in_a_lab_the_controller_reports_that_the_system_time_was_set(
    service_in: ServiceIn, tmp_path: Path
):
    told: list[tuple[str, str]] = []
    clock = Clock()
    service = service_in(tmp_path, ShellTool())
    experiment = experiment_of(service, told, clock=clock, is_in_lab=True)
    clock.anchor_ns -= 3600 * 10**9
    await experiment.finish()
    assert (told, noted(experiment)) == ([], None)


async def test_a_system_time_that_was_set_before_is_recorded(service_in: ServiceIn, tmp_path: Path):
    told: list[tuple[str, str]] = []
    clock = Clock()
    clock.anchor_ns -= 3600 * 10**9
    experiment = experiment_of(service_in(tmp_path, ShellTool()), told, clock=clock)
    await experiment.finish()
    assert noted(experiment) == pytest.approx(3600, abs=0.1)
    assert told == []


async def test_a_system_time_that_is_the_agents_is_not_recorded(
    service_in: ServiceIn, tmp_path: Path
):
    experiment = experiment_of(service_in(tmp_path, ShellTool()), [])
    await experiment.finish()
    assert not (experiment.folder / "clock.json").exists()


def noted(experiment: HostExperiment) -> float | None:
    """How far the system's time was ahead, as the agent has recorded it."""
    found: float | None = json.loads((experiment.folder / "clock.json").read_text())[
        "system_ahead_s"
    ]
    return found


async def test_group_that_is_aborted_before_its_task_begins_is_over(
    service_in: ServiceIn, tmp_path: Path
):
    told: list[tuple[str, str]] = []
    tool = ShellTool()
    experiment = experiment_of(service_in(tmp_path, tool), told)
    await experiment.start(asked(), PORTS, 0.0, tool=tool, version="1")
    await experiment.abort("aborted")
    await experiment.finish()
    assert told == [("accepted", ""), ("failed", "aborted"), ("complete", "")]


async def test_staggered_groups_of_one_instant_start_one_after_the_other(
    service_in: ServiceIn, tmp_path: Path
):
    tool = ShellTool()
    experiment = experiment_of(service_in(tmp_path, tool), [])
    groups = [
        asked(group=1, stagger_s=2.0),
        asked(group=2, stagger_s=2.0, instances=1, seed=1),
        asked(group=3, stagger_s=2.0, delay_s=1.0),
        asked(group=4),
    ]
    for group in groups:
        await experiment.start(group, PORTS, 100.0, tool=tool, version="1")
    await experiment.abort("aborted")
    await experiment.finish()
    records = [experiment.folder / f"flow.{number}.1.json" for number in (1, 2, 3, 4)]
    assert [json.loads(each.read_text())["asked_start_s"] for each in records] == [
        100.0,
        100.0 + groups[0].staggered_s[-1],
        101.0,
        100.0,
    ]


async def test_start_that_is_under_way_when_flows_are_aborted_starts_nothing(
    service_in: ServiceIn, tmp_path: Path
):
    told: list[tuple[str, str]] = []
    tool = ShellTool()
    experiment = experiment_of(service_in(tmp_path, tool), told, "router")
    async with experiment.observation._turn:
        starting = asyncio.create_task(
            experiment.start(asked(), PORTS, 0.0, tool=tool, version="1")
        )
        await asyncio.sleep(0)
        aborting = asyncio.create_task(experiment.abort("aborted"))
        await asyncio.sleep(0)
    with pytest.raises(AgentError, match="experiment 1: aborted"):
        await asyncio.wait_for(starting, DEADLINE_S)
    await aborting
    await experiment.finish()
    assert told == []


async def test_start_under_way_when_the_hold_ends_starts_nothing(
    service_in: ServiceIn, tmp_path: Path
):
    service = service_in(tmp_path / "state", ShellTool(script=f": > {tmp_path}/ran"))
    async with held(service):
        starting = asyncio.create_task(service.start(asked(stats=True), PORTS, 0.0))
        await asyncio.sleep(0)
    with pytest.raises(AgentError):
        await asyncio.wait_for(starting, DEADLINE_S)
    assert not (tmp_path / "ran").exists()


async def test_flow_running_when_the_hold_ends_has_failed(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool(script="echo rate 1; exec sleep 60"))
    async with held(service) as events:
        await service.start(asked(), PORTS, 0.0)
        async for event in events:
            if event.kind == "progress":
                break
    folder = tmp_path / "state" / "spool" / "run" / "1"
    record = json.loads((folder / "flow.1.1.json").read_text())
    assert (record["reason"], (folder / "flow.1.1.out").read_text()) == (
        "the controller let the agent go",
        "rate 1\n",
    )


async def test_counters_are_read_before_and_after(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool(script="ping -c 1 127.0.0.1"))
    async with held(service) as events:
        await service.start(asked(), PORTS, 0.0)
        await told_until_complete(events)
    folder = tmp_path / "state" / "spool" / "run" / "1"
    record = json.loads((folder / "group.1.json").read_text())
    before, after = record["counters_before"], record["counters_after"]
    assert (record["device"], after["tx_packets"] > before["tx_packets"]) == ("lo", True)


async def test_capture_without_a_flow_is_reported(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool())
    async with held(service) as events:
        await service.start_capture(CaptureRequest(exp=1, host="a", peer=None, packets=5))
        await service.finish(1)
        event = await anext(events)
    assert (event.kind, event.text) == (
        "warning",
        "no flow ran here: the capture did not begin",
    )


async def test_finished_experiment_takes_no_more(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool())
    async with held(service):
        await service.take_stats(1, 0)
        await service.finish(1)
        with pytest.raises(AgentError, match=r"^experiment 1 is finished$"):
            await service.start(asked(), PORTS, 0.0)


async def test_nothing_of_a_confirmed_experiment_is_kept_and_it_does_not_begin_again(
    service_in: ServiceIn, tmp_path: Path
):
    service = service_in(tmp_path / "agent", ShellTool(script="true"))
    async with held(service):
        await service.take_stats(1, 0)
        there = [each for each in gc.get_objects() if isinstance(each, HostExperiment)]
        [kept] = [each for each in there if each.folder.is_relative_to(tmp_path)]
        forgotten = weakref.ref(kept)
        del there, kept
        await service.confirm(1)
        with pytest.raises(AgentError, match=r"^experiment 1 of this run was finished before$"):
            await service.take_stats(1, 0)
        gc.collect()
        assert forgotten() is None


async def test_statistics_before_are_the_first_taken(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool())
    info = tmp_path / "state" / "spool" / "run" / "1" / "0" / "a.info"
    async with held(service):
        await service.take_stats(1, 0)
        first = info.read_text()
        await service.take_stats(1, 0)
    assert info.read_text() == first


async def test_unknown_tool_is_reported(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool())
    async with held(service):
        with pytest.raises(MissingError, match=r"^nosuch: no such traffic tool$"):
            await service.start(request(tool="nosuch"), PORTS, 0.0)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"instances": 0}, "instances=0 is out of range: at least 1 and at most 1,000"),
        ({"instances": 2}, "2 instances need a pair of ports each"),
        ({"exp": 0}, "experiment 0, group 1: both count from 1"),
        ({"duration_s": 0}, "duration_s=0 is out of range: at least 0.001 and at most 604,800"),
        ({"delay_s": -1}, "delay_s=-1 is out of range: at least 0 and at most 604,800"),
        (
            {"duration_s": float("nan")},
            "duration_s=nan is out of range: at least 0.001 and at most 604,800",
        ),
        ({"interval_s": 0.001}, "interval_s=0.001 is out of range: at least 0.01 and at most 60"),
        ({"arrivals": "late"}, "arrivals=late is unknown: constant, poisson"),
    ],
)
async def test_request_out_of_all_reason_is_refused(
    changes: dict, text: str, service_in: ServiceIn, tmp_path: Path
):
    service = service_in(tmp_path / "state", ShellTool())
    async with held(service):
        with pytest.raises(AgentError) as caught:
            await service.start(asked(**changes), PORTS, 0.0)
    assert str(caught.value) == text


async def test_nothing_is_done_without_a_hold(service_in: ServiceIn, tmp_path: Path):
    service = service_in(tmp_path / "state", ShellTool())
    with pytest.raises(AgentError, match=r"^the hold has ended$"):
        await service.start(asked(), PORTS, 0.0)


async def test_what_only_some_versions_of_a_tool_can_do_is_reported(
    service_in: ServiceIn, tmp_path: Path
):
    extras = {"skiprx": re.compile("--skip"), "pacing": re.compile("--fq-rate")}
    service = service_in(tmp_path / "state", ShellTool(extras=extras))
    assert (await service.info()).tool_options == ("shelltool skiprx",)
