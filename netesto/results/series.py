"""series.json: the time series of an experiment, for the graphs of its page.

Times are seconds since the experiment began. A series is columns of equal length; null is unknown.
"""

import hashlib
import itertools
import json
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import cattrs

from netesto.errors import ResultsError
from netesto.files import jsontext
from netesto.flowspec import STREAM_TESTS, FlowSpec
from netesto.measured import CounterSamples, CpuSample, SocketSample
from netesto.model import Address
from netesto.results import durable, flows
from netesto.results.evidence import OK, ExperimentEvidence, GroupEvidence, InstanceEvidence
from netesto.results.queues import Queue

# Another one is refused. Incremented when a reader of the old format would misunderstand the new
# one.
FORMAT = 3

# The first member of the file: the SHA-256 of the others.
_CHECKSUM = re.compile(r'\{\s*"checksum"\s*:\s*"(\w+)"\s*,')

# A flow with more connections has one for each request (TCP_CRR), or for each flow of a trace: they
# make one line of medians, without values that are differences within a connection.
MAX_CONNECTIONS = 16

# More cores in one graph are unreadable; the others are less busy.
MAX_CORES = 16

Column = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSeries:
    """Mbit/s: means over intervals, at the middle of each.

    `source`: "bytes received" by the receiver's socket; else the "tool"; else "bytes acked" at the
    sender's; "" if nothing is known.
    """

    source: str
    time_s: tuple[float, ...] = ()
    mbit_per_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketSeries:
    """One connection, at the end that sends. `acked_mbit_per_s` and `retransmits` are since the
    previous sample, so their first value is unknown."""

    time_s: tuple[float, ...]
    acked_mbit_per_s: Column
    cwnd: Column
    unacked: Column
    rtt_ms: Column
    min_rtt_ms: Column
    retransmits: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagramSeries:
    """The datagrams of a UDP_STREAM: each interval of sending, at its middle. `delay_ms` is the
    mean one-way delay."""

    time_s: tuple[float, ...]
    lost_percent: Column
    jitter_ms: Column
    delay_ms: Column
    reordered: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSeries:
    """One flow. `ca` is the congestion control that its sender really used, if known.

    `lost_s`: when links that programs carry lost frames with data of it, to the millisecond.
    `number` is the instance, or `group.instance` if the rest of the label is that of another group.
    """

    group: int
    instance: int
    test: str
    ca: str
    host: str
    server: str
    number: str
    status: str
    start_s: float | None
    end_s: float | None
    goodput: RateSeries
    sockets: tuple[SocketSeries, ...]
    datagrams: DatagramSeries | None = None
    lost_s: tuple[float, ...] = ()

    @property
    def has_run(self) -> bool:
        """Whether it ended well, or carried data until it failed."""
        return self.status == OK or any(self.goodput.mbit_per_s)

    @property
    def label(self) -> str:
        """`cubic client1→server1 #1`"""
        return f"{self.ca} {self.host}→{self.server} #{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PingSeries:
    """Echoes from one host to another, of all `groups` of the two; `group` is the first of them."""

    group: int
    host: str
    server: str
    time_s: tuple[float, ...]
    rtt_ms: tuple[float, ...]
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSeries:
    """A core: its busy share, %, and the mean share of each of measured.CPU_STATES."""

    core: int
    busy_percent: tuple[float, ...]
    states_percent: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSeries:
    """A host's CPUs, %: the mean of all cores, and the busiest one.

    `cores` are those that `cores=` names, else the busiest, of `cores_count`.
    """

    host: str
    time_s: tuple[float, ...]
    mean_percent: tuple[float, ...]
    busiest_percent: tuple[float, ...]
    cores: tuple[CoreSeries, ...] = ()
    cores_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCounters:
    """What a host counted, by the names of counters: totals per second since the previous sample,
    levels as they were."""

    host: str
    time_s: tuple[float, ...]
    values: Mapping[str, Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSeries:
    """Counters of a kind, and what `measured.Counters` says of it; `units` are those of `values`.
    They are those of a host, over all its flows."""

    name: str
    title: str
    sentence: str
    units: Mapping[str, str]
    drawn: tuple[str, ...]
    hosts: tuple[HostCounters, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All of one experiment. `drops` and `marks` of queues are since the previous sample."""

    exp: int
    duration_s: float
    flows: tuple[FlowSeries, ...]
    pings: tuple[PingSeries, ...] = ()
    cpu: tuple[CpuSeries, ...] = ()
    queues: tuple[Queue, ...] = ()
    counters: tuple[CounterSeries, ...] = ()
    format: int = FORMAT


def write(series: Series, path: Path) -> None:
    """Write `path`; the same series gives the same bytes."""
    text = json.dumps(asdict(series), ensure_ascii=False, separators=(",", ":"))
    # A line for each flow, so that the file can be read and compared.
    text = text.replace('{"group":', '\n{"group":').removeprefix("{") + "\n"
    durable.replace(path, f'{{"checksum":"{_checksum(text)}",{text}', lasting=False)


def _checksum(members: str) -> str:
    return hashlib.sha256(members.encode()).hexdigest()


def read(path: Path) -> Series:
    """Read `path`. ResultsError if it is not a series of this format, or was edited, or is of
    another experiment."""
    fault = ""
    try:
        text = path.read_text(encoding="utf-8")
        found = cattrs.structure(jsontext.parse(text), Series)
        match = _CHECKSUM.match(text)
        if found.format != FORMAT:
            fault = "another version of netesto wrote it"
        elif match is None or match[1] != _checksum(text[match.end() :]):
            fault = "was edited: its checksum differs"
    except (OSError, *jsontext.INVALID, cattrs.BaseValidationError) as error:
        raise ResultsError(f"{path}: not readable as series: {error}") from error
    if path.parent.name.isdecimal() and int(path.parent.name) != found.exp:
        fault = f"it belongs to experiment {found.exp}"
    if fault:
        folder = path.parent.parent
        raise ResultsError(f"{path}: {fault}", remedy=f"`netesto report {folder}` rebuilds it.")
    return found


def build(evidence: ExperimentEvidence) -> Series:
    """The series of an experiment, from its evidence alone."""
    zero_s = evidence.started_s
    return Series(
        exp=evidence.exp,
        duration_s=round(evidence.ended_s - zero_s, 3),
        flows=_numbered(
            [_flow(group, flow, zero_s) for group in evidence.groups for flow in group.instances]
        ),
        pings=tuple(_pings(evidence)),
        cpu=tuple(_processors(evidence)),
        queues=tuple(_queues(evidence)),
        counters=tuple(_counters(evidence)),
    )


def _numbered(each: Sequence[FlowSeries]) -> tuple[FlowSeries, ...]:
    """The flows, with their group in the number if flows of two groups had the same label."""
    groups: dict[tuple[str, str, str], set[int]] = {}
    for flow in each:
        groups.setdefault((flow.ca, flow.host, flow.server), set()).add(flow.group)
    are_alike = [len(groups[flow.ca, flow.host, flow.server]) > 1 for flow in each]
    return tuple(
        replace(flow, number=f"{flow.group}.{flow.number}") if is_alike else flow
        for flow, is_alike in zip(each, are_alike, strict=True)
    )


def _flow(group: GroupEvidence, flow: InstanceEvidence, zero_s: float) -> FlowSeries:
    request = group.request
    samples = flows.connected(flows.sender_samples(request, flow))
    # The requests of a trace are one after the other, to whichever store.
    most = 1 if request.test == "TRACE_KV" else MAX_CONNECTIONS
    sockets = tuple(_sockets(samples, zero_s, most))
    return FlowSeries(
        group=request.group,
        instance=flow.instance,
        test=request.test,
        ca="/".join(flows.congestion_controls(samples)) or request.control,
        host=request.client,
        server=request.server,
        number=str(flow.instance),
        status=" ".join(flow.status.split()),
        start_s=_since(flow.started_s, zero_s),
        end_s=_since(flow.ended_s, zero_s),
        goodput=_goodput(request, flow, sockets, zero_s),
        sockets=sockets,
        datagrams=_datagrams(flow, zero_s),
        lost_s=tuple(dict.fromkeys(round(time_s - zero_s, 3) for time_s in flow.lost_s)),
    )


def _datagrams(flow: InstanceEvidence, zero_s: float) -> DatagramSeries | None:
    found = flow.result.datagrams if flow.result is not None else None
    if found is None or not found.intervals:
        return None
    each = found.intervals
    return DatagramSeries(
        time_s=tuple(round((one.start_s + one.end_s) / 2 - zero_s, 3) for one in each),
        lost_percent=tuple(
            _figures(100 * one.lost / one.sent) if one.sent else None for one in each
        ),
        jitter_ms=tuple(_rounded(one.jitter_ms) for one in each),
        delay_ms=tuple(_rounded(one.delays_ms and one.delays_ms[1]) for one in each),
        reordered=tuple(one.reordered for one in each),
    )


def _since(time_s: float | None, zero_s: float) -> float | None:
    return None if time_s is None else round(time_s - zero_s, 3)


def _goodput(
    asked: FlowSpec, flow: InstanceEvidence, sockets: Sequence[SocketSeries], zero_s: float
) -> RateSeries:
    """The data that arrived, if the receiver's socket was sampled; a tool at the sender counts what
    it passed to TCP, which is ahead by the socket's buffer. Only the tool counts requests."""
    if asked.test in STREAM_TESTS:
        received = flows.connections(flows.connected(flows.receiver_samples(asked, flow)))
        if len(received) == 1:
            rates = _rates(received[0], lambda sample: sample.bytes_received)
            times = [sample.time_s - zero_s for sample in received[0]]
            if (found := _between("bytes received", times, rates)).time_s:
                return found
    intervals = flow.result.intervals if flow.result is not None else ()
    if intervals:
        return RateSeries(
            source="tool",
            time_s=tuple(round((each.start_s + each.end_s) / 2 - zero_s, 3) for each in intervals),
            mbit_per_s=tuple(_figures(each.rate_bps / 1e6) for each in intervals),
        )
    if len(sockets) != 1:
        return RateSeries(source="")
    return _between("bytes acked", sockets[0].time_s, sockets[0].acked_mbit_per_s)


def _between(source: str, times: Sequence[float], rates: Column) -> RateSeries:
    """Rates between two samples, at the middle of their times; empty if none is known."""
    known = [
        (round((times[i - 1] + times[i]) / 2, 3), rate)
        for i, rate in enumerate(rates)
        if rate is not None
    ]
    return RateSeries(
        source=source if known else "",
        time_s=tuple(time_s for time_s, _ in known),
        mbit_per_s=tuple(rate for _, rate in known),
    )


def _sockets(samples: Sequence[SocketSample], zero_s: float, most: int) -> Iterable[SocketSeries]:
    each = flows.connections(samples)
    if len(each) > most:
        return [_medians(samples, zero_s)]
    return [_socket(line, zero_s) for line in each]


def _socket(samples: Sequence[SocketSample], zero_s: float) -> SocketSeries:
    return SocketSeries(
        time_s=tuple(round(sample.time_s - zero_s, 3) for sample in samples),
        acked_mbit_per_s=_rates(samples, lambda s: s.bytes_acked),
        cwnd=tuple(sample.cwnd for sample in samples),
        unacked=tuple(sample.unacked for sample in samples),
        rtt_ms=tuple(_rounded(sample.rtt_ms) for sample in samples),
        min_rtt_ms=tuple(_rounded(sample.min_rtt_ms) for sample in samples),
        retransmits=_growth([s.total_retransmits for s in samples]),
    )


def _medians(samples: Sequence[SocketSample], zero_s: float) -> SocketSeries:
    """Of the samples at each instant."""
    ticks: dict[float, list[SocketSample]] = {}
    for sample in sorted(samples, key=lambda sample: sample.time_s):
        ticks.setdefault(round(sample.time_s - zero_s, 3), []).append(sample)
    none: Column = (None,) * len(ticks)

    def of(get: Callable[[SocketSample], float | None]) -> Column:
        found = (
            [known for each in tick if (known := get(each)) is not None] for tick in ticks.values()
        )
        return tuple(statistics.median_low(known) if known else None for known in found)

    return SocketSeries(
        time_s=tuple(ticks),
        acked_mbit_per_s=none,
        cwnd=of(lambda s: s.cwnd),
        unacked=of(lambda s: s.unacked),
        rtt_ms=of(lambda s: _rounded(s.rtt_ms)),
        min_rtt_ms=of(lambda s: _rounded(s.min_rtt_ms)),
        retransmits=none,
    )


def _rates(samples: Sequence[SocketSample], get: Callable[[SocketSample], int | None]) -> Column:
    """Mbit/s of a counter of bytes, since the previous sample."""
    return _per_second([each.time_s for each in samples], _growth([*map(get, samples)]), 8e-6)


def _growth(counts: Sequence[int | None]) -> tuple[int | None, ...]:
    """The growth of a counter since the previous sample; unknown if it decreased, which means
    another socket."""
    steps = [
        new - old if old is not None and new is not None and new >= old else None
        for old, new in itertools.pairwise(counts)
    ]
    return (*([None] if counts else []), *steps)


def _pings(evidence: ExperimentEvidence) -> Iterator[PingSeries]:
    pairs: dict[tuple[str, Address], list[GroupEvidence]] = {}
    for group in evidence.groups:
        asked = group.request
        pairs.setdefault((asked.client, asked.server_address), []).append(group)
    for groups in pairs.values():
        first = groups[0]
        if first.pings:
            yield PingSeries(
                group=first.request.group,
                host=first.request.client,
                server=first.request.server,
                time_s=tuple(round(each.time_s - evidence.started_s, 3) for each in first.pings),
                rtt_ms=tuple(_figures(each.rtt_ms) for each in first.pings),
                groups=tuple(group.request.group for group in groups),
            )


def _processors(evidence: ExperimentEvidence) -> Iterable[CpuSeries]:
    """Each host once: groups on the same host share its samples."""
    by_host: dict[str, dict[float, CpuSample]] = {}
    watched: dict[str, set[int]] = {}
    for group in evidence.groups:
        request = group.request
        sides = (request.client, group.client_cpu), (request.server, group.server_cpu)
        for host, cores in (
            (request.client, request.client_cores),
            (request.server, request.server_cores),
        ):
            watched.setdefault(host, set()).update(cores)
        for host, each in ((host, each) for host, samples in sides for each in samples):
            if each.busy_percent:
                by_host.setdefault(host, {})[each.time_s] = each
    for host, seen in sorted(by_host.items()):
        samples = [seen[time_s] for time_s in sorted(seen)]
        yield CpuSeries(
            host=host,
            time_s=tuple(round(each.time_s - evidence.started_s, 3) for each in samples),
            mean_percent=tuple(round(statistics.fmean(each.busy_percent), 1) for each in samples),
            busiest_percent=tuple(round(max(each.busy_percent), 1) for each in samples),
            cores=_cores(samples, watched[host]),
            cores_count=len(samples[0].busy_percent),
        )


def _cores(samples: Sequence[CpuSample], watched: Collection[int]) -> tuple[CoreSeries, ...]:
    """The watched cores, else the busiest, in the order of their numbers; none if cores came or
    went."""
    numbers = {each.cores for each in samples}
    if len(numbers) != 1 or not all(each.states for each in samples):
        return ()
    found = [
        CoreSeries(
            core=core,
            busy_percent=tuple(round(each.busy_percent[place], 1) for each in samples),
            states_percent=tuple(
                round(statistics.fmean(shares), 2)
                for shares in zip(*(each.states[place] for each in samples), strict=True)
            ),
        )
        for place, core in enumerate(numbers.pop())
    ]
    if shown := tuple(each for each in found if each.core in watched):
        return shown
    busiest = sorted(found, key=lambda each: -sum(each.busy_percent))[:MAX_CORES]
    return tuple(sorted(busiest, key=lambda each: each.core))


def _queues(evidence: ExperimentEvidence) -> Iterable[Queue]:
    """Each queue on the path of a flow once."""
    found = {
        (queue.place, queue.time_s): queue for group in evidence.groups for queue in group.queues
    }
    for _, queue in sorted(found.items()):
        yield replace(
            queue,
            time_s=tuple(round(time_s - evidence.started_s, 3) for time_s in queue.time_s),
            drops=_growth(queue.drops),
            marks=_growth(queue.marks),
            delay_us=tuple(map(_rounded, queue.delay_us)),
            replaced_s=tuple(round(time_s - evidence.started_s, 3) for time_s in queue.replaced_s),
        )


def _counters(evidence: ExperimentEvidence) -> Iterable[CounterSeries]:
    for each in evidence.counters:
        kind = each.kind
        shown = _counts if kind.are_levels else _count_rates
        yield CounterSeries(
            name=kind.name,
            title=kind.title,
            sentence=kind.sentence,
            units={name: kind.unit(name) for name in kind.units},
            drawn=kind.drawn,
            hosts=tuple(
                HostCounters(
                    host=host,
                    time_s=tuple(round(time_s - evidence.started_s, 3) for time_s in found.time_s),
                    values={name: shown(found, name) for name in kind.units},
                )
                for host, found in sorted(each.hosts.items())
            ),
        )


def _counts(samples: CounterSamples, name: str) -> tuple[int | None, ...]:
    """Unknown of a counter that the kernel does not have."""
    return samples.counts.get(name, (None,) * len(samples.time_s))


def _count_rates(samples: CounterSamples, name: str) -> Column:
    return _per_second(samples.time_s, _growth(_counts(samples, name)))


def _per_second(times_s: Sequence[float], growth: Column, unit: float = 1.0) -> Column:
    """The growth of a counter since the sample before, in units a second."""
    gaps_s = (after - before for before, after in itertools.pairwise(times_s))
    steps = zip(growth[1:], gaps_s, strict=True)
    rates = (None if n is None or gap_s <= 0 else _figures(n * unit / gap_s) for n, gap_s in steps)
    return (*growth[:1], *rates)


def _rounded(value: float | None) -> float | None:
    return None if value is None else _figures(value)


def _figures(value: float) -> float:
    """Five significant digits: finer than any line on a screen, a third of the bytes."""
    return float(f"{value:.5g}")
