"""packets.json: the analysis of an experiment's captures, for its page."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import cattrs

from netesto.errors import ResultsError
from netesto.files import jsontext, typed
from netesto.packets.found import Capture
from netesto.results import durable
from netesto.results.evidence import CaptureEvidence

NAME = "packets.json"

# The maximum of flows on a page: those with the most data are kept.
FLOWS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRecord:
    """A capture: its host, its file, its start on the experiment's time axis, and the number of
    flows that are not in `capture`."""

    host: str
    file: str
    begin_s: float
    capture: Capture
    further: int = 0


def write(folder: Path, captures: tuple[CaptureEvidence, ...], started_s: float) -> None:
    """Write the file of an experiment that began at `started_s`; remove it if nothing was
    captured."""
    if not captures:
        (folder / NAME).unlink(missing_ok=True)
        return
    records = [_record(each, started_s) for each in captures]
    text = json.dumps([asdict(each) for each in records], separators=(",", ":"))
    # A line for each flow, so that the file can be read and compared.
    durable.replace(folder / NAME, text.replace('{"number":', '\n{"number":') + "\n", lasting=False)


def _record(capture: CaptureEvidence, started_s: float) -> CaptureRecord:
    found = capture.capture
    largest = sorted(found.flows, key=lambda flow: -flow.bytes)[:FLOWS_MAX]
    kept = {id(flow) for flow in largest}
    return CaptureRecord(
        host=capture.host,
        file=capture.file,
        begin_s=(found.start_s or 0.0) - capture.ahead_s - started_s,
        capture=replace(found, flows=tuple(flow for flow in found.flows if id(flow) in kept)),
        further=len(found.flows) - len(largest),
    )


def read(folder: Path) -> list[CaptureRecord]:
    """Read the file of an experiment; nothing if there is none. ResultsError if it is not such a
    file."""
    path = folder / NAME
    try:
        value = jsontext.read(path)
        return typed.converter(forbid_extra_keys=False).structure(value, list[CaptureRecord])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, cattrs.BaseValidationError) as error:
        raise ResultsError(f"{path}: not readable as captures: {error}") from error
