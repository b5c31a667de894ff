"""How long agents have seen data unchanged that nobody has fetched: STATE/ages.json.

Dates do not tell it, because somebody may set the system's time. A run ages from when an agent
first sees it as it is, by a clock that nobody sets. It does not age where no agent can know how
long that was: over a reboot.
"""

import contextlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from netesto import atomic, jsontext, proc

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """A run whose latest file has the date `written_ns`, as it was seen `at_s` after the `boot`."""

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


def grown(path: Path, runs: Mapping[str, Seen]) -> dict[str, float]:
    """The age of each run in seconds, now that it is seen so; the record at `path` has it then."""
    before = _read(path)
    seen = {run: each.after(before.get(run)) for run, each in runs.items()}
    if seen or before:
        try:
            atomic.replace(path, json.dumps({run: asdict(each) for run, each in seen.items()}))
        except OSError as error:
            log.warning("ages not kept", extra={"reason": error.strerror})
    return {run: each.age_s for run, each in seen.items()}


def _read(path: Path) -> dict[str, Seen]:
    """The record; of another version, or damaged, it is as if there were none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found = jsontext.read(path)
        return {
            run: Seen(int(it["written_ns"]), str(it["boot"]), float(it["at_s"]), float(it["age_s"]))
            for run, it in found.items()
        }
    return {}
