"""Raw files of an experiment to evidence. Reads only manifest.json's content and the raw files."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netesto import traffic
from netesto.collectors import cpu, hostfacts, ping, sockets
from netesto.errors import OutputError
from netesto.model import (
    REQUEST_TESTS,
    CpuSample,
    GroupRequest,
    PingSample,
    Ports,
    SocketSample,
    TransferResult,
)
from netesto.results.evidence import OK, ExperimentEvidence, GroupEvidence, InstanceEvidence
from netesto.results.manifest import GroupRecord, InstanceRecord, Manifest

# A sample is a flow's if it was taken between its start and its end; the sampler and the tool read
# their clocks apart, so the window is this much wider on both sides.
WINDOW_SLACK_S = 0.5


@dataclass(frozen=True, slots=True)
class _Host:
    """What one host's own files tell, on the controller's clock."""

    sockets_by_port: Mapping[int, list[SocketSample]]
    cpu: tuple[CpuSample, ...]
    offset_s: float


def evidence(folder: Path, manifest: Manifest) -> ExperimentEvidence:
    """What is known of the experiment in `folder`; a file that is not there is simply not known."""
    hosts = {name: _read_host(folder, manifest, name) for name in manifest.hosts}
    groups = [_group(folder, manifest, group, hosts) for group in manifest.groups]
    return ExperimentEvidence(
        exp=manifest.exp,
        exp_name=manifest.exp_name,
        started_s=manifest.started_s,
        ended_s=manifest.ended_s,
        groups=without_silent(groups),
    )


def _read_host(folder: Path, manifest: Manifest, name: str) -> _Host:
    raw = folder / "raw" / name
    offset_s = manifest.hosts[name].clock.offset_s
    by_port: dict[int, list[SocketSample]] = defaultdict(list)
    # One file for each sampling interval that groups asked for.
    for path in sorted(raw.glob("sockets*.ss")):
        for sample in sockets.read(path, ahead_s=offset_s):
            for port in {sample.local_port, sample.peer_port}:
                by_port[port].append(sample)
    path = raw / "cpu.jsonl"
    busy = cpu.read(path) if path.is_file() else []
    return _Host(
        sockets_by_port=by_port,
        cpu=tuple(replace(sample, time_s=sample.time_s - offset_s) for sample in busy),
        offset_s=offset_s,
    )


def _group(
    folder: Path, manifest: Manifest, record: GroupRecord, hosts: Mapping[str, _Host]
) -> GroupEvidence:
    request = record.request
    client, server = hosts[request.client], hosts[request.server]
    info = manifest.hosts[request.client].info
    return GroupEvidence(
        request=request,
        full_host=record.full_host,
        full_server=record.full_server,
        kernel=info.kernel,
        tool_version=info.tools.get(request.tool, ""),
        instances=tuple(
            _instance(folder, request, record.ports, instance, client=client, server=server)
            for instance in record.instances
        ),
        pings=_pings(folder, request, client),
        client_cpu=_during(record, client.cpu),
        server_cpu=_during(record, server.cpu),
        counters=_counters(folder / "raw" / request.client / f"group.{request.group}.json"),
        features=_features(folder, request.client),
    )


def _instance(
    folder: Path,
    request: GroupRequest,
    ports: Ports,
    record: InstanceRecord,
    *,
    client: _Host,
    server: _Host,
) -> InstanceEvidence:
    status, result = record.status, None
    if status == OK:
        try:
            result = _result(folder, request, record, client)
        except OutputError as error:
            status = error.message
    data_port = ports.data[record.instance - 1]
    client_port = traffic.TOOLS[request.tool].client_port(request, ports, record.instance)

    def samples(host: _Host, *, at_client: bool) -> tuple[SocketSample, ...]:
        start, end = record.started_s, record.ended_s
        return tuple(
            sample
            for sample in host.sockets_by_port.get(data_port, ())
            if _ends(sample, at_client=at_client)[1] == data_port
            and (client_port is None or _ends(sample, at_client=at_client)[0] == client_port)
            and (start is None or sample.time_s >= start - WINDOW_SLACK_S)
            and (end is None or sample.time_s <= end + WINDOW_SLACK_S)
        )

    return InstanceEvidence(
        instance=record.instance,
        status=status,
        asked_start_s=record.asked_start_s or 0.0,
        started_s=record.started_s,
        ended_s=record.ended_s,
        result=result,
        client_samples=samples(client, at_client=True),
        server_samples=samples(server, at_client=False),
        last_lines=record.last_lines,
    )


def without_silent(groups: Sequence[GroupEvidence]) -> tuple[GroupEvidence, ...]:
    """The groups with every flow failed that was silent on a path where no flow was heard: between
    two hosts of which nothing arrived all the time something is broken. Where another flow got
    through, a silent one was starved, and that is a measurement."""
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
    """In words, that nothing of a flow arrived in all its time, though its tool ended well; "" if
    something did, or it failed anyway.

    A rate of 0 alone does not say so: tools count whole transactions, and a large request that was
    still on its way at the end is a measurement. Only its sockets, at either end, tell that bytes
    arrived; where there are no samples of TCP, there is no knowing. UDP's sockets are not sampled.
    """
    result = instance.result
    if result is None or result.rate_bps > 0:
        return ""
    if request.test.startswith("TCP_"):
        samples = (*instance.client_samples, *instance.server_samples)
        known = [each for each in samples if each.bytes_received is not None]
        if not known or any(map(_has_carried, known)):
            return ""
    what = "transactions" if request.test in REQUEST_TESTS else "bytes"
    return f"no data: 0 {what} in {result.elapsed_s:.3g} s"


def _has_carried(sample: SocketSample) -> bool:
    """True if bytes came in, or were acknowledged; the kernel counts its SYN among these."""
    return bool(sample.bytes_received) or (sample.bytes_acked or 0) > 1


def _ends(sample: SocketSample, *, at_client: bool) -> tuple[int, int]:
    """The client's port and the server's port of a sampled connection."""
    ends = (sample.local_port, sample.peer_port)
    return ends if at_client else (ends[1], ends[0])


def _result(
    folder: Path, request: GroupRequest, record: InstanceRecord, client: _Host
) -> TransferResult:
    path = folder / "raw" / request.client / f"flow.{request.group}.{record.instance}.out"
    try:
        output = path.read_text(errors="replace")
    except OSError as error:
        raise OutputError(f"the output of {request.tool} is missing: {error.strerror}") from error
    started_s = (record.started_s or 0.0) + client.offset_s
    result = traffic.TOOLS[request.tool].parse(output, request, started_s=started_s)
    shifted = tuple(
        replace(
            interval,
            start_s=interval.start_s - client.offset_s,
            end_s=interval.end_s - client.offset_s,
        )
        for interval in result.intervals
    )
    return replace(result, intervals=shifted)


def _pings(folder: Path, request: GroupRequest, client: _Host) -> tuple[PingSample, ...]:
    path = folder / "raw" / request.client / f"ping.{request.group}.out"
    samples = ping.read(path) if path.is_file() else []
    return tuple(replace(sample, time_s=sample.time_s - client.offset_s) for sample in samples)


def _during(record: GroupRecord, samples: Iterable[CpuSample]) -> tuple[CpuSample, ...]:
    """The CPU samples taken while any flow of the group ran."""
    starts = [flow.started_s for flow in record.instances if flow.started_s is not None]
    ends = [flow.ended_s for flow in record.instances if flow.ended_s is not None]
    if not starts or not ends:
        return ()
    return tuple(sample for sample in samples if min(starts) < sample.time_s <= max(ends))


def _counters(path: Path) -> dict[str, int] | None:
    """The test interface's counters, after minus before; None if either is not known."""
    try:
        group = json.loads(path.read_text(encoding="utf-8"))
        before, after = group["counters_before"], group["counters_after"]
        return {name: after[name] - before[name] for name in before}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _features(folder: Path, host: str) -> dict[str, str]:
    for order in ("0", "1"):
        if (folder / order / f"{host}.sysctl").is_file():
            return hostfacts.features(folder / order, host)
    return {}
