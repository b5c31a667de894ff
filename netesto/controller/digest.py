"""Reads the raw files and the manifest of an experiment into evidence."""

import errno
import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from netesto import traffic
from netesto.collectors import cpu, hostfacts, links, ping, socketfile, tcpcounters
from netesto.collectors.clock import ahead_in, instant, steps_of, was_set
from netesto.errors import OutputError, ResultsError, UsageError
from netesto.model import (
    REAL_TIME,
    REQUEST_TESTS,
    SAME_CLOCK,
    UDP_TESTS,
    Address,
    ClockOffset,
    Counted,
    CpuSample,
    DatagramInterval,
    GroupRequest,
    LinkSamples,
    PingSample,
    Ports,
    SocketSample,
    TransferResult,
)
from netesto.packets.found import Capture, Flow
from netesto.results import flows, queues, systemtime
from netesto.results.evidence import (
    OK,
    CaptureEvidence,
    ExperimentEvidence,
    GroupEvidence,
    InstanceEvidence,
    Source,
)
from netesto.results.manifest import GroupRecord, InstanceRecord, Manifest
from netesto.results.queues import Queue
from netesto.traffic.base import Tool

# The samples of a flow were taken between its start and its end; the sampler and the tool read
# their clocks at different instants, so the window is wider by this on both sides.
WINDOW_SLACK_S = 0.5


# Hosts are not trusted: reading a file takes a multiple of its size in memory. The largest known
# files, of 24 h with a sample every 0.1 s, have a tenth of this size.
READ_BYTES_MAX = 2**30

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class _Host:
    """The samples in one host's files, on the controller's clock."""

    sockets_by_port: Mapping[int, list[SocketSample]]
    cpu: tuple[CpuSample, ...]
    tcp: Counted
    links: Mapping[str, LinkSamples]
    clock: ClockOffset
    captures: tuple[CaptureEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of an experiment in `folder` that its manifest lists, as `known`. Those that are
    `damaged` are treated as missing, and so are those that cannot be read: `faults` says why."""

    folder: Path
    known: Collection[str]
    damaged: Collection[str]
    faults: dict[str, str] = field(default_factory=dict)
    _kinds: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in sorted(self.known):
            folder, _, name = path.rpartition("/")
            self._kinds.setdefault(f"{folder}/{name.partition('.')[0]}", []).append(path)

    def find(self, path: str, most_bytes: float = READ_BYTES_MAX) -> Path | None:
        """The path of a file; None if it is missing or damaged, or has more bytes."""
        if path not in self.known or path in self.damaged or path in self.faults:
            return None
        found = self.folder / path
        try:
            size = found.stat().st_size if found.is_file() else None
        except OSError as error:
            self.faults[path] = error.strerror or str(error)
            return None
        if size is None or size > most_bytes:
            self.faults[path] = "not a file" if size is None else f"too large: {size} bytes"
            return None
        return found

    def read(
        self,
        path: str,
        read: Callable[[Path], T],
        otherwise: U,
        *,
        most_bytes: float = READ_BYTES_MAX,
    ) -> T | U:
        """The result of `read` for a file; `otherwise` if it is missing, damaged or unreadable."""
        found = self.find(path, most_bytes)
        if found is None:
            return otherwise
        try:
            return read(found)
        except OutputError as error:
            self.faults[path] = error.message.removeprefix(f"{found}").removeprefix(": ")
        except OSError as error:
            self.faults[path] = error.strerror or str(error)
        return otherwise

    def of(self, host: str, kind: str) -> list[str]:
        """The files of a kind. Samples have one for each requested sampling interval, and for each
        restart of the sampler."""
        return self._kinds.get(f"raw/{host}/{kind}", [])

    def captures(self, host: str) -> list[str]:
        return [path for path in self.of(host, "capture") if path.endswith(".pcap")]

    def are_damaged(self, paths: Iterable[str]) -> bool:
        bad = {*self.damaged, *self.faults}
        return any(path in bad for path in paths if path in self.known)


def evidence(
    folder: Path, manifest: Manifest, *, damaged: Collection[str] = ()
) -> ExperimentEvidence:
    """The evidence in the files of the experiment in `folder`; values of missing files are unknown.

    Files that are `damaged` (see results.integrity) are not read. ResultsError if the manifest
    names an unknown traffic tool; problems of files are not errors.
    """
    files = _Files(folder, manifest.files, frozenset(damaged))
    hosts = {name: _read_host(files, manifest, name) for name in manifest.hosts}
    busy = _busy(manifest)
    known = [
        queue
        for name, host in hosts.items()
        for node, samples in host.links.items()
        for queue in queues.of(node or name, samples)
    ]
    groups = [
        replace(_group(files, manifest, group, hosts, known), busy=busy)
        for group in manifest.groups
    ]
    return ExperimentEvidence(
        exp=manifest.exp,
        exp_name=manifest.exp_name,
        started_s=manifest.started_s,
        ended_s=manifest.ended_s,
        groups=without_silent(groups),
        captures=tuple(each for name in sorted(hosts) for each in hosts[name].captures),
        tcp={name: host.tcp for name, host in hosts.items() if host.tcp.time_s},
        queue_gaps_s={name: tuple(_queue_gaps_s(host)) for name, host in hosts.items()},
        unreadable=tuple(f"{path}: {fault}" for path, fault in sorted(files.faults.items())),
    )


def _queue_gaps_s(host: _Host) -> Iterator[float]:
    for samples in host.links.values():
        for counted in (*samples.qdiscs.values(), *samples.interfaces.values()):
            yield from queues.gaps_s(counted.time_s)


def _busy(manifest: Manifest) -> tuple[float, float] | None:
    """From the first start to the last end of a flow, including failed flows."""
    found = flows.span_s(flow for group in manifest.groups for flow in group.instances)
    return found if all(map(math.isfinite, found)) else None


def _read_host(files: _Files, manifest: Manifest, name: str) -> _Host:
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
    samples = files.read(f"raw/{name}/cpu.jsonl", partial(cpu.read, offset=clock), ())
    return _Host(
        sockets_by_port=by_port,
        cpu=tuple(samples),
        tcp=files.read(
            f"raw/{name}/tcp.jsonl",
            partial(tcpcounters.read, offset=clock),
            Counted((), {}),
        ),
        links=links.joined(
            files.read(path, partial(links.read, offset=clock), {})
            for path in files.of(name, "links")
        ),
        clock=clock,
        captures=tuple(_captures(files, name, clock.offset_s)),
    )


def _captures(files: _Files, host: str, ahead_s: float) -> Iterator[CaptureEvidence]:
    for path in files.captures(host):
        # The reader bounds its memory itself.
        place = files.find(path, math.inf)
        # If tcpdump could not begin, the file is empty, and there is already a warning.
        if place is None or not place.stat().st_size:
            continue
        log = files.read(f"{path.removesuffix('pcap')}log", _text, "")
        system_s = ahead_in(log)
        if steps_s := steps_of(system_s):
            files.faults[path] = f"{was_set(steps_s)} meanwhile"
        found = files.read(path, _capture, None, most_bytes=math.inf)
        if found is not None:
            yield CaptureEvidence(host=host, file=path, ahead_s=ahead_s + system_s[0], found=found)


def _capture(path: Path) -> Capture:
    # Imported here because numpy takes a tenth of a second, and few experiments have a capture.
    from netesto.packets import capture  # noqa: PLC0415

    try:
        return capture.read(path)
    except UsageError as error:
        raise OutputError(error.message) from error


def _group(
    files: _Files,
    manifest: Manifest,
    record: GroupRecord,
    hosts: Mapping[str, _Host],
    known: Sequence[Queue],
) -> GroupEvidence:
    request = record.request
    client, server = hosts[request.client], hosts[request.server]
    info = manifest.hosts[request.client].info
    told = files.read(f"raw/{request.client}/group.{request.group}.json", _told, {})
    counters = _counters(told)
    return GroupEvidence(
        request=request,
        full_host=record.full_host,
        full_server=record.full_server,
        kernel=info.kernel,
        tool_version=info.tools.get(request.tool, ""),
        instances=tuple(
            _instance(files, manifest, record, instance, client=client, server=server)
            for instance in record.instances
        ),
        pings=_pings(files, manifest, request, client),
        client_cpu=_during(record, client.cpu),
        server_cpu=_during(record, server.cpu),
        device=str(told.get("device", "")),
        counters=counters[1] if counters else None,
        counters_before=counters[0] if counters else None,
        mtu_bytes=_mtu_bytes(told),
        features=_features(files, request.client),
        queues=_on_path(manifest, request, hosts, known),
        damaged=frozenset(_damaged(files, manifest, request, hosts)),
    )


def _on_path(
    manifest: Manifest,
    request: GroupRequest,
    hosts: Mapping[str, _Host],
    known: Sequence[Queue],
) -> tuple[Queue, ...]:
    """The queues on the path of a group's data: that of the sender, and those of a lab; in both
    directions if both have data."""
    places: set[str] = set()
    for is_back in {False, True} if request.test == "TCP_BIDI" else {request.is_reverse}:
        sender = request.server if is_back else request.client
        device = hosts[sender].links.get(links.OWN, LinkSamples()).devices.get(request.group, "")
        places.add(f"{sender}/{device}")
        for path in manifest.paths:
            if (path.source, path.destination) == (request.client, request.server):
                places.update(path.queues_back if is_back else path.queues)
    return tuple(queue for queue in known if queue.place in places)


def _damaged(
    files: _Files, manifest: Manifest, request: GroupRequest, hosts: Iterable[str]
) -> Iterator[Source]:
    """The sources that a group lacks because files are damaged."""
    client, server = f"raw/{request.client}", f"raw/{request.server}"
    count = range(1, request.instances + 1)
    outputs = [_output(request, instance) for instance in count]
    # Only the tool's output says which of several connections carry data.
    ports = outputs if request.parallel > 1 else []
    before = _statistics_folder(files, request.client)
    sources: Mapping[Source, Iterable[str]] = {
        "tool": outputs,
        "client sockets": [*files.of(request.client, "sockets"), *ports],
        "server sockets": [*files.of(request.server, "sockets"), *ports],
        "ping": _ping_files(manifest, request),
        "client cpu": [f"{client}/cpu.jsonl"],
        "server cpu": [f"{server}/cpu.jsonl"],
        "counters": [f"{client}/group.{request.group}.json"],
        "ethtool-k": [f"{before}/{request.client}.ethtool-k"],
        "ethtool-c": [f"{before}/{request.client}.ethtool-c"],
        "sysctl": [f"{before}/{request.client}.sysctl"],
        "queues": [path for host in hosts for path in files.of(host, "links")],
    }
    for source, paths in sources.items():
        if files.are_damaged(paths):
            yield source


def _captured(
    host: _Host,
    record: InstanceRecord,
    ports: Ports,
    client_ports: tuple[int, ...],
    *,
    is_reverse: bool,
    elsewhere: Collection[str],
) -> tuple[Flow, ...]:
    """The data connections of a flow, if a capture of the sender contains all of them completely.

    If the client's ports are unknown, these are all connections to the flow's port of the server,
    unless a control connection uses it, too.
    """
    data_port = ports.data[record.instance - 1]
    if not client_ports and data_port in ports.control:
        return ()
    for each in host.captures:
        found = []
        for flow in each.found.flows:
            own = flow.source_port, flow.destination_port
            client, server = own[::-1] if is_reverse else own
            is_one = server == data_port and (not client_ports or client in client_ports)
            is_one = is_one and flow.destination not in elsewhere
            if is_one and flow.protocol == "TCP" and _overlaps(flow, each.ahead_s, record):
                syn_s = None if flow.syn_s is None else flow.syn_s - each.ahead_s
                found.append(replace(flow, start_s=flow.start_s - each.ahead_s, syn_s=syn_s))
        is_whole = all(flow.is_whole and not flow.missed_bytes for flow in found)
        count = len(client_ports) or len(found)
        if found and is_whole and len(found) == count and each.found.is_complete:
            return tuple(found)
    return ()


def _overlaps(flow: Flow, ahead_s: float, record: InstanceRecord) -> bool:
    """Whether a captured flow ran at the time of this one: ports are reused."""
    start_s = flow.start_s - ahead_s
    return (record.ended_s is None or start_s <= record.ended_s + WINDOW_SLACK_S) and (
        record.started_s is None or start_s + flow.lasted_s >= record.started_s - WINDOW_SLACK_S
    )


def _output(request: GroupRequest, instance: int) -> str:
    """The file with the output of a flow's tool."""
    return f"raw/{request.client}/flow.{request.group}.{instance}.out"


def _instance(
    files: _Files,
    manifest: Manifest,
    group: GroupRecord,
    record: InstanceRecord,
    *,
    client: _Host,
    server: _Host,
) -> InstanceEvidence:
    request, ports = group.request, group.ports
    status, result = record.status, None
    output = _output(request, record.instance)
    if status == OK and not files.are_damaged([output]):
        try:
            result = _result(files, output, request, record, client)
            result = _on_one_clock(files, request, record, result, client=client, server=server)
        except OutputError as error:
            status = error.message
    data_port = ports.data[record.instance - 1]
    client_ports = _client_ports(request, ports, record.instance, result)
    elsewhere = _elsewhere(manifest, group, data_port)

    def samples(host: _Host, *, at_client: bool) -> tuple[SocketSample, ...]:
        start, end = record.started_s, record.ended_s
        return tuple(
            sample
            for sample in host.sockets_by_port.get(data_port, ())
            if _ends(sample, at_client=at_client)[1] == data_port
            and (not client_ports or _ends(sample, at_client=at_client)[0] in client_ports)
            and not (at_client and sample.peer in elsewhere)
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


def _elsewhere(manifest: Manifest, group: GroupRecord, port: int) -> frozenset[Address]:
    """The other servers that have reserved the same port for flows of the same client."""
    own = group.request
    found = (
        each.request.server_address
        for each in manifest.groups
        if each.request.client == own.client and port in each.ports.data
    )
    return frozenset(found) - {own.server_address}


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
    if result is None or result.rate_bps > 0:
        return ""
    if request.test not in UDP_TESTS:
        samples = (*instance.client_samples, *instance.server_samples)
        known = [each for each in samples if each.bytes_received is not None]
        if not known or any(map(_has_carried, known)):
            return ""
    what = "transactions" if request.test in REQUEST_TESTS else "bytes"
    return f"no data: 0 {what} in {result.elapsed_s:.3g} s"


# States in which the kernel may have counted the peer's FIN as a received byte, or its own as an
# acknowledged one.
_FIN_RECEIVED = frozenset({"CLOSE-WAIT", "LAST-ACK", "CLOSING", "CLOSE"})
_FIN_ACKNOWLEDGED = frozenset({"FIN-WAIT-2", "CLOSE"})


def _has_carried(sample: SocketSample) -> bool:
    """Whether bytes were received or acknowledged, not counting SYN and FIN, as the kernel does."""
    received = (sample.bytes_received or 0) - (sample.state in _FIN_RECEIVED)
    acknowledged = (sample.bytes_acked or 0) - 1 - (sample.state in _FIN_ACKNOWLEDGED)
    return received > 0 or acknowledged > 0


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
    files: _Files, name: str, request: GroupRequest, record: InstanceRecord, client: _Host
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
    system = files.read(name.removesuffix("out") + "json", systemtime.read, REAL_TIME)
    result = _tool(request).parse(output, request, started_s=started_s, system=system)
    shifted = tuple(
        replace(
            interval,
            start_s=client.clock.controllers(interval.start_s),
            end_s=client.clock.controllers(interval.end_s),
        )
        for interval in result.intervals
    )
    return replace(result, intervals=shifted)


def _on_one_clock(
    files: _Files,
    request: GroupRequest,
    record: InstanceRecord,
    result: TransferResult,
    *,
    client: _Host,
    server: _Host,
) -> TransferResult:
    """The result with the times of datagrams on the controller's clock. One-way delays that are
    not larger than the error of the clocks stay unknown."""
    datagrams = result.datagrams
    if datagrams is None:
        return result
    path = f"raw/{request.server}/server.{request.group}.json"
    zero_s = files.read(path, _monotonic_zero_s, None)
    bound_s = client.clock.bound_s + server.clock.bound_s
    if zero_s is None or record.started_s is None:
        bound_s = math.inf
        zero_s = 0.0
    ahead_s = zero_s - server.clock.at(record.started_s or 0.0) - (record.started_s or 0.0)

    def moved(interval: DatagramInterval) -> DatagramInterval:
        delays = None
        if interval.transits_s is not None:
            least, mean, most = (each + ahead_s for each in interval.transits_s)
            if least > bound_s:
                delays = (least * 1000, mean * 1000, most * 1000)
        return replace(
            interval,
            start_s=client.clock.controllers(interval.start_s),
            end_s=client.clock.controllers(interval.end_s),
            delays_ms=delays,
        )

    intervals = tuple(map(moved, datagrams.intervals))
    has_delays = any(each.delays_ms is not None for each in intervals)
    bound_ms = bound_s * 1000 if has_delays else None
    return replace(
        result, datagrams=replace(datagrams, intervals=intervals, delay_bound_ms=bound_ms)
    )


def _monotonic_zero_s(path: Path) -> float | None:
    """The instant at which the monotonic clock of a server was 0, on its agent's clock."""
    try:
        return instant(json.loads(path.read_text(encoding="utf-8"))["monotonic_zero_s"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _pings(
    files: _Files, manifest: Manifest, request: GroupRequest, client: _Host
) -> tuple[PingSample, ...]:
    """The pings of a group's pair of hosts, in one or several files. Numbers continue across
    files."""
    found: list[PingSample] = []
    last = 0
    for path in _ping_files(manifest, request):
        each = files.read(path, partial(ping.read, offset=client.clock), [])
        found += [replace(sample, number=last + sample.number) for sample in each]
        last += max((sample.number for sample in each), default=0)
    return tuple(sorted(found, key=lambda sample: sample.time_s))


def _ping_files(manifest: Manifest, request: GroupRequest) -> list[str]:
    """The file has the number of the group that started the ping."""
    pair = request.client, request.server_address
    return [
        f"raw/{request.client}/ping.{other.request.group}.out"
        for other in manifest.groups
        if (other.request.client, other.request.server_address) == pair
    ]


def _during(record: GroupRecord, samples: Iterable[CpuSample]) -> tuple[CpuSample, ...]:
    """The CPU samples taken while any flow of the group ran."""
    start_s, end_s = flows.span_s(record.instances)
    return tuple(sample for sample in samples if start_s < sample.time_s <= end_s)


def _told(path: Path) -> Mapping[str, Any]:
    """The record of a group by the client's agent; empty if it is unreadable."""
    try:
        group = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return {}
    return group if isinstance(group, dict) else {}


def _mtu_bytes(told: Mapping[str, Any]) -> int | None:
    """The MTU of the test interface; None if it is unknown."""
    mtu = told.get("mtu_bytes")
    return mtu if type(mtu) is int and 0 < mtu < 2**32 else None


def _counters(told: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]] | None:
    """The counters of the test interface before the group, and their increase; None if unknown, for
    example because another interface has taken its name."""
    try:
        before, after = told["counters_before"], told["counters_after"]
        gained = {name: after[name] - before[name] for name in before}
        every = (*before.values(), *gained.values())
    except (KeyError, TypeError, IndexError, AttributeError):
        return None
    # The kernel's counters have 64 bits.
    are_counts = all(type(each) is int and 0 <= each < 2**64 for each in every)
    return (before, gained) if are_counts else None


def facts(folder: Path, known: Collection[str], host: str) -> dict[str, str]:
    """The facts of a host for the manifest, from its known files."""
    files = _Files(folder, known, ())
    place = _statistics_folder(files, host)
    return hostfacts.notable(
        {kind: files.read(f"{place}/{host}.{kind}", _text, "") for kind in hostfacts.NOTABLE}
    )


def _features(files: _Files, host: str) -> dict[str, str]:
    folder = _statistics_folder(files, host)
    kinds = ("ethtool-k", "ethtool-c", "sysctl")
    return hostfacts.features(
        {kind: files.read(f"{folder}/{host}.{kind}", _text, "") for kind in kinds}
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _statistics_folder(files: _Files, host: str) -> str:
    """The statistics from before the experiment; those from after it if there are no others."""
    return next((order for order in ("0", "1") if f"{order}/{host}.sysctl" in files.known), "0")
