"""Processes of this machine, also those that are not our children: listed, identified, ended; and
the memory of our own."""

import contextlib
import ctypes
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from netesto import grounds
from netesto.grounds import Ground

# After SIGKILL only the kernel can delay the end.
KILL_GRACE_S = 30.0

# From <malloc.h> of glibc.
_M_ARENA_MAX = -8

# The environment variable by which a command knows that it runs in a guest, and on which ground.
GROUND_MARK = "NETESTO_GROUND"
# The one with facts of the guest: lines `name: value`.
GUEST_FACTS = "NETESTO_GUEST_FACTS"

# From <asm/unistd_64.h>, <linux/sched.h> and <linux/sched/types.h>: size, policy, flags, niceness,
# priority; then in nanoseconds runtime, deadline and period.
_SYS_SCHED_SETATTR = 314
_SCHED_DEADLINE = 6
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")

# With the smallest runtime that the kernel takes, some four hundred processes may have it at once.
_YIELD_RUNTIME_NS, _YIELD_NS = 1024, 500_000

# <linux/prctl.h>
_PR_SET_CHILD_SUBREAPER = 36

# Numbers of capabilities(7).
CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN = 12, 13, 21


def guest_facts() -> dict[str, str]:
    """The facts of the guest that this process runs in; none outside of guests."""
    lines = os.environ.get(GUEST_FACTS, "").splitlines()
    return dict(line.split(": ", 1) for line in lines)


def take_memory_from_one_arena() -> None:
    """Have glibc take memory from one place. Otherwise each thread keeps what it has freed for
    itself, and a process with threads of gRPC grows for hundreds of experiments. Call it before
    there are threads."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


def sleep_when_yielding(pid: int) -> None:
    """In simulated time have this process sleep for a moment where it yields its processor.

    A loop of sched_yield(2) gives way to others that compute. Time passes when all wait, so that it
    would go on for seconds of the machine until the next millisecond. By its deadline scheduling
    (sched(7)) who yields waits for the next period. A process that may not have it stays as it is.
    """
    if is_in_simulated_time():
        attributes = _SCHED_ATTR.pack(
            _SCHED_ATTR.size, _SCHED_DEADLINE, 0, 0, 0, _YIELD_RUNTIME_NS, _YIELD_NS, _YIELD_NS
        )
        ctypes.CDLL(None).syscall(_SYS_SCHED_SETATTR, pid, attributes, 0)


def ground_inside() -> Ground | None:
    """The ground of the guest that this process runs in, None outside of guests."""
    return grounds.find(os.environ.get(GROUND_MARK))


def is_in_simulated_time() -> bool:
    """Whether the time of this process is simulated."""
    inside = ground_inside()
    return inside is not None and inside.is_simulated


def boot_id() -> str:
    """The identity of the running boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def has_capability(number: int) -> bool:
    """Whether this process has a capability in effect."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    [line] = (each for each in status if each.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> number & 1)


def numbers() -> list[int]:
    """The numbers of all processes."""
    return sorted(int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal())


def adopt_orphans() -> None:
    """Stay an ancestor of all processes that we and our children start: those whose parent ends
    become our children, and not those of the first process (PR_SET_CHILD_SUBREAPER, prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_adopted() -> None:
    """Reap adopted children that have ended. Those that this process has started are left alone:
    they lead a session (process), or have ours."""
    own = os.getsid(0)
    # The kernel gives them to the first thread.
    for pid in _children_of_thread(os.getpid(), os.getpid()):
        with contextlib.suppress(OSError):
            # A single call for each that runs: all hosts of a lab look through them.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            session = _fields(text)[3]
            if int(session) not in {pid, own}:
                os.waitpid(pid, os.WNOHANG)


def descendants() -> list[int]:
    """The numbers of our children, their children and so on; those of all processes if the kernel
    does not list children (CONFIG_PROC_CHILDREN, proc_tid_children(5))."""
    if not Path("/proc/thread-self/children").exists():
        return numbers()
    found, before = _below(os.getpid()), None
    # A process whose parent ended meanwhile may be in neither list of children.
    while found != before:
        found, before = _below(os.getpid()), found
    return sorted(found)


def _below(pid: int) -> set[int]:
    """The descendants of a process."""
    found, parents = set[int](), [pid]
    while parents:
        children = set(_children(parents.pop())) - found
        found |= children
        parents += children
    return found


def _children(pid: int) -> Iterator[int]:
    """Those of all threads of a process; none if it has ended."""
    with contextlib.suppress(OSError):
        for task in os.scandir(f"/proc/{pid}/task"):
            yield from _children_of_thread(pid, int(task.name))


def _children_of_thread(pid: int, thread: int) -> list[int]:
    """None if it has ended."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="utf-8")
        return [*map(int, children.split())]
    return []


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal, or traced (proc_pid_stat(5)); False without one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return _fields(text)[0] in "Tt"


def begun_ticks() -> int:
    """When this process began, in clock ticks since the boot (proc_pid_stat(5))."""
    return int(_fields(Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace"))[19])


def _fields(stat: str) -> list[str]:
    """The fields of /proc/PID/stat from the third on. The name before them, in parentheses, may
    contain anything."""
    return stat.rpartition(")")[2].split()


@dataclass(frozen=True, slots=True)
class Ended:
    """Process numbers: those that were there to be ended, and those of them that still run."""

    found: tuple[int, ...]
    surviving: tuple[int, ...]


def end(
    pids: Iterable[int], *, grace_s: float, belongs: Callable[[int], bool] = lambda _: True
) -> Ended:
    """End processes that need not be our children: SIGTERM, after `grace_s` seconds SIGKILL.

    `belongs` decides about each once it is held: a number may have been given to another process,
    a pidfd stays with its own.
    """
    with contextlib.ExitStack() as stack:
        held: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                if belongs(pid):
                    stack.callback(os.close, descriptor)
                    held[descriptor] = pid
                else:
                    os.close(descriptor)
        running: Collection[int] = held
        for sign, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_GRACE_S)):
            for descriptor in running:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, sign)
                    # One that was stopped would get the signal when it is continued.
                    signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            running = _still_running(running, wait_s)
        return Ended(tuple(held.values()), tuple(sorted(held[each] for each in running)))


def _still_running(descriptors: Iterable[int], timeout: float) -> set[int]:
    """Wait until these processes have ended; those that have not after `timeout` seconds."""
    remaining = set(descriptors)
    poll = select.poll()
    for descriptor in remaining:
        # It becomes readable when its process ends (pidfd_open(2)).
        poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout
    while remaining and (left_s := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left_s * 1000):
            poll.unregister(descriptor)
            remaining.discard(descriptor)
    return remaining
