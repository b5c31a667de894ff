"""The load of cores in the JSON of sysstat's mpstat."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from netesto.errors import OutputError
from netesto.files import jsontext
from netesto.imports import documents
from netesto.measured import CPU_STATES
from netesto.results.imported import FIRST_DROPPED, LAST_DROPPED, Core, cores_of

# In the format of the locale: 15:04:05, 03:04:05 PM, 15.04.05.
_CLOCK = re.compile(r"(?:.*[T ])?(\d{1,2})[:.](\d\d)[:.](\d\d)(?:\s*([AaPp])\.?[Mm]\b)?")


@dataclass(frozen=True, slots=True)
class CpuInterval:
    """One interval: seconds since the first one ended, and the fields of each core by its name."""

    after_s: float
    cores: dict[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class CpuLoad:
    """A file: the name and kernel of the host, and the samples."""

    host: str
    kernel: str
    samples: tuple[CpuInterval, ...]

    @property
    def counted(self) -> Sequence[CpuInterval]:
        """The samples that count."""
        return self.samples[FIRST_DROPPED:-LAST_DROPPED]

    def cores(self) -> tuple[Core, ...]:
        """The sums over the samples that count."""
        return cores_of(sample.cores for sample in self.counted)


def read(data: bytes) -> CpuLoad:
    """The load in a file. OutputError if it is not complete."""
    try:
        value = jsontext.parse(data, finite=True)
    except ValueError as error:
        raise OutputError(f"not complete JSON: {error}") from None
    host = documents.at(value, "sysstat", "hosts", 0)
    statistics = documents.at(host, "statistics")
    if not isinstance(statistics, list):
        raise OutputError("no sysstat.hosts[].statistics[]")
    first: float | None = None
    samples = []
    for place, entry in enumerate(statistics):
        loads = documents.at(entry, "cpu-load")
        if not isinstance(loads, list):
            # Other statistics may be between those of CPUs.
            continue
        clock = _clock_s(documents.at(entry, "timestamp"))
        first = clock if first is None else first
        after_s = float(place) if clock is None or first is None else (clock - first) % 86400
        samples.append(CpuInterval(after_s, dict(_core(load) for load in loads)))
    return CpuLoad(
        host=documents.words(host, "nodename"),
        kernel=documents.words(host, "release"),
        samples=tuple(samples),
    )


def _core(load: object) -> tuple[str, tuple[float, ...]]:
    cpu = documents.at(load, "cpu")
    if not isinstance(cpu, str | int) or not isinstance(load, dict):
        raise OutputError("a cpu-load without cpu")
    values = []
    for name in CPU_STATES:
        # Older versions have fewer fields.
        value = load.get(name, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OutputError(f"{name} of CPU {cpu} is not a number")
        if not 0 <= value < 1000:
            raise OutputError(f"{name} of CPU {cpu} is impossible")
        values.append(float(value))
    return str(cpu)[:20], tuple(values)


def _clock_s(value: object) -> float | None:
    match = _CLOCK.match(value) if isinstance(value, str) else None
    if match is None:
        return None
    hours, minutes, seconds = map(int, match.groups()[:3])
    if match[4] is not None:
        hours = hours % 12 + (12 if match[4] in "Pp" else 0)
    return float(hours * 3600 + minutes * 60 + seconds)
