"""Failures of a real run are reported, and nothing is left behind."""

import os
import signal
from pathlib import Path

import pytest
from whole_runs import Outcome, command, left_of_labs, netesto, run_script

from netesto.system import process

pytestmark = pytest.mark.lab

PAIR = "LAB pair rate=50mbit\nSOURCE inlib\n"

# Longer than any working start or end takes, even on a busy machine.
PATIENCE_S = 400

STREAM = "RUN OneFlowStream server=b client=a expName=x ca=cubic dur=%s\n"


def wait_for(folder: Path, text: str) -> None:
    """Wait until the run that `start` began in `folder` has printed `text`."""
    output = folder / "output"
    assert process.wait_until(lambda: text in output.read_text(), timeout=PATIENCE_S), (
        output.read_text()
    )


def start(folder: Path, text: str) -> process.Child:
    (folder / "script.nts").write_text(text)
    words = ("run", "--plain", "--no-pages", "--out", str(folder / "out"))
    argv = command(*words, str(folder / "script.nts"))
    return process.launch(argv, stdout=folder / "output")


def test_an_interrupted_run_keeps_what_it_measured_and_takes_the_lab_down(tmp_path: Path):
    run = start(tmp_path, PAIR + STREAM % 20)
    wait_for(tmp_path, "flow cubic a→b")
    os.kill(run.pid, signal.SIGINT)
    status = run.wait(PATIENCE_S)
    outcome = Outcome(status, "", "", tmp_path / "out")
    assert (outcome.status, [row["status"] for row in outcome.rows]) == (
        130,
        ["failed", "interrupted"],
    )
    assert outcome.manifest(1)["reasons"] == ["interrupted"]
    assert left_of_labs(outcome.out) == []


def test_a_congestion_control_that_the_kernel_lacks_is_refused_before_traffic(tmp_path: Path):
    script = PAIR + (STREAM % 1).replace("cubic", "nonesuch")
    outcome = run_script(tmp_path, script)
    assert outcome.status == 3
    assert "a: congestion control nonesuch: not in this kernel" in outcome.stderr
    assert not (outcome.out / "exp.csv").exists()


def test_a_qdisc_that_the_kernel_lacks_is_refused_before_traffic(tmp_path: Path):
    outcome = run_script(tmp_path, PAIR + "SET_QDISC host=a qdisc=nonesuch\n" + STREAM % 1)
    assert outcome.status == 3
    assert "a: qdisc nonesuch: not in this kernel" in outcome.stderr


def test_a_tool_that_is_not_installed_is_named(tmp_path: Path):
    script = PAIR + "DO_CLIENT host=a server=b exp=COUNTER tool=netperf dur=1 ca=cubic req=S\n"
    (tmp_path / "script.nts").write_text(script)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ip", "tc", "ss", "ping", "iperf3", "sysctl", "nsenter", "unshare", "ethtool"):
        found = process.run(["which", name], timeout=60).stdout.strip()
        (tools / name).symlink_to(found)
    done = netesto(tmp_path, "run", "--plain", "--no-pages", "script.nts", path=str(tools))
    assert (done.status, "netperf is not installed at both hosts" in done.stderr) == (3, True)


def test_a_flow_over_ipv6_uses_ipv6_addresses(tmp_path: Path):
    outcome = run_script(tmp_path, PAIR + STREAM % 1, ["--family", "6"])
    request = outcome.manifest(1)["groups"][0]["request"]
    assert (outcome.status, ":" in request["client_address"]) == (0, True)


def test_the_quota_of_a_lab_is_a_fact_and_a_warning(tmp_path: Path, quota_group: Path):
    (tmp_path / "script.nts").write_text("LAB pair\n" + "SOURCE inlib\n" + STREAM % 1)
    join = f'echo $$ >{quota_group}/cgroup.procs && exec "$@"'
    words = ("run", "--plain", "--no-pages", "--ground", "lab", "--out", "out", "script.nts")
    argv = ["sh", "-c", join, "sh", *command(*words)]
    done = process.run(argv, timeout=PATIENCE_S, cwd=tmp_path)
    outcome = Outcome(done.status, done.stdout, done.stderr, tmp_path / "out")
    [said] = [text for text in outcome.manifest(1)["warnings"] if "CPU quota" in text]
    assert said.startswith("this machine: its control group has a CPU quota of 0.5 CPUs")
    facts = outcome.manifest(1)["facts"]
    seen = [(outcome.out / "1" / "0" / f"{host}.info").read_text() for host in "ab"]
    assert facts["cpu quota"] == "0.5 CPUs"
    assert ["cpu throttled: unknown" in each for each in seen] == [True, True]
