"""Turns what the controller has seen into a manifest: requested and achieved values, and
warnings."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from netesto.controller import digest
from netesto.controller.experiment import Experiment, GroupState, overall_status
from netesto.controller.host import HostConnection
from netesto.controller.run import RunNetwork
from netesto.files import jsontext
from netesto.flowspec import REQUEST_TESTS
from netesto.measured import SocketSample
from netesto.model import GroupRequest
from netesto.results import crosscheck, flows, hostdiffs, queues, runs, severity
from netesto.results.evidence import ExperimentEvidence, InstanceEvidence
from netesto.results.manifest import (
    GroupRecord,
    HostRecord,
    InstanceRecord,
    Manifest,
    SamplingRecord,
)
from netesto.results.queues import Queue
from netesto.results.silence import silence
from netesto.system import proc
from netesto.units import format_size

# Limits above which a page warns (spec of results, section 4).
BUSY_CPU_PERCENT = 90.0
PATH_TOLERANCE = 0.05


def manifest(
    experiment: Experiment,
    hosts: Mapping[str, HostConnection],
    *,
    run: str,
    network: RunNetwork,
    description: str,
    columns: Mapping[str, str],
    ended_s: float,
) -> Manifest:
    """What was requested and what the controller has seen, without what only samples show."""
    speed = experiment.stopwatch.speed()
    folder, files = experiment.folder, experiment.files
    facts = digest.facts(folder, files, sorted(experiment.hosts))
    shared = hostdiffs.shared(facts)
    # With those without flows that were set, as routers.
    names = experiment.hosts | {name for name, host in hosts.items() if host.settings}
    return Manifest(
        exp=experiment.exp,
        exp_name=experiment.exp_name,
        description=description,
        status=experiment.status,
        run=run,
        started=runs.utc(experiment.started_s),
        ended=runs.utc(ended_s),
        started_s=experiment.started_s,
        ended_s=ended_s,
        started_monotonic_s=experiment.started_monotonic_s,
        ended_monotonic_s=time.monotonic(),
        ground=network.ground.name,
        simulated_time=network.ground.is_simulated,
        wall_s=speed.wall_s,
        speed_up=speed.speed_up,
        topology=network.topology,
        paths=network.paths,
        links=network.links,
        groups=tuple(
            _group(experiment.folder, experiment.groups[number])
            for number in sorted(experiment.groups)
        ),
        hosts={
            name: HostRecord(
                info=hosts[name].info,
                clock=hosts[name].clock_over(experiment.started_s, ended_s),
                time_sync=hosts[name].time_sync,
                settings=tuple(hosts[name].settings),
                facts={key: text for key, text in facts.get(name, {}).items() if key not in shared},
            )
            for name in sorted(names)
        },
        files=dict(sorted(experiment.files.items())),
        columns=dict(columns),
        # Of a guest also without host statistics; of a lab on this machine, whose hosts have no
        # control groups of their own.
        facts=shared
        | proc.guest_facts()
        | ({"cpu quota": str(experiment.quota)} if experiment.quota else {}),
        reasons=tuple(experiment.reasons),
        warnings=tuple(experiment.warnings),
    )


def _group(folder: Path, group: GroupState) -> GroupRecord:
    request = group.request
    instances = []
    for flow in group.flows:
        launch = _launch(
            folder / "raw" / request.client / f"flow.{request.group}.{flow.instance}.json"
        )
        skew_ms = None
        if flow.started_s is not None and flow.asked_start_s is not None:
            skew_ms = round((flow.started_s - flow.asked_start_s) * 1000, 3)
        argv = launch.get("argv")
        instances.append(
            InstanceRecord(
                instance=flow.instance,
                status=flow.status or "never started",
                argv=tuple(str(word) for word in argv) if isinstance(argv, list) else (),
                tool_version=str(launch.get("version", "")),
                asked_start_s=flow.asked_start_s,
                started_s=flow.started_s,
                ended_s=flow.ended_s,
                start_skew_ms=skew_ms,
                asked_interval_ms=request.interval_s * 1000,
                last_lines=flow.last_lines,
            )
        )
    # The client's file has the flows and requests of a trace.
    head = request.trace.partition("\n")[0]
    return GroupRecord(
        request=replace(request, trace=head),
        ports=group.ports,
        full_host=group.full_host,
        full_server=group.full_server,
        instances=tuple(instances),
    )


def _launch(path: Path) -> dict[str, object]:
    """The agent's record of how it started a flow; empty if it did not start it."""
    try:
        record = jsontext.read(path)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def with_evidence(asked: Manifest, evidence: ExperimentEvidence) -> Manifest:
    """The manifest with what the samples show: effective values, and warnings."""
    groups = tuple(
        replace(
            record,
            instances=tuple(
                _effective(flow, record, seen)
                for flow, seen in zip(record.instances, group.instances, strict=True)
            ),
        )
        for record, group in zip(asked.groups, evidence.groups, strict=True)
    )
    statuses = [flow.status for group in groups for flow in group.instances]
    reasons = (*asked.reasons, *evidence.unreadable)
    status = overall_status(statuses, reasons)
    intervals_s = _intervals_s(group.request for group in asked.groups)
    hosts = {
        name: replace(
            host, queue_sampling=_queue_sampling(name, intervals_s.get(name, ()), evidence)
        )
        for name, host in asked.hosts.items()
    }
    found = replace(asked, groups=groups, hosts=hosts, status=status, reasons=reasons)
    warnings = (*asked.warnings, *_flow_warnings(found), *sampling_warnings(evidence))
    warnings = (*warnings, *_clock_warnings(found))
    warnings = (*warnings, *doubts(evidence))
    warnings = (*warnings, *_host_warnings(evidence, one_machine=found.on_one_machine))
    return replace(found, warnings=(*warnings, *_path_warnings(found)))


def doubts(evidence: ExperimentEvidence) -> tuple[str, ...]:
    """Reasons to doubt measurements of the experiment although no flow failed."""
    return (*_starved_warnings(evidence), *crosscheck.warnings(evidence))


def _effective(flow: InstanceRecord, record: GroupRecord, seen: InstanceEvidence) -> InstanceRecord:
    sender = flows.sender_samples(record.request, seen)
    return replace(
        flow,
        status=seen.status,
        effective_congestion_control="/".join(flows.congestion_controls(sender)),
        effective_mss_bytes=flows.last_mss_bytes(sender),
        **_intervals("achieved", sender),
        **_intervals("receiver", flows.receiver_samples(record.request, seen)),
    )


def _intervals(end: str, samples: Sequence[SocketSample]) -> dict[str, Any]:
    """The intervals between samples at one end, by the fields of InstanceRecord."""
    gaps = flows.gaps(samples)
    return {
        f"{end}_interval_ms": gaps and round(gaps.mean_ms, 3),
        f"{end}_interval_p99_ms": gaps and round(gaps.p99_ms, 3),
        f"{end}_interval_worst_ms": gaps and round(gaps.worst_ms, 3),
    }


def _intervals_s(requests: Iterable[GroupRequest]) -> Mapping[str, Sequence[float]]:
    """The different sampling intervals that were requested of each host, the first one first."""
    found: dict[str, dict[float, None]] = defaultdict(dict)
    for request in requests:
        for host in (request.client, request.server):
            found[host][request.interval_s] = None
    return {host: tuple(intervals_s) for host, intervals_s in found.items()}


def _queue_sampling(
    host: str, intervals_s: Sequence[float], evidence: ExperimentEvidence
) -> SamplingRecord | None:
    """How queues and interfaces were sampled: at the interval of the host's first group."""
    gaps = flows.summary(evidence.queue_gaps_s.get(host, ()))
    if gaps is None or not intervals_s:
        return None
    return SamplingRecord(
        asked_interval_ms=intervals_s[0] * 1000,
        achieved_interval_ms=round(gaps.mean_ms, 3),
        achieved_interval_p99_ms=round(gaps.p99_ms, 3),
        achieved_interval_worst_ms=round(gaps.worst_ms, 3),
    )


def _flow_warnings(manifest: Manifest) -> Iterator[str]:
    for group in manifest.groups:
        asked = group.request.congestion_control
        for flow in group.instances:
            name = f"group {group.request.group}, flow {flow.instance}"
            effective = flow.effective_congestion_control
            if effective and effective != asked:
                yield severity.invalidates(
                    f"{name}: congestion control {effective}, requested {asked}"
                )


def sampling_warnings(evidence: ExperimentEvidence) -> Iterator[str]:
    """Of flows and queues that were not sampled as requested: a line for each group."""
    for group in evidence.groups:
        asked = group.request
        missed = [(flow, text) for flow in flows.good(group) if (text := _missed(asked, flow))]
        if missed:
            worst, text = max(missed, key=lambda each: _worst_gap_ms(asked, each[0]))
            others = "" if len(missed) == 1 else f" (the worst of {len(missed)} such flows)"
            yield (
                f"group {asked.group}, flow {worst.instance}{others}: {text}; "
                f"requested {asked.interval_s * 1000:.4g} ms"
            )
    yield from _queue_warnings(evidence)


def _missed(asked: GroupRequest, flow: InstanceEvidence) -> str:
    """How the sampling of a flow differs from the request, in words; "" if it does not."""
    requested_ms = asked.interval_s * 1000
    for samples, where in (
        (flows.sender_samples(asked, flow), ""),
        (flows.receiver_samples(asked, flow), "at its receiver "),
    ):
        gaps = flows.gaps(samples)
        if gaps is not None and gaps.misses(requested_ms):
            return f"{where}sampled {gaps}"
    for where, unsampled_s in zip(("first", "last"), flows.unsampled_s(asked, flow), strict=True):
        if flows.is_hole(unsampled_s * 1000, requested_ms):
            return f"not sampled in its {where} {unsampled_s:.2g} s"
    return ""


def _worst_gap_ms(asked: GroupRequest, flow: InstanceEvidence) -> float:
    ends = flow.client_samples, flow.server_samples
    gaps_ms = (gaps.worst_ms for gaps in map(flows.gaps, ends) if gaps is not None)
    edges_ms = (each_s * 1000 for each_s in flows.unsampled_s(asked, flow))
    return max(0.0, *gaps_ms, *edges_ms)


def _clock_warnings(manifest: Manifest) -> Iterator[str]:
    """Warnings of clocks whose error exceeds the sampling interval of a flow."""
    requested_s = _intervals_s(group.request for group in manifest.groups)
    for name, host in manifest.hosts.items():
        intervals_s = requested_s.get(name, ())
        if intervals_s and host.clock.bound_s > min(intervals_s):
            yield (
                f"{name}: its clock is known to ± {host.clock.bound_s * 1000:.3g} ms, and sockets "
                f"are sampled every {min(intervals_s) * 1000:.4g} ms: series of several hosts may "
                "be shifted against each other"
            )


def _queue_warnings(evidence: ExperimentEvidence) -> Iterator[str]:
    """Warnings of queues that were sampled at another interval than requested, or not until the end
    of their flows, and of drops that they do not count. The first group of their host decides; of
    the routers and links of a lab, the first of the experiment."""
    intervals_s = _intervals_s(group.request for group in evidence.groups)
    every_s = tuple(dict.fromkeys(group.request.interval_s for group in evidence.groups))
    sampled = _unsampled_s(evidence)
    for queue, unsampled_s in sampled.items():
        gaps = flows.summary(queues.gaps_s(queue.time_s))
        node = queue.place.partition("/")[0]
        requested_ms = [1000 * each_s for each_s in intervals_s.get(node, every_s)]
        if gaps is not None and all(gaps.misses(each_ms) for each_ms in requested_ms):
            yield f"queue {queue.place}: sampled {gaps}; requested {requested_ms[0]:.4g} ms"
        if all(flows.is_hole(1000 * unsampled_s, each) for each in requested_ms):
            yield (
                f"queue {queue.place}: not sampled in the last {unsampled_s:.2g} s of its flows: "
                "what it dropped or marked then is not counted"
            )
        if queue.overflow and (lost := queue.overflow[-1] - queue.overflow[0]) > 0:
            yield (
                f"queue {queue.place}: the delay line before it was full, and dropped at least"
                f" {lost} packets, which are not in queueDrops: the load was far above the rate"
            )
    spans_s = [flows.span_s(group.instances) for group in evidence.groups if group.instances]
    for queue in sampled:
        if any(start_s <= at_s <= end_s for at_s in queue.replaced_s for start_s, end_s in spans_s):
            yield (
                f"queue {queue.place}: a qdisc was replaced while flows ran ({queue.kind}): what "
                "the old one dropped or marked after its last sample is not counted"
            )


def _unsampled_s(evidence: ExperimentEvidence) -> Mapping[Queue, float]:
    """How long flows through each queue lasted after its last sample."""
    ends_s: dict[Queue, list[float]] = {}
    for group in evidence.groups:
        end_s = flows.span_s(flows.good(group))[1]
        for queue in group.queues:
            ends_s.setdefault(queue, []).append(end_s)
    return {queue: max(0.0, *times_s) - queue.time_s[-1] for queue, times_s in ends_s.items()}


def _starved_warnings(evidence: ExperimentEvidence) -> Iterator[str]:
    for group in evidence.groups:
        starved: dict[str, list[int]] = defaultdict(list)
        for each in group.instances:
            if reason := silence(group.request, each):
                reason = f"{reason}; other flows between these hosts transferred data"
                starved[reason].append(each.instance)
            elif reason := _unfinished(group.request, each):
                starved[reason].append(each.instance)
        for reason, (first, *others) in starved.items():
            such = f" (the first of {len(others) + 1} such flows)" if others else ""
            yield f"group {group.request.group}, flow {first}{such}: {reason}"


def _unfinished(request: GroupRequest, flow: InstanceEvidence) -> str:
    """A text saying that a flow of requests completed none of them; "" if it did, or failed."""
    result = flow.result
    if result is None or result.rate_bps is None or result.rate_bps > 0:
        return ""
    if request.test not in REQUEST_TESTS:
        return ""
    size = format_size(request.request_bytes)
    text = f"no transaction was completed in {result.elapsed_s:.3g} s"
    arrived = flows.total(flow.server_samples, lambda sample: sample.bytes_received)
    if not arrived:
        return text
    if arrived >= request.request_bytes:
        size = format_size(request.reply_bytes)
        return f"{text}: its request arrived, its reply of {size} bytes did not"
    return f"{text}: {arrived / 1e6:.4g} MB of its request of {size} bytes arrived"


def _host_warnings(evidence: ExperimentEvidence, *, one_machine: bool) -> Iterator[str]:
    """Hosts of a lab share the CPUs of one machine: the busiest CPU counts."""
    busiest: dict[str, float] = {}
    for group in evidence.groups:
        for host, samples in (
            (group.request.client, group.client_cpu),
            (group.request.server, group.server_cpu),
        ):
            by_core = zip(*(sample.busy_percent for sample in samples), strict=False)
            cores = [statistics.fmean(core) for core in by_core]
            busiest[host] = max([busiest.get(host, 0.0), *cores])
    if one_machine:
        busiest = {"this machine": max(busiest.values(), default=0.0)}
    for host, percent in sorted(busiest.items()):
        if percent > BUSY_CPU_PERCENT:
            yield severity.note(
                f"{host}: a CPU was {percent:.0f} % busy; it may have limited the flows"
            )


def _path_warnings(manifest: Manifest) -> Iterator[str]:
    for path in manifest.paths:
        name = f"path {path.source}→{path.destination}"
        for asked, measured, unit, scale, deviation in (
            (path.asked_rtt_ms, path.measured_rtt_ms, "ms RTT", 1.0, path.rtt_deviation),
            (path.asked_rate_bps, path.measured_rate_bps, "Mbit/s", 1e-6, path.rate_deviation),
        ):
            if asked and measured and deviation > PATH_TOLERANCE:
                yield f"{name}: {measured * scale:.3g} {unit}, requested {asked * scale:.3g}"
