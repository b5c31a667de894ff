"""What the samples of one flow tell, whatever is derived from them. Pure."""

import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence

from netesto.model import SocketSample
from netesto.results.evidence import OK, GroupEvidence, InstanceEvidence


def good(group: GroupEvidence) -> list[InstanceEvidence]:
    """The flows that ended well; only these are measured."""
    return [flow for flow in group.instances if flow.status == OK and flow.result is not None]


def is_reverse(test: str) -> bool:
    """True where the server sends the data."""
    return test == "TCP_MAERTS"


def sender_samples(test: str, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """Samples at the end that sends the data: only there do cwnd, RTT and losses mean anything."""
    return flow.server_samples if is_reverse(test) else flow.client_samples


def receiver_samples(test: str, flow: InstanceEvidence) -> tuple[SocketSample, ...]:
    """Samples at the end that receives the data."""
    return flow.client_samples if is_reverse(test) else flow.server_samples


def steady_samples(test: str, flow: InstanceEvidence, *, omit_s: float) -> tuple[SocketSample, ...]:
    """The sender's samples without those of the first `omit_s` seconds, which the script leaves
    out of the result."""
    samples = sender_samples(test, flow)
    if flow.started_s is None or omit_s <= 0:
        return samples
    return tuple(sample for sample in samples if sample.time_s >= flow.started_s + omit_s)


def connections(samples: Iterable[SocketSample]) -> list[list[SocketSample]]:
    """The samples of each connection, in time order. A flow has one unless `parallel` is set or
    the test opens new ones (TCP_CRR)."""
    by_ports: dict[tuple[int, int], list[SocketSample]] = {}
    for sample in samples:
        by_ports.setdefault((sample.local_port, sample.peer_port), []).append(sample)
    return list(by_ports.values())


def gaps_s(samples: Iterable[SocketSample]) -> Iterator[float]:
    """Seconds between consecutive samples of a connection."""
    for connection in connections(samples):
        times = [sample.time_s for sample in connection]
        yield from (after - before for before, after in itertools.pairwise(times))


def median_gap_ms(samples: Sequence[SocketSample]) -> float | None:
    """The sampling interval that was achieved."""
    gaps = list(gaps_s(samples))
    return statistics.median(gaps) * 1000 if gaps else None
