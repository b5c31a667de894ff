"""Hosts as they are found: other login shells, profiles that print, ssh_configs, no keys,
no IPv4."""

import json
import sys

import pytest
from worlds import Machine, World, machines

from netesto.system.process import CompletedCommand
from netesto.transport import ssh
from netesto.transport.addresses import SshAddress

# Only keeps a broken test from hanging: on a twelfth of a processor a command takes 90 s.
PATIENCE_S = 600

# Users of one machine, each with its peculiarity and its login shell.
SHELLS = {
    "csh": "tcsh",
    "fish": "fish",
    "babble": "bash",
    "plain": "sh",
    "none": "tcsh",
    "noexec": "bash",
}

CONFIG = """\
Host csh fish babble none noexec
    HostName {address}
Host csh
    User csh
Host fish
    User fish
Host babble
    User babble
Host none
    User none
Host noexec
    User noexec
Host command
    HostName {address}
    User plain
    RequestTTY force
    RemoteCommand date
    ControlMaster auto
    ControlPath /root/.ssh/shared-%C
    ControlPersist 60
Host unknown
    HostName {address}
    HostKeyAlias unknown
    StrictHostKeyChecking ask
Host password
    HostName {address}
    Port 2222
Host forced
    HostName {address}
    Port 2223
Host unforwarded
    HostName {address}
    Port 2224
"""

REFUSED = {
    "none": (
        "has no python3; an agent needs 3.11 or later",
        "Install it there, such as by: apt install python3",
    ),
    "noexec": (
        "/home/noexec/{} is mounted noexec: no library can be loaded from it",
        "Mount it without noexec, or log in as a user whose folders are elsewhere.",
    ),
    "unknown": (
        "not reached by ssh: its host key is unknown",
        "Connect once by hand, and compare the key before you accept it: ssh unknown",
    ),
    "password": (
        "not reached by ssh: root@fd81:1::2: Permission denied (password).",
        ssh.explained("Permission denied (password).", SshAddress("password"))[1],
    ),
    "forced": (
        "no reply of python3 there, but exit status 0",
        "This must print a word: ssh forced echo word",
    ),
}

SCRIPT = """\
DO_SERVER host=b1 exp=COUNTER
DO_CLIENT host=b1 server=b1 test=TCP_RR req=10 dur=1 stats=0
PROCESS_EXP
"""

# Runs a command with a terminal of its own, on which ssh could ask for a password.
ON_A_TERMINAL = """
import os, pty, subprocess, sys
sink = os.dup(1)
pid, terminal = pty.fork()
if pid:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
sys.exit(subprocess.run(sys.argv[1:], stdout=sink).returncode)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with machines("odd", folder=tmp_path_factory.mktemp("odd"), bare=True) as made:
        odd = made["odd"]
        odd.run(["mount", "-o", "remount,noexec", "/tmp"])
        for number, (name, shell) in enumerate(SHELLS.items(), start=5001):
            add_user(odd, name, number, path_of(odd, shell) or "/bin/sh")
        odd.write("/home/babble/.bashrc", "echo Welcome; echo careful >&2; printf '$ '\n")
        odd.write("/home/csh/.cshrc", "echo Welcome\n")
        odd.write("/home/none/.cshrc", "setenv PATH /nowhere\n")
        servers = {
            2222: ["-o", "PasswordAuthentication=yes", "-o", "PubkeyAuthentication=no"],
            2223: ["-o", "ForceCommand=/bin/true"],
            2224: ["-o", "DisableForwarding=yes"],
        }
        for port, options in servers.items():
            odd.start(["/usr/sbin/sshd", "-D", "-p", f"{port}", "-o", "PidFile=none", *options])
        odd.run(["ip", "-4", "address", "flush", "dev", "eth0"])
        odd.run(["ip", "-4", "address", "flush", "dev", "eth1"])
        made.controller.write("/root/.ssh/config", CONFIG.format(address=odd.address6()))
        made.controller.write("/root/my.nts", SCRIPT)
        yield made


def path_of(odd: Machine, program: str) -> str:
    """Where a machine has a program; "" if it has none."""
    return odd.run(["sh", "-c", f"command -v {program}"], check=False).stdout.strip()


def add_user(odd: Machine, name: str, number: int, shell: str) -> None:
    home = f"/home/{name}"
    line = f"{name}:x:{number}:{number}::{home}:{shell}"
    script = f"""
        mkdir {home}
        {f"mount -t tmpfs -o noexec,mode=755 home {home}" if name == "noexec" else ""}
        mkdir -m 700 {home}/.ssh
        cp /root/.ssh/authorized_keys {home}/.ssh
        chown -R {number}:{number} {home}
        echo "{line}" >>/etc/passwd
        echo "{name}:x:{number}:" >>/etc/group
        echo "{name}:*:19000:0:99999:7:::" >>/etc/shadow
    """
    odd.run(["sh", "-e", "-c", script])


def check(world: World, hosts: str, *prefix: str) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """The hosts with an agent that answers, and the errors and remedies of others."""
    argv = ["netesto", "hosts", "check", "-f", "json", hosts]
    done = world.controller.run([*prefix, *argv], timeout=PATIENCE_S, check=False)
    document = json.loads(done.stdout)
    found = [each["host"] for each in document["hosts"] if each["info"] is not None]
    told = {each["host"]: (each["message"], each["remedy"]) for each in document["problems"]}
    return found, {host: each for host, each in told.items() if host not in found}


def test_a_run_over_ssh_needs_no_certain_login_shell_profile_or_ssh_config(world):
    there = [name for name in ("csh", "fish") if path_of(world["odd"], SHELLS[name])]
    names = ["babble", "command", *there]
    argv = ["netesto", "run", "--plain", "--ssh", ",".join(names), "--map", f"b1={names[-1]}"]
    argv += ["--no-pages", "--family", "6"]
    done = world.controller.run([*argv, "-o", "out", "my.nts"], timeout=PATIENCE_S, check=False)
    assert ["ok" in line.split() for line in done.stdout.splitlines() if " reno " in line] == [True]


def test_a_run_over_ssh_tells_that_sshd_forwards_nothing(world):
    argv = ["netesto", "run", "--plain", "--ssh", "unforwarded", "--map", "b1=unforwarded"]
    done = world.controller.run([*argv, "my.nts"], timeout=PATIENCE_S, check=False)
    cause, remedy = ssh.NO_FORWARDING
    assert (done.status, done.stderr) == (3, f"netesto: unforwarded: {cause}\n{remedy}\n")


@pytest.fixture(scope="module")
def refused(world) -> dict[str, CompletedCommand]:
    """What an installation and a run report of hosts that cannot run an agent."""
    if not path_of(world["odd"], "tcsh"):
        pytest.skip("needs tcsh")
    hosts = ",".join(REFUSED)
    commands = {
        "install": ["netesto", "hosts", "install", *REFUSED],
        "run": ["netesto", "run", "--plain", "--ssh", hosts, "--map", "b1=none", "my.nts"],
    }
    return {
        name: world.controller.run(argv, timeout=PATIENCE_S, check=False)
        for name, argv in commands.items()
    }


@pytest.mark.parametrize("command", ["install", "run"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_host_that_can_have_no_agent_is_reported_at_once_with_the_reason(refused, command, name):
    cause, _ = REFUSED[name]
    place = ".cache/netesto" if command == "run" else ".local/share/netesto"
    done = refused[command]
    assert (done.status, f"{name}: {cause.format(place)}\n" in done.stderr) == (3, True)


@pytest.mark.parametrize("name", REFUSED)
def test_a_host_that_can_have_no_agent_is_reported_with_the_remedy(refused, name):
    assert f"{REFUSED[name][1]}\n" in refused["install"].stderr


@pytest.fixture(scope="module")
def installed(world) -> CompletedCommand:
    """An installation by a C shell, whose agent is below a home folder."""
    if not path_of(world["odd"], "tcsh"):
        pytest.skip("needs tcsh")
    argv = ["netesto", "hosts", "install", "csh"]
    return world.controller.run(argv, timeout=PATIENCE_S, check=False)


def test_an_agent_is_installed_by_a_c_shell_and_proved_by_ipv6_alone(installed):
    proof = "proof    a flow of 2 s from each host: csh to csh "
    assert (
        installed.status, installed.stdout.splitlines()[-1].startswith(proof), installed.stderr
    ) == (0, True, "")  # fmt: skip


def test_an_agent_below_a_home_folder_is_found_whatever_the_login_shell_prints(world, installed):
    assert check(world, "csh") == (["csh"], {})


def test_no_question_of_ssh_is_asked_where_somebody_could_answer_it(world):
    """Nobody types a password: this would not end."""
    prefix = (sys.executable, "-c", ON_A_TERMINAL)
    names = ("password", "unknown")
    causes = [REFUSED[name][0].removeprefix("not reached by ssh: ") for name in names]
    found = check(world, ",".join(names), *prefix)
    assert (found[0], [found[1][name][0].partition(": ")[2] for name in names]) == ([], causes)
