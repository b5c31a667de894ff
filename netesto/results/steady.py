"""Throughput in the steady state of flows: the table of `netesto summary --as steady`. Pure."""

import statistics
from collections.abc import Mapping, Sequence

from netesto.measured import GoodputInterval
from netesto.results import csvfile

# The number of intervals at the start and the end of a flow that do not count.
SKIP = 5
_GIGA = 1e9
# The rest at the end of a flow is not an interval.
_REST_S = 0.5


def of_flow(intervals: Sequence[GoodputInterval], skip: int) -> float | None:
    """The mean of intervals of 1 s without the first and the last `skip`; None if none is left."""
    seconds = _seconds(intervals)
    kept = seconds[skip : len(seconds) - skip]
    return statistics.fmean(kept) if kept else None


def _seconds(intervals: Sequence[GoodputInterval]) -> list[float]:
    """The rates of intervals of 1 s; shorter ones are merged."""
    if not intervals:
        return []
    length_s = statistics.median(each.end_s - each.start_s for each in intervals)
    count = max(1, round(1 / length_s))
    rates = []
    for place in range(0, len(intervals), count):
        parts = intervals[place : place + count]
        span_s = sum(each.end_s - each.start_s for each in parts)
        if span_s >= _REST_S:
            bits = sum(each.rate_bps * (each.end_s - each.start_s) for each in parts)
            rates.append(parts[0].rate_bps if len(parts) == 1 else bits / span_s)
    return rates


def to_csv(cases: Mapping[str, Sequence[float]]) -> str:
    """The mean over the flows of each case as CSV: "" for a case without any."""
    rows = (
        (case, f"{statistics.fmean(rates):.0f}" if rates else "") for case, rates in cases.items()
    )
    return csvfile.text([("case", "throughput_bps")], rows)


def rows(cases: Mapping[str, Sequence[float]]) -> list[dict[str, str]]:
    """A row for each case, for people: in Gbit/s, or in Mbit/s if all are below 1 Gbit/s."""
    means = {case: statistics.fmean(rates) if rates else None for case, rates in cases.items()}
    is_fast = any(mean is not None and mean >= _GIGA for mean in means.values())
    unit, bps = ("Gbps", _GIGA) if is_fast else ("Mbps", 1e6)
    return [
        {
            "case": case,
            f"avg_throughput({unit})": "" if mean is None else f"{mean / bps:.2f}",
        }
        for case, mean in means.items()
    ]
