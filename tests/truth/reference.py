"""Queues under a load that does not respond, packet by packet: what their specifications do with
datagrams of one size that arrive at equal distances, faster than the link carries them."""

import math
from collections import deque
from dataclasses import dataclass, field

import theory

# RFC 8289, section 4.2 to 4.4, and Linux.
CODEL_TARGET_S, CODEL_INTERVAL_S = 0.005, 0.1

# Linux's RFC 8289, 5.5: how long a control law is remembered, in intervals.
CODEL_MEMORY = 16


@dataclass(frozen=True, slots=True)
class Load:
    """`count` frames of `frame_bytes` on a link of `rate_bps`, at equal distances, `excess` times
    as fast as it carries them."""

    rate_bps: float
    frame_bytes: int
    excess: float
    count: int

    @property
    def gap_s(self) -> float:
        """From the arrival of a frame to that of the next one."""
        return self.frame_s / self.excess

    @property
    def frame_s(self) -> float:
        """The time that a frame takes on the link."""
        return self.frame_bytes * 8 / self.rate_bps


@dataclass(frozen=True, slots=True)
class Passed:
    """What a queue does with a load: the frames that it drops and marks, and the delays of those
    that it sends, from arrival to the last bit."""

    drops: int
    marks: int
    mean_s: float
    longest_s: float


def drop_tail(load: Load, room: int) -> Passed:
    """A queue in which up to `room` frames wait, beside the one that is being sent."""
    return _passed(load, _Codel(math.inf, math.inf), room)


def codel(
    load: Load,
    *,
    target_s: float = CODEL_TARGET_S,
    interval_s: float = CODEL_INTERVAL_S,
    marks: bool = False,
) -> Passed:
    """CoDel without a limit (RFC 8289, section 5), with the control law as Linux computes it. If
    it `marks`, it sends the frame that it would drop, and decides about the next one later."""
    return _passed(load, _Codel(target_s, interval_s, marks), math.inf)


@dataclass(slots=True)
class _Codel:
    """The state of CoDel, with the names of the RFC."""

    target_s: float
    interval_s: float
    marks: bool = False
    first_above_s: float = 0.0
    drop_next_s: float = 0.0
    count: int = 0
    lastcount: int = 0
    inverse_root: float = 1.0
    dropping: bool = False
    waiting: deque[float] = field(default_factory=deque)
    hits: int = 0

    def law(self, from_s: float) -> float:
        """The control law: when to drop the next one, by 1 / sqrt(count)."""
        return from_s + self.interval_s * self.inverse_root

    def approach_root(self) -> None:
        """One step of Newton's method, by which Linux follows the root as `count` grows."""
        self.inverse_root *= (3 - self.count * self.inverse_root**2) / 2

    def take(self, now_s: float, frame_bytes: int) -> tuple[float, bool]:
        """The arrival of the first frame that waits, and whether it may be dropped: for an interval
        all have waited for longer than the target, and more than an MTU was behind them."""
        arrived_s = self.waiting.popleft()
        behind_bytes = len(self.waiting) * frame_bytes
        if now_s - arrived_s < self.target_s or behind_bytes <= theory.FULL_FRAME_BYTES:
            self.first_above_s = 0.0
            return arrived_s, False
        if self.first_above_s == 0:
            self.first_above_s = now_s + self.interval_s
            return arrived_s, False
        return arrived_s, now_s >= self.first_above_s

    def next_sent(self, now_s: float, frame_bytes: int) -> float:
        """The arrival of the frame that is sent now; those before it are dropped."""
        arrived_s, ok = self.take(now_s, frame_bytes)
        if self.dropping and not ok:
            self.dropping = False
        elif self.dropping:
            while self.dropping and now_s >= self.drop_next_s:
                self.hits, self.count = self.hits + 1, self.count + 1
                self.approach_root()
                if self.marks:
                    self.drop_next_s = self.law(self.drop_next_s)
                    break
                arrived_s, ok = self.take(now_s, frame_bytes)
                if ok:
                    self.drop_next_s = self.law(self.drop_next_s)
                else:
                    self.dropping = False
        elif ok:
            self.hits += 1
            if not self.marks:
                arrived_s, _ = self.take(now_s, frame_bytes)
            self.dropping = True
            delta = self.count - self.lastcount
            is_recent = now_s - self.drop_next_s < CODEL_MEMORY * self.interval_s
            if delta > 1 and is_recent:
                self.count = delta
                self.approach_root()
            else:
                self.count, self.inverse_root = 1, 1.0
            self.lastcount = self.count
            self.drop_next_s = self.law(now_s)
        return arrived_s


def _passed(load: Load, queue: _Codel, room: float) -> Passed:
    free_s, arrived, tail, delays = 0.0, 0, 0, []
    while arrived < load.count or queue.waiting:
        if not queue.waiting:
            free_s = max(free_s, arrived * load.gap_s)
        while arrived < load.count and arrived * load.gap_s <= free_s:
            if len(queue.waiting) < room:
                queue.waiting.append(arrived * load.gap_s)
            else:
                tail += 1
            arrived += 1
        sent = queue.next_sent(free_s, load.frame_bytes)
        free_s += load.frame_s
        delays.append(free_s - sent)
    drops, marks = (tail, queue.hits) if queue.marks else (tail + queue.hits, 0)
    return Passed(drops, marks, sum(delays) / len(delays), max(delays))


def red_backlog_bytes(
    excess: float, least_bytes: float, most_bytes: float, highest: float
) -> float:
    """The mean queue of RED at which it drops what a load of `excess` times the rate has too much.

    Gaps between drops are uniform, from 1 to 1/p (Floyd and Jacobson, 1993, section 7):
    2 p / (1 + p) of the packets are dropped, and p rises linearly from `least_bytes` to `highest`
    at `most_bytes`.
    """
    dropped = 1 - 1 / excess
    probability = dropped / (2 - dropped)
    return least_bytes + (most_bytes - least_bytes) * probability / highest
