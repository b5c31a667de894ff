"""The samples of one flow, selected for each purpose. Pure."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from netesto.flowspec import COMPLETION_TESTS, MANY_CONNECTIONS, TRACE_TESTS, UDP_TESTS, FlowSpec
from netesto.measured import SocketSample, TransferResult
from netesto.results import numbers
from netesto.results.evidence import OK, GroupEvidence, InstanceEvidence
from netesto.results.manifest import InstanceRecord

# Before the handshake a socket has the kernel's defaults (cwnd 10, MSS 524) and no RTT; a closed
# one has only its final counts.
_UNCONNECTED = frozenset({"SYN-SENT", "SYN-RECV", "CLOSE"})

# How far the achieved sampling interval may be from the requested one without a warning.
INTERVAL_TOLERANCE = 0.10
ENOUGH_FOR_P99 = 100
# What iperf3 sends on a connection before its test begins, and a SYN.
_COOKIE_BYTES = 38
# Of a shorter time without samples, the p99 decides.
HOLE_MS = 100.0


def good(group: GroupEvidence) -> list[InstanceEvidence]:
    """The flows that ended well; only these are measured."""
    return [flow for flow in group.instances if flow.status == OK]


def span_s(flows: Iterable[InstanceEvidence | InstanceRecord]) -> tuple[float, float]:
    """From the first start of flows to the last end; infinite, and empty, if none is known."""
    times = [(flow.started_s, flow.ended_s) for flow in flows]
    starts = (started_s for started_s, _ in times if started_s is not None)
    ends = (ended_s for _, ended_s in times if ended_s is not None)
    return min(starts, default=math.inf), max(ends, default=-math.inf)


def connected(samples: Iterable[SocketSample]) -> tuple[SocketSample, ...]:
    """The samples of established connections, whose values at an instant are meaningful."""
    return tuple(sample for sample in samples if sample.state not in _UNCONNECTED)


def sender_samples(asked: FlowSpec, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """Samples at the end that sends the data; only there are cwnd, RTT and losses meaningful."""
    return flow.server_samples if asked.is_reverse else flow.client_samples


def receiver_samples(asked: FlowSpec, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """Samples at the end that receives the data."""
    return flow.client_samples if asked.is_reverse else flow.server_samples


def told_retransmits(asked: FlowSpec, result: TransferResult) -> int | None:
    """What the tool reports of the end that sends the data."""
    return result.remote_retransmits if asked.is_reverse else result.local_retransmits


def told_data_segments(asked: FlowSpec, result: TransferResult) -> int | None:
    """The same of the segments with data."""
    return result.remote_data_segments if asked.is_reverse else result.local_data_segments


def steady_samples(asked: FlowSpec, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """The sender's samples while it was connected, from the start of the flow on and without the
    first `omit_s` seconds. native connects before the start: until then the socket is idle."""
    samples = connected(sender_samples(asked, flow))
    if flow.started_s is None:
        return samples
    begin_s = flow.started_s + asked.omit_s
    return tuple(sample for sample in samples if sample.time_s >= begin_s)


def connections(samples: Iterable[SocketSample]) -> list[list[SocketSample]]:
    """The samples of each connection, in time order. A flow has one unless `parallel` is set or
    the test opens new ones (TCP_CRR)."""
    found: dict[tuple[int, int, int | None], list[SocketSample]] = {}
    for sample in samples:
        found.setdefault((sample.local_port, sample.peer_port, sample.cookie), []).append(sample)
    return list(found.values())


def gaps_s(samples: Iterable[SocketSample]) -> list[list[float]]:
    """Seconds between consecutive samples, of each connection. Final counts come between ticks."""
    ticks = (sample for sample in samples if sample.state != "CLOSE")
    times_s = ([sample.time_s for sample in connection] for connection in connections(ticks))
    return [[b - a for a, b in itertools.pairwise(each)] for each in times_s]


def late_s(asked: FlowSpec, flow: InstanceEvidence) -> float:
    """The minimum delay of the flow's first data after its start, in seconds; 0 if unknown, as for
    UDP."""
    if flow.started_s is None or not is_seen_whole(asked.test):
        return 0.0
    firsts = [
        next(filter(_has_data, samples), None)
        for samples in (receiver_samples(asked, flow), sender_samples(asked, flow))
    ]
    first_s = min((each.time_s for each in firsts if each is not None), default=-math.inf)
    return max(0.0, first_s - flow.started_s - asked.interval_s)


def _carrying_s(asked: FlowSpec, flow: InstanceEvidence) -> float:
    """The instant of the first sample with data of the flow; infinite if unknown, as for UDP."""
    return min(
        (
            sample.time_s
            for sample in (*receiver_samples(asked, flow), *sender_samples(asked, flow))
            if max(sample.bytes_received or 0, sample.bytes_acked or 0) > _COOKIE_BYTES
        ),
        default=math.inf,
    )


def _has_data(sample: SocketSample) -> bool:
    # A sender counts its SYN as acknowledged.
    return (sample.bytes_received or 0) > 0 or (sample.bytes_acked or 0) > 1


def congestion_controls(samples: Sequence[SocketSample]) -> list[str]:
    """Those that controlled data. A tool may choose its own when it is connected: until then, and
    without data, a socket has the host's default."""
    sending = [sample for sample in samples if _has_data(sample)] or samples
    return list(dict.fromkeys(s.congestion_control for s in sending if s.congestion_control))


def begins_s(asked: FlowSpec, flow: InstanceEvidence) -> tuple[float, float] | None:
    """The earliest and the latest begin of the interval of a flow's result; None if unknown.

    It lasts as long as the tool reports, within the life of its process. If the tool does not
    report when it began: at the latest when a sample shows its data.
    """
    if flow.result is None or flow.started_s is None:
        return None
    begin_s = flow.started_s + asked.omit_s + late_s(asked, flow)
    is_told = bool(flow.result.intervals) and not asked.omit_s
    if is_told:
        begin_s = max(begin_s, flow.result.intervals[0].start_s)
    if flow.ended_s is None:
        return begin_s, begin_s
    latest_s = max(flow.started_s, flow.ended_s - flow.result.elapsed_s)
    begin_s = min(begin_s, latest_s)
    # The process may live much longer than it measures.
    latest_s = min(latest_s, _carrying_s(asked, flow) + asked.omit_s)
    if flow.result.has_exact_begin:
        return min(begin_s, latest_s), min(begin_s, latest_s)
    return begin_s, max(begin_s, latest_s)


def measured(asked: FlowSpec, flow: InstanceEvidence) -> tuple[float, float] | None:
    """The interval of a flow's result, at the earliest; None if unknown."""
    begins = begins_s(asked, flow)
    if flow.result is None or begins is None:
        return None
    return begins[0], begins[0] + flow.result.elapsed_s


def load_s(asked: FlowSpec, flows: Iterable[InstanceEvidence]) -> tuple[float, float]:
    """While flows were to run, not while a tool only waits (1 s for the last datagrams, 4 s at the
    end of a TCP_CRR); of transfers, until the end of the last. Infinite if no start is known."""
    known = [flow for flow in flows if flow.started_s is not None]
    starts = [flow.started_s for flow in known if flow.started_s is not None]
    first_s, last_s = min(starts, default=-math.inf), max(starts, default=math.inf)
    if asked.test in COMPLETION_TESTS:
        times_s = (measured(asked, flow) for flow in known)
        return first_s, max((each[1] for each in times_s if each is not None), default=last_s)
    return first_s, last_s + asked.omit_s + asked.duration_s


def unsampled_s(asked: FlowSpec, flow: InstanceEvidence) -> tuple[float, float]:
    """The time without samples of the sender's socket, at the start and at the end of the
    measurement; 0 if unknown."""
    times_s = measured(asked, flow)
    samples = sender_samples(asked, flow)
    # Flows of a trace begin at times of their own.
    is_seen = is_seen_whole(asked.test) and asked.test not in TRACE_TESTS
    if times_s is None or not samples or not is_seen:
        return 0.0, 0.0
    begin_s, end_s = times_s
    return samples[0].time_s - begin_s, end_s - samples[-1].time_s


def last_mss_bytes(samples: Iterable[SocketSample]) -> int | None:
    """The last MSS of a flow; None without a sample of its established connection."""
    sizes = [each.mss_bytes for each in connected(samples) if each.mss_bytes is not None]
    return sizes[-1] if sizes else None


def total(
    samples: Iterable[SocketSample], count: Callable[[SocketSample], int | None]
) -> int | None:
    """The sum of the final counts of a flow's connections; None if one is unknown.

    For counts that only grow.
    """
    found = numbers.total(
        numbers.greatest(map(count, connection)) for connection in connections(samples)
    )
    return None if found is None else int(found)


def are_ends_known(samples: Iterable[SocketSample]) -> bool:
    """Whether the kernel reported the final counts of all connections."""
    return all(connection[-1].state == "CLOSE" for connection in connections(samples))


def is_seen_whole(test: str) -> bool:
    """Whether the samples cover the whole life of the flow's connections: not for UDP, nor if each
    transaction has its own connection, of which samples catch only a few."""
    return test not in UDP_TESTS | MANY_CONNECTIONS


@dataclass(frozen=True, slots=True)
class Gaps:
    """The sampling interval that was achieved, in ms: the mean of all, the value that 99 % do not
    exceed (nearest rank), the worst. As text, without "sampled". `connections` were sampled, each
    at all ticks."""

    count: int
    mean_ms: float
    p99_ms: float
    worst_ms: float
    connections: int = 1

    def __str__(self) -> str:
        return (
            f"every {self.mean_ms:.4g} ms, 99 % within {self.p99_ms:.4g} ms, at worst "
            f"{self.worst_ms:.4g} ms"
        )

    def misses(self, requested_ms: float) -> bool:
        """Whether it differs from the request by more than the tolerance: in the mean, in the 99th
        percentile if there are enough samples, or by a gap. Of few samples, one that was late moves
        the mean by more than the tolerance: it is another interval only if the time that all of
        them took differs by one."""
        most_ms = requested_ms * (1 + INTERVAL_TOLERANCE)
        is_late = self.count >= ENOUGH_FOR_P99 and self.p99_ms > most_ms
        each = min(1 / INTERVAL_TOLERANCE, self.count / self.connections)
        is_other = abs(self.mean_ms - requested_ms) * each > requested_ms
        return is_late or is_other or is_hole(self.worst_ms, requested_ms)


def is_hole(gap_ms: float, requested_ms: float) -> bool:
    """Whether a time without samples means that a tick is missing."""
    return gap_ms - requested_ms > max(HOLE_MS, requested_ms * (1 + INTERVAL_TOLERANCE))


def gaps(samples: Iterable[SocketSample]) -> Gaps | None:
    """The achieved sampling interval of a flow; None if no connection has two samples."""
    return summary(*gaps_s(samples))


def summary(*each_s: Iterable[float]) -> Gaps | None:
    """The achieved interval, from the times between samples of each connection; None if there are
    none."""
    found = sorted(gap_s * 1000 for gap_s in itertools.chain(*each_s))
    if not found:
        return None
    rank = math.ceil(len(found) * 0.99)
    mean_ms = statistics.fmean(found)
    return Gaps(len(found), mean_ms, found[rank - 1], found[-1], connections=len(each_s))
