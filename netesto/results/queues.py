"""The queues on the paths of flows, one for each interface, from samples of its qdiscs. Pure."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from netesto.measured import Counted, InstalledQdisc, LinkSamples

# A delay line: its backlog consists of packets in flight, and its drops are the loss of the link.
DELAY_LINE = "netem"

Column = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The queue of an interface, `place` as `node/device`. Counters start with its creation.

    `kind` are its qdiscs from the outermost on. `rate_bps` is that of its shaper, None if it has
    none. `marks` are None where no qdisc counts them.
    """

    place: str
    kind: str
    rate_bps: float | None
    time_s: tuple[float, ...]
    backlog_bytes: Column
    backlog_packets: Column
    drops: Column
    marks: Column

    def during(self, start_s: float, end_s: float, column: Column) -> list[float]:
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
        return None if first is None or last is None or last < first else (first, last)


def gaps_s(time_s: Sequence[float]) -> list[float]:
    """Seconds between consecutive ticks. The first and the last sample are not ticks."""
    return [after - before for before, after in itertools.pairwise(time_s[1:-1])]


def of(node: str, samples: LinkSamples) -> list[Queue]:
    """The queues of a node."""
    roots = (qdisc for qdisc in samples.qdiscs if qdisc.parent == "root")
    outermost = (_without_delay_line(root, samples.qdiscs) for root in roots)
    return [_queue(node, each, samples.qdiscs) for each in outermost if each is not None]


def _without_delay_line(
    qdisc: InstalledQdisc, qdiscs: Mapping[InstalledQdisc, Counted]
) -> InstalledQdisc | None:
    """The outermost qdisc that is not a delay line; None if there is no other."""
    if qdisc.kind != DELAY_LINE:
        return qdisc
    return next(
        (
            found
            for child in _children(qdisc, qdiscs)
            if (found := _without_delay_line(child, qdiscs))
        ),
        None,
    )


def _children(
    qdisc: InstalledQdisc, qdiscs: Mapping[InstalledQdisc, Counted]
) -> Iterator[InstalledQdisc]:
    for each in qdiscs:
        is_below = each.parent.partition(":")[0] == qdisc.handle.rstrip(":")
        if each.device == qdisc.device and is_below and each != qdisc:
            yield each


def _levels(
    qdisc: InstalledQdisc, qdiscs: Mapping[InstalledQdisc, Counted]
) -> list[InstalledQdisc]:
    """A qdisc and all below it, whose drops and backlog it counts, too."""
    found = [qdisc]
    for each in found:
        found += [child for child in _children(each, qdiscs) if child not in found]
    return found


def _queue(node: str, outermost: InstalledQdisc, qdiscs: Mapping[InstalledQdisc, Counted]) -> Queue:
    levels = _levels(outermost, qdiscs)
    own = qdiscs[outermost]
    marks = [_marks(qdiscs[level]) for level in levels]
    return Queue(
        place=f"{node}/{outermost.device}",
        kind=" ".join(dict.fromkeys(level.kind for level in levels)),
        rate_bps=outermost.rate_bps,
        time_s=own.time_s,
        backlog_bytes=own.counts["backlog_bytes"],
        backlog_packets=own.counts["backlog_packets"],
        drops=own.counts["drops"],
        marks=tuple(_sum([each.get(time_s) for each in marks]) for time_s in own.time_s),
    )


def _marks(samples: Counted) -> Mapping[float, int | None]:
    return dict(zip(samples.time_s, samples.counts["marks"], strict=True))


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
