"""packets.json: what the captures of an experiment show, for its page."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import cattrs

from netesto import typed
from netesto.errors import ResultsError
from netesto.packets.found import Capture
from netesto.results import durable
from netesto.results.evidence import CaptureEvidence

NAME = "packets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRecord:
    """A capture: its host, its file, and where its begin is on the experiment's time axis."""

    host: str
    file: str
    begin_s: float
    found: Capture


def write(folder: Path, captures: tuple[CaptureEvidence, ...], started_s: float) -> None:
    """Write the file of an experiment that began at `started_s`; remove it if nothing was
    captured."""
    if not captures:
        (folder / NAME).unlink(missing_ok=True)
        return
    records = [
        CaptureRecord(
            host=each.host,
            file=each.file,
            begin_s=(each.found.start_s or 0.0) - each.ahead_s - started_s,
            found=each.found,
        )
        for each in captures
    ]
    text = json.dumps([asdict(each) for each in records], separators=(",", ":"))
    # A line for each flow, so that the file can be read and compared.
    durable.replace(folder / NAME, text.replace('{"number":', '\n{"number":') + "\n", lasting=False)


def read(folder: Path) -> list[CaptureRecord]:
    """Read the file of an experiment; nothing if there is none. ResultsError if it is no such
    file."""
    path = folder / NAME
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return typed.converter(forbid_extra_keys=False).structure(value, list[CaptureRecord])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError, cattrs.BaseValidationError) as error:
        raise ResultsError(f"{path}: not readable as captures: {error}") from error
