"""Turns the raw files of an imported run into evidence, like that of our own experiments."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from netesto.errors import OutputError
from netesto.imports import formats, iperf3, mpstat
from netesto.imports.directions import DirectionData, ToolOutput
from netesto.imports.mpstat import CpuLoad
from netesto.measured import CPU_STATES, CpuSample, PingSample, SocketSample
from netesto.results import consistency, flows, imported
from netesto.results.evidence import (
    OK,
    ExperimentEvidence,
    GroupEvidence,
    InstanceEvidence,
    Source,
)
from netesto.results.imported import ImportedRun
from netesto.results.manifest import GroupRecord, Manifest

_IDLE = (CPU_STATES.index("idle"), CPU_STATES.index("iowait"))
# The sum of all cores, which mpstat prints beside them.
_ALL = "all"
_GONE = "its file no longer has this flow"


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


def summarised(run: ImportedRun, output: ToolOutput) -> ImportedRun:
    """A run with what summaries need of its client's output."""
    document = output.document or {}
    sent = output.sent
    return replace(
        run,
        reason=output.reason or run.reason,
        sent_bps=None if sent is None else sent.bps,
        retransmits=None if sent is None else sent.retransmits,
        congestion_control=iperf3.congestion_control(document),
        mss_bytes=iperf3.mss_bytes(document),
    )


def _output(folder: Path, run: ImportedRun, damaged: Collection[str]) -> ToolOutput | None:
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
    output: ToolOutput | None,
    *,
    sender: Iterable[CpuLoad],
    receiver: Iterable[CpuLoad],
) -> ExperimentEvidence:
    """The evidence of a run whose files were read; `output` is None if it is damaged."""
    started_s = manifest.started_s
    # The client of the first group, or of datagrams from its server the server, is the sender.
    cpus = {"sender": _cpu(sender, started_s), "receiver": _cpu(receiver, started_s)}
    groups = [
        _group(manifest, record, _direction(output, record), output, cpus)
        for record in manifest.groups
    ]
    busy = flows.span_s(flow for group in groups for flow in group.instances)
    is_known = busy[0] <= busy[1]
    return ExperimentEvidence(
        exp=manifest.exp,
        exp_name=manifest.exp_name,
        started_s=started_s,
        ended_s=manifest.ended_s,
        groups=tuple(replace(group, busy=busy if is_known else None) for group in groups),
    )


def _direction(output: ToolOutput | None, record: GroupRecord) -> DirectionData | None:
    """The direction of a group; None if the output has none, or no result."""
    found: Sequence[DirectionData] = () if output is None else output.directions
    place = record.request.group - 1
    return found[place] if place < len(found) else None


def _group(
    manifest: Manifest,
    record: GroupRecord,
    direction: DirectionData | None,
    output: ToolOutput | None,
    cpus: dict[str, tuple[CpuSample, ...]],
) -> GroupEvidence:
    (flow,) = record.instances
    request = record.request
    info = manifest.hosts[request.client].info
    # The version that imported it may have found a result where there is none.
    status = flow.status
    if output is not None:
        gone = _GONE if direction is None and not output.reason else ""
        status = output.reason or (direction.reason if direction else "") or gone or flow.status
    result = None
    samples: tuple[SocketSample, ...] = ()
    pings: tuple[PingSample, ...] = ()
    if direction is not None and status == OK:
        # iperf3 counts the time anew after the omitted part.
        moved = direction.at(manifest.started_s + request.omit_s)
        samples, pings = moved.samples, moved.pings
        if moved.result is not None:
            reported = moved.result
            took_s = reported.elapsed_s or request.duration_s
            result = consistency.checked(replace(reported, elapsed_s=took_s), request)
    is_reverse = request.is_reverse
    # In the order of the run's files, not of the data.
    is_swapped = direction is not None and direction.is_from_server and not is_reverse
    ends = ("receiver", "sender") if is_swapped else ("sender", "receiver")
    sources: tuple[Source, ...] = ("tool", "client sockets", "server sockets")
    return GroupEvidence(
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
        pings=pings,
        client_cpu=cpus[ends[0]],
        server_cpu=cpus[ends[1]],
        damaged=frozenset(sources if output is None else ()),
    )


def _cpu(loads: Iterable[CpuLoad], started_s: float) -> tuple[CpuSample, ...]:
    """The busy shares of the watched cores, of the samples that count. The files have no date and
    no time zone: the first sample is taken to be one interval after the start of the run."""
    found = []
    for load in loads:
        for sample in load.counted:
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
