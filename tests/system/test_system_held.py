"""Flows that wait for START_FLOWS, on each ground: they begin together and not earlier, samples
begin before their first byte, and Ctrl-C ends them. One that fails does not affect the others."""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest
from places import GUESTS, LAB, PATIENCE_S, SIM, Place, place_on, skip_unless_possible
from processes import is_alive
from test_system_interrupted import left_of
from whole_runs import Outcome, run_script

from netesto.collectors import links, socketfile
from netesto.system import process

pytestmark = pytest.mark.timeout(1600)

# Group 5 gets ready during its delay. The server of the last one cannot be reached.
SCRIPT = """\
LAB star hosts=4 rate=10mbit
DO_SERVER host=h1 exp=COUNTER expName=held start=1
DO_CLIENT host=h1 server=h2 test=TCP_STREAM tool=native dur=2 hold=1
DO_CLIENT host=h2 server=h3 test=UDP_STREAM tool=native bitrate=1mbit dur=2 hold=1
DO_CLIENT host=h3 server=h4 test=TCP_FLOWS tool=native size=1000 count=5 gap=100ms dur=9 hold=1
DO_CLIENT host=h4 server=h3 test=KV_RR tool=native dur=2 hold=1
DO_CLIENT host=h1 server=h3 test=TCP_STREAM tool=native dur=2 delay=1 hold=1
DO_CLIENT host=h2 server=h4 test=TCP_STREAM tool=native dur=2 delay=0.3 hold=1
WAIT 1
START_FLOWS
WAIT 1
SET_QDISC host=h1 qdisc=pfifo
WAIT_FLOWS
PROCESS_EXP
DO_SERVER host=h1 exp=COUNTER expName=failed start=1
DO_CLIENT host=h1 server=h2 test=TCP_STREAM tool=native dur=1 hold=1
DO_CLIENT host=h3 server=h4 test=TCP_STREAM tool=native dur=1 hold=1
DO_COMMAND host=h4 name=cut
START_FLOWS
WAIT_FLOWS
PROCESS_EXP
"""

COMMANDS = "[commands.cut]\nrun = ['ip', 'link', 'set', 'sw', 'down']\n"

# The first cell ends; flows of the second wait.
LONG_SCRIPT = """\
LAB pair rate=2mbit
SWEEP lead=0.2,9 DO
    DO_SERVER host=b exp=COUNTER expName=held start=1
    DO_CLIENT host=a server=b test=TCP_STREAM tool=native dur=1 hold=1
    DO_CLIENT host=b server=a test=TCP_STREAM tool=native dur=1 hold=1
    ECHO waiting $lead
    START_FLOWS lead=$lead
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""

DELAYS_S = [0.0, 0.0, 0.0, 0.0, 1.0, 0.3]
INTERVAL_S, BEFORE_S = 0.2, 0.1


@dataclass(frozen=True)
class Held:
    """What a run of SCRIPT measured. Instants count from that of START_FLOWS."""

    outcome: Outcome

    @cached_property
    def flows(self) -> list[list[dict[str, Any]]]:
        """Of each experiment, that of each group."""
        manifests = map(self.outcome.manifest, (1, 2))
        return [[group["instances"][0] for group in each["groups"]] for each in manifests]

    @cached_property
    def start_s(self) -> float:
        return float(self.flows[0][0]["asked_start_s"])

    def raw(self, exp: int, host: str) -> Path:
        return self.outcome.out / str(exp) / "raw" / host

    @cached_property
    def of_sockets(self) -> list[float]:
        """When sockets of the stream from h1 to h2 were sampled."""
        found = socketfile.read(self.raw(1, "h2") / "sockets.bin.gz")
        return sorted({each.time_s - self.start_s for each in found if each.state != "CLOSE"})

    @cached_property
    def of_queues(self) -> list[list[float]]:
        """When the interface of each host was."""
        files = [self.raw(1, f"h{number}") / "links.jsonl.gz" for number in (1, 2, 3, 4)]
        found = [links.read(file)[links.OWN].interfaces["sw"] for file in files]
        return [[time_s - self.start_s for time_s in each.time_s] for each in found]


@pytest.fixture(scope="module")
def held(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str
) -> Held:
    skip_unless_possible(request.param, lab_obstacle)
    folder = tmp_path_factory.mktemp(f"held-{request.param}")
    (folder / "commands.toml").write_text(COMMANDS)
    options = ["--force", "--ground", request.param, "--seed", "1", "--commands", "commands.toml"]
    return Held(run_script(folder, SCRIPT, options))


EVERYWHERE = pytest.mark.parametrize("held", [LAB, *GUESTS], indirect=True)
SIMULATED = pytest.mark.parametrize("held", [SIM], indirect=True)


@EVERYWHERE
def test_flows_of_all_tests_are_held_and_one_that_fails_alone_fails(held):
    statuses = [[flow["status"] for flow in flows] for flows in held.flows]
    assert (statuses[0], statuses[1][0]) == (["ok"] * 6, "ok")
    assert statuses[1][1].startswith("native exited 1: cannot connect")


@EVERYWHERE
def test_all_are_to_start_at_one_instant_but_for_their_delays(held):
    starts_s = [flow["asked_start_s"] - held.start_s for flow in held.flows[0]]
    assert starts_s == pytest.approx(DELAYS_S, abs=1e-6)


@EVERYWHERE
def test_none_starts_before_its_instant(held):
    assert min(flow["start_skew_ms"] for flow in held.flows[0]) >= 0


@SIMULATED
def test_simulated_flows_start_at_their_instant(held):
    assert [flow["start_skew_ms"] for flow in held.flows[0]] == [0.0] * 6


@EVERYWHERE
def test_nothing_is_sampled_long_before(held):
    first = [held.of_sockets[0], *(times_s[0] for times_s in held.of_queues)]
    assert min(first) >= -BEFORE_S - 0.001


@SIMULATED
def test_samples_begin_before_the_first_byte_and_have_no_gap(held):
    expected = [-BEFORE_S + tick * INTERVAL_S for tick in range(len(held.of_sockets))]
    assert held.of_sockets == pytest.approx(expected, abs=1e-4)
    for times_s in held.of_queues:
        expected = [-BEFORE_S + tick * INTERVAL_S for tick in range(len(times_s) - 1)]
        assert times_s[:-1] == pytest.approx(expected, abs=1e-4)


@SIMULATED
def test_samples_begin_before_flows_that_took_longer_than_the_lead_to_get_ready(held):
    start_s = held.flows[1][0]["asked_start_s"]
    found = socketfile.read(held.raw(2, "h2") / "sockets.bin.gz")
    assert found[0].time_s - start_s == pytest.approx(-BEFORE_S, abs=1e-4)


# ---- Ctrl-C ----------------------------------------------------------------------------------


# Simulated time would be over at once.
@pytest.fixture(params=[LAB, *(ground for ground in GUESTS if ground is not SIM)])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str
) -> Iterator[Place]:
    skip_unless_possible(request.param, lab_obstacle)
    with place_on(request.param, tmp_path_factory) as place:
        yield place


def held_clients(run: int) -> list[psutil.Process]:
    """The processes of flows that wait for their instant."""
    found = []
    for child in psutil.Process(run).children(recursive=True):
        # It may have ended meanwhile.
        with contextlib.suppress(psutil.Error):
            found += [child] if "hold=1" in child.cmdline() else []
    return found


def test_flows_that_are_held_end_with_ctrl_c_and_are_run_by_resume(place):
    with place.running(LONG_SCRIPT, "waiting 9") as run:
        if place.ground == "lab":
            assert process.wait_until(lambda: len(held_clients(run.pid)) == 2, timeout=PATIENCE_S)
        children = psutil.Process(run.pid).children(recursive=True)
        os.kill(run.pid, signal.SIGINT)
        status = run.wait(PATIENCE_S)
    assert (status, left_of(run.pid, place)) == (130, [])
    # One whose parent ended first may be a zombie for a moment.
    assert [child for child in children if is_alive(child)] == []
    words = [*place.words(LONG_SCRIPT), "--resume"]
    resumed = process.run(words, timeout=PATIENCE_S, check=False, env=place.environment)
    interrupted = ["failed", "interrupted", "interrupted"]
    assert (resumed.status, place.statuses) == (0, ["ok"] * 3 + interrupted + ["ok"] * 3)
