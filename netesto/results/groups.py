"""A group's row: what its evidence says, as key and text. Pure; every formula stands here.

Measurements are over the flows that ended well. Unknown is the empty text, never 0.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from netesto.model import CpuSample, PingSample, SocketSample, TransferResult
from netesto.results import flows, numbers, packets
from netesto.results.columns import MEASURED
from netesto.results.evidence import OK, GroupEvidence, InstanceEvidence, Source
from netesto.results.fields import canonical
from netesto.units import format_size

PARTIAL = "partial"
FAILED = "failed"
DAMAGED = "damaged"

# Decimals of what is written: the last is below what any source here can tell apart.
RATE_DECIMALS = 6  # 1 bit/s in Mbit/s
PERCENT_DECIMALS = 3
TIME_DECIMALS = 3  # ns in µs, µs in ms
CWND_DECIMALS = 3
FAIRNESS_DECIMALS = 6

_FEATURES = (
    "tcpRmem", "tcpWmem", "tso", "lro", "gro", "gso", "rx-frames", "tx-frames", "adaptive-rx",
)  # fmt: skip

_PROCESSORS = frozenset({"localCpu", "remoteCpu"})
_OF_PACKETS = ("retransPkts%", "retransPktsReason")
_OF_SOCKETS = frozenset(
    {"cwnd", "unacked", "rtt", "lost", "retrans", "retrans_total", "data_segs_out", "effCa",
     "effMss", "sampleInterval", "retransSegs%", *_OF_PACKETS}
)  # fmt: skip


def values(
    evidence: GroupEvidence, *, desc: str = "", columns: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Every key of a group. `columns` (OTHER, SWEEP) fill the keys that a group has nothing for."""
    row = _asked(evidence, desc=desc) | _outcome(evidence) | _measured(evidence)
    row |= dict.fromkeys(damaged_keys(evidence), "")
    return with_columns(row, columns or {})


def damaged_keys(evidence: GroupEvidence) -> frozenset[str]:
    """The keys that are empty because what they need is damaged.

    A sum or a mean without one of its flows would be another one: a single damaged file empties
    them for the whole group.
    """
    found: set[str] = set()
    for source in evidence.damaged:
        found.update(_of_source(source, evidence))
    return frozenset(found)


def _of_source(source: Source, evidence: GroupEvidence) -> Iterable[str]:
    """What comes from a source, and would be otherwise without it."""
    is_reverse = flows.is_reverse(evidence.request.test)
    told = [flow.result for flow in flows.good(evidence) if flow.result is not None]
    match source:
        case "tool":
            return {*_rates([]), *_latencies([]), *_PROCESSORS}
        case "client sockets":
            return () if is_reverse else _OF_SOCKETS
        case "server sockets":
            return _OF_SOCKETS if is_reverse else ()
        case "ping":
            return {"pingRtt"}
        case "client cpu":
            is_told = numbers.mean(result.local_cpu_percent for result in told) is not None
            return () if is_told else {"localCpu"}
        case "server cpu":
            is_told = numbers.mean(result.remote_cpu_percent for result in told) is not None
            return () if is_told else {"remoteCpu"}
        case "counters":
            return {*_counters({}), *_OF_PACKETS}
        case "ethtool-k":
            return {"tso", "gso", "lro", "gro"}
        case "ethtool-c":
            return {"rx-frames", "tx-frames", "adaptive-rx"}
        case "sysctl":
            return {"tcpRmem", "tcpWmem"}


def with_columns(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, str]:
    """`row` with the columns of OTHER and SWEEP as they were written.

    What was measured, or is otherwise than the column says, stays: a factor `ca=cubic` does not
    rename the group of the same experiment that ran bbr.
    """
    filled = dict(row)
    own = {canonical(key): key for key in row}
    for name, text in columns.items():
        if canonical(name) in MEASURED:
            continue
        key = own.get(canonical(name), name)
        if not filled.get(key) or same(filled[key], text):
            filled[key] = text
    return filled


def same(one: str, other: str) -> bool:
    """Equal as numbers where both are ("1M", "1000000.0"), else as texts."""
    numbers_ = numbers.parse(one), numbers.parse(other)
    if None in numbers_:
        return one.strip() == other.strip()
    return numbers_[0] == numbers_[1]


def _asked(evidence: GroupEvidence, *, desc: str) -> dict[str, str]:
    request = evidence.request
    return {
        "exp": f"{request.exp}.{request.group}",
        "expNumber": str(request.exp),
        "expName": request.exp_name,
        "desc": desc,
        "test": request.test,
        "host": request.client,
        "fullHost": evidence.full_host,
        "server": request.server,
        "fullServer": evidence.full_server,
        "group": str(request.group),
        "kernel": evidence.kernel,
        "instances": str(request.instances),
        # The number of the group's first flow: a group of the classic tool could start elsewhere.
        "instance": str(min((flow.instance for flow in evidence.instances), default=1)),
        "dur": numbers.short(request.duration_s, TIME_DECIMALS),
        "delay": numbers.short(request.delay_s, TIME_DECIMALS),
        "req": format_size(request.request_bytes),
        "reply": format_size(request.reply_bytes),
        "ca": request.congestion_control,
        "ecn": "" if request.ecn is None else str(int(request.ecn)),
        "tool": request.tool,
    }


def _outcome(evidence: GroupEvidence) -> dict[str, str]:
    failed = [flow for flow in evidence.instances if flow.status != OK]
    if len(failed) < len(evidence.instances) and damaged_keys(evidence):
        status = DAMAGED
    elif not failed:
        status = OK if evidence.instances else "no flow was started"
    elif len(failed) < len(evidence.instances):
        status = PARTIAL
    else:
        reasons = (" ".join(flow.status.split()) or FAILED for flow in failed)
        status = "; ".join(dict.fromkeys(reasons))
    return {"status": status, "flowsFailed": str(len(failed))}


def _measured(evidence: GroupEvidence) -> dict[str, str]:
    """All measurements; for a group without a good flow all keys with nothing in them."""
    good = flows.good(evidence)
    told = [flow.result for flow in good if flow.result is not None]
    row = _rates(told) | _latencies(told) | _sockets(evidence, good) | _processors(evidence, told)
    row |= {
        "pingRtt": numbers.short(
            numbers.mean(ping.rtt_ms * 1000 for ping in _pings(evidence, good)), TIME_DECIMALS
        ),
        "startSkew": numbers.short(_start_skew_ms(good), TIME_DECIMALS),
        **{key: evidence.features.get(key, "") for key in _FEATURES},
        **_counters(evidence.counters or {}),
    }
    row |= _packets(evidence)
    row["retransSegs%"] = retransmitted_segments_percent([row])
    return row if good else dict.fromkeys(row, "")


def _pings(evidence: GroupEvidence, good: Sequence[InstanceEvidence]) -> Iterator[PingSample]:
    """The pings sent while flows were to run: not before the first, nor while a tool only waits
    (4 s at the end of a TCP_CRR)."""
    request = evidence.request
    starts = [flow.started_s for flow in good if flow.started_s is not None]
    first_s, last_s = min(starts, default=-math.inf), max(starts, default=math.inf)
    last_s += request.omit_s + request.duration_s
    return (
        ping for ping in evidence.pings if first_s <= ping.time_s - ping.rtt_ms / 1000 <= last_s
    )


def _packets(evidence: GroupEvidence) -> dict[str, str]:
    counted = packets.counted(evidence)
    return {
        "retransPkts%": "" if counted is None else packets.percent(counted),
        "retransPktsReason": "" if counted is None else counted.fault,
    }


def retransmitted_segments_percent(rows: Iterable[Mapping[str, str]]) -> str:
    """100·Σretrans_total / Σdata_segs_out over the groups where both are known, 3 decimals.

    Both are counts of the sender's tcp_info: tcpi_total_retrans, and tcpi_data_segs_out, in which
    retransmissions count, too (RFC 4898, tcpEStatsPerfDataSegsOut; Linux 4.6).
    """
    known = []
    for row in rows:
        again, sent = numbers.parse(row["retrans_total"]), numbers.parse(row["data_segs_out"])
        if again is not None and sent is not None:
            known.append((again, sent))
    sent = math.fsum(pair[1] for pair in known)
    if sent <= 0:
        return ""
    return numbers.fixed(100 * math.fsum(pair[0] for pair in known) / sent, 3)


def _rates(told: Sequence[TransferResult]) -> dict[str, str]:
    """Mbit/s of goodput: the sum of the flows, the slowest, the fastest; Jain's index of them."""
    rates = [result.rate_bps / 1e6 for result in told]
    return {
        "rate": numbers.short(numbers.total(rates), RATE_DECIMALS),
        "rateMin": numbers.short(numbers.least(rates), RATE_DECIMALS),
        "rateMax": numbers.short(numbers.greatest(rates), RATE_DECIMALS),
        "fairness": numbers.short(numbers.fairness(rates), FAIRNESS_DECIMALS),
        "localRetrans": numbers.short(numbers.total(r.local_retransmits for r in told), 0),
        "remoteRetrans": numbers.short(numbers.total(r.remote_retransmits for r in told), 0),
    }


def _latencies(told: Sequence[TransferResult]) -> dict[str, str]:
    """µs: the least of the minima, the greatest of the maxima; of the mean and each percentile the
    mean over flows, every flow counting alike (percentiles of all flows together cannot be had
    from percentiles of each)."""
    found = {
        "minLatency": numbers.least(result.min_latency_us for result in told),
        "maxLatency": numbers.greatest(result.max_latency_us for result in told),
        "meanLatency": numbers.mean(result.mean_latency_us for result in told),
        "p50Latency": numbers.mean(result.p50_latency_us for result in told),
        "p90Latency": numbers.mean(result.p90_latency_us for result in told),
        "p99Latency": numbers.mean(result.p99_latency_us for result in told),
        "p999Latency": numbers.mean(result.p999_latency_us for result in told),
        "p9999Latency": numbers.mean(result.p9999_latency_us for result in told),
    }
    return {key: numbers.short(value, TIME_DECIMALS) for key, value in found.items()}


def _sockets(evidence: GroupEvidence, good: Sequence[InstanceEvidence]) -> dict[str, str]:
    """What tcp_info says at the end that sends. cwnd, unacked and rtt: the mean of each flow's
    samples, then of the flows."""
    test, omit_s = evidence.request.test, evidence.request.omit_s
    steady = [flows.steady_samples(test, flow, omit_s=omit_s) for flow in good]
    whole = [flows.sender_samples(test, flow) for flow in good]
    rtt_ms = _mean_of_means(steady, lambda sample: sample.rtt_ms)
    gaps_ms = [flows.median_gap_ms(samples) for samples in whole]
    sizes = (flows.last_mss_bytes(samples) for samples in whole)
    counted = {
        "lost": _peaks(whole, lambda sample: sample.lost),
        "retrans": _peaks(whole, lambda sample: sample.retransmits),
        "retrans_total": _totals(whole, lambda sample: sample.total_retransmits),
        "data_segs_out": _totals(whole, lambda sample: sample.data_segments_out),
    }
    return {
        "cwnd": numbers.short(_mean_of_means(steady, lambda s: s.cwnd), CWND_DECIMALS),
        "unacked": numbers.short(_mean_of_means(steady, lambda s: s.unacked), CWND_DECIMALS),
        "rtt": numbers.short(None if rtt_ms is None else rtt_ms * 1000, TIME_DECIMALS),
        **(counted if flows.is_seen_whole(test) else dict.fromkeys(counted, "")),
        "effCa": _distinct(s.congestion_control for samples in whole for s in samples),
        "effMss": _distinct(str(size) for size in sizes if size),
        "sampleInterval": numbers.short(numbers.mean(gaps_ms), TIME_DECIMALS),
    }


_Get = Callable[[SocketSample], float | None]


def _mean_of_means(by_flow: Iterable[Iterable[SocketSample]], get: _Get) -> float | None:
    return numbers.mean(numbers.mean(get(sample) for sample in samples) for samples in by_flow)


def _peaks(by_flow: Iterable[Sequence[SocketSample]], get: _Get) -> str:
    """The greatest value that any sample of a connection showed, summed over all flows.

    `lost` and `retrans` count segments in that state at one instant: their last value is taken when
    the flow is over, and says nothing; the greatest says how bad it was at the worst.
    """
    peaks: list[float | None] = []
    for samples in by_flow:
        each = [
            numbers.greatest(get(sample) for sample in connection)
            for connection in flows.connections(samples)
        ]
        peaks.append(numbers.total(each))
    return numbers.short(numbers.total(peaks), 0)


def _totals(
    by_flow: Iterable[Sequence[SocketSample]], count: Callable[[SocketSample], int | None]
) -> str:
    """What all flows had counted at last."""
    return numbers.short(numbers.total(flows.total(samples, count) for samples in by_flow), 0)


def _distinct(texts: Iterable[str]) -> str:
    return "/".join(dict.fromkeys(text for text in texts if text))


def _processors(evidence: GroupEvidence, told: Sequence[TransferResult]) -> dict[str, str]:
    """% of a host's CPUs: what the tool measured, mean over flows; else the mean of the samples
    over time and cores while the flows ran."""
    local = numbers.mean(result.local_cpu_percent for result in told)
    remote = numbers.mean(result.remote_cpu_percent for result in told)
    local = _busy_percent(evidence.client_cpu) if local is None else local
    remote = _busy_percent(evidence.server_cpu) if remote is None else remote
    return {
        "localCpu": numbers.short(local, PERCENT_DECIMALS),
        "remoteCpu": numbers.short(remote, PERCENT_DECIMALS),
    }


def _busy_percent(samples: Iterable[CpuSample]) -> float | None:
    return numbers.mean(numbers.mean(sample.busy_percent) for sample in samples)


def _start_skew_ms(good: Iterable[InstanceEvidence]) -> float | None:
    """Achieved minus asked start, of the flow that was furthest off."""
    skews = [
        (flow.started_s - flow.asked_start_s) * 1000 for flow in good if flow.started_s is not None
    ]
    return max(skews, key=abs, default=None)


def _counters(counters: Mapping[str, int]) -> dict[str, str]:
    """Of the client's interface, not of the flows: what else it carried is in them too."""
    row: dict[str, str] = {}
    for way in ("rx", "tx"):
        packets, size = counters.get(f"{way}_packets"), counters.get(f"{way}_bytes")
        row[f"client-{way}-packets"] = "" if packets is None else str(packets)
        row[f"client-{way}-bytes"] = "" if size is None else str(size)
        each = size / packets if size is not None and packets else None
        row[f"client-{way}-packet-len"] = numbers.short(each, 1)
    return row
