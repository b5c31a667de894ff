"""Queues that a flow fills, in simulated time: the samples equal the counts of tc."""

import itertools
import re
from pathlib import Path

import pytest
from needs import kernel_or_reason
from whole_runs import PATIENCE_S, Outcome, run_script

from netesto.collectors import links
from netesto.collectors.queues import QDISC_COUNTS
from netesto.measured import LinkSamples

pytestmark = [pytest.mark.sim, pytest.mark.timeout(2 * PATIENCE_S)]

LIMIT_BYTES, RATE_BPS, FRAME_BYTES = 30000, 10e6, 1514

# One path through a queue that drops, one through codel, which marks.
TOPOLOGY = """\
[nodes]
client = "host"
full = "host"
marked = "host"
r = "router"

[[links]]
between = ["client", "r"]

[[links]]
between = ["r", "full"]
rate = "10mbit"
delay = 10
limit = "30000"
offload = "off"

[[links]]
between = ["r", "marked"]
rate = "10mbit"
delay = 10
limit = "200p"
qdisc = "codel"
mark = 5
offload = "off"
"""

SCRIPT = """\
LAB file=lab.toml
FOR h IN client,full,marked DO
    SET_SYSCTL host=$h net.ipv4.tcp_ecn=1
DONE
BEGIN queue
    DO_SERVER host=$server exp=COUNTER expName=queue order=0 start=1
    DO_CLIENT host=client server=$server test=$test ca=cubic dur=1 interval=0.02 stats=1
    WAIT_FLOWS
    DO_SERVER host=$server order=1
    GET_DATA host=client
    GET_DATA host=$server
    PROCESS_EXP
END queue
RUN queue server=full test=TCP_STREAM
RUN queue server=marked test=TCP_STREAM
RUN queue server=full test=TCP_BIDI
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("queues")
    (folder / "lab.toml").write_text(TOPOLOGY)
    outcome = run_script(folder, SCRIPT, ["--ground", "sim", "--seed", "1"])
    assert outcome.status == 0, outcome.stderr
    return outcome


def row(ran: Outcome, exp: int) -> dict[str, str]:
    return next(each for each in ran.rows if each["exp"] == f"{exp}.1")


def told_by_tc(folder: Path, device: str, name: str) -> int:
    """A count of all qdiscs of a link, where tc shows it, from before to after the flow."""
    counts = []
    for order in ("0", "1"):
        text = (folder / order / "client.links").read_text()
        blocks = [each for each in text.split("qdisc ") if f" dev {device} " in each]
        found = [re.findall(rf"\b{name} (\d+)", block) for block in blocks]
        counts.append(sum(int(each[0]) for each in found if each))
    return counts[1] - counts[0]


def sampled(ran: Outcome, exp: int) -> LinkSamples:
    return links.read(ran.out / str(exp) / "raw" / "client" / "links.jsonl.gz")["links"]


def test_the_greatest_backlog_is_the_limit(ran):
    greatest = float(row(ran, 1)["backlogMax"])
    assert LIMIT_BYTES - 2 * FRAME_BYTES <= greatest <= LIMIT_BYTES


def test_the_delay_of_a_queue_is_its_backlog_at_the_rate_of_its_shaper(ran):
    values = row(ran, 1)
    expected_us = float(values["backlog"]) * 8e6 / RATE_BPS
    assert float(values["queueDelay"]) == pytest.approx(expected_us, rel=1e-4)


def test_tcp_waits_in_the_queue_that_was_sampled(ran):
    values = row(ran, 1)
    # 20 ms of the path, and 1.2 ms of sending a segment.
    assert float(values["rtt"]) == pytest.approx(21200 + float(values["queueDelay"]), rel=0.1)


def test_drops_are_those_of_tc(ran):
    # Of two qdiscs, netem counts what tbf drops, too.
    told = told_by_tc(ran.out / "1", "r-full", "dropped")
    assert (float(row(ran, 1)["queueDrops"]) * 2, told > 0) == (told, True)


def test_drops_of_both_directions_are_counted_if_both_have_data(ran):
    ways = [told_by_tc(ran.out / "3", device, "dropped") for device in ("r-full", "full-r")]
    assert (float(row(ran, 3)["queueDrops"]) * 2, min(ways) > 0) == (sum(ways), True)


def test_marks_are_those_of_tc(ran):
    folder = ran.out / "2"
    told = told_by_tc(folder, "r-marked", "ecn_mark") + told_by_tc(folder, "r-marked", "ce_mark")
    assert (float(row(ran, 2)["queueMarks"]), told > 0) == (told, True)


def test_a_queue_that_does_not_count_marks_has_none(ran):
    assert (row(ran, 1)["queueMarks"], row(ran, 2)["queueDrops"]) == ("", "0.0")


def test_samples_come_at_the_interval_that_was_requested(ran):
    for samples in sampled(ran, 1).qdiscs.values():
        # The first one comes when the interface is first watched, the last one at the end.
        ticks = samples.time_s[1:-1]
        gaps = [after - before for before, after in itertools.pairwise(ticks)]
        assert (ticks[-1] - ticks[0]) / len(gaps) == pytest.approx(0.02, rel=1e-3)
        assert max(gaps) < 0.0225


def test_every_level_is_in_the_raw_file(ran):
    kinds = [each.kind for each in sampled(ran, 2).qdiscs if each.device == "r-marked"]
    assert (kinds, len(QDISC_COUNTS)) == (["netem", "codel", "clsact"], 8)
