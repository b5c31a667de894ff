"""Records of everything that labs create on this machine, written before its creation.

Each lab has a file `ID.json` in the state folder. The teardown, by the process that made the lab or
by `leftovers` after its death, uses only this file. Unless a lab is to stay, the process that made
it holds a lock on `ID.lock` (lab.life).
"""

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import cattrs

from netesto.errors import LabError
from netesto.files import atomic, jsontext, typed
from netesto.system import life

# Raised when another version would misunderstand the file.
FORMAT = 2

# The default folder of records. /run is emptied by a reboot, which also removes namespaces.
STATE_FOLDER = Path("/run/netesto/labs")

# Sockets of agents have a folder with a short name: their paths have at most 107 bytes.
SOCKET_FOLDER = Path("/run/netesto")

NAMESPACE_FOLDER = Path("/run/netns")

# Four hexadecimal digits. Clashes are noticed, so it is enough to have many more names than labs.
ID_BYTES = 2
ID_ATTEMPTS = 100

# A tmpfs on most machines, which takes the files of labs if so much is free.
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - folders of labs are made there, and are ours alone
MEMORY_BYTES = 10**9


@dataclass(frozen=True, slots=True)
class LabHost:
    """A host of a lab: its namespace, its agent's socket, the interface and addresses for tests."""

    namespace: str
    socket: str
    device: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A lab on this machine. `owner` is the PID, for people, of the process that takes it down;
    None: it stays until it is taken down by name. `sockets` and `files` are folders of this lab
    alone. `places` has the node and the interface of each IPv4 address, `aliases` the host of each
    address that is a name only. `routers` are the nodes that forward packets.
    """

    lab: str
    topology: str
    owner: int | None
    namespaces: tuple[str, ...]
    sockets: str
    files: str
    hosts: Mapping[str, LabHost]
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    routers: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def nodes(self) -> dict[str, str]:
        """The namespaces by node."""
        return {name.removeprefix(f"{self.lab}-"): name for name in self.namespaces}


def fresh_id(state: Path) -> str:
    """A name that no recorded lab has, and with which no namespace of this machine begins."""
    for _ in range(ID_ATTEMPTS):
        lab = f"nt{secrets.token_hex(ID_BYTES)}"
        # Not Path.exists: the folders may be closed to this user, who builds no lab in them.
        taken = map(os.path.exists, (path_of(state, lab), SOCKET_FOLDER / lab))
        if not any(taken) and not any(NAMESPACE_FOLDER.glob(f"{lab}-*")):
            return lab
    raise LabError(f"no free name for a lab after {ID_ATTEMPTS} attempts", remedy=f"See {state}.")


def path_of(state: Path, lab: str) -> Path:
    """The file of a lab."""
    return state / f"{lab}.json"


def files_of(state: Path, lab: str) -> Path:
    """The folder for the files of a new lab: in the state folder, or in memory if that is on a
    disk. 200 hosts write, read and remove thousands of small files in an experiment."""
    state = state.resolve()
    nearest = next(each for each in (state, *state.parents) if each.exists())
    with contextlib.suppress(OSError):
        has_room = shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_BYTES
        if has_room and _is_on_disk(nearest) and not _is_on_disk(MEMORY_FOLDER):
            return MEMORY_FOLDER / f"netesto-{lab}"
    return state / lab


def names_of(record: Record) -> Path:
    """The lab's /etc/hosts. Its other files have the names of hosts."""
    return Path(record.files) / ".etc-hosts"


def log_of(record: Record) -> Path:
    """What the lab's agent logs, which also identifies its process (teardown)."""
    return Path(record.files) / ".agent.log"


def write_names(record: Record) -> None:
    """Write the lab's /etc/hosts: its hosts before those of this machine's. OSError if that
    fails."""
    own = [f"{each} {name}\n" for name, host in record.hosts.items() for each in host.addresses]
    machines = Path("/etc/hosts").read_text(encoding="utf-8", errors="replace")
    atomic.replace(names_of(record), "".join([*own, machines]))


def _is_on_disk(folder: Path) -> bool:
    # Devices without a driver have the major number 0.
    return os.major(folder.stat().st_dev) != 0


@contextlib.contextmanager
def living(state: Path, lab: str) -> Iterator[None]:
    """Own a lab that is not recorded yet while the body runs. LabError if somebody else does, or
    the folder cannot be made."""
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"{state}: {error.strerror}") from error
    with life.held(_lock_of(state, lab)):
        try:
            yield
        finally:
            if not path_of(state, lab).exists():
                _lock_of(state, lab).unlink(missing_ok=True)


def is_abandoned(state: Path, record: Record) -> bool:
    """Whether the process that owns the lab is gone."""
    return record.owner is not None and not life.is_held(_lock_of(state, record.lab))


def _lock_of(state: Path, lab: str) -> Path:
    return state / f"{lab}.lock"


def forget_unrecorded(state: Path) -> None:
    """Remove what was left by processes that were killed before they wrote a record."""
    for lock in _files(state, ".lock"):
        lab = lock.stem
        if not path_of(state, lab).exists() and (taken := life.take(lock)) is not None:
            forget(state, lab)
            os.close(taken)


def create(state: Path, record: Record) -> None:
    """Write a new record, within `living`. LabError if the lab's name is taken or the folder cannot
    be written."""
    if path_of(state, record.lab).exists():
        raise LabError(f"a lab {record.lab} exists already", remedy=f"See {state}.")
    try:
        update(state, record)
    except OSError as error:
        raise LabError(f"{state}: {error.strerror}") from error


def update(state: Path, record: Record) -> None:
    """Replace the record of a lab."""
    atomic.replace(path_of(state, record.lab), json.dumps(asdict(record), indent=2) + "\n")


def forget(state: Path, lab: str) -> None:
    """Remove a record, after everything in it was removed."""
    for path in (path_of(state, lab), *state.glob(f".{lab}.*"), _lock_of(state, lab)):
        path.unlink(missing_ok=True)


def let_stay(state: Path, record: Record) -> Record:
    """Record that the lab, which is complete, stays until it is taken down; return the new
    record."""
    lasting = replace(record, owner=None)
    update(state, lasting)
    _lock_of(state, record.lab).unlink(missing_ok=True)
    return lasting


def is_to_stay(state: Path, lab: str) -> bool:
    """Whether a lab is recorded as one that stays."""
    path = path_of(state, lab)
    return path.exists() and read(path).owner is None


def read(path: Path) -> Record:
    """The record in a file. LabError if it is invalid."""
    try:
        entry = jsontext.read(path)
        if entry["format"] != FORMAT:
            raise LabError(
                f"{path}: written by another version of netesto",
                remedy="That version can take the lab down: netesto clean",
            )
        return typed.converter(forbid_extra_keys=False).structure(entry, Record)
    except cattrs.BaseValidationError as error:
        wrong = cattrs.transform_error(error)[0]
        raise LabError(f"{path}: not the record of a lab: {wrong}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path}: not the record of a lab: {error}") from None


def _files(state: Path, suffix: str) -> list[Path]:
    """The files of a state folder with this suffix, by name; none if the folder does not exist, or
    this user may not read it and has no labs there."""
    try:
        return sorted(path for path in state.iterdir() if path.suffix == suffix)
    except (FileNotFoundError, PermissionError):
        return []


def read_all(state: Path) -> list[Record]:
    """Every recorded lab, by name."""
    records = []
    for path in _files(state, ".json"):
        try:
            records.append(read(path))
        except LabError:
            # The lab may have been taken down meanwhile.
            if path.exists():
                raise
    return records
