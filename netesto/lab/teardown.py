"""Takes a lab down by its record: its agent, other processes inside, namespaces, files.

An agent puts its hosts back before it ends. After a kill, `--recover` does so from the journal of
each, inside its namespace: some settings of a kernel outlive a namespace.
"""

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeAlias

from netesto.errors import LabError, ProcessError
from netesto.lab import records
from netesto.lab.records import NAMESPACE_FOLDER, Record
from netesto.system import life, proc, process

# The device and inode of a namespace.
Identity: TypeAlias = tuple[int, int]

# Agents are commands: importing them would tie the lab to them.
AGENT = "netesto.agent.daemon"

# The names of an agent's process (netesto.agent.nursery) and of its samplers, which end with it
# unless they are stopped.
AGENT_COMMAND, SAMPLER_COMMAND = "netesto-agent", "netesto-sampler"

# An agent ends its flows and puts its hosts back before it ends itself. They share the processors.
AGENT_GRACE_S = 10.0
EACH_HOST_S = 1.0

# Any other process in a namespace is a tool, or was started there by a person.
PROCESS_GRACE_S = 2.0

IP_TIMEOUT_S = 60.0

# Includes the grace of processes that a killed agent left running.
RECOVERY_TIMEOUT_S = 120.0


def take_down(state: Path, record: Record) -> list[str]:
    """Remove everything that the record names; return what was removed, in words.

    LabError if something cannot be removed: the record then stays, so that a later `netesto clean`
    can finish.
    """
    namespaces = [name for name in record.namespaces if (NAMESPACE_FOLDER / name).exists()]
    standing = identities(namespaces)
    inodes = set(standing.values())
    removed = _end_agents(record)
    removed += _recover(record, standing)
    removed += _end_inside(inodes)
    _delete_namespaces(record.lab, namespaces)
    # A starting agent may have entered meanwhile; now none can.
    removed += _end_inside(inodes)
    removed += [f"namespace {name}" for name in namespaces]
    for folder in (record.sockets, record.files):
        removed += _remove_folder(Path(folder))
    records.forget(state, record.lab)
    return removed


def _end_agents(record: Record) -> list[str]:
    """End the lab's agent, including one that was just started, and one with a namespace that was
    deleted by name, which exists as long as the agent."""
    log = str(records.log_of(record))
    agents = [
        pid
        for pid in proc.numbers()
        if _command_of(pid) in {AGENT_COMMAND, SAMPLER_COMMAND} and _errors_of(pid) == log
    ]
    life.end_processes(agents, grace_s=max(AGENT_GRACE_S, EACH_HOST_S * len(record.hosts)))
    return [f"agent, process {pid}" for pid in agents]


def _errors_of(pid: int) -> str:
    """The file to which a process writes its errors."""
    try:
        return str(Path(f"/proc/{pid}/fd/2").readlink())
    except OSError:
        return ""


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _recover(record: Record, namespaces: Collection[str]) -> list[str]:
    """Put back the settings of killed agents: those whose journals are not empty."""
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


def _end_inside(namespaces: Collection[Identity]) -> list[str]:
    """End processes in the namespaces until there are none."""
    ended: list[str] = []
    while inside := _processes(namespaces):
        life.end_processes(inside, grace_s=PROCESS_GRACE_S)
        ended += [f"process {pid}" for pid in inside]
    return ended


def _processes(namespaces: Collection[Identity]) -> list[int]:
    """The processes in these namespaces."""
    if not namespaces:
        return []
    return [pid for pid in proc.numbers() if _identity(Path(f"/proc/{pid}/ns/net")) in namespaces]


def identities(names: Iterable[str]) -> dict[str, Identity]:
    """The identities of these namespaces, valid after their names are deleted. A name without a
    mounted namespace has none."""
    found = {name: _identity(NAMESPACE_FOLDER / name) for name in names}
    device = Path("/proc/self/ns/net").stat().st_dev
    return {
        name: identity
        for name, identity in found.items()
        if identity is not None and identity[0] == device
    }


def _identity(namespace: Path) -> Identity | None:
    """None if it, or its process, has ended."""
    try:
        status = namespace.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _delete_namespaces(lab: str, names: Collection[str]) -> None:
    """Interfaces, routes and qdiscs are deleted with their namespaces."""
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
