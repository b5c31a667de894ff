"""The CPU quota of the control groups that this process is in, and how often it was throttled.

See cgroups(7): cpu.max of version 2, cpu.cfs_quota_us of version 1, and cpu.stat of both.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from netesto.units import counted

ROOT = Path("/")

# Where version 1 of the controller may be mounted.
_VERSION_1 = ("sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu")


@dataclass(frozen=True, slots=True)
class Quota:
    """The least quota of a group and those above it, in CPUs; and since they exist, in how many of
    the `periods` of all of them they were `throttled`, and for how long."""

    cpus: float
    periods: int
    throttled: int
    throttled_s: float

    @classmethod
    def now(cls, root: Path = ROOT) -> Self | None:
        """Of this process; None without a quota."""
        groups = dict(_quotas(root))
        if not groups:
            return None
        counts = [_counts(folder) for folder in groups]
        return cls(
            cpus=min(groups.values()),
            periods=sum(each.get("nr_periods", 0) for each in counts),
            throttled=sum(each.get("nr_throttled", 0) for each in counts),
            throttled_s=sum(
                each.get("throttled_usec", 0) / 1e6 + each.get("throttled_time", 0) / 1e9
                for each in counts
            ),
        )

    def __str__(self) -> str:
        return f"{self.cpus:.3g} CPUs"


def are_mounted(root: Path = ROOT) -> bool:
    """Whether control groups are mounted here: otherwise a quota is unknown. In the network
    namespaces of a lab they are not."""
    folder = root / "sys/fs/cgroup"
    return folder.is_dir() and any(folder.iterdir())


def words(before: Quota | None, after: Quota | None) -> str:
    """What a quota has done meanwhile; "" without one that is less than all processors."""
    if after is None or after.cpus >= len(os.sched_getaffinity(0)):
        return ""
    said = f"its control group has a CPU quota of {after}"
    zero = before or Quota(0.0, 0, 0, 0.0)
    throttled = after.throttled - zero.throttled
    if throttled <= 0:
        return f"{said}; it was not throttled"
    return (
        f"{said}, which throttled it in {throttled} of"
        f" {counted(after.periods - zero.periods, 'period')}, for"
        f" {after.throttled_s - zero.throttled_s:.3g} s: it may have limited the flows"
    )


def _counts(folder: Path) -> dict[str, int]:
    """What the group in a folder counts."""
    lines = (line.split() for line in _text(folder / "cpu.stat").splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}


def _quotas(root: Path) -> Iterator[tuple[Path, float]]:
    """The folders of the groups of this process, with their quotas."""
    for top, own in _groups(root):
        folder = top / own.lstrip("/")
        # In a container, the path may be that outside of it.
        for each in (folder, *folder.parents) if folder.is_dir() else (top,):
            if not each.is_relative_to(top):
                break
            limit, _, period = _text(each / "cpu.max").partition(" ")
            limit = limit or _text(each / "cpu.cfs_quota_us")
            period = period or _text(each / "cpu.cfs_period_us")
            if limit.isdecimal() and period.isdecimal() and int(period):
                yield each, int(limit) / int(period)


def _groups(root: Path) -> Iterator[tuple[Path, str]]:
    """Where the controller of processors is mounted, and the group of this process there."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, own = (*line.split(":", 2), "", "")[:3]
        if number == "0":
            for top in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                yield root / top, own
        elif "cpu" in controllers.split(","):
            for top in _VERSION_1:
                yield root / top, own


def _text(path: Path) -> str:
    """The text of a file; "" if there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
