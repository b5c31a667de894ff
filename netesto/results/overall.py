"""Formulas over all groups of an experiment, or over one. Pure.

An unknown value is None or the empty text, never 0. Groups whose flows all failed have no
measurements.
"""

import math
from collections.abc import Iterable, Sequence

from netesto.results import formulas, numbers, severity
from netesto.results.formulas import Counting, MeasuredGroup, Rate

# By how much a sum of rates may differ from the transferred data per second without a warning.
RATE_TOLERANCE = 0.02
# From here on flows did not share a capacity, and their rates have no index of fairness.
APART = 0.10


def rate(group: MeasuredGroup, get: Rate) -> float | None:
    """A rate of all flows: their data divided by the time from the first start to the last end. If
    a time is unknown: the sum of their rates, each over its own time."""
    added = numbers.total(map(get, group.results))
    mean = mean_rate([group], get)
    return added if added is None or mean is None else mean


def mean_rate(groups: Iterable[MeasuredGroup], get: Rate) -> float | None:
    """The data of all flows of the groups divided by the time from the first start to the last end;
    None if a rate or a time is unknown. Seconds that `omit` leaves out count with the flow's rate:
    other flows ran meanwhile."""
    amounts, begins_s, ends_s = [], [], []
    for group in groups:
        for flow, times_s in zip(group.good, group.measured_s, strict=True):
            rate = None if flow.result is None else get(flow.result)
            if times_s is None or rate is None:
                return None
            begin_s = max(flow.started_s or 0.0, times_s[0] - group.request.omit_s)
            begins_s.append(begin_s)
            ends_s.append(times_s[1])
            amounts.append(rate * (times_s[1] - begin_s))
    span_s = max(ends_s, default=0.0) - min(begins_s, default=0.0)
    return math.fsum(amounts) / span_s if span_s > 0 else None


def is_other(added: float, mean: float | None, tolerance: float = RATE_TOLERANCE) -> bool:
    """Whether a sum of rates is of flows that ran at other times than it takes for granted."""
    return mean is not None and abs(added - mean) > mean * tolerance


def fairness(group: MeasuredGroup) -> float | None:
    """Jain's index of the rates of a group's flows, if they ran at the same time and all are
    known."""
    is_known = len(group.rates) == len(group.results)
    return numbers.fairness(group.rates) if is_known and not _are_apart([group]) else None


def fairness_of_all(groups: Sequence[MeasuredGroup]) -> str:
    """Jain's index over all flows of all groups, 3 decimals.

    Not a mean of the groups' indexes: two groups of one flow each are perfectly fair in
    themselves. Empty if the groups ran different tests, or not at the same time: then their rates
    are not shares of one capacity; if that is so within a group; and if all flows but one failed.
    """
    rates = [rate for group in groups for rate in group.rates]
    asked = [group.request for group in groups if group.rates]
    kinds = {(each.test, each.delay_s, each.duration_s) for each in asked}
    is_alone = len(rates) == 1 < sum(len(group.evidence.instances) for group in groups)
    is_alone = is_alone or len(rates) < sum(len(group.results) for group in groups)
    if len(kinds) > 1 or is_alone or _are_apart(groups) or any(_are_apart([g]) for g in groups):
        return ""
    index = numbers.fairness(rates)
    return "" if index is None else numbers.fixed(index, 3)


def _are_apart(groups: Sequence[MeasuredGroup]) -> bool:
    """Whether flows ran at different times: then they do not share a capacity."""
    added = math.fsum(rate for group in groups for rate in group.rates)
    return is_other(added, mean_rate(groups, formulas.goodput_mbit_per_s), APART)


def latency_tail(groups: Iterable[MeasuredGroup]) -> str:
    """The minimum over the groups."""
    return numbers.short(numbers.least(each.latency_tail_percent for each in groups), 3)


def warnings(groups: Iterable[MeasuredGroup]) -> str:
    """How many there are about the groups and their experiment; "" without any."""
    count = len(_warnings(groups))
    return str(count) if count else ""


def severity_of_worst(groups: Iterable[MeasuredGroup]) -> str:
    """ "" without a warning."""
    found = _warnings(groups)
    return severity.severity(found[0]).value if found else ""


def first_warning(groups: Iterable[MeasuredGroup]) -> str:
    """The first of the worst ones."""
    return next(iter(_warnings(groups)), "")


def _warnings(groups: Iterable[MeasuredGroup]) -> list[str]:
    return severity.ranked(text for group in groups for text in group.warnings)


def lost_percent(groups: Iterable[MeasuredGroup]) -> str:
    """100·Σlost / Σsent."""
    pairs = ((each.lost, each.sent) for group in groups for each in group.datagrams)
    return _percent(pairs, decimals=4)


def retransmitted_segments_percent(groups: Iterable[MeasuredGroup]) -> str:
    """100·Σretransmitted / Σsent segments with data, over the groups where both are known."""
    return _percent(((each.retransmitted, each.data_segments) for each in groups), decimals=3)


def retransmitted_packets_percent(groups: Iterable[MeasuredGroup]) -> str:
    """The classic retransPkts%: 100·Σretransmitted / Σpackets of the interface in the direction of
    the data, over the groups where both are known; "" if the packets of a group are not its own."""
    known = [each for each in groups if None not in (each.retransmitted, each.packets)]
    if any(each.packets_fault != "" for each in known):
        return ""
    return _percent(((each.retransmitted, each.packets) for each in known), decimals=2)


def _percent(parts: Iterable[tuple[float | None, float | None]], *, decimals: int) -> str:
    """100·Σpart / Σwhole of the pairs of part and whole that are known; "" if there is none."""
    known = [(part, whole) for part, whole in parts if part is not None and whole is not None]
    total = math.fsum(whole for _, whole in known)
    part = math.fsum(part for part, _ in known)
    return numbers.fixed(100 * part / total, decimals) if total > 0 else ""


def counted_once(each: Iterable[Counting]) -> int | None:
    """The sum of the increases of counters; an increase that several groups saw counts once."""
    total, last_place, reached = None, "", 0
    for place, first, last in sorted(each):
        if place != last_place:
            last_place, reached = place, first
        total = (total or 0) + max(0, last - max(first, reached))
        reached = max(reached, last)
    return total


def packet_bytes(groups: Sequence[MeasuredGroup], way: str) -> float | None:
    """Bytes per packet of the clients' interfaces."""
    packets, size = (
        counted_once(each for group in groups for each in group.interface_counts(f"{way}_{what}"))
        for what in ("packets", "bytes")
    )
    return size / packets if size is not None and packets else None


def pings_lost(groups: Iterable[MeasuredGroup]) -> float | None:
    """Of each pair of hosts once."""
    pairs = {(g.request.client, g.request.server_address): g.pings.lost for g in groups if g.good}
    known = [lost for lost in pairs.values() if lost is not None]
    return sum(known) if known else None
