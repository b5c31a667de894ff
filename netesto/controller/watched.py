"""The load of CPUs beside the flows of an experiment of ours, as summaries take it of mpstat."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from netesto.collectors import cpu
from netesto.errors import OutputError, ResultsError
from netesto.model import CpuSample
from netesto.results import manifest
from netesto.results.imported import FIRST_DROPPED, LAST_DROPPED, Core, CpuFile
from netesto.results.manifest import GroupRecord, Manifest


def of(folder: Path) -> dict[int, tuple[CpuFile, ...]]:
    """The load at both ends of each group of the experiment in `folder`, by the group's number: of
    the cores that DO_CLIENT names with cores=, else of all. Nothing where files are missing or
    damaged, or older than the states of CPUs in them."""
    try:
        known = manifest.read(folder / manifest.NAME)
        samples = {host: _samples(folder, known, host) for host in known.hosts}
    except (ResultsError, OutputError, OSError):
        return {}
    return {group.request.group: tuple(_ends(known, group, samples)) for group in known.groups}


def _samples(folder: Path, known: Manifest, host: str) -> list[CpuSample]:
    path = f"raw/{host}/cpu.jsonl"
    if path not in known.files:
        return []
    content = (folder / path).read_bytes()
    if hashlib.sha256(content).hexdigest() != known.files[path]:
        return []
    return cpu.read(folder / path, offset=known.hosts[host].clock)


def _ends(
    known: Manifest, group: GroupRecord, samples: Mapping[str, Sequence[CpuSample]]
) -> list[CpuFile]:
    request = group.request
    ends = [(request.client, request.client_cores), (request.server, request.server_cores)]
    sender, receiver = reversed(ends) if request.is_reverse else ends
    starts = [flow.started_s for flow in group.instances if flow.started_s is not None]
    stops = [flow.ended_s for flow in group.instances if flow.ended_s is not None]
    if not starts or not stops:
        return []
    found = []
    for side, (host, watched) in (("sender", sender), ("receiver", receiver)):
        during = [each for each in samples[host] if min(starts) < each.time_s <= max(stops)]
        found.append(
            CpuFile(
                side="sender" if side == "sender" else "receiver",
                section=request.exp_name,
                host=request.server,
                number=request.group,
                date="",
                file=f"{known.exp}/raw/{host}/cpu.jsonl",
                sha256="",
                cores=_cores(during[FIRST_DROPPED:-LAST_DROPPED], watched),
            )
        )
    return found


def _cores(samples: Sequence[CpuSample], watched: Sequence[int]) -> tuple[Core, ...]:
    by_core: dict[int, list[tuple[float, ...]]] = {}
    for sample in samples:
        numbers = sample.cores or range(len(sample.states))
        for number, states in zip(numbers, sample.states, strict=False):
            if not watched or number in watched:
                by_core.setdefault(number, []).append(states)
    return tuple(Core.of(str(number), rows) for number, rows in by_core.items())
