"""Scenario scripts in a lab, with real flows, as short as they can be."""

import csv
import sys
from pathlib import Path

import pytest
from library_runs import SCRIPTS

from netesto.system import process

pytestmark = pytest.mark.lab

# Longer than any working run takes, even on a busy machine.
PATIENCE_S = 400


def run(folder: Path, script: str, *words: str) -> tuple[int, list[dict[str, str]]]:
    """The exit status of a script's text, and the rows of its exp.csv."""
    (folder / "short.nts").write_text(script)
    options = ["--plain", "--no-pages", "--out", "out", *words]
    command = [sys.executable, "-m", "netesto", "run", *options, "short.nts"]
    status = process.run(command, timeout=PATIENCE_S, check=False, cwd=folder).status
    with (folder / "out" / "exp.csv").open(newline="") as file:
        return status, list(csv.DictReader(file))


def test_a_custom_macro_runs(tmp_path):
    status, rows = run(tmp_path, (SCRIPTS / "custom-macro.nts").read_text(), "-D", "dur=1")
    keys = ("exp", "test", "testNote", "bw", "status")
    assert (status, [tuple(row[key] for key in keys) for row in rows]) == (
        0,
        [
            ("1.0", "TCP_RR", "0", "20mbit", "ok"),
            ("1.1", "TCP_RR", "0", "20mbit", "ok"),
            ("2.0", "TCP_STREAM+...", "1", "20mbit", "ok"),
            ("2.1", "TCP_STREAM", "1", "20mbit", "ok"),
            ("2.2", "TCP_RR", "1", "20mbit", "ok"),
            ("3.0", "TCP_STREAM+...", "4", "20mbit", "ok"),
            ("3.1", "TCP_STREAM", "4", "20mbit", "ok"),
            ("3.2", "TCP_RR", "4", "20mbit", "ok"),
        ],
    )


def test_a_deeper_buffer_of_the_sweep_costs_more_time(tmp_path):
    script = (SCRIPTS / "sweep.nts").read_text()
    short = script.replace("ca=reno,cubic,bbr buffers=30000,100000,", "ca=cubic buffers=30000,")
    status, rows = run(tmp_path, short, "-D", "dur=1", "-D", "reps=1")
    rtt_us = {row["buffers"]: float(row["rtt"]) for row in rows if row["exp"].endswith(".0")}
    assert (status, sorted(rtt_us)) == (0, ["30000", "300000"])
    assert rtt_us["30000"] < rtt_us["300000"]
