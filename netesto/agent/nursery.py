"""Starts the agent of a lab's hosts, and another one after a kill, by forking a process that has
imported what it needs.

    builder of the lab ──── an order ──► nursery ── fork ──► agent of all hosts
                           ◄── its process id ───────────

An order is `START` with three file descriptors. The first is a file with a JSON object
`{"names", "hosts": [{"namespace", "argv"}, …]}`; to the second the agent writes a line for each
host that is ready, and to the third all its output. When the other end of its socket is closed,
however its process ended, the nursery ends its agents and itself; after the order `STAY` it waits
until they have ended. Agents end with their nursery.
"""

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netesto.agent import daemon, namespaces, tools
from netesto.agent.daemon import ServedHost
from netesto.agent.namespaces import Namespaces
from netesto.agent.tools import Abilities
from netesto.files import jsontext
from netesto.system import proc, process
from netesto.traffic import TOOLS
from netesto.transport import codec

# The orders; by STAY, agents of this nursery outlive the giver.
START, STAY = b"start", b"stay"
ORDER_BYTES = 16

# An agent ends its flows and puts its hosts back before it ends itself. They share the processors.
AGENT_GRACE_S, EACH_HOST_S = 10.0, 1.0

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
    host_count = 0
    # Because we reap them, their processor time counts for the run of the lab.
    signal.signal(signal.SIGCHLD, lambda *_: _reap(agents, os.WNOHANG))
    are_to_stay = False
    # Garbage collection in agents then skips existing objects, whose pages stay shared.
    gc.freeze()
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES, 3)
        if not order:
            break
        if order == STAY:
            are_to_stay = True
            continue
        text, ready, log = descriptors
        with os.fdopen(text, encoding="utf-8") as file:
            wanted = jsontext.parse(file.read())
        host_count = len(wanted["hosts"])
        pid = _start(wanted, ready, log, orders, found)
        agents.add(pid)
        os.close(ready)
        os.close(log)
        # Whoever gave the order may be gone.
        with contextlib.suppress(OSError):
            orders.send(str(pid).encode())
    orders.close()
    if not are_to_stay:
        grace_s = max(AGENT_GRACE_S, EACH_HOST_S * host_count)
        # The number of an agent that is not reaped is its own.
        proc.end([*agents], grace_s=grace_s, belongs=agents.__contains__)
    _reap(agents)


def _reap(agents: set[int], options: int = 0) -> None:
    """Reap agents that have ended; without options, wait until all have ended."""
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, options)[0]) != 0:
            agents.discard(pid)


def _start(
    order: Mapping[str, Any], ready: int, log: int, orders: socket.socket, found: Abilities
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
        hosts = _served(order["hosts"], order["names"])
        status = daemon.serve(hosts, ready_fd=ready, found=found)
    except BaseException:  # noqa: BLE001 - the top of a process; its log has the traceback
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _served(hosts: Sequence[Mapping[str, Any]], names: str) -> list[ServedHost]:
    """The hosts of an order, each with namespaces."""
    home, parser = Namespaces.here(), daemon.parser()
    served = []
    for host in hosts:
        made = namespaces.make(Path(host["namespace"]), names)
        home.enter()
        served.append(ServedHost(parser.parse_args(host["argv"]), made.join))
    home.close()
    return served


def _redirect(log: int) -> None:
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


if __name__ == "__main__":
    sys.exit(main())
