"""Datagrams in simulated time, where what is right is known exactly."""

import json
from pathlib import Path
from typing import Any

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, netesto

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

# More than the link carries, because no rate is given, and half of it.
SCRIPT = """\
LAB pair rate=1mbit delay=5
FOR rate IN _,500kbit DO
    DO_SERVER exp=COUNTER host=b expName=Datagrams start=1
    IF $rate == _: DO_CLIENT host=a server=b test=UDP_STREAM len=1400 dur=2
    IF $rate != _: DO_CLIENT host=a server=b test=UDP_STREAM len=1400 dur=2 bitrate=$rate
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""

# Ethernet, IPv4 and UDP add 42 bytes to a payload of 1400.
SHARE = 1400 / 1442


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("datagrams")
    (folder / "script.nts").write_text(SCRIPT)
    words = ("run", "--plain", "--ground", "sim", "--seed", "1", "--out", "out", "script.nts")
    done = netesto(folder, *words, timeout=400)
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


def told(run: Outcome, exp: int) -> dict[str, Any]:
    output = Path(run.out, str(exp), "raw", "a", "flow.1.1.out").read_text()
    return json.loads(output.splitlines()[-1])


def test_more_than_the_link_carries_fills_it(run: Outcome):
    rates = [float(row["rate"]) for row in run.rows if row["exp"] == "1.1"]
    assert rates == [pytest.approx(SHARE, rel=0.01)]


def test_what_is_offered_without_a_rate_is_said(run: Outcome):
    assert (
        "a→b: UDP_STREAM without bitrate= offers 1.2 Mbit/s, 1.2 times the rate of its first"
        " shaped link"
    ) in run.stderr


def test_less_than_the_link_carries_arrives_whole(run: Outcome):
    result = told(run, 2)
    assert (result["lost"], result["skipped"], result["arrived"]) == (0, 0, result["sent"])


def test_every_datagram_is_sent_at_its_instant(run: Outcome):
    # Nanoseconds: what sleeping rounds.
    assert max(told(run, exp)["max_ns"] for exp in (1, 2)) <= 2
