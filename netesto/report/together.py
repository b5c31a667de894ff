"""The rates, shares and fairness of flows while they ran together, and the time to fairness.
Pure."""

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from netesto.report import curves
from netesto.results import numbers
from netesto.results.evidence import OK
from netesto.results.series import FlowSeries, Series

# Rates are compared as means over windows of this length: shorter ones show the sawtooth of a
# congestion control and not its share.
WINDOW_S = 1.0

# Shares are called fair from this index on (two flows: 61 % and 39 %), once it has held for as long
# as HELD_S.
FAIR_INDEX = 0.95
HELD_S = 2.0

# The minimum time for a statement about shares.
SHORTEST_S = 1.0

# Starts and ends closer together than this share of the experiment are one.
SAME_SHARE = 0.01

# A graph cannot show more periods than this.
MAX_PERIODS = 16


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which the same `flows` (indexes in the series) ran. Seconds since the start."""

    start_s: float
    end_s: float
    flows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RateShare:
    """What a flow, or the flows of a group, got in a period: the sum, its share of all rates,
    and the slowest, the median and the fastest flow."""

    label: str
    flows: tuple[int, ...]
    rate_mbit_per_s: float
    share: float
    slowest_mbit_per_s: float
    median_mbit_per_s: float
    fastest_mbit_per_s: float

    @property
    def is_of_several(self) -> bool:
        return len(self.flows) > 1


@dataclass(frozen=True, slots=True)
class Together:
    """The longest time in which the greatest number of flows ran together.

    `fairness` is Jain's index of the flows' mean rates (R. Jain, D. Chiu, W. Hawe, 1984), None
    where they did different things. `fair_after_s` is how long after the start of the period the
    index of one-second means reached FAIR_INDEX and held it for HELD_S; None if it never did.
    `can_tell_when`: False where the period is too short for that.
    """

    period: Period
    shares: tuple[RateShare, ...]
    fairness: float | None
    fair_after_s: float | None
    can_tell_when: bool


def periods(series: Series) -> list[Period]:
    """The times between starts and ends of flows, in order. Flows that failed do not count."""
    known = [(i, flow) for i, flow in enumerate(series.flows) if _ran(flow)]
    clusters = _clusters(
        (time_s for _, flow in known for time_s in _times(flow)),
        within_s=SAME_SHARE * series.duration_s,
    )
    found = []
    for (_, start_s), (end_s, _) in itertools.pairwise(clusters):
        middle_s = (start_s + end_s) / 2
        running = tuple(i for i, flow in known if _times(flow)[0] <= middle_s <= _times(flow)[1])
        found.append(Period(start_s, end_s, running))
    return found


def find(series: Series, labels: Sequence[tuple[str, tuple[int, ...]]]) -> Together | None:
    """The rates of flows while most of them ran together, for each of `labels` (a name, its flows).

    None if no two flows ran together for long enough, or the rate of one of them is not known.
    """
    overlaps = [each for each in periods(series) if len(each.flows) > 1]
    if not overlaps:
        return None
    period = max(overlaps, key=lambda each: (len(each.flows), each.end_s - each.start_s))
    flows = [series.flows[i] for i in period.flows]
    length_s = period.end_s - period.start_s
    if length_s < SHORTEST_S or not all(flow.goodput.time_s for flow in flows):
        return None
    points = [(flow.goodput.time_s, flow.goodput.mbit_per_s) for flow in flows]
    rates = {
        i: float(curves.sliding_means(line, [period.start_s], length_s)[0])
        for i, line in zip(period.flows, points, strict=True)
    }
    comparable = len({flow.test for flow in flows}) == 1
    whole = sum(rates.values())
    can_tell_when = comparable and length_s >= WINDOW_S + HELD_S
    return Together(
        period=period,
        shares=tuple(_shares(labels, rates, whole)),
        fairness=numbers.fairness(list(rates.values())) if comparable else None,
        fair_after_s=_fair_after_s(period, points) if can_tell_when else None,
        can_tell_when=can_tell_when,
    )


def _shares(
    labels: Sequence[tuple[str, tuple[int, ...]]], rates: dict[int, float], whole: float
) -> Iterable[RateShare]:
    for label, members in labels:
        present = tuple(i for i in members if i in rates)
        if present:
            own = [rates[i] for i in present]
            yield RateShare(
                label=label,
                flows=present,
                rate_mbit_per_s=sum(own),
                share=sum(own) / whole if whole > 0 else 0.0,
                slowest_mbit_per_s=min(own),
                median_mbit_per_s=statistics.median(own),
                fastest_mbit_per_s=max(own),
            )


def _fair_after_s(period: Period, points: Sequence[curves.Points]) -> float | None:
    step_s = 0.1
    last_s = period.end_s - WINDOW_S
    starts = np.arange(period.start_s, last_s + step_s / 2, step_s)
    means = np.stack([curves.sliding_means(line, starts.tolist(), WINDOW_S) for line in points])
    squares = len(points) * (means**2).sum(axis=0)
    index = np.divide(means.sum(axis=0) ** 2, squares, out=np.zeros(len(starts)), where=squares > 0)
    held = round(HELD_S / step_s)
    fair = index >= FAIR_INDEX
    for place in range(len(fair) - held + 1):
        if fair[place : place + held].all():
            return float(place * step_s)
    return None


def _ran(flow: FlowSeries) -> bool:
    return flow.status == OK and flow.start_s is not None and flow.end_s is not None


def _times(flow: FlowSeries) -> tuple[float, float]:
    return flow.start_s or 0.0, flow.end_s or 0.0


def _clusters(instants: Iterable[float], *, within_s: float) -> list[tuple[float, float]]:
    """Clusters of instants within this many seconds, each as its first and its last instant: flows
    that start together have all started at the last, and all still run at the first of their
    ends."""
    found: list[tuple[float, float]] = []
    for instant in sorted(instants):
        if found and instant - found[-1][0] <= within_s:
            found[-1] = (found[-1][0], instant)
        else:
            found.append((instant, instant))
    return found
