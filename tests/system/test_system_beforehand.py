"""What the hosts lack is reported before any traffic, with its place."""

from pathlib import Path

import pytest
from whole_runs import run_script

pytestmark = pytest.mark.lab


def test_requirement_after_an_experiment_stops_the_run_before_it(tmp_path: Path):
    outcome = run_script(
        tmp_path,
        "LAB pair\n"
        "DO_CLIENT host=a server=b ca=cubic dur=0.5 test=TCP_RR\n"
        "WAIT_FLOWS\n"
        "PROCESS_EXP\n"
        "REQUIRE ca=nonesuch\n",
    )
    assert (outcome.status, "(needed at script.nts:5:9)" in outcome.stderr) == (3, True)
    assert not (outcome.out / "1").exists()


def test_congestion_control_that_a_sysctl_names_is_reported_missing_before_any_traffic(
    tmp_path: Path,
):
    outcome = run_script(
        tmp_path,
        "LAB pair\n"
        "DO_CLIENT host=a server=b ca=cubic dur=0.5 test=TCP_RR\n"
        "WAIT_FLOWS\n"
        "PROCESS_EXP\n"
        "SET_SYSCTL host=a net.ipv4.tcp_congestion_control=nonesuch\n",
    )
    assert outcome.status == 3
    assert "congestion control nonesuch: not in this kernel" in outcome.stderr
    assert "(needed at script.nts:5:1)" in outcome.stderr
    assert not (outcome.out / "1").exists()


def test_what_only_the_host_refuses_is_reported_with_its_place_in_the_script(tmp_path: Path):
    outcome = run_script(tmp_path, "LAB pair\nSET_QDISC host=a qdisc=pfifo other=nosuch,3\n")
    assert (outcome.status, "(requested at script.nts:2:1)" in outcome.stderr) == (3, True)
