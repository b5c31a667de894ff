"""One imported run as an experiment: its files unchanged, its manifest, its rows."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from netesto.errors import OutputError
from netesto.imports import documents, evidence, findings, iperf3, source, tree
from netesto.imports.directions import DirectionData
from netesto.imports.mpstat import CpuLoad
from netesto.imports.source import NOBODY, RunSource
from netesto.imports.tree import CpuSource, File, RunFiles
from netesto.model import Address, ClockOffset, GroupRequest, HostInfo, Ports
from netesto.results import (
    crosscheck,
    derive,
    durable,
    imported,
    integrity,
    manifest,
    runs,
    severity,
)
from netesto.results.evidence import FAILED, OK, PARTIAL
from netesto.results.fields import Fields
from netesto.results.imported import CpuFile, ImportedRun
from netesto.results.manifest import GroupRecord, HostRecord, InstanceRecord, Manifest
from netesto.units import parse_rate

# In manifest.json.
GROUND = "imported"
# Of Linux.
_NAME_BYTES_MAX = 255

Row = Mapping[str, str]


def build(
    job: tuple[int, RunFiles],
    *,
    into: Path,
    columns: Fields,
    claimable: Fields,
    run_name: str,
    is_copy: bool,
) -> list[Row]:
    """Write the experiment of a run, under its number; return its rows. ResultsError if that
    fails."""
    exp, run = job
    folder = into / str(exp)
    found = source.of(run)
    files = _Files(folder, is_copy)
    output = files.add(run.output, found.client)
    for side, file in run.beside:
        files.add(file, found.client if side == "sender" else found.server)
    cpu: dict[str, CpuFile] = {}
    for each in run.cpu:
        path = files.add(
            each.file, found.client if each.cpu_file.side == "sender" else found.server
        )
        cpu[path] = cpu_file(each, found.loads[each.file.name], files.hashes[path])
    known = _manifest(exp, found, files.hashes, run_name)
    seen = evidence.build(
        known, found.output, sender=found.of("sender"), receiver=found.of("receiver")
    )
    remarks = (*findings.of(found), *findings.of_evidence(run.output, seen))
    warnings = (
        severity.note(f"imported from {run.output.name}: what its files do not report is unknown"),
        *(
            f"{each.file}: {each.kind}: {each.detail}"
            for each in remarks
            if each.kind != findings.DOUBT
        ),
        *crosscheck.warnings(seen),
    )
    known = replace(known, warnings=warnings)
    made = ImportedRun(
        exp=exp,
        form=run.form,
        section=run.section,
        host=found.host,
        number=run.number,
        date=run.date,
        file=run.output.name,
        output=output,
        sha256=files.hashes[output],
        reason=found.output.reason,
        columns=found.columns,
        cpu=cpu,
        findings=remarks,
    )
    manifest.write(known, folder / manifest.NAME)
    imported.write(folder, evidence.summarised(made, found.output))
    # Its page is drawn on request, by `netesto report`.
    return derive.derive(folder, seen, known, columns, claimable, with_series=False)


def cpu_file(each: CpuSource, load: CpuLoad | OutputError, sha256: str) -> CpuFile:
    """The part of an mpstat file that summaries need; without cores if it was not read."""
    cores = load.cores() if isinstance(load, CpuLoad) else ()
    return replace(each.cpu_file, sha256=sha256, cores=cores)


@dataclass(frozen=True, slots=True)
class _Files:
    """The raw files of an experiment, as they are put into its folder, and their hashes."""

    folder: Path
    is_copy: bool
    hashes: dict[str, str] = field(default_factory=dict)

    def add(self, file: File, host: str) -> str:
        """Put a file of a host into its place; the path within the experiment."""
        name = kept_name(file)
        path, number = PurePosixPath("raw", host, name), 1
        while path.as_posix() in self.hashes:
            number += 1
            path = PurePosixPath("raw", host, str(number), name)
        target = self.folder / path
        durable.make_folder(target.parent)
        with durable.writing(target):
            put(file.path, target, is_copy=self.is_copy)
            self.hashes[path.as_posix()] = integrity.sha256_of(target)
        return path.as_posix()


def kept_name(file: File, prefix: str = "") -> str:
    """The name of a file where it is kept."""
    name = f"{prefix}{tree.printable_name(file.path.name)}"
    return name.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")


def put(file: Path, target: Path, *, is_copy: bool) -> None:
    """Make `target` the same file, or a copy where that cannot be."""
    if not is_copy:
        with suppress(OSError):
            os.link(file, target, follow_symlinks=False)
            return
    shutil.copy2(file, target, follow_symlinks=False)


def _manifest(exp: int, found: RunSource, hashes: Mapping[str, str], run_name: str) -> Manifest:
    started_s, reason = found.started_s, found.output.reason
    version = documents.words(found.plan, "start", "version").removeprefix("iperf ")
    directions = found.output.directions or (_planned(found),)
    groups = tuple(
        _group(exp, number, each, found, version, is_alone=len(directions) == 1)
        for number, each in enumerate(directions, start=1)
    )
    flows = [flow for group in groups for flow in group.instances]
    failures = [
        f"{group.request.exp_name}: {flow.status}"
        for group in groups
        for flow in group.instances
        if flow.status != OK
    ]
    if reason:
        failures = [f"{tree.printable_name(found.run.output.path.name)}: {reason}"]
    duration_s = max(group.request.omit_s for group in groups) + (found.output.duration_s or 0.0)
    ended_s = max((flow.ended_s or 0.0 for flow in flows), default=0.0)
    ended_s = max(ended_s, started_s + duration_s)
    is_failed = all(flow.status != OK for flow in flows)
    tool = groups[0].request.tool
    return Manifest(
        exp=exp,
        exp_name=found.run.section,
        description="",
        status=FAILED if is_failed else PARTIAL if failures else OK,
        run=run_name,
        started=runs.utc(started_s),
        ended=runs.utc(ended_s),
        started_s=started_s,
        ended_s=ended_s,
        started_monotonic_s=0.0,
        ended_monotonic_s=ended_s - started_s,
        ground=GROUND,
        groups=groups,
        hosts={
            found.client: _host(
                found.client,
                found.client_kernel,
                found.client_address,
                device=found.value("NIC", "nic"),
                tools={tool: version} if version and not found.is_of_server else {},
            ),
            found.server: _host(
                found.server,
                found.server_kernel,
                found.server_address,
                tools={tool: version} if version and found.is_of_server else {},
            ),
        },
        files=dict(sorted(hashes.items())),
        columns=dict(found.columns),
        reasons=tuple(failures),
    )


def _planned(found: RunSource) -> DirectionData:
    """The direction that a run that failed was to have."""
    asked = found.arguments
    is_udp = found.planned("protocol") == "UDP" or asked.get("test") == "UDP_STREAM"
    is_reverse = bool(documents.whole(found.planned("reverse")))
    is_reverse = is_reverse or asked.get("test") == "TCP_MAERTS"
    test = "UDP_STREAM" if is_udp else "TCP_MAERTS" if is_reverse else "TCP_STREAM"
    return DirectionData(test=test, is_from_server=is_reverse)


def _group(
    exp: int,
    number: int,
    direction: DirectionData,
    found: RunSource,
    version: str,
    *,
    is_alone: bool,
) -> GroupRecord:
    options = _options(found, direction)
    ends = [(found.client, found.client_address), (found.server, found.server_address)]
    if direction.test == "UDP_STREAM" and direction.is_from_server:
        # The client of a group sends its datagrams.
        ends.reverse()
    (client, client_address), (server, server_address) = ends
    section = found.run.section
    request = GroupRequest(
        exp=exp,
        group=number,
        exp_name=section if is_alone or not direction.name else f"{section} {direction.name}",
        client=client,
        server=server,
        client_address=client_address,
        server_address=server_address,
        **options,
    )
    status = found.output.reason or direction.reason or OK
    starts_s = found.started_s + direction.begins_s
    took_s = (direction.result.elapsed_s if direction.result else 0.0) or options["duration_s"]
    port = documents.whole(found.plan, "start", "connected", 0, "remote_port") or 0
    flow = InstanceRecord(
        instance=1,
        status=status,
        argv=tuple(found.command.split()),
        tool_version=version,
        started_s=starts_s,
        ended_s=None if status != OK else starts_s + options["omit_s"] + took_s,
        effective_congestion_control=iperf3.congestion_control(found.document),
        effective_mss_bytes=iperf3.mss_bytes(found.document),
    )
    return GroupRecord(
        request=request,
        ports=Ports(control=(port,), data=(port,)),
        full_host=client,
        full_server=server,
        instances=(flow,),
    )


def _host(name: str, kernel: str, address: Address, **known: Any) -> HostRecord:
    """The few known facts of a host."""
    info = HostInfo(
        host=name,
        version="",
        kernel=kernel,
        cpus=0,
        memory_bytes=0,
        device=known.get("device", ""),
        addresses=() if address == NOBODY else (str(address),),
        tools=known.get("tools", {}),
        congestion_controls=(),
        qdiscs=(),
    )
    return HostRecord(info=info, clock=ClockOffset(0.0, 0.0))


def _options(found: RunSource, direction: DirectionData) -> dict[str, Any]:
    """The options of a flow, from its output and its command."""
    asked = found.arguments
    text = found.columns.get("parallel", "")
    parallel = int(text) if text.isdecimal() and len(text) < 6 else direction.parallel or 1
    # iperf3's is that of each stream.
    stream_bps = documents.number(found.planned("target_bitrate")) or 0.0
    return {
        "test": direction.test,
        # flent runs netperf.
        "tool": "netperf" if found.run.form in {"netperf", "flent"} else "iperf3",
        "duration_s": documents.number(found.planned("duration"))
        or _seconds(asked.get("dur", ""))
        or found.output.duration_s
        or 0.0,
        "congestion_control": asked.get("ca") or iperf3.congestion_control(found.plan),
        "parallel": parallel,
        "omit_s": documents.number(found.planned("omit")) or 0.0,
        "interval_s": 1.0,
        "zerocopy": found.columns.get("zerocopy") or asked.get("zerocopy", "0"),
        "skip_receive": asked.get("skiprx") == "1",
        "bitrate_bps": stream_bps * parallel or _rate(asked.get("bitrate", "")),
        "pacing_bps": _rate(asked.get("pacing", "")),
        # 0 stands for an unknown size.
        "request_bytes": direction.request_bytes or 0,
        "reply_bytes": direction.reply_bytes or 0,
    }


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() and len(text) < 7 else None


def _rate(text: str) -> float | None:
    try:
        return parse_rate(text) or None
    except ValueError:
        return None
