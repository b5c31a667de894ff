"""A link belongs to the lab: commands on the interfaces of hosts do not change it."""

import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, run_script

from netesto import hostsettings

# 50 Mbit/s of frames are this much of TCP's data: 1448 of 1514 bytes.
FULL_MBPS = 50 * 1448 / 1514

# A guest starts, builds its lab, measures, and makes a page; a slow machine has several at once.
TIMEOUT_S = 300

QDISCS = """\
LAB pair rate=50mbit
SOURCE inlib
FOR kind IN pfifo,bfifo DO
    SET_QDISC host=a qdisc=$kind limit=100000
    RUN OneFlowStream server=b client=a expName=$kind ca=cubic dur=2
DONE
SET_QDISC host=a qdisc=tbf rate=10mbit burst=20000 limit=100000
RUN OneFlowStream server=b client=a expName=tbf ca=cubic dur=2
SET_QDISC host=a qdisc=tbf action=delete
RUN OneFlowStream server=b client=a expName=deleted ca=cubic dur=2
"""

ROUTER = """\
LAB dumbbell clients=1 servers=1 rate=50mbit
SOURCE inlib
SET_QDISC host=router qdisc=pfifo limit=1000
RUN OneFlowStream server=server1 client=client1 expName=router ca=cubic dur=2
"""

COMMANDS = """\
[commands.tell]
run = ["echo", "told"]
"""

# From a to b a link, and from a to far six with a delay each.
CHAIN = ("r", "r2", "r3", "r4", "r5", "r6", "far")
TOPOLOGY = "\n".join(
    [
        "[nodes]",
        *(f'{host} = "host"' for host in ("a", "b", "far")),
        *(f'{router} = "router"' for router in CHAIN[:-1]),
        '[[links]]\nbetween = ["a", "r"]',
        '[[links]]\nbetween = ["r", "b"]\nrate = "10mbit"\ndelay = 10',
        *(f'[[links]]\nbetween = ["{x}", "{y}"]\ndelay = 10' for x, y in pairwise(CHAIN)),
    ]
)

NETEM = """\
LAB file=lab.toml
SOURCE inlib
DO_COMMAND host=a name=tell
SET_NETEM host=a netem_delay=5
RUN OneFlowStream server=b client=a expName=stream ca=cubic dur=10
RUN OneFlowRR server=b client=a expName=delayed ca=cubic req=1 dur=1.5
SET_NETEM host=a netem_delay=0
RUN OneFlowRR server=b client=a expName=removed ca=cubic req=1 dur=1.5
SET_QDISC host=a qdisc=fq
RUN OneFlowStream server=b client=a expName=fq ca=bbr dur=1.5
RUN OneFlowRR server=far client=a expName=long ca=cubic req=1 dur=1
"""


def summaries(outcome: Outcome, column: str) -> dict[str, float]:
    """A column of each experiment's summary row, by its name, where it has a value."""
    return {
        row["expName"]: float(row[column])
        for row in outcome.rows
        if row["exp"].endswith(".0") and row[column]
    }


@pytest.fixture(scope="module")
def qdiscs(tmp_path_factory: pytest.TempPathFactory, lab_obstacle: str) -> Outcome:
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    return run_script(tmp_path_factory.mktemp("qdiscs"), QDISCS)


@pytest.mark.lab
def test_a_qdisc_of_a_host_takes_nothing_from_the_rate_of_its_link(qdiscs: Outcome):
    rates = summaries(qdiscs, "rate")
    assert rates == pytest.approx(
        {"pfifo": FULL_MBPS, "bfifo": FULL_MBPS, "tbf": FULL_MBPS / 5, "deleted": FULL_MBPS},
        rel=0.1,
    )


@pytest.mark.lab
def test_the_queues_of_the_links_are_recorded_with_the_statistics_of_hosts(qdiscs: Outcome):
    before, after = ((qdiscs.out / "1" / when / "a.links").read_text() for when in "01")
    # An interface has a queue for each processor, and that many references.
    assert re.search(r"qdisc tbf 1: dev a-b root refcnt \d+ rate 50Mbit", before)
    assert sent_bytes(after) - sent_bytes(before) == pytest.approx(2 * 50e6 / 8, rel=0.2)


def sent_bytes(text: str) -> int:
    """What the link's queue from a to b has forwarded."""
    words = text.partition("qdisc tbf 1: dev a-b ")[2].partition(" Sent ")[2].split()
    return int(words[0])


@pytest.mark.lab
def test_a_qdisc_of_a_router_does_not_move_the_bottleneck_and_the_author_is_warned(tmp_path: Path):
    outcome = run_script(tmp_path, ROUTER)
    # Others may be about a busy machine.
    warnings = [line for line in outcome.stderr.splitlines() if line.startswith("warning: ")]
    [warning] = [line for line in warnings if "SET_QDISC" in line]
    assert warning.startswith(
        "warning: script.nts:3: SET_QDISC host=router qdisc=pfifo: the bottleneck remains the link "
        "router - right after it"
    )
    assert summaries(outcome, "rate") == pytest.approx({"router": FULL_MBPS}, rel=0.1)


@pytest.fixture(scope="module")
def netem(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("netem")
    (folder / "lab.toml").write_text(TOPOLOGY)
    (folder / "allowed.toml").write_text(COMMANDS)
    return run_script(
        folder,
        NETEM,
        ["--ground", "sim", "--seed", "1", "--commands", str(folder / "allowed.toml")],
    )


@pytest.mark.sim
@pytest.mark.timeout(TIMEOUT_S)
def test_a_delay_of_a_host_adds_to_that_of_its_link_and_takes_nothing_from_the_rate(
    netem: Outcome,
):
    requests_us = summaries(netem, "p50Latency")
    # 5 ms at the host and 10 ms each way in the link; netperf counts in steps of 2 %.
    assert requests_us["delayed"] == pytest.approx(25_000, rel=0.03)
    assert requests_us["removed"] == pytest.approx(20_000, rel=0.03)
    rates = summaries(netem, "rate")
    assert [rates["stream"], rates["fq"]] == pytest.approx([FULL_MBPS / 5, FULL_MBPS / 5], rel=0.1)


@pytest.mark.sim
@pytest.mark.timeout(TIMEOUT_S)
def test_commands_that_a_run_allows_are_allowed_in_its_guest(netem: Outcome):
    [told, *_] = netem.manifest(1)["hosts"]["a"]["settings"]
    assert (told["setting"], told["after"]) == (
        {"type": "Command", "name": "tell"},
        "exit status 0: told",
    )


@pytest.mark.sim
@pytest.mark.timeout(TIMEOUT_S)
def test_the_base_rtt_of_a_path_with_many_delays_includes_no_address_resolution(netem: Outcome):
    [path] = [path for path in netem.manifest(5)["paths"] if path["destination"] == "far"]
    assert (path["asked_rtt_ms"], path["measured_rtt_ms"]) == (120, pytest.approx(120, rel=0.01))


CHANGED = """\
LAB pair rate=20mbit
SET_ROUTE host=x to=y initcwnd=20
SET_LINK host=x mtu=1400
SWEEP bw=5mbit,10mbit DO
    SET_LINK host=x to=y rate=$bw
    DO_CLIENT exp=COUNTER host=x server=y expName=cell ca=cubic dur=1 test=TCP_RR
    WAIT_FLOWS
    PROCESS_EXP
DONE
DO_CLIENT exp=COUNTER host=x server=y expName=after ca=cubic dur=1 test=TCP_RR
WAIT_FLOWS
PROCESS_EXP
"""


@pytest.mark.lab
def test_what_finished_cells_set_on_links_and_routes_holds_when_a_run_is_resumed(tmp_path: Path):
    options = ("--force", "--map", "x=a,y=b")
    first = run_script(tmp_path, CHANGED, options)
    told = first.manifest(3)["hosts"]["a"]["settings"]
    shutil.rmtree(first.out / "3")
    resumed = run_script(tmp_path, CHANGED, (*options, "--resume"))
    row = resumed.rows[-1]
    settings = resumed.manifest(int(row["exp"].partition(".")[0]))["hosts"]["a"]["settings"]
    before = [(each["setting"], each["after"]) for each in told]
    assert all((each["setting"], each["after"]) in before for each in settings)
    assert [hostsettings.read(each["setting"]).target for each in settings] == [
        "route to y", "link b mtu", "link b",
    ]  # fmt: skip
    assert float(row["rate"]) < 10


DURING = """\
LAB dumbbell clients=1 servers=1 rate=none
SET_QDISC host=router qdisc=tbf rate=20mbit burst=15k limit=100k
DO_CLIENT exp=COUNTER host=client1 server=server1 test=TCP_STREAM ca=cubic dur=3 hold=1
START_FLOWS
WAIT 1
SET_QDISC host=router qdisc=tbf rate=5mbit burst=15k limit=100k action=change
WAIT 1
SET_QDISC host=router qdisc=tbf rate=10mbit burst=15k limit=100k action=change
WAIT_FLOWS
PROCESS_EXP
"""


def changes_after_start_s(outcome: Outcome) -> list[float]:
    """When the qdisc of the router was changed, after the common start of the flows."""
    known = outcome.manifest(1)
    [group] = known["groups"]
    _, *changes = known["hosts"]["router"]["settings"]
    return [each["made_s"] - group["instances"][0]["asked_start_s"] for each in changes]


@pytest.mark.lab
def test_settings_of_a_router_are_in_the_results_with_instants_that_count_from_the_flows_start(
    tmp_path: Path,
):
    outcome = run_script(tmp_path, DURING, pages=True)
    settings = outcome.manifest(1)["hosts"]["router"]["settings"]
    rates = [each["after"].partition(" rate ")[2].partition(" ")[0] for each in settings]
    first_s, second_s = changes_after_start_s(outcome)
    page = (outcome.out / "1" / "exp.html").read_text()
    assert (outcome.status, rates, first_s >= 1, second_s >= 2) == (
        0, ["20Mbit", "5Mbit", "10Mbit"], True, True,
    )  # fmt: skip
    assert "1 to 2 in the table of settings" in page


@pytest.mark.sim
@pytest.mark.timeout(TIMEOUT_S)
def test_in_simulated_time_a_wait_after_start_flows_ends_exactly_that_long_after_the_start(
    tmp_path: Path,
):
    kernel_or_reason("sim")
    outcome = run_script(tmp_path, DURING, ("--ground", "sim"))
    assert outcome.status == 0
    assert changes_after_start_s(outcome) == pytest.approx([1, 2], abs=0.01)


# Sysctls of a whole kernel, and a link that is slower than the lab's. The hosts have other names in
# the script.
PAIR = """\
LAB pair rate=10mbit
SET_SYSCTL host=x net.core.rmem_max=300000 net.ipv4.tcp_allowed_congestion_control=reno,cubic
SET_SYSCTL host=y net.core.rmem_max=300000
SET_LINK host=y to=x rate=5mbit
DO_CLIENT exp=COUNTER host=x server=y test=UDP_STREAM dur=1
WAIT_FLOWS
PROCESS_EXP
"""


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    options = ("--ground", "sim", "--map", "x=a,y=b")
    return run_script(tmp_path_factory.mktemp("renamed"), PAIR, options)


@pytest.mark.sim
@pytest.mark.timeout(TIMEOUT_S)
def test_sysctls_of_the_whole_kernel_apply_in_a_guest(renamed: Outcome):
    hosts = renamed.manifest(1)["hosts"]
    after = {
        host: [each["after"] for each in hosts[host]["settings"] if is_sysctl(each)]
        for host in "ab"
    }
    assert (renamed.status, after) == (0, {"a": ["300000", "reno cubic"], "b": ["300000"]})


def is_sysctl(settled: dict[str, Any]) -> bool:
    return isinstance(hostsettings.read(settled["setting"]), hostsettings.Sysctl)


@pytest.mark.sim
@pytest.mark.timeout(TIMEOUT_S)
def test_a_stream_of_datagrams_offers_a_fifth_more_than_the_rate_that_the_link_got(
    renamed: Outcome,
):
    assert renamed.rows[-1]["bitrate"] == "6"
