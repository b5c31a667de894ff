"""The files that an agent keeps until the controller has them: STATE/spool/RUN/EXP/.

events.jsonl          every event of the experiment, with its time
flow.G.I.out .err     output of the tool of instance I of group G, unchanged
flow.G.I.json         how it was started, and how it ended
group.G.json          the request, and the interface's counters before and after
server.G.I.out        output of the server of one instance, if it has its own
server.G.json         at the server: the request, and the ports reserved
sockets.bin.gz        samples of sockets
cpu.jsonl             samples of CPU load
tcp.jsonl             samples of counters; one for each of collectors.counters
ping.G.out            the ping train of group G
capture.N.pcap .log   captures
clock.json            how far the system's time was ahead of the agent's clock, or that it was set
0/ 1/                 host statistics before and after; earlier ones of a kind in 1.1/, 1.2/ …
"""

import contextlib
import hashlib
import itertools
import json
import logging
import os
import shutil
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Self

from netesto.errors import AgentError
from netesto.files import atomic, jsontext
from netesto.model import RUN_NAME, UNFETCHED_MAX, FileEntry, FilePiece, Unfetched
from netesto.system import proc

log = logging.getLogger(__name__)

# Only if the system's time is not that of the agent's clock.
CLOCK = "clock.json"

# Pieces of a file are small enough not to delay other calls on the same connection.
PIECE_BYTES = 256 * 1024

# Files that are at most so large together are sent with their list: one call less for each host.
SMALL_BYTES = 64 * 1024

# Memory of this size is reused; more is requested from the system, and cleared, each time.
_HASHED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Seen:
    """A run whose latest file has the date `written_ns`, as it was seen `at_s` after the `boot`; in
    STATE/ages.json.

    Dates do not tell how long nobody has fetched its data, because somebody may set the system's
    time. A run ages from when an agent first sees it as it is, by a clock that nobody sets. It does
    not age where no agent can know how long that was: over a reboot.
    """

    written_ns: int
    boot: str
    at_s: float
    age_s: float = 0.0

    @classmethod
    def now(cls, written_ns: int) -> Self:
        return cls(written_ns, proc.boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME))

    def after(self, before: Self | None) -> Self:
        """The same, with the age that follows from what was seen before."""
        if before is None or before.written_ns != self.written_ns:
            return self
        since_s = max(self.at_s - before.at_s, 0.0) if before.boot == self.boot else 0.0
        return replace(self, age_s=before.age_s + since_s)


class Spool:
    """The files of all runs. Folders are readable by the agent's user alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def experiment(self, run: str, exp: int) -> Path:
        """The folder of an experiment, which need not exist. AgentError if `run` is invalid."""
        if not RUN_NAME.fullmatch(run):
            raise AgentError(
                f"invalid run name {run!r}", remedy="Use letters, digits, . _ : + and -."
            )
        return self._folder / run / str(exp)

    def remove(self, run: str, exp: int) -> None:
        """Remove an experiment, and with the last one the run's folder."""
        folder = self.experiment(run, exp)
        if folder.exists():
            shutil.rmtree(folder)
        if folder.parent.exists() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()

    def remove_older(self, age_s: float) -> list[str]:
        """Remove the runs to which nothing was written for `age_s` seconds; return their names."""
        removed = [run for run, age in self.see_ages().items() if age > age_s]
        for run in removed:
            shutil.rmtree(self._folder / run)
        return removed

    def see_ages(self) -> dict[str, float]:
        """The age of each run in seconds, which only grows from one call to the next."""
        path = self._folder.with_name("ages.json")
        before = _recorded(path)
        seen = {
            run: Seen.now(_written_ns(self._folder / run)).after(before.get(run))
            for run in self.runs()
        }
        if seen or before:
            try:
                atomic.replace(path, json.dumps({run: asdict(each) for run, each in seen.items()}))
            except OSError as error:
                log.warning("ages not kept", extra={"reason": error.strerror})
        return {run: each.age_s for run, each in seen.items()}

    def runs(self) -> list[str]:
        """Runs with files that were not fetched."""
        return (
            sorted(entry.name for entry in self._folder.iterdir()) if self._folder.exists() else []
        )

    def unfetched(self, *, without: str = "") -> list[Unfetched]:
        """The experiments with files that were not fetched, but those of the run `without`; at most
        UNFETCHED_MAX of them."""
        return [
            _unfetched(folder)
            for run in self.runs()
            if run != without and RUN_NAME.fullmatch(run)
            for folder in sorted((self._folder / run).iterdir())
            if folder.is_dir() and folder.name.isdecimal()
        ][:UNFETCHED_MAX]


def _recorded(path: Path) -> dict[str, Seen]:
    """The record; of another version, or damaged, it is as if there were none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found = jsontext.read(path)
        return {
            run: Seen(int(it["written_ns"]), str(it["boot"]), float(it["at_s"]), float(it["age_s"]))
            for run, it in found.items()
        }
    return {}


def _unfetched(folder: Path) -> Unfetched:
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Unfetched(
        run=folder.parent.name,
        exp=int(folder.name),
        files=len(sizes),
        size_bytes=sum(sizes),
        age_s=max(0.0, time.time() - _written_ns(folder) / 1e9),
    )


def _written_ns(folder: Path) -> int:
    """When anything in a folder was written last, as the system's time was then."""
    return max(path.lstat().st_mtime_ns for path in (folder, *folder.rglob("*")))


def listed(folder: Path) -> tuple[list[FileEntry], list[FilePiece]]:
    """All files of an experiment, in order; and their content, if it is at most SMALL_BYTES."""
    found = sorted(
        _files(str(folder)) if folder.exists() else (), key=lambda pair: pair[0].split("/")
    )
    if sum(each.stat().st_size for _, each in found) > SMALL_BYTES:
        return [
            FileEntry(path, each.stat().st_size, _sha256(each.path)) for path, each in found
        ], []
    content = [FilePiece(path, _content(each.path)) for path, each in found]
    entries = [
        FileEntry(each.path, len(each.content), hashlib.sha256(each.content).hexdigest())
        for each in content
    ]
    return entries, [each for each in content if each.content]


def _files(folder: str, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The files in a folder and those in it, with their paths. Path.rglob takes three times as
    long, which counts where hundreds of hosts share a machine."""
    with os.scandir(folder) as found:
        for each in found:
            if each.is_dir(follow_symlinks=False):
                yield from _files(each.path, f"{prefix}{each.name}/")
            elif each.is_file():
                yield prefix + each.name, each


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
    """Write a record atomically, a line for each member. Addresses become text."""
    # With `indent`, json does not use its encoder in C.
    lines = (
        f"  {json.dumps(name)}: {json.dumps(each, default=str, ensure_ascii=False)}"
        for name, each in value.items()
    )
    atomic.replace(path, "{\n" + ",\n".join(lines) + "\n}\n")


def set_aside(path: Path) -> None:
    """Rename what is at `path` to the first of `path.1`, `path.2` … that does not exist."""
    if path.exists():
        others = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
        path.rename(next(place for place in others if not place.exists()))


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - no Path is at hand
        return file.read()


def _sha256(path: str) -> str:
    # hashlib.file_digest clears a buffer of 256 KiB for each file; most have less than one.
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - no Path is at hand
        while piece := file.read(_HASHED_BYTES):
            digest.update(piece)
    return digest.hexdigest()
