"""Every formula over the measurements of a group's flows. Pure.

Only flows that ended well are measured. An unknown value is None or the empty text, never 0.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from netesto.flowspec import LINK_TESTS, UDP_TESTS, FlowSpec
from netesto.measured import CpuSample, Datagrams, SocketSample, TransferResult
from netesto.model import GroupRequest
from netesto.packets.found import CapturedFlow
from netesto.results import flows, latency, numbers
from netesto.results.evidence import (
    DAMAGED,
    FAILED,
    OK,
    PARTIAL,
    GroupEvidence,
    InstanceEvidence,
    Source,
)
from netesto.results.queues import Column, Queue

# By how much the packets of the interface may differ from the segments of the sockets ...
PACKETS_TOLERANCE = 0.10
# ... and how many more whatever the flows sent: the tool's control connection, neighbour discovery.
# Pings are known.
OTHER_PACKETS = 50

# Those of latencies that are columns.
PERCENTILES = (50, 90, 99, 99.9, 99.99, 99.999)

Values: TypeAlias = Mapping[str, str]
"""The texts of a group, by key."""

Rate: TypeAlias = Callable[[TransferResult], float | None]
"""What a flow transferred per second."""

Counting: TypeAlias = tuple[str, int, int]
"""The location of a counter, and its first and last value during a group."""


@dataclass(frozen=True)
class MeasuredGroup:
    """A group's evidence, and what its columns are computed from. `description` is DESC, `warnings`
    are those about the group and about the whole experiment."""

    evidence: GroupEvidence
    description: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def request(self) -> GroupRequest:
        return self.evidence.request

    @cached_property
    def good(self) -> list[InstanceEvidence]:
        return flows.good(self.evidence)

    @cached_property
    def results(self) -> list[TransferResult]:
        """The report of the traffic tool on each flow."""
        return [flow.result for flow in self.good if flow.result is not None]

    @property
    def latency_tail_percent(self) -> float | None:
        """The highest of the percentiles that rests on enough slower latencies in each flow; 0 if
        none does."""
        counts = [result.latencies for result in self.results if result.latencies is not None]
        if not counts:
            return None
        few = min(counts)
        return max((each for each in PERCENTILES if not numbers.is_few(few, each / 100)), default=0)

    @cached_property
    def datagrams(self) -> list[Datagrams]:
        """The fate of the datagrams of each flow of UDP_STREAM."""
        return [result.datagrams for result in self.results if result.datagrams is not None]

    @property
    def rates(self) -> list[float]:
        """Mbit/s of goodput of each flow for which it is known."""
        return [rate for rate in map(goodput_mbit_per_s, self.results) if rate is not None]

    @cached_property
    def measured_s(self) -> list[tuple[float, float] | None]:
        """When the result of each flow was measured."""
        return [flows.measured(self.request, flow) for flow in self.good]

    @cached_property
    def samples(self) -> list[tuple[SocketSample, ...]]:
        """Each flow's samples at the end that sends the data."""
        return [flows.sender_samples(self.request, flow) for flow in self.good]

    @cached_property
    def _steady(self) -> list[tuple[SocketSample, ...]]:
        return [flows.steady_samples(self.request, flow) for flow in self.good]

    @cached_property
    def captured(self) -> list[CapturedFlow]:
        """The results of captures at the senders; empty unless they contain every flow
        completely."""
        each = [flow.captured for flow in self.good]
        return [flow for found in each for flow in found] if all(each) else []

    # ---- outcome ---------------------------------------------------------------------------

    @property
    def flows_failed(self) -> int:
        return len(self.evidence.instances) - len(self.good)

    @property
    def status(self) -> str:
        """ok, partial, damaged, or the reasons for which all flows failed."""
        if self.good:
            return DAMAGED if self.damaged else PARTIAL if self.flows_failed else OK
        reasons = (" ".join(flow.status.split()) or FAILED for flow in self.evidence.instances)
        return "; ".join(dict.fromkeys(reasons)) or "no flow was started"

    @cached_property
    def damaged(self) -> frozenset[Source]:
        """The damaged sources that values depend on: not the sockets of the end that receives, nor
        the samples of a CPU whose load the tool reports."""
        local, remote = self._cpu_of_tool
        is_reverse = self.request.is_reverse
        unused: list[Source] = ["client sockets" if is_reverse else "server sockets"]
        unused += ["client cpu"] if local is not None else []
        unused += ["server cpu"] if remote is not None else []
        return self.evidence.damaged.difference(unused)

    # ---- sockets ---------------------------------------------------------------------------

    def mean(self, get: Callable[[SocketSample], float | None]) -> float | None:
        """The mean of each flow's samples, then over the flows; without the samples that `omit`
        excludes."""
        return numbers.mean(numbers.mean(map(get, samples)) for samples in self._steady)

    def peak(self, get: Callable[[SocketSample], float | None]) -> float | None:
        """The maximum over the samples of each connection, summed over all flows.

        `lost` and `retrans` count segments in that state at one instant: their last value is read
        after the end of the flow and is meaningless.
        """
        if not flows.is_seen_whole(self.request.test):
            return None
        return numbers.total(
            numbers.total(
                numbers.greatest(map(get, connection)) for connection in flows.connections(samples)
            )
            for samples in self.samples
        )

    def total(self, count: Callable[[SocketSample], int | None]) -> float | None:
        """The final value of a counter, summed over all flows."""
        if not flows.is_seen_whole(self.request.test):
            return None
        return numbers.total(flows.total(samples, count) for samples in self.samples)

    def final_mean(self, count: Callable[[SocketSample], int | None]) -> float | None:
        """The final value of a counter: the mean over connections, then over flows."""
        if not flows.is_seen_whole(self.request.test):
            return None
        return numbers.mean(
            numbers.mean(
                numbers.greatest(map(count, connection))
                for connection in flows.connections(samples)
            )
            for samples in self.samples
        )

    @cached_property
    def retransmitted(self) -> float | None:
        """Segments (tcpi_total_retrans)."""
        return self._final(lambda each: each.total_retransmits, flows.told_retransmits)

    @cached_property
    def data_segments(self) -> float | None:
        """Segments with data, retransmissions included (tcpi_data_segs_out: RFC 4898,
        tcpEStatsPerfDataSegsOut; Linux 4.6)."""
        return self._final(lambda each: each.data_segments_out, flows.told_data_segments)

    def _final(
        self,
        count: Callable[[SocketSample], int | None],
        get: Callable[[FlowSpec, TransferResult], int | None],
    ) -> float | None:
        """The final value of a counter, summed over all flows.

        A connection that its tool resets (SO_LINGER 0) loses its counters before the kernel reports
        its end. Then the tool may have read a higher value than the last sample has.
        """
        if not flows.is_seen_whole(self.request.test):
            return None
        found: list[float | None] = []
        for flow, samples in zip(self.good, self.samples, strict=True):
            seen = flows.total(samples, count)
            if seen is not None and flow.result and not flows.are_ends_known(samples):
                seen = max(seen, get(self.request, flow.result) or 0)
            found.append(seen)
        return numbers.total(found)

    @property
    def rtt_us(self) -> float | None:
        rtt_ms = self.mean(lambda sample: sample.rtt_ms)
        return None if rtt_ms is None else rtt_ms * 1000

    # ---- queues ----------------------------------------------------------------------------

    @cached_property
    def _span_s(self) -> tuple[float, float]:
        """From the start of the first flow to the end of the last one."""
        return flows.span_s(self.good)

    @cached_property
    def _load_s(self) -> tuple[float, float]:
        return flows.load_s(self.request, self.good)

    def _of_queues(self, get: Callable[[Queue], Sequence[float | None]]) -> Iterator[list[float]]:
        """The known values of each queue on the path under load, without `omit`."""
        first_s, last_s = self._load_s
        for each in self.evidence.queues:
            yield each.during(first_s + self.request.omit_s, last_s, get(each))

    @property
    def backlog_bytes(self) -> float | None:
        """The highest mean backlog of a queue on the path."""
        return numbers.greatest(map(numbers.mean, self._of_queues(lambda q: q.backlog_bytes)))

    @property
    def backlog_max_bytes(self) -> float | None:
        """The highest backlog of a queue on the path."""
        return numbers.greatest(map(numbers.greatest, self._of_queues(lambda q: q.backlog_bytes)))

    @property
    def queue_delay_us(self) -> float | None:
        """The highest mean of backlog divided by rate, among the queues with a rate; None if one
        that a shaper without a known rate holds back is longer than these."""
        sizes = list(map(numbers.mean, self._of_queues(lambda q: q.backlog_bytes)))
        delays = list(map(numbers.mean, self._of_queues(lambda q: q.delay_us)))
        known = [size for size, delay in zip(sizes, delays, strict=True) if delay is not None]
        shaped = [
            size
            for size, queue in zip(sizes, self.evidence.queues, strict=True)
            if queue.is_shaped_by_classes
        ]
        is_known = (numbers.greatest(shaped) or 0) <= (numbers.greatest(known) or 0)
        return numbers.greatest(delays) if is_known else None

    def queue_counts(self, get: Callable[[Queue], Column]) -> Iterator[Counting]:
        """The counts of the queues on the path while flows ran, as far as they have the counter;
        including packets of other flows."""
        for each in self.evidence.queues if self.good else ():
            found = each.counted(*self._span_s, get(each))
            if found is not None:
                yield each.place, *found

    # ---- other sources ---------------------------------------------------------------------

    @cached_property
    def _cpu_of_tool(self) -> tuple[float | None, float | None]:
        return (
            numbers.mean(result.local_cpu_percent for result in self.results),
            numbers.mean(result.remote_cpu_percent for result in self.results),
        )

    @cached_property
    def cpu(self) -> tuple[float | None, float | None]:
        """% of the CPUs of client and server: as the tool reports, mean over flows; else the mean
        of the samples over time and cores under load."""
        local, remote = self._cpu_of_tool
        return (
            _busy_percent(self.evidence.client_cpu) if local is None else local,
            _busy_percent(self.evidence.server_cpu) if remote is None else remote,
        )

    @property
    def cores(self) -> tuple[float | None, float | None]:
        """% of the processors of client and server that the script watches: mean of the samples
        over time and cores under load."""
        asked, known = self.request, self.evidence
        return (
            _cores_percent(known.client_cpu, asked.client_cores),
            _cores_percent(known.server_cpu, asked.server_cores),
        )

    @cached_property
    def pings(self) -> latency.Latency:
        """The pings of the group, before, under and after load."""
        return latency.split(self.evidence.pings, load=self._load_s, busy=self.evidence.busy)

    @property
    def start_skew_ms(self) -> float | None:
        """Achieved minus requested start, of the flow with the largest deviation."""
        skews = (
            (flow.started_s - flow.asked_start_s) * 1000
            for flow in self.good
            if flow.started_s is not None and flow.asked_start_s is not None
        )
        return max(skews, key=abs, default=None)

    def first_packet_skew_ms(self, first_s: Callable[[CapturedFlow], float | None]) -> float | None:
        """The first such packet of each flow on the wire minus its requested start, of the flow
        with the largest deviation. None unless captures contain every flow completely."""
        skews: list[float] = []
        for flow in self.good:
            known = [each_s for each in flow.captured if (each_s := first_s(each)) is not None]
            if not known or flow.asked_start_s is None:
                return None
            skews.append((min(known) - flow.asked_start_s) * 1000)
        return max(skews, key=abs, default=None)

    def counter(self, name: str) -> int | None:
        """A counter of the client's interface, which includes other traffic."""
        return (self.evidence.counters or {}).get(name)

    def interface_counts(self, name: str) -> Iterator[Counting]:
        """The same, with the interface's count before the group."""
        known, gained = self.evidence, self.counter(name)
        if gained is not None and self.good:
            place = f"{self.request.client}/{known.device}"
            before = (known.counters_before or {}).get(name)
            if before is None:
                # It is unknown which other groups counted the same.
                place, before = f"{place} {self.request.group}", 0
            yield place, before, before + gained

    @property
    def packets(self) -> int | None:
        """Packets of the client's interface in the direction of the data."""
        return self.counter("rx_packets" if self.request.is_reverse else "tx_packets")

    @cached_property
    def packets_fault(self) -> str | None:
        """Why these packets are not those of the flows; "" if they are, None if unknown.

        If segmentation offload works below the counters of an interface, these count super-packets
        of up to 64 kB.
        """
        segments = self.total(lambda sample: sample.segments_out)
        if self.packets is None or not segments or self.retransmitted is None:
            return None
        counts = (
            f"the client's interface counted {self.packets} packets, where the flows' sockets sent "
            f"{segments:.0f} segments"
        )
        if self.packets < segments * (1 - PACKETS_TOLERANCE):
            return f"{counts} (segmentation offload works below the counters)"
        most = segments * (1 + PACKETS_TOLERANCE) + len(self.evidence.pings) + OTHER_PACKETS
        return f"{counts} (others used it, too)" if self.packets > most else ""


def goodput_mbit_per_s(result: TransferResult) -> float | None:
    return None if result.rate_bps is None else result.rate_bps / 1e6


def requested_control(asked: FlowSpec) -> str | None:
    """The congestion control of the sender of the data; datagrams have none, nor has the engine of
    a link."""
    return None if asked.test in UDP_TESTS | LINK_TESTS else asked.congestion_control


def requested_duration_s(asked: FlowSpec) -> float | None:
    """None if none was requested: imported runs, transfers until all are done, engines of links."""
    is_open = asked.lasts_until_done or asked.test in LINK_TESTS
    return None if is_open else asked.duration_s or None


def distinct(texts: Iterable[str | None]) -> str:
    """The different texts, joined by `/`."""
    return "/".join(dict.fromkeys(text for text in texts if text))


def _busy_percent(samples: Iterable[CpuSample]) -> float | None:
    return numbers.mean(numbers.mean(sample.busy_percent) for sample in samples)


def _cores_percent(samples: Iterable[CpuSample], cores: Sequence[int]) -> float | None:
    """Of these cores, if there are samples of all of them."""
    if not cores:
        return None
    shares = [sample.by_core for sample in samples]
    return numbers.mean(
        numbers.mean(each[core] for core in cores) for each in shares if each.keys() >= set(cores)
    )
