"""The states of every core since the host booted, from the kernel's accounts (proc_stat(5)).

A line of the file is a JSON object: `time_s` (UTC) and `ticks`, for each core by number the ticks
in each state, as /proc/stat has them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from netesto.collectors import clock, hostfacts
from netesto.collectors.base import Recording, count, entries
from netesto.measured import CPU_STATES, CpuSample
from netesto.model import SAME_CLOCK, ClockOffset

# user nice system idle iowait irq softirq steal guest guest_nice
Ticks: TypeAlias = tuple[int, ...]

# The order of /proc/stat in that of mpstat.
_FIELDS = (0, 1, 2, 4, 5, 6, 7, 8, 9, 3)
_IDLE = (CPU_STATES.index("idle"), CPU_STATES.index("iowait"))

_STAT = Path("/proc/stat")


class CpuRecording(Recording):
    """Samples the accounts of every core."""

    def look(self) -> bytes:
        sample = ""
        with self._warning("samples of CPUs are missing"):
            sample = format_sample(self._clock.now(), _read())
        return sample.encode()


def idle_ticks() -> dict[int, int]:
    """The idle time of each core since boot."""
    return {core: ticks[_FIELDS[CPU_STATES.index("idle")]] for core, ticks in _read().items()}


def _read() -> dict[int, Ticks]:
    return parse(hostfacts.contents(_STAT))


def parse(text: str) -> dict[int, Ticks]:
    """The ticks of each core in the text of /proc/stat, by number."""
    cores = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            # Before Linux 2.6.33 there were fewer.
            cores[int(name[3:])] = tuple(map(int, fields[:10])) + (0,) * (10 - len(fields))
    return cores


def shares(before: Ticks, after: Ticks) -> tuple[float, ...] | None:
    """The share of each of CPU_STATES between two accounts of a core, in percent.

    As in mpstat, usr and nice do not include the time of guests. None if the core has no account of
    that time: the kernel counts in ticks of some milliseconds.
    """
    # iowait may decrease (proc_stat(5)).
    passed = [max(0, after[place] - before[place]) for place in _FIELDS]
    for state, guest in (("usr", "guest"), ("nice", "gnice")):
        place = CPU_STATES.index(state)
        passed[place] = max(0, passed[place] - passed[CPU_STATES.index(guest)])
    total = sum(passed)
    return tuple(100 * ticks / total for ticks in passed) if total else None


def format_sample(time_s: float, cores: Mapping[int, Ticks]) -> str:
    """A line of the file."""
    return json.dumps({"time_s": round(time_s, 6), "ticks": cores}, separators=(",", ":")) + "\n"


def read(path: Path, *, offset: ClockOffset = SAME_CLOCK) -> list[CpuSample]:
    """The samples in a collector's file; a truncated last line is ignored.

    `offset` is that of the file's clock from the one that the samples use. OutputError names an
    invalid line.
    """
    samples = []
    before: dict[int, Ticks] = {}
    for instant_s, after in entries(path, _entry, what="a sample of CPU load"):
        found = _sample(offset.controllers(instant_s), before, after)
        if found is not None:
            samples.append(found)
        if found is not None or before.keys() != after.keys():
            before = after
    return samples


def _entry(line: Mapping[str, Any]) -> tuple[float, dict[int, Ticks]]:
    cores = {int(core): tuple(map(count, fields)) for core, fields in line["ticks"].items()}
    if any(len(fields) != len(CPU_STATES) for fields in cores.values()):
        raise ValueError(f"a core does not have {len(CPU_STATES)} states")
    return clock.instant(line["time_s"]), cores


def _sample(
    time_s: float, before: Mapping[int, Ticks], after: Mapping[int, Ticks]
) -> CpuSample | None:
    """The difference between two samples; None if a core came or went, or has no account of this
    time."""
    if not before or before.keys() != after.keys():
        return None
    states = [shares(before[core], after[core]) for core in after]
    known = [each for each in states if each is not None]
    if len(known) < len(states):
        return None
    busy = (100 - sum(each[place] for place in _IDLE) for each in known)
    return CpuSample(time_s, tuple(max(0.0, each) for each in busy), tuple(known), tuple(after))
