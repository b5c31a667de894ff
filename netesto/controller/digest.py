"""Reads the raw files and the manifest of an experiment into evidence."""

import errno
import itertools
import math
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from netesto import traffic
from netesto.collectors import counters, cpu, hostfacts, links, ping, socketfile
from netesto.collectors.counters import COUNTERS
from netesto.controller import onewaydelays, rawfiles
from netesto.controller.rawfiles import RawFiles
from netesto.errors import OutputError, ResultsError, UsageError
from netesto.files import jsontext
from netesto.flowspec import LINK_TESTS, TRACE_TESTS, UDP_TESTS
from netesto.links.routed import RoutedFlow
from netesto.measured import (
    LINK_LOSSES,
    LINK_STATES,
    CounterSamples,
    CpuSample,
    LinkSamples,
    PingSample,
    SocketSample,
    TransferResult,
)
from netesto.model import SAME_CLOCK, Address, ClockOffset, GroupRequest, Ports
from netesto.packets.found import Capture, CapturedFlow
from netesto.results import (
    carried,
    consistency,
    flows,
    lostframes,
    queues,
    silence,
    systemtime,
    traces,
)
from netesto.results import links as link_loads
from netesto.results.carried import CarriedLinks
from netesto.results.evidence import (
    OK,
    CaptureEvidence,
    CountersEvidence,
    ExperimentEvidence,
    GroupEvidence,
    InstanceEvidence,
    Source,
)
from netesto.results.links import Links, Way
from netesto.results.manifest import GroupRecord, InstanceRecord, Manifest, PathRecord
from netesto.results.queues import Queue
from netesto.traces import played
from netesto.traffic.base import Tool

# The samples of a flow were taken between its start and its end; the sampler and the tool read
# their clocks at different instants, so the window is wider by this on both sides.
WINDOW_SLACK_S = 0.5


@dataclass(frozen=True, slots=True)
class _HostSamples:
    """The samples in one host's files, on the controller's clock. The system's time was
    `system_ahead_s` ahead of the agent's clock; None: somebody set it meanwhile, and nothing that
    depends on it is used."""

    sockets_by_port: Mapping[int, list[SocketSample]]
    cpu: tuple[CpuSample, ...]
    counters: Mapping[str, CounterSamples]
    links: Mapping[str, LinkSamples]
    clock: ClockOffset
    system_ahead_s: float | None
    captures: tuple[CaptureEvidence, ...] = ()


def evidence(
    folder: Path, manifest: Manifest, *, damaged: Collection[str] = ()
) -> ExperimentEvidence:
    """The evidence in the files of the experiment in `folder`; values of missing files are unknown.

    Files that are `damaged` (see results.integrity) are not read. ResultsError if the manifest
    names an unknown traffic tool; problems of files are not errors.
    """
    files = RawFiles(folder, manifest.files, frozenset(damaged))
    hosts = {name: _read_host(files, manifest, name) for name in manifest.hosts}
    busy = _busy(manifest)
    known = [
        queue
        for name, host in hosts.items()
        for node, samples in host.links.items()
        for queue in queues.of(node or name, samples)
    ]
    lab = _links(files, manifest, hosts, busy)
    known += [way.queue for way in lab.programs.ways if way.queue is not None]
    index = _Index(files, manifest, hosts, known)
    groups = [
        replace(_group(files, manifest, group, hosts, index), busy=busy, links=lab)
        for group in manifest.groups
    ]
    if lab.programs.ways:
        groups = _with_losses(files, manifest, groups)
    if manifest.simulated_time:
        groups = list(map(without_cpu, groups))
    return ExperimentEvidence(
        exp=manifest.exp,
        exp_name=manifest.exp_name,
        started_s=manifest.started_s,
        ended_s=manifest.ended_s,
        groups=silence.without_silent(groups),
        captures=tuple(each for name in sorted(hosts) for each in hosts[name].captures),
        counters=(*_counters_of(hosts), *_counters_of_programs(lab.programs)),
        queue_gaps_s={name: tuple(_queue_gaps_s(host)) for name, host in hosts.items()},
        unreadable=(
            *_failed_in_traces(files, manifest),
            *(f"{path}: {fault}" for path, fault in sorted(files.faults.items())),
        ),
        links=lab,
    )


def _is_stress(manifest: Manifest) -> bool:
    """Whether an engine ran, over a time of its own, and no frame of it passed a kernel."""
    return any(record.request.test in LINK_TESTS for record in manifest.groups)


class _Index:
    """What groups have in common, found by what they look for: going through all that an
    experiment has for each of its groups would take a time that grows with the square."""

    def __init__(
        self,
        files: RawFiles,
        manifest: Manifest,
        hosts: Mapping[str, _HostSamples],
        queues: Sequence[Queue],
    ) -> None:
        self._files = files
        self._hosts = hosts
        self.ping_files = rawfiles.pings(manifest)
        self._pings: dict[rawfiles.Pair, tuple[PingSample, ...]] = {}
        self.are_queues_damaged = files.are_damaged(
            path for host in hosts for path in files.of(host, "links")
        )
        self._queues: dict[str, list[tuple[int, Queue]]] = defaultdict(list)
        for order, queue in enumerate(queues):
            self._queues[queue.place].append((order, queue))
        self._paths: dict[tuple[str, str], list[PathRecord]] = defaultdict(list)
        for path in manifest.paths:
            self._paths[path.source, path.destination].append(path)
        self._servers: dict[tuple[str, int], set[Address]] = defaultdict(set)
        for group in manifest.groups:
            for port in group.ports.data:
                self._servers[group.request.client, port].add(group.request.server_address)

    def on_path(self, request: GroupRequest) -> tuple[Queue, ...]:
        """The queues on the path of a group's data: that of the sender, and those of a lab; in both
        directions if both have data."""
        places: set[str] = set()
        for is_back in {False, True} if request.test == "TCP_BIDI" else {request.is_reverse}:
            sender = self._hosts[request.server if is_back else request.client]
            device = sender.links.get(links.OWN, LinkSamples()).devices.get(request.group, "")
            places.add(f"{request.server if is_back else request.client}/{device}")
            for path in self._paths.get((request.client, request.server), ()):
                places.update(path.queues_back if is_back else path.queues)
        found = sorted(each for place in places for each in self._queues.get(place, ()))
        return tuple(queue for _, queue in found)

    def elsewhere(self, request: GroupRequest, port: int) -> frozenset[Address]:
        """The other servers that have reserved the same port for flows of the same client."""
        found = self._servers.get((request.client, port), set())
        return frozenset(found - {request.server_address})

    def pings(self, request: GroupRequest) -> tuple[PingSample, ...]:
        """The pings of a group's pair of hosts."""
        pair = rawfiles.pair(request)
        if pair not in self._pings:
            paths = self.ping_files.get(pair, ())
            self._pings[pair] = _pings(self._files, paths, self._hosts[request.client])
        return self._pings[pair]


def _program_links(files: RawFiles, manifest: Manifest) -> CarriedLinks:
    """The links that programs carried. A stress test begins with its link."""
    read = partial(carried.read, is_whole=_is_stress(manifest))
    paths = filter(LINK_STATES.is_raw, sorted(files.listed))
    return carried.joined(files.read(path, read, None) for path in paths)


def _with_losses(
    files: RawFiles, manifest: Manifest, groups: Iterable[GroupEvidence]
) -> list[GroupEvidence]:
    """The groups, whose flows know when links lost frames with their data."""
    lost_s: dict[tuple[str, int], list[float]] = defaultdict(list)
    for path in filter(LINK_LOSSES.is_raw, sorted(files.listed)):
        for end, times in files.read(path, lostframes.read_lost_s, {}).items():
            lost_s[end] += times
    return [
        replace(
            group,
            instances=tuple(
                replace(
                    flow, lost_s=tuple(sorted(lost_s[str(record.request.server_address), port]))
                )
                for flow, port in zip(group.instances, record.ports.data, strict=False)
            ),
        )
        for group, record in zip(groups, manifest.groups, strict=True)
    ]


def _failed_in_traces(files: RawFiles, manifest: Manifest) -> Iterator[str]:
    """The flows and requests of traces that failed, of each group in words."""
    for record in manifest.groups:
        if record.request.test not in TRACE_TESTS:
            continue
        path = f"raw/{record.request.client}/{traces.NAME}"
        lines = [
            line for line in files.read(path, traces.read, []) if line.group == record.request.group
        ]
        if failed := [line for line in lines if line.reason]:
            first = failed[0]
            yield (
                f"group {record.request.group}: {len(failed)} of {len(lines)} failed, the first:"
                f" {first.kind} {first.number} {record.request.client}→{first.destination}:"
                f" {first.reason}"
            )


def _links(
    files: RawFiles,
    manifest: Manifest,
    hosts: Mapping[str, _HostSamples],
    busy: tuple[float, float] | None,
) -> Links:
    """The links of a lab, without counts in a stress test. Its routers and links are sampled by one
    host."""
    nodes = {
        node or name: samples
        for name, host in hosts.items()
        for node, samples in host.links.items()
    }
    return Links(
        loads=tuple(
            link_loads.load(each, nodes.get(each.place.partition("/")[0], LinkSamples()))
            for each in manifest.links
        ),
        busy=None if _is_stress(manifest) else busy,
        ways=files.read(link_loads.RAW_WAYS, link_loads.read_ways, ()),
        programs=_program_links(files, manifest),
    )


def with_ways(evidence: ExperimentEvidence, ways: Sequence[Way]) -> ExperimentEvidence:
    """The evidence with the ways of flows, which are known after it."""
    lab = replace(evidence.links, ways=tuple(ways))
    groups = tuple(replace(group, links=lab) for group in evidence.groups)
    return replace(evidence, groups=groups, links=lab)


def _keys_of_trace(folder: Path, record: GroupRecord) -> Iterator[tuple[int, int, RoutedFlow]]:
    """The packets of the flows of a trace."""
    request = record.request
    part = played.read(request.trace)
    addresses = dict(zip(part.peers, part.addresses, strict=True))
    path = folder / "raw" / request.client / traces.NAME
    for line in traces.read(path) if path.exists() else ():
        if line.group == request.group and line.kind == traces.FLOW and line.port:
            yield (
                request.group,
                line.number,
                RoutedFlow(
                    source=request.client_address,
                    destination=ip_address(addresses[line.destination]),
                    protocol="udp" if request.test in UDP_TESTS else "tcp",
                    source_port=line.port,
                    destination_port=line.peer_port,
                ),
            )


def keys(
    folder: Path, manifest: Manifest, evidence: ExperimentEvidence
) -> Iterator[tuple[int, int, RoutedFlow]]:
    """The packets of the data of each flow whose ports are known, with its group and number."""
    for record, group in zip(manifest.groups, evidence.groups, strict=True):
        request = record.request
        if request.test in TRACE_TESTS:
            yield from _keys_of_trace(folder, record)
            continue
        for flow in group.instances:
            port = record.ports.data[flow.instance - 1]
            for own in _client_ports(request, record.ports, flow.instance, flow.result):
                key = RoutedFlow(
                    source=request.client_address,
                    destination=request.server_address,
                    protocol="udp" if request.test in UDP_TESTS else "tcp",
                    source_port=own,
                    destination_port=port,
                )
                yield request.group, flow.instance, key.reversed if request.is_reverse else key


def _counters_of(hosts: Mapping[str, _HostSamples]) -> Iterator[CountersEvidence]:
    for name, kind in COUNTERS.items():
        found = {host: each.counters[name] for host, each in hosts.items()}
        if known := {host: counted for host, counted in found.items() if counted.time_s}:
            yield CountersEvidence(kind, known)


def _counters_of_programs(links: CarriedLinks) -> Iterator[CountersEvidence]:
    """Those of a stress test are over the time of the engine, and in its table."""
    if ways := {str(way): way.samples for way in links.ways if not way.is_whole}:
        for kind in carried.KINDS:
            yield CountersEvidence(kind, ways)


def without_cpu(group: GroupEvidence) -> GroupEvidence:
    """The group without CPU usage: in simulated time computing takes no time, and what samples and
    tools report of it means nothing."""
    instances = tuple(
        replace(
            flow,
            result=replace(flow.result, local_cpu_percent=None, remote_cpu_percent=None),
        )
        if flow.result is not None
        else flow
        for flow in group.instances
    )
    return replace(group, instances=instances, client_cpu=(), server_cpu=())


def _queue_gaps_s(host: _HostSamples) -> Iterator[float]:
    for samples in host.links.values():
        for counted in (*samples.qdiscs.values(), *samples.interfaces.values()):
            yield from queues.gaps_s(counted.time_s)


def _busy(manifest: Manifest) -> tuple[float, float] | None:
    """From the first start to the last end of a flow, including failed flows."""
    found = flows.span_s(
        _without_drain(flow, group.request) for group in manifest.groups for flow in group.instances
    )
    return found if all(map(math.isfinite, found)) else None


def _without_drain(flow: InstanceRecord, request: GroupRequest) -> InstanceRecord:
    """The process of a trace lives on behind its last event."""
    if request.test not in TRACE_TESTS or None in (flow.started_s, flow.ended_s):
        return flow
    end_s = (flow.started_s or 0.0) + played.read(request.trace).end_us / 1e6
    return replace(flow, ended_s=min(flow.ended_s or end_s, end_s))


def _read_host(files: RawFiles, manifest: Manifest, name: str) -> _HostSamples:
    clock = manifest.hosts[name].clock
    if manifest.on_one_machine and not clock.offset_s:
        # One clock, by definition: the measurement would show only the response time of agents.
        clock = SAME_CLOCK
    by_port: dict[int, list[SocketSample]] = defaultdict(list)
    parts: list[list[SocketSample]] = [
        files.read(path, partial(socketfile.read, offset=clock), [])
        for path in files.of(name, "sockets")
    ]
    # A socket is in several files if the sampler was restarted.
    parts.sort(key=lambda samples: samples[0].time_s if samples else math.inf)
    for sample in itertools.chain.from_iterable(parts):
        for port in {sample.local_port, sample.peer_port}:
            by_port[port].append(sample)
    system_ahead_s = _system_ahead_s(files, name)
    samples = files.read(f"raw/{name}/cpu.jsonl", partial(cpu.read, offset=clock), ())
    return _HostSamples(
        sockets_by_port=by_port,
        cpu=tuple(samples),
        counters={
            kind: files.read(
                f"raw/{name}/{kind}.jsonl",
                partial(counters.read, offset=clock),
                CounterSamples((), {}),
            )
            for kind in COUNTERS
        },
        links=links.joined(
            files.read(path, partial(links.read, offset=clock), {})
            for path in files.of(name, "links")
        ),
        clock=clock,
        system_ahead_s=system_ahead_s,
        captures=()
        if system_ahead_s is None
        else tuple(_captures(files, name, clock.offset_s + system_ahead_s)),
    )


def _system_ahead_s(files: RawFiles, host: str) -> float | None:
    path = f"raw/{host}/{systemtime.NAME}"
    return files.read(path, systemtime.read, None) if path in files.listed else 0.0


def _captures(files: RawFiles, host: str, ahead_s: float) -> Iterator[CaptureEvidence]:
    for path in files.captures(host):
        # The reader bounds its memory itself.
        place = files.find(path, math.inf)
        # If tcpdump could not begin, the file is empty, and there is already a warning.
        if place is None or not place.stat().st_size:
            continue
        found = files.read(path, _capture, None, most_bytes=math.inf)
        if found is not None:
            yield CaptureEvidence(host=host, file=path, ahead_s=ahead_s, capture=found)


def _capture(path: Path) -> Capture:
    # Imported here because numpy takes a tenth of a second, and few experiments have a capture.
    from netesto.packets import capture  # noqa: PLC0415

    try:
        return capture.read(path)
    except UsageError as error:
        raise OutputError(error.message) from error


def _group(
    files: RawFiles,
    manifest: Manifest,
    record: GroupRecord,
    hosts: Mapping[str, _HostSamples],
    index: _Index,
) -> GroupEvidence:
    request = record.request
    client, server = hosts[request.client], hosts[request.server]
    info = manifest.hosts[request.client].info
    recorded = files.read(f"raw/{request.client}/group.{request.group}.json", _client_record, {})
    counters = _counters(recorded)
    instances = tuple(
        _instance(files, index, record, instance, client=client, server=server)
        for instance in record.instances
    )
    return GroupEvidence(
        request=request,
        full_host=record.full_host,
        full_server=record.full_server,
        kernel=info.kernel,
        tool_version=info.tools.get(request.tool, ""),
        instances=instances,
        pings=index.pings(request),
        client_cpu=_under_load(request, instances, client.cpu),
        server_cpu=_under_load(request, instances, server.cpu),
        device=str(recorded.get("device", "")),
        counters=counters[1] if counters else None,
        counters_before=counters[0] if counters else None,
        mtu_bytes=_mtu_bytes(recorded),
        features=_features(files, request.client),
        queues=index.on_path(request),
        damaged=frozenset(_damaged(files, index, request)),
    )


def _damaged(files: RawFiles, index: _Index, request: GroupRequest) -> Iterator[Source]:
    """The sources that a group lacks because files are damaged."""
    client, server = f"raw/{request.client}", f"raw/{request.server}"
    count = range(1, request.instances + 1)
    outputs = [rawfiles.output(request, instance) for instance in count]
    # Only the tool's output says which of several connections carry data.
    ports = outputs if request.parallel > 1 else []
    before = files.statistics_folder(request.client)
    sources: Mapping[Source, Iterable[str]] = {
        "tool": outputs,
        "client sockets": [*files.of(request.client, "sockets"), *ports],
        "server sockets": [*files.of(request.server, "sockets"), *ports],
        "ping": index.ping_files.get(rawfiles.pair(request), ()),
        "client cpu": [f"{client}/cpu.jsonl"],
        "server cpu": [f"{server}/cpu.jsonl"],
        "counters": [f"{client}/group.{request.group}.json"],
        "ethtool-k": [f"{before}/{request.client}.ethtool-k"],
        "ethtool-c": [f"{before}/{request.client}.ethtool-c"],
        "sysctl": [f"{before}/{request.client}.sysctl"],
    }
    if index.are_queues_damaged:
        yield "queues"
    for source, paths in sources.items():
        if files.are_damaged(paths):
            yield source


def _captured(
    host: _HostSamples,
    record: InstanceRecord,
    ports: Ports,
    client_ports: tuple[int, ...],
    *,
    is_reverse: bool,
    elsewhere: Collection[str],
) -> tuple[CapturedFlow, ...]:
    """The data connections of a flow, if a capture of the sender contains all of them completely.

    If the client's ports are unknown, these are all connections to the flow's port of the server,
    unless a control connection uses it, too.
    """
    data_port = ports.data[record.instance - 1]
    if not client_ports and data_port in ports.control:
        return ()
    for each in host.captures:
        found = []
        for flow in each.capture.flows:
            own = flow.source_port, flow.destination_port
            client, server = own[::-1] if is_reverse else own
            is_one = server == data_port and (not client_ports or client in client_ports)
            is_one = is_one and flow.destination not in elsewhere
            if is_one and flow.protocol == "TCP" and _overlaps(flow, each.ahead_s, record):
                syn_s = None if flow.syn_s is None else flow.syn_s - each.ahead_s
                found.append(replace(flow, start_s=flow.start_s - each.ahead_s, syn_s=syn_s))
        is_whole = all(flow.is_whole and not flow.missed_bytes for flow in found)
        count = len(client_ports) or len(found)
        if found and is_whole and len(found) == count and each.capture.is_complete:
            return tuple(found)
    return ()


def _overlaps(flow: CapturedFlow, ahead_s: float, record: InstanceRecord) -> bool:
    """Whether a captured flow ran at the time of this one: ports are reused."""
    start_s = flow.start_s - ahead_s
    return (record.ended_s is None or start_s <= record.ended_s + WINDOW_SLACK_S) and (
        record.started_s is None or start_s + flow.lasted_s >= record.started_s - WINDOW_SLACK_S
    )


def _instance(
    files: RawFiles,
    index: _Index,
    group: GroupRecord,
    record: InstanceRecord,
    *,
    client: _HostSamples,
    server: _HostSamples,
) -> InstanceEvidence:
    request, ports = group.request, group.ports
    status, result = record.status, None
    output = rawfiles.output(request, record.instance)
    if status == OK and not files.are_damaged([output]):
        try:
            result = _result(files, output, request, record, client)
            if server.system_ahead_s is None:
                result = _without_times_of_server(result)
            result = onewaydelays.on_one_clock(
                files, request, record, result, client=client.clock, server=server.clock
            )
        except OutputError as error:
            status = error.message
    data_port = ports.data[record.instance - 1]
    client_ports = _client_ports(request, ports, record.instance, result)
    elsewhere = index.elsewhere(request, data_port)

    is_trace = request.test in TRACE_TESTS
    data_ports = ports.data if is_trace else (data_port,)

    def samples(host: _HostSamples, *, at_client: bool) -> tuple[SocketSample, ...]:
        start, end = record.started_s, record.ended_s
        return tuple(
            sample
            for port in dict.fromkeys(data_ports)
            for sample in host.sockets_by_port.get(port, ())
            if _ends(sample, at_client=at_client)[1] == port
            and (not client_ports or _ends(sample, at_client=at_client)[0] in client_ports)
            and not (at_client and not is_trace and sample.peer in elsewhere)
            and (start is None or sample.time_s >= start - WINDOW_SLACK_S)
            and (end is None or sample.time_s <= end + WINDOW_SLACK_S)
        )

    is_reverse = request.is_reverse
    return InstanceEvidence(
        instance=record.instance,
        status=status,
        asked_start_s=record.asked_start_s,
        started_s=record.started_s,
        ended_s=record.ended_s,
        result=result,
        client_samples=samples(client, at_client=True),
        server_samples=samples(server, at_client=False),
        last_lines=record.last_lines,
        captured=_captured(
            server if is_reverse else client,
            record,
            ports,
            client_ports,
            is_reverse=is_reverse,
            elsewhere=frozenset(map(str, elsewhere)),
        ),
    )


def _ends(sample: SocketSample, *, at_client: bool) -> tuple[int, int]:
    """The client's port and the server's port of a sampled connection."""
    ends = (sample.local_port, sample.peer_port)
    return ends if at_client else (ends[1], ends[0])


def _client_ports(
    request: GroupRequest, ports: Ports, instance: int, result: TransferResult | None
) -> tuple[int, ...]:
    """The client's ports of a flow's data connections, as reported by or given to the tool; empty
    if unknown. A control connection may use the same port of the server."""
    if result is not None and result.client_ports:
        return result.client_ports
    port = _tool(request).client_port(request, ports, instance)
    return () if port is None else (port,)


def _tool(request: GroupRequest) -> Tool:
    tool = traffic.TOOLS.get(request.tool)
    if tool is None:
        raise ResultsError(f"group {request.group}: unknown traffic tool {request.tool!r}")
    return tool


def _result(
    files: RawFiles, name: str, request: GroupRequest, record: InstanceRecord, client: _HostSamples
) -> TransferResult:
    path = files.find(name)
    try:
        if path is None:
            # A file that was added later is not a measurement.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        output = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise OutputError(f"the output of {request.tool} is missing: {error.strerror}") from error
    started_s = (record.started_s or 0.0) + client.clock.at(record.started_s or 0.0)
    result = _tool(request).parse(
        output, request, started_s=started_s, system_ahead_s=client.system_ahead_s
    )
    shifted = tuple(
        replace(
            interval,
            start_s=client.clock.controllers(interval.start_s),
            end_s=client.clock.controllers(interval.end_s),
        )
        for interval in result.intervals
    )
    return consistency.checked(replace(result, intervals=shifted), request)


def _without_times_of_server(result: TransferResult) -> TransferResult:
    """A result without what the tool at the server may have measured by the system's time: the
    usage of its CPU, which netperf reports, and the arrival of datagrams."""
    datagrams = result.datagrams
    if datagrams is not None:
        intervals = tuple(
            replace(each, jitter_ms=None, transits_s=None) for each in datagrams.intervals
        )
        datagrams = replace(datagrams, jitter_ms=None, intervals=intervals)
    return replace(result, remote_cpu_percent=None, datagrams=datagrams)


def _pings(files: RawFiles, paths: Iterable[str], client: _HostSamples) -> tuple[PingSample, ...]:
    """The pings of a pair of hosts, in one or several files. Numbers continue across files."""
    found: list[PingSample] = []
    last = 0
    if client.system_ahead_s is None:
        return ()
    read = partial(ping.read, offset=client.clock, system_ahead_s=client.system_ahead_s)
    for path in paths:
        each = files.read(path, read, [])
        found += [replace(sample, number=last + sample.number) for sample in each]
        last += max((sample.number for sample in each), default=0)
    return tuple(sorted(found, key=lambda sample: sample.time_s))


def _under_load(
    request: GroupRequest, instances: Iterable[InstanceEvidence], samples: Sequence[CpuSample]
) -> tuple[CpuSample, ...]:
    """The CPU samples of which at least half lies within the load of the group."""
    first_s, last_s = flows.load_s(request, instances)
    if math.isinf(first_s):
        return ()
    before = (None, *samples)
    return tuple(
        sample
        for sample, previous in zip(samples, before, strict=False)
        if first_s <= (sample.time_s + (previous or sample).time_s) / 2 <= last_s
    )


def _client_record(path: Path) -> Mapping[str, Any]:
    """The record of a group by the client's agent; empty if it is unreadable."""
    try:
        group = jsontext.read(path)
    except ValueError:
        return {}
    return group if isinstance(group, dict) else {}


def _mtu_bytes(recorded: Mapping[str, Any]) -> int | None:
    """The MTU of the test interface; None if it is unknown."""
    mtu = recorded.get("mtu_bytes")
    return mtu if type(mtu) is int and 0 < mtu < 2**32 else None


def _counters(recorded: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]] | None:
    """The counters of the test interface before the group, and their increase; None if unknown, for
    example because another interface has taken its name."""
    try:
        before, after = recorded["counters_before"], recorded["counters_after"]
        gained = {name: after[name] - before[name] for name in before}
        every = (*before.values(), *gained.values())
    except (KeyError, TypeError, IndexError, AttributeError):
        return None
    # The kernel's counters have 64 bits.
    are_counts = all(type(each) is int and 0 <= each < 2**64 for each in every)
    return (before, gained) if are_counts else None


def facts(folder: Path, known: Collection[str], hosts: Iterable[str]) -> dict[str, dict[str, str]]:
    """The facts of hosts for the manifest, from their known files."""
    files = RawFiles(folder, known, ())
    return {host: hostfacts.notable(_statistics(files, host, hostfacts.NOTABLE)) for host in hosts}


def _features(files: RawFiles, host: str) -> dict[str, str]:
    return hostfacts.features(_statistics(files, host, ("ethtool-k", "ethtool-c", "sysctl")))


def _statistics(files: RawFiles, host: str, kinds: Iterable[str]) -> dict[str, str]:
    """The texts of host statistics; those of missing files are empty."""
    folder = files.statistics_folder(host)
    return {kind: files.read(f"{folder}/{host}.{kind}", rawfiles.text, "") for kind in kinds}
