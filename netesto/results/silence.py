"""Flows of which no data arrived although their tool succeeded."""

from collections.abc import Sequence
from dataclasses import replace

from netesto.flowspec import REQUEST_TESTS, TRACE_TESTS, UDP_TESTS
from netesto.measured import SocketSample
from netesto.model import GroupRequest
from netesto.results.evidence import GroupEvidence, InstanceEvidence

# States in which the kernel may have counted the peer's FIN as a received byte, or its own as an
# acknowledged one.
_FIN_RECEIVED = frozenset({"CLOSE-WAIT", "LAST-ACK", "CLOSING", "CLOSE"})
_FIN_ACKNOWLEDGED = frozenset({"FIN-WAIT-2", "CLOSE"})


def without_silent(groups: Sequence[GroupEvidence]) -> tuple[GroupEvidence, ...]:
    """Mark flows that got no data as failed, if no flow between the same two hosts got any: then
    the path is broken. If another flow did, a silent one was starved: that is a measurement."""
    alive = {
        (group.request.client, group.request.server)
        for group in groups
        for each in group.instances
        if each.result is not None and not silence(group.request, each)
    }
    return tuple(
        group
        if (group.request.client, group.request.server) in alive
        else replace(
            group, instances=tuple(_failed_if_silent(group.request, i) for i in group.instances)
        )
        for group in groups
    )


def _failed_if_silent(request: GroupRequest, instance: InstanceEvidence) -> InstanceEvidence:
    reason = silence(request, instance)
    return replace(instance, status=reason, result=None) if reason else instance


def silence(request: GroupRequest, instance: InstanceEvidence) -> str:
    """A text saying that no data of a flow arrived although its tool succeeded; "" if data arrived,
    or if the flow failed anyway.

    A rate of 0 is not enough: tools count whole transactions, and a large request that was still
    in flight at the end is a measurement. The sockets at either end count the bytes that arrived;
    "" if there are no samples of TCP. Sockets of UDP are not sampled.
    """
    result = instance.result
    if result is None or result.rate_bps is None or result.rate_bps > 0:
        return ""
    # Each line of trace.csv says what became of its flow: what arrived too late is in no rate.
    if request.test in TRACE_TESTS:
        return ""
    if request.test not in UDP_TESTS:
        samples = (*instance.client_samples, *instance.server_samples)
        known = [each for each in samples if each.bytes_received is not None]
        if not known or any(map(_has_carried, known)):
            return ""
    what = "transactions" if request.test in REQUEST_TESTS else "bytes"
    return f"no data: 0 {what} in {result.elapsed_s:.3g} s"


def _has_carried(sample: SocketSample) -> bool:
    """Whether bytes were received or acknowledged, not counting SYN and FIN, as the kernel does."""
    received = (sample.bytes_received or 0) - (sample.state in _FIN_RECEIVED)
    acknowledged = (sample.bytes_acked or 0) - 1 - (sample.state in _FIN_ACKNOWLEDGED)
    return received > 0 or acknowledged > 0
