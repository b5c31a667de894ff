"""How far a host's system time was ahead of its agent's clock: `clock.json`."""

from pathlib import Path

from netesto.errors import OutputError
from netesto.files import jsontext
from netesto.model import LATEST_S

# A host writes it only if the two differ, or somebody set the system's time meanwhile.
NAME = "clock.json"


def read(path: Path) -> float | None:
    """Seconds, which were the same throughout; None if somebody set the system's time. OSError;
    OutputError if the file does not say it."""
    try:
        ahead_s = jsontext.read(path, finite=True)["system_ahead_s"]
        if ahead_s is None:
            return None
        if abs(seconds := float(ahead_s)) < LATEST_S:
            return seconds
    except jsontext.INVALID as error:
        raise OutputError(f"{path}: not the state of a clock: {error}") from None
    raise OutputError(f"{path}: {ahead_s} s is not the offset of a clock")
