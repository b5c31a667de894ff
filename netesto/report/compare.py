"""Two results folders against each other: what differs, by how much, and how sure that is.

A *cell* is what was asked for: all columns that describe the experiment and are not measured.
Whole experiments (rows N.0) of equal cells are repeats of each other; cells of the base are
compared with those of the new folder. `by` names the columns that make a cell, whatever differs.

One measure of a cell is *judged*, that of its kind of test, or those that are asked for: each more
makes every other one harder to tell. Shares of failed runs are judged wherever a run failed. Other
measures are told, and decide nothing.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeAlias

import numpy as np

from netesto.errors import UsageError
from netesto.model import REQUEST_TESTS
from netesto.report import ranks
from netesto.report.ranks import Change
from netesto.results import csvfile, numbers, store
from netesto.results.columns import COLUMNS, column
from netesto.results.evidence import DAMAGED, OK

MEASURES: tuple[str, ...] = tuple(each.name for each in COLUMNS.values() if each.better)
"""What can be compared."""
# Told where both folders have it; the first one that a cell has is judged if its kind of test has
# no measure of its own.
USUAL_MEASURES = (
    "rate", "meanLatency", "p99Latency", "fairness", "rtt", "pingRtt", "retransSegs%", "localCpu",
)  # fmt: skip
OF_REQUESTS = "meanLatency"
OF_STREAMS = "rate"
# Not a measure of runs, but of a cell.
FAILED_RUNS = "failed runs"

REPETITION = "rep"
# No part of what was requested.
_NO_FACTORS = frozenset({REPETITION, "testNote"})
DEFAULT_THRESHOLD_PERCENT = 5.0
# The chance of one false alarm or more among all that is judged.
ALPHA = 0.05

Sides: TypeAlias = tuple[int, int]
"""A count in the base and one in the new folder."""


class Verdict(Enum):
    """What a comparison says. Of several the first one here is that of all."""

    WORSE = "worse"
    NOT_COMPARABLE = "not comparable"
    CANNOT_TELL = "cannot tell"
    BETTER = "better"
    EQUIVALENT = "equivalent"


@dataclass(frozen=True, slots=True)
class Finding:
    """One measure in one cell. `p` is corrected for what else is judged (Holm).

    `base` and `new` are the runs that ended well, in pairs if runs are paired; `runs` counts all
    whose data are not damaged, and `failed` those that did not end well. `reason`: why it cannot be
    told or compared.
    """

    cell: tuple[str, ...]
    measure: str
    base: tuple[float, ...]
    new: tuple[float, ...]
    runs: Sides
    failed: Sides
    is_paired: bool = False
    change: Change | None = None
    p: float = 1.0
    verdict: Verdict = Verdict.NOT_COMPARABLE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is judged and what is only told of two folders. `remarks` are sentences."""

    base: str
    new: str
    factors: tuple[str, ...]
    threshold_percent: float
    is_paired: bool
    judged: tuple[Finding, ...]
    told: tuple[Finding, ...]
    only_new: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Worse if anything is; equivalent only if everything is, and something was compared."""
        found = {one.verdict for one in self.judged}
        return next((each for each in Verdict if each in found), Verdict.NOT_COMPARABLE)

    def having(self, *verdicts: Verdict) -> tuple[Finding, ...]:
        """What was judged so."""
        return tuple(one for one in self.judged if one.verdict in verdicts)


@dataclass(frozen=True, slots=True)
class Asked:
    """How to compare; see `compare`."""

    measures: Sequence[str] = ()
    by: Sequence[str] = ()
    threshold_percent: float = DEFAULT_THRESHOLD_PERCENT
    is_paired: bool = False


Row: TypeAlias = Mapping[str, str]
_Cells: TypeAlias = Mapping[tuple[str, ...], Sequence[Row]]


def compare(base: Path, new: Path, asked: Asked | None = None) -> Comparison:
    """Compare two results folders.

    UsageError if a folder holds no results, or a column is not there; ResultsError for a bad file.
    """
    found = compare_rows(_whole_experiments(base), _whole_experiments(new), asked or Asked())
    return replace(found, base=str(base), new=str(new))


def compare_rows(base: Sequence[Row], new: Sequence[Row], asked: Asked) -> Comparison:
    """Compare whole experiments, rows of an exp.csv. UsageError if a column is not there."""
    common = [name for name in base[0] if name in new[0]]
    factors = _factors(asked.by, common)
    known = [name for name in USUAL_MEASURES if name in common]
    _check_measures(asked.measures, common)
    if not asked.measures and not known:
        raise UsageError(
            "there is nothing to compare: the folders have no measure in common",
            remedy=f"measures: {', '.join(MEASURES)}",
        )
    cells = _cells(base, factors), _cells(new, factors)
    judged: list[Finding] = []
    told: list[Finding] = []
    for cell, rows in cells[0].items():
        sides = rows, cells[1].get(cell, ())
        chosen = _judged_measures(asked.measures, known, sides)
        judged += [_finding(cell, measure, sides, asked) for measure in chosen]
        if any(map(_failures, sides)) and all(map(_undamaged, sides)):
            judged.append(_of_failures(cell, sides))
        others = [name for name in known if name not in chosen and _applies(name, sides)]
        told += [_finding(cell, measure, sides, asked) for measure in others]
    told = [one for one in told if one.change is not None]
    by_measure = itertools.groupby(sorted(told, key=_place_of_measure), key=_place_of_measure)
    return Comparison(
        "base",
        "new",
        factors,
        asked.threshold_percent,
        asked.is_paired,
        tuple(_with_verdicts(judged, asked)),
        tuple(one for _, part in by_measure for one in _with_verdicts(list(part), asked)),
        tuple(cell for cell in cells[1] if cell not in cells[0]),
        (*_remarks_on_damage((base, new)), *_remarks(cells, factors, (base, new), asked)),
    )


def _place_of_measure(one: Finding) -> int:
    return USUAL_MEASURES.index(one.measure)


def _whole_experiments(folder: Path) -> list[Row]:
    if not folder.is_dir():
        raise UsageError(
            f"{folder}: no such folder",
            remedy="netesto compare BASE NEW takes two results folders, each with an exp.csv",
        )
    read: list[Row] = list(csvfile.read(folder / store.TABLE))
    rows = [row for row in read if row.get("exp", "").endswith(".0")]
    if not rows:
        raise UsageError(
            f"{folder}: there are no experiments in it",
            remedy="netesto compare BASE NEW takes two results folders, each with an exp.csv",
        )
    return rows


def _factors(asked: Sequence[str], common: Sequence[str]) -> tuple[str, ...]:
    """The columns that tell cells apart."""
    possible = tuple(name for name in common if _is_factor(name))
    for name in asked:
        if name not in common:
            raise UsageError(
                f"{name!r} is not in both folders", remedy=f"columns: {', '.join(possible)}"
            )
        if column(name).is_measured:
            raise UsageError(
                f"{name!r} is measured, and tells no experiments apart",
                remedy=f"columns: {', '.join(possible)}",
            )
    return tuple(dict.fromkeys(asked)) or possible


def _is_factor(name: str) -> bool:
    known = column(name)
    return known.is_factor and not known.is_measured and name not in _NO_FACTORS


def _check_measures(asked: Sequence[str], common: Sequence[str]) -> None:
    for name in asked:
        if name not in MEASURES:
            raise UsageError(
                f"{name!r} cannot be compared", remedy=f"measures: {', '.join(MEASURES)}"
            )
        if name not in common:
            raise UsageError(f"{name!r} is not in both folders")


def _cells(rows: Sequence[Row], factors: Sequence[str]) -> _Cells:
    cells: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        cells.setdefault(tuple(row[name] for name in factors), []).append(row)
    return cells


# ---- one cell ----------------------------------------------------------------------------

_Rows: TypeAlias = tuple[Sequence[Row], Sequence[Row]]


def _judged_measures(asked: Sequence[str], known: Sequence[str], sides: _Rows) -> list[str]:
    if asked:
        return [name for name in dict.fromkeys(asked) if _applies(name, sides)]
    tests = {row["test"] for row in itertools.chain(*sides) if row.get("test")}
    own = OF_REQUESTS if tests and tests <= REQUEST_TESTS else OF_STREAMS
    return [own if own in known else known[0]]


def _applies(measure: str, sides: _Rows) -> bool:
    """A latency of a stream is how long a call of send() took, which says how a buffer filled."""
    tests = {row["test"] for row in itertools.chain(*sides) if row.get("test")}
    return not measure.endswith("Latency") or tests <= REQUEST_TESTS


def _finding(cell: tuple[str, ...], measure: str, sides: _Rows, asked: Asked) -> Finding:
    """The runs and their change; the verdict comes when all of them are known."""
    good = tuple(
        [(row, value) for row in rows if (value := _value(row, measure)) is not None]
        for rows in sides
    )
    counts = _undamaged(sides[0]), _undamaged(sides[1])
    found = Finding(
        cell,
        measure,
        tuple(value for _, value in good[0]),
        tuple(value for _, value in good[1]),
        runs=counts,
        failed=(_failures(sides[0]), _failures(sides[1])),
    )
    for values, name, rows in zip((found.base, found.new), ("base", "new"), sides, strict=True):
        if not values:
            return replace(found, reason=_without_values(rows, name, measure))
        if min(values) < 0:
            return replace(found, reason=f"{name} has values below 0")
    if asked.is_paired:
        pairs = _pairs(sides, measure)
        if isinstance(pairs, str):
            return replace(found, reason=pairs)
        ones, others = zip(*pairs, strict=True)
        found = replace(found, base=ones, new=others, is_paired=True)
    test = ranks.paired if asked.is_paired else ranks.unpaired
    change = test(np.array(found.base), np.array(found.new))
    return replace(found, change=change, p=change.p)


def _without_values(rows: Sequence[Row], name: str, measure: str) -> str:
    failed = _failures(rows)
    if not rows:
        return f"{name} has no such runs"
    if not _undamaged(rows):
        return f"the raw data of all runs of {name} are damaged"
    if failed == _undamaged(rows):
        return f"{'all' if failed > 1 else 'the'} {failed} run{'s' * (failed > 1)} of {name} failed"
    return f"no run of {name} tells {measure}"


def _value(row: Row, measure: str) -> float | None:
    """A run that failed, wholly or in part, has measured something else, or nothing."""
    return numbers.parse(row[measure]) if _is_well(row) else None


def _is_well(row: Row) -> bool:
    """A classic exp.csv has no column status: there every row counts that has numbers."""
    return row.get("status", OK) in {OK, ""}


def _is_damaged(row: Row) -> bool:
    """Neither measured nor failed: its raw data are not what they were."""
    return row.get("status") == DAMAGED


def _undamaged(rows: Sequence[Row]) -> int:
    return sum(not _is_damaged(row) for row in rows)


def _failures(rows: Sequence[Row]) -> int:
    return sum(not _is_well(row) and not _is_damaged(row) for row in rows)


def _pairs(sides: _Rows, measure: str) -> list[tuple[float, float]] | str:
    """Values of runs of equal `rep` in their order; a text where these cannot be known.

    A run that failed takes its partner with it.
    """
    grouped: list[dict[str, list[float | None]]] = []
    for rows in sides:
        grouped.append({})
        for row in rows:
            values = grouped[-1].setdefault(row.get(REPETITION, ""), [])
            values.append(_value(row, measure))
    base, new = grouped
    found: list[tuple[float, float]] = []
    for repetition in base.keys() & new.keys():
        ones, others = base[repetition], new[repetition]
        if len(ones) != len(others):
            return f"{len(ones)} and {len(others)} runs of one repetition cannot be paired"
        found += [
            (one, other)
            for one, other in zip(ones, others, strict=True)
            if one is not None and other is not None
        ]
    return sorted(found) or "there is no pair of runs that both ended well"


def _of_failures(cell: tuple[str, ...], sides: _Rows) -> Finding:
    runs = _undamaged(sides[0]), _undamaged(sides[1])
    failed = _failures(sides[0]), _failures(sides[1])
    p, _ = ranks.fisher(failed, runs)
    return Finding(cell, FAILED_RUNS, (), (), runs, failed, p=p)


# ---- verdicts ----------------------------------------------------------------------------


def _with_verdicts(findings: Sequence[Finding], asked: Asked) -> list[Finding]:
    """With p corrected for the number of those that can tell anything, and verdicts."""
    corrected = _corrected(findings)
    compared = sum(one.change is not None for one in findings)
    judged: list[Finding] = []
    for place, one in enumerate(findings):
        fair = replace(one, p=corrected.get(place, 1.0))
        if one.measure == FAILED_RUNS:
            judged.append(_judged_failures(fair))
        elif one.change is not None:
            judged.append(_judged(fair, one.change, asked, compared))
        else:
            judged.append(fair)
    return judged


def _corrected(findings: Sequence[Finding]) -> dict[int, float]:
    """p of those that can tell anything, by their places, corrected for their number.

    Failures are rare, and clear where they matter: they have a fifth of ALPHA where any run failed,
    so that neither they nor the measures have to be corrected for the other's number.
    """
    has_failures = any(one.measure == FAILED_RUNS for one in findings)
    corrected: dict[int, float] = {}
    for is_failures, share in ((True, 0.2), (False, 0.8 if has_failures else 1.0)):
        able = [
            place
            for place, one in enumerate(findings)
            if (one.measure == FAILED_RUNS) == is_failures and _least_p(one) < ALPHA * share
        ]
        found = ranks.holm([findings[place].p for place in able])
        corrected |= {place: min(1.0, p / share) for place, p in zip(able, found, strict=True)}
    return corrected


def _least_p(one: Finding) -> float:
    if one.measure == FAILED_RUNS:
        return ranks.fisher(one.failed, one.runs)[1]
    return 1.0 if one.change is None else one.change.least_p


def _judged_failures(one: Finding) -> Finding:
    shares = [failed / runs for failed, runs in zip(one.failed, one.runs, strict=True)]
    if one.p < ALPHA:
        is_worse = shares[1] > shares[0]
        return replace(one, verdict=Verdict.WORSE if is_worse else Verdict.BETTER)
    return replace(one, verdict=Verdict.CANNOT_TELL, reason="may be chance")


def _judged(one: Finding, change: Change, asked: Asked, compared: int) -> Finding:
    threshold = asked.threshold_percent / 100
    differs = one.p < ALPHA and change.direction != 0
    if differs and abs(change.part) >= threshold:
        is_better = (change.direction > 0) == (column(one.measure).better == "more")
        return replace(one, verdict=Verdict.BETTER if is_better else Verdict.WORSE)
    between = change.interval
    if between is not None and -threshold <= between.low and between.high <= threshold:
        return replace(one, verdict=Verdict.EQUIVALENT)
    reason = _more_runs(one, change, threshold, ALPHA / compared)
    if differs:
        reason = f"differs, by more or less than {asked.threshold_percent:g} %; {reason}"
    return replace(one, verdict=Verdict.CANNOT_TELL, reason=reason)


def _more_runs(one: Finding, change: Change, threshold: float, alpha: float) -> str:
    """How many runs find a change by the threshold, or one as great as this seems to be."""
    base, new = np.array(one.base), np.array(one.new)
    part = threshold if change.part == math.inf else max(threshold, abs(change.part))
    is_paired = one.is_paired
    needed = ranks.runs_needed(base, new, part, alpha=alpha, is_paired=is_paired)
    what = "pairs" if is_paired else "runs on each side"
    there = min(len(base), len(new))
    if needed is None:
        return f"how many {what} would tell is not known"
    if needed > there:
        return f"about {needed} {what} would tell"
    return f"close to the threshold: more than these {there} {what} may tell"


# ---- what must be known besides ----------------------------------------------------------


def _remarks_on_damage(sides: _Rows) -> Iterable[str]:
    for name, rows in zip(("base", "new"), sides, strict=True):
        if count := len(rows) - _undamaged(rows):
            yield (
                f"{count} run{'s' if count > 1 else ''} of {name} left out: raw data damaged, as "
                "`netesto report` tells."
            )


def _remarks(
    cells: tuple[_Cells, _Cells], factors: Sequence[str], rows: _Rows, asked: Asked
) -> Iterable[str]:
    common = [cell for cell in cells[0] if cell in cells[1]]
    if not common:
        yield "No experiment is in both folders: nothing was compared."
    for name, one, other in (("new", *cells), ("base", cells[1], cells[0])):
        # A damaged run is there, though it cannot be compared.
        fewer = [(_undamaged(one[cell]), len(other[cell])) for cell in common]
        gone = sum(there - here for there, here in fewer if there > here)
        if gone:
            where = sum(there > here for there, here in fewer)
            yield (
                f"{gone} run{'s are' if gone > 1 else ' is'} missing in {name}: it has fewer of "
                f"{where} experiment{'s' if where > 1 else ''}."
            )
    yield from _columns_of_one(factors, rows, asked)
    if any(
        name.endswith("Latency") and not _applies(name, (cells[0][cell], cells[1][cell]))
        for name in asked.measures
        for cell in common
    ):
        yield (
            "Latencies of streams are not compared: they tell how long a call of send() took, "
            "not how long the network did."
        )
    if asked.is_paired and not any(row.get(REPETITION) for row in rows[0]):
        yield "There is no rep to pair by: runs are paired in their order."


def _columns_of_one(factors: Sequence[str], rows: _Rows, asked: Asked) -> Iterable[str]:
    """Runs that differ in a column that the other folder lacks count as repeats of each other."""
    if asked.by:
        return
    for side, own, other in (("base", *rows), ("new", rows[1], rows[0])):
        for name in own[0]:
            if name in other[0] or name in factors or not _is_factor(name):
                continue
            if len({row[name] for row in own}) > 1:
                yield (
                    f"Only {side} has a column {name}: runs that differ in it are taken for "
                    "repeats of each other."
                )
