"""What each lab has made on this machine, written down before it is made.

One file a lab, `ID.json` in the state folder. Whoever takes a lab down, be it the process that
made it or `leftovers` after its death, goes by this file and by nothing else.

Who makes a lab that goes away with it, or is still making one that will stay, lives by a lock on
`ID.lock` (lab.life). A record without one was written by a netesto that knew no locks; or its lab
stays.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from netesto import atomic
from netesto.errors import LabError
from netesto.lab import life
from netesto.proc import ProcessIdentity

# Raised when an older reader would misunderstand the file.
FORMAT = 1

# Where labs are written down unless the caller says otherwise. /run is emptied by a reboot, and so
# are namespaces.
STATE_FOLDER = Path("/run/netesto/labs")

# Sockets of agents: a folder of its own, because a path of 107 bytes is the longest there is.
SOCKET_FOLDER = Path("/run/netesto")

NAMESPACE_FOLDER = Path("/run/netns")

# Four hexadecimal digits; a clash is noticed, so there need only be many more than labs.
ID_BYTES = 2
ID_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A host of a lab: its namespace, its agent's socket, the interface and addresses it tests
    with."""

    namespace: str
    socket: str
    device: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A lab on this machine. `owner` None: it stays until somebody takes it down by name.

    The owner is told to people; whether it lives, `is_abandoned` knows. `sockets` and `files` are
    folders that hold nothing but this lab's. `agents` are the processes started so far.
    """

    lab: str
    topology: str
    owner: ProcessIdentity | None
    namespaces: tuple[str, ...]
    sockets: str
    files: str
    hosts: Mapping[str, HostRecord]
    agents: Mapping[str, ProcessIdentity] = field(default_factory=dict)
    format: int = FORMAT


def fresh_id(state: Path) -> str:
    """A name for a lab that no recorded lab and no namespace of this machine begins with."""
    for _ in range(ID_ATTEMPTS):
        lab = f"nt{secrets.token_hex(ID_BYTES)}"
        taken = path_of(state, lab).exists() or (SOCKET_FOLDER / lab).exists()
        if not taken and not any(NAMESPACE_FOLDER.glob(f"{lab}-*")):
            return lab
    raise LabError(f"no free name for a lab after {ID_ATTEMPTS} attempts", remedy=f"See {state}.")


def path_of(state: Path, lab: str) -> Path:
    """The file of a lab."""
    return state / f"{lab}.json"


@contextlib.contextmanager
def living(state: Path, lab: str) -> Iterator[None]:
    """Answer for a lab that is not recorded yet for as long as the body runs. LabError if there is
    one of that name."""
    _make_folder(state)
    _refuse_recorded(state, lab)
    with life.held(_lock_of(state, lab)):
        try:
            yield
        finally:
            if not path_of(state, lab).exists():
                _lock_of(state, lab).unlink(missing_ok=True)


def is_abandoned(state: Path, record: Record) -> bool:
    """Whether the process that would have taken the lab down is gone."""
    lock = _lock_of(state, record.lab)
    if record.owner is None:
        return False
    return not (life.is_held(lock) if lock.exists() else record.owner.alive)


def _lock_of(state: Path, lab: str) -> Path:
    return state / f"{lab}.lock"


def forget_unrecorded(state: Path) -> None:
    """Remove what is left of those who were killed before they had written a record."""
    for lock in state.glob("*.lock"):
        lab = lock.stem
        if not path_of(state, lab).exists() and (taken := life.take(lock)) is not None:
            forget(state, lab)
            os.close(taken)


def _make_folder(state: Path) -> None:
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"{state}: {error.strerror}") from error


def _refuse_recorded(state: Path, lab: str) -> None:
    if path_of(state, lab).exists():
        raise LabError(f"a lab {lab} exists already", remedy=f"See {state}.")


def create(state: Path, record: Record) -> None:
    """Write a new record, within `living`. LabError if the lab's name is taken or the folder cannot
    be written."""
    _make_folder(state)
    _refuse_recorded(state, record.lab)
    try:
        update(state, record)
    except OSError as error:
        raise LabError(f"{state}: {error.strerror}") from error


def update(state: Path, record: Record) -> None:
    """Replace the record of a lab."""
    atomic.replace(path_of(state, record.lab), json.dumps(asdict(record), indent=2) + "\n")


def forget(state: Path, lab: str) -> None:
    """Remove a record, after everything in it is gone."""
    for path in (path_of(state, lab), *state.glob(f".{lab}.*"), _lock_of(state, lab)):
        path.unlink(missing_ok=True)


def let_stay(state: Path, record: Record) -> Record:
    """Note that the lab, whole by now, stays until somebody takes it down; its new record."""
    lasting = replace(record, owner=None)
    update(state, lasting)
    _lock_of(state, record.lab).unlink(missing_ok=True)
    return lasting


def is_to_stay(state: Path, lab: str) -> bool:
    """Whether a lab is recorded as one that stays."""
    path = path_of(state, lab)
    return path.exists() and read(path).owner is None


def read(path: Path) -> Record:
    """The record in a file. LabError if it is none."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        if entry["format"] != FORMAT:
            raise LabError(f"{path}: written by another version of netesto")
        return Record(
            lab=entry["lab"],
            topology=entry["topology"],
            owner=_identity(entry["owner"]),
            namespaces=tuple(entry["namespaces"]),
            sockets=entry["sockets"],
            files=entry["files"],
            hosts={name: _host(host) for name, host in entry["hosts"].items()},
            agents={host: ProcessIdentity(**agent) for host, agent in entry["agents"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path}: not the record of a lab: {error}") from None


def _host(entry: Mapping[str, Any]) -> HostRecord:
    addresses = tuple(entry["addresses"])
    return HostRecord(entry["namespace"], entry["socket"], entry["device"], addresses)


def _identity(entry: Mapping[str, Any] | None) -> ProcessIdentity | None:
    return None if entry is None else ProcessIdentity(**entry)


def read_all(state: Path) -> list[Record]:
    """Every lab written down, by name; none where there is no folder."""
    records = []
    for path in sorted(state.glob("*.json")):
        try:
            records.append(read(path))
        except LabError:
            # Taken down between the look and the reading; anything else is for a person to see.
            if path.exists():
                raise
    return records
