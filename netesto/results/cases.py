"""Experiments grouped by case: the durations of transfers, and the throughput of flows."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias, TypeVar

import numpy as np

from netesto.errors import OutputError, ResultsError, UsageError
from netesto.flowspec import COMPLETION_TESTS, LINK_TESTS
from netesto.measured import LINK_LOSSES
from netesto.model import GroupRequest
from netesto.results import (
    completions,
    integrity,
    manifest,
    packed,
    steady,
    store,
    stress,
    tracetable,
)
from netesto.results.affected import Parted
from netesto.results.columns import REPETITION
from netesto.results.completions import Times
from netesto.results.evidence import OK, ExperimentEvidence
from netesto.results.lostframes import Losses, read_losses
from netesto.results.manifest import GroupRecord, Manifest
from netesto.results.tracetable import Played

EvidenceOf: TypeAlias = Callable[[Path, Manifest, list[str]], ExperimentEvidence]
"""The evidence in the folder of an experiment, without files that are damaged."""

_T = TypeVar("_T")

# Of a group and a flow.
_FILE = re.compile(r"(?:completions|times)\.(\d{1,9})\.(\d{1,9})(?:\.csv)?")


def name(known: Manifest, factors: Mapping[str, str]) -> str:
    """The case of an experiment: the factors of its SWEEP except repetitions, or the value of a
    single one; without factors its description, else its name."""
    # The columns are in the order of the script.
    keys = sorted(factors, key=[*known.columns, *factors].index)
    own = {key: factors[key] for key in keys if key != REPETITION}
    if len(own) == 1:
        return next(iter(own.values()))
    if own:
        return " ".join(f"{key}={value}" for key, value in own.items())
    return known.description or known.exp_name


def _by_group(case: str, requests: Sequence[GroupRequest]) -> dict[int, str]:
    """The case of each group, by its number: groups of different tests are not pooled."""
    is_one = len({asked.test for asked in requests}) == 1
    return {asked.group: case if is_one else f"{case} test={asked.test}" for asked in requests}


def times(folder: Path) -> tuple[dict[str, Times], dict[str, int], list[str]]:
    """The times of the transfers and transactions of each case, of all flows that ended well, in
    the order of the experiments; the number of incomplete ones, if any; and failures and unreadable
    files, in words."""
    found: dict[str, list[Times]] = defaultdict(list)
    failed: dict[str, int] = defaultdict(int)
    faults: list[str] = []
    for each in _files(folder, faults):
        try:
            part, count = completions.read_all(each.whole())
        except (OSError, OutputError) as error:
            faults.append(str(error))
        else:
            found[each.case].append(part)
            if count:
                failed[each.case] += count
    joined = {case: np.concatenate(parts) for case, parts in found.items()}
    return joined, dict(failed), faults


def by_affected(folder: Path) -> tuple[dict[str, Parted], dict[str, int], list[str]]:
    """The transfers of each case, and which of them losses affected; the rest as `times`.
    Transactions are not transfers."""
    found: dict[str, list[Parted]] = defaultdict(list)
    failed: dict[str, int] = defaultdict(int)
    faults: list[str] = []
    losses: dict[Path, Sequence[Losses] | None] = {}
    for each in _files(folder, faults):
        if each.request.test not in COMPLETION_TESTS:
            continue
        try:
            if each.place not in losses:
                losses[each.place] = _losses(each.place, each.manifest)
            transfers, count = completions.read_transfers(each.whole())
        except (OSError, OutputError) as error:
            faults.append(str(error))
        else:
            source = str(each.request.client_address)
            found[each.case].append(Parted.of(transfers, source, losses[each.place]))
            if count:
                failed[each.case] += count
    return {case: Parted.joined(parts) for case, parts in found.items()}, dict(failed), faults


@dataclass(frozen=True, slots=True)
class _File:
    """A file with the times of a flow that ended well."""

    case: str
    place: Path
    manifest: Manifest
    request: GroupRequest
    path: str

    def whole(self) -> Path:
        """Its place, if it is unchanged and its times are right; else OSError or OutputError."""
        completions.check(self.place, self.manifest, self.path)
        return _unchanged(self.place, self.manifest, self.path)


def _files(folder: Path, faults: list[str]) -> Iterator[_File]:
    """The files with times, in the order of the experiments; failures go to `faults`."""
    for case, place, known in _experiments(folder, faults):
        files = {
            path: (int(match[1]), int(match[2]))
            for path in sorted(known.files)
            if (match := _FILE.fullmatch(PurePosixPath(path).name))
        }
        measured = {number for number, _ in files.values()}
        timed = {
            group.request.group: group
            for group in known.groups
            if _is_timed(group.request) or group.request.group in measured
        }
        cases = _by_group(case, [group.request for group in timed.values()])
        good = set()
        for number, group in timed.items():
            good |= {(number, flow.instance) for flow in group.instances if flow.status == OK}
            faults += _failed_flows(cases[number], known.exp, group)
        for path, flow in files.items():
            if flow in good:
                yield _File(cases[flow[0]], place, known, timed[flow[0]].request, path)


def _losses(place: Path, known: Manifest) -> Sequence[Losses] | None:
    """The lost frames of the links of an experiment; None without a file of them."""
    paths = [*filter(LINK_LOSSES.is_raw, sorted(known.files))]
    return [read_losses(_unchanged(place, known, path)) for path in paths] if paths else None


def renamed(found: Mapping[str, _T], names: Mapping[str, str]) -> dict[str, _T]:
    """Cases with other names, those of `names` first, in their order; names of no case are ignored.
    UsageError if two cases have the same name then."""
    ordered = dict.fromkeys((*(name for name in names if name in found), *found))
    result = {names.get(case, case): found[case] for case in ordered}
    if len(result) < len(found):
        raise UsageError("--names: two cases have the same name")
    return result


def steady_rates(
    folder: Path, evidence_of: EvidenceOf, skip: int
) -> tuple[dict[str, list[float]], list[str]]:
    """The steady throughput of the flows of each case, in the order of the experiments; and flows
    without one and unreadable files, in words."""
    found: dict[str, list[float]] = defaultdict(list)
    faults: list[str] = []
    for case, place, known in _experiments(folder, faults):
        damage = integrity.check(place, known)
        faults += [f"{place}/{each}" for each in damage]
        try:
            evidence = evidence_of(place, known, [each.path for each in damage])
        except ResultsError as error:
            faults.append(error.message)
            continue
        cases = _by_group(case, [group.request for group in evidence.groups])
        for group in evidence.groups:
            own = cases[group.request.group]
            for flow in group.instances:
                intervals = () if flow.result is None else flow.result.intervals
                rate = steady.of_flow(intervals, skip)
                found[own] += [] if rate is None else [rate]
                if rate is None:
                    number = f"{known.exp}.{group.request.group}.{flow.instance}"
                    reason = (
                        flow.status
                        if flow.status != OK
                        else f"no interval of 1 s between the first and the last {skip}"
                    )
                    faults.append(f"{own}: flow {number} is not in the mean: {reason}")
    return dict(found), faults


def traces(folder: Path) -> tuple[dict[str, list[Played]], list[str]]:
    """What the experiments of each case have played, and unreadable files, in words."""
    found: dict[str, list[Played]] = defaultdict(list)
    faults: list[str] = []
    for case, place, known in _experiments(folder, faults):
        damage = integrity.check(place, known)
        faults += [f"{place}/{each}: its trace is left out" for each in damage]
        try:
            played = None if damage else tracetable.played(place, known)
        except (OSError, OutputError) as error:
            faults.append(str(error))
            continue
        if played is not None:
            found[case].append(played)
    return dict(found), faults


def stress_tests(folder: Path) -> tuple[dict[str, list[stress.Test]], list[str]]:
    """The stress tests of each case, in the order of the experiments; and those that failed and
    unreadable files, in words."""
    found: dict[str, list[stress.Test]] = defaultdict(list)
    faults: list[str] = []
    for case, place, known in _experiments(folder, faults):
        for group in known.groups:
            asked = group.request
            if asked.test not in LINK_TESTS:
                continue
            faults += _failed_flows(case, known.exp, group)
            for flow in group.instances:
                path = f"raw/{asked.client}/flow.{asked.group}.{flow.instance}.out"
                if flow.status != OK:
                    continue
                if not integrity.is_unchanged(place, known, path):
                    faults.append(f"{place / path}: is damaged or missing")
                    continue
                try:
                    found[case].append(stress.read((place / path).read_text(encoding="utf-8")))
                except (OSError, OutputError) as error:
                    faults.append(f"{place / path}: {error}")
    return dict(found), faults


def _experiments(folder: Path, faults: list[str]) -> Iterator[tuple[str, Path, Manifest]]:
    """The case, the folder and the manifest of each experiment; problems go to `faults`."""
    factors = store.factors(folder)
    for exp in store.experiments(folder):
        try:
            with packed.opened(folder / str(exp)) as place:
                known = manifest.read(place / manifest.NAME)
                yield name(known, factors.get(exp, {})), place, known
        except ResultsError as error:
            faults.append(error.message)


def _is_timed(asked: GroupRequest) -> bool:
    return asked.test in COMPLETION_TESTS or asked.requests_per_s is not None


def _failed_flows(case: str, exp: int, group: GroupRecord) -> Iterator[str]:
    for flow in group.instances:
        if flow.status != OK:
            yield f"{case}: flow {exp}.{group.request.group}.{flow.instance} failed: {flow.status}"


def _unchanged(place: Path, known: Manifest, path: str) -> Path:
    if integrity.sha256_of(place / path) != known.files[path]:
        raise OutputError(f"{place / path}: is damaged (its SHA-256 differs)")
    return place / path
