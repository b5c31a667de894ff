"""The load of every core since the previous sample, from the kernel's accounts (proc_stat(5)).

A line of the file is a JSON object: `time_s` (UTC) and `busy_percent`, one number for each core.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from netesto.collectors import clock
from netesto.collectors.base import Sampler, Warn
from netesto.collectors.clock import Clock
from netesto.errors import OutputError
from netesto.model import CpuSample

# The states of a core; guest time is part of user and nice.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
_IDLE = ("idle", "iowait")

INTERVAL_S = 1.0

# Seconds in each state since boot, by name.
CoreTimes = Mapping[str, float]


class CpuCollector(Sampler):
    """Writes the busy share of every core since the previous sample."""

    def __init__(self, path: Path, clock: Clock, *, on_warning: Warn | None = None) -> None:
        super().__init__(path, clock, INTERVAL_S, on_warning=on_warning)
        self._before: list[CoreTimes] = []

    async def _look(self) -> bytes:
        # psutil.cpu_percent has one previous sample for the whole process.
        after: list[CoreTimes] = [core._asdict() for core in psutil.cpu_times(percpu=True)]
        time_s = self._clock.now()
        if len(after) != len(self._before):
            self._before = after
            return b""
        shares = busy_percent(self._before, after)
        if shares is None:
            return b""
        self._before = after
        return format_sample(CpuSample(time_s, shares)).encode()


def busy_percent(
    before: Sequence[CoreTimes], after: Sequence[CoreTimes]
) -> tuple[float, ...] | None:
    """The busy share of each core between two readings, in percent.

    None if a core has no account of that time: the kernel counts in ticks of some milliseconds.
    """
    shares = []
    for old, new in zip(before, after, strict=True):
        busy, idle = _passed(old, new, _BUSY), _passed(old, new, _IDLE)
        if busy + idle <= 0:
            return None
        shares.append(100 * (busy / (busy + idle)))
    return tuple(shares)


def _passed(before: CoreTimes, after: CoreTimes, states: Sequence[str]) -> float:
    # iowait may decrease (proc_stat(5)).
    return sum(max(0.0, after.get(state, 0.0) - before.get(state, 0.0)) for state in states)


def _percent(value: float) -> float:
    if not 0 <= value <= 100:
        raise ValueError(f"{value} %")
    return float(value)


def format_sample(sample: CpuSample) -> str:
    """A line of the file."""
    shares = [round(share, 2) for share in sample.busy_percent]
    return json.dumps({"time_s": round(sample.time_s, 6), "busy_percent": shares}) + "\n"


def read(path: Path, *, ahead_s: float = 0.0) -> list[CpuSample]:
    """The samples in a collector's file; a truncated last line is ignored.

    The file's clock was `ahead_s` ahead of the one that the samples use. OutputError names an
    invalid line.
    """
    samples = []
    whole = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            entry = json.loads(line)
            time_s = clock.instant(entry["time_s"]) - ahead_s
            samples.append(CpuSample(time_s, tuple(map(_percent, entry["busy_percent"]))))
        except (ValueError, OverflowError, KeyError, TypeError, RecursionError) as error:
            raise OutputError(f"{path}:{number}: not a sample of CPU load: {error}") from None
    return samples
