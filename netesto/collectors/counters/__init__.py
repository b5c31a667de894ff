"""Counters of a host, read once a second while flows run. Each module here has one `COUNTERS`, a
`measured.Counters`; other distributions add theirs by entry points of `netesto.collectors`.

A line of the file NAME.jsonl is a JSON object: `time_s` (UTC) and `counters` by name.
"""

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netesto.collectors import clock
from netesto.collectors.base import Recording, Warn, count, entries
from netesto.collectors.clock import Clock
from netesto.measured import Counters, CounterSamples
from netesto.model import SAME_CLOCK, ClockOffset
from netesto.schema import registered
from netesto.schema.registered import Registered


class CountersRecording(Recording):
    """Samples counters."""

    def __init__(self, counters: Counters, path: Path, clock: Clock, warn: Warn) -> None:
        super().__init__(path, clock, warn)
        self._counters = counters

    def look(self) -> bytes:
        name = f"the counters {self._counters.name} are missing"
        line = ""
        with self._warning(name):
            # Others may have written it; the sampler has more to do.
            try:
                found = dict(self._counters.read())
                line = json.dumps({"time_s": round(self._clock.now(), 6), "counters": found}) + "\n"
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001
                self._warn(f"{name}: {type(error).__name__}: {error}")
        return line.encode()

    def last(self) -> bytes:
        return self.look()


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> CounterSamples:
    """The samples in a file; a truncated last line is ignored.

    `offset` is that of the file's clock from the one that the samples use. OutputError names an
    invalid line.
    """
    found = [*entries(path, _entry, what="counters")]
    times = tuple(offset.controllers(instant_s) for instant_s, _ in found)
    names = dict.fromkeys(name for _, sample in found for name in sample)
    return CounterSamples(
        times, {name: tuple(sample.get(name) for _, sample in found) for name in names}
    )


def _entry(line: Mapping[str, Any]) -> tuple[float, dict[str, int]]:
    counters = {str(name): count(each) for name, each in line["counters"].items()}
    return clock.instant(line["time_s"]), counters


def _own() -> Iterator[Counters]:
    for each in pkgutil.iter_modules(__path__):
        yield importlib.import_module(f"{__name__}.{each.name}").COUNTERS


# In the order of their graphs.
COUNTERS = Registered(registered.COLLECTORS, Counters, _own())
