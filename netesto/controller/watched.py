"""The load of CPUs during the flows of an experiment, as summaries read it from mpstat."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from netesto.collectors import cpu
from netesto.errors import OutputError, ResultsError
from netesto.flowspec import COMPLETION_TESTS
from netesto.measured import CpuSample
from netesto.results import flows, integrity, manifest
from netesto.results.imported import FIRST_DROPPED, LAST_DROPPED, CpuFile, Side, cores_of
from netesto.results.manifest import GroupRecord, Manifest


def of(folder: Path) -> dict[int, tuple[CpuFile, ...]]:
    """The load at both ends of each group of the experiment in `folder`, by the group's number: of
    the cores that DO_CLIENT names with cores=, else of all. Nothing where files are missing or
    damaged, and in simulated time, in which computing takes none."""
    try:
        known = manifest.read(folder / manifest.NAME)
        if known.simulated_time:
            return {}
        samples = {host: _samples(folder, known, host) for host in known.hosts}
    except (ResultsError, OutputError, OSError):
        return {}
    return {group.request.group: tuple(_ends(known, group, samples)) for group in known.groups}


def _samples(folder: Path, known: Manifest, host: str) -> list[CpuSample]:
    path = f"raw/{host}/cpu.jsonl"
    if not integrity.is_unchanged(folder, known, path):
        return []
    return cpu.read(folder / path, offset=known.hosts[host].clock)


def _ends(
    known: Manifest, group: GroupRecord, samples: Mapping[str, Sequence[CpuSample]]
) -> list[CpuFile]:
    request = group.request
    start_s, end_s = flows.span_s(group.instances)
    if start_s > end_s:
        return []
    if request.test not in COMPLETION_TESTS:
        # Not while a tool only waits (flows.load_s).
        latest_s = max(flow.started_s for flow in group.instances if flow.started_s is not None)
        end_s = min(end_s, latest_s + request.omit_s + request.duration_s)
    client = request.client, request.client_cores
    server = request.server, request.server_cores
    sides: Mapping[Side, tuple[str, Sequence[int]]] = {
        "sender": server if request.is_reverse else client,
        "receiver": client if request.is_reverse else server,
    }
    found = []
    for side, (host, watched) in sides.items():
        during = [each for each in samples[host] if start_s < each.time_s <= end_s]
        found.append(
            CpuFile(
                side=side,
                section=request.exp_name,
                host=request.server,
                number=request.group,
                date="",
                file=f"{known.exp}/raw/{host}/cpu.jsonl",
                sha256="",
                cores=cores_of(_of(each, watched) for each in during[FIRST_DROPPED:-LAST_DROPPED]),
            )
        )
    return found


def _of(sample: CpuSample, watched: Sequence[int]) -> dict[str, tuple[float, ...]]:
    """The states of the watched cores, or of all."""
    numbers = sample.cores or range(len(sample.states))
    each = zip(numbers, sample.states, strict=False)
    return {str(number): states for number, states in each if not watched or number in watched}
