"""Installations that are disturbed, on machines of their own."""

import contextlib
import os
import signal

import psutil
import pytest
from worlds import USER, machines

from netesto import process

PATIENCE_S = 100


@pytest.fixture
def world(tmp_path):
    """A bare machine, and one that is called as nobody wishes."""
    with machines("b1", "b2", folder=tmp_path, bare=True) as made:
        yield made


def install(world, *words, user="root"):
    argv = ["netesto", "hosts", "install", *words]
    return world.controller.run(argv, timeout=PATIENCE_S, user=user, check=False)


def agents(machine):
    """The commands of the processes that run an agent there."""
    lines = machine.run(["ps", "-e", "-o", "args="]).stdout.splitlines()
    return [line for line in lines if "netesto.agent.daemon" in line]


def test_a_disk_that_is_full_midway_is_told_and_a_repetition_goes_on(world):
    # Room enough, but for few files.
    mount = ["mount", "-t", "tmpfs", "-o", "size=400m,nr_inodes=60", "small", "/opt"]
    world["b1"].run(mount)
    first = install(world, "b1")
    world["b1"].run(["mount", "-o", "remount,nr_inodes=0", "/opt"])
    second = install(world, "b1", "b2")
    told = "no space left on the disk" in first.stderr
    left = world["b1"].run(["sh", "-c", "ls -d /opt/netesto/*.part"], check=False).stdout
    assert (first.status, told, second.status, left) == (3, True, 0, "")


def test_a_connection_that_is_lost_midway_is_mended_by_a_repetition(world):
    log = world["b1"].folder / "cut.log"
    child = world.controller.start(["netesto", "hosts", "install", "b1"], stdout=log)
    begun = ["sh", "-c", "test -e /opt/netesto/.lock"]
    assert process.wait_until(
        lambda: world["b1"].run(begun, check=False).status == 0, timeout=PATIENCE_S
    )
    for each in psutil.Process(child.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.name() == "ssh":
                os.kill(each.pid, signal.SIGKILL)
    status = child.wait(PATIENCE_S)
    second = install(world, "b1", "b2")
    assert (status, second.status, len(agents(world["b1"]))) == (3, 0, 1)


def test_two_installations_at_once_take_turns(world):
    argv = ["netesto", "hosts", "install", "b1", "--hosts"]
    log = world["b1"].folder / "two.log"
    children = [
        world.controller.start([*argv, f"{name}.toml"], stdout=log) for name in ("one", "two")
    ]
    found = {child.wait(PATIENCE_S) for child in children}
    # The proof of one may find that of the other under way.
    assert (found <= {0, 3}, len(agents(world["b1"]))) == (True, 1), log.read_text()


def test_what_a_login_shell_prints_is_no_part_of_a_reply(world):
    world["b1"].write(
        "/usr/local/bin/noisy", '#!/bin/sh\necho "Welcome!"\nexec /bin/sh "$@"\n', mode=0o755
    )
    world["b1"].run(
        ["sed", "-i", "s|^root:.*|root:x:0:0::/root:/usr/local/bin/noisy|", "/etc/passwd"]
    )
    done = install(world, "-n", "b1")
    assert (done.status, "b1: start the agent" in done.stdout) == (0, True)


def test_a_host_without_python_is_told_what_it_lacks(world):
    world["b1"].run(["sh", "-c", "rm /usr/bin/python3*"])
    done = install(world, "b1")
    assert (done.status, done.stderr) == (
        3,
        "netesto: b1: has no python3; an agent needs 3.11 or later\n",
    )


def test_without_root_the_agent_is_below_the_home_folder_and_the_rest_is_named(world):
    # The proof needs a kernel that allows cubic without root; this one may not.
    done = install(world, "b1", user=USER)
    told = "b1: without root: no captures, no changes of sysctls, interfaces, qdiscs or routes"
    folder = f"/home/{USER}/.local/state/netesto/run"
    argv = ["sh", "-c", "netesto hosts check -f json hosts.toml | grep holder"]
    answers = world.controller.run(argv, user=USER).stdout
    assert (told in done.stdout, world["b1"].exists(folder), answers != "") == (True, True, True)


def test_an_agent_that_a_run_holds_is_not_touched(world):
    assert install(world, "b1", "b2").status == 0
    script = "SOURCE inlib\nRUN OneFlowStream server=b1 client=b2 ca=cubic dur=60\n"
    world.controller.write("my.nts", script)
    log = world["b1"].folder / "run.log"
    argv = ["netesto", "run", "--plain", "--hosts", "hosts.toml", "my.nts"]
    child = world.controller.start(argv, stdout=log)
    assert process.wait_until(lambda: "flow cubic" in log.read_text(), timeout=PATIENCE_S)
    argv = ["netesto", "hosts", "remove", "b1"]
    done = world.controller.run(argv, timeout=PATIENCE_S, check=False)
    process.end(child)
    assert (done.status, done.stderr.startswith("netesto: b1: in use by ")) == (3, True)
