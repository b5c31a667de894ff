"""Turns the raw files of an imported run into evidence, like that of our own experiments."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from netesto.errors import OutputError
from netesto.imports import formats, iperf3, mpstat
from netesto.imports.iperf3 import ClientOutput, Document
from netesto.imports.mpstat import CpuLoad
from netesto.measured import (
    CPU_STATES,
    CpuSample,
    Datagrams,
    Interval,
    SocketSample,
    TransferResult,
)
from netesto.model import GroupRequest
from netesto.results import imported
from netesto.results.evidence import (
    OK,
    ExperimentEvidence,
    GroupEvidence,
    InstanceEvidence,
    Source,
)
from netesto.results.imported import ImportedRun
from netesto.results.manifest import Manifest

_IDLE = (CPU_STATES.index("idle"), CPU_STATES.index("iowait"))
# The sum of all cores, which mpstat prints beside them.
_ALL = "all"
_PORT_MAX = 65_535


def of(
    folder: Path, run: ImportedRun, manifest: Manifest, *, damaged: Collection[str] = ()
) -> ExperimentEvidence:
    """The evidence in the files of the imported experiment in `folder`; files that are `damaged`
    are not read."""
    return build(
        manifest,
        _output(folder, run, damaged),
        sender=_loads(folder, run, "sender", damaged),
        receiver=_loads(folder, run, "receiver", damaged),
    )


def update(folder: Path, run: ImportedRun, *, damaged: Collection[str]) -> None:
    """Write import.json of the experiment in `folder` again if its client's output, unless that is
    damaged, says something else: the version that imported it may have read that otherwise."""
    output = _output(folder, run, damaged)
    if output is not None and (known := summarised(run, output)) != run:
        imported.write(folder, known)


def summarised(run: ImportedRun, output: ClientOutput) -> ImportedRun:
    """A run with what summaries need of its client's output."""
    document = output.document or {}
    return replace(
        run,
        reason=output.reason or run.reason,
        sent_bps=None if output.sent is None else output.sent.bps,
        retransmits=None if output.sent is None else output.sent.retransmits,
        congestion_control=congestion_control(document),
        mss_bytes=mss_bytes(document),
    )


def _output(folder: Path, run: ImportedRun, damaged: Collection[str]) -> ClientOutput | None:
    if run.output in damaged or not (folder / run.output).is_file():
        return None
    return formats.read((folder / run.output).read_bytes(), run.form)


def _loads(
    folder: Path, run: ImportedRun, side: str, damaged: Collection[str]
) -> tuple[CpuLoad, ...]:
    found = []
    for path, file in run.cpu.items():
        if file.side == side and path not in damaged:
            try:
                found.append(mpstat.read((folder / path).read_bytes()))
            except (OSError, OutputError):
                continue
    return tuple(found)


def build(
    manifest: Manifest,
    output: ClientOutput | None,
    *,
    sender: Iterable[CpuLoad],
    receiver: Iterable[CpuLoad],
) -> ExperimentEvidence:
    """The evidence of a run whose files were read; `output` is None if it is damaged."""
    (record,) = manifest.groups
    (flow,) = record.instances
    request = record.request
    info = manifest.hosts[request.client].info
    started_s = flow.started_s if flow.started_s is not None else manifest.started_s
    # The version that imported it may have found a result where there is none.
    status = flow.status if output is None else output.reason or flow.status
    result = None
    samples: tuple[SocketSample, ...] = ()
    if status == OK and output is not None and output.sent is not None:
        # iperf3 counts the time anew after the omitted part.
        zero_s = started_s + request.omit_s
        samples = tuple(_samples(output.document or {}, zero_s))
        result = _result(output, request, zero_s)
    is_reverse = request.is_reverse
    sources: tuple[Source, ...] = ("tool", "client sockets", "server sockets")
    group = GroupEvidence(
        request=request,
        full_host=record.full_host,
        full_server=record.full_server,
        kernel=info.kernel,
        tool_version=info.tools.get(request.tool, ""),
        instances=(
            InstanceEvidence(
                instance=1,
                status=status,
                asked_start_s=None,
                started_s=flow.started_s,
                ended_s=flow.ended_s,
                result=result,
                client_samples=() if is_reverse else samples,
                server_samples=samples if is_reverse else (),
                last_lines=flow.last_lines,
            ),
        ),
        client_cpu=_cpu(sender, started_s),
        server_cpu=_cpu(receiver, started_s),
        damaged=frozenset(sources if output is None else ()),
    )
    return ExperimentEvidence(
        exp=manifest.exp,
        exp_name=manifest.exp_name,
        started_s=manifest.started_s,
        ended_s=manifest.ended_s,
        groups=(group,),
    )


def _result(output: ClientOutput, request: GroupRequest, zero_s: float) -> TransferResult:
    document = output.document or {}
    sent = output.sent
    if sent is None:
        raise AssertionError("a run without a result has no evidence of one")
    is_reverse = request.is_reverse
    return TransferResult(
        rate_bps=sent.bps if output.received_bps is None else output.received_bps,
        elapsed_s=output.duration_s or request.duration_s,
        intervals=tuple(_intervals(document, zero_s)),
        local_retransmits=None if is_reverse else sent.retransmits,
        remote_retransmits=sent.retransmits if is_reverse else None,
        local_congestion_control=congestion_control(document),
        mss_bytes=mss_bytes(document),
        mean_latency_us=output.latency_us,
        datagrams=_datagrams(document, sent.bps) if request.test == "UDP_STREAM" else None,
    )


def _datagrams(document: Document, sent_bps: float) -> Datagrams | None:
    """The fate of datagrams; for older versions, which have one sum, as far as it shows."""
    for name in ("sum_received", "sum"):
        told = iperf3.at(document, "end", name)
        packets, lost = (iperf3.whole(told, key) for key in ("packets", "lost_packets"))
        if packets is not None and lost is not None:
            jitter_ms = iperf3.number(told, "jitter_ms")
            return Datagrams(sent=packets, lost=lost, sent_bps=sent_bps, jitter_ms=jitter_ms)
    return None


def congestion_control(document: Document) -> str:
    """What the sender really used; "" if unknown."""
    return iperf3.words(document, "end", "sender_tcp_congestion")


def mss_bytes(document: Document) -> int | None:
    """The segment size; None if unknown."""
    return iperf3.whole(document, "start", "tcp_mss_default") or None


def _intervals(document: Document, zero_s: float) -> Iterator[Interval]:
    for entry in _list(iperf3.at(document, "intervals")):
        values = [iperf3.number(entry, "sum", name) for name in ("start", "end", "bits_per_second")]
        start_s, end_s, rate_bps = values
        if start_s is None or end_s is None or rate_bps is None or end_s <= start_s:
            continue
        if iperf3.at(entry, "sum", "omitted") is not True:
            yield Interval(zero_s + start_s, zero_s + end_s, rate_bps)


def _samples(document: Document, zero_s: float) -> Iterator[SocketSample]:
    """A sample for each connection and interval; at least one, with the values of the whole run."""
    control, mss = congestion_control(document), mss_bytes(document)
    ports = dict(_ports(document))
    totals: dict[object, int | None] = {}
    yielded = False
    for entry in _list(iperf3.at(document, "intervals")):
        for place, stream in enumerate(_list(iperf3.at(entry, "streams"))):
            end_s = iperf3.number(stream, "end")
            if end_s is None or iperf3.at(stream, "omitted") is True:
                continue
            name = iperf3.whole(stream, "socket")
            again = iperf3.whole(stream, "retransmits")
            before = totals.get(name, 0)
            totals[name] = None if again is None or before is None else before + again
            window, rtt_us = (iperf3.number(stream, key) for key in ("snd_cwnd", "rtt"))
            local, peer = ports.get(name, (place + 1, 0))
            yielded = True
            yield SocketSample(
                time_s=zero_s + end_s,
                local_port=local,
                peer_port=peer,
                congestion_control=control,
                cwnd=None if window is None or not mss else round(window / mss),
                mss_bytes=mss,
                rtt_ms=None if not rtt_us else rtt_us / 1000,
                total_retransmits=totals[name],
            )
    if not yielded and (control or mss):
        yield SocketSample(
            time_s=zero_s,
            local_port=1,
            peer_port=0,
            congestion_control=control,
            mss_bytes=mss,
            total_retransmits=iperf3.whole(document, "end", "sum_sent", "retransmits"),
        )


def _ports(document: Document) -> Iterator[tuple[int | None, tuple[int, int]]]:
    for entry in _list(iperf3.at(document, "start", "connected")):
        pair = [iperf3.whole(entry, key) for key in ("local_port", "remote_port")]
        if all(port is not None and 0 < port <= _PORT_MAX for port in pair):
            yield iperf3.whole(entry, "socket"), (pair[0] or 0, pair[1] or 0)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _cpu(loads: Iterable[CpuLoad], started_s: float) -> tuple[CpuSample, ...]:
    """The busy shares of the watched cores, of the samples that count. The files have no date and
    no time zone: the first sample is taken to be one interval after the start of the run."""
    found = []
    for load in loads:
        for sample in load.kept:
            cores = {
                cpu: values
                for cpu, values in sample.cores.items()
                if cpu != _ALL or len(sample.cores) == 1
            }
            busy = (
                min(100.0, max(0.0, 100.0 - sum(values[place] for place in _IDLE)))
                for values in cores.values()
            )
            numbers = tuple(int(cpu) for cpu in cores if cpu.isdecimal())
            found.append(
                CpuSample(
                    started_s + 1 + sample.after_s,
                    tuple(busy),
                    tuple(cores.values()),
                    numbers if len(numbers) == len(cores) else (),
                )
            )
    return tuple(found)
