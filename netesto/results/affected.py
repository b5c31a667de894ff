"""Which transfers the losses of a protected link affected: `netesto summary --by affected`. Pure.

A transfer is affected if the link lost a frame with data of it. Without a file of lost frames
(docs/data-formats.md) it is affected if its sender sent something again.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from netesto.results.completions import CompletedTransfer, Times
from netesto.results.lostframes import Losses, LostFrame

PARTS = ("unaffected", "affected", "all")

# Instants are written with nanoseconds, and numbers of this size are exact to a quarter of one µs.
_SLACK_S = 1e-6


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
        lost = [_lost_frames(each, source, losses) for each in transfers]
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


def _lost_frames(
    transfer: CompletedTransfer, source: str, losses: Sequence[Losses]
) -> list[LostFrame]:
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
