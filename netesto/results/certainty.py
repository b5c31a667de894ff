"""How each cell of a SWEEP with `until=` ended: how often it was repeated, and the interval of the
mean of each column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from netesto.results import numbers
from netesto.units import counted

Ending: TypeAlias = Literal["certain", "constant", "bound", "unfinished"]

# Cells that get a sentence; the record of the run has all.
_SHOWN = 20

_WORDS: Mapping[Ending, str] = {
    "certain": "certain after {}",
    "constant": "nothing random in this cell: the same values in {}",
    "bound": "NOT certain after {}, the bound",
    "unfinished": "not certain yet after {}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMean:
    """The mean of a column over the repetitions of a cell. `experiment` says which of them in the
    cell, "" if it has one; `count` values are known. `half_percent` is half the width of the
    interval in percent of the mean, None without one; `share_percent` is what was requested."""

    experiment: str
    column: str
    share_percent: float
    count: int
    mean: float | None = None
    half_percent: float | None = None

    def __str__(self) -> str:
        name = f"{self.column} of {self.experiment}" if self.experiment else self.column
        if self.mean is None:
            return f"{name} has no value"
        mean = f"{name} {numbers.figure(repr(self.mean))}"
        if self.mean == 0:
            return f"{mean}, of which there is no share"
        if self.half_percent is None:
            return mean
        return f"{mean} ± {numbers.figure(repr(self.half_percent), 2)} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnd:
    """The end of a cell: after how many repetitions, of which some `failed` and do not count.
    `sweep` is the number of its SWEEP among those of the script that have `until=`."""

    sweep: int
    cell: Mapping[str, str]
    ended: Ending
    repetitions: int
    failed: int
    means: tuple[ColumnMean, ...]

    def __str__(self) -> str:
        name = " ".join(f"{key}={value}" for key, value in self.cell.items())
        after = _WORDS[self.ended].format(counted(self.repetitions, "repetition"))
        failed = f", {self.failed} of them not ok" if self.failed else ""
        return f"{name}: {after}{failed}: {', '.join(map(str, self.means))}"


def sentences(ends: Sequence[CellEnd]) -> list[str]:
    """The ends of cells in words: of each if there are few, else how many are certain, and the
    others."""
    if len(ends) <= _SHOWN:
        return [str(end) for end in ends]
    others = [end for end in ends if end.ended != "certain"]
    counts = [end.repetitions for end in ends if end.ended == "certain"]
    after = f" after {min(counts)} to {max(counts)} repetitions" if counts else ""
    left = len(others) - _SHOWN
    return [
        f"{len(counts)} of {len(ends)} cells are certain{after}",
        *map(str, others[:_SHOWN]),
        *([f"… and {left} more that are not, in runs/*.json"] if left > 0 else []),
    ]
