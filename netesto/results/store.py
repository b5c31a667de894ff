"""The results folder on disk: one run at a time writes to it, and no measurement is overwritten."""

import contextlib
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from netesto.errors import AgentError, ResultsError
from netesto.files import atomic, jsontext
from netesto.measured import LINK_LOSSES, LINK_STATES, OF_NODES
from netesto.model import LARGEST_EXPERIMENT
from netesto.results import csvfile, durable, fields, integrity, manifest, packed, runs
from netesto.results.fields import Fields
from netesto.system import life

TABLE = "exp.csv"
FIELDS = "fields.txt"
# An experiment's aggregate row, in its folder.
DERIVED = "all.exp.out"
_COUNTER = "counter"
_LOCK = ".lock"
_CELLS = "cells.jsonl"
_PARTIAL = ".partial"
_FACTS = frozenset({"0", "1"})


@dataclass(frozen=True, slots=True)
class FinishedCell:
    """The experiments of a finished SWEEP cell, what has happened to them since, and the run of all
    of them ("" if unknown)."""

    experiments: tuple[int, ...]
    faults: Mapping[int, str] = field(default_factory=dict)
    run: str = ""


class _NotedCells(NamedTuple):
    """The finished cells by their hash, the last of several lines about one; and the hashes of all,
    by script and factors. "" is that of a version without hashes."""

    by_hash: Mapping[str, FinishedCell]
    hashes: Mapping[str, set[str]]


class Store(contextlib.AbstractContextManager["Store"]):
    """A results folder, created if missing, and locked against other runs until it is closed.

    The lock is the kernel's: it ends with the process, however that ends. Every method raises
    ResultsError, with a remedy if there is one, if the disk refuses. A folder that stays empty
    because of an error is removed again, with the parents that were created for it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if is_experiment(folder):
            raise ResultsError(
                f"{folder}: this is the folder of an experiment",
                remedy=f"Its results folder is {folder.parent}.",
            )
        self._new_folders = [each for each in (folder, *folder.parents) if not each.exists()]
        durable.make_folder(folder)
        self._lock = _hold(folder / _LOCK)
        self._faults: dict[int, str] = {}
        # What this run has written last: the table, and the folders of experiments.
        self._table = self._table_now()
        self._written: dict[Path, int] = {}
        self._foreign: list[str] = []
        # The highest number of an experiment in the table; None: not known yet.
        self._last: int | None = None
        self._is_ordered = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._new_folders:
            self._remove_empty()
        self.close()

    def _remove_empty(self) -> None:
        """Remove the created folders if they contain only their initial files."""
        begun = {self.folder / _LOCK, self.folder / FIELDS}
        # A failure here matters less than what was written.
        with contextlib.suppress(OSError):
            if begun.issuperset(self.folder.iterdir()):
                for path in begun:
                    path.unlink(missing_ok=True)
                for made in self._new_folders:
                    made.rmdir()

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # ---- the folder itself -----------------------------------------------------------------

    def check_place(self) -> None:
        """ResultsError if the folder is no longer the one that was opened, because it was moved,
        deleted or replaced."""
        lock = self.folder / _LOCK
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(self._lock), lock.stat()):
                return
        found = Path(f"/proc/self/fd/{self._lock}").readlink()
        where = "" if found.name != _LOCK or found == lock.absolute() else f", to {found.parent}"
        raise ResultsError(
            f"{self.folder}: another program has moved, deleted or replaced it{where}",
            remedy="What was measured until then is where the folder is now.",
        )

    def check_untouched(self) -> None:
        """ResultsError if another program has written, moved or deleted something that this run has
        written."""
        self.check_place()
        self._look_at_table()
        for path, number in self._written.items():
            if _inode(path) != number:
                self._foreign.append(f"{path}: another program has moved, deleted or replaced it")
        if self._foreign:
            raise ResultsError(
                "; ".join(self._foreign),
                remedy=f"`netesto report {self.folder}` rebuilds what follows from the measurements"
                " that are still there.",
            )

    def _look_at_table(self) -> None:
        if self._table_now() != self._table:
            self._table = self._table_now()
            self._foreign.append(
                f"{self.folder / TABLE}: another program has written or deleted it"
            )

    def _table_now(self) -> tuple[int, int, int] | None:
        """What tells one state of exp.csv from another; None without one."""
        try:
            found = (self.folder / TABLE).stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    # ---- numbers ---------------------------------------------------------------------------

    def counter(self) -> int:
        """The number taken last; 0 if there is none."""
        return counter(self.folder)

    def take(self, number: int) -> None:
        """Record `number` as the one taken last."""
        self.check_place()
        durable.replace(self.folder / _COUNTER, f"{number}\n")

    # ---- experiments -----------------------------------------------------------------------

    def whole(self, exp: int) -> Path:
        """The folder of a complete experiment."""
        return self.folder / str(exp)

    def partial(self, exp: int) -> Path:
        """The folder of an experiment while it is written, and afterwards if its run is killed."""
        return self.folder / f"{exp}{_PARTIAL}"

    def begin(self, exp: int) -> Path:
        """Create the folder of a new experiment, N.partial; a number in use is refused."""
        if bears(self.folder, exp):
            raise ResultsError(
                f"{self.folder}: experiment {exp} exists already, and is not overwritten",
                remedy="Take a new number with exp=COUNTER, or another folder with --out.",
            )
        self.check_place()
        folder = self.partial(exp)
        with durable.writing(folder):
            folder.mkdir()
            self._written[folder] = folder.stat().st_ino
            for part in ("raw", "0", "1", "plots"):
                (folder / part).mkdir()
            atomic.sync_folder(self.folder)
        return folder

    def take_over(self, exp: int) -> Path:
        """The folder N.partial that another process of this run had begun when it ended, or a new
        one."""
        folder = self.partial(exp)
        if not folder.exists():
            return self.begin(exp)
        self._written[folder] = folder.stat().st_ino
        return folder

    def place(self, exp: int, host: str, path: str) -> Path:
        """The place of a host's file `path` in the experiment; its folder need not exist.

        0/… and 1/… hold the statistics of all hosts, as HOST.KIND; nodes/NODE/… what one agent of a
        lab recorded of another node, which is under raw/NODE; the rest is under raw/HOST. HOST is
        `host`, the name in the script, even if the agent has another name. AgentError if the path
        is outside of the experiment.
        """
        parts = PurePosixPath(path).parts
        if "/" in host or host in {"", ".", ".."}:
            raise ResultsError(f"{host!r} is not the name of a host")
        if not parts or path.startswith("/") or ".." in parts or "\0" in path:
            raise AgentError(f"{path!r} is not a path within an experiment", host=host)
        if parts[0] in _FACTS:
            kind = parts[-1].rpartition(".")[2]
            if len(parts) != 2 or not kind or kind == parts[1]:
                raise AgentError(f"{path!r} is not a file of host statistics", host=host)
            return self.partial(exp) / parts[0] / f"{host}.{kind}"
        if parts[0] == OF_NODES:
            name = PurePosixPath(parts[-1])
            if len(parts) != 3 or not (LINK_STATES.receiver(name) or LINK_LOSSES.receiver(name)):
                raise AgentError(f"{path!r} is not a file of another node", host=host)
            return self.partial(exp).joinpath("raw", *parts[1:])
        return self.partial(exp).joinpath("raw", host, *parts)

    def drop(self, exp: int) -> None:
        """Remove N.partial, in which nothing was measured."""
        partial = self.partial(exp)
        self._written.pop(partial, None)
        with durable.writing(partial):
            shutil.rmtree(partial)

    def complete(self, exp: int) -> Path:
        """Rename N.partial to N, now that the experiment is complete; its path."""
        self.check_place()
        partial, whole = self.partial(exp), self.whole(exp)
        if _inode(partial) != self._written.pop(partial, None):
            raise ResultsError(f"{partial}: another program has moved, deleted or replaced it")
        with durable.writing(partial):
            atomic.sync_folder(partial)
        self._move_in(partial, whole)
        self._written[whole] = whole.stat().st_ino
        with durable.writing(whole):
            atomic.sync_folder(self.folder)
        return whole

    def experiments(self) -> list[int]:
        """The numbers of the complete experiments, in order."""
        return experiments(self.folder)

    def check_free(self, before: int, last: int) -> None:
        """ResultsError if `before` was not the number taken last, or one after it, up to `last`, is
        in use."""
        taken = [number for number in range(before + 1, last + 1) if bears(self.folder, number)]
        if self.counter() != before or taken:
            raise ResultsError(
                f"{self.folder}: experiment {taken[0] if taken else self.counter()} exists already",
                remedy=f"Write {taken[-1]} into {self.folder / _COUNTER}, and try again."
                if taken
                else "Another run has just ended here; try again.",
            )

    def reserve(self, before: int, last: int) -> None:
        """Take the numbers after `before`, which was taken last, up to `last`, for the processes
        that write parts of this run. ResultsError if one is in use."""
        self.check_free(before, last)
        self.take(last)

    def adopt(self, others: Sequence[Path]) -> list[dict[str, str]]:
        """Adopt the content of results folders on the same disk, to which no run writes any more:
        their experiments, the rows of these, which are returned, and finished SWEEP cells. The next
        call completes an interrupted one: moved experiments are gone from the others, and added
        ones are not added again.
        """
        rows = [row for other in others for row in csvfile.read(other / TABLE)]
        moved = set[str]()
        for other in others:
            for exp in experiments(other):
                moved.add(str(exp))
                whole = other / str(exp)
                source = packed.path_of(whole) if packed.is_packed(whole) else whole
                self._move_in(source, self.folder / source.name)
            for partial in sorted(other.glob(f"[0-9]*{_PARTIAL}")):
                self._move_in(partial, self.folder / partial.name)
        # Once: an import has thousands of experiments.
        with durable.writing(self.folder):
            atomic.sync_folder(self.folder)
        own_rows, own_cells = set[str](), set[str]()
        if {row["exp"].partition(".")[0] for row in rows} - moved:
            own_rows = {row["exp"] for row in csvfile.read(self.folder / TABLE)}
            own_cells = set(_lines(self.folder / _CELLS))
        new = [row for row in rows if row["exp"] not in own_rows]
        self.append(new)
        noted = (line for other in others for line in _lines(other / _CELLS))
        if cells := [line for line in noted if line not in own_cells]:
            durable.append(self.folder / _CELLS, "".join(f"{line}\n" for line in cells))
        return new

    def _move_in(self, source: Path, target: Path) -> None:
        if target.exists():
            raise ResultsError(
                f"{target} exists already, and is not overwritten",
                remedy=f"The new measurements are in {source}.",
            )
        with durable.writing(target):
            source.rename(target)

    # ---- SWEEP cells -----------------------------------------------------------------------

    def note_cell(
        self,
        script: str,
        cell: Mapping[str, str],
        experiments: Sequence[int],
        *,
        part_hash: str,
        run: str = "",
    ) -> None:
        """Record that a script's SWEEP cell was finished with these experiments, of one `run` ("":
        of several); `--resume` skips it. `part_hash` is the hash of the cell
        (language.plan.Part)."""
        entry = {
            "script": script,
            "cell": dict(cell),
            "experiments": list(experiments),
            "hash": part_hash,
            "run": run,
        }
        durable.append(self.folder / _CELLS, json.dumps(entry, sort_keys=True) + "\n")

    def note_try(self, script: str, cell: Mapping[str, str], *, part_hash: str) -> None:
        """Record that a cell begins, for `was_tried`; it need not wait for the disk."""
        entry = {"script": script, "cell": dict(cell), "tried": part_hash}
        line = json.dumps(entry, sort_keys=True) + "\n"
        durable.append(self.folder / _CELLS, line, lasting=False)

    def was_tried(self, part_hash: str) -> bool:
        """Whether a cell with this hash was ever begun, however it ended."""
        return part_hash in self._tried

    @cached_property
    def _tried(self) -> set[str]:
        entries = jsontext.lines(_lines(self.folder / _CELLS))
        return {str(entry["tried"]) for entry in entries if "tried" in entry}

    def finished_cell(self, part_hash: str) -> FinishedCell | None:
        """The experiments with which a cell with this hash was last finished, in any run; None if
        it never was."""
        found = self._cells.by_hash.get(part_hash)
        if found is None:
            return None
        faults = {exp: fault for exp in found.experiments if (fault := self._fault(exp, found.run))}
        return replace(found, faults=faults)

    def knows_other(self, script: str, cell: Mapping[str, str], hashes: Collection[str]) -> bool:
        """Whether a cell with these factors was ever finished with another hash than these."""
        known = self._cells.hashes.get(_cell_key(script, cell), set())
        return not known.issubset(hashes)

    @cached_property
    def _cells(self) -> _NotedCells:
        return _read_cells(self.folder / _CELLS)

    def _fault(self, exp: int, run: str) -> str:
        """The damage to a complete experiment since its measurement; "" if there is none."""
        if exp not in self._faults:
            self._faults[exp] = _fault(self.whole(exp), run)
        return self._faults[exp]

    # ---- tables and runs -------------------------------------------------------------------

    def fields(self) -> Fields | None:
        """The columns of exp.csv, from the folder's fields.txt; None without one."""
        return _own_fields(self.folder)

    def take_fields(self, wanted: Fields) -> Fields:
        """The columns of this folder for a run that wants these: see `fitting_fields`."""
        own = fitting_fields(self.folder, wanted)
        if own is wanted:
            self.write_fields(own)
        return own

    def write_fields(self, columns: Fields) -> None:
        """Keep the columns of exp.csv, for `netesto report`."""
        durable.replace(self.folder / FIELDS, str(columns))

    def append(self, rows: Sequence[Mapping[str, str]]) -> None:
        """Add the rows of experiments to exp.csv, all or none. `order` comes later: it takes as
        long as the table is."""
        self.check_place()
        self._look_at_table()
        self._note_order(rows)
        csvfile.append(self.folder / TABLE, rows)
        self._table = self._table_now()

    def order(self) -> None:
        """Have experiments in exp.csv in the order of their numbers, which is the script's,
        although parts side by side end in another one."""
        if self._is_ordered:
            return
        # A table with a damaged row stays as it is: the measurements count, not their order.
        with contextlib.suppress(ResultsError):
            ordered = csvfile.in_order(csvfile.read(self.folder / TABLE))
            self._look_at_table()
            csvfile.rewrite(self.folder / TABLE, list(ordered[0]), ordered)
            self._table = self._table_now()
        self._is_ordered = True

    def _note_order(self, rows: Sequence[Mapping[str, str]]) -> None:
        if self._last is None:
            self._last = 0
            self._note_order(csvfile.salvage(self.folder / TABLE))
        numbers = [self._last, *csvfile.by_experiment(rows)]
        self._is_ordered = self._is_ordered and numbers == sorted(numbers)
        self._last = max(numbers)

    def without_rows(self) -> list[int]:
        """Complete experiments without a row in exp.csv."""
        rows = csvfile.by_experiment(csvfile.read(self.folder / TABLE))
        return [exp for exp in self.experiments() if exp not in rows]

    def rewrite(self, fields: Fields, rows: Sequence[Mapping[str, str]]) -> None:
        """Rebuild exp.csv from the rows of all experiments."""
        whole = [{name: row.get(name, "") for name in fields.names} for row in rows]
        csvfile.rewrite(self.folder / TABLE, fields.names, whole)
        self._table = self._table_now()

    def write_run(self, record: runs.RunRecord) -> Path:
        """Write or update a run's record; return its path."""
        self.check_place()
        return runs.write(self.folder, record)


def _inode(path: Path) -> int | None:
    """None if there is nothing."""
    try:
        return path.lstat().st_ino
    except OSError:
        return None


def counter(folder: Path) -> int:
    """The number that was taken last in a results folder; 0 if none was, or without a folder.

    If the file is missing it is the highest number of an experiment.
    """
    path = folder / _COUNTER
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return max(_numbers(folder), default=0)
    except NotADirectoryError:
        return 0
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: cannot be read: {error}") from error
    if not text.isdecimal() or len(text) > len(str(LARGEST_EXPERIMENT)):
        raise ResultsError(
            f"{path}: {text[:40]!r} is not the number of an experiment",
            remedy="Write the number of the folder's last experiment into it.",
        )
    return int(text)


def bears(folder: Path, number: int) -> bool:
    """Whether a results folder has an experiment of that number, complete or partial."""
    names = (f"{number}{suffix}" for suffix in ("", _PARTIAL, packed.SUFFIX))
    return any((folder / name).exists() for name in names)


def _own_fields(folder: Path) -> Fields | None:
    path = folder / FIELDS
    return fields.load(path) if path.is_file() else None


def fitting_fields(folder: Path, wanted: Fields) -> Fields:
    """The columns of a results folder for a run that wants these: the same, and possibly more.

    ResultsError if exp.csv was begun with other columns; it names them.
    """
    table, own = folder / TABLE, _own_fields(folder)
    if csvfile.read_header(table) is None:
        return wanted
    if own is None:
        csvfile.check_header(table, wanted.names)
        return wanted
    csvfile.check_header(table, own.names)
    _check_fields(folder, own, wanted)
    return own


def _check_fields(folder: Path, own: Fields, wanted: Fields) -> None:
    missing = [field for field in wanted.added if field not in own.columns]
    is_same = own.columns[: len(wanted.own)] == wanted.own
    if is_same and not missing:
        return
    remedy = "or choose another results folder with --out."
    if is_same:
        names = ", ".join(field.name for field in missing)
        lines = " and ".join(f"`{field.name}:{field.operation}`" for field in missing)
        raise ResultsError(
            f"{folder / TABLE} was begun without a column {names}",
            remedy=f"Add {lines} to {folder / FIELDS}, and run `netesto report"
            f" {folder}`: the column is then empty for what was measured before; {remedy}",
        )
    raise ResultsError(
        f"{folder / TABLE} was begun with other columns than those of {wanted.source};"
        f" {fields.difference(own, wanted)}",
        remedy=f"`netesto report {folder} --fields {wanted.source}` rebuilds it with"
        f" these; `--fields {folder / FIELDS}` runs the script with those; {remedy}",
    )


def _fault(folder: Path, run: str) -> str:
    if not folder.is_dir() and not packed.is_packed(folder):
        return "is missing"
    try:
        known = manifest.read(folder / manifest.NAME)
        if run and known.run != run:
            return f"is another one, of run {known.run}"
        with packed.opened(folder) as inside:
            found = integrity.check(inside, known)
    except ResultsError as error:
        return f"is damaged ({error.message})"
    return f"is damaged ({folder}/{found[0]})" if found else ""


def is_experiment(folder: Path) -> bool:
    """Whether a folder is that of one experiment, whose 0/ and 1/ are not experiments."""
    return (folder / manifest.NAME).is_file() or (folder / DERIVED).is_file()


def _cell_key(script: str, cell: object) -> str:
    return json.dumps([script, cell], sort_keys=True)


def _lines(path: Path) -> list[str]:
    """The lines of a file; none if there is no file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror}") from error


def _read_cells(path: Path) -> _NotedCells:
    by_hash: dict[str, FinishedCell] = {}
    hashes = defaultdict[str, set[str]](set)
    for entry in _entries(path):
        part_hash, run = (str(entry.get(key, "")) for key in ("hash", "run"))
        hashes[_cell_key(entry["script"], entry["cell"])].add(part_hash)
        if part_hash:
            by_hash[part_hash] = FinishedCell(tuple(entry["experiments"]), run=run)
    return _NotedCells(by_hash, hashes)


def factors(folder: Path) -> dict[int, Mapping[str, str]]:
    """The factors of the SWEEP cell of each experiment in a finished cell."""
    found: dict[int, Mapping[str, str]] = {}
    for entry in _entries(folder / _CELLS):
        cell = {str(key): str(value) for key, value in entry["cell"].items()}
        found |= dict.fromkeys(entry["experiments"], cell)
    return found


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """The finished cells in these lines; an invalid or truncated line is ignored."""
    for entry in jsontext.lines(_lines(path)):
        match entry:
            case {"cell": dict(), "script": str(), "experiments": list(experiments)}:
                if all(type(exp) is int for exp in experiments):
                    yield entry


def experiments(folder: Path) -> list[int]:
    """The numbers of the complete experiments in a results folder, in order; some may be packed."""
    try:
        names = {
            path.name.removesuffix(packed.SUFFIX)
            for path in folder.iterdir()
            if (path.is_file() if path.suffix == packed.SUFFIX else path.is_dir())
        }
    except OSError as error:
        raise ResultsError(f"{folder}: cannot be read: {error.strerror}") from error
    return sorted(int(name) for name in names if name.isdecimal() and name == str(int(name)))


def _numbers(folder: Path) -> list[int]:
    """The numbers of all experiments in a folder, complete or partial."""
    if not folder.is_dir():
        return []
    partial = (path.name for path in folder.iterdir() if path.name.endswith(_PARTIAL))
    names = (name.removesuffix(_PARTIAL) for name in partial)
    return [*experiments(folder), *(int(name) for name in names if name.isdecimal())]


def _hold(path: Path) -> int:
    """An exclusive lock on `path`, as a descriptor to close."""
    try:
        return durable.lock(path)
    except BlockingIOError:
        raise ResultsError(
            f"{path.parent}: another run is writing to this folder: {life.holder(path)}",
            remedy="Wait for it to end, or choose another folder with --out.",
        ) from None
