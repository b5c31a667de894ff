"""Remarks on the files of an imported run."""

from collections.abc import Iterable, Iterator

from netesto.errors import OutputError
from netesto.imports import commands, documents, iperf3, tree
from netesto.imports.source import RunSource
from netesto.imports.tree import File
from netesto.measured import CPU_STATES
from netesto.results.evidence import ExperimentEvidence
from netesto.results.imported import CpuFile, FileRemark, ImportedRun

# A run that failed left its cores so.
_IDLE_PERCENT = 99.0
# The headers of IP and TCP: without options, and with more than the maximum of options.
_HEADERS_BYTES, _HEADERS_BYTES_MAX = 40, 100
DOUBT = "inconsistent"
"""The kind of what contradicts itself in a result, or is missing from it."""
_NO_PING = "rtt is 0: ping may have failed"


def of(source: RunSource) -> Iterator[FileRemark]:
    """The findings of a run, each once."""
    yield from _output(source)
    for name, load in source.loads.items():
        if isinstance(load, OutputError):
            yield FileRemark(name, "truncated", load.message)
    yield from _job(source)


def _output(source: RunSource) -> Iterator[FileRemark]:
    output, name = source.output, source.run.output.name
    if output.kind:
        yield FileRemark(name, output.kind, output.reason)
    if output.documents > 1:
        yield FileRemark(name, "doubled", f"{output.documents} documents; the first one counts")
    asked, used = source.arguments.get("ca", ""), iperf3.congestion_control(source.document)
    if asked and used and asked != used:
        yield FileRemark(name, "cc-differs", f"asked for {asked}, used {used}")
    mtu, mss = source.run.columns.get("mtu", ""), iperf3.mss_bytes(source.document)
    if mtu.isdecimal() and mss is not None:
        size = int(mtu)
        if not size - _HEADERS_BYTES_MAX <= mss <= size - _HEADERS_BYTES:
            yield FileRemark(name, "mss-differs", f"MSS {mss}, MTU {mtu}")


def of_evidence(file: File, evidence: ExperimentEvidence) -> Iterator[FileRemark]:
    """The contradictions in a run's results."""
    for group in evidence.groups:
        for flow in group.instances:
            for doubt in flow.result.doubts if flow.result is not None else ():
                name = f"group {group.request.group}: " if len(evidence.groups) > 1 else ""
                yield FileRemark(file.name, DOUBT, f"{name}{doubt}")


def of_cpus(runs: Iterable[ImportedRun], orphans: Iterable[CpuFile]) -> Iterator[FileRemark]:
    """The findings of mpstat files, which depend on the run that each belongs to."""
    for run in runs:
        for file in run.cpu.values() if run.reason else ():
            if (percent := _idle_percent(file)) is not None:
                detail = f"{percent:.1f} % idle on all cores; its run failed: {run.reason}"
                yield FileRemark(file.file, "idle-pooled", detail)
    for file in orphans:
        yield FileRemark(file.file, "orphan", "it belongs to no run")


def _idle_percent(file: CpuFile) -> float | None:
    """The minimum mean idle share of a core; None if a core was not idle."""
    idle = CPU_STATES.index("idle")
    means = [core.sums[idle] / core.samples for core in file.cores]
    return min(means) if means and min(means) > _IDLE_PERCENT else None


def _job(source: RunSource) -> Iterator[FileRemark]:
    run, wanted = source.run, source.run.commands
    is_wanted = any(commands.is_resolved(source.command, each) for each in wanted)
    if run.job is not None and source.command and wanted and not is_wanted:
        detail = f"used: {source.command}; job file: {wanted[0]}"
        yield FileRemark(run.job.name, "job-differs", detail)
    for file, values in ((run.job, source.job), (run.meta, source.meta)):
        if file is not None and _is_zero(values.get("rtt")):
            yield FileRemark(file.name, "rtt-zero", _NO_PING)


def of_metadata(file: File) -> Iterator[FileRemark]:
    """The findings of metadata that belong to no run."""
    if _is_zero(tree.small_json(file).get("rtt")):
        yield FileRemark(file.name, "rtt-zero", _NO_PING)


def _is_zero(value: object) -> bool:
    """0, "0", "0.0 ms"."""
    if isinstance(value, str):
        try:
            return float(value.strip().removesuffix("ms")) == 0
        except ValueError:
            return False
    return documents.number(value) == 0
