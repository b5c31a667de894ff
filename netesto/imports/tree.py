"""Assigns the files of a folder to runs: in a harness's tree, or in a folder of clients' outputs.

No link is followed, and nothing outside of the folder is read.
"""

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from netesto.errors import UsageError
from netesto.files import jsontext
from netesto.imports import ini
from netesto.results import manifest
from netesto.results.columns import column
from netesto.results.imported import CpuFile, FileRemark, Form, Side

DEPTH_MAX = 32
FILES_MAX = 1_000_000
# Larger than the output of a day; what is read of it takes several times as much memory.
BYTES_MAX = 256 * 2**20
_JOB_BYTES_MAX = 2**20
# One of them suffices to know the request.
SIBLINGS_MAX = 3

_DATE = re.compile(r"\d{4}-\d\d-\d\d:\d\d:\d\d")
_CLIENT = re.compile(r"src-cmd:(?P<host>.+):(?P<number>\d{1,9})")
_CPU = re.compile(r"mpstat-(?P<side>sender|receiver):(?P<host>.+):(?P<number>\d{1,9})\.json")
_COMMAND = re.compile(r"(?:dst|(?:pre|post)-(?:src|dst))-cmd(?::.+)?")
_SHARED = frozenset({"pacing.out", "jobmeta.json"})
_META = re.compile(r"(?P<host>.+)-meta\.json")
# Results that were imported once are in results folders, too.
_EXPERIMENT = frozenset({manifest.NAME, "raw"})
# A host's name becomes the name of a folder, and two of them part of a file's, which Linux allows
# 255 bytes.
HOST_BYTES_MAX = 100
_NO_HOST = frozenset({".", ".."})


@dataclass(frozen=True, slots=True)
class File:
    """A file: where it is, and its path within what was imported."""

    path: Path
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class CpuSource:
    """An mpstat file of a run, or of none, and what its path says."""

    file: File
    cpu_file: CpuFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files of a run. `beside` are kept, at the sender or the receiver. `commands` are the
    commands that job files have for its section, `siblings` outputs of other runs of that."""

    form: Form
    section: str
    host: str
    number: int
    date: str
    output: File
    columns: Mapping[str, str] = field(default_factory=dict)
    cpu: tuple[CpuSource, ...] = ()
    beside: tuple[tuple[Side, File], ...] = ()
    job: File | None = None
    meta: File | None = None
    commands: tuple[str, ...] = ()
    siblings: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The result: runs, mpstat files and metadata without a run, findings, and ignored files."""

    runs: tuple[RunFiles, ...]
    loose: tuple[CpuSource, ...] = ()
    metadata: tuple[File, ...] = ()
    findings: tuple[FileRemark, ...] = ()
    ignored: tuple[str, ...] = ()


def walk(root: Path, *, without: Path | None = None) -> tuple[list[File], list[FileRemark]]:
    """The regular files below a folder, or the file itself, by their paths; and what was left out.

    UsageError if there are too many. `without` is a folder to skip.
    """
    root = root.resolve()
    if root.is_file():
        return [File(root, printable_name(root.name), root.stat().st_size)], []
    files: list[File] = []
    findings: list[FileRemark] = []
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            name = printable_name(folder.relative_to(root).as_posix())
            findings.append(FileRemark(name, "unlisted", f"cannot be read: {error.strerror}"))
            continue
        if depth and {entry.name for entry in entries} >= _EXPERIMENT:
            continue
        for entry in entries:
            path = folder / entry.name
            name = printable_name(path.relative_to(root).as_posix())
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                if path == without:
                    continue
                if depth >= DEPTH_MAX:
                    findings.append(
                        FileRemark(name, "unlisted", f"more than {DEPTH_MAX} folders deep")
                    )
                    continue
                pending.append((path, depth + 1))
            elif stat.S_ISREG(found.st_mode):
                files.append(File(path, name, found.st_size))
            else:
                findings.append(
                    FileRemark(name, "unlisted", "not a regular file; links are not followed")
                )
        if len(files) > FILES_MAX:
            raise UsageError(
                f"{root}: more than {FILES_MAX} files", remedy="Import a folder below it."
            )
    return sorted(files, key=lambda file: file.name), findings


def printable_name(name: str) -> str:
    """The name or path of a file as a line of UTF-8, which it need not be: other bytes, and what a
    terminal obeys, are written as their numbers."""
    text = os.fsencode(name).decode(errors="backslashreplace")
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def is_harness(files: Iterable[File]) -> bool:
    """Whether there is an output of a client as the harness names it."""
    return any(_client(file) is not None for file in files)


def _client(file: File) -> re.Match[str] | None:
    match = _CLIENT.fullmatch(file.path.name)
    return match if match is not None and _is_host(match["host"]) else None


def _is_host(name: str) -> bool:
    is_short = len(os.fsencode(name)) <= HOST_BYTES_MAX
    return name not in _NO_HOST and name.isprintable() and is_short


@dataclass(frozen=True, slots=True)
class _Placed:
    """A harness's file, and the parts of its path; `date` is "" if there is none."""

    file: File
    section: str
    date: str


def _placed(file: File) -> _Placed:
    """SECTION is the folder of a file, and DATE the nearest one above it that is a date."""
    *above, section = file.path.parent.parts
    if _DATE.fullmatch(section) and above:
        return _Placed(file, printable_name(above[-1]), section)
    date = next((part for part in reversed(above) if _DATE.fullmatch(part)), "")
    return _Placed(file, printable_name(section), date)


# By name and section: the files beside the outputs of clients.
_Others: TypeAlias = Mapping[tuple[str, str], Sequence[_Placed]]
# The src-cmd of sections in job files, with their folders.
_Commands: TypeAlias = Mapping[str, Sequence[tuple[Path, str]]]


def harness(files: Sequence[File]) -> Tree:
    """The runs of a harness's tree."""
    clients: list[tuple[_Placed, re.Match[str]]] = []
    cpu: list[tuple[_Placed, re.Match[str]]] = []
    others: dict[tuple[str, str], list[_Placed]] = defaultdict(list)
    jobs: list[File] = []
    findings = []
    ignored = []
    for file in files:
        name = file.path.name
        if (match := _client(file)) is not None:
            clients.append((_placed(file), match))
        elif (match := _CPU.fullmatch(name)) is not None:
            cpu.append((_placed(file), match))
        elif _COMMAND.fullmatch(name) or name in _SHARED or _META.fullmatch(name):
            where = _placed(file)
            others[name, where.section].append(where)
        elif name.endswith(".ini"):
            jobs.append(file)
        elif name.startswith("src-cmd:"):
            reason = "the output of a client, but its name has no HOST:N that can be used"
            findings.append(FileRemark(file.name, "unlisted", reason))
        else:
            ignored.append(file.name)
    # By number: 2 before 10.
    clients.sort(
        key=lambda each: (each[0].file.path.parts[:-1], each[1]["host"], int(each[1]["number"]))
    )
    by_key: dict[tuple[str, str, int], list[_Placed]] = defaultdict(list)
    by_cell: dict[tuple[str, str], list[File]] = defaultdict(list)
    for client, match in clients:
        by_key[client.section, match["host"], int(match["number"])].append(client)
        by_cell[client.section, match["host"]].append(client.file)
    owned: dict[Path, list[CpuSource]] = defaultdict(list)
    loose: list[CpuSource] = []
    for where, match in cpu:
        told = CpuFile(
            side="sender" if match["side"] == "sender" else "receiver",
            section=where.section,
            host=match["host"],
            number=int(match["number"]),
            date=where.date,
            file=where.file.name,
        )
        owner = _nearest(where, by_key[told.section, told.host, told.number])
        owners = loose if owner is None else owned[owner.file.path]
        owners.append(CpuSource(where.file, told))
    commands, unread = _sections(jobs)
    runs = tuple(
        _run(
            client,
            match,
            others,
            commands,
            cpu=tuple(owned[client.file.path]),
            siblings=tuple(by_cell[client.section, match["host"]][:SIBLINGS_MAX]),
        )
        for client, match in clients
    )
    kept = {file.path for run in runs for _, file in run.beside}
    each_other = (where.file for placed in others.values() for where in placed)
    left = [file for file in each_other if file.path not in kept]
    return Tree(
        runs=runs,
        loose=tuple(loose),
        metadata=tuple(file for file in left if file.path.name.endswith("meta.json")),
        findings=(*findings, *unread),
        ignored=tuple(sorted([*ignored, *(file.name for file in left)])),
    )


def _nearest(mine: _Placed, candidates: Iterable[_Placed]) -> _Placed | None:
    """The candidate of the same date, else one without a date; of several the one whose path has
    the most folders in common. None if the dates of all differ."""
    fitting = [each for each in candidates if not mine.date or each.date in {"", mine.date}]
    above = set(mine.file.path.parts[:-1])
    return max(
        fitting,
        key=lambda each: (
            each.date == mine.date,
            len(above.intersection(each.file.path.parts[:-1])),
        ),
        default=None,
    )


def _run(
    client: _Placed,
    match: re.Match[str],
    others: _Others,
    commands: _Commands,
    *,
    cpu: tuple[CpuSource, ...],
    siblings: tuple[File, ...],
) -> RunFiles:
    """The run of a client's output, with the nearest of the files beside it."""
    host, number = match["host"], match["number"]
    # A command that ran once for all has no number, or no host either.
    ends = (f":{host}:{number}", f":{host}", "")
    named: list[tuple[Side, str]] = [
        *(("receiver", f"dst-cmd{each}") for each in ends),
        *(("sender", f"{when}-src-cmd{each}") for when in ("pre", "post") for each in ends),
        *(("receiver", f"{when}-dst-cmd{each}") for when in ("pre", "post") for each in ends),
        ("sender", "pacing.out"),
        ("sender", "jobmeta.json"),
        ("receiver", f"{host}-meta.json"),
    ]
    found = {
        name: other.file
        for _, name in named
        if (other := _nearest(client, others.get((name, client.section), ()))) is not None
    }
    return RunFiles(
        form="harness",
        section=client.section,
        host=host,
        number=int(number),
        date=client.date,
        output=client.file,
        cpu=cpu,
        beside=tuple((side, found[name]) for side, name in named if name in found),
        job=found.get("jobmeta.json"),
        meta=found.get(f"{host}-meta.json"),
        commands=_commands_of(client, commands.get(client.section, ())),
        siblings=siblings,
    )


def _commands_of(client: _Placed, known: Sequence[tuple[Path, str]]) -> tuple[str, ...]:
    """The commands of a section in the job files that are nearest: in a folder above the run, else
    anywhere."""
    for folder in client.file.path.parents:
        if here := tuple(command for there, command in known if there == folder):
            return here
    return tuple(command for _, command in known)


def _sections(
    jobs: Iterable[File],
) -> tuple[dict[str, list[tuple[Path, str]]], list[FileRemark]]:
    """The src-cmd of each section of job files, and a finding for each that cannot be read."""
    found: dict[str, list[tuple[Path, str]]] = defaultdict(list)
    unread: list[FileRemark] = []
    for job in jobs:
        try:
            sections = ini.read(job.path)
        except UsageError as error:
            unread.append(FileRemark(job.name, "unlisted", f"not a job file: {error.message}"))
            continue
        for section in sections:
            if command := section.keys.get("src-cmd"):
                found[section.name].append((job.path.parent, command))
    return found, unread


def small_json(file: File) -> Mapping[str, object]:
    """The object in a small file; empty if there is none."""
    if file.size > _JOB_BYTES_MAX:
        return {}
    try:
        value = jsontext.parse(file.path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


# ---- folders of outputs --------------------------------------------------------------------------

_WORD = re.compile(r"\{([^{}]*)\}")


def pattern(text: str) -> re.Pattern[str]:
    """The expression of `--name`. UsageError if it is not one."""
    parts = []
    names: set[str] = set()
    for place_, part in enumerate(_WORD.split(text)):
        if not place_ % 2:
            if "{" in part or "}" in part:
                raise UsageError(f"--name {text}: a brace without its other half", remedy=_EXAMPLE)
            parts.append(re.escape(part))
        elif part == "*":
            parts.append(".*?")
        elif not (part.isidentifier() and part.isascii()) or part in names:
            raise UsageError(f"--name {text}: invalid or repeated name {{{part}}}", remedy=_EXAMPLE)
        elif (known := column(part)).is_measured or known.by == "netesto":
            raise UsageError(
                f"--name {text}: column {part} is measured, or a number that netesto gives",
                remedy="Choose another name; {*} takes any text.",
            )
        else:
            names.add(part)
            parts.append(rf"(?P<{part}>{'[0-9]+' if part in NUMBERS else '.*'}?)")
    return re.compile("".join(parts))


_EXAMPLE = "Example: --name 'iperf_mtu{mtu}_{zerocopy}_P{parallel}_{*}.json'"
# Columns that hold numbers: only digits fit.
NUMBERS = frozenset({"mtu", "parallel", "rep", "dur", "omit", "mss", "bitrate", "pacing", "P"})


def listed(files: Iterable[File], text: str, form_of: Callable[[File], Form | None]) -> Tree:
    """The runs whose files match a pattern; others are findings. UsageError if it is not one."""
    expression = pattern(text)
    runs: list[RunFiles] = []
    findings = []
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    for file in files:
        match = expression.fullmatch(printable_name(file.path.name))
        if match is None:
            findings.append(FileRemark(file.name, "unlisted", "does not match the pattern"))
            continue
        columns = dict(match.groupdict())
        counts[tuple(columns.values())] += 1
        number = int(columns.get("rep") or counts[tuple(columns.values())])
        runs.append(
            RunFiles(form=form_of(file) or "iperf3", section=text, host="", number=number, date="",
                output=file, columns=columns)
        )  # fmt: skip
    return Tree(runs=tuple(runs), findings=tuple(findings))


def unmatched(text: str, findings: Iterable[FileRemark]) -> UsageError:
    """That no file has a name of the pattern."""
    first = next(iter(findings), None)
    example = f"; there is, for example, {first.file}" if first else ""
    return UsageError(f"--name {text}: no file has such a name{example}", remedy=_EXAMPLE)


def recognised(files: Iterable[tuple[File, Form | None]]) -> Tree:
    """The runs in files whose content has a known form."""
    runs = []
    ignored = []
    for file, form in files:
        if form is None:
            ignored.append(file.name)
            continue
        stem = file.path.name.removesuffix(".gz").rpartition(".")[0] or file.path.name
        runs.append(
            RunFiles(
                form=form, section=printable_name(stem), host="", number=1, date="", output=file
            )
        )
    return Tree(runs=tuple(runs), ignored=tuple(ignored))
