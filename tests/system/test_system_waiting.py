"""Several people use the same hosts: a run that waits gets them, others are refused, and Ctrl-C
ends a wait; and what others change there is in the record of the run."""

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from whole_runs import command

from netesto.lab import netns
from netesto.lab.netns import Lab
from netesto.run import labs
from netesto.system import process

pytestmark = pytest.mark.lab

PATIENCE_S = 120

SCRIPT = """\
DO_CLIENT host=a server=b exp=COUNTER expName=x test=TCP_STREAM ca=cubic dur=%s
WAIT_FLOWS
PROCESS_EXP
"""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Two hosts with agents, and a folder to run in."""

    lab: Lab
    folder: Path

    def run(
        self, name: str, duration_s: int, *words: str, before: str = "", draws: bool = False
    ) -> process.Child:
        script, table = self.folder / f"{name}.nts", self.folder / f"{name}.toml"
        script.write_text(before + SCRIPT % duration_s)
        # Each names them in another order.
        endpoints = sorted(self.lab.endpoints.values(), key=lambda each: each.host)
        table.write_text(
            "".join(
                f'[{each.host}]\nagent = "{each.agent}"\n'
                f"addresses = {[str(address) for address in each.addresses.values()]}\n"
                for each in (endpoints if name == "first" else endpoints[::-1])
            )
        )
        pages = [] if draws else ["--no-pages"]
        argv = ["run", "--plain", *pages, "--hosts", str(table), "--out", str(self.folder / name)]
        out = self.folder / f"{name}.out"
        return process.launch([*command(*argv), *words, str(script)], stdout=out)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def queue_of(self, name: str) -> list[str]:
        """The processes that wait for a host, as `hosts status` reports them."""
        argv = command("hosts", "status", str(self.folder / f"{name}.toml"))
        said = process.run(argv, timeout=PATIENCE_S).stdout.partition("\nb: ")[0]
        return re.findall(r"^    waiting, \d: \S+ pid (\d+) ", said, re.MULTILINE)

    def await_text(self, name: str, text: str) -> None:
        assert process.wait_until(lambda: text in self.said(name), timeout=PATIENCE_S)


@pytest.fixture
def hosts(tmp_path: Path, lab_obstacle: str) -> Iterator[Hosts]:
    if lab_obstacle:
        pytest.skip(f"lab: {lab_obstacle}")
    network = labs.network(labs.parse_spec("pair,rate=20mbit"))
    lab = netns.bring_up(labs.plan_of(network))
    yield Hosts(lab, tmp_path)
    netns.take_down(lab)


def test_the_first_in_the_queue_runs_next_others_are_refused_and_ctrl_c_ends_a_wait(hosts: Hosts):
    first = hosts.run("first", 100)
    hosts.await_text("first", "flow cubic a→b")
    waits = hosts.run("waits", 1, "--wait")
    hosts.await_text("waits", "waiting: ")
    gives_up = hosts.run("gives_up", 1, "--wait=5m")
    hosts.await_text("gives_up", "waiting: ")
    last = hosts.run("last", 1, "--wait")
    hosts.await_text("last", "waiting: ")
    queue = hosts.queue_of("last")
    refused = hosts.run("refused", 1).wait(PATIENCE_S)
    # However long the others took to begin, it ends now.
    for run in (gives_up, first):
        os.kill(run.pid, signal.SIGINT)
    runs = (gives_up, first, waits, last)
    statuses = [run.wait(PATIENCE_S) for run in runs]
    holder = f"in use by {os.environ.get('USER', 'root')}@{os.uname().nodename} pid {first.pid}"
    assert (refused, statuses) == (3, [130, 130, 0, 0])
    assert queue == [str(each.pid) for each in (waits, gives_up, last)]
    # It came last, and was served after the one that waited longer.
    assert re.search(rf"in use by \S+ pid {waits.pid} ", hosts.said("last"))
    assert f"{holder} since " in hosts.said("refused")
    assert "netesto run --wait … waits until it is free." in hosts.said("refused")
    assert f"{holder} since " in hosts.said("waits")


def test_what_somebody_else_changed_is_in_the_record_of_the_run_and_in_the_index(hosts: Hosts):
    run = hosts.run("changed", 1, before="SET_SYSCTL host=a net.ipv4.tcp_ecn=1\n", draws=True)
    hosts.await_text("changed", "flow cubic a→b")
    # On a busy machine the run would put the host back before the other program has begun.
    os.kill(run.pid, signal.SIGSTOP)
    try:
        inside = ["ip", "netns", "exec", f"{hosts.lab.record.lab}-a"]
        process.run([*inside, "sysctl", "-qw", "net.ipv4.tcp_ecn=0"], timeout=PATIENCE_S)
    finally:
        os.kill(run.pid, signal.SIGCONT)
    status, out = run.wait(PATIENCE_S), hosts.folder / "changed"
    [record] = (out / "runs").glob("*.json")
    what = (
        "a: sysctl net.ipv4.tcp_ecn=1: another program changed it since, to 0, which is left as it"
        " is"
    )
    assert (status, json.loads(record.read_text())["left"]) == (1, [what])
    assert (
        f"Hosts not as before (run {record.stem}):</span> {what}" in (out / "exp.html").read_text()
    )
