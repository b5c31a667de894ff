"""The queues on the paths of flows, one for each interface, from samples of its qdiscs. Pure."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from netesto.measured import CounterSamples, InstalledQdisc, LinkSamples

# A delay line: its backlog consists of packets in flight, and its drops are the loss of the link.
DELAY_LINE = "netem"

# The qdisc at which a policer drops; it has no queue.
POLICER = "clsact"

# The qdiscs with one rate for all.
SHAPERS = frozenset({"tbf", "cake", "netem"})

CLASSFUL_SHAPERS = frozenset({"htb", "hfsc", "cbq"})

Column = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The queue of an interface, `place` as `node/device`, over the whole experiment.

    `kind` are its qdiscs from the outermost on, before and after each replacement. `rate_bps` is
    the rate of its shaper, None if it has none or the rate changed; `delay_us` is the backlog
    divided by the rate of that moment. `drops` and `marks` count on when a qdisc is replaced, at
    the instants `replaced_s` of the first samples of the new ones. `marks` are None where no qdisc
    counts them. `overflow` is what its delay line dropped because it was full, at least; () if that
    is unknown: drops of a delay line include those of the queue, and its random losses.
    """

    place: str
    kind: str
    rate_bps: float | None
    time_s: tuple[float, ...]
    backlog_bytes: Column
    backlog_packets: Column
    drops: Column
    marks: Column
    delay_us: tuple[float | None, ...] = ()
    overflow: tuple[int, ...] = ()
    replaced_s: tuple[float, ...] = ()

    @property
    def is_shaped_by_classes(self) -> bool:
        """Whether a shaper holds packets back whose rates are those of its classes, and unknown."""
        return not CLASSFUL_SHAPERS.isdisjoint(self.kind.replace(",", "").split())

    def during(self, start_s: float, end_s: float, column: Sequence[float | None]) -> list[float]:
        """The known values of a column between two instants."""
        return [
            value
            for time_s, value in zip(self.time_s, column, strict=True)
            if value is not None and start_s <= time_s <= end_s
        ]

    def counted(self, start_s: float, end_s: float, column: Column) -> tuple[int, int] | None:
        """A counter at the last sample before an instant, and at the first one after another; None
        if its increase is unknown."""
        before = [at for at, time_s in enumerate(self.time_s) if time_s <= start_s]
        after = [at for at, time_s in enumerate(self.time_s) if time_s >= end_s]
        first = column[before[-1] if before else 0]
        last = column[after[0] if after else -1]
        return None if first is None or last is None else (first, last)


def gaps_s(time_s: Sequence[float]) -> list[float]:
    """Seconds between consecutive ticks. The first and the last sample are not ticks."""
    return [after - before for before, after in itertools.pairwise(time_s[1:-1])]


def of(node: str, samples: LinkSamples) -> list[Queue]:
    """The queues of a node."""
    devices = dict.fromkeys(qdisc.device for qdisc in samples.qdiscs)
    found = ((device, list(_moments(device, samples.qdiscs))) for device in devices)
    return [_queue(f"{node}/{device}", moments) for device, moments in found if moments]


@dataclass(frozen=True, slots=True)
class _Moment:
    """A sample of a queue. `levels` are its qdiscs, from the outermost on; of an interface without
    any, the delay line, which drops what it has no room for."""

    time_s: float
    levels: Sequence[InstalledQdisc]
    rate_bps: float | None
    backlog_bytes: int | None
    backlog_packets: int | None
    drops: int | None
    marks: int | None
    line_drops: int | None

    @property
    def delay_us(self) -> float | None:
        return (
            self.backlog_bytes * 8e6 / self.rate_bps
            if self.backlog_bytes is not None and self.rate_bps
            else None
        )

    def is_of_another(self, before: "_Moment") -> bool:
        """Whether a qdisc was replaced since the sample `before`; its rate may have changed."""
        identities, others = (
            [(qdisc.kind, qdisc.handle, qdisc.parent) for qdisc in each.levels]
            for each in (self, before)
        )
        is_less = _is_less(self.drops, before.drops) or _is_less(self.marks, before.marks)
        return is_less or identities != others


def _is_less(count: int | None, other: int | None) -> bool:
    return count is not None and other is not None and count < other


def _moments(device: str, qdiscs: Mapping[InstalledQdisc, CounterSamples]) -> Iterator[_Moment]:
    """The samples of the queue of an interface, in chronological order."""
    at: defaultdict[float, dict[InstalledQdisc, int]] = defaultdict(dict)
    for qdisc, counted in qdiscs.items():
        if qdisc.device == device:
            for place, time_s in enumerate(counted.time_s):
                at[time_s][qdisc] = place
    levels_of = functools.cache(_levels)
    policing = {
        qdisc
        for qdisc, counted in qdiscs.items()
        if qdisc.kind == POLICER
        and any(counted.at(place, "drops") for place in range(len(counted.time_s)))
    }
    for time_s, places in sorted(at.items(), key=itemgetter(0)):
        line = next((each for each in places if each.is_lossless), None)
        queued = levels_of(tuple(each for each in places if each.kind != POLICER))
        policers = [each for each in places if each in policing]
        if levels := queued or ([line] if line is not None else policers):
            counted, place = qdiscs[levels[0]], places[levels[0]]
            # A wire has the rate, and its queue below it.
            rates = (each.rate_bps for each in (levels[0], *places) if each.kind in SHAPERS)
            yield _Moment(
                time_s=time_s,
                levels=levels,
                rate_bps=next(filter(None, rates), None),
                # What is in a delay line is under way.
                backlog_bytes=counted.at(place, "backlog_bytes") if queued else None,
                backlog_packets=counted.at(place, "backlog_packets") if queued else None,
                drops=_sum(
                    [
                        qdiscs[each].at(places[each], "drops")
                        for each in dict.fromkeys((levels[0], *policers))
                    ]
                ),
                marks=_sum([qdiscs[each].at(places[each], "marks") for each in levels]),
                line_drops=None if line is None else qdiscs[line].at(places[line], "drops"),
            )


def _levels(installed: Sequence[InstalledQdisc]) -> list[InstalledQdisc]:
    """The outermost qdisc of an interface that is not a delay line, and all below it, whose drops
    and backlog it counts, too; empty if there is none."""
    roots = (qdisc for qdisc in installed if qdisc.parent == "root")
    found = [each for root in roots if (each := _without_delay_line(root, installed))][:1]
    for each in found:
        found += [child for child in _children(each, installed) if child not in found]
    return found


def _without_delay_line(
    qdisc: InstalledQdisc, installed: Sequence[InstalledQdisc]
) -> InstalledQdisc | None:
    """The outermost qdisc that is not a delay line; None if there is no other."""
    if qdisc.kind != DELAY_LINE:
        return qdisc
    below = (_without_delay_line(child, installed) for child in _children(qdisc, installed))
    return next(filter(None, below), None)


def _children(
    qdisc: InstalledQdisc, installed: Sequence[InstalledQdisc]
) -> Iterator[InstalledQdisc]:
    for each in installed:
        if each.parent.partition(":")[0] == qdisc.handle.rstrip(":") and each != qdisc:
            yield each


def _queue(place: str, moments: Sequence[_Moment]) -> Queue:
    replaced = [after.is_of_another(before) for before, after in itertools.pairwise(moments)]
    rates_bps = {each.rate_bps for each in moments}
    kinds = (" ".join(dict.fromkeys(qdisc.kind for qdisc in each.levels)) for each in moments)
    overflow = tuple(
        each.line_drops - each.drops
        for each in moments
        if each.line_drops is not None and each.drops is not None
    )
    return Queue(
        place=place,
        kind=", ".join(dict.fromkeys(kinds)),
        rate_bps=rates_bps.pop() if len(rates_bps) == 1 else None,
        time_s=tuple(each.time_s for each in moments),
        backlog_bytes=tuple(each.backlog_bytes for each in moments),
        backlog_packets=tuple(each.backlog_packets for each in moments),
        drops=_counted_on([each.drops for each in moments], replaced),
        marks=_counted_on([each.marks for each in moments], replaced),
        delay_us=tuple(each.delay_us for each in moments),
        overflow=() if any(replaced) or len(overflow) < len(moments) else overflow,
        replaced_s=tuple(each.time_s for each in itertools.compress(moments[1:], replaced)),
    )


def _counted_on(counts: Sequence[int | None], replaced: Sequence[bool]) -> Column:
    """The sum of the counts of qdiscs that replaced each other, each of which starts at 0."""
    found, earlier = [counts[0]], 0
    for (before, count), is_new in zip(itertools.pairwise(counts), replaced, strict=True):
        earlier += (before or 0) if is_new else 0
        found.append(None if count is None else earlier + count)
    return tuple(found)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
