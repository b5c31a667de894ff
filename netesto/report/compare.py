"""Two results folders against each other: what differs, by how much, and how sure that is.

A *cell* is what was asked for: all columns that describe the experiment and are not measured.
Whole experiments (rows N.0) of equal cells are repeats of each other; cells that both folders have
are compared, measure by measure. `by` names the columns that make a cell, whatever else differs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from netesto.errors import UsageError
from netesto.report import compareplots
from netesto.report.compareplots import Change
from netesto.report.expscript import estimates, page, tables
from netesto.report.expscript.blocks import Block, Heading, Note, Paragraph, TableBlock
from netesto.report.expscript.estimates import Interval
from netesto.report.expscript.tables import Cell, Row, Table
from netesto.results import csvfile, numbers, store
from netesto.results.columns import MEASURED
from netesto.results.evidence import OK
from netesto.results.fields import canonical

# What can be compared; True where more is better.
MEASURES: Mapping[str, bool] = {
    "rate": True, "rateMin": True, "fairness": True, "rtt": False, "pingRtt": False,
    "meanLatency": False, "p50Latency": False, "p90Latency": False, "p99Latency": False,
    "p999Latency": False, "p9999Latency": False, "maxLatency": False, "retransPkts%": False,
    "retrans_total": False, "localCpu": False, "remoteCpu": False,
}  # fmt: skip
# What is compared where both folders have it: each more makes every other one harder to tell.
USUAL_MEASURES = (
    "rate", "fairness", "rtt", "pingRtt", "meanLatency", "p99Latency", "retransPkts%", "localCpu",
)  # fmt: skip

# Where and when an experiment ran, and what it is called: no part of what was asked.
_NO_FACTORS = frozenset(
    {"exp", "group", "desc", "kernel", "host", "fullHost", "server", "fullServer", "instance",
     "tool", "testNote", "rep"}
)  # fmt: skip
DEFAULT_THRESHOLD_PERCENT = 5.0
# The chance of one false alarm or more among all comparisons.
ALPHA = 0.05
# Floats end near here; a p below is shown as such.
SMALLEST_P = 1e-300


class Verdict(Enum):
    """What a comparison says; only WORSE and LOST are regressions."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "no difference shown"
    SMALL = "differs, below the threshold"
    TOO_FEW = "too few runs to tell"
    LOST = "every run failed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure in one cell. `change_percent` is of the means; `p` is corrected (Holm)."""

    cell: tuple[str, ...]
    measure: str
    base: tuple[float, ...]
    new: tuple[float, ...]
    failed: tuple[int, int]
    interval: Interval | None
    p: float
    verdict: Verdict

    @property
    def base_mean(self) -> float | None:
        return float(np.mean(self.base)) if self.base else None

    @property
    def new_mean(self) -> float | None:
        return float(np.mean(self.new)) if self.new else None

    @property
    def change_percent(self) -> float | None:
        """None where there is no base to be a part of."""
        base, new = self.base_mean, self.new_mean
        return None if base is None or new is None or base == 0 else (new - base) / abs(base) * 100


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, and the cells that only one of the folders has."""

    base: Path
    new: Path
    factors: tuple[str, ...]
    threshold_percent: float
    differences: tuple[Difference, ...]
    only_base: tuple[tuple[str, ...], ...]
    only_new: tuple[tuple[str, ...], ...]

    @property
    def regressions(self) -> tuple[Difference, ...]:
        """Worse beyond the threshold and beyond chance, or nothing left to compare."""
        bad = {Verdict.WORSE, Verdict.LOST}
        return tuple(one for one in self.differences if one.verdict in bad)


_Row = Mapping[str, str]
_Cells = Mapping[tuple[str, ...], Sequence[_Row]]


def compare(
    base: Path,
    new: Path,
    *,
    measures: Sequence[str] = (),
    by: Sequence[str] = (),
    threshold_percent: float = DEFAULT_THRESHOLD_PERCENT,
) -> Comparison:
    """Compare two results folders in these measures, without any in the usual ones that they have.

    UsageError if a folder holds no results, or a column is not there; ResultsError for a bad file.
    """
    rows = _whole_experiments(base), _whole_experiments(new)
    common = [name for name in rows[0][0] if name in rows[1][0]]
    factors = _factors(by, common)
    chosen = _measures(measures, common)
    cells = _cells(rows[0], factors), _cells(rows[1], factors)
    differences = [
        _difference(cell, measure, (cells[0][cell], cells[1][cell]))
        for cell in cells[0]
        if cell in cells[1]
        for measure in chosen
    ]
    return Comparison(
        base,
        new,
        factors,
        threshold_percent,
        tuple(_judged([one for one in differences if one is not None], threshold_percent)),
        tuple(cell for cell in cells[0] if cell not in cells[1]),
        tuple(cell for cell in cells[1] if cell not in cells[0]),
    )


def _whole_experiments(folder: Path) -> list[_Row]:
    read: list[_Row] = list(csvfile.read(folder / store.TABLE))
    rows = [row for row in read if row.get("exp", "").endswith(".0")]
    if not rows:
        raise UsageError(
            f"{folder}: there are no experiments in it",
            remedy="netesto compare BASE NEW takes two results folders, each with an exp.csv",
        )
    return rows


def _factors(asked: Sequence[str], common: Sequence[str]) -> tuple[str, ...]:
    """The columns that tell cells apart."""
    possible = tuple(
        name for name in common if name not in _NO_FACTORS and canonical(name) not in MEASURED
    )
    for name in asked:
        if name not in common:
            raise UsageError(
                f"{name!r} is not in both folders", remedy=f"columns: {', '.join(possible)}"
            )
    return tuple(dict.fromkeys(asked)) or possible


def _measures(asked: Sequence[str], common: Sequence[str]) -> list[str]:
    for name in asked:
        if name not in MEASURES:
            raise UsageError(
                f"{name!r} cannot be compared", remedy=f"measures: {', '.join(MEASURES)}"
            )
        if name not in common:
            raise UsageError(f"{name!r} is not in both folders")
    return list(asked) or [name for name in USUAL_MEASURES if name in common]


def _cells(rows: Sequence[_Row], factors: Sequence[str]) -> _Cells:
    cells: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        cells.setdefault(tuple(row[name] for name in factors), []).append(row)
    return cells


def _difference(
    cell: tuple[str, ...], measure: str, rows: tuple[Sequence[_Row], Sequence[_Row]]
) -> Difference | None:
    """None where neither folder has a value: the cell has no such measure."""
    base, new = (_values(part, measure) for part in rows)
    if not base and not new:
        return None
    arrays = np.array(base), np.array(new)
    return Difference(
        cell,
        measure,
        base,
        new,
        failed=(_failed(rows[0]), _failed(rows[1])),
        interval=estimates.welch_interval(*arrays),
        p=estimates.rank_test(*arrays) if base and new else 1.0,
        verdict=Verdict.SAME,
    )


def _values(rows: Sequence[_Row], measure: str) -> tuple[float, ...]:
    """A run that failed, wholly or in part, has measured something else, or nothing."""
    found = (numbers.parse(row[measure]) for row in rows if _is_well(row))
    return tuple(value for value in found if value is not None)


def _is_well(row: _Row) -> bool:
    """A classic exp.csv has no column status: there every row counts that has numbers."""
    return row.get("status", OK) in {OK, ""}


def _failed(rows: Sequence[_Row]) -> int:
    return sum(not _is_well(row) for row in rows)


def _judged(differences: Sequence[Difference], threshold_percent: float) -> list[Difference]:
    """With p corrected for the number of comparisons that can tell anything, and a verdict."""
    corrected = iter(estimates.holm([one.p for one in differences if _could_tell(one)]))
    # With the least p that their runs could have given, corrected alike.
    at_best = iter(estimates.holm([_least_p(one) for one in differences if _could_tell(one)]))
    judged: list[Difference] = []
    for one in differences:
        p, best = (next(corrected), next(at_best)) if _could_tell(one) else (1.0, 1.0)
        if not one.new and one.failed[1]:
            judged.append(replace(one, verdict=Verdict.LOST))
        elif best >= ALPHA:
            judged.append(replace(one, verdict=Verdict.TOO_FEW))
        else:
            fair = replace(one, p=p)
            judged.append(replace(fair, verdict=_verdict(fair, threshold_percent)))
    return judged


def _could_tell(one: Difference) -> bool:
    """Whether there are enough runs for the smallest p to be small, were it the only comparison."""
    return _least_p(one) < ALPHA


def _least_p(one: Difference) -> float:
    return estimates.least_rank_p(len(one.base), len(one.new)) if one.base and one.new else 1.0


def _runs_needed(comparisons: int) -> int:
    """On each side, for so many comparisons to be able to tell something."""
    runs = 1
    while estimates.least_rank_p(runs, runs) * comparisons >= ALPHA:
        runs += 1
    return runs


def _verdict(difference: Difference, threshold_percent: float) -> Verdict:
    base, new = difference.base_mean, difference.new_mean
    if difference.p >= ALPHA or base is None or new is None or base == new:
        return Verdict.SAME
    change = difference.change_percent
    if change is not None and abs(change) < threshold_percent:
        return Verdict.SMALL
    return Verdict.BETTER if (new > base) == MEASURES[difference.measure] else Verdict.WORSE


# ---- for people --------------------------------------------------------------------------


def table(comparison: Comparison, differences: Sequence[Difference]) -> Table:
    """Differences as a table: the factors that vary, means, change, interval, p, verdict."""
    varying = _varying(comparison)
    names = [comparison.factors[place] for place in varying]
    headings = [
        *(tables.Heading(name, name, is_numeric=False) for name in names),
        tables.Heading("measure", "measure", is_numeric=False),
        *(
            tables.Heading(name, name, is_numeric=True)
            for name in ("base", "new", "change", "95 % interval", "p", "runs", "failed")
        ),
        tables.Heading("verdict", "verdict", is_numeric=False),
    ]
    return Table(
        tuple(headings),
        tuple(_row([one.cell[place] for place in varying], one) for one in differences),
    )


def _varying(comparison: Comparison) -> list[int]:
    """Which factors tell the cells apart; the others are the same in all of them."""
    return [
        place
        for place in range(len(comparison.factors))
        if len({one.cell[place] for one in comparison.differences}) > 1
    ]


def _changes(comparison: Comparison) -> list[Change]:
    """The differences that have a place on an axis of percent."""
    varying = _varying(comparison)
    kinds: Mapping[Verdict, compareplots.Kind] = {
        Verdict.WORSE: "worse", Verdict.BETTER: "better",
    }  # fmt: skip
    changes: list[Change] = []
    for one in comparison.differences:
        percent, base, interval = one.change_percent, one.base_mean, one.interval
        if percent is None or base is None:
            continue
        label = ", ".join(one.cell[place] or "none" for place in varying)
        change = Change(one.measure, label, percent, kinds.get(one.verdict, "not told apart"))
        if interval is not None:
            part = 100 / abs(base)
            change = replace(change, low=interval.low * part, high=interval.high * part)
        changes.append(change)
    return changes


def _row(factors: Sequence[str], one: Difference) -> Row:
    change, interval = one.change_percent, one.interval
    texts = [
        *factors,
        one.measure,
        _figure(one.base_mean),
        _figure(one.new_mean),
        "" if change is None else f"{change:+.1f}%",
        "" if interval is None else f"{_signed(interval.low)} … {_signed(interval.high)}",
        "" if one.verdict in {Verdict.TOO_FEW, Verdict.LOST} else _probability(one.p),
        f"{len(one.base)}/{len(one.new)}",
        f"{one.failed[0]}/{one.failed[1]}" if any(one.failed) else "",
        one.verdict.value,
    ]
    marks = {Verdict.WORSE: "loss", Verdict.LOST: "loss", Verdict.BETTER: "rate"}
    last = Cell(texts[-1], mark=marks.get(one.verdict, ""))
    return Row((*(Cell(text) for text in texts[:-1]), last), mark="cubic")


def _probability(p: float) -> str:
    """Never 0: however small, it is a probability."""
    return f"{p:.3g}" if p >= SMALLEST_P else f"< {SMALLEST_P:g}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _signed(value: float) -> str:
    """Four digits, or all before the point."""
    return f"{value:+.0f}" if abs(value) >= 1000 else f"{value:+.4g}"


def summary(comparison: Comparison) -> str:
    """One sentence, and a second one where more runs would tell more."""
    counts = Counter(one.verdict for one in comparison.differences)
    told = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    total = counts.total()
    several = "s" if total != 1 else ""
    sentence = f"{total} comparison{several}: {told or 'nothing in common'}."
    if counts[Verdict.TOO_FEW]:
        sentence += (
            f" For {total} comparison{several} a rank test needs {_runs_needed(total)} runs of each"
            " experiment on each side."
        )
    return sentence


def render(comparison: Comparison) -> str:
    """The page."""
    blocks: list[Block] = [
        Paragraph(f"Base: {comparison.base}. New: {comparison.new}."),
        Paragraph(summary(comparison)),
        Paragraph(
            f"Worse and better are changes of {comparison.threshold_percent:g} % or more that a"
            f" Mann-Whitney rank test tells from chance (p < {ALPHA:g}, after Holm's correction"
            " for the number of comparisons). The interval is Welch's, of the difference of the"
            " means. Runs that failed are counted, never averaged."
        ),
    ]
    if comparison.regressions:
        blocks.append(Heading("Regressions", 2, "regressions"))
        blocks.append(TableBlock(table(comparison, comparison.regressions), "regressed"))
    else:
        blocks.append(Note("No regression was found."))
    plots = compareplots.blocks(_changes(comparison), comparison.threshold_percent)
    if plots:
        blocks.append(Heading("Changes", 2, "changes"))
        blocks += plots
    blocks.append(Heading("All comparisons", 2, "all"))
    if comparison.differences:
        blocks.append(TableBlock(table(comparison, comparison.differences), "compared"))
    for title, cells in (("base", comparison.only_base), ("new", comparison.only_new)):
        if cells:
            blocks.append(Heading(f"Only in {title}", 2, f"only-{title}"))
            blocks.append(TableBlock(_cells_table(comparison.factors, cells), f"only-in-{title}"))
    return page.render(f"{comparison.base.name} and {comparison.new.name}", blocks)


def _cells_table(factors: Sequence[str], cells: Sequence[tuple[str, ...]]) -> Table:
    filled = [place for place in range(len(factors)) if any(cell[place] for cell in cells)]
    return Table(
        tuple(tables.Heading(factors[place], factors[place], is_numeric=False) for place in filled),
        tuple(Row(tuple(Cell(cell[place]) for place in filled)) for cell in cells),
    )
