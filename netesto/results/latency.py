"""Latency before, under and after load, from a train of echo requests. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from netesto.measured import PingSample
from netesto.results import numbers

# Fewer replies than this have no typical value: the first one may wait for neighbour discovery.
FEWEST = 3

# draft-ietf-ippm-responsiveness, "Calculating Responsiveness": the largest 5 % are excluded.
TRIMMED = 0.95


@dataclass(frozen=True, slots=True)
class Latency:
    """Round-trip times in µs: before flows began, while they ran, after all had ended; and the
    number of requests without a reply although a later one had one."""

    idle: tuple[float, ...]
    load: tuple[float, ...]
    after: tuple[float, ...]
    lost: int | None

    @property
    def idle_us(self) -> float | None:
        return _typical(self.idle)

    @property
    def mean_us(self) -> float | None:
        return numbers.mean(self.load)

    @property
    def after_us(self) -> float | None:
        return _typical(self.after)

    def quantile_us(self, share: float) -> float | None:
        """The smallest of the RTTs under load that this share of them does not exceed."""
        if not self.load:
            return None
        return sorted(self.load)[max(0, math.ceil(share * len(self.load)) - 1)]

    @property
    def per_minute(self) -> float | None:
        """Round trips a minute: 60 s divided by the trimmed mean of the RTTs under load."""
        if len(self.load) < FEWEST:
            return None
        kept = sorted(self.load)[: max(1, math.floor(TRIMMED * len(self.load)))]
        mean_us = statistics.fmean(kept)
        return 60e6 / mean_us if mean_us > 0 else None


def split(
    pings: Sequence[PingSample],
    *,
    load: tuple[float, float],
    busy: tuple[float, float] | None,
) -> Latency:
    """Assign requests by the time at which they were sent: `load` is when flows of the group ran,
    `busy` when any flow of the experiment ran, possibly on the same path."""
    each = [(ping.time_s - ping.rtt_ms / 1000, ping.rtt_ms * 1000) for ping in pings]
    # The replies of idle ones also came before the load.
    idle = [ping.rtt_ms * 1000 for ping in pings if busy is not None and ping.time_s < busy[0]]
    return Latency(
        idle=tuple(idle),
        load=tuple(rtt_us for sent_s, rtt_us in each if load[0] <= sent_s <= load[1]),
        after=tuple(rtt_us for sent_s, rtt_us in each if busy is not None and sent_s > busy[1]),
        lost=_lost_count([ping.number for ping in pings]),
    )


def _typical(rtts_us: tuple[float, ...]) -> float | None:
    return statistics.median(rtts_us) if len(rtts_us) >= FEWEST else None


def _lost_count(numbers_: list[int]) -> int | None:
    """The numbers count from 1; 0 is unknown."""
    return max(numbers_) - len({*numbers_}) if numbers_ and min(numbers_) > 0 else None
