"""The dimensions of a claim's parts (bytes, seconds, bits per second), and whether they are
compatible."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

from netesto.language import ast
from netesto.language.expressions import COMPARISONS, check_comparable, number
from netesto.language.scope import MisuseError
from netesto.schema.columns import description
from netesto.units import Quantity, UnitKind, quantity


class ColumnUnit(NamedTuple):
    """What a column counts: the dimension, its unit in bytes, seconds or bit/s, and the unit's name
    ("": it has none, or it is not known)."""

    kind: UnitKind
    factor: Decimal
    unit: str


# The units of columns. OTHER may fill those that are not described with anything.
_UNITS: Mapping[str, ColumnUnit] = {
    unit: ColumnUnit(kind, Decimal(factor), unit)
    for unit, kind, factor in (
        ("Mbit/s", UnitKind.RATE, "1000000"),
        ("µs", UnitKind.TIME, "0.000001"),
        ("ms", UnitKind.TIME, "0.001"),
        ("s", UnitKind.TIME, "1"),
        ("bytes", UnitKind.SIZE, "1"),
    )
}
# What a SWEEP gives to arguments of these names.
_BUFFERS = frozenset({"localBuffer", "remoteBuffer"})
_FACTORS = frozenset({UnitKind.NUMBER, UnitKind.THOUSANDS})
_UNKNOWN = ColumnUnit(UnitKind.NUMBER, Decimal(1), "")


def kind_of(tree: ast.Expression, columns: Mapping[str, str]) -> UnitKind:
    """The dimension of a part of a claim, as far as known; `columns` are those with known values.
    MisuseError if parts of different kinds are compared or added."""
    match tree:
        case ast.Number(text=text):
            return measured(text).kind
        case ast.Name(text=name):
            known = counted(name)
            return written_kind(name, columns.get(name, "")) if known is _UNKNOWN else known.kind
        case ast.Unary(operator="-" | "+", operand=operand):
            return kind_of(operand, columns)
        case ast.Unary(operand=operand):
            kind_of(operand, columns)
            return UnitKind.NUMBER
        case ast.Binary(operator=operator, left=left, right=right):
            one, other = kind_of(left, columns), kind_of(right, columns)
            if operator in {"+", "-", *COMPARISONS}:
                parts = _leaf(left, one, columns), _leaf(right, other, columns)
                check_comparable(parts[0], one, parts[1], other)
                known_kind = one if other in _FACTORS else other
                return UnitKind.NUMBER if operator in COMPARISONS else known_kind
            # Twice a time is a time; the dimension of other products and quotients is unknown.
            if operator == "*" and one in _FACTORS:
                return other
            return one if operator in {"*", "/"} and other in _FACTORS else UnitKind.NUMBER
        case ast.Call(function="min" | "max", arguments=arguments):
            kinds = [kind_of(argument, columns) for argument in arguments]
            known_kind = next((kind for kind in kinds if kind not in _FACTORS), kinds[0])
            named = _leaf(tree, known_kind, columns)
            for argument, kind in zip(arguments, kinds, strict=True):
                check_comparable(named, known_kind, _leaf(argument, kind, columns), kind)
            return known_kind
        case ast.Call(function="abs" | "round", arguments=arguments):
            return next(iter([kind_of(argument, columns) for argument in arguments]))
        case ast.Call(arguments=arguments):
            for argument in arguments:
                kind_of(argument, columns)
            return UnitKind.NUMBER
        case _:
            return UnitKind.NUMBER


def check_units(tree: ast.Expression, columns: Mapping[str, str]) -> None:
    """MisuseError if a number has no unit where a comparison with units takes it in seconds or
    bit/s, and a column beside it counts otherwise: in `rate > bw - 2`, 2 would be 2 bit/s."""
    for comparison in ast.nodes(tree):
        if not isinstance(comparison, ast.Binary) or comparison.operator not in COMPARISONS:
            continue
        within = list(_terms(comparison))
        names = [each.text for each in within if isinstance(each, ast.Name)]
        if has_unit(comparison, columns) and any(counted(name).factor != 1 for name in names):
            for part in within:
                _check_sum(part, columns)


def _check_sum(tree: ast.Expression, columns: Mapping[str, str]) -> None:
    """MisuseError if a number without a unit is compared with, or added to, a time or a rate."""
    match tree:
        case ast.Binary(operator=operator) if operator in {"+", "-", *COMPARISONS}:
            parts = ast.operands(tree)
        case ast.Call(function="min" | "max", arguments=arguments):
            parts = arguments
        case _:
            return
    kinds = [kind_of(part, columns) for part in parts]
    kind = next((kind for kind in kinds if kind in {UnitKind.TIME, UnitKind.RATE}), None)
    if kind is None:
        return
    for part in parts:
        if isinstance(part, ast.Number) and number(part.text):
            raise MisuseError(
                f"{part.text} has no unit, but {_leaf(tree, kind, columns)} is {kind.value}",
                near=(part.text,),
                remedy="In a comparison with units, each number has one: rate > bw - 2mbit.",
            )


def has_unit(comparison: ast.Binary, columns: Mapping[str, str]) -> bool:
    """Whether a number or the value of a column in a comparison is written with a unit."""
    return any(
        (isinstance(part, ast.Number) and number(part.text) is None)
        or (
            isinstance(part, ast.Name)
            and written_kind(part.text, columns.get(part.text, "")) is not UnitKind.NUMBER
        )
        for part in _terms(comparison)
    )


def _terms(tree: ast.Expression) -> Iterator[ast.Expression]:
    """A comparison and its parts, without the inside of others in parentheses, which are true or
    false by themselves."""
    yield tree
    for part in ast.operands(tree):
        if not isinstance(part, ast.Binary) or part.operator not in {"AND", "OR", *COMPARISONS}:
            yield from _terms(part)


def measured(text: str) -> Quantity:
    """A number of a claim, with its unit if it has one. MisuseError for anything else."""
    found = quantity(text)
    if found is None:
        raise MisuseError(f"{text} is not a number with a unit", near=(text,))
    return found


def _leaf(tree: ast.Expression, kind: UnitKind, columns: Mapping[str, str]) -> str:
    """The first number or column in a part of a claim that counts `kind`; "" without one."""
    leaves = (part for part in ast.nodes(tree) if isinstance(part, ast.Number | ast.Name))
    return next((each.text for each in leaves if kind_of(each, columns) is kind), "")


def counted(column: str) -> ColumnUnit:
    """What a column counts, as far as known."""
    unit = "bytes" if column in _BUFFERS else description(column).counts
    return _UNITS.get(unit, _UNKNOWN)


def written_kind(name: str, text: str) -> UnitKind:
    """What the value of a column counts by the unit that it has itself, as that of a factor does:
    10ms. Only sizes are shown with K, M and G."""
    found = quantity(text)
    if found is None or (found.kind is UnitKind.THOUSANDS and counted(name) is not _UNKNOWN):
        return UnitKind.NUMBER
    return found.kind
