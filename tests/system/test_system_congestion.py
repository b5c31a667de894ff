"""What congestion controls report, in simulated time: as ss reports it at the same instant, and as
the path is known to be."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from needs import kernel_or_reason
from whole_runs import Outcome, run_script

from netesto.results import sockets

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

# A segment takes 24 ms, more than two samples: at any instant, ss finds what a sample has.
SCRIPT = """\
LAB pair rate=500kbit delay=30 limit=100p qdisc=codel mark=20ms
FOR ca IN dctcp,vegas,bbr DO
    DO_SERVER exp=COUNTER host=b expName=$ca start=1
    DO_CLIENT host=a server=b test=TCP_STREAM tool=native ca=$ca dur=3 interval=10ms
    WAIT 2.5035
    DO_COMMAND host=a name=ss
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""
COMMANDS = """\
[commands.ss]
run = ["ss", "-tinmHO", "dport", ">=", "13000"]
"""
RTT_US = 60_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    kernel_or_reason("sim")
    folder = tmp_path_factory.mktemp("congestion")
    (folder / "commands.toml").write_text(COMMANDS)
    options = ["--ground", "sim", "--seed", "1", "--commands", str(folder / "commands.toml")]
    return run_script(folder, SCRIPT, options)


def samples(run: Outcome, exp: int) -> np.ndarray:
    found = sockets.read(Path(run.out, str(exp), "raw", "a", "sockets.bin.gz"))
    return found[found["idiag_state"] == 1]


def reported(run: Outcome, exp: int, form: str) -> tuple[str, ...]:
    """The groups of a pattern in what ss printed last."""
    return re.findall(form, json.dumps(run.manifest(exp)))[-1]


def test_values_of_dctcp_are_those_of_ss(run: Outcome):
    form = r"dctcp:\(ce_state:(\d+),alpha:(\d+),ab_ecn:(\d+),ab_tot:(\d+)\)"
    fields = ["dctcp_ce_state", "dctcp_alpha", "dctcp_ab_ecn", "dctcp_ab_tot"]
    values = tuple(map(int, reported(run, 1, form)))
    assert values in {tuple(map(int, each)) for each in samples(run, 1)[fields]}


def test_some_bytes_were_marked(run: Outcome):
    assert samples(run, 1)["dctcp_ab_ecn"].max() > 0


def test_the_base_rtt_of_vegas_is_that_of_the_path(run: Outcome):
    # The links send a segment of 1514 bytes, and the acknowledgement of 66, perhaps behind
    # another one.
    # Of what was sent again Linux takes the RTT from time stamps, which count milliseconds.
    found = samples(run, 2)
    found = found[found["tcpi_total_retrans"] == 0]
    known = found[(found["vegas_enabled"] == 1) & (found["vegas_rtt"] < 2**31 - 1)]
    sending_us = (1514 + 66) * 8 / 0.5
    before_it_us = 66 * 8 / 0.5
    least_us = RTT_US + sending_us
    assert least_us - 2 <= known["vegas_rtt"].min() <= least_us + before_it_us + 2


def test_values_of_bbr_are_those_of_ss(run: Outcome):
    form = r"bbr:\(bw:(\d+)bps,mrtt:([\d.]+),pacing_gain:([\d.]+),cwnd_gain:([\d.]+)"
    bandwidth, rtt_ms, pacing, cwnd = map(float, reported(run, 3, form))
    # ss rounds the bandwidth to bits, and gains to two decimals.
    assert (round(bandwidth / 8), rtt_ms * 1000, pacing, cwnd) in {
        (
            int(each["bbr_bw_lo"]), float(each["bbr_min_rtt"]),
            round(each["bbr_pacing_gain"] / 256, 2), round(each["bbr_cwnd_gain"] / 256, 2),
        )
        for each in samples(run, 3)
    }  # fmt: skip
