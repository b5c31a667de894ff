"""What simulated time does not support is refused before anything starts."""

import pytest

from netesto import cli

SCRIPT = """\
LAB pair rate=50mbit
DO_SERVER host=b exp=COUNTER start=1
DO_CLIENT host=a server=b test={} dur=1
WAIT_FLOWS
GET_DATA host=a
GET_DATA host=b
PROCESS_EXP
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("tool", ["iperf3 bitrate=5mbit", "netperf"])
def test_datagrams_without_end_are_refused_with_their_place(folder, capsys, tool):
    (folder / "a.nts").write_text(SCRIPT.format(f"UDP_STREAM tool={tool}"))
    status = cli.main(["run", "--ground", "sim", "a.nts"])
    told = capsys.readouterr().err
    assert (status, [path.name for path in folder.iterdir()]) == (3, ["a.nts"])
    assert "UDP_STREAM: in simulated time only with tool=native (needed at a.nts:3)\n" in told


def test_a_dry_run_refuses_them_too(folder):
    (folder / "a.nts").write_text(SCRIPT.format("UDP_STREAM tool=netperf"))
    assert cli.main(["run", "-n", "--ground", "sim", "a.nts"]) == 3


@pytest.mark.parametrize(("ground", "tool"), [("uml", "netperf"), ("sim", "auto")])
def test_what_a_ground_can_do_is_not_refused(folder, ground, tool):
    (folder / "a.nts").write_text(SCRIPT.format(f"UDP_STREAM tool={tool}"))
    assert cli.main(["run", "-n", "--ground", ground, "a.nts"]) == 0


def test_requests_and_replies_in_datagrams_are_fine(folder):
    (folder / "a.nts").write_text(SCRIPT.format("UDP_RR req=1K"))
    assert cli.main(["run", "-n", "--ground", "sim", "a.nts"]) == 0
