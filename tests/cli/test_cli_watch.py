"""`netesto lab watch`: what the TCP of a lab's hosts retransmits, every second."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from netesto import cli
from netesto.lab import netns, plan, records, topology
from netesto.lab.netns import Lab
from netesto.system import process

pytestmark = pytest.mark.lab

TIMEOUT_S = 60
LONG_S = 120

WATCH = process.python("netesto", "lab", "watch")


@pytest.fixture(scope="module")
def shallow() -> Iterator[Lab]:
    """A lab whose link has a rate and almost no queue."""
    network = topology.build("pair", {"rate": "20mbit", "limit": "8000"})
    made = plan.plan(network, prefix=records.fresh_id(records.STATE_FOLDER))
    with netns.up(made, agents=False) as lab:
        yield lab


def watching(lab: Lab, *hosts: str) -> "subprocess.Popen[str]":
    argv = [*WATCH, "--name", lab.id, *hosts]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_retransmissions_of_a_flow_are_shown(shallow: Lab, tmp_path: Path):
    def listens() -> bool:
        return ":12865" in shallow.exec("b", ["ss", "-Hltn"], timeout=TIMEOUT_S).stdout

    server = shallow.command("b", ["netserver", "-D", "-4"])
    flow = shallow.command("a", ["netperf", "-H", "10.0.1.2", "-l", str(LONG_S)])
    said = tmp_path / "said"
    with (
        process.background(server, stdout=tmp_path / "server", ready=listens, timeout=TIMEOUT_S),
        process.background([*WATCH, "--name", shallow.id], stdout=said),
        process.background(flow, stdout=tmp_path / "flow"),
    ):
        assert process.wait_until(lambda: bool(retransmitting(said)), timeout=TIMEOUT_S)
        host, sent, now, _, total = retransmitting(said)[0]
    assert (host, int(sent) > int(now), int(total) > 0) == ("a", True, True)


def retransmitting(said: Path) -> list[list[str]]:
    """The lines of hosts that have retransmitted, without the time of day."""
    whole = said.read_text(encoding="utf-8").rpartition("\n")[0]
    words = [line.split()[1:] for line in whole.splitlines()[1:]]
    return [each for each in words if each[2] != "0"]


def test_watch_of_one_host_shows_it_alone_and_ends_at_ctrl_c(shallow: Lab):
    with watching(shallow, "b") as watch:
        assert watch.stdout is not None
        lines = [watch.stdout.readline().split()[1] for _ in range(2)]
        watch.send_signal(signal.SIGINT)
        said = watch.communicate(timeout=TIMEOUT_S)[1]
    assert (lines, watch.returncode, said) == (
        ["host", "b"], 130, "netesto: interrupted\n",
    )  # fmt: skip


def test_watch_ends_with_the_lab():
    made = plan.plan(topology.build("pair", {}), prefix=records.fresh_id(records.STATE_FOLDER))
    with netns.up(made, agents=False) as lab:
        watch = watching(lab)
        assert watch.stdout is not None
        watch.stdout.readline()
    said = watch.communicate(timeout=TIMEOUT_S)[1]
    assert (watch.returncode, said) == (0, f"lab {lab.id} was removed\n")


def test_watch_of_an_unknown_host_lists_the_hosts(shallow: Lab, capsys: pytest.CaptureFixture[str]):
    outcome = cli.main(["lab", "watch", "--name", shallow.id, "z"])
    assert (outcome, capsys.readouterr().err) == (
        2, f"netesto: lab {shallow.id}: no host z\nHosts: a, b.\n",
    )  # fmt: skip


def test_a_command_in_a_lab_gets_its_own_options(shallow: Lab):
    words = ["lab", "exec", "--name", shallow.id, "a", "echo", "-n", "--wait"]
    assert process.run(process.python("netesto", *words), timeout=TIMEOUT_S).stdout == "--wait"


def test_no_reader_ends_the_watch(shallow: Lab):
    argv = f"{' '.join(WATCH)} --name {shallow.id} | head -n 2; exit $PIPESTATUS"
    finished = process.run(["bash", "-c", argv], timeout=TIMEOUT_S)
    assert (finished.status, finished.stderr, len(finished.stdout.splitlines())) == (0, "", 2)
