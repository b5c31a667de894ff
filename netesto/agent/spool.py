"""Where an agent keeps what it measured until the controller has it: STATE/spool/RUN/EXP/.

events.jsonl          every event of the experiment, with its time
flow.G.I.out .err     what the tool of instance I of group G printed, untouched
flow.G.I.json         how it was started, and how it ended
group.G.json          what was asked, and the interface's counters before and after
server.G.I.out        what the server of one instance printed, where it has its own
server.G.json         at the server: what was asked, and the ports reserved
sockets.ss cpu.jsonl  samples of the collectors
ping.G.out            the ping train of group G
capture.N.pcap .log   captures
0/ 1/                 host statistics before and after; earlier ones of a kind in 1.1/, 1.2/ …
"""

import hashlib
import json
import re
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path, PurePosixPath

from netesto import atomic
from netesto.errors import AgentError
from netesto.model import FileEntry

# One piece of a file on its way to the controller: small enough that calls on the same connection
# need not wait behind it.
PIECE_BYTES = 256 * 1024

# A run's name is a folder of ours; nothing else may come of it.
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,99}")


class Spool:
    """The files of all runs. Folders are readable by the agent's user alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def experiment(self, run: str, exp: int) -> Path:
        """The folder of an experiment, which need not exist. AgentError if `run` is no name."""
        if not _RUN.fullmatch(run):
            raise AgentError(
                f"{run!r} is no name for a run", remedy="use letters, digits, . _ : + and -"
            )
        return self._folder / run / str(exp)

    def remove(self, run: str, exp: int) -> None:
        """Remove an experiment, and the run's folder with its last one."""
        folder = self.experiment(run, exp)
        if folder.exists():
            shutil.rmtree(folder)
        if folder.parent.exists() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()

    def runs(self) -> list[str]:
        """Runs whose files were not all fetched."""
        return (
            sorted(entry.name for entry in self._folder.iterdir()) if self._folder.exists() else []
        )


def entries(folder: Path) -> list[FileEntry]:
    """All files of an experiment, in order; none if nothing of it happened here."""
    return [
        FileEntry(path.relative_to(folder).as_posix(), path.stat().st_size, _sha256(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def pieces(folder: Path, path: str) -> Generator[bytes, None, None]:
    """The content of one file. AgentError if the experiment has no such file."""
    name = PurePosixPath(path)
    place = folder / name
    if name.is_absolute() or ".." in name.parts or not place.is_file():
        raise AgentError(f"experiment {folder.name} has no file {path!r}")
    with place.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write a record, whole or not at all. Addresses become text."""
    atomic.replace(path, json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n")


def next_free(path: Path) -> Path:
    """`path`, or the first of `path.1`, `path.2` … that does not exist."""
    if not path.exists():
        return path
    number = 1
    while (place := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return place


def set_aside(path: Path) -> None:
    """Give what is at `path` another name, so that a later one can take its place."""
    if path.exists():
        path.rename(next_free(path))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
