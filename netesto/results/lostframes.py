"""The frames that a protected link lost, from its file `losses.TO.csv` (docs/data-formats.md)."""

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from netesto.errors import OutputError

# A flow lost its tail if the frame had one of so many last segments.
TAIL_SEGMENTS = 3


@dataclass(frozen=True, slots=True, order=True)
class LostFrame:
    """A lost frame with data: when, how much, and the number of its first byte, counted from the
    connection's SYN; 0 without one."""

    time_s: float
    payload: int
    tcp_seq: int

    def is_tail_of(self, size: int) -> bool:
        """Whether it was one of the last segments of a flow of so many bytes. Segments before the
        last one are equally large."""
        behind = size - (self.tcp_seq - 1 + self.payload)
        if self.tcp_seq == 0 or behind < 0:
            return False
        return math.ceil(behind / self.payload) < TAIL_SEGMENTS


Losses: TypeAlias = Mapping[tuple[str, int], Sequence[LostFrame]]
"""By address and port of the sender, in the order of time."""


def read_losses(path: Path) -> Losses:
    """The lost frames with data in `losses.TO.csv`. OSError; OutputError if it has none."""
    found: dict[tuple[str, int], list[LostFrame]] = defaultdict(list)
    for source, _, loss in _lost_frames(path):
        found[source].append(loss)
    return {key: sorted(losses) for key, losses in found.items()}


def read_lost_s(path: Path) -> Mapping[tuple[str, int], Sequence[float]]:
    """When those were lost, by address and port of either end. OSError, OutputError as
    `read_losses`."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for *ends, loss in _lost_frames(path):
        for end in ends:
            found[end].append(loss.time_s)
    return found


def _lost_frames(path: Path) -> Iterator[tuple[tuple[str, int], tuple[str, int], LostFrame]]:
    """Each with its source and its destination."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                payload = int(row["payload"] or 0)
                if not payload or not row["sport"]:
                    continue
                time_s = float(row["time_s"])
                if not math.isfinite(time_s):
                    raise ValueError("a time is not a number")
                source = row["source"], int(row["sport"])
                destination = row["destination"], int(row["dport"])
                yield source, destination, LostFrame(time_s, payload, int(row["tcp_seq"] or 0))
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise OutputError(f"{path}: no lost frames: {error}") from error
