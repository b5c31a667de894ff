"""`netesto hosts install` on machines that have ssh and Python, and nothing of ours."""

import contextlib
import tomllib
from collections.abc import Iterator

import pytest
from worlds import World, machines

from netesto import process
from netesto.process import Finished

PATIENCE_S = 100

# Folders by their names and modes; of files also size and time.
FIND = (
    r"find /etc /opt /usr/local /var/lib /run /root /home /tmp"
    r" \( -type d -printf '%p %m\n' -o -printf '%p %m %s %T@\n' \) | sort"
)


def netesto(world: World, *words: str, user: str = "root") -> Finished:
    argv = ["netesto", *words]
    return world.controller.run(argv, timeout=PATIENCE_S, user=user, check=False)


@contextlib.contextmanager
def bare_machines(tmp_path_factory, *names: str) -> Iterator[World]:
    with machines(*names, folder=tmp_path_factory.mktemp("bare"), bare=True) as made:
        yield made


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    with bare_machines(tmp_path_factory, "b1", "b2", "b3") as made:
        yield made


def state(machine) -> tuple[list[str], list[str]]:
    """The files of a machine where an installation could put some, and its processes."""
    files = machine.run(["sh", "-c", FIND]).stdout.splitlines()
    return files, machine.run(["ps", "-e", "-o", "comm="]).stdout.splitlines()


@pytest.fixture(scope="module")
def installed(bare):
    """Two hosts with agents: what they were before, and how it went."""
    before = [state(bare[name]) for name in ("b1", "b2")]
    return before, netesto(bare, "hosts", "install", "b1", "root@b2")


def test_two_bare_machines_have_agents_and_a_proof(installed):
    _, done = installed
    lines = done.stdout.splitlines()
    assert (done.status, lines[-1].split(":")[0]) == (0, "proof    a flow of 2 s from each host")


def test_the_hosts_file_has_the_hosts_under_the_names_that_were_given(bare, installed):
    text = bare.controller.read("hosts.toml")
    assert tomllib.loads(text) == {
        name: {
            "agent": agent,
            "addresses": [str(bare[name].address()), str(bare[name].address6())],
        }
        for name, agent in (("b1", "ssh://b1"), ("b2", "ssh://root@b2"))
    }


def test_a_script_runs_on_the_hosts_that_were_installed(bare, installed):
    bare.controller.write(
        "my.nts", "SOURCE inlib\nRUN OneFlowStream server=b1 client=b2 ca=cubic dur=1\n"
    )
    done = netesto(bare, "run", "--hosts", "hosts.toml", "-o", "out", "my.nts")
    assert (done.status, bare.controller.exists("out/1/exp.html")) == (0, True)


def test_a_second_installation_changes_nothing_and_says_so(bare, installed):
    before = [state(bare[name]) for name in ("b1", "b2")]
    done = netesto(bare, "hosts", "install", "b1", "b2")
    after = [state(bare[name]) for name in ("b1", "b2")]
    said = [line for line in done.stdout.splitlines() if "no systemd" not in line]
    nothing = [f"{name}: has this agent: nothing to do" for name in ("b1", "b2")]
    assert (done.status, said, after) == (0, nothing, before)


def test_without_names_all_hosts_of_the_file_are_meant(bare, installed):
    done = netesto(bare, "hosts", "install")
    said = [line for line in done.stdout.splitlines() if "no systemd" not in line]
    assert said == [f"{name}: has this agent: nothing to do" for name in ("b1", "b2")]


def test_an_agent_that_was_killed_is_started_again(bare, installed):
    pids = bare["b1"].run(["cat", "/opt/netesto/agent.lock"]).stdout
    first = bare["b1"].run(["ps", "-o", "pid=", "--ppid", pids]).stdout.strip()
    bare["b1"].run(["kill", "-9", first])
    argv = ["ps", "-o", "pid=", "--ppid", pids]
    assert process.wait_until(
        lambda: bare["b1"].run(argv, check=False).stdout.strip() not in {"", first},
        timeout=PATIENCE_S,
    )


def test_an_installation_that_lost_a_file_is_mended(bare, installed):
    bare["b2"].run(["rm", "/opt/netesto/netesto-agent"])
    done = netesto(bare, "hosts", "install", "b2")
    assert (done.status, bare["b2"].exists("/opt/netesto/netesto-agent")) == (0, True)


def test_another_version_is_replaced(bare, installed):
    old = bare["b1"].run(["sh", "-c", "ls -d /opt/netesto/code-*"]).stdout.strip()
    other = "/opt/netesto/code-0000000000000000"
    bare["b1"].run(["mv", old, other])
    for path in ("/opt/netesto/installed.json", "/opt/netesto/netesto-agent"):
        bare["b1"].write(path, bare["b1"].read(path).replace(old, other))
    done = netesto(bare, "hosts", "install", "b1")
    found = bare["b1"].run(["sh", "-c", "ls -d /opt/netesto/code-*"]).stdout.strip()
    assert (done.status, found) == (0, old)


def test_nothing_is_done_where_one_only_asks_what_would_be(bare):
    before = state(bare["b3"])
    done = netesto(bare, "hosts", "install", "-n", "b3")
    words = [line.partition(" to ")[0] for line in done.stdout.splitlines()]
    assert (done.status, words, state(bare["b3"])) == (
        0,
        [
            "b3: grpcio>=1.85.1, protobuf>=7.35.1, psutil>=5.9",
            "b3: netesto 0.1.0",
            "b3: write /opt/netesto/netesto-agent",
            "b3: write /etc/netesto/agent.toml",
            "b3: start the agent",
            "b3: no systemd: the agent runs, and will not after a reboot of the host",
        ],
        before,
    )


def test_a_host_that_fails_stops_no_other(bare, installed):
    done = netesto(bare, "hosts", "install", "b1", "nowhere")
    assert (done.status, "b1: has this agent: nothing to do" in done.stdout) == (3, True)
    assert done.stderr.startswith("netesto: nowhere: not reached by ssh: ")


def test_removal_leaves_the_hosts_as_they_were(bare, installed):
    before, _ = installed
    done = netesto(bare, "hosts", "remove", "b1", "b2")
    assert (done.status, [state(bare[name]) for name in ("b1", "b2")]) == (0, before)
