"""Points of a flow's figures: as many as a figure can show, without losing rare ones."""

from dataclasses import dataclass

import numpy as np

from netesto.packets.found import Bar, Drawing, Point
from netesto.packets.octets import Integers
from netesto.packets.transfer import Samples, SideTransfer

# The cells of a figure: two marks in one cell are one mark to the eye.
ACROSS, UPRIGHT = 800, 400
# The maximum of marks, with at most one per cell; more make the cells larger.
MARKS_MAX = 2000
# Intervals of a rate, at most.
INTERVALS = 200

_SECOND_NS = 1e9

# 1, 2 and 5 times powers of ten: intervals that people can read.
_STEPS_NS = tuple(step * 10**power for power in range(3, 13) for step in (1, 2, 5))


def draw(transfer: SideTransfer, origin_ns: int) -> Drawing:
    """The figures of a transfer with data."""
    segments, acks = transfer.segments, transfer.acks
    first_ns, last_ns = int(segments.time_ns.min()), int(segments.time_ns.max())
    if len(acks.time_ns):
        first_ns = min(first_ns, int(acks.time_ns.min()))
        last_ns = max(last_ns, int(acks.time_ns.max()))
    grid = _Grid(origin_ns, first_ns, max(1, last_ns - first_ns), max(1, transfer.size))
    is_new = segments.begin >= segments.highest
    kinds = np.array(transfer.kinds, dtype=object)
    spurious = np.array(transfer.spurious, np.bool_)
    again = {
        **{kind: transfer.again[(kinds == kind) & ~spurious] for kind in dict.fromkeys(kinds)},
        "spurious": transfer.again[spurious],
    }
    above = acks.right > acks.number[acks.of]

    def bars(which: Integers) -> tuple[Bar, ...]:
        return grid.bars(segments.time_ns[which], segments.begin[which], segments.end[which])

    interval_s, times, sent, acked = _rates(transfer, grid)
    return Drawing(
        sent=grid.columns(segments.time_ns[is_new], segments.begin[is_new], segments.end[is_new]),
        again={name: bars(which) for name, which in again.items() if len(which)},
        late=bars(np.flatnonzero(transfer.order.late)),
        selective=grid.bars(acks.time_ns[acks.of[above]], acks.left[above], acks.right[above]),
        acked=grid.steps(acks.time_ns, np.maximum(acks.highest, 0)),
        window=grid.steps(acks.time_ns, np.maximum(acks.number + acks.window, 0)),
        rtt_ms=grid.points(transfer.rtt),
        interval_s=interval_s,
        rate_time_s=times,
        sent_mbit_per_s=sent,
        acked_mbit_per_s=acked,
    )


@dataclass(frozen=True, slots=True)
class _Grid:
    """The cells of a figure over this time and these bytes, relative to `origin_ns`."""

    origin_ns: int
    first_ns: int
    span_ns: int
    size: int

    def seconds(self, time_ns: Integers) -> list[float]:
        found: list[float] = np.round((time_ns - self.origin_ns) / _SECOND_NS, 6).tolist()
        return found

    def _column(self, time_ns: Integers, across: int) -> Integers:
        return ((time_ns - self.first_ns) / self.span_ns * across).astype(np.int64)

    def bars(self, time_ns: Integers, low: Integers, high: Integers) -> tuple[Bar, ...]:
        """One bar for all that begin and end in the same cells; the cells grow until there are few
        bars."""
        across, upright = ACROSS, UPRIGHT
        which = np.arange(len(time_ns))
        while len(which):
            rows = [(each[which] / self.size * upright).astype(np.int64) for each in (low, high)]
            cells = np.stack([self._column(time_ns[which], across), *rows])
            _, first = np.unique(cells, axis=1, return_index=True)
            which = which[np.sort(first)]
            if len(which) <= MARKS_MAX:
                break
            across, upright = max(1, across // 2), max(1, upright // 2)
            if across == upright == 1:
                which = which[:MARKS_MAX]
        return tuple(
            zip(
                self.seconds(time_ns[which]), low[which].tolist(), high[which].tolist(), strict=True
            )
        )

    def _runs(self, time_ns: Integers) -> tuple[Integers, Integers]:
        """The first and the last of those in each column, for times that rise."""
        place = np.maximum.accumulate(self._column(time_ns, ACROSS))
        return np.flatnonzero(np.diff(place, prepend=-1)), np.flatnonzero(np.diff(place, append=-1))

    def columns(self, time_ns: Integers, low: Integers, high: Integers) -> tuple[Bar, ...]:
        """One bar for each column of cells, over all data sent in its time."""
        first, _ = self._runs(time_ns)
        return tuple(
            zip(
                self.seconds(time_ns[first]),
                np.minimum.reduceat(low, first).tolist(),
                np.maximum.reduceat(high, first).tolist(),
                strict=True,
            )
        )

    def steps(self, time_ns: Integers, values: Integers) -> tuple[Point, ...]:
        """The lowest and the last value of each column."""
        first, last = self._runs(time_ns)
        least = np.minimum.reduceat(values, first)
        times = self.seconds(time_ns[first]), self.seconds(time_ns[last])
        both = zip(*times, least.tolist(), values[last].tolist(), strict=True)
        found: list[Point] = []
        for begin_s, end_s, low, end in both:
            found += dict.fromkeys([(begin_s, low), (end_s, end)])
        return tuple(found)

    def points(self, samples: Samples) -> tuple[Point, ...]:
        """RTT samples in ms: minimum and maximum of each column."""
        place = np.maximum.accumulate(self._column(samples.time_ns, ACROSS))
        rank = np.lexsort((samples.rtt_ns, place))
        chosen = np.unique(rank[np.concatenate(self._runs(samples.time_ns))])
        rtt_ms = np.round(samples.rtt_ns[chosen] / 1e6, 4).tolist()
        return tuple(zip(self.seconds(samples.time_ns[chosen]), rtt_ms, strict=True))


def _rates(
    transfer: SideTransfer, grid: _Grid
) -> tuple[float, tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """The length of an interval, the middles of all, and the bytes sent and acknowledged in
    each."""
    wide_ns = next((step for step in _STEPS_NS if step * INTERVALS >= grid.span_ns), _STEPS_NS[-1])
    count = min(INTERVALS, grid.span_ns // wide_ns + 1)
    edges = grid.first_ns + np.arange(count + 1) * wide_ns
    sent, _ = np.histogram(transfer.segments.time_ns, edges, weights=transfer.payload)
    acks = transfer.acks
    known = np.clip(np.concatenate([[0], acks.highest]), 0, transfer.size)
    acked = np.diff(known[np.searchsorted(acks.time_ns, edges)])
    mbit = 8e3 / wide_ns
    return (
        wide_ns / _SECOND_NS,
        tuple(grid.seconds(edges[:-1] + wide_ns // 2)),
        tuple(np.round(sent * mbit, 4).tolist()),
        tuple(np.round(acked * mbit, 4).tolist()),
    )
