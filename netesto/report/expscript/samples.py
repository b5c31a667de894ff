"""The samples of a plot, before it has axes: the usable rows, split into series."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from netesto.report.expscript import estimates, ids, numerals
from netesto.report.expscript.csvcells import Warn
from netesto.report.expscript.dataset import EXP, View, nearest
from netesto.report.expscript.lines import items


@dataclass(frozen=True, slots=True)
class SeriesChoice:
    """`column;v1=Label 1,v2`: the cells of a column, and the labels of those that are series."""

    texts: Sequence[str]
    labels: Mapping[str, str]

    def of(self, row: int) -> str | None:
        """The label of a row's series; None if the script lists others."""
        return self.labels.get(self.texts[row])


@dataclass(frozen=True, slots=True)
class PlotSample:
    """One usable row and column for Y1. `x` and `panel` are cells as written.

    `row` is its place in the data. `label` is that of its series; a row without one, whose series
    the script does not list, only counts for the range of Y.
    """

    x: str
    y: float
    right: tuple[float, ...]
    label: str | None
    panel: str
    row: int = 0
    low: float | None = None
    high: float | None = None

    @property
    def is_drawn(self) -> bool:
        return self.label is not None


def series_choice(text: str, view: View, *, warn: Warn) -> SeriesChoice | None:
    """The value of plotSeries; None without series; an unknown column is a warning."""
    column, _, listed = text.partition(";")
    column = column.strip()
    if not column:
        return None
    if column not in view.data.columns:
        warn(f"plotSeries: no column {column!r}, there are no series; "
             f"{nearest(column, view.data.names)}")  # fmt: skip
        return None
    labels: dict[str, str] = {}
    for item in items(listed):
        value, _, label = item.partition("=")
        labels[value.strip()] = label.strip() or value.strip()
    texts = view.data.columns[column].texts
    values = dict.fromkeys(texts[row] for row in view.rows.tolist())
    if not labels:
        # A series without a text would have bars but no entry in the legend.
        return SeriesChoice(texts, {cell: cell.strip() or f"(no {column})" for cell in values})
    # 1M in the script is 1000000.0 in the data, where the text itself is not listed.
    are_pairs = column == EXP and view.data.ids.mislead
    for cell in [cell for cell in values if cell not in labels and not are_pairs]:
        same = next((value for value in labels if numerals.same(value, cell)), None)
        labels |= {} if same is None else {cell: labels[same]}
    return SeriesChoice(texts, labels)


@dataclass(frozen=True, slots=True)
class PlotColumns:
    """The columns of a plot. `errors` are one column (half a width) or two (low and high)."""

    x: str
    lefts: tuple[str, ...]
    rights: tuple[str, ...]
    series: SeriesChoice | None
    facet: str
    errors: tuple[str, ...]
    # X is exp, and there are ten groups and more.
    has_pairs: bool = False
    # The names of columns with their units.
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """The series in the order of the legend."""
        values = [""] if self.series is None else self.series.labels.values()
        found = (self.label(value, left) for left in self.lefts for value in values)
        return tuple(dict.fromkeys(found))

    def label(self, value: str, left: str) -> str:
        """A value of the series' column, and the column of Y1 if there are several."""
        parts = (value, left if len(self.lefts) > 1 else "")
        return ", ".join(part for part in parts if part)


def collect(view: View, wanted: PlotColumns, *, needs_x: bool) -> list[PlotSample]:
    """The samples of the selected rows, in their order.

    A row without an X, or with a Y that is missing or a text, is not a sample: a failed flow is
    not drawn as 0.
    """
    data = view.data
    for name in (wanted.x, *wanted.lefts, *wanted.rights, *wanted.errors, wanted.facet):
        if name:
            view.column(name, what="doPlot")
    samples: list[PlotSample] = []
    for left in wanted.lefts:
        for row in view.rows.tolist():
            x = data.columns[wanted.x].texts[row] if wanted.x else ""
            y = _finite(view, left, row)
            right = [_finite(view, name, row) for name in wanted.rights]
            known = [value for value in right if value is not None]
            if y is None or len(known) < len(right) or (needs_x and not x.strip()):
                continue
            value = "" if wanted.series is None else wanted.series.of(row)
            sample = PlotSample(
                x,
                y,
                tuple(known),
                None if value is None else wanted.label(value, left),
                data.columns[wanted.facet].texts[row] if wanted.facet else "",
                row,
            )
            samples.append(_with_error(sample, view, wanted.errors, row))
    return samples


def _finite(view: View, name: str, row: int) -> float | None:
    value = float(view.data.columns[name].numbers[row])
    return value if abs(value) <= numerals.LARGEST_DRAWN else None


def _with_error(sample: PlotSample, view: View, errors: Sequence[str], row: int) -> PlotSample:
    bounds = [_finite(view, name, row) for name in errors]
    match bounds:
        case [float(half)]:
            return replace(sample, low=sample.y - half, high=sample.y + half)
        case [float(low), float(high)]:
            return replace(sample, low=low, high=high)
        case _:
            return sample


def merged(samples: Sequence[PlotSample], how: str) -> list[PlotSample]:
    """Repeats, samples of equal series and X, as one: their mean or median with its 95 % interval.

    Intervals: Student's t for a mean, order statistics for a median. Too few values have none.
    """
    return [_merged(members, how) for members in repeats(samples)]


def repeats(samples: Sequence[PlotSample]) -> list[list[PlotSample]]:
    """Samples of equal series and X."""
    groups: dict[tuple[str, str | None, str], list[PlotSample]] = {}
    for sample in samples:
        groups.setdefault((sample.panel, sample.label, sample.x), []).append(sample)
    return list(groups.values())


def _merged(members: Sequence[PlotSample], how: str) -> PlotSample:
    values = np.array([member.y for member in members])
    right = np.array([member.right for member in members])
    if how == "mean":
        y = float(values.mean())
        half = estimates.mean_half_width(values)
        low, high = (None, None) if half is None else (y - half, y + half)
        rights = right.mean(axis=0)
    else:
        y = float(np.median(values))
        interval = estimates.percentile_interval(values, 50)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        rights = np.median(right, axis=0)
    return replace(members[0], y=y, right=tuple(float(one) for one in rights), low=low, high=high)


def overlapping(samples: Sequence[PlotSample]) -> int:
    """How many samples share their place with one drawn before them."""
    places = {(sample.panel, sample.label, sample.x) for sample in samples if sample.is_drawn}
    return sum(sample.is_drawn for sample in samples) - len(places)


def categories(samples: Sequence[PlotSample], order: str, *, are_pairs: bool) -> tuple[str, ...]:
    """The distinct X texts: by number if all are numbers, else by text; `are_pairs`: as ids are.

    `order`: "sorted", or "selection" for the order of the rows, or "natural" where numbers within
    texts count, with their units: 10mbit before 100mbit before 1gbit.
    """
    texts = tuple(dict.fromkeys(sample.x for sample in samples if sample.is_drawn))
    if order == "selection":
        return texts
    as_texts = tuple(sorted(texts, key=_natural if order == "natural" else None))
    return _by_number(texts, are_pairs=are_pairs) or as_texts


def _by_number(texts: Sequence[str], *, are_pairs: bool) -> tuple[str, ...] | None:
    """As numbers, or as ids, in ascending order; None unless all are numbers."""
    if are_pairs:
        return tuple(sorted(texts, key=lambda text: ids.pair(text) or (0, 0)))
    if None in map(numerals.drawable, texts):
        return None
    return tuple(sorted(texts, key=lambda text: (numerals.drawable(text) or 0.0, text)))


_NUMBER_WITH_UNIT = re.compile(r"(\d+(?:\.\d+)?[A-Za-z/]+|\d+)")


def _natural(text: str) -> list[tuple[int, float, str]]:
    found: list[tuple[int, float, str]] = []
    for part in filter(None, _NUMBER_WITH_UNIT.split(text)):
        number, quantity = numerals.parse(part), numerals.quantity(part)
        if number is None and quantity is None:
            # The parts of 6.12 count one by one, as those of a version do.
            found += [
                (0, float(one), "") if one.isdecimal() else (1, 0.0, one)
                for one in filter(None, re.split(r"(\d+)", part))
            ]
        else:
            size = quantity.value if number is None and quantity else number or 0.0
            found.append((0, float(size), ""))
    return found


def panel_title(column: str, value: str) -> str:
    """A number is meaningless without the name of its column."""
    return value if numerals.drawable(value) is None else f"{column} = {value}"


def panels(samples: Sequence[PlotSample], *, are_pairs: bool) -> tuple[str, ...]:
    """The values of small multiples: by number if all are numbers, else in their order."""
    texts = tuple(dict.fromkeys(sample.panel for sample in samples if sample.is_drawn))
    return _by_number(texts, are_pairs=are_pairs) or texts
