"""Compares two results folders: what differs, by how much, and how certain that is. A *cell* is a
request: all columns that describe the experiment and are not measured. Experiments (rows N.0) of
equal cells are repetitions of each other; cells of the base are compared with those of the new
folder. `by` names the columns that make a cell.

One measure of a cell is *judged*, that of its kind of test, or those that are requested: each
additional one makes every other one harder to decide. Shares of failed runs are judged if a run
failed. Other measures are reported, and decide nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeAlias

import numpy as np

from netesto.errors import UsageError
from netesto.flowspec import TIMED_TESTS
from netesto.report import conditions, ranks
from netesto.report.ranks import RelativeChange
from netesto.results import aggregate, csvfile, numbers, repeated, severity, store, tablerows
from netesto.results.columns import COLUMNS, NO_VARIANT, REPETITION, SEVERITY, column
from netesto.results.evidence import DAMAGED, OK
from netesto.results.severity import Severity
from netesto.units import counted

MEASURES: tuple[str, ...] = tuple(each.name for each in COLUMNS.values() if each.better)
"""What can be compared."""
# Reported if both folders have it; the first one that a cell has is judged if its kind of test has
# no specific measure.
USUAL_MEASURES = (
    "rate", "meanLatency", "p99Latency", "fairness", "rtt", "pingRtt", "retransSegs%", "localCpu",
)  # fmt: skip
OF_REQUESTS = "meanLatency"
OF_STREAMS = "rate"
# Not a measure of runs, but of a cell.
FAILED_RUNS = "failed runs"

DEFAULT_THRESHOLD_PERCENT = 5.0
# The probability of one false alarm or more among all that is judged.
ALPHA = 0.05

Sides: TypeAlias = tuple[int, int]
"""A count in the base and one in the new folder."""
Row: TypeAlias = Mapping[str, str]
Cell: TypeAlias = tuple[str, ...]


class Verdict(Enum):
    """The result of a comparison. The first of these that occurs is the overall one."""

    WORSE = "worse"
    NOT_COMPARABLE = "not comparable"
    CANNOT_TELL = "cannot tell"
    BETTER = "better"
    EQUIVALENT = "equivalent"


@dataclass(frozen=True, slots=True)
class ComparedMeasure:
    """One measure in one cell. `p` is corrected for the number of judged comparisons (Holm);
    `least_p` is the smallest p that this number of runs could have given.

    `base` and `new` are the values of runs that did not fail, in pairs if runs are paired; `runs`
    counts all whose data are not damaged, and `failed` those that failed. `reason`: why it cannot
    be decided or compared.
    """

    cell: Cell
    measure: str
    base: tuple[float, ...]
    new: tuple[float, ...]
    runs: Sides
    failed: Sides
    is_paired: bool = False
    change: RelativeChange | None = None
    p: float = 1.0
    least_p: float = 1.0
    verdict: Verdict = Verdict.NOT_COMPARABLE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The judged and the merely reported findings of two folders. `remarks` are sentences."""

    base: str
    new: str
    factors: tuple[str, ...]
    threshold_percent: float
    is_paired: bool
    judged: tuple[ComparedMeasure, ...]
    unjudged: tuple[ComparedMeasure, ...]
    only_new: tuple[Cell, ...]
    remarks: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Worse if anything is; equivalent only if everything is, and something was compared."""
        found = {one.verdict for one in self.judged}
        return next((each for each in Verdict if each in found), Verdict.NOT_COMPARABLE)

    def having(self, *verdicts: Verdict) -> tuple[ComparedMeasure, ...]:
        """The judged findings with one of these verdicts."""
        return tuple(one for one in self.judged if one.verdict in verdicts)


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """How to compare; see `compare`."""

    measures: Sequence[str] = ()
    by: Sequence[str] = ()
    repeats: Sequence[str] = ()
    with_invalidated: bool = False
    threshold_percent: float = DEFAULT_THRESHOLD_PERCENT
    is_paired: bool = False


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs in one folder, `name`: all of them, or those of a cell."""

    name: str
    rows: Sequence[Row]

    @property
    def undamaged(self) -> int:
        """Damaged runs are neither measured nor failed: their raw data have changed."""
        return sum(row.get("status") != DAMAGED for row in self.rows)

    @property
    def failures(self) -> int:
        return self.undamaged - sum(map(_is_well, self.rows))

    @property
    def tests(self) -> set[str]:
        return {row["test"] for row in self.rows if row.get("test")}

    def values(self, measure: str) -> tuple[float, ...]:
        found = (_value(row, measure) for row in self.rows)
        return tuple(value for value in found if value is not None)

    def by_cell(self, factors: Sequence[str]) -> dict[Cell, "_Runs"]:
        cells: dict[Cell, list[Row]] = {}
        for row in self.rows:
            cells.setdefault(tuple(row.get(name, "") for name in factors), []).append(row)
        return {cell: _Runs(self.name, rows) for cell, rows in cells.items()}

    def fault(self, measure: str) -> str:
        """Why the values of these runs cannot be compared; "" if they can."""
        values, failed = self.values(measure), self.failures
        if values:
            return f"{self.name} has values below 0" if min(values) < 0 else ""
        if not self.rows:
            return f"{self.name} has no such runs"
        if not self.undamaged:
            return f"the raw data of all runs of {self.name} are damaged"
        if failed == self.undamaged:
            which = f"all {failed} runs" if failed > 1 else "the 1 run"
            return f"{which} of {self.name} failed"
        return f"no run of {self.name} has a value of {measure}"


def _is_invalidated(row: Row) -> bool:
    return row.get(SEVERITY) == Severity.INVALIDATES


def _is_well(row: Row) -> bool:
    """In a classic exp.csv, which has no column status, every row with numbers is."""
    return row.get("status", OK) in {OK, ""}


def _value(row: Row, measure: str) -> float | None:
    """A run that failed, even partly, has measured something different, or nothing."""
    return numbers.parse(row[measure]) if _is_well(row) else None


_Pair: TypeAlias = tuple[_Runs, _Runs]
"""Runs of base and new."""


def compare(base: Path, new: Path, request: CompareRequest | None = None) -> Comparison:
    """Compare two results folders.

    UsageError if a folder holds no results, or a column is missing; ResultsError for an invalid
    file.
    """
    rows = _experiments(base), _experiments(new)
    found = compare_rows(*rows, request or CompareRequest())
    measures = dict.fromkeys(one.measure for one in (*found.judged, *found.unjudged))
    remarks = (*found.remarks, *conditions.differences(base, new, rows, measures))
    return replace(found, base=str(base), new=str(new), remarks=remarks)


def compare_rows(base: Sequence[Row], new: Sequence[Row], request: CompareRequest) -> Comparison:
    """Compare experiments, rows of an exp.csv. UsageError if a column is missing."""
    common = [name for name in base[0] if name in new[0]]
    factors = _factors(request.by, [name for name in common if name not in request.repeats])
    known = [name for name in USUAL_MEASURES if name in common]
    _check_measures(request.measures, common)
    if not request.measures and not known:
        raise UsageError(
            "the folders have no measure in common",
            remedy=f"Measures: {', '.join(MEASURES)}.",
        )
    every = _Runs("base", base), _Runs("new", new)
    folders = every if request.with_invalidated else (_valid(every[0]), _valid(every[1]))
    cells, new_cells = (runs.by_cell(factors) for runs in folders)
    pairs = {cell: (runs, new_cells.get(cell, _Runs("new", ()))) for cell, runs in cells.items()}
    for runs in (*cells.values(), *new_cells.values()):
        _refuse_pools(runs, request)
    judged: list[ComparedMeasure] = []
    unjudged: list[ComparedMeasure] = []
    for cell, pair in pairs.items():
        chosen = _judged_measures(request.measures, known, pair)
        judged += [_finding(cell, measure, pair, request) for measure in chosen]
        if any(runs.failures for runs in pair) and all(runs.undamaged for runs in pair):
            found = _counts(cell, FAILED_RUNS, pair)
            p, least_p = ranks.fisher(found.failed, found.runs)
            judged.append(replace(found, p=p, least_p=least_p))
        others = [name for name in known if name not in chosen and _applies(name, pair)]
        unjudged += [_finding(cell, measure, pair, request) for measure in others]
    beside: list[ComparedMeasure] = []
    for measure in known:
        of_measure = [one for one in unjudged if one.measure == measure and one.change is not None]
        beside += _with_verdicts(of_measure, request)
    both = [pair for pair in pairs.values() if pair[1].rows]
    return Comparison(
        "base",
        "new",
        factors,
        request.threshold_percent,
        request.is_paired,
        tuple(_with_verdicts(judged, request)),
        tuple(beside),
        tuple(cell for cell in new_cells if cell not in cells),
        (*_of_warnings(every, folders), *_remarks(both, folders, request)),
    )


def _experiments(folder: Path) -> list[Row]:
    """The aggregate rows."""
    remedy = "netesto compare BASE NEW takes two results folders, each with an exp.csv"
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        raise UsageError(f"{folder}: {what}", remedy=remedy)
    omitted = repeated.of(folder)
    rows = [
        row
        for exp, every in csvfile.by_experiment(csvfile.read(folder / store.TABLE)).items()
        for row in every
        if exp not in omitted and csvfile.is_aggregate(row)
    ]
    if not rows:
        raise UsageError(f"{folder}: no experiments here", remedy=remedy)
    return tablerows.with_requested(folder, rows)


def _factors(named: Sequence[str], common: Sequence[str]) -> tuple[str, ...]:
    """The columns that distinguish cells."""
    possible = tuple(name for name in common if _is_factor(name))
    for name in named:
        if name not in common or column(name).is_measured:
            fault = "is measured, not a factor" if name in common else "is not in both folders"
            raise UsageError(f"{name!r} {fault}", remedy=f"Columns: {', '.join(possible)}.")
    return tuple(dict.fromkeys(named)) or possible


def _is_factor(name: str) -> bool:
    return column(name).is_factor and name not in NO_VARIANT


def _refuse_pools(runs: _Runs, request: CompareRequest) -> None:
    """UsageError if the runs of a cell differ in a factor: then they do not repeat each other."""
    first = runs.rows[0]
    for name in first:
        if not _is_factor(name) or name in request.repeats:
            continue
        other = next((r[name] for r in runs.rows if not aggregate.same(r[name], first[name])), None)
        if other is not None:
            raise UsageError(
                f"runs of {runs.name} that would count as repetitions of each other differ in"
                f" {name} ({first[name] or 'none'} and {other or 'none'})",
                remedy=(
                    f"Add {name} to --by" if request.by else "Compare folders with equal columns"
                )
                + f"; if they are repetitions all the same, --repeats {name}.",
            )


def _check_measures(named: Sequence[str], common: Sequence[str]) -> None:
    for name in named:
        if name not in MEASURES:
            raise UsageError(
                f"{name!r} cannot be compared", remedy=f"Measures: {', '.join(MEASURES)}."
            )
        if name not in common:
            raise UsageError(f"{name!r} is not in both folders")


def _valid(runs: _Runs) -> _Runs:
    """The runs that no warning invalidates."""
    return replace(runs, rows=[row for row in runs.rows if not _is_invalidated(row)])


def _of_warnings(every: _Pair, used: _Pair) -> Iterable[str]:
    """What warnings say of the runs of both folders, and of those left out."""
    for all_runs, runs in zip(every, used, strict=True):
        if count := len(all_runs.rows) - len(runs.rows):
            first = next(row for row in all_runs.rows if _is_invalidated(row))
            yield (
                f"{counted(count, 'run')} of {runs.name} left out: a warning invalidates "
                f"{'them' if count > 1 else 'it'} (--with-invalid counts them); the first, "
                f"{first.get('exp', '')}: {first.get('warning', '')}"
            )
        marked = [row for row in runs.rows if severity.matters(row.get(SEVERITY))]
        if marked:
            yield (
                f"{counted(len(marked), 'run')} of {runs.name} with warnings; the first, "
                f"{marked[0].get('exp', '')}: {marked[0].get('warning', '')}"
            )


# ---- one cell ----------------------------------------------------------------------------


def _judged_measures(named: Sequence[str], known: Sequence[str], pair: _Pair) -> list[str]:
    if named:
        return [name for name in dict.fromkeys(named) if _applies(name, pair)]
    tests = pair[0].tests | pair[1].tests
    own = OF_REQUESTS if tests and tests <= TIMED_TESTS else OF_STREAMS
    return [own if own in known else known[0]]


def _applies(measure: str, pair: _Pair) -> bool:
    """A latency of a stream is the duration of a call of send(), which shows how a buffer fills."""
    return not measure.endswith("Latency") or pair[0].tests | pair[1].tests <= TIMED_TESTS


def _finding(cell: Cell, measure: str, pair: _Pair, request: CompareRequest) -> ComparedMeasure:
    """The runs and their change; the verdict comes when all of them are known."""
    base, new = (runs.values(measure) for runs in pair)
    found = replace(_counts(cell, measure, pair), base=base, new=new)
    if fault := pair[0].fault(measure) or pair[1].fault(measure):
        return replace(found, reason=fault)
    if request.is_paired:
        pairs = _pairs(pair, measure)
        if isinstance(pairs, str):
            return replace(found, reason=pairs)
        ones, others = zip(*pairs, strict=True)
        found = replace(found, base=ones, new=others, is_paired=True)
    test = ranks.paired if request.is_paired else ranks.unpaired
    change = test(np.array(found.base), np.array(found.new))
    return replace(found, change=change, p=change.p, least_p=change.least_p)


def _counts(cell: Cell, measure: str, pair: _Pair) -> ComparedMeasure:
    base, new = pair
    runs, failed = (base.undamaged, new.undamaged), (base.failures, new.failures)
    return ComparedMeasure(cell, measure, (), (), runs, failed)


def _pairs(pair: _Pair, measure: str) -> list[tuple[float, float]] | str:
    """Values of runs of equal `rep` in their order; a text if the pairs are not known.

    A failed run excludes its partner.
    """
    base, new = (runs.by_cell([REPETITION]) for runs in pair)
    found: list[tuple[float, float]] = []
    for repetition in filter(new.__contains__, base):
        ones, others = base[repetition].rows, new[repetition].rows
        if len(ones) != len(others):
            return f"{len(ones)} and {len(others)} runs of one repetition cannot be paired"
        for rows in zip(ones, others, strict=True):
            one, other = (_value(row, measure) for row in rows)
            if one is not None and other is not None:
                found.append((one, other))
    return sorted(found) or "each pair has a failed run"


# ---- verdicts ----------------------------------------------------------------------------


def _with_verdicts(
    findings: Sequence[ComparedMeasure], request: CompareRequest
) -> list[ComparedMeasure]:
    """With p corrected for the number of those that can be decided, and verdicts."""
    corrected = _corrected(findings)
    compared = sum(one.change is not None for one in findings)
    return [
        _judged(replace(one, p=corrected.get(place, 1.0)), request, compared)
        for place, one in enumerate(findings)
    ]


def _corrected(findings: Sequence[ComparedMeasure]) -> dict[int, float]:
    """p of those that can be decided, by their places, corrected for their number.

    Failures are rare, and clear if they matter: they have a fifth of ALPHA if any run failed, so
    that neither they nor the measures have to be corrected for the other's number.
    """
    has_failures = any(one.measure == FAILED_RUNS for one in findings)
    corrected: dict[int, float] = {}
    for is_failures, share in ((True, 0.2), (False, 0.8 if has_failures else 1.0)):
        able = [
            place
            for place, one in enumerate(findings)
            if (one.measure == FAILED_RUNS) == is_failures and one.least_p < ALPHA * share
        ]
        found = ranks.holm([findings[place].p for place in able])
        corrected |= {place: min(1.0, p / share) for place, p in zip(able, found, strict=True)}
    return corrected


def _judged(one: ComparedMeasure, request: CompareRequest, compared: int) -> ComparedMeasure:
    if one.measure == FAILED_RUNS:
        if one.p >= ALPHA:
            return replace(one, verdict=Verdict.CANNOT_TELL, reason="may be chance")
        base, new = (failed / runs for failed, runs in zip(one.failed, one.runs, strict=True))
        return replace(one, verdict=Verdict.WORSE if new > base else Verdict.BETTER)
    change, threshold = one.change, request.threshold_percent / 100
    if change is None:
        return one
    differs = one.p < ALPHA and change.direction != 0
    if differs and abs(change.part) >= threshold:
        is_better = (change.direction > 0) == (column(one.measure).better == "more")
        return replace(one, verdict=Verdict.BETTER if is_better else Verdict.WORSE)
    between = change.interval
    if between is not None and -threshold <= between.low and between.high <= threshold:
        return replace(one, verdict=Verdict.EQUIVALENT)
    reason = _more_runs(one, change, threshold, ALPHA / compared)
    if differs:
        reason = f"differs, by more or less than {request.threshold_percent:g} %; {reason}"
    elif shown := _all_show(one):
        reason = f"{shown}, which proves nothing yet: {reason}"
    return replace(one, verdict=Verdict.CANNOT_TELL, reason=reason)


def _all_show(one: ComparedMeasure) -> str:
    """In words, a difference that all runs show, of which there are several; "" if not all do."""
    base, new = one.base, one.new
    if min(len(base), len(new)) < 2:
        return ""
    if one.is_paired:
        signs = {math.copysign(1, b - a) if a != b else 0 for a, b in zip(base, new, strict=True)}
        which, than = f"new of all {len(new)} pairs is", "base"
    else:
        signs = {1} if min(new) > max(base) else {-1} if max(new) < min(base) else {0}
        which, than = f"all {len(new)} runs of new are", f"all {len(base)} of base"
    if len(signs) > 1 or 0 in signs:
        return ""
    return f"{which} {'higher' if 1 in signs else 'lower'} than {than}"


def _more_runs(one: ComparedMeasure, change: RelativeChange, threshold: float, alpha: float) -> str:
    """How many runs detect a change by the threshold, or one as large as this seems to be."""
    base, new = np.array(one.base), np.array(one.new)
    part = threshold if change.part == math.inf else max(threshold, abs(change.part))
    is_paired = one.is_paired
    needed = ranks.runs_needed(base, new, part, alpha=alpha, is_paired=is_paired)
    what = "pairs" if is_paired else "runs on each side"
    fewest = min(len(base), len(new))
    if needed is None:
        return f"the number of {what} needed is unknown"
    if needed > fewest:
        return f"about {needed} {what} are needed"
    return f"close to the threshold: more than these {fewest} {what} may be needed"


# ---- remarks -----------------------------------------------------------------------------


def _remarks(common: Sequence[_Pair], folders: _Pair, request: CompareRequest) -> Iterable[str]:
    """Further notes for the reader. `common` are the cells in both folders."""
    for runs in folders:
        if count := len(runs.rows) - runs.undamaged:
            yield (
                f"{counted(count, 'run')} of {runs.name} left out: raw data damaged, see "
                "`netesto report`."
            )
    if not common:
        yield "No experiment is in both folders: nothing was compared."
    for new, base in ((1, 0), (0, 1)):
        # A damaged run exists, although it cannot be compared.
        missing = [pair[base].undamaged - len(pair[new].rows) for pair in common]
        counts = [count for count in missing if count > 0]
        if counts:
            yield (
                f"{counted(sum(counts), 'run')} {'are' if sum(counts) > 1 else 'is'} missing in "
                f"{folders[new].name}: it has fewer of {counted(len(counts), 'experiment')}."
            )
    if any(not _applies(name, pair) for name in request.measures for pair in common):
        yield (
            "Latencies of streams are not compared: they are the duration of a call of send(), "
            "not of a transaction."
        )
    if request.is_paired and not any(row.get(REPETITION) for row in folders[0].rows):
        yield "There is no column rep: runs are paired in their order."
