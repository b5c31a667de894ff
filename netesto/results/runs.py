"""runs/<UTC>.json: one run of a script, whatever its outcome."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import cattrs

from netesto.files import jsontext, typed
from netesto.results import durable
from netesto.results.certainty import CellEnd
from netesto.results.manifest import SettingRecord

# Unknown keys are additions of a newer netesto.
_CONVERTER = typed.converter(forbid_extra_keys=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run: its script, its settings, and its outcome.

    `name` is also the file's (see `name_at`). `script` is the text as written, `sources` the text
    of every file it read besides, by path. `jobs` is how many guests ran its parts side by side.
    `wall_s` is the real time it took; in `simulated_time` (of a run that was inside a guest as a
    whole) `started` and `ended` are not real, and `speed_up` is simulated seconds for each second
    of `wall_s`. `settings` are those that were made on each host, and the commands that ran there,
    behind the last experiment: they are in no manifest. `left` are the differences that it left on
    hosts. `certainty` is how the cells of a SWEEP with `until=` ended. `exit_status`, `ended` and
    what follows from it are None while it runs, and stay so if it is killed.
    """

    name: str
    argv: tuple[str, ...]
    script_path: str
    script: str
    seed: int | None
    started: str
    sources: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    ground: str = ""
    jobs: int = 1
    simulated_time: bool = False
    wall_s: float | None = None
    speed_up: float | None = None
    experiments: tuple[int, ...] = ()
    failures: tuple[str, ...] = ()
    settings: Mapping[str, tuple[SettingRecord, ...]] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    certainty: tuple[CellEnd, ...] = ()
    ended: str | None = None
    exit_status: int | None = None


def name_at(time_s: float) -> str:
    """The name of a run that starts at UTC `time_s`: 2026-11-20T121500.250Z; sorts by time."""
    instant = datetime.fromtimestamp(time_s, UTC)
    return f"{instant:%Y-%m-%dT%H%M%S}.{instant.microsecond // 1000:03d}Z"


def utc(time_s: float) -> str:
    """An instant as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")


def write(folder: Path, record: RunRecord) -> Path:
    """Write the run into the results folder, or update it; return the file's path."""
    path = folder / "runs" / f"{record.name}.json"
    durable.make_folder(path.parent)
    found = _CONVERTER.unstructure(record)
    durable.replace(path, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return path


def read(folder: Path, name: str) -> RunRecord | None:
    """The record of a run in a results folder; None if there is none."""
    try:
        found = jsontext.read(folder / "runs" / f"{name}.json")
        return _CONVERTER.structure(found, RunRecord)
    except (OSError, *jsontext.INVALID, cattrs.BaseValidationError):
        return None


def names(folder: Path) -> list[str]:
    """The names of the runs in a results folder."""
    return [path.stem for path in (folder / "runs").glob("*.json")]


def records(folder: Path) -> dict[str, RunRecord]:
    """The records of the runs in a results folder that can be read, by their names, in the order of
    time."""
    found = {name: read(folder, name) for name in sorted(names(folder))}
    return {name: record for name, record in found.items() if record is not None}


def differences(found: Mapping[str, RunRecord]) -> dict[str, tuple[str, ...]]:
    """The differences that runs left on hosts, by the names of the runs."""
    return {name: record.left for name, record in found.items() if record.left}


def certainty(found: Mapping[str, RunRecord]) -> list[CellEnd]:
    """How the cells of SWEEPs with `until=` ended, each in the last run of its script."""
    last = {each.script_path: each.certainty for each in found.values() if each.certainty}
    return [end for ends in last.values() for end in ends]
