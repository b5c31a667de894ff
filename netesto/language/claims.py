"""What ASSERT claims of an experiment, and whether it is true of its columns."""

import re
from collections.abc import Mapping
from decimal import Decimal

from netesto.language import ast
from netesto.language.expressions import (
    ARITHMETIC,
    COMPARISONS,
    Value,
    apply,
    call,
    function,
    is_true,
    number,
    quantity,
    shown,
    unreadable,
)
from netesto.language.nearest import hint
from netesto.language.parser import UnreadableError, parse_expression
from netesto.language.scope import MisuseError

# Columns of exp.csv that are not in bit/s or seconds: what one of them is in those (results.md, 2).
_MICROSECONDS = re.compile(r"\w+Latency|rtt|minrtt|pingRtt")
_MILLISECONDS = ("startSkew", "sampleInterval")


def claim(text: str) -> ast.Expression:
    """The tree of what ASSERT claims. MisuseError if it is none."""
    try:
        return parse_expression("claim", text)
    except UnreadableError as error:
        examples = "Examples: ASSERT rate > 90mbit   ASSERT fairness >= 0.9: unfair"
        raise unreadable(text, error, "claim", remedy=examples) from None


def holds(tree: ast.Expression, columns: Mapping[str, str]) -> bool:
    """Whether a claim is true of an experiment's aggregate columns.

    A comparison with a unit is made in bit/s and seconds, so that `rate > 90mbit` is right though
    the column counts Mbit/s; without a unit the numbers of the columns are compared as they are.
    An empty column makes every comparison false. MisuseError for a column that is not there.
    """
    match tree:
        case ast.Unary(operator="NOT", operand=operand):
            return not holds(operand, columns)
        case ast.Binary(operator="AND", left=left, right=right):
            first, second = holds(left, columns), holds(right, columns)
            return first and second
        case ast.Binary(operator="OR", left=left, right=right):
            first, second = holds(left, columns), holds(right, columns)
            return first or second
        case ast.Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
            one = _side(left, columns, in_base=_has_unit(tree))
            other = _side(right, columns, in_base=_has_unit(tree), text_of=one)
            if one == "" or other == "":
                return False
            return _compared(operator, one, other)
        case _:
            value = _side(tree, columns, in_base=False)
            return is_true(value) if isinstance(value, str) else value != 0


def _compared(operator: str, one: Value | str, other: Value | str) -> bool:
    """Two numbers, or two texts. A text and a number are different, and have no order."""
    if isinstance(one, str) != isinstance(other, str) and operator not in {"==", "!="}:
        text = one if isinstance(one, str) else other
        raise MisuseError(f"{text!r} is not a number to compare with one", near=(operator,))
    if isinstance(one, str) or isinstance(other, str):
        return COMPARISONS[operator](_as_text(one), _as_text(other))
    return COMPARISONS[operator](one, other)


def _as_text(value: Value | str) -> str:
    return value if isinstance(value, str) else shown(value)


def _has_unit(tree: ast.Expression) -> bool:
    match tree:
        case ast.Number(text=text):
            return number(text) is None
        case ast.Unary(operand=operand):
            return _has_unit(operand)
        case ast.Binary(left=left, right=right):
            return _has_unit(left) or _has_unit(right)
        case ast.Call(arguments=arguments):
            return any(_has_unit(argument) for argument in arguments)
        case _:
            return False


def _base_factor(column: str) -> Decimal:
    if column.startswith("rate"):
        return Decimal(10**6)
    if _MICROSECONDS.fullmatch(column):
        return Decimal("0.000001")
    return Decimal("0.001") if column in _MILLISECONDS else Decimal(1)


def _side(
    tree: ast.Expression,
    columns: Mapping[str, str],
    *,
    in_base: bool,
    text_of: Value | str | None = None,
) -> Value | str:
    """One side of a comparison: a number, or a text; "" if an empty column is part of it.

    `text_of` is the other side: beside a text, a name that is no column stands for itself.
    """
    match tree:
        case ast.Text(text=text):
            return text
        case ast.Name(text=name):
            if name not in columns and isinstance(text_of, str):
                return name
            return _column(name, columns, in_base=in_base)
        case ast.Number(text=text):
            value = quantity(text)
            if value is None:
                raise MisuseError(f"{text} is not a number with a unit", near=(text,))
            return value
        case ast.Unary(operator="-" | "+" as operator, operand=operand):
            inner = _number_of(operand, columns, in_base=in_base)
            return inner if operator == "+" or isinstance(inner, str) else -inner
        case ast.Binary(operator=operator, left=left, right=right) if operator in ARITHMETIC:
            one = _number_of(left, columns, in_base=in_base)
            other = _number_of(right, columns, in_base=in_base)
            if isinstance(one, str) or isinstance(other, str):
                return ""
            return apply(operator, one, other)
        case ast.Call(arguments=arguments):
            does = function(tree)
            values = [_number_of(each, columns, in_base=in_base) for each in arguments]
            numbers = [value for value in values if not isinstance(value, str)]
            return call(does, numbers) if len(numbers) == len(values) else ""
        case _:
            return 1 if holds(tree, columns) else 0


def _number_of(tree: ast.Expression, columns: Mapping[str, str], *, in_base: bool) -> Value | str:
    value = _side(tree, columns, in_base=in_base)
    if isinstance(value, str) and value:
        raise MisuseError(f"{value!r} is not a number to compute with", near=(value,))
    return value


def _column(name: str, columns: Mapping[str, str], *, in_base: bool) -> Value | str:
    if name not in columns:
        raise MisuseError(
            f"there is no column {name}",
            near=(name,),
            remedy=hint(name, columns, otherwise="fields.txt lists the columns."),
        )
    text = columns[name]
    value = number(text)
    if value is None:
        return text
    return value * _base_factor(name) if in_base else value
