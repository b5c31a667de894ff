"""`SWEEP … reps=3..30 until=rate:2%`: which repetitions of a cell are needed.

A cell is repeated until Student's interval of the mean of each column is narrow enough. Whether
its repetition k is needed depends on its repetitions before k alone, in this order, and so neither
on how many run at once nor on other cells.

This is the sequential procedure of Y. Chow and H. Robbins (Ann. Math. Statist. 36, 1965) with a
relative width (A. Law, W. Kelton, Simulation Modeling and Analysis, 9.4.1). It is exact in the
limit of narrow intervals. With few values it stops too often where the spread happens to be small
(N. Starr, Ann. Math. Statist. 37, 1966): with 3 values or more, intervals of 95 % cover the mean of
normal values in 90 % of all cells only. Each look therefore uses the interval of LOOK, for which
that is 95 % or more (a test).
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from netesto.language import steps
from netesto.language.plan import Part, Plan, Until, factors_of
from netesto.results import numbers
from netesto.results.certainty import CellEnd, ColumnMean, Ending
from netesto.results.evidence import OK

# The confidence of the interval at one look, so that it is 95 % at the end.
LOOK = 0.98

# The status of an experiment, and its columns.
Row = tuple[str, Mapping[str, str]]


def mean_of(
    values: Sequence[float], share_percent: float, *, experiment: str = "", column: str = ""
) -> ColumnMean:
    """The mean of a column and its interval."""
    # numpy takes a moment to import, and is rarely needed.
    import numpy as np

    from netesto.report.expscript import estimates

    mean = numbers.mean(values)
    half = estimates.mean_half_width(np.array(values), confidence=LOOK) if values else None
    return ColumnMean(
        experiment=experiment,
        column=column,
        share_percent=share_percent,
        count=len(values),
        mean=mean,
        half_percent=100 * half / abs(mean) if half is not None and mean else None,
    )


def is_narrow(mean: ColumnMean, least: int) -> bool:
    """Whether the interval of a mean of `least` values or more is within the requested share."""
    half = mean.half_percent
    return mean.count >= least and half is not None and half <= mean.share_percent


@dataclass(slots=True)
class _Cell:
    """A cell: `experiments` are the names of those in each repetition, `planned` how many
    repetitions the plan has. `done` repetitions are judged; `waiting` are later ones."""

    until: Until
    factors: Mapping[str, str]
    experiments: Sequence[str]
    planned: int = 0
    waiting: dict[int, Sequence[Row]] = field(default_factory=dict)
    done: int = 0
    failed: int = 0
    values: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    ended: Ending = "unfinished"

    def add(self, repetition: int, rows: Sequence[Row], *, is_simulated: bool) -> None:
        self.waiting[repetition] = rows
        while self.ended == "unfinished" and self.done + 1 in self.waiting:
            self.done += 1
            self._count(self.waiting.pop(self.done))
            self.ended = self._judged(is_simulated=is_simulated)

    def _count(self, rows: Sequence[Row]) -> None:
        """Count the values of a repetition, if all of its experiments are ok."""
        if [status for status, _ in rows] != [OK] * len(self.experiments):
            self.failed += 1
            return
        for place, (_, columns) in enumerate(rows):
            for column in self.until.columns:
                number = numbers.parse(columns.get(column, ""))
                if number is not None:
                    self.values.setdefault((place, column), []).append(number)

    def _judged(self, *, is_simulated: bool) -> Ending:
        least = self.until.least
        # What is random in real time may be too little to show.
        constant = {
            key
            for key, values in self.values.items()
            if is_simulated and len(values) >= least and len({*values}) == 1
        }
        means = self.means()
        if len(constant) == len(means):
            return "constant"
        if all(key in constant or is_narrow(mean, least) for key, mean in means.items()):
            return "certain"
        return "bound" if self.done == self.planned else "unfinished"

    def means(self) -> dict[tuple[int, str], ColumnMean]:
        """The mean of each column of each experiment."""
        several = len(self.experiments) > 1
        return {
            (place, column): mean_of(
                self.values.get((place, column), []),
                share,
                experiment=f"{name} (experiment {place + 1} of the cell)" if several else "",
                column=column,
            )
            for place, name in enumerate(self.experiments)
            for column, share in self.until.columns.items()
        }

    def end(self) -> CellEnd:
        return CellEnd(
            sweep=self.until.sweep,
            cell=self.factors,
            ended=self.ended,
            repetitions=self.done,
            failed=self.failed,
            means=tuple(self.means().values()),
        )


class Rounds:
    """The cells of a plan that are repeated until something is certain: none without a plan."""

    def __init__(self, plan: Plan | None, *, is_simulated: bool) -> None:
        self._is_simulated = is_simulated
        self._of_part: dict[int | None, _Cell] = {}
        names = _experiments(plan) if plan is not None else {}
        cells: dict[Hashable, _Cell] = {}
        for part in plan.outer if plan is not None else ():
            if part.until is None or not names[part.index]:
                continue
            cell = cells.setdefault(
                part.until.key(part.cell),
                _Cell(part.until, factors_of(part.cell), names[part.index]),
            )
            cell.planned += 1
            self._of_part[part.index] = cell
        self._cells = [*cells.values()]

    def add(self, part: Part, rows: Sequence[Row]) -> None:
        """A part has ended with these experiments."""
        if (cell := self._of_part.get(part.index)) is not None:
            cell.add(part.repetition, rows, is_simulated=self._is_simulated)

    def needs(self, part: Part) -> bool | None:
        """Whether a part is needed; None if that depends on repetitions that have not ended."""
        cell = self._of_part.get(part.index)
        if cell is None or part.repetition <= max(cell.until.least, cell.done):
            return True
        if cell.ended != "unfinished":
            return False
        return True if part.repetition == cell.done + 1 else None

    def is_optional(self, part: Part) -> bool:
        """Whether a part is a repetition beyond the fewest of its cell."""
        cell = self._of_part.get(part.index)
        return cell is not None and part.repetition > cell.until.least

    def width(self, part: Part) -> float:
        """The widest interval of the cell of a part, in requested shares; infinite while one is
        unknown, and for what is needed anyway."""
        if not self.is_optional(part):
            return math.inf
        means = self._of_part[part.index].means().values()
        return max(
            math.inf if each.half_percent is None else each.half_percent / each.share_percent
            for each in means
        )

    def ends(self) -> tuple[CellEnd, ...]:
        """How each cell has ended so far."""
        return tuple(cell.end() for cell in self._cells)


def _experiments(plan: Plan) -> dict[int | None, list[str]]:
    """The names of the experiments in each outermost part."""
    names: dict[int | None, list[str]] = {part.index: [] for part in plan.outer}
    within: list[int] = []
    for step in plan.steps():
        match step:
            case steps.EnterPart(index=index):
                within.append(index)
            case steps.LeavePart():
                within.pop()
            case steps.ProcessExperiment(notes=notes) if within:
                names[within[0]].append(notes.exp_name)
            case _:
                """No experiment."""
    return names
