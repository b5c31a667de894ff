"""Select, Rows and Sort: the rows of the next table or plot, and their order."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import TypeAlias

import numpy as np

from netesto.errors import ScriptError
from netesto.report.expscript import dataset, numerals
from netesto.report.expscript.csvcells import Booleans, Floats, Integers, Warn
from netesto.report.expscript.dataset import EXP, DataColumn, Dataset, View
from netesto.report.expscript.ids import Ids
from netesto.report.expscript.lines import items
from netesto.units import Quantity, UnitKind

# In the order in which a clause is searched for them; the first one found anywhere in it counts.
OPERATORS = ("==", "!=", ">=", "<=", "<>", ">", "<", "[has]", "[hasnot]")
_COMPARISONS: Mapping[str, Callable[[Floats, float], Booleans]] = {
    ">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal,
}  # fmt: skip

_COLUMN = r"\s*(?P<column>[^=<>!~\[\],;{}()]+?)"
# Forms that classic scripts do not have: a pattern, a set of values, a quoted value.
_PATTERN = re.compile(
    _COLUMN + r"\s*(?P<operator>=~|!~)\s*(?:/(?P<quoted>(?:\\/|[^/])*)/|(?P<bare>[^,;]*))"
)
_SET = re.compile(_COLUMN + r"\s+(?P<operator>in|not\s+in)\s*\{(?P<values>[^}]*)\}")
_QUOTED = re.compile(
    _COLUMN
    + r"\s*(?P<operator>==|!=|>=|<=|<>|>|<|\[has\]|\[hasnot\])\s*"
    + r"(?P<quote>[\"'])(?P<value>.*?)(?P=quote)\s*(?=[,;)]|\Z)"
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition on one column. `operator` is one of OPERATORS, or =~ !~ in "not in"; a text
    without one, "", is always true and causes a warning."""

    column: str
    operator: str
    values: tuple[str, ...] = ("",)

    @property
    def value(self) -> str:
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Joined:
    """Conditions that all must be true (`,`), or one of them (`;`)."""

    separator: str
    parts: tuple["Condition", ...]


Condition: TypeAlias = Clause | Joined


def parse(text: str) -> Condition:
    """`a==1,b>2;c==3`: a comma means and, a semicolon or. ScriptError where it cannot be read."""
    parser = _SelectionParser(text)
    condition = parser.any_of()
    if not parser.at_end():
        raise ScriptError(
            f"Select: ')' without '(' in {text!r}", remedy="(a==1;b==2),c==3 groups conditions."
        )
    return condition


class _SelectionParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def at_end(self) -> bool:
        return not self._text[self._position :].strip()

    def any_of(self) -> Condition:
        return self._joined(";", self._all_of)

    def _all_of(self) -> Condition:
        return self._joined(",", self._one)

    def _joined(self, separator: str, read: Callable[[], Condition]) -> Condition:
        parts = [read()]
        while self._skip(separator):
            parts.append(read())
        if separator == ",":
            # A comma at the end is ignored.
            parts = [part for part in parts if part != Clause("", "")] or parts[:1]
        return parts[0] if len(parts) == 1 else Joined(separator, tuple(parts))

    def _one(self) -> Condition:
        if not self._skip("("):
            return self._clause()
        self._depth += 1
        inner = self.any_of()
        self._depth -= 1
        if not self._skip(")"):
            raise ScriptError(f"Select: a '(' is not closed in {self._text!r}", remedy="Add a ')'.")
        return inner

    def _skip(self, character: str) -> bool:
        rest = self._text[self._position :]
        if not rest.lstrip().startswith(character):
            return False
        self._position += len(rest) - len(rest.lstrip()) + 1
        return True

    def _clause(self) -> Condition:
        for form in (_PATTERN, _SET, _QUOTED):
            match = form.match(self._text, self._position)
            if match is not None:
                self._position = match.end()
                return _clause_of(match)
        stop = re.compile(r"[,;)]" if self._depth else r"[,;]").search(self._text, self._position)
        end = stop.start() if stop else len(self._text)
        text = self._text[self._position : end].strip()
        self._position = end
        return _classic_clause(text)


def _clause_of(match: re.Match[str]) -> Condition:
    """The clause of one of the forms that classic scripts do not have."""
    found = match.groupdict()
    column, operator = found["column"].strip(), " ".join(found["operator"].split())
    if "values" in found:
        return Clause(column, operator, tuple(items(found["values"])))
    if "value" in found:
        return _checked(Clause(column, operator, (found["value"],)))
    quoted = found["quoted"]
    pattern = found["bare"].strip() if quoted is None else quoted.replace("\\/", "/")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ScriptError(
            f"Select: {pattern!r} is not a regular expression: {error}",
            remedy="expName=~/^1s3c.*fs$/ finds names of that form.",
        ) from None
    return Clause(column, operator, (pattern,))


def _classic_clause(text: str) -> Condition:
    for operator in OPERATORS:
        column, found, value = text.partition(operator)
        if found:
            return _checked(Clause(column.strip(), operator, (value.strip(),)))
    return Clause(text, "")


def _checked(clause: Clause) -> Clause:
    """ScriptError if the value cannot be what the operator needs."""
    written = f"{clause.column}{clause.operator}{clause.value}"
    if clause.operator == "<>":
        bounds = _bounds(clause)
        if len(bounds) != 2 or None in bounds or len({bound.kind for bound in bounds if bound}) > 1:
            raise ScriptError(
                f"Select: {written!r} is not a range",
                remedy=f"Write {clause.column}<>low:high, with two numbers; both are left out.",
            )
    if clause.operator in _COMPARISONS and None in _bounds(clause):
        raise ScriptError(
            f"Select: {written!r} compares with {clause.value!r}, which is not a number",
            remedy="A number may end in K, M or G, or have a unit: 64K, 10mbit, 20ms; == and [has]"
            " compare texts.",
        )
    return clause


def _bounds(clause: Clause) -> list[Quantity | None]:
    """What the clause compares with: numbers, rates, or times."""
    return [_measured(part) for part in _bound_texts(clause)]


def _bound_texts(clause: Clause) -> list[str]:
    return clause.value.split(":") if clause.operator == "<>" else [clause.value]


def _measured(text: str) -> Quantity | None:
    number = numerals.parse(text)
    return numerals.quantity(text) if number is None else Quantity(Decimal(number), UnitKind.NUMBER)


def select(view: View, text: str, *, warn: Warn) -> View:
    """Filter the selection, and order it by exp; `all` selects every row in file order."""
    if text.strip().lower() == "all":
        return replace(view, rows=np.arange(view.data.count))
    rows = view.rows
    if text.strip():
        rows = rows[_mask(parse(text), view.data, warn)[rows]]
    # Ids that are no numbers are nan, which comes last.
    ids = view.data.ids.order(view.data.columns[EXP])[rows]
    return replace(view, rows=rows[np.argsort(ids, kind="stable")])


def _mask(condition: Condition, data: Dataset, warn: Warn) -> Booleans:
    match condition:
        case Joined(separator, parts):
            together = np.logical_and if separator == "," else np.logical_or
            return reduce(together, [_mask(part, data, warn) for part in parts])
        case Clause(text, ""):
            warn(
                f"Select: {text!r} has no operator and is always true; "
                "write column==value, or one of != > >= < <= <> [has] [hasnot] =~ in"
            )
        case Clause(column) if column not in data.columns:
            near = dataset.nearest(column, data.names)
            warn(f"Select: no column {column!r}, its condition is always true; {near}")
        case Clause(column):
            ids = data.ids if column == EXP else None
            return _clause_mask(condition, data.columns[column], ids, warn)
    return np.ones(data.count, dtype=np.bool_)


def _clause_mask(clause: Clause, column: DataColumn, ids: Ids | None, warn: Warn) -> Booleans:
    """`ids` is what the cells of the column exp are; None for other columns."""
    match clause.operator:
        case "==" | "!=" | "in" | "not in":
            found = np.zeros(len(column.texts), dtype=np.bool_)
            for value in clause.values:
                found |= _equal(column, value, ids)
        case "[has]" | "[hasnot]":
            found = _contains(column, clause.value, ids)
        case "=~" | "!~":
            pattern = re.compile(clause.value)
            found = _each(column.texts, lambda text: pattern.search(text) is not None)
        case _:
            return _compared(column, clause, ids, warn)
    return found if clause.operator in {"==", "in", "[has]", "=~"} else ~found


def _compared(column: DataColumn, clause: Clause, ids: Ids | None, warn: Warn) -> Booleans:
    """A cell that is not of the kind compared with, a number or a rate or a time, is not selected.

    If no cell is, that is a warning: such a condition is not intended.
    """
    found = [bound for bound in _bounds(clause) if bound is not None]
    bounds = [float(bound.value) for bound in found]
    numbers = _sizes(column, found[0].kind)
    if ids is not None and found[0].kind is UnitKind.NUMBER:
        numbers = ids.order(column)
        bounds = [ids.place(bound) for bound in _bound_texts(clause)]
    if not np.isfinite(numbers).any():
        _tell_no_such_cell(column, clause, found[0].kind, warn)
    with np.errstate(invalid="ignore"):
        if clause.operator == "<>":
            return np.greater(numbers, bounds[0]) & np.less(numbers, bounds[1])
        return _COMPARISONS[clause.operator](numbers, bounds[0])


def _sizes(column: DataColumn, kind: UnitKind) -> Floats:
    """The cells as numbers, or as rates or times in their base unit; nan for other cells."""
    if kind is UnitKind.NUMBER:
        return column.numbers
    found = {text: numerals.quantity(text) for text in set(column.texts)}
    known = {
        text: float(one.value) if one and one.kind is kind else np.nan
        for text, one in found.items()
    }
    return np.array([known[text] for text in column.texts], dtype=np.float64)


def _tell_no_such_cell(column: DataColumn, clause: Clause, kind: UnitKind, warn: Warn) -> None:
    texts = [text for text in dict.fromkeys(column.texts) if text.strip()]
    if not texts:
        return
    written = f"{clause.column}{clause.operator}{clause.value}"
    what = "a number" if kind is UnitKind.NUMBER else f"{kind.value} with a unit"
    warn(f"Select: {written!r} selects nothing: no cell of {column.name!r} is {what}; one is "
         f"{texts[0]!r}")  # fmt: skip


def _equal(column: DataColumn, value: str, ids: Ids | None) -> Booleans:
    """Equal as numerals.same, and exp as the pair that it is; nothing equals an empty cell."""
    found = None if ids is None else ids.equal(column, value)
    if found is not None:
        return found
    number = numerals.parse(value)
    if number is not None:
        return np.equal(column.numbers, number)
    if numerals.quantity(value) is not None:
        return _each(column.texts, lambda text: numerals.same(text, value))
    return _each(column.texts, lambda text: text == value)


def _contains(column: DataColumn, value: str, ids: Ids | None) -> Booleans:
    group = None if ids is None else ids.of_group(column, value)
    if group is not None:
        return group
    texts = column.texts
    if value.startswith("^"):
        found = [text.startswith(value[1:]) for text in texts]
    else:
        found = [value in text for text in texts]
    return np.array(found, dtype=np.bool_)


def _each(texts: Sequence[str], true: Callable[[str], bool]) -> Booleans:
    known = {text: true(text) for text in set(texts)}
    return np.fromiter((known[text] for text in texts), dtype=np.bool_, count=len(texts))


def rows(view: View, text: str, *, warn: Warn) -> View:
    """The rows with these ids, in this order, from all rows; `a..b` takes all N.k with a <= N <= b.

    `all` is every row. Ids match as written: 12.0, not 12.
    """
    if text.strip().lower() == "all":
        return replace(view, rows=np.arange(view.data.count))
    ids = view.data.columns[EXP]
    places: dict[str, list[int]] = {}
    for row, written in enumerate(ids.texts):
        places.setdefault(written.strip(), []).append(row)
    chosen: list[int] = []
    for item in items(text):
        found = _span(item, ids) if ".." in item else places.get(item, [])
        if not found:
            warn(f"Rows: no row has exp {item}; ids match as written: 12.0, not 12")
        chosen += found
    return replace(view, rows=np.array(chosen, dtype=np.intp))


def _span(item: str, ids: DataColumn) -> list[int]:
    first, _, last = item.partition("..")
    bounds = [numerals.drawable(first), numerals.drawable(last)]
    if bounds[0] is None or bounds[1] is None:
        raise ScriptError(f"Rows: {item!r} is not a range of experiments", remedy="Write: 12..15")
    with np.errstate(invalid="ignore"):
        whole = np.floor(ids.numbers)
        inside = (whole >= np.floor(bounds[0])) & (whole <= np.floor(bounds[1]))
    return [int(row) for row in np.flatnonzero(inside)]


# ---- Sort --------------------------------------------------------------------------------


def sort(view: View, text: str) -> View:
    """Order the selection: `a,-b` is by a, then by b downwards; equal rows keep their order.

    Numbers come before rates, times (100mbit before 1gbit) and texts; missing cells, `*` and `...`
    come last, upwards and downwards. ScriptError for an unknown column.
    """
    keys = items(text)
    if not keys:
        raise ScriptError(
            "Sort: no column", remedy="Sort=bw,-rate sorts by bw, then rate downwards."
        )
    rows = view.rows
    for key in reversed(keys):
        # A name that begins with `-` is found as well.
        descending = key.startswith("-") and key not in view.data.names
        name = key[1:].strip() if descending else key
        column = view.column(name, what="Sort").take(rows)
        numbers = view.data.ids.order(column) if name == EXP else column.numbers
        rows = rows[_order(column, numbers, descending=descending)]
    return replace(view, rows=rows)


def _order(column: DataColumn, numbers: Floats, *, descending: bool) -> Integers:
    sign = -1 if descending else 1
    texts = column.texts
    places = _places({texts[row] for row in np.flatnonzero(~column.numeric).tolist()})
    found = [places.get(text, (0, 0.0)) for text in texts]
    missing = np.array(
        [not text.strip() or text in numerals.SIGNS for text in texts], dtype=np.bool_
    ) | (column.numeric & np.isnan(numbers))
    value = np.where(column.numeric, numbers, [place for _, place in found]) * sign
    kind = np.array([kind for kind, _ in found], dtype=np.intp) * sign
    return np.lexsort((np.where(missing, 0, value), np.where(missing, 0, kind), missing))


def _places(texts: set[str]) -> dict[str, tuple[int, float]]:
    """After the numbers come rates, then times, both by size, then other texts."""
    ranks = {text: (3, float(rank)) for rank, text in enumerate(sorted(texts))}
    quantities = {text: numerals.quantity(text) for text in texts}
    kinds = {UnitKind.RATE: 1, UnitKind.TIME: 2}
    return ranks | {
        text: (kinds[one.kind], float(one.value)) for text, one in quantities.items() if one
    }
