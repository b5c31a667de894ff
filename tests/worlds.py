"""Machines for tests: namespaces that share nothing but the links between them, and real ssh.

    with machines("h1", "h2", folder=tmp_path) as world:
        world["h1"].run(["ip", "address"])
        with world["h1"].agent():
            world.controller.run(["netesto", "hosts", "check", "hosts.toml"])
        world.cut("h1", "management")
        world.reboot("h1")

A machine has network, mount, PID, UTS and IPC namespaces of its own. Its file system is that of
this machine, seen through an overlay: it writes where it likes, and nothing of that reaches the
disk. /tmp, /run, /root, /home and /dev/shm begin empty, and of Netesto nothing is there. Every
machine has a running sshd (its log: /var/log/sshd.log), and three users: root, USER, and OTHER.
`world.controller` is one machine more. There root and USER have a key that opens every machine, and
known_hosts has them all, so that `ssh h1` asks nothing. OTHER has no key.

Each machine has two interfaces, on two networks: eth0 for the plane "management" (ssh, the calls of
the controller), eth1 for "data". The names in /etc/hosts are those of the management.

The checkout with its environment is seen by all, read-only, at its usual place, and `netesto` and
`netesto-agent` are on the PATH of what `run` and `start` run. `bare=True` leaves it to the
controller alone, and has a Python of the version of ours.

The session's fixture `world` (tests/conftest.py: controller, h1, h2) is shared: a test leaves it as
it was. What would not (an installation, a changed sshd) takes machines of its own, in a second.

A machine ends with the pipe to its first process, and everything in it ends with that: also after
kill -9 of the test. One that is rebooted keeps its files, but for /run, /tmp and /dev/shm, and the
hardware addresses of its interfaces; it gets another boot id, a monotonic clock that begins again,
and a network where nothing is set. `world["h1"]` is the machine as it is since.
"""

import contextlib
import io
import itertools
import os
import select
import shutil
import signal
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Literal, TypeAlias

import psutil
from needs import unmet
from processes import wait_for_costly

from netesto.files import paths
from netesto.system import process
from netesto.system.process import Child, CompletedCommand

USER, USER_ID = "tester", 4001
OTHER, OTHER_ID = "other", 4002

Plane: TypeAlias = Literal["management", "data"]
INTERFACES: Mapping[Plane, str] = {"management": "eth0", "data": "eth1"}
_NETWORKS: Mapping[Plane, str] = {"management": "10.81.1.", "data": "10.81.2."}
_NETWORKS6: Mapping[Plane, str] = {"management": "fd81:1::", "data": "fd81:2::"}

# What a machine gets at most, on each network: as much as flows can takes all processors.
_RATE = ("tbf", "rate", "500mbit", "burst", "128k", "limit", "1m")

# Locally administered: network and machine (IEEE 802, section 8.2).
_HARDWARE = "02:00:00:00:{:02x}:{:02x}"

AGENT_SOCKET = Path("/run/netesto/agent.sock")

# What the monotonic clock of a machine shows when it is booted again.
_EARLY_S = 10

# Only keeps a broken test from hanging: on a twelfth of a processor a command takes 90 s.
_PATIENCE_S = 200.0

# A session of ssh ends a moment after who began it.
_SESSION_S = 30.0

_REQUESTS = "INT,TERM,HUP"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# The first process of a machine. $1 is its name; $2 the descriptor that brings a tar archive of $3
# bytes, and closes when the machine is to end; $4 gets a line when all is ready; $5 is a folder
# with sshd, or ""; $6 the program of a Python for it, in `bin` of its folder, or ""; $7 `see` or
# `hide`, and then folders to see read-only, or not to see.
_BOOT = r"""
set -eu
umask 022
name=$1 life=$2 bytes=$3 ready=$4 sshd=$5 python=$6 how=$7; shift 7
mount -t tmpfs -o mode=755 machine /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
rm -rf etc/netesto var/lib/netesto
for folder in tmp run root home dev; do
    mount -t tmpfs "$folder" "$folder"
done
mkdir dev/shm dev/pts dev/net
mount -t tmpfs shm dev/shm
chmod 1777 tmp dev/shm; chmod 711 root; chmod 755 run home dev
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin; ln -s /proc/self/fd/1 dev/stdout; ln -s /proc/self/fd/2 dev/stderr
for device in null zero full random urandom tty net/tun; do
    [ ! -e "/dev/$device" ] || { : >"dev/$device"; mount --bind "/dev/$device" "dev/$device"; }
done
[ -z "$sshd" ] || cp -a "$sshd/usr" .
see() {
    mkdir -p ".$1"
    mount --bind "$1" ".$1"
    mount -o remount,bind,ro ".$1"
}
for folder; do
    if [ "$how" = see ]; then
        see "$folder"
    elif [ -d ".$folder" ]; then
        mount -t tmpfs -o ro nothing ".$folder"
    fi
done
[ -z "$python" ] || { see "${python%/bin/*}"; ln -s "$python" usr/local/bin/python3; }
head -c "$bytes" <&"$life" | tar -x -p --no-same-owner
for home in home/*; do
    chroot . chown -R "${home#home/}:" "/$home"
done
pivot_root . .
umount -l .
"""

# That of a machine that is rebooted, with its files: in their mount namespace, and new ones of all
# other kinds. The words are those above.
_REBOOT = r"""
set -eu
name=$1 life=$2 ready=$4
mount -t proc proc /proc
mount -t sysfs sysfs /sys
# What is mounted there, the checkout maybe, stays.
find /tmp /run /dev/shm -xdev -mindepth 1 -delete 2>/dev/null || true
cp /proc/sys/kernel/random/uuid /run/boot-id
mount --bind /run/boot-id /proc/sys/kernel/random/boot_id
"""

# How both go on.
_UP = r"""
hostname "$name"
ip link set lo up
mkdir -p /run/sshd
/usr/sbin/sshd -E /var/log/sshd.log
# Written when it listens.
until [ -e /run/sshd.pid ]; do sleep 0.01; done
echo ready >&"$ready"
exec {ready}>&-
# Until the pipe is closed; orphans are reaped meanwhile.
read -r -u "$life" || true
"""

# The first process of the network that joins the machines; its words are as above.
_SWITCH = 'ip link set lo up; echo ready >&"$4"; read -r -u "$2"'

_OWN = ("--net", "--pid", "--uts", "--ipc")
_SSHD = "/usr/sbin/sshd"

_PASSWD = {
    "root": "x:0:0:root:/root:/bin/bash",
    "sshd": "x:4000:65534::/run/sshd:/usr/sbin/nologin",
    USER: f"x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash",
    OTHER: f"x:{OTHER_ID}:{OTHER_ID}::/home/{OTHER}:/bin/bash",
}
_GROUP = {"root": "x:0:", USER: f"x:{USER_ID}:", OTHER: f"x:{OTHER_ID}:"}

_SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 200
Subsystem sftp /usr/lib/openssh/sftp-server
"""


def missing() -> str:
    """Why this machine cannot make machines; "" if it can."""
    if os.geteuid() != 0:
        return "needs root"
    tools = (
        "ip",
        "unshare",
        "nsenter",
        "setpriv",
        "pivot_root",
        "ssh",
        "ssh-keygen",
        "tar",
        "bash",
    )
    lacks = [tool for tool in tools if shutil.which(tool) is None]
    if lacks:
        return f"needs {', '.join(lacks)}"
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8"):
        return "has no overlay file system"
    if not Path(_SSHD).exists() and not _fetched_sshd().is_dir():
        return "needs sshd (.ci/sshd fetches it, and installs nothing)"
    made = process.run(
        ["unshare", "--net", "--pid", "--time", "--fork", "true"], timeout=60, check=False
    )
    return "" if made.status == 0 else f"has no namespaces: {made.last_lines()}"


def _fetched_sshd() -> Path:
    return paths.cache_folder() / "sshd"


@dataclass(frozen=True, slots=True)
class Machine:
    """`pid` is its first process, as seen from here. `number` is the last one of its addresses."""

    name: str
    number: int
    pid: int
    folder: Path
    has_checkout: bool

    def address(self, plane: Plane = "management") -> IPv4Address:
        return IPv4Address(f"{_NETWORKS[plane]}{self.number}")

    def address6(self, plane: Plane = "management") -> IPv6Address:
        return IPv6Address(f"{_NETWORKS6[plane]}{self.number}")

    def argv(self, argv: Sequence[str], *, user: str = "root") -> list[str]:
        """The command that runs `argv` in this machine, from the home of `user`. Its environment is
        that of a login."""
        home = "/root" if user == "root" else f"/home/{user}"
        own = f"{sys.prefix}/bin:" if self.has_checkout else ""
        variables = {
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "PATH": own + _SYSTEM_PATH,
            "LANG": "C.UTF-8",
        }
        return [
            # nsenter waits for its child, to which alone a signal of their group is then of use.
            *("env", f"--ignore-signal={_REQUESTS}"),
            *("nsenter", f"--target={self.pid}", *_OWN, "--mount", "--time"),
            f"--wdns={home}",
            *("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"),
            *("env", "-i", f"--default-signal={_REQUESTS}"),
            *(f"{name}={value}" for name, value in variables.items()),
            *argv,
        ]

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        timeout: float = _PATIENCE_S,
        check: bool = True,
        stdin: str | None = None,
    ) -> CompletedCommand:
        """Run a command there to its end."""
        return process.run(self.argv(argv, user=user), timeout=timeout, check=check, stdin=stdin)

    def start(
        self, argv: Sequence[str], *, stdout: Path | None = None, user: str = "root"
    ) -> Child:
        """Start a command there, which ends with the machine at the latest (`process.end` ends it
        before). What it prints is appended to the file `stdout` of this machine."""
        log = stdout or self.folder / f"{self.name}.log"
        return process.launch(self.argv(argv, user=user), stdout=log)

    def write(self, path: str, text: str, *, mode: int = 0o644, user: str = "root") -> None:
        """Write a file there, and create its folder if needed."""
        command = f'mkdir -p "$(dirname {path})" && cat >{path} && chmod {mode:o} {path}'
        self.run(["bash", "-c", command], stdin=text, user=user)

    def read(self, path: str) -> str:
        return self.run(["cat", path]).stdout

    def exists(self, path: str | Path) -> bool:
        return self.run(["test", "-e", str(path)], check=False).status == 0

    @contextlib.contextmanager
    def agent(
        self, *options: str, user: str = "root", socket: Path = AGENT_SOCKET
    ) -> Iterator[Child]:
        """An agent of the checkout, called as the machine is, that listens on `socket`."""
        log = self.folder / f"{self.name}-agent.log"
        self.run(["install", "-d", "-m", "700", "-o", user, str(socket.parent)])
        argv = ["netesto-agent", "--listen", f"unix:{socket}", "--host", self.name, *options]
        child = self.start(argv, stdout=log, user=user)
        try:
            self.await_socket(socket, child, log)
            yield child
        finally:
            process.end(child)

    def await_end_of_sessions(self) -> None:
        """Wait until sshd has no process but the one that listens. After a while it is given up, so
        that a session that does not end is found in what is compared."""

        def is_over() -> bool:
            names = self.run(["ps", "-e", "-o", "comm="]).stdout.splitlines()
            return sum(name.startswith("sshd") for name in names) == 1

        wait_for_costly(is_over, timeout=_SESSION_S)

    def await_socket(self, path: Path, child: Child, log: Path) -> None:
        """Wait until a Unix socket is listened on there, by its line in /proc/net/unix."""
        table = Path("/proc", str(self.pid), "net", "unix")

        def listens() -> bool:
            # __SO_ACCEPTCON of include/linux/net.h.
            lines = table.read_text(encoding="utf-8").splitlines()
            return any(line.endswith(f" {path}") and " 00010000 " in line for line in lines)

        is_there = process.wait_until(
            lambda: listens() or child.poll() is not None, timeout=_PATIENCE_S
        )
        assert is_there, log.read_text(encoding="utf-8")
        assert child.poll() is None, log.read_text(encoding="utf-8")


class World:
    """Machines by name, and the links between them."""

    def __init__(
        self,
        machines: Sequence[Machine],
        first_processes: "dict[str, _FirstProcess]",
        switch: int,
    ) -> None:
        self._machines = {machine.name: machine for machine in machines}
        self._first_processes = first_processes
        self._switch = switch

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    def __iter__(self) -> Iterator[Machine]:
        return iter(self._machines.values())

    @property
    def controller(self) -> Machine:
        return self["controller"]

    def cut(self, name: str, plane: Plane) -> None:
        """Drop, silently, everything from and to a machine on this network."""
        self._wire(name, plane, "nomaster")

    def restore(self, name: str, plane: Plane) -> None:
        self._wire(name, plane, "master", plane)

    def reboot(self, name: str) -> None:
        """End all of a machine at once, silently, and start it again. Nobody starts its agent."""
        before = self[name]
        # Its network goes down first: no process can close a connection.
        wires = [["link", "delete", _wire(plane, before.number)] for plane in INTERFACES]
        _ip(self._switch, wires)
        files = os.open(f"/proc/{before.pid}/ns/mnt", os.O_RDONLY)
        try:
            os.kill(before.pid, signal.SIGKILL)
            first = self._first_processes[name]
            first.let_go()
            first.await_end()
            first = _FirstProcess.start(
                ["--time", "--monotonic", str(_EARLY_S - int(time.monotonic())), *_OWN],
                _REBOOT + _UP,
                [name],
                b"",
                before.folder / f"{name}-boot.log",
                files=[files],
            )
        finally:
            os.close(files)
        self._first_processes[name] = first
        self._machines[name] = replace(before, pid=first.await_ready())
        _join(self[name], self._switch)

    def _wire(self, name: str, plane: Plane, *words: str) -> None:
        wire = _wire(plane, self[name].number)
        _ip(self._switch, [["link", "set", wire, *words]])


@contextlib.contextmanager
def machines(*names: str, folder: Path, bare: bool = False) -> Iterator[World]:
    """A world of these machines and a controller. `folder` gets the logs of what is started.

    Skips the test, with the reason, if this machine cannot do it, and fails it under
    NETESTO_REQUIRE=machines."""
    _skip_if_impossible()
    names = ("controller", *names)
    archives = _archives(names, folder)
    processes: dict[str, _FirstProcess] = {}
    try:
        switch = _FirstProcess.start(["--net"], _SWITCH, ["switch"], b"", folder / "switch.log")
        processes["the switch"] = switch
        for name, archive in zip(names, archives, strict=True):
            is_bare = bare and name != "controller"
            sshd = str(_fetched_sshd()) if _fetched_sshd().is_dir() else ""
            how = [_python_like_ours(), "hide" if is_bare else "see"]
            words = [name, sshd, *how, *map(str, _checkout())]
            log = folder / f"{name}-boot.log"
            processes[name] = _FirstProcess.start(
                ["--mount", *_OWN], _BOOT + _UP, words, archive, log
            )
        pids = [each.await_ready() for each in processes.values()]
        made = [
            Machine(name, number, pid, folder, has_checkout=not bare or name == "controller")
            for number, (name, pid) in enumerate(zip(names, pids[1:], strict=True), start=1)
        ]
        bridges = [["link", "add", plane, "up", "type", "bridge"] for plane in INTERFACES]
        _ip(pids[0], bridges)
        for each in made:
            _join(each, pids[0])
        yield World(made, processes, pids[0])
    finally:
        for first in processes.values():
            first.let_go()
        for first in processes.values():
            first.await_end()


def _skip_if_impossible() -> None:
    if obstacle := missing():
        unmet("machines", f"this machine {obstacle}")


def _python_like_ours() -> str:
    """Where the system's Python is of another version, a program of ours: the packages that are
    installed here fit no other, and no machine reaches a package index."""
    ours = f"python3.{sys.version_info.minor}"
    if Path("/usr/bin/python3").resolve().name == ours:
        return ""
    return f"{sys.base_prefix}/bin/{ours}"


def _checkout() -> list[Path]:
    """The folders that the checkout and its environment are in, outermost ones only."""
    folders = {Path(each) for each in (paths.data_folder(), sys.prefix, sys.base_prefix)}
    outside = [each for each in folders if not each.is_relative_to("/usr")]
    return [each for each in outside if not any(other in each.parents for other in outside)]


@dataclass(frozen=True, slots=True)
class _FirstProcess:
    """The process whose end is that of a set of namespaces; it ends when `life` is closed."""

    child: Child
    life: int
    ready: int
    log: Path

    @classmethod
    def start(
        cls,
        namespaces: Sequence[str],
        script: str,
        words: Sequence[str],
        archive: bytes,
        log: Path,
        *,
        files: Sequence[int] = (),
    ) -> "_FirstProcess":
        """`files`: the mount namespace of a machine that was there before, if there was one."""
        life_reader, life = os.pipe()
        ready, ready_writer = os.pipe()
        name, *rest = words
        enter = [["nsenter", f"--mount=/proc/self/fd/{each}"] for each in files]
        argv = ["unshare", *namespaces, "--fork", "--kill-child", *itertools.chain(*enter)]
        argv += ["bash", "-c", script, "machine"]
        argv += [name, str(life_reader), str(len(archive)), str(ready_writer), *rest]
        passed = [life_reader, ready_writer, *files]
        child = process.launch(argv, stdout=log, pass_fds=passed)
        os.close(life_reader)
        os.close(ready_writer)
        with os.fdopen(os.dup(life), "wb") as pipe:
            pipe.write(archive)
        return cls(child, life, ready, log)

    def await_ready(self) -> int:
        """Its number, when it is ready."""
        with os.fdopen(self.ready) as pipe:
            select.select([pipe], [], [], _PATIENCE_S)
            assert pipe.readline() == "ready\n", self.log.read_text(encoding="utf-8")
        return int(psutil.Process(self.child.pid).children()[0].pid)

    def let_go(self) -> None:
        os.close(self.life)

    def await_end(self) -> None:
        with contextlib.suppress(TimeoutExpired):
            self.child.wait(_PATIENCE_S)
        process.end(self.child)


def _join(machine: Machine, switch: int) -> None:
    """A link from a machine to each network. A machine keeps its hardware addresses."""
    wires, own = [], []
    for plane, interface in INTERFACES.items():
        wire = _wire(plane, machine.number)
        hardware = _HARDWARE.format(list(INTERFACES).index(plane), machine.number)
        end = ["peer", "name", interface, "address", hardware, "netns", str(machine.pid)]
        wires.append(["link", "add", wire, "master", plane, "up", "type", "veth", *end])
        own += [
            ["address", "add", f"{machine.address(plane)}/24", "dev", interface],
            ["address", "add", f"{machine.address6(plane)}/64", "dev", interface, "nodad"],
            ["link", "set", interface, "up"],
        ]
    _ip(switch, wires)
    _ip(machine.pid, own)
    # The switch's ends alone: a machine sees nothing of it.
    slowed = [
        ["qdisc", "add", "dev", _wire(plane, machine.number), "root", *_RATE]
        for plane in INTERFACES
    ]
    _ip(switch, slowed, program="tc")


def _wire(plane: Plane, number: int) -> str:
    """The switch's end of a link."""
    return f"{plane}{number}"


def _ip(pid: int, commands: Sequence[Sequence[str]], *, program: str = "ip") -> None:
    """Run these commands of ip(8), or of another, in the network namespace of a process."""
    argv = ["nsenter", f"--target={pid}", "--net", program, "-batch", "-"]
    text = "".join(" ".join(command) + "\n" for command in commands)
    process.run(argv, timeout=_PATIENCE_S, stdin=text)


def _archives(names: Sequence[str], folder: Path) -> list[bytes]:
    """The files that each machine begins with, as a tar archive."""
    pairs = {name: _key_pair(folder / f"{name}-key", name) for name in ("user", *names)}
    hosts = {name: f"{_NETWORKS['management']}{n}" for n, name in enumerate(names, start=1)}
    hosts6 = {name: f"{_NETWORKS6['management']}{n}" for n, name in enumerate(names, start=1)}
    known = [f"{name},{hosts[name]},{hosts6[name]} {pairs[name][1]}" for name in names]
    common = {
        "etc/hostname": "",
        "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n"
        + "".join(f"{address} {name}\n" for name, address in hosts.items()),
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
        "etc/resolv.conf": "",
        "etc/passwd": _accounts("/etc/passwd", _PASSWD),
        "etc/group": _accounts("/etc/group", _GROUP),
        "etc/shadow": "".join(f"{name}:*:19000:0:99999:7:::\n" for name in _PASSWD),
        "etc/ssh/ssh_config": "",
        "etc/ssh/sshd_config": _SSHD_CONFIG,
        "etc/ssh/ssh_known_hosts": "".join(known),
        "root/.ssh/authorized_keys": pairs["user"][1],
        f"home/{USER}/.ssh/authorized_keys": pairs["user"][1],
        f"home/{OTHER}/.profile": "",
    }
    archives = []
    for name in names:
        files = {**common, "etc/hostname": f"{name}\n"}
        files["etc/ssh/ssh_host_ed25519_key"] = pairs[name][0]
        if name == "controller":
            for home in ("root", f"home/{USER}"):
                files[f"{home}/.ssh/id_ed25519"] = pairs["user"][0]
        archives.append(_archive(files))
    return archives


def _key_pair(path: Path, comment: str) -> tuple[str, str]:
    """A new private and public key."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    process.run(argv, timeout=_PATIENCE_S)
    return path.read_text(encoding="ascii"), Path(f"{path}.pub").read_text(encoding="ascii")


def _accounts(path: str, own: Mapping[str, str]) -> str:
    """A table of this machine's accounts, with ours in it."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    others = [line for line in lines if line.partition(":")[0] not in own]
    return "".join(f"{line}\n" for line in (*(f"{n}:{rest}" for n, rest in own.items()), *others))


def _archive(files: Mapping[str, str]) -> bytes:
    """A tar archive; keys, and the folders that they are in, are for their owner only."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, text in files.items():
            if ".ssh/" in path:
                folder = tarfile.TarInfo(str(Path(path).parent))
                folder.type, folder.mode = tarfile.DIRTYPE, 0o700
                archive.addfile(folder)
            entry = tarfile.TarInfo(path)
            entry.size = len(text.encode())
            is_secret = path.endswith(("ed25519", "_key", "shadow"))
            entry.mode = 0o600 if is_secret else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()
