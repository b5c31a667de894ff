"""Which transfers the losses of a protected link affected: `netesto summary --by affected`. Pure.

A transfer is affected if the link lost a frame with data of it. Without a file of lost frames
(docs/data-formats.md) it is affected if its sender sent something again.
"""

import csv
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from netesto.errors import OutputError
from netesto.results.completions import CompletedTransfer, Times

PARTS = ("unaffected", "affected", "all")

# A flow lost its tail if the frame had one of so many last segments.
TAIL_SEGMENTS = 3

# Instants are written with nanoseconds, and numbers of this size are exact to a quarter of one µs.
_SLACK_S = 1e-6


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


@dataclass(frozen=True, slots=True)
class Parted:
    """The transfers of a case: their times, which of them were affected, the number of those whose
    tail was, and of those with retransmissions."""

    times: Times
    affected: NDArray[np.bool_]
    tail: int
    retransmitted: int

    @classmethod
    def of(
        cls, transfers: Sequence[CompletedTransfer], source: str, losses: Sequence[Losses] | None
    ) -> Self:
        """Of transfers from one address. `losses` are those of each protected link; None: no
        file has them."""
        times = np.array([each.us for each in transfers], np.float64)
        again = [each.retransmits > 0 for each in transfers]
        if losses is None:
            return cls(times, np.array(again, np.bool_), 0, sum(again))
        lost = [_lost(each, source, losses) for each in transfers]
        tails = sum(
            any(loss.is_tail_of(transfer.size) for loss in those)
            for transfer, those in zip(transfers, lost, strict=True)
        )
        return cls(times, np.array([bool(those) for those in lost], np.bool_), tails, sum(again))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(
            np.concatenate([each.times for each in parts]),
            np.concatenate([each.affected for each in parts]),
            sum(each.tail for each in parts),
            sum(each.retransmitted for each in parts),
        )

    def part(self, name: str) -> Times:
        """The times of one of PARTS."""
        masks = {"affected": self.affected, "unaffected": ~self.affected}
        return self.times[masks[name]] if name in masks else self.times


def _lost(transfer: CompletedTransfer, source: str, losses: Sequence[Losses]) -> list[LostFrame]:
    """The frames with data of a transfer that links lost: ports are used again, times are not."""
    end_s = transfer.start_s + transfer.us / 1e6 + _SLACK_S
    found: list[LostFrame] = []
    for link in losses:
        known = link.get((source, transfer.port), ())
        first = bisect_left(known, transfer.start_s - _SLACK_S, key=lambda loss: loss.time_s)
        for loss in known[first:]:
            if loss.time_s > end_s:
                break
            found.append(loss)
    return found


def counts(cases: Mapping[str, Parted]) -> list[tuple[str, ...]]:
    """What stands beside the tables: a row for each number, its name first."""
    return [
        ("affected", *(str(int(each.affected.sum())) for each in cases.values())),
        ("tail", *(str(each.tail) for each in cases.values())),
        ("retransmitted", *(str(each.retransmitted) for each in cases.values())),
    ]
