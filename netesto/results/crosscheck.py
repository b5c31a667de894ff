"""Two sources of one value: a warning if they differ by more than 10 %.

The traffic tool, the sockets at both ends and the client's interface count the same bytes. No two
of them read their counters at the same instant, and samples are an interval apart; so a tool's
value is compared with the minimum and the maximum that the sockets can have counted in the tool's
interval. A correct run is always within that range, even a short one with full buffers on the path.
"""

import heapq
import itertools
import math
import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from netesto.flowspec import REQUEST_TESTS, TRACE_TESTS, VALUE_BYTES
from netesto.measured import Datagrams, SocketSample, TransferResult
from netesto.model import GroupRequest
from netesto.results import flows, formulas, numbers, overall, severity
from netesto.results.evidence import ExperimentEvidence, GroupEvidence, InstanceEvidence
from netesto.results.formulas import MeasuredGroup
from netesto.units import format_bytes

TOLERANCE = 0.10

# Segments: tools and kernel may differ by a handful, whatever the percentage.
FEW_SEGMENTS = 10
# Requests in flight, and one that is due at the end itself.
FEW_REQUESTS = 2

# A tool that waits for data in flight takes longer, by what the buffers of the path hold.
LATE_END_S = 1.0

# A smaller share of late datagrams does not matter.
LATE_DATAGRAMS = 0.01

# Data of a flow arrive sooner after its start, on any path: a lost SYN is retransmitted after a
# second (RFC 6298).
LATE_BEGIN_S = 0.8

# ping is late by less, unless it was stopped.
PING_PAUSE_S = 1.0

# Flows on an idle path wait for buffers in their first seconds, while the kernel enlarges these.
HELD_BACK = 0.25

# Headers of each segment: Ethernet, IPv6 and TCP with all options.
SEGMENT_OVERHEAD_BYTES = 118
# Other traffic of the interface: the tool's control connection, neighbour discovery, pings; and
# what an agent and its controller exchange each second, more with more flows.
OTHER_BYTES = 20_000
OTHER_BYTES_PER_S, OTHER_BYTES_PER_S_AND_FLOW = 10_000, 5_000
PING_BYTES = 98
# The protocol text of KV_RR beside a value.
REQUEST_LINE_BYTES = 64

# Network cards may update their counters this much later.
COUNTERS_LATE_S = 1.0
# The counters of a group are read before its flows are prepared: 0.6 s before a delayed start, and
# longer where preparing takes longer.
COUNTERS_EARLY_S = 1.0

_Count: TypeAlias = Callable[[SocketSample], int | None]


@dataclass(frozen=True, slots=True)
class Range:
    """The minimum and the maximum that a value can have."""

    least: float
    most: float

    def holds(self, value: float, *, slack: float = 0.0) -> bool:
        """True if `value` is within it, with a tolerance of 10 % and `slack`."""
        least, most = self.least * (1 - TOLERANCE), self.most * (1 + TOLERANCE)
        return least - slack <= value <= most + slack

    def nearest(self, value: float) -> float:
        return min(max(value, self.least), self.most)


def warnings(evidence: ExperimentEvidence) -> Iterator[str]:
    """The contradictions, in words: each with both values and their sources. Groups of a trace are
    not compared: their flows begin, pause, and go where it says."""
    own = [group for group in evidence.groups if group.request.test not in TRACE_TESTS]
    interfaces = _Interfaces(evidence.groups)
    for each in own:
        group = MeasuredGroup(each)
        name = f"group {group.request.group}"
        doubts = (
            *_ends(group, evidence.groups), *_buffers(group), *_durations(group), *_begins(group),
            *_paused(each), *_drained(group), *_held_back(group),
        )  # fmt: skip
        yield from (severity.about(name, text) for text in doubts)
        for flow in group.good:
            if flow.result is not None:
                found = _Flow(group.request, flow, flow.result).warnings()
                yield from (severity.about(f"{name}, flow {flow.instance}", text) for text in found)
        alone = not interfaces.shares(each)
        yield from (f"{name}: {text}" for text in _interface(group, alone=alone))
    yield from _starts(own)
    yield from _total(own)
    for capture in evidence.captures:
        for text in (*capture.capture.damage, *capture.capture.remarks):
            yield f"{capture.file}: {text}"


def _ends(group: MeasuredGroup, every: Sequence[GroupEvidence]) -> Iterator[str]:
    """Flows that did not leave their host."""
    host = group.request.client
    if host and host == group.request.server:
        whole = "; rate of the whole experiment includes theirs" if len(every) > 1 else ""
        yield severity.invalidates(
            f"both ends are {host}: the flows passed its loopback interface, and no link{whole}"
        )


def _buffers(group: MeasuredGroup) -> Iterator[str]:
    """Socket buffers that the kernel made smaller than requested, which is no error for it. The
    limits of a socket are twice the size of its buffers (socket(7))."""
    request = group.request
    if not (request.local_buffer_bytes or request.remote_buffer_bytes):
        return
    clients = [each for flow in group.good for each in flow.client_samples]
    servers = [each for flow in group.good for each in flow.server_samples]
    for argument, host, requested, samples in (
        ("localBuffer", request.client, request.local_buffer_bytes, clients),
        ("remoteBuffer", request.server, request.remote_buffer_bytes, servers),
    ):
        limits = {
            "net.core.wmem_max": max((each.send_buffer_bytes or 0 for each in samples), default=0),
            "net.core.rmem_max": max(
                (each.receive_buffer_bytes or 0 for each in samples), default=0
            ),
        }
        limited = {name: most // 2 for name, most in limits.items() if 0 < most < 2 * requested}
        if limited:
            yield (
                f"{argument}: a socket buffer at {host} had {format_bytes(min(limited.values()))}, "
                f"requested: {format_bytes(requested)}; {' and '.join(limited)} limited it"
            )


def _held_back(group: MeasuredGroup) -> Iterator[str]:
    """Flows that waited for a buffer, which looks like a slow network."""
    busy_us, request = group.final_mean(lambda each: each.busy_us), group.request
    ends = (request.client, request.server)
    sender, receiver = reversed(ends) if request.is_reverse else ends
    for get, what, sysctl, host in (
        (lambda each: each.buffer_limited_us, "its send buffer", "net.ipv4.tcp_wmem", sender),
        (lambda each: each.window_limited_us, "the receive window", "net.ipv4.tcp_rmem", receiver),
    ):
        limited_us = group.final_mean(get)
        if busy_us and limited_us and limited_us > busy_us * HELD_BACK:
            yield (
                f"held back by {what} for {100 * limited_us / busy_us:.0f} % of its time:"
                f" {sysctl} of {host}, or the buffer that the script sets, limits its rate"
            )


def _durations(group: MeasuredGroup) -> Iterator[str]:
    """The time that the tool reports, compared with the requested one."""
    # The number of transfers decides, not a duration.
    if group.request.count:
        return
    requested_s, flow_count = group.request.duration_s, len(group.good)
    took_s = [result.elapsed_s for result in group.results]
    # Tools run for whole seconds: rounding a fraction is not waiting.
    waiting_s = LATE_END_S if requested_s.is_integer() else 0.0
    most_s = requested_s + max(waiting_s, requested_s * TOLERANCE)
    # With gaps, transfers end with the last that begins in time.
    is_spaced = group.request.gap_s > 0
    early = [each for each in took_s if each < requested_s * (1 - TOLERANCE) and not is_spaced]
    late = [each for each in took_s if each > most_s]
    for found, furthest_s in ((early, min(early, default=0)), (late, max(late, default=0))):
        if found:
            yield (
                f"{_of_flows(len(found), flow_count)} took {furthest_s:.3g} s as "
                f"{group.request.tool} reports; requested: {requested_s:g} s"
            )


_OVER_ALL = "rate is what all of them transferred, from the first begin to the last end"


def _drained(group: MeasuredGroup) -> Iterator[str]:
    """What datagrams gain because queues still drain after the sender's end, if a tool divides all
    that arrived by the sender's time."""
    waiting = group.backlog_max_bytes
    counts_late = any(each.datagrams and each.datagrams.counts_late for each in group.results)
    if not counts_late or not waiting:
        return
    rate_bps = math.fsum(result.rate_bps or 0.0 for result in group.results)
    late_bps = 8 * waiting / min((each.elapsed_s for each in group.results), default=math.inf)
    if late_bps > rate_bps * LATE_DATAGRAMS:
        yield (
            f"rate {_mbit(rate_bps)} may include {_mbit(late_bps)} too much: {group.request.tool} "
            "divides what arrived, also from queues after the sender's end, by the sender's time; "
            "tool=native does not"
        )


def _begins(group: MeasuredGroup) -> Iterator[str]:
    """Data that came long after the start of their flow: a tool then counts at a later time than
    for other flows."""
    asked = group.request
    most_s = max(LATE_BEGIN_S, asked.duration_s * TOLERANCE)
    counted = [flow for flow in group.good if flow.result is not None]
    late_s = [late_s for flow in counted if (late_s := flows.late_s(asked, flow)) > most_s]
    if late_s:
        yield (
            f"the first data of {_of_flows(len(late_s), len(counted))} arrived late, the last more "
            f"than {max(late_s):.3g} s after the start: {_OVER_ALL}"
        )


def _paused(group: GroupEvidence) -> Iterator[str]:
    """A time without echo requests, which nobody could answer. Those that were lost are counted."""
    begin_s, end_s = flows.span_s(group.instances)
    sent = sorted((ping.number, ping.time_s - ping.rtt_ms / 1000) for ping in group.pings)
    # Before and after the flows ping may have been another process.
    sent = [(number, sent_s) for number, sent_s in sent if begin_s <= sent_s <= end_s]
    gaps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(sent) if 0 < a[0] < b[0]]
    if not gaps:
        return
    interval_s = statistics.median(gap_s / count for count, gap_s in gaps)
    longest_s = max(gap_s - (count - 1) * interval_s for count, gap_s in gaps)
    if longest_s > interval_s + PING_PAUSE_S:
        yield f"ping sent no request for {longest_s:.3g} s; otherwise every {interval_s:.3g} s"


def _starts(groups: Sequence[GroupEvidence]) -> Iterator[str]:
    """Groups that the script started one after the other."""
    began_s = [
        (min(started_s) - each.request.delay_s, each.request)
        for each in groups
        if (started_s := [f.started_s for f in flows.good(each) if f.started_s is not None])
    ]
    if len(began_s) < 2:
        return
    (first_s, first), *_, (last_s, last) = sorted(began_s, key=itemgetter(0))
    apart_s = last_s - first_s
    if apart_s > max(LATE_BEGIN_S, TOLERANCE * max(asked.duration_s for _, asked in began_s)):
        yield (
            f"group {last.group} began {apart_s:.3g} s after group {first.group}, beside delays: "
            f"{_OVER_ALL}"
        )


def _total(groups: Sequence[GroupEvidence]) -> Iterator[str]:
    """Flows at different times of which it is not known exactly when they were measured: then
    the time of all, by which their data are divided, is not either."""
    every = [MeasuredGroup(each) for each in groups]
    mean = overall.mean_rate(every, formulas.goodput_mbit_per_s)
    if not overall.is_other(math.fsum(rate for each in every for rate in each.rates), mean):
        return
    timed = [
        (begins_s, flow.result.elapsed_s, group.request.tool)
        for group in every
        for flow in group.good
        if flow.result is not None and (begins_s := flows.begins_s(group.request, flow))
    ]
    # A flow that begins first and ends last shifts both together.
    firsts = heapq.nsmallest(2, timed, key=lambda each: each[0][0])
    lasts = heapq.nlargest(2, timed, key=lambda each: each[0][1] + each[1])
    whole_s = max(begins_s[0] + took_s for begins_s, took_s, _ in timed) - firsts[0][0][0]
    most_s = max(
        last[1] if first is last else last[0][1] + last[1] - first[0][0]
        for first in firsts
        for last in lasts
    )
    share = 1 - whole_s / most_s
    if share > overall.RATE_TOLERANCE:
        tools = "/".join(dict.fromkeys(tool for (first, last), _, tool in timed if first < last))
        yield (
            f"rate of all flows may be up to {100 * share:.2g} % too high: {tools} does not report "
            "when it began to measure, and the flows ran at different times; tool=native does"
        )


@dataclass(frozen=True, slots=True)
class _Flow:
    """A flow, with the report of the traffic tool."""

    request: GroupRequest
    flow: InstanceEvidence
    result: TransferResult

    def warnings(self) -> Iterator[str]:
        flow, elapsed_s = self.flow, self.result.elapsed_s
        yield from self.result.doubts
        if unfinished := self.result.unfinished:
            begun = unfinished + (self.result.latencies or 0)
            yield f"{unfinished} of {begun} transfers were not completed: no percentile has them"
        if flow.started_s is not None and flow.ended_s is not None:
            lived_s = flow.ended_s - flow.started_s
            if elapsed_s > lived_s * (1 + TOLERANCE):
                yield (
                    f"it took {elapsed_s:.3g} s as {self.request.tool} reports, "
                    f"but its process lived {lived_s:.3g} s"
                )
        if self.result.datagrams is not None:
            yield from self._datagrams(self.result.datagrams)
        if flows.is_seen_whole(self.request.test):
            yield from self._rate()
            yield from self._retransmissions()
            yield from self._packets()
        yield from self._unanswered()

    def _datagrams(self, found: Datagrams) -> Iterator[str]:
        """Losses that are not the path's: datagrams that were not sent, or not read."""
        requested_bps = self.request.bitrate_bps
        sent_bps = found.sent_bps
        if requested_bps and sent_bps is not None and sent_bps < requested_bps * (1 - TOLERANCE):
            late = f": it was too late for {found.skipped} datagrams" if found.skipped else ""
            yield (f"it sent {_mbit(sent_bps)}; requested: {_mbit(requested_bps)}{late}")
        if found.dropped:
            yield (
                f"{found.dropped} of the {found.lost} lost datagrams reached the server, whose "
                "socket had no room for them: remoteBuffer= makes it larger"
            )

    def _rate(self) -> Iterator[str]:
        """Bytes that the tool counted, compared with those that arrived in order at the receiver's
        socket, else with those acknowledged at the sender's."""
        test, elapsed_s, rate_bps = self.request.test, self.result.elapsed_s, self.result.rate_bps
        if rate_bps is None:
            return
        received = flows.receiver_samples(self.request, self.flow)
        where = "bytes_received of the receiver's socket"
        found = self._counted(received, lambda sample: sample.bytes_received, least=_read_bytes)
        if found is None:
            where = "bytes_acked of the sender's socket"
            sent = flows.sender_samples(self.request, self.flow)
            found = self._counted(sent, lambda sample: sample.bytes_acked)
        # Only sockets count requests in flight.
        slack = self.request.request_bytes if test in REQUEST_TESTS else 0
        if test == "KV_RR":
            slack = (self.request.size_bytes or VALUE_BYTES) + REQUEST_LINE_BYTES
        size = rate_bps * elapsed_s / 8
        if found is not None and not found.holds(size, slack=slack):
            there_bps = found.nearest(size) * 8 / elapsed_s
            yield severity.invalidates(
                f"rate {_mbit(rate_bps)} as {self.request.tool} reports, {_mbit(there_bps)} by "
                f"{where}"
            )

    def _retransmissions(self) -> Iterator[str]:
        again = flows.told_retransmits(self.request, self.result)
        samples = flows.sender_samples(self.request, self.flow)
        found = self._counted(
            samples,
            lambda sample: sample.total_retransmits,
            # A tool reads the counter when it stops sending, or when all data have arrived.
            lasting_s=self.request.duration_s,
            is_since_start=self.result.counts_omitted,
        )
        if again is not None and found is not None and not found.holds(again, slack=FEW_SEGMENTS):
            yield (
                f"{again} segments retransmitted as {self.request.tool} reports, "
                f"{found.nearest(again):.0f} by the sender's socket"
            )

    def _unanswered(self) -> Iterator[str]:
        """Requests that no latency has, and a rate of requests that was not achieved."""
        rate, result = self.request.requests_per_s, self.result
        if result.unanswered:
            yield f"{result.unanswered} requests had no reply within 1 s: no latency has them"
        if not rate or result.latencies is None or result.max_latency_us is None:
            return
        missing = rate * self.request.duration_s - result.latencies
        # More than the maximum latency explains: a stall at the end is in no latency.
        if missing > rate * result.max_latency_us / 1e6 + FEW_REQUESTS:
            yield (
                f"{missing:.0f} requests that were due had no reply when the flow ended, or were "
                "lost: no latency has them"
            )
        elif missing > max(FEW_REQUESTS, rate * self.request.duration_s * TOLERANCE):
            yield (
                f"{result.latencies / self.request.duration_s:.4g} requests a second had a reply; "
                f"requested: {rate}: each waits for the reply before it, which its latency includes"
            )

    def _packets(self) -> Iterator[str]:
        """Segments retransmitted by captured packets, compared with the sender's socket."""
        samples = flows.sender_samples(self.request, self.flow)
        again = numbers.total(each.segments_again for each in self.flow.captured)

        def count(sample: SocketSample) -> int | None:
            return sample.total_retransmits

        last = flows.total(samples, count)
        end_s = (self.flow.started_s or 0.0) + self.result.elapsed_s
        if again is None or last is None or _break_off(samples, end_s):
            return
        found = Range(last, last + _unseen(samples, count))
        if not found.holds(again, slack=FEW_SEGMENTS):
            yield (
                f"{again:.0f} segments retransmitted by the captured packets, "
                f"{found.nearest(again):.0f} by the sender's socket"
            )

    def _counted(
        self,
        samples: Sequence[SocketSample],
        count: _Count,
        *,
        least: _Count | None = None,
        lasting_s: float = math.inf,
        is_since_start: bool = False,
    ) -> Range | None:
        """What the sockets counted in the tool's interval; None if unknown. `least`: what the tool
        has got of it. `is_since_start`: the tool also counted in what it omits.

        The interval begins after the start of the process, at the latest by as much as the process
        lived longer than the tool measured; what is omitted comes first. It lasts as long as the
        tool reports, or, if the tool may have read its counter earlier, at least `lasting_s`.
        """
        flow, elapsed_s, omit_s = self.flow, self.result.elapsed_s, self.request.omit_s
        last = flows.total(samples, count)
        if last is None or flow.started_s is None or flow.ended_s is None or elapsed_s <= 0:
            return None
        if _break_off(samples, flow.started_s + elapsed_s):
            return None
        earliest_s = flow.started_s + omit_s
        latest_s = max(earliest_s, flow.ended_s - elapsed_s)
        end_s = earliest_s + min(elapsed_s, lasting_s)
        omitted = Range(0, 0)
        if omit_s > 0 and not is_since_start:
            before = _at(samples, count, earliest_s)
            omitted = Range(before, _at(samples, count, latest_s, after=True))
        low = max(0.0, _at(samples, least or count, end_s) - omitted.most)
        unseen = _unseen(samples, count) if least is None else self._unseen_bytes(samples, count)
        return Range(low, max(low, last + unseen - omitted.least))

    def _unseen_bytes(self, samples: Sequence[SocketSample], count: _Count) -> float:
        """What came after the last samples: a flow may have become faster then, as the tool's
        interim results show."""
        last_s = max(each.time_s for each in samples)
        late = (each for each in self.result.intervals if each.end_s > last_s)
        bits = math.fsum(each.rate_bps * (each.end_s - each.start_s) for each in late)
        return max(_unseen(samples, count), 0.0 if flows.are_ends_known(samples) else bits / 8)


def _read_bytes(sample: SocketSample) -> int | None:
    """A tool counts what it has read. One that gets no processor leaves megabytes unread."""
    received = sample.bytes_received
    return None if received is None else max(0, received - (sample.unread_bytes or 0))


def _break_off(samples: Sequence[SocketSample], end_s: float) -> bool:
    """True if samples end long before the flows, for example because the sampler was killed: then
    socket values do not cover the whole flow."""
    times_s = sorted({each.time_s for each in samples})
    gap_s = max((after - before for before, after in itertools.pairwise(times_s)), default=0.0)
    is_closed = any(each.state == "CLOSE" for each in samples)
    return bool(times_s) and not is_closed and times_s[-1] + 2 * gap_s < end_s


def _unseen(samples: Sequence[SocketSample], count: _Count) -> float:
    """What connections may have counted after their last sample, unless it is a final one: at most
    as much as between any two earlier samples."""
    found = 0.0
    for connection in flows.connections(samples):
        if connection[-1].state != "CLOSE":
            known = [value for each in connection if (value := count(each)) is not None]
            found += max(
                (after - before for before, after in itertools.pairwise([0, *known])), default=0
            )
    return found


def _at(
    samples: Sequence[SocketSample], count: _Count, time_s: float, *, after: bool = False
) -> float:
    """The counts of a flow's connections at the last sample before an instant, or the first after
    it; 0 before the first sample, the last value after the last."""
    found = 0.0
    for connection in flows.connections(samples):
        known = [(each.time_s, value) for each in connection if (value := count(each)) is not None]
        before = [value for at_s, value in known if at_s <= time_s]
        later = [value for at_s, value in known if at_s > time_s]
        found += later[0] if after and later else before[-1] if before else 0
    return found


def _interface(group: MeasuredGroup, *, alone: bool) -> Iterator[str]:
    """Bytes of the client's interface in the direction of the data.

    They are never fewer than the tool's count. If no other group used the interface (`alone`), they
    hardly exceed what the sockets sent, unless other traffic used it.
    """
    request, results = group.request, group.results
    way = "rx" if request.is_reverse else "tx"
    carried = group.counter(f"{way}_bytes")
    if carried is None or not results or len(results) < len(group.good):
        return
    size = math.fsum((result.rate_bps or 0.0) * result.elapsed_s / 8 for result in results)
    late = math.fsum((result.rate_bps or 0.0) * COUNTERS_LATE_S / 8 for result in results)
    if size - late > carried * (1 + TOLERANCE):
        yield (
            f"{_megabytes(size)} as {request.tool} reports, but the client's interface carried "
            f"{_megabytes(carried)} ({way}_bytes)"
        )
        return
    sent = group.total(lambda sample: sample.bytes_sent)
    segments = group.total(lambda sample: sample.segments_out)
    if not alone or group.flows_failed or sent is None or segments is None:
        return
    unseen = 0.0
    for flow in group.good:
        lasted_s = flow.result.elapsed_s if flow.result is not None else 0.0
        samples = flows.sender_samples(request, flow)
        if _break_off(samples, (flow.started_s or 0.0) + lasted_s):
            return
        unseen += _unseen(samples, lambda sample: sample.bytes_sent)
    life = _life(group.evidence)
    each_s = OTHER_BYTES_PER_S + OTHER_BYTES_PER_S_AND_FLOW * len(results)
    others = (
        OTHER_BYTES + PING_BYTES * len(group.evidence.pings) + each_s * (life.most - life.least)
    )
    overhead = 1 + segments * SEGMENT_OVERHEAD_BYTES / max(1, sent)
    if carried > (sent + unseen) * overhead * (1 + TOLERANCE) + others:
        yield (
            f"the client's interface carried {_megabytes(carried)} ({way}_bytes), the flows' "
            f"sockets sent {_megabytes(sent)}: other traffic used it, too"
        )


class _Interfaces:
    """When flows began and ended from and to each host."""

    def __init__(self, groups: Iterable[GroupEvidence]) -> None:
        self._begins_s: dict[str, list[float]] = defaultdict(list)
        self._ends_s: dict[str, list[float]] = defaultdict(list)
        for group in groups:
            life = _life(group)
            # Nothing is known of the others: some flow has no time, or a clock was set.
            if life.least <= life.most:
                for host in {group.request.client, group.request.server}:
                    self._begins_s[host].append(life.least)
                    self._ends_s[host].append(life.most)
        for times in (*self._begins_s.values(), *self._ends_s.values()):
            times.sort()

    def shares(self, group: GroupEvidence) -> bool:
        """True if another group had a flow from or to the same client while counters were
        compared."""
        own, host = _life(group), group.request.client
        if own.least > own.most:
            return False
        begun = bisect_right(self._begins_s[host], own.most)
        over = bisect_left(self._ends_s[host], own.least - COUNTERS_EARLY_S)
        # Its own is one of them.
        return begun - over > 1


def _life(group: GroupEvidence) -> Range:
    return Range(*flows.span_s(group.instances))


def _of_flows(count: int, every: int) -> str:
    return "its flow" if every == 1 else f"{count} of {every} flows"


def _mbit(rate_bps: float) -> str:
    rate = rate_bps / 1e6
    return f"{rate:.0f} Mbit/s" if rate >= 1000 else f"{rate:.4g} Mbit/s"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.4g} MB"
