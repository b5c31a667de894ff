"""Flows that wait for a buffer, which looks like a slow network."""

import re
from pathlib import Path

import pytest
from needs import kernel_or_reason
from whole_runs import run_script

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

# The path holds 7.5 MB; the kernel's own limit of a send buffer is 4 MB.
SCRIPT = """\
LAB pair rate=300mbit delay=100
FOR size IN 0,64K DO
    DO_SERVER exp=COUNTER host=b expName=held start=1
    DO_CLIENT host=a server=b test=TCP_STREAM tool=native ca=bbr dur=5 remoteBuffer=$size
    WAIT_FLOWS
    PROCESS_EXP
DONE
"""
TOLD = re.compile(r"held back by (its send buffer|the receive window) for (\d+) % of its time")


def test_what_held_a_flow_back_is_reported_with_its_share(tmp_path: Path) -> None:
    kernel_or_reason("sim")
    run = run_script(tmp_path, SCRIPT, ["--ground", "sim", "--seed", "1"])
    told = [TOLD.search(" ".join(run.manifest(exp)["warnings"])) for exp in (1, 2)]
    whole = [row for row in run.rows if row["exp"].endswith(".0")]
    shares = [
        round(100 * float(row[name]) / float(row["tcpi_busy_time"]))
        for row, name in zip(whole, ("sndbuf_limited", "rwnd_limited"), strict=True)
    ]
    assert [each and each.groups() for each in told] == [
        ("its send buffer", f"{shares[0]}"),
        ("the receive window", f"{shares[1]}"),
    ]
    # A path that the sender could fill four times as fast, and one that it hardly uses.
    assert min(shares) > 30
