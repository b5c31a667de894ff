"""What hosts have measured is brought once, and confirmed."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from scripted_agent import CONTENT, do_client, do_server, get_data, release, set_sysctl, world

from netesto.language import steps
from netesto.results import severity
from netesto.system import process


def test_what_a_lost_agent_had_written_is_fetched_when_it_is_back(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, dies=True)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
        return sorted(here.run.progress.experiments[1].files)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == ["raw/a/log", "raw/b/log"]


@pytest.mark.parametrize("call", ["finish", "confirm"])
def test_data_whose_fetch_finds_the_lease_ended_is_fetched_when_the_agent_is_back(
    tmp_path: Path, call: str
):
    async def scenario():
        here = world(tmp_path, expires=call)
        await here.run.carry_out(do_client())
        await here.run.wait_flows(1, None)
        await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
        experiment = here.run.progress.experiments[1]
        return sorted(experiment.files), experiment.pending_data, experiment.reasons

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == (
        ["raw/a/log", "raw/b/log"],
        set(),
        ["a: agent lost: connection lost"],
    )


async def test_a_host_that_waits_for_its_turn_to_send_data_has_finished(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    experiment, nobody = here.run.progress.experiments[1], asyncio.Semaphore(0)
    fetching = asyncio.create_task(here.run.fetcher.fetch(experiment, "b", places=nobody))
    calls = here.agents["b"].calls
    await process.wait_until_async(lambda: "finish 1" in calls, timeout=60)
    before = [*experiment.files]
    nobody.release()
    await fetching
    assert (before, [*experiment.files]) == ([], ["raw/b/log"])


def event_line(kind: str, *, time_s: float, instance: int = 1) -> str:
    event = {"kind": kind, "time_s": time_s, "exp": 1, "group": 1, "instance": instance}
    return json.dumps(event)


@pytest.mark.parametrize(
    ("record", "status", "whole"),
    [
        (
            lambda s: [event_line("started", time_s=s), event_line("ended", time_s=s)],
            "ok",
            "partial",
        ),
        (lambda s: [event_line("started", time_s=s)], None, "failed"),
        (lambda s: [event_line("ended", time_s=s - 3600)], None, "failed"),
        (lambda _: [event_line("ended", time_s=math.nan)], None, "failed"),
        (
            lambda s: [event_line("ended", time_s=s, instance=7), "7", "[" * 10**6, "{"],
            None,
            "failed",
        ),
    ],
)
def test_a_flow_that_had_ended_before_its_agent_was_lost_counts(
    tmp_path: Path, record: Callable[[float], list[str]], status: str | None, whole: str
):
    async def scenario():
        here = world(tmp_path, silent=True, announced="events.jsonl")
        here.agents["a"].content = "\n".join(record(time.time())).encode()
        await here.run.carry_out(do_client())
        here.agents["a"].events.put_nowait(None)
        await here.run.wait_flows(1, None)
        experiment = here.run.progress.experiments[1]
        await here.run.fetcher.fetch_rest(experiment)
        return [each.status for each in experiment.flows], experiment.status, experiment.reasons

    reason = "a: agent lost: connection lost"
    found = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert found == ([status or reason], whole, [reason])


def test_a_client_whose_server_is_lost_is_told_to_end_its_flows(tmp_path: Path):
    async def scenario():
        here = world(tmp_path, silent=True)
        await here.run.carry_out(do_client())
        here.agents["b"].events.put_nowait(None)
        await here.run.wait_flows(1, None)
        await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
        return here.agents["a"].calls

    assert asyncio.run(asyncio.wait_for(scenario(), 60)) == [
        "start 1 1",
        "abort 1",
        "finish 1",
        "confirm 1",
    ]


async def test_a_host_is_released_after_its_data_was_brought(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.carry_out(release(steps.Close, "a"))
    experiment = here.run.progress.experiments[1]
    assert (experiment.status, sorted(experiment.files), here.agents["a"].holder) == (
        "ok",
        ["raw/a/log"],
        "",
    )


async def test_data_is_brought_once_and_confirmed(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.carry_out(get_data("a"))
    await here.run.carry_out(get_data("a"))
    assert here.agents["a"].calls == ["start 1 1", "finish 1", "confirm 1"]
    assert (tmp_path / "1.partial" / "raw" / "a" / "log").read_bytes() == CONTENT


async def test_processing_brings_what_get_data_has_not(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
    assert sorted(here.run.progress.experiments[1].files) == ["raw/a/log", "raw/b/log"]


async def test_a_host_whose_data_is_lost_makes_the_experiment_partial(tmp_path: Path):
    here = world(tmp_path)
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    here.agents["b"].events.put_nowait(None)
    await asyncio.sleep(0)
    await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
    assert (here.run.progress.experiments[1].status, here.run.progress.experiments[1].reasons) == (
        "partial",
        ["b: agent lost: connection lost"],
    )


async def test_a_file_that_get_data_cannot_fetch_ends_no_run(tmp_path: Path):
    here = world(tmp_path)
    here.agents["a"].announced = "../outside"
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.carry_out(get_data("a"))
    await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
    experiment = here.run.progress.experiments[1]
    assert (experiment.status, experiment.reasons, sorted(experiment.files)) == (
        "partial",
        ["a: announces a file outside the experiment: '../outside'"],
        ["raw/b/log"],
    )


ALTERED = "sysctl net.ipv4.tcp_ecn=1: another program has changed it, to 0"


@pytest.mark.parametrize("host", ["a", "b", "router"])
async def test_a_setting_that_another_program_changed_makes_the_experiment_partial_and_invalid(
    tmp_path: Path, host: str
):
    here = world(tmp_path, others=("router",))
    await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1", host))
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    here.agents[host].altered = (ALTERED,)
    experiment = here.run.progress.experiments[1]
    await here.run.fetcher.fetch_rest(experiment)
    assert (experiment.status, experiment.reasons, here.watcher.warnings) == (
        "partial",
        [f"{host}: {ALTERED}"],
        [f"{host}: {ALTERED}"],
    )
    assert severity.unusual(experiment.warnings) == {f"{host}: {ALTERED}": "invalidates"}


async def test_a_host_without_flows_and_settings_is_not_asked(tmp_path: Path):
    here = world(tmp_path, others=("router",))
    await here.run.hosts.open_all()
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    await here.run.fetcher.fetch_rest(here.run.progress.experiments[1])
    assert here.agents["router"].calls == []


async def test_a_router_that_is_lost_makes_the_experiment_partial_if_it_was_set(tmp_path: Path):
    here = world(tmp_path, others=("router",))
    await here.run.carry_out(set_sysctl("net.ipv4.tcp_ecn", "1", "router"))
    here.agents["a"].silent = True
    await here.run.carry_out(do_client())
    here.agents["router"].events.put_nowait(None)
    reason = "router: agent lost: connection lost"
    await here.watcher.until(reason)
    here.agents["a"].end(next(iter(here.run.progress.experiments[1].groups.values())).request)
    await here.run.wait_flows(1, None)
    experiment = here.run.progress.experiments[1]
    said = f"{reason}; what was set there did not hold throughout"
    assert (experiment.status, experiment.reasons, severity.unusual(experiment.warnings)) == (
        "partial",
        [said],
        {said: "invalidates"},
    )


CLIENT = (
    "cpu.jsonl", "events.jsonl", "flow.1.1.json", "flow.1.1.out", "group.1.json", "links.jsonl.gz",
    "ping.1.out", "sockets.bin.gz", "tcp.jsonl",
)  # fmt: skip
SERVER = ("cpu.jsonl", "events.jsonl", "links.jsonl.gz", "server.1.json", "sockets.2.bin.gz",
          "tcp.jsonl")  # fmt: skip


async def experiment_with(folder: Path, client: Sequence[str], server: Sequence[str], **options):
    """An experiment whose flow has ended, and of which these files came."""
    here = world(folder, **options)
    await here.run.carry_out(do_server("b"))
    await here.run.carry_out(do_client())
    await here.run.wait_flows(1, None)
    experiment = here.run.progress.experiments[1]
    experiment.pending_data.clear()
    files = [*(f"raw/a/{name}" for name in client), *(f"raw/b/{name}" for name in server)]
    experiment.files = dict.fromkeys((*files, "0/b.info"), "")
    return experiment


async def test_nothing_is_missing_if_every_host_has_sent_what_it_owes(tmp_path: Path):
    experiment = await experiment_with(tmp_path, CLIENT, SERVER)
    assert [*experiment.missing()] == []


async def test_data_that_a_host_owes_and_that_did_not_come_is_named(tmp_path: Path):
    client = [name for name in CLIENT if not name.startswith(("cpu", "ping", "sockets"))]
    experiment = await experiment_with(tmp_path, client, ())
    del experiment.files["0/b.info"]
    deleted = "its data are not complete: another program has deleted"
    assert [*experiment.missing()] == [
        f"a: {deleted} cpu, sockets, ping",
        f"b: {deleted} cpu, events.jsonl, links, sockets, tcp, server.1.json, 0/b.info",
    ]


async def test_a_host_without_ping_owes_no_pings(tmp_path: Path):
    client = [name for name in CLIENT if not name.startswith("ping")]
    experiment = await experiment_with(tmp_path, client, SERVER)
    experiment.warnings.append("a: round trips are not measured: ping: cannot start")
    assert [*experiment.missing()] == []


async def test_a_flow_that_failed_owes_nothing(tmp_path: Path):
    experiment = await experiment_with(tmp_path, (), (), fails="netperf exited 1")
    assert [*experiment.missing()] == []


async def test_a_host_that_was_lost_owes_nothing_more(tmp_path: Path):
    experiment = await experiment_with(tmp_path, CLIENT, ())
    experiment.lost["b"] = "b: agent lost"
    assert [*experiment.missing()] == []
