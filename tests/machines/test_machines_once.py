"""`netesto run --ssh`: machines with ssh and Python alone, as they were when the run has ended."""

import contextlib
import csv
import functools
import io
import json
import os
import signal
import time

import psutil
import pytest
from processes import wait_for_costly
from worlds import USER, machines

from netesto.system import process

# Only keeps a broken test from hanging: on a twelfth of a processor a command takes 90 s.
PATIENCE_S = 600

SCRIPT = """\
SOURCE inlib
DEFAULT dur=1
RUN OneFlowStream server=b1 client=b2 ca=cubic dur=$dur
"""
SET_SCRIPT = f"""\
SET_LINK host=b2 mtu=1400
SET_ROUTE host=b2 to=b1 initcwnd=20
{SCRIPT}"""
# Of one host to itself: what it needs is brought only once more.
USER_SCRIPT = """\
DO_SERVER host=b1 exp=COUNTER expName=Exp order=0 start=1
DO_CLIENT host=b1 server=b1 test=TCP_RR req=100 dur=1 stats=0
WAIT_FLOWS
DO_SERVER host=b1 order=1
GET_DATA host=b1
PROCESS_EXP exp=PREV
"""
CACHE = ".cache/netesto"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    with machines("b1", "b2", folder=tmp_path_factory.mktemp("bare"), bare=True) as made:
        made.controller.write("/root/my.nts", SCRIPT)
        made.controller.write("/root/set.nts", SET_SCRIPT)
        made.controller.write(f"/home/{USER}/my.nts", USER_SCRIPT)
        yield made


def traces(machine, home="/root"):
    """Files where an agent could have left some, and processes, when the sessions of ssh have
    ended, which takes a moment."""
    machine.await_end_of_sessions()
    find = ["find", "/tmp", "/run/netesto", "/var/lib/netesto", "/etc/netesto", home, "/opt"]
    files = machine.run([*find, "-path", "*/.cache", "-prune", "-o", "-print"], check=False)
    return files.stdout, machine.run(["ps", "-e", "-o", "comm="]).stdout


def network(machine):
    """The settings that SET_LINK and SET_ROUTE change."""
    return [machine.run(["ip", "-o", what]).stdout for what in ("link", "route")]


@pytest.fixture(scope="module")
def run(bare):
    """A first run, from nothing: what was before, how it ended, and what was after."""
    before = [traces(bare[name]) for name in ("b1", "b2")]
    argv = ["netesto", "run", "--no-pages", "--ssh", "b1,b2", "-o", "out", "my.nts"]
    done = bare.controller.run(argv, timeout=PATIENCE_S)
    return before, done, [traces(bare[name]) for name in ("b1", "b2")]


def test_a_run_over_ssh_needs_nothing_on_the_hosts_and_measures(run):
    _, done, _ = run
    assert ["ok" in line.split() for line in done.stdout.splitlines() if " Exp " in line] == [True]


def test_a_run_over_ssh_leaves_no_trace_but_the_cache(run):
    before, _, after = run
    assert after == before


def test_the_record_of_a_run_over_ssh_has_the_hosts_as_they_were_named(bare, run):
    text = bare.controller.run(["sh", "-c", "cat out/runs/*.json"]).stdout
    assert json.loads(text)["hosts"] == {"b1": "ssh://b1", "b2": "ssh://b2"}


def test_the_cache_has_the_packages_once(bare, run):
    names = bare["b1"].run(["ls", f"/root/{CACHE}"]).stdout.split()
    assert [name.partition("-")[0] for name in names] == ["code", "packages"]


def test_without_root_a_run_over_ssh_measures_too(bare):
    argv = ["netesto", "run", "--no-pages", "--ssh", "b1", "-o", "out", "my.nts"]
    done = bare.controller.run(argv, timeout=PATIENCE_S, user=USER)
    assert ["ok" in line.split() for line in done.stdout.splitlines() if " Exp " in line] == [True]


def test_a_killed_run_over_ssh_leaves_nothing(bare, run):
    before = [traces(bare[name]) for name in ("b1", "b2")]
    untouched = network(bare["b2"])
    log = bare["b1"].folder / "killed.log"
    options = ["--plain", "--ssh", "b1,b2", "-D", "dur=60", "-o", "killed"]
    argv = ["netesto", "run", *options, "set.nts"]
    child = bare.controller.start(argv, stdout=log)
    assert process.wait_until(
        lambda: "flow cubic" in log.read_text() or child.poll() is not None, timeout=PATIENCE_S
    )
    link, route = network(bare["b2"])
    assert ("mtu 1400" in link, "initcwnd 20" in route) == (True, True)
    for each in psutil.Process(child.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "netesto" in " ".join(each.cmdline()) and each.name() != "ssh":
                os.kill(each.pid, signal.SIGKILL)
    process.end(child)
    assert wait_for_costly(
        lambda: [traces(bare[name]) for name in ("b1", "b2")] == before, timeout=PATIENCE_S
    )
    assert network(bare["b2"]) == untouched


def kill(machine, words):
    """SIGKILL to the processes of a machine that have these words in their command lines."""
    lines = machine.run(["ps", "-e", "-o", "pid=,args="]).stdout.splitlines()
    pids = [line.split()[0] for line in lines if words in line]
    machine.run(["kill", "-9", *pids], check=False)


def has_begun(log, number, child):
    return log.read_text().count("#1.1: 6 s") >= number or child.poll() is not None


@pytest.fixture(scope="module")
def lost(bare, run):
    """A run that loses in mid-flow an ssh process, in the next experiment an agent, then a host;
    its output, and what it left behind."""
    before = [traces(bare[name]) for name in ("b1", "b2")]
    log = bare["b1"].folder / "lost.log"
    flow = "RUN OneFlowStream server=b1 client=b2 ca=cubic dur=6\n"
    bare.controller.write("/root/lost.nts", f"SOURCE inlib\nSET_LINK host=b1 mtu=1400\n{flow * 4}")
    argv = ["netesto", "run", "--plain", "--no-pages", "--ssh", "b1,b2", "-o", "lost", "lost.nts"]
    child = bare.controller.start(argv, stdout=log)
    faults = [
        functools.partial(kill, bare.controller, " b1 python3 "),
        functools.partial(kill, bare["b2"], "netesto.agent.daemon"),
        functools.partial(bare.reboot, "b1"),
    ]
    for number, inject in enumerate(faults, start=1):
        assert process.wait_until(
            functools.partial(has_begun, log, number, child), timeout=PATIENCE_S
        )
        inject()
    status = child.wait(PATIENCE_S)
    return before, status, log.read_text(), [traces(bare[name]) for name in ("b1", "b2")]


def test_a_run_over_ssh_goes_on_when_ssh_an_agent_or_a_host_was_lost(bare, lost):
    _, status, said, _ = lost
    rows = list(csv.DictReader(io.StringIO(bare.controller.read("lost/exp.csv"))))
    statuses = [row["status"] for row in rows if row["exp"].endswith(".0")]
    assert (status, statuses) == (1, ["ok", "failed", "failed", "ok"]), said


def test_a_run_over_ssh_that_lost_an_ssh_process_has_lost_nothing_else(lost):
    assert "b1: connected again; nothing was lost" in lost[2]


def test_a_run_over_ssh_that_lost_agents_leaves_no_trace(bare, lost):
    before, _, _, after = lost
    assert (after, "mtu 1400" in network(bare["b1"])[0]) == (before, False)


def test_two_runs_over_ssh_that_wait_take_turns_in_whatever_order_they_name_their_hosts(bare, run):
    log = bare["b1"].folder / "turns.log"
    argv = ["netesto", "run", "--plain", "--no-pages", "--wait"]
    children = [
        bare.controller.start([*argv, "--ssh", hosts, "-o", hosts, "my.nts"], stdout=log)
        for hosts in ("b1,b2", "b2,b1")
    ]
    statuses = [child.wait(PATIENCE_S) for child in children]
    waits = [line for line in log.read_text().splitlines() if "waiting: " in line]
    others = {line.partition(": in use by ")[2] for line in waits}
    assert (statuses, len(others)) == ([0, 0], 1), log.read_text()


def test_ctrl_c_ends_a_run_over_ssh_whose_host_is_cut_off_and_the_host_puts_itself_back(bare, run):
    before = [traces(bare[name]) for name in ("b1", "b2")]
    log = bare["b1"].folder / "cut.log"
    options = ["--plain", "--no-pages", "--ssh", "b1,b2", "-D", "dur=60", "-o", "cut"]
    argv = ["netesto", "run", *options, "my.nts"]
    child = bare.controller.start(argv, stdout=log)
    assert process.wait_until(
        lambda: "flow cubic" in log.read_text() or child.poll() is not None, timeout=PATIENCE_S
    )
    bare.cut("b1", "management")
    begun = time.monotonic()
    process.kill_group(child.pid, signal.SIGINT)
    status = child.wait(PATIENCE_S)
    took_s = time.monotonic() - begun
    bare.restore("b1", "management")
    # 40 s if the end of that ssh is waited for; 5 s on a machine that does nothing else.
    assert (status, took_s < 35) == (130, True), log.read_text()
    assert wait_for_costly(
        lambda: [traces(bare[name]) for name in ("b1", "b2")] == before, timeout=PATIENCE_S
    )


def test_a_host_that_would_be_an_option_of_ssh_is_refused(bare):
    argv = ["netesto", "run", "--ssh", "b1,-b4@x", "my.nts"]
    done = bare.controller.run(argv, timeout=PATIENCE_S, check=False)
    told = "netesto: '-b4@x' is neither a hosts file nor a host"
    assert (done.status, done.stderr.splitlines()[0]) == (2, told)


def test_a_host_that_ssh_does_not_reach_is_named_before_anything_is_done(bare):
    argv = ["netesto", "run", "--ssh", "b1,b2,b3", "my.nts"]
    done = bare.controller.run(argv, timeout=PATIENCE_S, check=False)
    assert (done.status, "netesto: b3: not reached by ssh: " in done.stderr) == (3, True)
