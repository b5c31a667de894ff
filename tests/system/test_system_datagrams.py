"""Datagrams in simulated time, where the correct values are known exactly."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, run_script

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

# More than the link carries, because no rate is given, and half of it.
SCRIPT = """\
LAB pair rate=1mbit delay=5
FOR rate IN _,500kbit DO
    DO_SERVER exp=COUNTER host=b expName=Datagrams start=1
    IF $rate == _: DO_CLIENT host=a server=b test=UDP_STREAM len=1400 dur=2
    IF $rate != _: DO_CLIENT host=a server=b test=UDP_STREAM len=1400 dur=2 bitrate=$rate idle=1
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""

# netem at the sender, so that its own counters say what it did.
TROUBLE = """\
LAB pair rate=1mbit delay=5
FOR netem IN loss,duplicate,reorder DO
    DO_SERVER exp=COUNTER host=b expName=Trouble start=1
    IF $netem != reorder: SET_QDISC host=a qdisc=netem other="$netem 5%"
    IF $netem == reorder: SET_QDISC host=a qdisc=netem other="delay 10ms reorder 25%"
    DO_CLIENT host=a server=b test=UDP_STREAM len=100 dur=3 bitrate=400kbit stats=1
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""

# What a host has sent by itself, 5 s apart, in the record of the run.
REPORTS = """\
DO_COMMAND host=a name=sent
WAIT 5
DO_COMMAND host=a name=sent
"""
COMMANDS = """\
[commands.sent]
run = ["grep", "Icmp6OutMLDv2Reports", "/proc/net/snmp6"]
"""

# Ethernet, IPv4 and UDP add 42 bytes to a payload of 1400.
SHARE = 1400 / 1442


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Experiments 1 and 2 of SCRIPT, 3 to 5 of TROUBLE, and then REPORTS."""
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("datagrams")
    (folder / "commands.toml").write_text(COMMANDS)
    script = SCRIPT + TROUBLE.partition("\n")[2] + REPORTS
    options = ["--ground", "sim", "--seed", "1", "--commands", str(folder / "commands.toml")]
    return run_script(folder, script, options)


def report_of(run: Outcome, exp: int) -> dict[str, Any]:
    output = Path(run.out, str(exp), "raw", "a", "flow.1.1.out").read_text()
    return json.loads(output.splitlines()[-1])


def test_more_than_the_link_carries_fills_it(run: Outcome):
    rates = [float(row["rate"]) for row in run.rows if row["exp"] == "1.1"]
    assert rates == [pytest.approx(SHARE, rel=0.01)]


def test_the_rate_offered_without_bitrate_is_reported(run: Outcome):
    assert (
        "a→b: UDP_STREAM without bitrate= offers 1.2 Mbit/s, 1.2 times the rate of its first"
        " shaped link"
    ) in run.stderr


def test_less_than_the_link_carries_arrives_completely(run: Outcome):
    result = report_of(run, 2)
    assert (sum(result["server_lost"]), result["skipped"], result["arrived"]) == (
        0, 0, result["sent"],
    )  # fmt: skip


def test_every_datagram_is_sent_at_its_instant(run: Outcome):
    # Nanoseconds: what sleeping rounds.
    assert max(report_of(run, exp)["max_ns"] for exp in (1, 2)) <= 2


def row(run: Outcome, exp: int) -> dict[str, float]:
    """The measurements of an experiment's datagrams."""
    (found,) = (row for row in run.rows if row["exp"] == f"{exp}.1")
    return {
        key: float(text)
        for key, text in found.items()
        if text and key.startswith(("udp", "oneWay"))
    }


def test_one_way_delays_are_those_of_the_link(run: Outcome):
    delays = [row(run, 2)[f"oneWay{which}"] for which in ("Min", "Mean", "Max", "Bound")]
    # A frame of 1442 bytes takes 11,536 us to send.
    assert delays == [pytest.approx(5000 + 11_536, abs=1)] * 3 + [0]


def test_before_and_after_the_flows_the_path_is_idle(run: Outcome):
    (found,) = (row for row in run.rows if row["exp"] == "2.1")
    # 5 ms each way, and the time to send 98 bytes, in three digits; under load an echo may meet a
    # datagram.
    idle, median, after = (float(found[f"ping{when}"]) for when in ("Idle", "P50", "After"))
    assert (idle, after) == (11_600, 11_600)
    assert 11_600 <= median <= 11_600 + 2 * 11_536


def test_without_idle_no_flow_waits_for_pings(run: Outcome):
    assert [row["pingAfter"] for row in run.rows if row["exp"] == "1.1"] == [""]


def test_datagrams_with_equal_gaps_have_no_jitter(run: Outcome):
    assert row(run, 2)["udpJitter"] == pytest.approx(0, abs=0.1)


def test_datagrams_that_are_lost_are_those_that_netem_dropped(run: Outcome):
    text = Path(run.out, "3", "1", "a.tc").read_text()
    (dropped,) = re.findall(r"qdisc netem .*\n.*\(dropped (\d+),", text)
    # It drops pings, and segments of the control connection, too.
    others = int(dropped) - row(run, 3)["udpLost"]
    assert (row(run, 3)["udpLost"] > 30, 0 <= others <= 4) == (True, True)


def test_only_lost_datagrams_are_lost(run: Outcome):
    lost = [row(run, exp)["udpLost"] for exp in (2, 4, 5)]
    assert lost == [0, 0, 0]


def test_copies_are_duplicates_and_nothing_else(run: Outcome):
    found = row(run, 4)
    # 5 % of 1,500, within three standard deviations.
    assert found["udpDuplicates"] == pytest.approx(75, abs=26)
    assert found["udpReordered"] == 0


def test_datagrams_that_were_overtaken_are_reordered(run: Outcome):
    found = row(run, 5)
    # A delayed one is overtaken if one of the next five, sent within 10 ms, is not delayed.
    assert found["udpReordered"] == pytest.approx(1500 * 0.75 * (1 - 0.75**5), rel=0.1)
    assert found["udpDuplicates"] == 0


def test_hosts_send_no_multicast_reports_once_the_lab_is_up(run: Outcome):
    record = next((run.out / "runs").glob("*.json")).read_text()
    before, after = re.findall(r"Icmp6OutMLDv2Reports[ \\t]*(\d+)", record)
    assert before == after
