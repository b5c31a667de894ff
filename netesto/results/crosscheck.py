"""Two sources of one quantity, held against each other: what differs by more than 10 % is told.

The traffic tool, the sockets at both ends and the client's interface each count the same bytes. No
two count in the same instant, and samples lie an interval apart; so what a tool tells is held
against the least and the most that the sockets can have counted in the time it means. An honest run
is within that range however short it is and however full the path's buffers are.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from netesto.model import REQUEST_TESTS, GroupRequest, SocketSample, TransferResult
from netesto.results import flows
from netesto.results.evidence import ExperimentEvidence, GroupEvidence, InstanceEvidence

TOLERANCE = 0.10

# Segments: tools and kernel may differ by a handful, whatever the percentage.
FEW_SEGMENTS = 10

# A tool that waits for what is on its way takes longer than asked by what the path's buffers hold.
LATE_END_S = 1.0

# Ethernet, IPv6 and TCP with all of its options, for each segment.
SEGMENT_OVERHEAD_BYTES = 118
# What goes over the interface besides: the tool's control connection, neighbours asked for, pings;
# and, each second, what an agent and its controller tell each other, the more the more flows.
OTHER_BYTES = 20_000
OTHER_BYTES_PER_S, OTHER_BYTES_PER_S_AND_FLOW = 10_000, 5_000
PING_BYTES = 98

# Network cards may bring their counters up to date this much later.
COUNTERS_LATE_S = 1.0


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most that something can have been."""

    least: float
    most: float

    def holds(self, value: float, *, slack: float = 0.0) -> bool:
        """True if `value` is within it, 10 % and `slack` to both sides."""
        least, most = self.least * (1 - TOLERANCE), self.most * (1 + TOLERANCE)
        return least - slack <= value <= most + slack

    def nearest(self, value: float) -> float:
        return min(max(value, self.least), self.most)


def warnings(evidence: ExperimentEvidence) -> Iterator[str]:
    """What disagrees, in words: each with both values and where they come from."""
    for group in evidence.groups:
        number = group.request.group
        yield from (f"group {number}: {text}" for text in _durations(group))
        for flow in flows.good(group):
            if flow.result is not None:
                for text in _flow(group.request, flow, flow.result):
                    yield f"group {number}, flow {flow.instance}: {text}"
        alone = not _shares_interface(group, evidence.groups)
        yield from (f"group {number}: {text}" for text in _interface(group, alone=alone))


def _durations(group: GroupEvidence) -> Iterator[str]:
    """The time that the tool tells, against the one asked for."""
    request, good = group.request, flows.good(group)
    asked_s = request.duration_s
    took_s = [flow.result.elapsed_s for flow in good if flow.result is not None]
    # Tools run for whole seconds: a part of one is no waiting, but what they make of it.
    waiting_s = LATE_END_S if asked_s.is_integer() else 0.0
    most_s = asked_s + max(waiting_s, asked_s * TOLERANCE)
    early = [each for each in took_s if each < asked_s * (1 - TOLERANCE)]
    late = [each for each in took_s if each > most_s]
    for found, furthest_s in ((early, min(early, default=0)), (late, max(late, default=0))):
        if found:
            which = "its flow" if len(good) == 1 else f"{len(found)} of {len(good)} flows"
            yield (
                f"{which} took {furthest_s:.3g} s as {request.tool} tells, asked were {asked_s:g} s"
            )


def _flow(request: GroupRequest, flow: InstanceEvidence, told: TransferResult) -> Iterator[str]:
    if flow.started_s is not None and flow.ended_s is not None:
        lived_s = flow.ended_s - flow.started_s
        if told.elapsed_s > lived_s * (1 + TOLERANCE):
            yield (
                f"it took {told.elapsed_s:.3g} s as {request.tool} tells, "
                f"but its process lived {lived_s:.3g} s"
            )
    if flows.is_seen_whole(request.test):
        yield from _rate(request, flow, told)
        yield from _retransmissions(request, flow, told)


def _rate(request: GroupRequest, flow: InstanceEvidence, told: TransferResult) -> Iterator[str]:
    """Bytes that the tool counted, against those that came in order at the receiver's socket, else
    those acknowledged at the sender's."""
    received = flows.receiver_samples(request.test, flow)
    sent = flows.sender_samples(request.test, flow)
    # A request on its way is counted by sockets alone.
    slack = request.request_bytes if request.test in REQUEST_TESTS else 0
    size = told.rate_bps * told.elapsed_s / 8
    for samples, where, count in (
        (received, "bytes_received of the receiver's socket", _bytes_received),
        (sent, "bytes_acked of the sender's socket", _bytes_acked),
    ):
        found = _counted(request, flow, told, samples, count)
        if found is None:
            continue
        if not found.holds(size, slack=slack):
            there = found.nearest(size) * 8 / told.elapsed_s
            yield (
                f"rate {_mbit(told.rate_bps)} as {request.tool} tells, {_mbit(there)} by {where}"
            )
        return


def _retransmissions(
    request: GroupRequest, flow: InstanceEvidence, told: TransferResult
) -> Iterator[str]:
    is_reverse = flows.is_reverse(request.test)
    again = told.remote_retransmits if is_reverse else told.local_retransmits
    samples = flows.sender_samples(request.test, flow)
    # A tool reads it when it stops sending, or when all has arrived.
    found = _counted(request, flow, told, samples, _total_retransmits, lasting_s=request.duration_s)
    if again is not None and found is not None and not found.holds(again, slack=FEW_SEGMENTS):
        yield (
            f"{again} segments retransmitted as {request.tool} tells, "
            f"{found.nearest(again):.0f} by the sender's socket"
        )


def _bytes_received(sample: SocketSample) -> int | None:
    return sample.bytes_received


def _total_retransmits(sample: SocketSample) -> int | None:
    return sample.total_retransmits


def _bytes_acked(sample: SocketSample) -> int | None:
    return sample.bytes_acked


def _counted(
    request: GroupRequest,
    flow: InstanceEvidence,
    told: TransferResult,
    samples: Sequence[SocketSample],
    count: Callable[[SocketSample], int | None],
    *,
    lasting_s: float = math.inf,
) -> Range | None:
    """What the sockets counted in the time that the tool means; None if that is not known.

    That time begins between the start of the process and so much later as it lived longer than the
    tool measured; what is omitted comes first. It lasts as long as the tool tells, or, where it may
    have looked earlier, at least `lasting_s`.
    """
    last = flows.total(samples, count)
    if last is None or flow.started_s is None or flow.ended_s is None or told.elapsed_s <= 0:
        return None
    earliest_s = flow.started_s + request.omit_s
    latest_s = max(earliest_s, flow.ended_s - told.elapsed_s)
    end_s = earliest_s + min(told.elapsed_s, lasting_s)
    omitted = Range(0, 0)
    if request.omit_s > 0:
        omitted = Range(_at(samples, count, earliest_s), _at(samples, count, latest_s, after=True))
    least = max(0.0, _at(samples, count, end_s) - omitted.most)
    return Range(least, max(least, last + _unseen(samples, count) - omitted.least))


def _unseen(samples: Sequence[SocketSample], count: Callable[[SocketSample], int | None]) -> float:
    """What connections may have counted after their last sample, where none is from their end: as
    much as between any two samples before."""
    found = 0.0
    for connection in flows.connections(samples):
        if connection[-1].state != "CLOSE":
            known = [value for each in connection if (value := count(each)) is not None]
            steps = (after - before for before, after in itertools.pairwise([0, *known]))
            found += max(steps, default=0)
    return found


def _at(
    samples: Sequence[SocketSample],
    count: Callable[[SocketSample], int | None],
    time_s: float,
    *,
    after: bool = False,
) -> float:
    """What a flow's connections had counted at the last sample before an instant, or the first
    after it; 0 before the first of all, the last value after the last."""
    found = 0.0
    for connection in flows.connections(samples):
        known = [(each.time_s, value) for each in connection if (value := count(each)) is not None]
        before = [value for at_s, value in known if at_s <= time_s]
        later = [value for at_s, value in known if at_s > time_s]
        if after and later:
            found += later[0]
        elif before:
            found += before[-1]
    return found


def _interface(group: GroupEvidence, *, alone: bool) -> Iterator[str]:
    """Bytes of the client's interface in the direction of the data.

    They are never fewer than what the tool counted. They are never many more than what the sockets
    sent, where no other group used the interface: else something else did.
    """
    request = group.request
    way = "rx" if flows.is_reverse(request.test) else "tx"
    carried = (group.counters or {}).get(f"{way}_bytes")
    good = flows.good(group)
    results = [flow.result for flow in good if flow.result is not None]
    if carried is None or not good or len(results) < len(good):
        return
    size = math.fsum(result.rate_bps * result.elapsed_s / 8 for result in results)
    late = math.fsum(result.rate_bps * COUNTERS_LATE_S / 8 for result in results)
    if size - late > carried * (1 + TOLERANCE):
        yield (
            f"{_megabytes(size)} as {request.tool} tells, but the client's interface carried "
            f"{_megabytes(carried)} ({way}_bytes)"
        )
        return
    if not alone or len(good) < len(group.instances) or not flows.is_seen_whole(request.test):
        return
    samples = [flows.sender_samples(request.test, flow) for flow in good]
    sizes = [flows.total(each, lambda s: s.bytes_sent) for each in samples]
    counts = [flows.total(each, lambda s: s.segments_out) for each in samples]
    if None in sizes or None in counts:
        return
    sent = sum(each or 0 for each in sizes)
    overhead = sum(each or 0 for each in counts) * SEGMENT_OVERHEAD_BYTES
    life = _life(group)
    each_s = OTHER_BYTES_PER_S + OTHER_BYTES_PER_S_AND_FLOW * len(good)
    besides = OTHER_BYTES + PING_BYTES * len(group.pings) + each_s * (life.most - life.least)
    if carried > (sent + overhead) * (1 + TOLERANCE) + besides:
        yield (
            f"the client's interface carried {_megabytes(carried)} ({way}_bytes), the flows' "
            f"sockets sent {_megabytes(sent)}: something else used it, too"
        )


def _shares_interface(group: GroupEvidence, every: Sequence[GroupEvidence]) -> bool:
    """True if another group had a flow from or to the same client at the same time."""
    hosts = {group.request.client}
    return any(
        other is not group
        and hosts & {other.request.client, other.request.server}
        and _overlap(_life(group), _life(other))
        for other in every
    )


def _life(group: GroupEvidence) -> Range:
    starts = [flow.started_s for flow in group.instances if flow.started_s is not None]
    ends = [flow.ended_s for flow in group.instances if flow.ended_s is not None]
    return Range(min(starts, default=math.inf), max(ends, default=-math.inf))


def _overlap(one: Range, other: Range) -> bool:
    return one.least <= other.most and other.least <= one.most


def _mbit(rate_bps: float) -> str:
    rate = rate_bps / 1e6
    return f"{rate:.0f} Mbit/s" if rate >= 1000 else f"{rate:.4g} Mbit/s"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.4g} MB"
