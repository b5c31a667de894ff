"""The claims of ASSERT about an experiment, evaluated with its columns."""

import itertools
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import partial

from netesto.language import ast
from netesto.language.dimensions import counted, has_unit, kind_of, measured
from netesto.language.expressions import (
    COMPARISONS,
    Value,
    computed,
    function,
    is_true,
    number,
    text_of,
    unreadable,
)
from netesto.language.grammar import UnreadableError, parse_expression
from netesto.language.scope import ColumnError, MisuseError
from netesto.language.steps import Claim, ColumnKind
from netesto.schema.columns import description
from netesto.text.nearest import hint
from netesto.units import quantity


class _EmptyColumnError(Exception):
    """A column in the arithmetic is empty."""


def claim(text: str, columns: Mapping[str, str]) -> ast.Expression:
    """The tree of a claim; `columns` are those with known values. MisuseError for an invalid claim,
    and for one that compares or adds incompatible values, such as a rate and a time."""
    try:
        tree = parse_expression("claim", text)
    except UnreadableError as error:
        examples = "Examples: ASSERT rate > 90mbit   ASSERT fairness >= 0.9: unfair"
        raise unreadable(text, error, "claim", remedy=examples) from None
    kind_of(tree, columns)
    return tree


def check_kinds(tree: ast.Expression, kinds: Mapping[str, ColumnKind]) -> ColumnKind:
    """Whether a claim, or a part of it, is a number or a text, from what columns hold. MisuseError
    for what `holds` refuses for any values: an unknown column, arithmetic with a text."""
    match tree:
        case ast.QuotedText():
            return "text"
        case ast.Name(text=name):
            if name not in kinds:
                raise _no_column(name, kinds)
            return kinds[name]
        case ast.Number():
            _number(tree)
            return "number"
        case ast.Unary(operator="NOT", operand=operand):
            check_kinds(operand, kinds)
        case ast.Binary(operator="AND" | "OR", left=left, right=right):
            check_kinds(left, kinds)
            check_kinds(right, kinds)
        case ast.Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
            one = check_kinds(left, kinds)
            other = _kind_beside(right, one, kinds)
            if {one, other} == {"text", "number"} and operator not in {"==", "!="}:
                text, number_ = (left, right) if one == "text" else (right, left)
                raise ColumnError(
                    f"{operator} does not compare a text ({_text_of(text)}) with a number"
                    f" ({_text_of(number_)})",
                    near=(operator,),
                    remedy="Texts have no order: compare them with == or !=.",
                )
        case _:
            _check_arithmetic(tree, kinds)
    return "number"


def _check_arithmetic(tree: ast.Expression, kinds: Mapping[str, ColumnKind]) -> None:
    parts = ast.operands(tree)
    for part in parts:
        if check_kinds(part, kinds) == "text":
            text = _text_of(part)
            raise ColumnError(f"{text} is not a number", near=(text,))
    if isinstance(tree, ast.Call):
        function(tree)
    if not any(isinstance(part, ast.Name) for part in ast.nodes(tree)):
        # 1/0 is an error for any measurement.
        _side(tree, {}, in_base=False)


def _kind_beside(
    tree: ast.Expression, other: ColumnKind, kinds: Mapping[str, ColumnKind]
) -> ColumnKind:
    """The kind of one side of a comparison. Beside a possible text, a name may be a text itself."""
    if isinstance(tree, ast.Name) and tree.text not in kinds and other != "number":
        return "text"
    return check_kinds(tree, kinds)


def _text_of(tree: ast.Expression) -> str:
    """A part of a claim, for a message."""
    match tree:
        case ast.Name(text=text) | ast.Number(text=text) | ast.QuotedText(text=text):
            return text
        case _:
            return "the other side"


def holds(tree: ast.Expression, columns: Mapping[str, str]) -> bool:
    """Whether a claim is true of an experiment's aggregate columns.

    A comparison with a unit is made in bit/s and seconds, so that `rate > 90mbit` is correct
    although the column counts Mbit/s; without a unit the numbers of the columns are compared
    directly. The value of a factor, as of `limit=90mbit` in `rate > limit`, may bring the unit. An
    empty column makes every comparison false. MisuseError for an unknown column.
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
            in_base = has_unit(tree, columns)
            one = _side(left, columns, in_base=in_base)
            other = _side(right, columns, in_base=in_base, text_of=one)
            if one == "" or other == "":
                return False
            return _compared(operator, one, other)
        case _:
            value = _side(tree, columns, in_base=False)
            return is_true(value) if isinstance(value, str) else value != 0


def verdict(tree: ast.Expression, kinds: Mapping[str, ColumnKind]) -> bool | None:
    """Whether a claim is true of any measurement (True), or of none (False). None if it depends on
    the measurement, or that is not known. A claim without a column is decided; in others each
    column must be compared with numbers."""
    named = {part.text for part in ast.nodes(tree) if isinstance(part, ast.Name)}
    bounds: dict[str, set[Value]] = {name: set() for name in named}
    for part in ast.nodes(tree):
        if not named or isinstance(part, ast.Number | ast.Name):
            continue
        match part:
            case ast.Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
                pair = (left, right) if isinstance(left, ast.Name) else (right, left)
                name, limit = pair
                if not isinstance(name, ast.Name) or not isinstance(limit, ast.Number):
                    return None
                # As the column counts.
                factor = counted(name.text).factor if has_unit(part, {}) else Decimal(1)
                bounds[name.text].add(Decimal(_number(limit)) / factor)
            case ast.Unary(operator="NOT") | ast.Binary(operator="AND" | "OR"):
                pass
            case _:
                return None
    several = [_witnesses(name, kinds, found) for name, found in bounds.items()]
    if math.prod(map(len, several)) > _MOST_WITNESSES:
        return None
    true = {
        holds(tree, dict(zip(bounds, values, strict=True)))
        for values in itertools.product(*several)
    }
    return true.pop() if len(true) == 1 else None


# More are not worth the time.
_MOST_WITNESSES = 10_000


def _witnesses(name: str, kinds: Mapping[str, ColumnKind], found: Iterable[Value]) -> list[str]:
    """Possible values of a column: each that it is compared with, one between each two, and one
    beyond them at both ends. Beside numbers, all texts are alike."""
    if kinds.get(name) == "text":
        return ["ok"]
    limits = sorted({Decimal(each) for each in found})
    within = [(one + other) / 2 for one, other in itertools.pairwise(limits)]
    ends = [limits[0] - 1, limits[-1] + 1] if limits else [Decimal(0), Decimal(1)]
    least, most = _range_of(name, kinds)
    possible = [each for each in (*limits, *within, *ends) if least <= each <= most]
    return [text_of(each) for each in (*possible, least, most) if each.is_finite()]


def _range_of(name: str, kinds: Mapping[str, ColumnKind]) -> tuple[Decimal, Decimal]:
    """The least and the greatest value that a column can have."""
    known = description(name)
    least = known.least if kinds.get(name) == "number" else None
    return (
        Decimal("-Infinity" if least is None else least),
        Decimal("Infinity" if known.most is None else known.most),
    )


def column_values(tree: ast.Expression, columns: Mapping[str, str]) -> list[str]:
    """Each column of a claim with its value, in words."""
    found: dict[str, None] = {}
    for part in ast.nodes(tree):
        if isinstance(part, ast.Name) and part.text in columns:
            value = columns[part.text].strip()
            unit = counted(part.text).unit if number(value) is not None else ""
            known = f"{value} {unit}".rstrip() if value else "empty"
            found[f"{part.text} is {known}"] = None
    return list(found)


def _compared(operator: str, one: Value | str, other: Value | str) -> bool:
    """Two numbers, or two texts. A text and a number are different, and have no order."""
    if isinstance(one, str) != isinstance(other, str) and operator not in {"==", "!="}:
        text = one if isinstance(one, str) else other
        raise MisuseError(
            f"cannot compare the text {text!r} with a number",
            near=(operator,),
            remedy="Texts are equal or not: == and !=.",
        )
    if isinstance(one, str) or isinstance(other, str):
        return COMPARISONS[operator](_as_text(one), _as_text(other))
    return COMPARISONS[operator](one, other)


def _as_text(value: Value | str) -> str:
    return value if isinstance(value, str) else text_of(value)


def _side(
    tree: ast.Expression,
    columns: Mapping[str, str],
    *,
    in_base: bool,
    text_of: Value | str | None = None,
) -> Value | str:
    """One side of a comparison: a number, or a text; "" if an empty column is part of it.

    `text_of` is the other side: beside a text, a name that is not a column is a text.
    """
    match tree:
        case ast.QuotedText(text=text):
            return text
        case ast.Name(text=name):
            if name not in columns and isinstance(text_of, str):
                return name
            return _column(name, columns, in_base=in_base)
        case _:
            compute = computed(tree, lambda leaf: partial(_value, leaf, in_base=in_base))
            try:
                return compute(dict(columns))
            except _EmptyColumnError:
                return ""


def _value(tree: ast.Expression, columns: Mapping[str, str], *, in_base: bool) -> Value:
    """A number to compute with."""
    match tree:
        case ast.Number():
            return _number(tree)
        case ast.QuotedText() | ast.Name():
            value = _side(tree, columns, in_base=in_base)
        case _:
            value = 1 if holds(tree, columns) else 0
    if value == "":
        raise _EmptyColumnError
    if isinstance(value, str):
        raise MisuseError(
            f"{value!r} is not a number",
            near=(value,),
            remedy="Compute with columns that hold numbers.",
        )
    return value


def _column(name: str, columns: Mapping[str, str], *, in_base: bool) -> Value | str:
    if name not in columns:
        raise _no_column(name, columns)
    text = columns[name]
    value = number(text)
    if value is None:
        # A factor of a SWEEP has the written form: 10K, 20mbit.
        written = quantity(text)
        return text if written is None else written.value
    return value * counted(name).factor if in_base else value


def _no_column(name: str, columns: Iterable[str]) -> ColumnError:
    return ColumnError(
        f"unknown column {name}",
        near=(name,),
        remedy=hint(name, columns, otherwise="fields.txt lists the columns."),
    )


def _number(tree: ast.Number) -> Value:
    value = number(tree.text)
    return measured(tree.text).value if value is None else value


def falsehood(made: Claim, columns: Mapping[str, str], *, exp: int | None = None) -> str:
    """Why a claim about the columns of an experiment is not true, in words with its place; "" if it
    is true, or nothing is known. `exp` is the experiment's number, if it has changed."""
    tree = claim(made.text, {})
    if not columns or holds(tree, columns):
        return ""
    text = made.text.strip()
    said = f"{made.message}: {text}" if made.message else text
    found = ", ".join(column_values(tree, columns))
    values = f", but {found}" if found else ""
    return f"{made.place.file}:{made.place.line}: experiment {exp or made.exp}: {said}{values}"
