"""Queues under a load that does not respond, packet by packet: what their specifications do with
datagrams of one size that arrive at equal distances, faster than the link carries them."""

import math
from collections import deque
from dataclasses import dataclass

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
    """What a queue does with a load: the frames that it drops, and the delays of the others, from
    arrival to the last bit."""

    drops: int
    mean_s: float
    longest_s: float


def drop_tail(load: Load, room: int) -> Passed:
    """A queue in which up to `room` frames wait, beside the one that is being sent."""
    return _passed(load, _Drop(math.inf, math.inf), room)


def codel(
    load: Load, *, target_s: float = CODEL_TARGET_S, interval_s: float = CODEL_INTERVAL_S
) -> Passed:
    """CoDel without a limit (RFC 8289, section 5), with the memory of the control law of Linux."""
    return _passed(load, _Drop(target_s, interval_s), math.inf)


@dataclass(slots=True)
class _Drop:
    """The state of CoDel, with the names of the RFC."""

    target_s: float
    interval_s: float
    first_above_s: float = 0.0
    drop_next_s: float = 0.0
    count: int = 0
    lastcount: int = 0
    dropping: bool = False

    def law(self, from_s: float) -> float:
        return from_s + self.interval_s / math.sqrt(self.count)

    def ok_to_drop(self, now_s: float, arrived_s: float, bytes_behind: int) -> bool:
        """Whether delays have exceeded the target for an interval, and more than a packet waits."""
        if now_s - arrived_s < self.target_s or bytes_behind <= theory.FULL_FRAME_BYTES:
            self.first_above_s = 0.0
            return False
        if self.first_above_s == 0:
            self.first_above_s = now_s + self.interval_s
            return False
        return now_s >= self.first_above_s


def _passed(load: Load, state: _Drop, room: float) -> Passed:
    waiting: deque[float] = deque()
    free_s, arrived, drops, delays = 0.0, 0, 0, []

    def admit(until_s: float) -> None:
        nonlocal arrived, drops
        while arrived < load.count and (at_s := arrived * load.gap_s) <= until_s:
            arrived += 1
            if len(waiting) < room:
                waiting.append(at_s)
            else:
                drops += 1

    while True:
        if not waiting:
            if arrived == load.count:
                break
            free_s = max(free_s, arrived * load.gap_s)
            admit(free_s)
        now_s = free_s
        admit(now_s)
        at_s = waiting.popleft()
        ok = state.ok_to_drop(now_s, at_s, len(waiting) * load.frame_bytes)
        if state.dropping:
            state.dropping = ok
            while state.dropping and now_s >= state.drop_next_s:
                drops, state.count = drops + 1, state.count + 1
                at_s = waiting.popleft()
                if state.ok_to_drop(now_s, at_s, len(waiting) * load.frame_bytes):
                    state.drop_next_s = state.law(state.drop_next_s)
                else:
                    state.dropping = False
        elif ok:
            drops += 1
            at_s = waiting.popleft()
            state.ok_to_drop(now_s, at_s, len(waiting) * load.frame_bytes)
            state.dropping = True
            delta = state.count - state.lastcount
            is_recent = now_s - state.drop_next_s < CODEL_MEMORY * state.interval_s
            state.count = state.lastcount = delta if delta > 1 and is_recent else 1
            state.drop_next_s = state.law(now_s)
        free_s = now_s + load.frame_s
        delays.append(free_s - at_s)
    return Passed(drops, sum(delays) / len(delays), max(delays))


def red_backlog_bytes(
    excess: float, least_bytes: float, most_bytes: float, highest: float
) -> float:
    """The mean queue of RED at which it drops what a load of `excess` times the rate has too much.

    Of the gaps between drops, each from 1 to 1/p is as likely (Floyd and Jacobson, 1993, section 7):
    2 p / (1 + p) of the packets are dropped, and p rises linearly from `least_bytes` to `highest`
    at `most_bytes`.
    """
    dropped = 1 - 1 / excess
    probability = dropped / (2 - dropped)
    return least_bytes + (most_bytes - least_bytes) * probability / highest
