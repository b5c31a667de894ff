"""Installations that are disturbed, or have no root, on machines of their own."""

import contextlib
import json
import os
import re
import signal
from pathlib import Path

import psutil
import pytest
from worlds import USER, Machine, World, machines

from netesto.system import process
from netesto.system.process import CompletedCommand

# Only keeps a broken test from hanging: on a twelfth of a processor a command takes 90 s.
PATIENCE_S = 600


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A bare machine for each trouble."""
    names = ("disturbed", "noisy", "empty", "plain")
    with machines(*names, folder=tmp_path_factory.mktemp("bare"), bare=True) as made:
        yield made


def install(world: World, *words: str, user: str = "root") -> CompletedCommand:
    argv = ["netesto", "hosts", "install", *words]
    return world.controller.run(argv, timeout=PATIENCE_S, user=user, check=False)


def agents(machine: Machine) -> list[str]:
    """The processes that run an agent there; its sampler is not one."""
    lines = machine.run(["ps", "-e", "-o", "comm=,args="]).stdout.splitlines()
    return [
        line
        for line in lines
        if "netesto.agent.daemon" in line and not line.startswith("netesto-sampler")
    ]


@pytest.fixture(scope="module")
def full(world) -> CompletedCommand:
    """An installation on a disk with free space but few free inodes; then with more."""
    machine = world["disturbed"]
    machine.run(["mount", "-t", "tmpfs", "-o", "size=400m,nr_inodes=60", "small", "/opt"])
    done = install(world, "disturbed")
    machine.run(["mount", "-o", "remount,nr_inodes=0", "/opt"])
    return done


def disturb(world: World, log: Path, name: str, sign: signal.Signals) -> int | None:
    """The status of an installation that is at work when its processes called `name` get a
    signal."""
    world["disturbed"].run(["rm", "-f", "/opt/netesto/.lock"])
    child = world.controller.start(["netesto", "hosts", "install", "disturbed"], stdout=log)
    assert process.wait_until(
        lambda: world["disturbed"].exists("/opt/netesto/.lock") or child.poll() is not None,
        timeout=PATIENCE_S,
    )
    for each in psutil.Process(child.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.name() == name:
                os.kill(each.pid, sign)
    return child.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def interrupted(world, full) -> tuple[int | None, list[str]]:
    """The outcome of an installation that Ctrl-C ends, and its last output."""
    log = world["disturbed"].folder / "interrupted.log"
    ended = disturb(world, log, "netesto", signal.SIGINT)
    return ended, log.read_text().splitlines()[-2:]


@pytest.fixture(scope="module")
def cut(world, interrupted) -> int | None:
    """The status of an installation that then loses its connection."""
    return disturb(world, world["disturbed"].folder / "cut.log", "ssh", signal.SIGKILL)


@pytest.fixture(scope="module")
def repeated(world, cut) -> list[int | None]:
    """The status of each of two installations that then begin at once."""
    argv = ["netesto", "hosts", "install", "disturbed", "--hosts"]
    log = world["disturbed"].folder / "two.log"
    children = [
        world.controller.start([*argv, f"{name}.toml"], stdout=log) for name in ("one", "two")
    ]
    return [child.wait(PATIENCE_S) for child in children]


def test_a_machine_that_is_named_twice_is_refused_the_second_time_before_any_change(world):
    address = world["plain"].address()
    done = install(world, "-n", f"plain,{address}")
    said = f"netesto: {address}: same machine as plain: ssh reaches both at {address}"
    assert (done.status, done.stderr.splitlines()[:1]) == (3, [said])


def test_a_second_name_for_a_machine_of_the_hosts_file_is_refused_before_any_change(world):
    address = world["plain"].address()
    text = f'[first]\nagent = "ssh://plain"\naddresses = ["{address}"]\n'
    world.controller.write("/root/second.toml", text)
    done = install(world, "--hosts", "second.toml", "plain")
    machine = "same machine as first in second.toml"
    said = f"netesto: plain: {machine}: ssh reaches both at {address}"
    left = (world.controller.read("/root/second.toml"), world["plain"].exists("/opt/netesto"))
    found = (done.status, done.stderr.splitlines()[0], *left)
    assert found == (3, said, text, False)


def test_a_disk_that_is_full_midway_is_reported(full):
    assert (full.status, "no space left on the disk" in full.stderr) == (3, True)


def test_ctrl_c_says_that_a_repetition_goes_on_and_is_status_130(interrupted):
    said = ["Repeat the command: it continues where it stopped.", "netesto: interrupted"]
    assert interrupted == (130, said)


def test_a_connection_that_is_lost_midway_makes_status_3(cut):
    assert cut == 3


def test_a_repetition_goes_on_where_others_were_disturbed(world, repeated):
    find = ["sh", "-c", "ls -d /opt/netesto/*.part"]
    left = world["disturbed"].run(find, check=False).stdout
    assert (0 in repeated, left) == (True, "")


def test_two_installations_at_once_take_turns(world, repeated):
    # The proof of one may find that of the other under way.
    assert (set(repeated) <= {0, 3}, len(agents(world["disturbed"]))) == (True, 1)


@pytest.fixture(scope="module")
def planned(world) -> CompletedCommand:
    """The dry run for two unusual hosts."""
    world["noisy"].write(
        "/usr/local/bin/noisy", '#!/bin/sh\necho "Welcome!"\nexec /bin/sh "$@"\n', mode=0o755
    )
    world["noisy"].run(
        ["sed", "-i", "s|^root:.*|root:x:0:0::/root:/usr/local/bin/noisy|", "/etc/passwd"]
    )
    world["empty"].run(["sh", "-c", "rm -f /usr/bin/python3* /usr/local/bin/python3"])
    return install(world, "-n", "noisy", "empty")


def test_what_a_login_shell_prints_is_no_part_of_a_reply(planned):
    assert "noisy: start the agent" in planned.stdout.splitlines()


def test_a_host_without_python_is_reported_with_what_it_lacks(planned):
    assert (planned.status, planned.stderr.splitlines()) == (
        3,
        [
            "netesto: empty: has no python3; an agent needs 3.11 or later",
            "Install it there, such as by: apt install python3",
        ],
    )


@pytest.fixture(scope="module")
def home(world) -> list[str]:
    """What is in the home of a user before."""
    return found_at_home(world)


def found_at_home(world: World) -> list[str]:
    return world["plain"].run(["find", f"/home/{USER}"]).stdout.splitlines()


@pytest.fixture(scope="module")
def of_user(world, home) -> CompletedCommand:
    """An installation without root."""
    return install(world, "plain", user=USER)


def test_without_root_the_agent_is_proved_and_what_it_cannot_do_is_named(of_user):
    told = "plain: without root: no captures, no changes of sysctls, interfaces, qdiscs or routes"
    lines = of_user.stdout.splitlines()
    proof = "proof    a flow of 2 s from each host"
    assert (of_user.status, told in lines, lines[-1].split(":")[0]) == (0, True, proof)


def test_an_agent_below_a_home_folder_is_found_by_the_name_of_its_host_alone(world, of_user):
    argv = ["netesto", "hosts", "check", "-f", "json", "plain"]
    (found,) = json.loads(world.controller.run(argv, user=USER, check=False).stdout)["hosts"]
    assert (found["host"], found["info"] is not None) == ("plain", True)


WISHES = """\
SOURCE inlib
SET_QDISC host=plain qdisc=pfifo
SET tcpDump=10
RUN OneFlowStream server=plain client=plain ca=reno dur=1
"""


def test_what_a_script_needs_root_for_is_reported_before_a_run(world, of_user):
    world.controller.write(f"/home/{USER}/wishes.nts", WISHES)
    argv = ["netesto", "hosts", "check", "plain", "wishes.nts"]
    done = world.controller.run(argv, timeout=PATIENCE_S, user=USER, check=False)
    told = re.findall(r"(\w+: plain: \w+) \(.*\): (its agent does .*)", done.stdout)
    assert (done.status, told) == (
        3,
        [
            ("error: plain: SET_QDISC", "its agent does not run as root, and changes no settings"),
            ("warning: plain: DO_TCPDUMP", "its agent does not run as root, and captures nothing"),
        ],
    )


def test_a_removal_without_root_ends_the_agent_and_leaves_nothing(world, home, of_user):
    argv = ["netesto", "hosts", "remove", "plain"]
    done = world.controller.run(argv, timeout=PATIENCE_S, user=USER, check=False)
    assert (done.status, agents(world["plain"]), found_at_home(world)) == (0, [], home)
