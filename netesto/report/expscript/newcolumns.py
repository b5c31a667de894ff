"""NewCol, in both spellings: columns computed from columns, for every row."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from netesto.errors import ScriptError
from netesto.report.expscript import expressions, numerals
from netesto.report.expscript.csvcells import Booleans, Floats, Integers, Warn, parse_all
from netesto.report.expscript.dataset import EXP, DataColumn, Dataset, View, nearest
from netesto.report.expscript.expressions import (
    ColumnName,
    Expression,
    NumberLiteral,
    Operation,
    TextLiteral,
)
from netesto.report.expscript.numerals import DIVIDED_BY_ZERO, NOT_A_NUMBER
from netesto.units import UnitKind

# The state of a cell: a number, `*`, `**`. Of two marks the higher one is passed on.
_FINE, _NOT_A_NUMBER, _DIVIDED_BY_ZERO = 0, 1, 2
_MARKS = ("", NOT_A_NUMBER, DIVIDED_BY_ZERO)

# The operators of the older spelling.
_OPERATORS: Mapping[str, str] = {
    "NewColDiv": "/", "NewColMult": "*", "NewColAdd": "+", "NewColSub": "-", "NewColConcat": "&",
    "/": "/", "*": "*", "+": "+", "-": "-", "&": "&",
}  # fmt: skip
# A quotient shows at least this many decimals when formatting is on.
QUOTIENT_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class _Cells:
    """The value of a part of an expression for every row: numbers with marks, or texts."""

    numbers: Floats
    marks: NDArray[np.int8]
    texts: Callable[[], list[str]] | None = None
    is_text: bool = False

    def written(self, write: Callable[[float], str] = numerals.plain) -> list[str]:
        """The text, for joining and for tables."""
        if self.texts is not None:
            return self.texts()
        return [
            write(number) if mark == _FINE else _MARKS[mark]
            for number, mark in zip(self.numbers.tolist(), self.marks.tolist(), strict=True)
        ]


def _of_texts(texts: list[str]) -> _Cells:
    numbers, numeric = parse_all(texts)
    return _Cells(numbers, _marks_of(texts, numeric), lambda: texts, is_text=True)


def _of_column(column: DataColumn) -> _Cells:
    marks = np.zeros(len(column.numbers), dtype=np.int8)
    if not column.numeric.all():
        marks = _marks_of(column.texts, column.numeric)
    return _Cells(column.numbers, marks, lambda: column.texts, is_text=not column.numeric.any())


def _marks_of(texts: Sequence[str], numeric: Booleans) -> NDArray[np.int8]:
    marks = np.where(numeric, _FINE, _NOT_A_NUMBER).astype(np.int8)
    for row in np.flatnonzero(~numeric).tolist():
        if texts[row] == DIVIDED_BY_ZERO:
            marks[row] = _DIVIDED_BY_ZERO
    return marks


def _of_mask(mask: Booleans, marks: NDArray[np.int8] | None = None) -> _Cells:
    """1 where it is true, else 0, for every cell that is not marked."""
    fine = np.zeros(len(mask), dtype=np.int8)
    return _Cells(mask.astype(np.float64), fine if marks is None else marks)


# ---- functions ---------------------------------------------------------------------------

_Arguments: TypeAlias = Sequence[_Cells]


def _worst(cells: _Arguments) -> NDArray[np.int8]:
    return reduce(np.maximum, [cell.marks for cell in cells])


def _of_one(compute: Callable[[Floats], Floats]) -> Callable[[_Arguments], _Cells]:
    """A function of one number; where it has no value, the cell is `*`."""

    def call(arguments: _Arguments) -> _Cells:
        (argument,) = arguments
        with np.errstate(all="ignore"):
            values = compute(argument.numbers)
        undefined = ~np.isfinite(values) & np.isfinite(argument.numbers)
        return _Cells(values, np.where(undefined, np.maximum(argument.marks, 1), argument.marks))

    return call


def _of_many(
    combine: Callable[[NDArray[np.float64]], Floats],
) -> Callable[[_Arguments], _Cells]:
    def call(arguments: _Arguments) -> _Cells:
        with np.errstate(all="ignore"):
            values = combine(np.stack([argument.numbers for argument in arguments]))
        return _Cells(values, _worst(arguments))

    return call


def _round(arguments: _Arguments) -> _Cells:
    places = arguments[1].numbers if len(arguments) > 1 else np.zeros(len(arguments[0].numbers))
    with np.errstate(all="ignore"):
        factors = np.power(10.0, np.nan_to_num(places))
        values = np.round(arguments[0].numbers * factors) / factors
    return _Cells(values, _worst(arguments))


def _if(arguments: _Arguments) -> _Cells:
    condition, yes, no = arguments
    true = condition.numbers != 0
    if yes.is_text or no.is_text:
        pairs = zip(true.tolist(), yes.written(), no.written(), condition.marks, strict=True)
        return _of_texts([_MARKS[mark] if mark else (a if t else b) for t, a, b, mark in pairs])
    marks = np.maximum(condition.marks, np.where(true, yes.marks, no.marks))
    return _Cells(np.where(true, yes.numbers, no.numbers), marks)


def _of_pair(true: Callable[[str, str], bool]) -> Callable[[_Arguments], _Cells]:
    def call(arguments: _Arguments) -> _Cells:
        first, second = (argument.written() for argument in arguments)
        pairs = zip(first, second, strict=True)
        return _of_mask(np.array([true(a, b) for a, b in pairs], dtype=np.bool_))

    return call


def _of_text(change: Callable[[str], str]) -> Callable[[_Arguments], _Cells]:
    return lambda arguments: _of_texts([change(text) for text in arguments[0].written()])


def _in_unit(text: str, kind: UnitKind, unit: Decimal) -> str:
    quantity = numerals.quantity(text)
    if quantity is None or quantity.kind is not kind:
        return NOT_A_NUMBER
    return numerals.plain(float(quantity.value / unit))


def _first_number(text: str) -> str:
    """The number in a text, where 1M is 1000000; else the number at its beginning."""
    number = numerals.parse(text)
    if number is not None:
        return text.strip() if numerals.plain_number(text) is not None else numerals.plain(number)
    beginning = re.match(r"-?[\d.]+", text)
    return NOT_A_NUMBER if beginning is None else beginning[0]


@dataclass(frozen=True, slots=True)
class _Function:
    least: int
    most: int
    call: Callable[[_Arguments], _Cells]


_MANY = 99
FUNCTIONS: Mapping[str, _Function] = {
    "min": _Function(1, _MANY, _of_many(lambda rows: rows.min(axis=0))),
    "max": _Function(1, _MANY, _of_many(lambda rows: rows.max(axis=0))),
    "mean": _Function(1, _MANY, _of_many(lambda rows: rows.mean(axis=0))),
    "sum": _Function(1, _MANY, _of_many(lambda rows: rows.sum(axis=0))),
    "abs": _Function(1, 1, _of_one(np.abs)),
    "round": _Function(1, 2, _round),
    "floor": _Function(1, 1, _of_one(np.floor)),
    "ceil": _Function(1, 1, _of_one(np.ceil)),
    "sqrt": _Function(1, 1, _of_one(np.sqrt)),
    "log": _Function(1, 1, _of_one(np.log)),
    "log2": _Function(1, 1, _of_one(np.log2)),
    "log10": _Function(1, 1, _of_one(np.log10)),
    "exp": _Function(1, 1, _of_one(np.exp)),
    "if": _Function(3, 3, _if),
    "contains": _Function(2, 2, _of_pair(lambda text, part: part in text)),
    "startswith": _Function(2, 2, _of_pair(lambda text, part: text.startswith(part))),
    "matches": _Function(2, 2, _of_pair(lambda text, part: re.search(part, text) is not None)),
    "lower": _Function(1, 1, _of_text(str.lower)),
    "upper": _Function(1, 1, _of_text(str.upper)),
    # 100mbit is a text in the language; a plot over bandwidths needs one unit.
    "mbit": _Function(1, 1, _of_text(lambda text: _in_unit(text, UnitKind.RATE, Decimal(10**6)))),
    "ms": _Function(1, 1, _of_text(lambda text: _in_unit(text, UnitKind.TIME, Decimal("1e-3")))),
    "number": _Function(1, 1, _of_text(_first_number)),
}


# ---- evaluation --------------------------------------------------------------------------


def _evaluate(tree: Expression, data: Dataset) -> _Cells:
    match tree:
        case NumberLiteral(value, written):
            fine = np.zeros(data.count, dtype=np.int8)
            return _Cells(np.full(data.count, value), fine, lambda: [written] * data.count)
        case TextLiteral(text):
            return _of_texts([text] * data.count)
        case ColumnName(name):
            return _of_column(data.columns[name])
        case Operation(
            comparison, (ColumnName("exp"), NumberLiteral(written=written) | TextLiteral(written))
        ) if comparison in _MIRRORED:
            return _compare_id(comparison, written, data)
        case Operation(
            comparison, (NumberLiteral(written=written) | TextLiteral(written), ColumnName("exp"))
        ) if comparison in _MIRRORED:
            return _compare_id(_MIRRORED[comparison], written, data)
        case Operation(function, arguments):
            call = _call if function in FUNCTIONS else _operate
            return call(function, [_evaluate(argument, data) for argument in arguments])


def _call(name: str, arguments: _Arguments) -> _Cells:
    function = FUNCTIONS[name]
    if not function.least <= len(arguments) <= function.most:
        most = "more" if function.most == _MANY else str(function.most)
        wanted = str(function.least)
        wanted += f" to {most}" if function.most != function.least else ""
        raise ScriptError(
            f"NewCol: {name}() takes {wanted} value{'' if wanted == '1' else 's'},"
            f" not {len(arguments)}"
        )
    try:
        return function.call(arguments)
    except re.error as error:
        raise ScriptError(f"NewCol: {name}(): not a regular expression: {error}") from None


def _operate(operator: str, cells: _Arguments) -> _Cells:
    if operator == "&":
        first, second = (cell.written() for cell in cells)
        return _of_texts([a + b for a, b in zip(first, second, strict=True)])
    if operator in {"==", "!="}:
        return _compare_any(operator, cells)
    marks = _worst(cells)
    left = cells[0].numbers
    if len(cells) == 1:
        return _Cells(-left if operator == "-" else (left == 0).astype(np.float64), marks)
    right = cells[1].numbers
    if operator == "/":
        by_zero = (right == 0) & (marks == _FINE)
        marks = np.where(by_zero, _DIVIDED_BY_ZERO, marks)
    with np.errstate(all="ignore"):
        return _Cells(_OF_NUMBERS[operator](left, right).astype(np.float64), marks)


_COMPARISONS: Mapping[str, Callable[[Floats, Floats], Booleans]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_OF_NUMBERS: Mapping[str, Callable[[Floats, Floats], Floats | Booleans]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
    "and": np.logical_and, "or": np.logical_or, **_COMPARISONS,
}  # fmt: skip


# The comparison with exchanged sides.
_MIRRORED: Mapping[str, str] = {
    "==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip


def _compare_id(operator: str, written: str, data: Dataset) -> _Cells:
    """Compare exp with a script's value: 1.10 is group 10 of experiment 1, not 1.1."""
    column = data.columns[EXP]
    cells = _of_column(column)
    equal = data.ids.equal(column, written)
    if operator in _COMPARISONS and data.ids.mislead:
        place = np.full(data.count, data.ids.place(written))
        with np.errstate(invalid="ignore"):
            return _of_mask(_COMPARISONS[operator](data.ids.order(column), place), cells.marks)
    if operator in _COMPARISONS or equal is None:
        return _operate(operator, [cells, _of_texts([written] * data.count)])
    return _of_mask(equal if operator == "==" else ~equal)


def _compare_any(operator: str, cells: _Arguments) -> _Cells:
    """Equal as numbers if both are numbers, else as numerals.same."""
    first, second = cells
    equal: Booleans = first.numbers == second.numbers
    others = np.flatnonzero((first.marks != _FINE) | (second.marks != _FINE))
    if len(others):
        written = [*zip(first.written(), second.written(), strict=True)]
        same = {pair: numerals.same(*pair) for pair in set(written)}
        equal[others] = [same[written[row]] for row in others.tolist()]
    return _of_mask(equal if operator == "==" else ~equal)


# ---- the two spellings -------------------------------------------------------------------


def add(view: View, text: str, *, decimals: int, warn: Warn) -> View:
    """`name = expression`, or several with `;` between them. ScriptError if it is invalid.

    `decimals`: how many the new column shows when formatting is on, two at least for a quotient.
    """
    for part in _parts(text):
        name, equals, expression = part.partition("=")
        name, expression = name.strip(), expression.strip()
        if not equals or not name:
            raise ScriptError(
                f"NewCol: {part.strip()!r} has no expression",
                remedy="Write: NewCol = fairness = rateMax / rateMin",
            )
        _refuse_existing(name, view)
        tree = expressions.parse(
            expression, columns=view.data.names, functions=FUNCTIONS, new=name, warn=warn
        )
        shown = max(decimals, QUOTIENT_DECIMALS) if "/" in expression else decimals
        cells = _evaluate(tree, view.data)
        if isinstance(tree, ColumnName):
            # A text alone is not a number; only functions that join or choose texts give a text.
            cells = _Cells(cells.numbers, cells.marks)
        view = view.with_column(_column(name, cells, view.data, shown))
    return view


def _parts(text: str) -> list[str]:
    """Split at semicolons outside of quotes."""
    return list(re.findall(r"(?:\"[^\"]*\"|'[^']*'|`[^`]*`|[^;])+", text)) or [text]


def _refuse_existing(name: str, view: View) -> None:
    if name in view.data.columns and name not in view.data.yielding:
        raise ScriptError(f"NewCol: column {name!r} exists already", remedy="Choose another name.")


def _column(name: str, cells: _Cells, data: Dataset, decimals: int) -> DataColumn:
    """Without formatting a cell is what is written, 12 digits; with it the value is kept whole."""
    if cells.is_text:
        return DataColumn.computed(name, texts=cells.written, decimals=decimals)
    write = repr if data.formatted else numerals.plain
    # Row by row, because usually only a few of a million rows are needed.
    return DataColumn(
        name,
        lambda rows: _some(cells, rows).written(write),
        lambda rows: _as_written(_some(cells, rows), write),
        decimals,
    )


def _as_written(cells: _Cells, write: Callable[[float], str]) -> tuple[Floats, Booleans]:
    """The numbers that the texts write."""
    numbers = np.array([float(write(number)) for number in cells.numbers.tolist()])
    numeric = cells.marks == _FINE
    return np.where(numeric, numbers, np.nan), numeric


def _some(cells: _Cells, rows: Integers | None) -> _Cells:
    """Of these rows only, as numbers with marks."""
    if rows is None:
        return _Cells(cells.numbers, cells.marks)
    return _Cells(cells.numbers[rows], cells.marks[rows])


def add_older(view: View, *, first: str, operator: str, second: str, name: str) -> View:
    """The older spelling: two operands, columns or numbers. ScriptError if it is invalid.

    Without formatting the results are cut as the classic tool did (numerals.cut); joined
    texts have a `_` between them.
    """
    if not name:
        raise ScriptError(
            "NewColName: the new column has no name", remedy="Write: NewColName=fairness"
        )
    _refuse_existing(name, view)
    if operator not in _OPERATORS:
        raise ScriptError(
            f"NewColOp: unknown operation {operator!r}" if operator else "NewColOp is not set",
            remedy=f"It takes one of {' '.join(_OPERATORS)}.",
        )
    left, right = (
        _older_operand(view.data, key, text)
        for key, text in (("NewColField1", first), ("NewColField2", second))
    )
    symbol = _OPERATORS[operator]
    if symbol == "&":
        left = Operation(symbol, (left, TextLiteral("_")))
    cells = _evaluate(Operation(symbol, (left, right)), view.data)
    if not view.data.formatted:
        return view.with_column(DataColumn.of(name, cells.written(numerals.cut)))
    decimals = QUOTIENT_DECIMALS
    if symbol != "/":
        decimals = max(
            (view.data.shown_decimals(text) for text in (first, second)
             if text in view.data.columns),
            default=view.data.decimals,
        )  # fmt: skip
    return view.with_column(_column(name, cells, view.data, decimals))


def _older_operand(data: Dataset, key: str, text: str) -> Expression:
    if not text:
        raise ScriptError(f"{key} is not set", remedy=f"{key}=rateMax names a column, or a number.")
    if text in data.columns:
        return ColumnName(text)
    number = numerals.parse(text)
    if number is None:
        raise ScriptError(
            f"{key}: {text!r} is neither a column nor a number",
            remedy=nearest(text, data.names),
        )
    return NumberLiteral(number, text)
