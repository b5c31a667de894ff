"""How busy every core was between two looks, from the kernel's own accounts.

A line of the file is a JSON object: `time_s` (UTC) and `busy_percent`, one number for each core.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from netesto.collectors.base import Sampler, Warn
from netesto.collectors.clock import Clock
from netesto.errors import OutputError
from netesto.model import CpuSample

# What a core does all day (proc_stat(5)); guest time is left out, it is part of user and nice.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
_IDLE = ("idle", "iowait")

# Seconds in each state since boot, by name.
CoreTimes = Mapping[str, float]


class CpuCollector(Sampler):
    """Writes the busy share of every core since the look before; the first look only begins."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        interval_s: float = 1.0,
        *,
        on_warning: Warn | None = None,
    ) -> None:
        super().__init__(path, clock, interval_s, on_warning=on_warning)
        self._before: list[CoreTimes] = []

    async def _look(self) -> bytes:
        # psutil.cpu_percent would mix up two collectors: it keeps its last look for the process.
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
    """Busy share of each core between two looks, in percent.

    None where the account of some core did not move: the kernel books in ticks of some ms.
    """
    shares = []
    for old, new in zip(before, after, strict=True):
        busy, idle = _passed(old, new, _BUSY), _passed(old, new, _IDLE)
        if busy + idle <= 0:
            return None
        shares.append(100 * (busy / (busy + idle)))
    return tuple(shares)


def _passed(before: CoreTimes, after: CoreTimes, states: Sequence[str]) -> float:
    # Linux lets iowait run backwards now and then (proc_stat(5)); that is no time passed.
    return sum(max(0.0, after.get(state, 0.0) - before.get(state, 0.0)) for state in states)


def format_sample(sample: CpuSample) -> str:
    """A line of the file."""
    shares = [round(share, 2) for share in sample.busy_percent]
    return json.dumps({"time_s": round(sample.time_s, 6), "busy_percent": shares}) + "\n"


def read(path: Path) -> list[CpuSample]:
    """The samples in a collector's file; a last line cut short is left out.

    OutputError names a line that is not ours.
    """
    samples = []
    whole = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            entry = json.loads(line)
            sample = CpuSample(float(entry["time_s"]), tuple(map(float, entry["busy_percent"])))
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{path}:{number}: not a sample of CPU load: {error}") from None
        samples.append(sample)
    return samples
