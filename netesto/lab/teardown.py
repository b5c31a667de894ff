"""Taking a lab down by what its record says: agents, other processes inside, namespaces, files.

An agent puts its host back before it ends. For one that was killed, its own `--recover` does so
here, from its journal and inside its namespace: not all of a kernel's settings go with a namespace.
"""

import contextlib
import os
import select
import shutil
import signal
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import FrameType

from netesto import process
from netesto.errors import LabError, ProcessError
from netesto.lab import records
from netesto.lab.records import NAMESPACE_FOLDER, Record

# Agents are commands: importing them would tie the lab to them.
AGENT = "netesto.agent.daemon"

# An agent ends its flows and puts its host back before it ends itself.
AGENT_GRACE_S = 10.0

# Anything else in a namespace is a tool, or what a person started there.
PROCESS_GRACE_S = 2.0

# After SIGKILL only the kernel is waited for.
KILL_GRACE_S = 5.0

IP_TIMEOUT_S = 60.0

# What a killed agent left running gets as long as it would have got from the agent.
RECOVERY_TIMEOUT_S = 30.0


def take_down(state: Path, record: Record) -> list[str]:
    """Remove all that the record names; what was really there, in words.

    What is gone already is fine. LabError if something resists: the record then stays, so that a
    later `netesto clean` can finish.
    """
    removed = _end_agents(record)
    namespaces = [name for name in record.namespaces if (NAMESPACE_FOLDER / name).exists()]
    removed += _recover(record, namespaces)
    removed += _end_inside(namespaces)
    _delete_namespaces(record.lab, namespaces)
    removed += [f"namespace {name}" for name in namespaces]
    for folder in (record.sockets, record.files):
        removed += _remove_folder(Path(folder))
    records.forget(state, record.lab)
    return removed


def _end_agents(record: Record) -> list[str]:
    # In another PID namespace the number may be somebody else's.
    inside = processes_inside(record.namespaces)
    alive = {
        host: agent.pid
        for host, agent in record.agents.items()
        if agent.alive and agent.pid in inside
    }
    end_processes(alive.values(), grace_s=AGENT_GRACE_S)
    return [f"agent of {host}, process {pid}" for host, pid in alive.items()]


def _recover(record: Record, namespaces: Collection[str]) -> list[str]:
    """Have the settings put back that killed agents had made: the journals that are not empty."""
    recovered = []
    for host, entry in record.hosts.items():
        folder = Path(record.files) / host
        journal = folder / "journal"
        if entry.namespace not in namespaces or not journal.exists() or not journal.stat().st_size:
            continue
        argv = ["ip", "netns", "exec", entry.namespace, *process.python(AGENT)]
        try:
            process.run([*argv, "--recover", "--state", str(folder)], timeout=RECOVERY_TIMEOUT_S)
        except ProcessError as error:
            raise LabError(f"lab {record.lab}: {host} was not put back: {error}") from error
        recovered.append(f"settings of {host}")
    return recovered


def _end_inside(namespaces: Collection[str]) -> list[str]:
    """End what runs in the namespaces; again, if it had started something meanwhile."""
    ended: list[str] = []
    while inside := processes_inside(namespaces):
        end_processes(inside, grace_s=PROCESS_GRACE_S)
        ended += [f"process {pid}" for pid in inside]
    return ended


def processes_inside(namespaces: Iterable[str]) -> list[int]:
    """The processes whose network namespace is one of these, by number."""
    ours = {_identity(NAMESPACE_FOLDER / name) for name in namespaces} - {None}
    if not ours:
        return []
    numbers = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in numbers if _identity(Path(f"/proc/{pid}/ns/net")) in ours]


def _identity(namespace: Path) -> tuple[int, int] | None:
    """What tells one namespace from every other; None if it, or its process, is gone."""
    try:
        status = namespace.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def end_processes(pids: Iterable[int], *, grace_s: float) -> None:
    """End processes that need not be our children: politely, after `grace_s` by force.

    LabError if one outlives even that.
    """
    with contextlib.ExitStack() as stack:
        # A pidfd stays with its process: the number may be given to another, this may not.
        descriptors: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                descriptors[os.pidfd_open(pid)] = pid
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        remaining = set(descriptors)
        for sign, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_GRACE_S)):
            for descriptor in remaining:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, sign)
            remaining = _still_running(remaining, wait_s)
        if remaining:
            numbers = ", ".join(str(descriptors[descriptor]) for descriptor in sorted(remaining))
            raise LabError(f"processes that will not end: {numbers}")


def _still_running(descriptors: Iterable[int], timeout: float) -> set[int]:
    """Wait until all of these processes have ended; those that have not after `timeout` seconds."""
    remaining = set(descriptors)
    poll = select.poll()
    for descriptor in remaining:
        poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout
    while remaining and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            remaining.discard(descriptor)
    return remaining


def _delete_namespaces(lab: str, names: Collection[str]) -> None:
    """Interfaces, routes and qdiscs go with their namespaces."""
    lines = "".join(f"netns delete {name}\n" for name in names)
    if not lines:
        return
    try:
        argv = ["ip", "-force", "-batch", "-"]
        finished = process.run(argv, timeout=IP_TIMEOUT_S, check=False, stdin=lines)
    except ProcessError as error:
        raise LabError(f"lab {lab}: {error}") from error
    left = [name for name in names if (NAMESPACE_FOLDER / name).exists()]
    if left:
        reason = finished.last_lines()
        raise LabError(f"lab {lab}: namespaces not removed: {', '.join(left)}: {reason}")


def _remove_folder(folder: Path) -> list[str]:
    if not folder.exists():
        return []
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise LabError(f"{folder}: not removed: {error.strerror}") from error
    return [f"folder {folder}"]


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C and termination back until the body is done, then let them act.

    Only the main thread is ever interrupted, so in another thread there is nothing to hold back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    before = {sign: signal.signal(sign, note) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, signal.SIG_DFL if handler is None else handler)
        for number in arrived[:1]:
            signal.raise_signal(number)
