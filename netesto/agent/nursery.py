"""Starts the agents of a lab by forking one process, which has imported what they need.

    builder of the lab ──── an order for each agent ──► nursery ── fork ──► agent
                           ◄── its process id ───────────

An order is a JSON object `{"namespace", "names", "argv"}` with two file descriptors: the agent
writes to the first when it is ready, and all its output to the second. When the other end of its
socket is closed, however its process ended, the nursery ends its agents and itself; after the order
`STAY` it waits until they have ended. Agents end with their nursery.
"""

import contextlib
import ctypes
import errno
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from netesto.agent import daemon, tools
from netesto.agent.tools import Abilities
from netesto.files import jsontext
from netesto.system import proc, process
from netesto.traffic import TOOLS
from netesto.transport import codec

# From <sched.h> and <sys/mount.h>.
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_SLAVE, MNT_DETACH = 0x1000, 0x4000, 0x80000, 0x2

# From <asm-generic/unistd.h>, <linux/fcntl.h> and <linux/mount.h>.
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429
AT_FDCWD, OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1, 0x4

# A guest in simulated time overlays its own facts here (netesto/lab/inside.py).
CPU_FOLDER = Path("/sys/devices/system/cpu/cpu0")

_SYSCTLS = Path("/proc/sys")

# An order names every router of a lab.
ORDER_BYTES = 131072

# The agents of this nursery outlive the giver of its orders.
STAY = b"stay"

# An agent ends its flows and puts its host back before it ends itself. Many share the processors.
AGENT_GRACE_S, EACH_AGENT_S = 10.0, 1.0

# <sys/prctl.h>
_PR_SET_PDEATHSIG = 1

# How long a nursery without agents may take to end.
END_S = 2.0


@contextlib.contextmanager
def forked() -> Iterator[socket.socket]:
    """A nursery while the body runs; the socket for its orders. WorldError if an installed tool or
    collector is broken.

    Call it before this process has threads: only the calling thread survives a fork.
    """
    daemon.load()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _run_nursery(theirs)
    theirs.close()
    try:
        with ours:
            yield ours
    finally:
        # Usually its agents have ended; do not wait for one that has not.
        process.wait_until(lambda: os.waitpid(pid, os.WNOHANG) != (0, 0), timeout=END_S)


def main() -> int:
    """A nursery that gets its orders from an inherited socket, the first argument."""
    _serve(socket.socket(fileno=int(sys.argv[1])))
    return 0


def _run_nursery(orders: socket.socket) -> None:
    """Serve in the forked child; never returns."""
    status = 1
    try:
        os.setsid()
        with Path(os.devnull).open("r+b") as nowhere:
            for number in (0, 1, 2):
                os.dup2(nowhere.fileno(), number)
        for sign in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(sign, signal.SIG_DFL)
        _serve(orders)
        status = 0
    finally:
        os._exit(status)


def _serve(orders: socket.socket) -> None:
    # With the first order: work of this process while the lab is built would make simulated time
    # depend on chance.
    if not orders.recv(1, socket.MSG_PEEK):
        return
    daemon.prepare()
    daemon.load()
    codec.prepare()
    found = tools.abilities(TOOLS)
    agents = set[int]()
    # Because we reap them, their processor time counts for the run of the lab.
    signal.signal(signal.SIGCHLD, lambda *_: _reap(agents, os.WNOHANG))
    are_to_stay = False
    # Garbage collection in agents then skips existing objects, whose pages stay shared.
    gc.freeze()
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES, 2)
        if not order:
            break
        if order == STAY:
            are_to_stay = True
            continue
        ready, log = descriptors
        pid = _start(jsontext.parse(order), ready, log, orders, found)
        agents.add(pid)
        os.close(ready)
        os.close(log)
        # Whoever gave the order may be gone.
        with contextlib.suppress(OSError):
            orders.send(str(pid).encode())
    orders.close()
    if not are_to_stay:
        grace_s = max(AGENT_GRACE_S, EACH_AGENT_S * len(agents))
        # The number of an agent that is not reaped is its own.
        proc.end([*agents], grace_s=grace_s, belongs=agents.__contains__)
    _reap(agents)


def _reap(agents: set[int], options: int = 0) -> None:
    """Reap agents that have ended; without options, wait until all have ended."""
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, options)[0]) != 0:
            agents.discard(pid)


def _start(
    order: dict[str, object], ready: int, log: int, orders: socket.socket, found: Abilities
) -> int:
    """Fork an agent; its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        orders.close()
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _redirect(log)
        Path("/proc/self/comm").write_text("netesto-agent", encoding="utf-8")
        _enter(Path(str(order["namespace"])))
        _name_hosts(os.fsencode(str(order["names"])))
        argv = order["argv"]
        assert isinstance(argv, list), "orders come from netesto.lab.agents"
        status = daemon.main([*map(str, argv), "--ready-fd", str(ready)], found=found)
    except BaseException:  # noqa: BLE001 - the top of a process; its log has the traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _redirect(log: int) -> None:
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _enter(namespace: Path) -> None:
    """Enter a network namespace as `ip netns exec` does: /sys shows its interfaces, too. An overlay
    on CPU_FOLDER stays.

    Each namespace gets its own procfs for sysctls. In a shared one the kernel keeps the sysctls of
    the same name in one list, and walks it to open one: with 200 hosts that took longer than all
    their other statistics.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    _call(libc.setns, descriptor, CLONE_NEWNET)
    # The namespace was deleted: the lab was taken down meanwhile.
    if not os.path.samestat(os.fstat(descriptor), namespace.stat()):
        raise FileNotFoundError(errno.ENOENT, "namespace deleted", str(namespace))
    os.close(descriptor)
    _call(libc.unshare, CLONE_NEWNS)
    _call(libc.mount, b"", b"/", b"none", MS_SLAVE | MS_REC, None)
    cpu = os.fsencode(CPU_FOLDER)
    kept = None
    if CPU_FOLDER.is_mount():
        kept = libc.syscall(SYS_OPEN_TREE, AT_FDCWD, cpu, OPEN_TREE_CLONE | os.O_CLOEXEC)
    # If /sys cannot be unmounted, the new one covers it.
    libc.umount2(b"/sys", MNT_DETACH)
    # A mount of a container stays.
    if not _SYSCTLS.is_mount() and libc.mount(b"proc", b"/sys", b"proc", 0, None) == 0:
        libc.mount(b"/sys/sys", os.fsencode(_SYSCTLS), None, MS_BIND, None)
        libc.umount2(b"/sys", MNT_DETACH)
    _call(libc.mount, namespace.name.encode(), b"/sys", b"sysfs", 0, None)
    if kept is not None:
        _call(libc.syscall, SYS_MOVE_MOUNT, kept, b"", AT_FDCWD, cpu, MOVE_MOUNT_F_EMPTY_PATH)
        os.close(kept)


def _name_hosts(names: bytes) -> None:
    """Let the names of the lab's hosts resolve in an agent and its commands. Without an /etc/hosts
    they do not."""
    ctypes.CDLL(None).mount(names, b"/etc/hosts", None, MS_BIND, None)


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main())
