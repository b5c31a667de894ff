"""What an import stores for each run beside its raw files (import.json): the input of summaries."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import cattrs

from netesto.errors import ResultsError
from netesto.files import jsontext, typed
from netesto.results import csvfile, durable, store

# In the folder of each imported experiment.
NAME = "import.json"
# In the results folder: data that belong to no run.
LOOSE = "unmatched.json"
# Its files.
LOOSE_FILES = "unmatched"
FINDINGS = "findings.csv"

# Samples of mpstat while a flow starts and ends.
FIRST_DROPPED, LAST_DROPPED = 4, 1

Form: TypeAlias = Literal["harness", "iperf3", "flent", "netperf"]
Side: TypeAlias = Literal["sender", "receiver"]

T = TypeVar("T")

_CONVERTER = typed.converter(forbid_extra_keys=False)


@dataclass(frozen=True, slots=True, order=True)
class FileRemark:
    """A remark on an imported file."""

    file: str
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Core:
    """The samples of one core in an mpstat file, without those at its start and end that do not
    count: how many, and the sum of each of CPU_STATES, in percent. `rests` are the rounding errors
    of the sums, so that the mean of several files is rounded once."""

    cpu: str
    samples: int
    sums: tuple[float, ...]
    rests: tuple[float, ...] = ()


def cores_of(samples: Iterable[Mapping[str, tuple[float, ...]]]) -> tuple[Core, ...]:
    """The sums over samples, each the states of cores by their names, in the order met."""
    by_core: dict[str, list[tuple[float, ...]]] = {}
    for sample in samples:
        for cpu, states in sample.items():
            by_core.setdefault(cpu, []).append(states)
    found = []
    for cpu, rows in by_core.items():
        columns = list(zip(*rows, strict=True))
        sums = tuple(map(math.fsum, columns))
        rests = (math.fsum((*values, -total)) for values, total in zip(columns, sums, strict=True))
        found.append(Core(cpu, len(rows), sums, tuple(rests)))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFile:
    """An mpstat file; `date` is "" where its path has none. One that is damaged, or was not read,
    has no cores."""

    side: Side
    section: str
    host: str
    number: int
    date: str
    file: str
    sha256: str = ""
    cores: tuple[Core, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """Its identity, independent of its place."""
        return (self.side, self.section, self.host, self.number, self.date, self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A run: its origin, and the data for its summary.

    `section` is that of a harness's tree, or the pattern of file names; `file` the path of the
    client's output in what was imported, `output` that in the experiment's folder. `reason` is why
    the run failed; "" if it did not. `columns` are values that no output contains. `cpu` are its
    mpstat files, by their paths in the experiment.
    """

    exp: int
    form: Form
    section: str
    host: str
    number: int
    date: str
    file: str
    output: str
    sha256: str
    reason: str = ""
    sent_bps: float | None = None
    retransmits: int | None = None
    congestion_control: str = ""
    mss_bytes: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    cpu: Mapping[str, CpuFile] = field(default_factory=dict)
    findings: tuple[FileRemark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """Data that belong to no run: mpstat files, and findings."""

    cpu: tuple[CpuFile, ...] = ()
    findings: tuple[FileRemark, ...] = ()


def write(folder: Path, value: ImportedRun | Loose) -> None:
    """Write import.json into an experiment's folder, or into a results folder the data that belong
    to no run."""
    text = json.dumps(_CONVERTER.unstructure(value), indent=1, ensure_ascii=False)
    name = NAME if isinstance(value, ImportedRun) else LOOSE
    durable.replace(folder / name, text + "\n", lasting=False)


def read(folder: Path) -> ImportedRun | None:
    """import.json of an experiment; None if it was not imported. ResultsError if it is damaged."""
    return _read(folder / NAME, ImportedRun)


def runs(folder: Path) -> list[ImportedRun]:
    """The imported runs of a results folder, in the order of their experiments."""
    found = (read(folder / str(exp)) for exp in store.experiments(folder))
    return [run for run in found if run is not None]


def read_loose(folder: Path) -> Loose:
    """The data that belong to no run in a results folder."""
    return _read(folder / LOOSE, Loose) or Loose()


def joined(runs: Sequence[ImportedRun], loose: Loose) -> tuple[list[ImportedRun], list[CpuFile]]:
    """The runs with the mpstat files that an import before or after theirs brought, and the files
    that belong to no run: it has another section, host or number, or both have a date."""
    found = {run.exp: dict(run.cpu) for run in runs}
    by_key: dict[tuple[str, str, int], list[ImportedRun]] = {}
    for run in runs:
        by_key.setdefault((run.section, run.host, run.number), []).append(run)
    orphans = []
    for file in loose.cpu:
        owners = by_key.get((file.section, file.host, file.number), [])
        fitting = [run for run in owners if not file.date or not run.date or run.date == file.date]
        if fitting:
            owner = max(fitting, key=lambda run: run.date == file.date)
            found[owner.exp][f"{LOOSE_FILES}/{file.sha256}"] = file
        else:
            orphans.append(file)
    return [replace(run, cpu=found[run.exp]) for run in runs], orphans


def write_findings(folder: Path, findings: Iterable[FileRemark]) -> None:
    """Write findings.csv: each finding once, by file."""
    rows = [
        {"file": each.file, "kind": each.kind, "detail": " ".join(each.detail.split())}
        for each in sorted(set(findings))
    ]
    csvfile.rewrite(folder / FINDINGS, ("file", "kind", "detail"), rows)


def read_findings(folder: Path) -> list[FileRemark]:
    """The findings of a results folder; none if nothing was imported into it."""
    rows = csvfile.read(folder / FINDINGS)
    return [FileRemark(*(row.get(name, "") for name in ("file", "kind", "detail"))) for row in rows]


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return _CONVERTER.structure(jsontext.read(path), kind)
    except FileNotFoundError:
        return None
    except cattrs.BaseValidationError as error:
        raise ResultsError(f"{path}: damaged: {cattrs.transform_error(error)[0]}") from None
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read: {error}") from error
