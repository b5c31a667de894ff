"""docs/hosts.md takes two machines that have ssh and Python, and nothing of ours, to a page; their
agents are repaired, replaced and removed."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from processes import wait_for_costly
from typed import found
from worlds import Machine, World, machines

from netesto.deploy import payload
from netesto.system import process
from netesto.system.process import CompletedCommand

# Only keeps a broken test from hanging: on a twelfth of a processor a command takes 90 s.
PATIENCE_S = 600

# A controller that says it speaks another protocol.
OTHER_CONTROLLER = """
import sys
from netesto import cli
from netesto.transport import channel
channel.PROTOCOL = 1
sys.exit(cli.main(sys.argv[1:]))
"""

# Folders by their names and modes; of files also size and time. What is deeper is of others,
# or in a folder that is not there before.
FIND = (
    r"find /etc /opt /usr/local /var/lib /run /root /home /tmp -maxdepth 4"
    r" \( -type d -printf '%p %m\n' -o -printf '%p %m %s %T@\n' \) | sort"
)


PAGE = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text(encoding="utf-8")
WAY = found(r"^## From two names to a page\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", WAY, re.MULTILINE | re.DOTALL)


# The first one installs, and the other two run the script.
COMMANDS = [line.split() for block in blocks("sh") for line in block.splitlines()]


def netesto(world: World, *words: str) -> CompletedCommand:
    return world.controller.run(["netesto", *words], timeout=PATIENCE_S, check=False)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    names = ("host1", "host2", "host3")
    with machines(*names, folder=tmp_path_factory.mktemp("bare"), bare=True) as made:
        yield made


def state(machine: Machine) -> tuple[list[str], list[str]]:
    """The files of a machine where an installation could put some, and its processes, when the
    sessions of ssh have ended, which takes a moment."""
    machine.await_end_of_sessions()
    files = machine.run(["sh", "-c", FIND]).stdout.splitlines()
    return files, machine.run(["ps", "-e", "-o", "comm="]).stdout.splitlines()


@pytest.fixture(scope="module")
def installed(bare):
    """Two hosts with agents: what they were before, and how it went."""
    before = [state(bare[name]) for name in ("host1", "host2")]
    return before, bare.controller.run(COMMANDS[0], timeout=PATIENCE_S, check=False)


def test_two_bare_machines_have_agents_and_a_proof(installed):
    _, done = installed
    lines = done.stdout.splitlines()
    assert (done.status, lines[-1].split(":")[0]) == (0, "proof    a flow of 2 s from each host")


def test_the_hosts_file_has_the_hosts_under_the_names_that_were_given(bare, installed):
    text = bare.controller.read("hosts.toml")
    assert tomllib.loads(text) == {
        name: {
            "agent": f"ssh://root@{name}",
            "addresses": [str(bare[name].address()), str(bare[name].address6())],
        }
        for name in ("host1", "host2")
    }


@pytest.mark.parametrize("number", [1, 2])
def test_the_commands_of_the_page_lead_from_two_names_to_a_page(bare, installed, number):
    (script,) = blocks("nts")
    bare.controller.write("my.nts", script)
    bare.controller.run(COMMANDS[number], timeout=PATIENCE_S)
    assert (len(COMMANDS), bare.controller.exists(f"results/my/{number}/exp.html")) == (3, True)


def test_a_second_installation_of_all_hosts_of_the_file_changes_nothing_and_says_so(
    bare, installed
):
    before = [state(bare[name]) for name in ("host1", "host2")]
    done = netesto(bare, "hosts", "install")
    after = [state(bare[name]) for name in ("host1", "host2")]
    said = [line for line in done.stdout.splitlines() if "no systemd" not in line]
    nothing = [f"{name}: up to date: nothing to do" for name in ("host1", "host2")]
    assert (done.status, said, after) == (0, nothing, before)


def test_an_agent_that_was_killed_is_started_again(bare, installed):
    pids = bare["host1"].run(["cat", "/opt/netesto/agent.lock"]).stdout
    first = bare["host1"].run(["ps", "-o", "pid=", "--ppid", pids]).stdout.strip()
    bare["host1"].run(["kill", "-9", first])
    argv = ["ps", "-o", "pid=", "--ppid", pids]
    assert wait_for_costly(
        lambda: bare["host1"].run(argv, check=False).stdout.strip() not in {"", first},
        timeout=PATIENCE_S,
    )


def code_of(machine: Machine) -> str:
    return machine.run(["sh", "-c", "ls -d /opt/netesto/code-*"]).stdout.strip()


def change_version(machine: Machine, digit: str) -> str:
    """Have another version installed there; the folder of its code."""
    old, other = code_of(machine), f"/opt/netesto/code-{digit * 16}"
    machine.run(["mv", old, other])
    for path in ("/opt/netesto/installed.json", "/opt/netesto/netesto-agent"):
        machine.write(path, machine.read(path).replace(old, other), mode=0o755)
    return other


@pytest.fixture(scope="module")
def mended(bare, installed):
    """The status of an installation where one host has another version, and one has lost a file;
    and what code the first had before."""
    old = code_of(bare["host1"])
    change_version(bare["host1"], "0")
    bare["host2"].run(["rm", "/opt/netesto/netesto-agent"])
    return netesto(bare, "hosts", "install", "host1", "host2").status, old


def test_an_installation_that_lost_a_file_is_mended(bare, mended):
    assert (mended[0], bare["host2"].exists("/opt/netesto/netesto-agent")) == (0, True)


def test_another_version_is_replaced(bare, mended):
    assert mended == (0, code_of(bare["host1"]))


def test_an_agent_of_another_protocol_is_replaced_when_no_run_uses_it(bare, mended):
    host = bare["host1"]
    channel = f"{change_version(host, '1')}/netesto/transport/channel.py"
    host.run(["sed", "-i", "s/^PROTOCOL = .*/PROTOCOL = 1/", channel])
    pids = host.run(["cat", "/opt/netesto/agent.lock"]).stdout
    agent = host.run(["ps", "-o", "pid=", "--ppid", pids]).stdout.strip()
    host.run(["kill", "-9", agent])
    listening = ["grep", "-q", " 00010000 .* /run/netesto/agent.sock$", "/proc/net/unix"]
    assert wait_for_costly(lambda: host.run(listening, check=False).status == 0, timeout=PATIENCE_S)
    script = "SOURCE inlib\nRUN OneFlowStream server=host1 client=host1 ca=cubic dur=60\n"
    bare.controller.write("other.nts", script)
    log = host.folder / "other.log"
    argv = ["run", "--plain", "--no-pages", "--hosts", "host1", "other.nts"]
    child = bare.controller.start([sys.executable, "-c", OTHER_CONTROLLER, *argv], stdout=log)
    assert process.wait_until(
        lambda: "flow cubic" in log.read_text() or child.poll() is not None, timeout=PATIENCE_S
    )
    refused = netesto(bare, "hosts", "install", "host1")
    process.end(child)
    told = "its agent, which does not say who holds it, is used by "
    replaced = netesto(bare, "hosts", "install", "host1")
    found = (refused.status, told in refused.stderr, refused.stdout, replaced.status)
    assert (*found, code_of(host)) == (3, True, "", 0, mended[1]), log.read_text()


def test_an_agent_that_a_run_holds_is_not_touched(bare, installed):
    script = "SOURCE inlib\nRUN OneFlowStream server=host1 client=host2 ca=cubic dur=60\n"
    bare.controller.write("long.nts", script)
    log = bare["host1"].folder / "run.log"
    argv = ["netesto", "run", "--plain", "--no-pages", "--hosts", "hosts.toml", "long.nts"]
    child = bare.controller.start(argv, stdout=log)
    assert process.wait_until(
        lambda: "flow cubic" in log.read_text() or child.poll() is not None, timeout=PATIENCE_S
    )
    done = netesto(bare, "hosts", "remove", "host1")
    process.end(child)
    refused = done.stderr.startswith("netesto: host1: in use by ")
    # What would be done is not announced first.
    assert (done.status, refused, done.stdout.strip()) == (3, True, "")


def test_an_agent_that_was_installed_has_the_traffic_generator(bare, installed):
    argv = ["netesto", "hosts", "check", "-f", "json", "host1"]
    (found,) = json.loads(bare.controller.run(argv, timeout=PATIENCE_S, check=False).stdout)[
        "hosts"
    ]
    assert "native" in found["info"]["tools"]


@pytest.fixture
def frozen(bare, installed):
    """The agent of host1 does not run."""
    pids = bare["host1"].run(["cat", "/opt/netesto/agent.lock"]).stdout
    agent = bare["host1"].run(["ps", "-o", "pid=", "--ppid", pids]).stdout.strip()
    bare["host1"].run(["kill", "-STOP", agent])
    yield
    bare["host1"].run(["kill", "-CONT", agent], check=False)


def test_a_run_over_ssh_warns_of_an_agent_beside_its_own_that_does_not_answer(bare, frozen):
    bare.controller.write("my.nts", blocks("nts")[0])
    done = netesto(bare, "run", "--plain", "--no-pages", "--ssh", "host1,host2", "my.nts")
    told = "warning: host1: its installed agent does not answer (stopped, or hung)."
    assert (done.status, told in done.stdout + done.stderr) == (0, True)


def test_an_agent_that_does_not_answer_is_reported_and_left_alone(bare, frozen):
    done = [netesto(bare, "hosts", what, "host1") for what in ("install", "remove")]
    told = "its agent listens, but does not respond"
    found = [(each.status, told in each.stderr, each.stdout.strip()) for each in done]
    assert found == [(3, True, ""), (3, True, "")]


def test_nothing_is_done_where_one_only_asks_what_would_be(bare):
    before = state(bare["host3"])
    done = netesto(bare, "hosts", "install", "-n", "host3")
    words = [line.partition(" to ")[0] for line in done.stdout.splitlines()]
    assert (done.status, words, state(bare["host3"])) == (
        0,
        [
            f"host3: {', '.join(each.partition(' ')[0] for each in payload.locked())}",
            "host3: netesto 0.1.0",
            "host3: write /opt/netesto/netesto-agent",
            "host3: write /etc/netesto/agent.toml",
            "host3: start the agent",
            "host3: no systemd: the agent runs, but will not start after a reboot",
        ],
        before,
    )


def test_a_host_that_fails_stops_no_other(bare, installed):
    done = netesto(bare, "hosts", "install", "host1", "nowhere")
    assert (done.status, "host1: up to date: nothing to do" in done.stdout) == (3, True)
    assert done.stderr.startswith("netesto: nowhere: not reached by ssh: ")


def test_removal_leaves_the_hosts_as_they_were(bare, installed):
    before, _ = installed
    done = netesto(bare, "hosts", "remove", "host1", "host2")
    assert (done.status, [state(bare[name]) for name in ("host1", "host2")]) == (0, before)
