"""Analyses the data of one side of a TCP connection, from packets alone.

docs/measurements.md, "From packets", has the definition of each value and its limits.
"""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netesto.packets import retransmissions, roundtrips
from netesto.packets.connections import CapturedConnection
from netesto.packets.decode import ACK, FIN, RST, SYN
from netesto.packets.octets import Flags, Integers
from netesto.packets.retransmissions import KINDS, Order, Segments, Trigger, signed

# If the RTT is unknown: the minimum timer on an intercontinental path.
_RTT_UNKNOWN_NS = 100_000_000

# The timestamp option takes this much of each segment.
_STAMP_BYTES = 12

# An acknowledgement before the first, and a time before the first.
_NEVER = -(2**62)


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """The packets with ACK that the receiver sent: places, times, what they acknowledge (bytes
    from the first), the highest so far, windows in bytes, and SACK blocks above the number."""

    place: Integers
    time_ns: Integers
    number: Integers
    highest: Integers
    window: Integers
    echo: Integers
    is_stamped: Flags
    is_pure: Flags
    has_block: Flags
    # SACK blocks: the index of the acknowledgement, and both ends.
    of: Integers
    left: Integers
    right: Integers
    is_duplicate: Flags

    @property
    def highest_before(self) -> Integers:
        """The highest number before each."""
        return np.concatenate([[_NEVER], self.highest])[:-1]


@dataclass(frozen=True, slots=True)
class Samples:
    """RTT samples: the time of the acknowledgement, and the RTT."""

    time_ns: Integers
    rtt_ns: Integers


@dataclass(frozen=True, slots=True)
class SideTransfer:
    """The data of one side. `payload` is the length of each segment's data (0: a FIN alone).

    `size` is the number of distinct bytes. `again` are indexes of segments, and `kinds` and
    `spurious` belong to these. `missed_bytes` were acknowledged and never seen. `is_whole`: the
    capture has the start of the connection, and an end.
    """

    segments: Segments
    payload: Integers
    acks: Acknowledgements
    order: Order
    again: Integers
    kinds: tuple[retransmissions.Kind, ...]
    spurious: tuple[bool, ...]
    mss_bytes: int | None
    size: int
    missed_bytes: int
    rtt: Samples
    rtt_by_stamps: Samples
    duplicate_acks: int
    zero_windows: int
    zero_window_ns: int
    syns_again: int
    is_whole: bool

    @property
    def segments_again(self) -> int:
        """Retransmitted segments, including SYNs and all segments of a super-packet."""
        return self.syns_again + int(self.counts(self.again).sum())

    @property
    def bytes_again(self) -> int:
        return int(self.payload[self.again].sum())

    def counts(self, which: Integers) -> Integers:
        """The number of segments on the wire for each of these packets, if known."""
        payload = self.payload[which]
        if self.mss_bytes is None:
            return np.ones(len(which), np.int64)
        return np.maximum(1, -(-payload // self.mss_bytes))

    def by_kind(self) -> Mapping[str, int]:
        """Retransmitted segments by kind, and how many of all were unnecessary."""
        counts = self.counts(self.again).tolist()
        found: dict[str, int] = dict.fromkeys(KINDS, 0)
        for kind, count in zip(self.kinds, counts, strict=True):
            found[kind] += count
        found["SYN"] = self.syns_again
        found["spurious"] = sum(
            count for count, is_one in zip(counts, self.spurious, strict=True) if is_one
        )
        return found

    @property
    def super_packets(self) -> int:
        """Packets longer than a segment: offloads made or joined them."""
        return 0 if self.mss_bytes is None else int((self.payload > self.mss_bytes).sum())

    def completion_ns(self) -> int | None:
        """From the first data packet to the first ACK with which all bytes are acknowledged,
        cumulatively or selectively; None if the capture lacks the start or the end of the
        connection."""
        has_data = self.payload > 0
        if not self.is_whole or not has_data.any() or self.segments.begin[has_data].min() > 0:
            return None
        acks = range(len(self.acks.place))
        # The known arrivals never decrease.
        last = bisect.bisect_left(acks, self.size, key=lambda at: arrived(self.acks, at, self.size))
        if last == len(acks):
            return None
        return int(self.acks.time_ns[last] - self.segments.time_ns[has_data][0])


def arrived(acks: Acknowledgements, at: int, size: int) -> int:
    """The bytes, of `size`, that have arrived according to the first `at` + 1 acknowledgements."""
    in_order = min(max(int(acks.highest[at]), 0), size)
    count = int(np.searchsorted(acks.of, at, side="right"))
    left = np.maximum(acks.left[:count], in_order)
    right = np.minimum(acks.right[:count], size)
    above = left < right
    left, right = left[above], right[above]
    if not len(left):
        return in_order
    rank = np.argsort(left, kind="stable")
    left, right = left[rank], right[rank]
    before = np.concatenate([[in_order], np.maximum.accumulate(right)[:-1]])
    return in_order + int(np.maximum(right - np.maximum(left, before), 0).sum())


def analyse(
    connection: CapturedConnection, path_ns: int | None, *, by_client: bool
) -> SideTransfer:
    """The data of the client, or of the server, over a path with this RTT."""
    packets = connection.packets
    sent = connection.from_client if by_client else ~connection.from_client
    is_syn = sent & ((packets.flags & SYN) != 0)
    syns = np.flatnonzero(is_syn)
    payload = packets.payload.astype(np.int64)
    is_fin = (packets.flags & FIN) != 0
    # RFC 7413 (TCP Fast Open), section 2: data on a SYN follow its number.
    data = np.flatnonzero(sent & ((payload > 0) | (is_fin & ~is_syn)))
    first = _first(packets.sequence, syns, data)
    acks, zero = _acknowledgements(connection, sent, first)
    begin = _unwrapped(packets.sequence[data] + is_syn[data], first)
    end = begin + payload[data] + (is_fin & ~is_syn)[data]
    # A keepalive or window probe: one byte that was acknowledged long ago.
    acked = _before(acks.place, acks.highest, data)
    is_probe = (payload[data] == 1) & (end == acked) & (begin < _before_highest(end, 0))
    data, begin, end, acked = data[~is_probe], begin[~is_probe], end[~is_probe], acked[~is_probe]
    is_from_start = bool(len(syns))
    start = 0 if is_from_start else int(begin[0]) if len(begin) else 0
    segments = Segments(
        place=data,
        time_ns=packets.time_ns[data],
        begin=begin,
        end=end,
        acked=acked,
        highest=_before_highest(end, start),
        stamp=packets.stamp[data].astype(np.int64),
        is_stamped=packets.is_stamped[data],
    )
    order = retransmissions.order(segments, is_from_start=is_from_start)
    again = np.flatnonzero(order.again)
    samples = _rtt_samples(segments, order, acks)
    own_payload = payload[data]
    duplicates = _duplicate_acks(acks, segments)
    trigger = _trigger(
        segments, again, acks, samples=samples, duplicates=duplicates,
        path_ns=path_ns,
    )  # fmt: skip
    last_data = int((begin + own_payload).max()) if len(begin) else 0
    highest_ack = int(acks.highest[-1]) if len(acks.highest) else _NEVER
    highest = int(end.max()) if len(end) else start
    unseen = [(left, min(right, highest_ack)) for left, right in order.holes]
    if len(syns) or len(data):
        # A FIN that was not captured is one number more, and no byte.
        unseen.append((highest, highest_ack - 1))
    missed = sum(max(0, right - left) for left, right in unseen)
    return SideTransfer(
        segments=segments,
        payload=own_payload,
        acks=acks,
        order=order,
        again=again,
        kinds=tuple(retransmissions.kinds(segments, again, trigger)),
        spurious=_spurious(segments, again, acks),
        mss_bytes=_mss(connection, own_payload),
        size=max(0, last_data - start),
        missed_bytes=missed,
        rtt=samples,
        rtt_by_stamps=_stamped_samples(segments, acks),
        duplicate_acks=int(duplicates.sum()),
        zero_windows=zero[0],
        zero_window_ns=zero[1],
        # One with data is among the retransmitted segments.
        syns_again=int((payload[syns[1:]] == 0).sum()),
        is_whole=is_from_start and bool((packets.flags & (FIN | RST)).any()),
    )


def _first(sequence: NDArray[np.uint32], syns: Integers, data: Integers) -> int:
    """The number of the first byte of data."""
    if len(syns):
        return (int(sequence[syns[0]]) + 1) % 2**32
    return int(sequence[data[0]]) if len(data) else 0


def _unwrapped(numbers: NDArray[np.uint32], first: int) -> Integers:
    """Sequence numbers as distances from `first`, also beyond 4 GiB: each is close to the previous
    one."""
    with_first = np.concatenate([np.array([first], np.uint32), numbers])
    return np.cumsum(np.diff(with_first).astype(np.int32), dtype=np.int64)


def _before_highest(end: Integers, start: int) -> Integers:
    """The highest end before each segment."""
    return np.maximum.accumulate(np.concatenate([[start], end]))[:-1]


def _before(places: Integers, values: Integers, at: Integers) -> Integers:
    """The value at the last of `places` before each of `at`."""
    found = np.searchsorted(places, at) - 1
    padded = np.concatenate([values, [_NEVER]])
    return padded[found]


def _acknowledgements(
    connection: CapturedConnection, sent: Flags, first: int
) -> tuple[Acknowledgements, tuple[int, int]]:
    """What the receiver acknowledged; how often it closed its window, and for how long."""
    packets = connection.packets
    flags = packets.flags
    is_ack = ~sent & ((flags & ACK) != 0) & ((flags & RST) == 0)
    place = np.flatnonzero(is_ack)
    number = _unwrapped(packets.acknowledged[place], first)
    own = flags[place]
    is_syn = (own & SYN) != 0
    # The window of a SYN is never scaled; the scale is used if both sides have the option.
    sides = [packets.scale[np.flatnonzero(((flags & SYN) != 0) & side)] for side in (~sent, sent)]
    is_scaled = all(len(side) and side[0] >= 0 for side in sides)
    scale = int(sides[0][0]) if is_scaled else 0
    window = packets.window[place].astype(np.int64) << np.where(is_syn, 0, scale)
    blocks = connection.blocks.chosen(is_ack[connection.blocks.packet])
    of = np.searchsorted(place, blocks.packet)
    has_block = np.zeros(len(place), np.bool_)
    has_block[of] = True
    raw = packets.acknowledged[blocks.packet].astype(np.int64)
    left = number[of] + signed(blocks.left - raw)
    right = number[of] + signed(blocks.right - raw)
    # RFC 2883, section 4: the first block is below the number, or inside the second block.
    inside = np.zeros(len(of), np.bool_)
    inside[:-1] = (of[:-1] == of[1:]) & (left[:-1] >= left[1:]) & (right[:-1] <= right[1:])
    acks = Acknowledgements(
        place=place,
        time_ns=packets.time_ns[place],
        number=number,
        highest=np.maximum.accumulate(number),
        window=window,
        echo=packets.echo[place].astype(np.int64),
        is_stamped=packets.is_stamped[place],
        is_pure=(packets.payload[place] == 0) & ((own & (SYN | FIN)) == 0),
        has_block=has_block,
        of=of,
        left=left,
        right=right,
        is_duplicate=(blocks.order == 0) & ((right <= number[of]) | inside),
    )
    return acks, _zero_windows(acks.time_ns, window == 0)


def _zero_windows(time_ns: Integers, is_closed: Flags) -> tuple[int, int]:
    """How often a window was closed, and for how long in total, as far as the capture shows."""
    change = np.diff(np.concatenate([[False], is_closed, [False]]).astype(np.int8))
    closed, opened = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    until = time_ns[np.minimum(opened, len(time_ns) - 1)]
    return len(closed), int((until - time_ns[closed]).sum())


def _duplicate_acks(acks: Acknowledgements, segments: Segments) -> Flags:
    """RFC 5681, section 2: nothing new acknowledged while data are in flight, no data, no new
    window; with SACK (RFC 6675) a new block counts instead of an old window."""
    in_flight = _before(segments.place, np.maximum.accumulate(segments.end), acks.place)
    found = np.zeros(len(acks.number), np.bool_)
    is_same_window = acks.window[1:] == acks.window[:-1]
    found[1:] = (
        (acks.number[1:] == acks.highest[:-1])
        & acks.is_pure[1:]
        & (is_same_window | acks.has_block[1:])
        & (in_flight[1:] > acks.number[1:])
    )
    return found


def _rtt_samples(segments: Segments, order: Order, acks: Acknowledgements) -> Samples:
    """From each newest segment that an ACK newly covers to this ACK, unless anything was
    retransmitted between the two, or the segment itself was (Karn's algorithm, RFC 6298, section
    3)."""
    new = np.flatnonzero(segments.begin >= segments.highest)
    before = acks.highest_before
    advancing = np.flatnonzero(acks.number > before)
    newest = np.searchsorted(segments.end[new], acks.number[advancing], side="right") - 1
    fits = newest >= 0
    advancing, chosen = advancing[fits], new[newest[fits]]
    place, at = acks.place[advancing], segments.place[chosen]
    again = segments.place[order.again | order.late]
    is_clear = np.searchsorted(again, at) == np.searchsorted(again, place)
    fits = is_clear & (at < place) & (segments.end[chosen] > before[advancing])
    time_ns = acks.time_ns[advancing[fits]]
    took_ns = time_ns - segments.time_ns[chosen[fits]]
    return Samples(time_ns[took_ns >= 0], took_ns[took_ns >= 0])


def _stamped_samples(segments: Segments, acks: Acknowledgements) -> Samples:
    """From the first segment with each timestamp to the first ACK that echoes it."""
    sent, back = segments.is_stamped, acks.is_stamped
    return Samples(
        *roundtrips.echoed(
            segments.stamp[sent], segments.time_ns[sent], acks.echo[back], acks.time_ns[back]
        )
    )


def _trigger(
    segments: Segments,
    again: Integers,
    acks: Acknowledgements,
    *,
    samples: Samples,
    duplicates: Flags,
    path_ns: int | None,
) -> Trigger:
    at, time_ns = segments.place[again], segments.time_ns[again]
    # For example, the ACK of a retransmitted FIN acknowledges nothing new.
    telling = np.flatnonzero((acks.number > acks.highest_before) | acks.has_block | duplicates)
    last_ack = _before(acks.place[telling], acks.time_ns[telling], at)
    last_data = np.concatenate([[_NEVER], segments.time_ns])[again]
    # At the receiver an ACK follows its data immediately, which says nothing about the path.
    rtt_ns = np.full(len(again), path_ns or _RTT_UNKNOWN_NS)
    if len(samples.time_ns):
        # The last sample before: the queue of the path may have filled since.
        recent = np.searchsorted(samples.time_ns, time_ns) - 1
        known_ns = np.where(recent >= 0, samples.rtt_ns[recent], rtt_ns)
        rtt_ns = known_ns if path_ns is None else np.maximum(known_ns, path_ns)
    above = acks.right > acks.number[acks.of]
    sacked = np.concatenate([[_NEVER], np.maximum.accumulate(acks.right[above])])
    count = np.searchsorted(acks.place[acks.of[above]], at)
    return Trigger(time_ns - np.maximum(last_ack, last_data), rtt_ns, sacked[count])


def _spurious(segments: Segments, again: Integers, acks: Acknowledgements) -> tuple[bool, ...]:
    """Which retransmissions were unnecessary: the receiver reports a duplicate (D-SACK), the ACK
    echoes an earlier time stamp (Eifel, RFC 3522), or the data had been acknowledged."""
    begin, end = segments.begin[again], segments.end[again]
    place = segments.place[again]
    reports = np.flatnonzero(acks.is_duplicate)
    twice = retransmissions.reported_twice(
        segments, again, acks.place[acks.of[reports]], acks.left[reports], acks.right[reports]
    )
    # The first later acknowledgement that covers it. Only that of the oldest segment is sent
    # immediately, with the timestamp that it waited for.
    covering = np.maximum(
        np.searchsorted(acks.highest, begin, side="right"), np.searchsorted(acks.place, place)
    )
    inside = covering < len(acks.place)
    covering = np.minimum(covering, max(len(acks.place) - 1, 0))
    is_echo = np.zeros(len(again), np.bool_)
    if len(acks.place):
        earlier = signed(acks.echo[covering] - segments.stamp[again]) < 0
        is_echo = (
            inside & earlier & acks.is_stamped[covering] & segments.is_stamped[again]
            & (segments.acked[again] == begin)
        )  # fmt: skip
    was_acked = end <= segments.acked[again]
    return tuple((is_echo | was_acked | np.array(twice, np.bool_)).tolist())


def _mss(connection: CapturedConnection, payload: Integers) -> int | None:
    """The length of a full segment: the lower MSS of both SYNs minus the timestamp option; else the
    most common length, if plausible; None if unknown."""
    packets = connection.packets
    is_syn = (packets.flags & SYN) != 0
    offers = [
        packets.mss[np.flatnonzero(is_syn & side)]
        for side in (connection.from_client, ~connection.from_client)
    ]
    if all(len(each) and each[0] > 0 for each in offers):
        stamped = packets.is_stamped[~is_syn]
        option = _STAMP_BYTES if len(stamped) and bool(stamped[0]) else 0
        return max(1, min(int(offers[0][0]), int(offers[1][0])) - option)
    full = payload[(payload >= 500) & (payload <= 9000)]
    if not len(full):
        return None
    lengths, counts = np.unique(full, return_counts=True)
    return int(lengths[np.argmax(counts)])
