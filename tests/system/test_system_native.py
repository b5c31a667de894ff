"""Tests that only tool=native has, in simulated time."""

import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, netesto

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

SCRIPT = """\
LAB pair rate=10mbit delay=5
FOR test IN TCP_BIDI,KV_RR DO
    DO_SERVER exp=COUNTER host=b expName=$test start=1
    DO_CLIENT host=a server=b test=$test tool=native dur=1
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""

WORDS = ("run", "--plain", "--ground", "sim", "--seed", "1", "--out", "out", "script.nts")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("native")
    (folder / "script.nts").write_text(SCRIPT)
    checked = netesto(folder, "check", "script.nts")
    assert (checked.status, checked.stdout) == (0, "nothing found wrong\n"), checked.stderr
    done = netesto(folder, *WORDS, timeout=400)
    return Outcome(done.status, done.stdout, done.stderr, folder / "out")


def test_both_directions_of_a_stream_have_nearly_the_rate_of_the_link(run):
    row = run.rows[0]
    both = [float(row[name]) for name in ("rate", "reverseRate")]
    assert (row["expName"], row["status"]) == ("TCP_BIDI", "ok")
    assert both == pytest.approx([10 * 1448 / 1514] * 2, rel=0.1)


def test_a_request_to_a_store_takes_a_round_trip(run):
    row = next(row for row in run.rows if row["expName"] == "KV_RR")
    assert (row["status"], row["latencies"], row["transactionRate"]) == ("ok", "99.0", "99.0")
    assert float(row["p50Latency"]) == pytest.approx(10_000, rel=1e-3)
