"""Average: selected rows that agree in some columns become one row."""

import functools
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from netesto.errors import ScriptError
from netesto.report.expscript import estimates, numerals
from netesto.report.expscript.csvcells import Booleans, Floats, Integers, Warn, parse_all
from netesto.report.expscript.dataset import (
    EXP,
    IDENTIFYING,
    DataColumn,
    Dataset,
    View,
    nearest,
    refuse_pools,
    warn_of_partial,
)
from netesto.report.expscript.lines import items
from netesto.units import COUNT_FACTORS, counted

COUNT = "avgCnt"
_SHORTENED = tuple(COUNT_FACTORS)

_SUFFIXED = re.compile(r"(?P<column>.+)\[(?P<how>[^\]]*)\]")
_STATISTIC = re.compile(
    r"(?P<base>n|sd|min|max|median|ci(?P<confidence>\d\d)|p(?P<percent>\d+(?:\.\d+)?))"
    r"(?:\.ci(?P<interval>\d\d))?"
)


@dataclass(frozen=True, slots=True)
class Statistic:
    """One more column for an averaged one: `rate.sd`, or `rate.median.low` and `.high`."""

    column: str
    word: str
    percent: float | None = None
    confidence: float | None = None
    is_interval: bool = False


@dataclass(frozen=True, slots=True)
class _Key:
    """`is_text`: cells agree as texts, though they may look like numbers."""

    column: str
    how: str = ""
    is_text: bool = False

    def of(self, text: str) -> Hashable | None:
        """The key on which two cells must agree to be merged; None agrees with nothing."""
        number = numerals.drawable(text)
        if self.how == "int":
            return None if number is None else int(number)
        if self.how.startswith("has:^"):
            return text.startswith(self.how[5:])
        if self.how.startswith("has:"):
            return self.how[4:] in text
        if self.how:
            return True
        return text if number is None or self.is_text else number


@dataclass(frozen=True, slots=True)
class _Groups:
    """Which group each selected row belongs to, and each group's first row (a position)."""

    group_of: Integers
    first: Integers

    @property
    def sizes(self) -> Integers:
        return np.bincount(self.group_of, minlength=len(self.first))

    def members(self) -> list[Integers]:
        """The positions of each group's rows."""
        if not len(self.first):
            return []
        order = np.argsort(self.group_of, kind="stable")
        return np.split(order, np.cumsum(self.sizes)[:-1])


def parse_statistics(text: str, names: Sequence[str], *, warn: Warn) -> tuple[Statistic, ...]:
    """`rate: sd, ci95; rtt: median, p99`. ScriptError for an unknown statistic."""
    found: list[Statistic] = []
    for part in items(text, ";"):
        column, colon, words = part.rpartition(":")
        column = column.strip()
        if not colon or not column:
            raise ScriptError(
                f"Stats: {part!r} names no column", remedy="Write: Stats = rate: sd, ci95, median"
            )
        if column not in names:
            warn(f"Stats: no column {column!r}; {nearest(column, names)}")
            continue
        found += [_statistic(column, word) for word in items(words)]
    levels: dict[str, Statistic] = {}
    for one in found:
        name = f"{one.column}: {one.word}"
        if one.is_interval and levels.setdefault(name, one) != one:
            raise ScriptError(
                f"Stats: {name} has intervals of two levels, which would share their columns",
                remedy="Average twice, or choose one level.",
            )
    return tuple(found)


def _statistic(column: str, word: str) -> Statistic:
    match = _STATISTIC.fullmatch(word)
    percent = 50.0 if word.startswith("median") else None
    if match is not None and match["percent"] is not None:
        percent = float(match["percent"])
    if (
        match is None
        or (match["interval"] is not None and percent is None)
        or (percent is not None and not 0 < percent < 100)
        or "00" in (match["confidence"], match["interval"])
    ):
        raise ScriptError(
            f"Stats: unknown statistic {word!r}",
            remedy="Write n sd min max median p1 … p99.9, ci95 for the mean,"
            " and median.ci95, p99.ci95 for the others.",
        )
    confidence = match["confidence"] or match["interval"]
    return Statistic(
        column,
        match["base"],
        percent,
        None if confidence is None else int(confidence) / 100,
        match["interval"] is not None,
    )


def average(
    view: View,
    text: str,
    *,
    statistics: Sequence[Statistic],
    skip_missing: bool,
    weight: str,
    repeats: Collection[str] = (),
    warn: Warn,
) -> View:
    """Merge the selected rows that agree in the columns of `text`; the others are gone.

    `weight` names a column of weights for the means, "" for none. With `skip_missing`, a mean is
    taken over the existing cells; without, as in the classic tool, one missing cell makes the mean
    `...`. Rows of netesto that differ in a factor are not merged, ScriptError, unless `repeats` has
    it.
    """
    warn_of_partial(view, "Average", warn=warn)
    keys = _keys(text, view.data, warn=warn)
    data = view.data.take(view.rows)
    groups = _group(keys, data.columns, data.count)
    pools = [members.tolist() for members in groups.members()] if data.factors else []
    refuse_pools(data, pools, "Average", {*repeats, *(key.column for key in keys)})
    kept = data.take(groups.first)
    key_of = {key.column: key for key in keys}
    merge = functools.partial(
        _Merged,
        groups=groups,
        is_formatted=data.formatted,
        skip_missing=skip_missing,
        weights=_weights(view, weight, warn=warn),
    )
    columns: dict[str, DataColumn] = {}
    for name, column in data.columns.items():
        if name == COUNT:
            continue
        if name == EXP:
            columns[name] = kept.columns[name]
        elif name in key_of:
            columns[name] = _key_column(key_of[name], column, groups)
        elif name in IDENTIFYING:
            columns[name] = merge(column).kept_if_equal()
        else:
            columns[name] = merge(column).mean()
        for statistic in statistics:
            if statistic.column == name:
                columns |= _statistic_columns(statistic, column, groups, warn=warn)
    columns[COUNT] = _count(data.columns.get(COUNT), groups)
    merged = replace(kept, columns=columns)
    new = tuple(name for name in columns if name not in view.data.columns)
    return replace(view, data=merged, rows=np.arange(merged.count), visible=(*view.visible, *new))


def _keys(text: str, data: Dataset, *, warn: Warn) -> tuple[_Key, ...]:
    keys: list[_Key] = []
    names = data.names
    for item in items(text):
        match = None if item in names else _SUFFIXED.fullmatch(item)
        column = match["column"].strip() if match else item
        how = match["how"] if match else ""
        if column not in names:
            warn(f"Average: no column {column!r}; {nearest(column, names)}")
            continue
        if how and how != "int" and not how.startswith("has:"):
            warn(f"Average: [{how}] is unknown and ignored; write [int] or [has:text]")
        keys.append(_Key(column, how, is_text=column == EXP and data.ids.mislead))
    if not keys:
        warn("Average: no column distinguishes rows; all selected rows become one")
    return tuple(keys)


def _group(keys: Sequence[_Key], columns: Mapping[str, DataColumn], count: int) -> _Groups:
    """Number the groups in the order in which they appear."""
    cells: list[list[Hashable]] = []
    for key in keys:
        texts = columns[key.column].texts
        known = {text: key.of(text) for text in set(texts)}
        # None agrees with nothing, not even with itself.
        cells.append([object() if known[text] is None else known[text] for text in texts])
    numbers: dict[tuple[Hashable, ...], int] = {}
    rows = zip(*cells, strict=True) if keys else [()] * count
    group_of = np.array([numbers.setdefault(row, len(numbers)) for row in rows], dtype=np.intp)
    return _Groups(group_of, np.unique(group_of, return_index=True)[1])


def _key_column(key: _Key, column: DataColumn, groups: _Groups) -> DataColumn:
    """A key keeps its value; a partial agreement shows only the common part, or `...`."""
    if not key.how:
        return column.take(groups.first)

    def texts() -> list[str]:
        written = column.texts
        shown: list[str] = []
        for members in groups.members():
            values = {written[row] for row in members.tolist()}
            number = numerals.drawable(written[members[0]])
            if len(values) == 1:
                shown.append(values.pop())
            elif key.how == "int" and number is not None:
                shown.append(str(int(number)))
            else:
                shown.append(numerals.DIFFERENT)
        return shown

    return DataColumn.computed(column.name, texts=texts, decimals=column.decimals)


def _weights(view: View, column: str, *, warn: Warn) -> Floats | None:
    if not column:
        return None
    weights = view.column(column, what="AverageWeight").take(view.rows).numbers
    is_valid = np.isfinite(weights) & (weights >= 0)
    if count := len(weights) - int(is_valid.sum()):
        have, do = ("have", "do") if count > 1 else ("has", "does")
        warn(
            f"AverageWeight: {counted(count, 'row')} {have} no {column} of 0 or more, and {do}"
            " not count"
        )
    return np.where(is_valid, weights, 0.0)


@dataclass(frozen=True, slots=True)
class _Merged:
    """A column of the merged rows: a mean where all members are numbers."""

    column: DataColumn
    groups: _Groups
    is_formatted: bool
    skip_missing: bool
    weights: Floats | None

    def kept_if_equal(self) -> DataColumn:
        """The text that all members have in common, else `...`."""
        every = np.arange(len(self.groups.first))
        column, decimals = self.column.name, self.column.decimals
        return DataColumn.computed(column, texts=lambda: self._texts_of(every), decimals=decimals)

    def mean(self) -> DataColumn:
        exact = self._exact if self.is_formatted else None
        return DataColumn.computed(
            self.column.name, texts=self._mean_texts, numbers=exact, decimals=self.column.decimals
        )

    def _means(self) -> tuple[Floats, Booleans]:
        """Each group's mean, and where there is one."""
        groups, numeric = self.groups, self.column.numeric
        count = len(groups.first)
        weights = np.ones(len(numeric)) if self.weights is None else self.weights
        with np.errstate(invalid="ignore"):
            values = np.where(numeric, self.column.numbers * weights, 0.0)
        total = np.bincount(groups.group_of, weights=values, minlength=count)
        weight = np.bincount(groups.group_of, weights=weights * numeric, minlength=count)
        counted = numeric
        if self.skip_missing:
            texts = self.column.texts
            counted = numeric | np.array([not text.strip() for text in texts], dtype=np.bool_)
        agreeing = np.bincount(groups.group_of, weights=counted, minlength=count)
        is_mean = (agreeing == groups.sizes) & (weight > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return total / weight, is_mean

    def _exact(self) -> tuple[Floats, Booleans]:
        means, is_mean = self._means()
        others, numeric = parse_all(self._mean_texts())
        return np.where(is_mean, means, others), is_mean | numeric

    def _mean_texts(self) -> list[str]:
        means, is_mean = self._means()
        write = repr if self.is_formatted else numerals.cut
        texts = [write(mean) for mean in means.tolist()]
        # 1M in all of them stays 1M, as in the classic tool; a mean is computed only if they
        # differ.
        firsts = self.column.take(self.groups.first).texts
        ends = np.array([text.endswith(_SHORTENED) for text in firsts], dtype=np.bool_)
        chosen = np.flatnonzero(~is_mean | ends)
        for group, text in zip(chosen.tolist(), self._texts_of(chosen), strict=True):
            if text != numerals.DIFFERENT or not is_mean[group]:
                texts[group] = text
        return texts

    def _texts_of(self, chosen: Integers) -> list[str]:
        """The text that all members of a group have in common, else `...`."""
        if not len(chosen):
            return []
        texts = self.column.texts
        members = self.groups.members()
        shown: list[str] = []
        for group in chosen.tolist():
            first = texts[self.groups.first[group]]
            same = all(texts[row] == first for row in members[group].tolist())
            shown.append(first if same else numerals.DIFFERENT)
        return shown


def _count(before: DataColumn | None, groups: _Groups) -> DataColumn:
    """How many original rows are in each; merging merged rows adds up."""
    weights = np.ones(len(groups.group_of))
    if before is not None:
        weights = np.where(before.numeric, before.numbers, 1.0)
    counts = np.bincount(groups.group_of, weights=weights, minlength=len(groups.first))
    return DataColumn.of(COUNT, [str(round(count)) for count in counts.tolist()], decimals=0)


def _statistic_columns(
    statistic: Statistic, column: DataColumn, groups: _Groups, *, warn: Warn
) -> dict[str, DataColumn]:
    values = [
        column.numbers[members][np.isfinite(column.numbers[members])]
        for members in groups.members()
    ]
    name = f"{statistic.column}.{statistic.word}"
    decimals = 0 if statistic.word == "n" else column.decimals
    if not statistic.is_interval:
        return {name: _numbers(name, [_value(statistic, part) for part in values], decimals)}
    percent, confidence = statistic.percent or 50.0, statistic.confidence or 0.95
    intervals = [
        estimates.percentile_interval(part, percent, confidence=confidence) for part in values
    ]
    needed = estimates.values_needed(percent, confidence=confidence)
    if few := sum(len(part) < needed for part in values):
        warn(
            f"Stats: the interval of {name} needs {needed} values or more; {few} of {len(values)}"
            " rows have fewer, and stay empty"
        )
    low = [None if interval is None else interval.low for interval in intervals]
    high = [None if interval is None else interval.high for interval in intervals]
    return {
        f"{name}.low": _numbers(f"{name}.low", low, decimals),
        f"{name}.high": _numbers(f"{name}.high", high, decimals),
    }


def _value(statistic: Statistic, values: Floats) -> float | None:
    if statistic.word == "n":
        return float(len(values))
    if not len(values):
        return None
    if statistic.percent is not None:
        # Between neighbours linearly: definition 7 of R. Hyndman, Y. Fan, 1996.
        return float(np.percentile(values, statistic.percent))
    if statistic.confidence is not None:
        return estimates.mean_half_width(values, confidence=statistic.confidence)
    if statistic.word == "sd":
        return estimates.standard_deviation(values)
    return float(values.min() if statistic.word == "min" else values.max())


def _numbers(name: str, values: Sequence[float | None], decimals: int | None) -> DataColumn:
    """Six significant digits are shown, the value itself is kept whole."""
    parsed = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    texts = ["" if value is None else f"{float(f'{value:.6g}'):.12g}" for value in values]
    return DataColumn.computed(
        name, texts=lambda: texts, numbers=lambda: (parsed, ~np.isnan(parsed)), decimals=decimals
    )
