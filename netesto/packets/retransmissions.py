"""Retransmissions: which segments, why, and whether they were necessary.

docs/measurements.md states the rules and what they cannot know.
"""

import bisect
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from netesto.packets.octets import Flags, Integers

Number = TypeVar("Number", int, Integers)
Kind: TypeAlias = Literal["fast", "timeout", "after timeout", "probe"]
KINDS: tuple[Kind, ...] = ("fast", "timeout", "after timeout", "probe")

# Without timestamps, a hole that is filled this soon was reordering (as in Wireshark).
REORDERED_NS = 3_000_000
# Nothing sent and nothing acknowledged for this many RTTs: a timer expired. A tail loss probe waits
# for 2 RTTs (RFC 8985, section 7.2), retransmissions triggered by ACKs for a quarter of one.
QUIET_RTTS = 1.5
# The minimum timeout of Linux; an earlier one, with later data acknowledged selectively, is RACK's
# reordering timer.
TIMEOUT_LEAST_NS = 200_000_000

# The maximum of holes to remember: a flow with heavy loss has some hundred.
HOLES_MAX = 4096

BEFORE_CAPTURE = -(2**62)


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of one side, in the order of time: data, and FINs, which take one number.

    `begin` and `end` count bytes from the first of the connection. `place` is the index of the
    packet, `acked` the highest acknowledgement before it, `highest` the highest end before it.
    """

    place: Integers
    time_ns: Integers
    begin: Integers
    end: Integers
    acked: Integers
    highest: Integers
    stamp: Integers
    is_stamped: Flags


@dataclass(frozen=True, slots=True)
class Order:
    """The retransmitted and the late segments, and the bytes never seen.

    `again` is false for segments that were only reordered (`late`). `holes` are the bytes never
    seen.
    """

    again: Flags
    late: Flags
    holes: tuple[tuple[int, int], ...]


def order(segments: Segments, *, is_from_start: bool) -> Order:
    """Distinguish retransmitted segments from overtaken ones."""
    again = segments.begin < segments.highest
    late = np.zeros(len(again), np.bool_)
    # Left and right end, and the following segment, which revealed it.
    holes: list[tuple[int, int, int]] = []
    if not is_from_start and len(again):
        holes.append((BEFORE_CAPTURE, int(segments.begin[0]), 0))
    events = np.flatnonzero(again | (segments.begin > segments.highest))
    for i in events.tolist():
        if len(holes) > HOLES_MAX:
            del holes[0]
        begin, end = int(segments.begin[i]), int(segments.end[i])
        if not again[i]:
            holes.append((int(segments.highest[i]), begin, i))
            continue
        at = max(0, bisect.bisect_right(holes, begin, key=itemgetter(0)) - 1)
        witness = -1
        while at < len(holes) and holes[at][0] < end:
            left, right, seen = holes[at]
            if right <= begin:
                at += 1
                continue
            witness = max(witness, seen)
            rest = [each for each in ((left, begin, seen), (end, right, seen)) if each[0] < each[1]]
            holes[at : at + 1] = rest
            at += len(rest)
        if witness >= 0:
            late[i] = _is_late(segments, i, witness)
    return Order(
        again=again & ~late,
        late=late,
        holes=tuple((left, right) for left, right, _ in holes if left != BEFORE_CAPTURE),
    )


def _is_late(segments: Segments, i: int, witness: int) -> bool:
    """Whether segment `i` was sent before the one that revealed its hole."""
    if segments.is_stamped[i] and segments.is_stamped[witness]:
        ahead = signed(int(segments.stamp[i]) - int(segments.stamp[witness]))
        if ahead:
            return ahead < 0
    return bool(segments.time_ns[i] - segments.time_ns[witness] < REORDERED_NS)


def signed(difference: Number) -> Number:
    """The difference of two numbers of 32 bits, or many of them."""
    return (difference + 2**31) % 2**32 - 2**31


@dataclass(frozen=True, slots=True)
class Trigger:
    """The state when each retransmission was sent: the preceding time without ACK and without data,
    the RTT, and the highest byte acknowledged selectively."""

    quiet_ns: Integers
    rtt_ns: Integers
    sacked: Integers


def kinds(segments: Segments, again: Integers, trigger: Trigger) -> list[Kind]:
    """Why each of the segments `again` (indexes) was sent."""
    found: list[Kind] = []
    # The data that were in flight at the last timeout, when recovery from a loss began, and at the
    # last probe end here. In recovery, and before more is acknowledged than the last probe was
    # about, no probe is sent (RFC 8985, sections 7.2 to 7.4).
    timeout_end = recovery_end = probe_end = BEFORE_CAPTURE
    columns = (
        segments.begin[again], segments.end[again], segments.acked[again],
        segments.highest[again], trigger.quiet_ns, trigger.rtt_ns, trigger.sacked,
    )  # fmt: skip
    for begin, end, acked, highest, quiet_ns, rtt_ns, sacked in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        by_acks = quiet_ns < QUIET_RTTS * rtt_ns
        may_probe = end >= highest and acked >= recovery_end and acked > probe_end
        if not by_acks and may_probe:
            probe_end = highest
            found.append("probe")
        elif by_acks or (sacked > begin and quiet_ns < TIMEOUT_LEAST_NS):
            found.append("after timeout" if begin < timeout_end else "fast")
            if acked >= recovery_end:
                recovery_end = highest
        else:
            timeout_end = recovery_end = highest
            found.append("timeout")
    return found


def reported_twice(
    segments: Segments, again: Integers, place: Integers, left: Integers, right: Integers
) -> list[bool]:
    """Which retransmissions a D-SACK (RFC 2883) reports: the newest before it that begins where the
    reported duplicate begins, and those that follow it without a gap.

    `place` are the places of packets with a D-SACK, `left` and `right` what each reports.
    """
    columns = (segments.begin, segments.end, segments.place)
    begins, ends, places = (column[again].tolist() for column in columns)
    found = [False] * len(begins)
    newest: dict[int, int] = {}
    following = 0
    reports = zip(place.tolist(), left.tolist(), right.tolist(), strict=True)
    for reported, begin, end in reports:
        while following < len(begins) and places[following] < reported:
            newest[begins[following]] = following
            following += 1
        at = begin
        while at < end and (i := newest.pop(at, None)) is not None:
            found[i] = True
            at = max(ends[i], at + 1)
    return found
