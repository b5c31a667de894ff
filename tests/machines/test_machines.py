"""The machines of the tests: each is isolated except for its links, and nothing of them stays."""

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from processes import wait_for_costly
from worlds import OTHER, USER, World, machines

from netesto.system import process

PATIENCE_S = 200

HOLD = """
import json, signal, sys
from pathlib import Path
from worlds import machines
with machines("h1", folder=Path(sys.argv[1])) as world:
    world["h1"].start(["sleep", "3600"])
    print(json.dumps([each.pid for each in world]), flush=True)
    signal.pause()
"""

SEEN = """\
import json, os, time
read = lambda path: open(path).read()
print(json.dumps({
    "run": os.path.exists("/run/of-the-boot"),
    "disk": os.path.exists("/root/of-the-disk"),
    "ecn": read("/proc/sys/net/ipv4/tcp_ecn"),
    "hardware": [read(f"/sys/class/net/{each}/address") for each in ("eth0", "eth1")],
    "boot": read("/proc/sys/kernel/random/boot_id"),
    "early": time.monotonic() < 60,
}))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    with machines("b1", folder=tmp_path_factory.mktemp("bare"), bare=True) as made:
        yield made


@pytest.mark.parametrize("user", ["root", USER])
def test_ssh_opens_every_machine_without_a_question(world, user):
    found = [
        world.controller.run(["ssh", "-o", "BatchMode=yes", name, "hostname; id -un"], user=user)
        for name in ("h1", "h2")
    ]
    assert [(each.stdout, each.stderr) for each in found] == [
        (f"h1\n{user}\n", ""),
        (f"h2\n{user}\n", ""),
    ]


def test_another_user_has_no_key(world):
    argv = ["ssh", "-o", "BatchMode=yes", "h1", "true"]
    found = world.controller.run(argv, user=OTHER, check=False)
    assert (found.status, found.stderr) == (
        255,
        f"{OTHER}@h1: Permission denied (publickey).\n",
    )


def test_what_a_machine_writes_is_its_own(world):
    world["h1"].write("/var/lib/of-h1", "text")
    world["h1"].write("/usr/local/of-h1", "text")
    paths = ["/var/lib/of-h1", "/usr/local/of-h1"]
    seen = [[each.exists(path) for path in paths] for each in (world["h1"], world["h2"])]
    here = [Path(path).exists() for path in paths]
    world["h1"].run(["rm", *paths])
    assert [*seen, here] == [[True, True], [False, False], [False, False]]


def test_a_machine_sees_its_own_processes_only(world):
    def names() -> list[str]:
        return world["h1"].run(["ps", "-e", "-o", "comm="]).stdout.split()

    # Sessions of ssh end a moment after those who began them.
    wait_for_costly(lambda: names() == ["bash", "sshd", "ps"], timeout=PATIENCE_S)
    assert names() == ["bash", "sshd", "ps"]


def test_a_cut_wire_loses_everything_and_a_restored_one_nothing(world):
    def reaches(plane):
        argv = ["ping", "-c", "1", "-W", "3", str(world["h2"].address(plane))]
        return world["h1"].run(argv, check=False).status == 0

    found = []
    for act in (None, world.cut, world.restore):
        if act is not None:
            act("h2", "data")
        found.append((reaches("management"), reaches("data")))
    assert found == [(True, True), (True, False), (True, True)]


def test_a_machine_that_is_rebooted_keeps_its_files_and_addresses_and_nothing_else(world):
    before = seen_of(world)
    world["h1"].write("/run/of-the-boot", "text")
    world["h1"].run(["sysctl", "-qw", "net.ipv4.tcp_ecn=1"])
    sleeper = world["h1"].start(["sleep", "3600"])
    world["h1"].write("/root/of-the-disk", "text")
    world.reboot("h1")
    assert sleeper.wait(PATIENCE_S) != 0
    after = seen_of(world)
    world["h1"].run(["rm", "/root/of-the-disk"])
    kept = {key: before[key] for key in ("hardware", "ecn")}
    assert after == {"run": False, "disk": True, "early": True, "boot": after["boot"], **kept}
    assert after["boot"] != before["boot"]


def seen_of(world: World) -> dict[str, object]:
    """What h1 shows, reached by ssh."""
    command = f"{sys.prefix}/bin/python -c '{SEEN}'"
    shown = world.controller.run(["ssh", "-o", "BatchMode=yes", "h1", command]).stdout
    return {str(key): value for key, value in json.loads(shown).items()}


def test_the_checkout_is_seen_by_all_machines_and_written_by_none(world):
    argv = ["sh", "-c", "netesto --version && touch $(dirname $(which netesto))/of-a-machine"]
    found = world["h1"].run(argv, check=False)
    assert (found.stdout.split()[0], "Read-only file system" in found.stderr) == ("netesto", True)


def test_a_bare_machine_has_nothing_of_the_checkout(bare):
    prefix = sys.prefix + "/bin/python"
    found = [bare[name].exists(prefix) for name in ("controller", "b1")]
    assert (found, bare["b1"].run(["ls", "/root", "/home/" + USER]).stdout) == (
        [True, False],
        f"/home/{USER}:\n\n/root:\n",
    )


def test_an_agent_of_the_checkout_ends_with_its_block(world):
    with world["h1"].agent() as child:
        assert child.poll() is None
    assert child.returncode == 0


def test_all_ends_when_the_test_is_killed(tmp_path, world):
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    log = tmp_path / "log"
    with process.background(
        argv, stdout=log, env=env, ready=lambda: log.read_text().endswith("\n"), timeout=PATIENCE_S
    ) as child:
        inside = [psutil.Process(pid) for pid in json.loads(log.read_text())]
        inside += [each for first in inside for each in first.children(recursive=True)]
        os.kill(child.pid, signal.SIGKILL)
        _, alive = psutil.wait_procs(inside, timeout=PATIENCE_S)
    assert (len(inside) >= 4, alive) == (True, [])
