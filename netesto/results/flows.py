"""The samples of one flow: which count for what. Pure."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from netesto.model import MANY_CONNECTIONS, UDP_TESTS, FlowSpec, SocketSample
from netesto.results import numbers
from netesto.results.evidence import OK, GroupEvidence, InstanceEvidence

# Before the handshake a socket has the kernel's defaults (cwnd 10, MSS 524) and no RTT; one that is
# gone has only its final counts.
_UNCONNECTED = frozenset({"SYN-SENT", "SYN-RECV", "CLOSE"})

# How far the achieved sampling interval may be from the requested one without a warning.
INTERVAL_TOLERANCE = 0.10
ENOUGH_FOR_P99 = 100


def good(group: GroupEvidence) -> list[InstanceEvidence]:
    """The flows that ended well; only these are measured."""
    return [flow for flow in group.instances if flow.status == OK]


def connected(samples: Iterable[SocketSample]) -> tuple[SocketSample, ...]:
    """The samples of established connections, whose values at an instant are meaningful."""
    return tuple(sample for sample in samples if sample.state not in _UNCONNECTED)


def sender_samples(asked: FlowSpec, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """Samples at the end that sends the data; only there are cwnd, RTT and losses meaningful."""
    return flow.server_samples if asked.is_reverse else flow.client_samples


def receiver_samples(asked: FlowSpec, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """Samples at the end that receives the data."""
    return flow.client_samples if asked.is_reverse else flow.server_samples


def steady_samples(asked: FlowSpec, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """The sender's samples while it was connected, without the first `omit_s` seconds."""
    samples = connected(sender_samples(asked, flow))
    if flow.started_s is None or asked.omit_s <= 0:
        return samples
    return tuple(sample for sample in samples if sample.time_s >= flow.started_s + asked.omit_s)


def connections(samples: Iterable[SocketSample]) -> list[list[SocketSample]]:
    """The samples of each connection, in time order. A flow has one unless `parallel` is set or
    the test opens new ones (TCP_CRR)."""
    by_ports: dict[tuple[int, int], list[SocketSample]] = {}
    for sample in samples:
        by_ports.setdefault((sample.local_port, sample.peer_port), []).append(sample)
    return list(by_ports.values())


def gaps_s(samples: Iterable[SocketSample]) -> Iterator[float]:
    """Seconds between consecutive samples of a connection. Final counts come between two ticks."""
    ticks = (sample for sample in samples if sample.state != "CLOSE")
    for connection in connections(ticks):
        times = [sample.time_s for sample in connection]
        yield from (after - before for before, after in itertools.pairwise(times))


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
    exceed (nearest rank), the worst. As text, without "sampled"."""

    count: int
    mean_ms: float
    p99_ms: float
    worst_ms: float

    def __str__(self) -> str:
        return (
            f"every {self.mean_ms:.4g} ms, 99 % within {self.p99_ms:.4g} ms, at worst "
            f"{self.worst_ms:.4g} ms"
        )

    def misses(self, requested_ms: float) -> bool:
        """Whether it is other than requested, by more than the tolerance: on average, or, where
        there are enough samples to say so, of every hundredth."""
        most_ms = requested_ms * (1 + INTERVAL_TOLERANCE)
        is_late = self.count >= ENOUGH_FOR_P99 and self.p99_ms > most_ms
        return is_late or abs(self.mean_ms - requested_ms) > requested_ms * INTERVAL_TOLERANCE


def gaps(samples: Iterable[SocketSample]) -> Gaps | None:
    """The achieved sampling interval of a flow; None if no connection has two samples."""
    return summary(gaps_s(samples))


def summary(gaps_s: Iterable[float]) -> Gaps | None:
    """The achieved interval of samples that are so far apart; None if there are none."""
    found = sorted(gap_s * 1000 for gap_s in gaps_s)
    if not found:
        return None
    rank = math.ceil(len(found) * 0.99)
    return Gaps(len(found), statistics.fmean(found), found[rank - 1], found[-1])
