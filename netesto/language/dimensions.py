"""The dimensions of a claim's parts (bytes, seconds, bits per second), and whether they are
compatible."""

import re
from collections.abc import Sequence
from decimal import Decimal

from netesto.language import ast
from netesto.language.expressions import COMPARISONS, check_comparable
from netesto.language.scope import MisuseError
from netesto.units import Kind, Quantity, quantity

# The dimension of columns of exp.csv, and their unit in bytes, seconds or bit/s (results.md, 2).
# The others are unknown: OTHER may fill them with anything.
_COUNTED: Sequence[tuple[re.Pattern[str], Kind, Decimal]] = (
    (re.compile("rate|rateMin|rateMax|bitrate|pacing|sentRate"), Kind.RATE, Decimal(10**6)),
    (
        re.compile(
            r"\w+Latency|rtt|minrtt|ping(?:Rtt|Idle|P\d+|Max|After)|udpJitter|queueDelay|oneWay\w+"
        ),
        Kind.TIME,
        Decimal("0.000001"),
    ),
    (
        re.compile("startSkew|synSkew|dataSkew|sampleInterval(?:P99|Worst)?"),
        Kind.TIME,
        Decimal("0.001"),
    ),
    (re.compile("dur|delay|omit"), Kind.TIME, Decimal(1)),
    (
        re.compile(r"req|reply|(?:local|remote)Buffer|client-\wx-bytes|mtu|backlog(?:Max)?"),
        Kind.SIZE,
        Decimal(1),
    ),
)
_FACTORS = frozenset({Kind.NUMBER, Kind.THOUSANDS})
_UNKNOWN = (Kind.NUMBER, Decimal(1))


def kind_of(tree: ast.Expression) -> Kind:
    """The dimension of a part of a claim, as far as known. MisuseError if parts of different kinds
    are compared or added."""
    match tree:
        case ast.Number(text=text):
            return measured(text).kind
        case ast.Name(text=name):
            return counted(name)[0]
        case ast.Unary(operator="-" | "+", operand=operand):
            return kind_of(operand)
        case ast.Unary(operand=operand):
            kind_of(operand)
            return Kind.NUMBER
        case ast.Binary(operator=operator, left=left, right=right):
            one, other = kind_of(left), kind_of(right)
            if operator in {"+", "-", *COMPARISONS}:
                check_comparable(_leaf(left, one), one, _leaf(right, other), other)
                known = one if other in _FACTORS else other
                return Kind.NUMBER if operator in COMPARISONS else known
            # Twice a time is a time; the dimension of other products and quotients is unknown.
            if operator == "*" and one in _FACTORS:
                return other
            return one if operator in {"*", "/"} and other in _FACTORS else Kind.NUMBER
        case ast.Call(function="min" | "max" | "abs" | "round", arguments=arguments):
            return next(iter([kind_of(argument) for argument in arguments]))
        case ast.Call(arguments=arguments):
            for argument in arguments:
                kind_of(argument)
            return Kind.NUMBER
        case _:
            return Kind.NUMBER


def measured(text: str) -> Quantity:
    """A number of a claim, with its unit if it has one. MisuseError for anything else."""
    found = quantity(text)
    if found is None:
        raise MisuseError(f"{text} is not a number with a unit", near=(text,))
    return found


def _leaf(tree: ast.Expression, kind: Kind) -> str:
    """The first number or column in a part of a claim that counts `kind`; "" without one."""
    match tree:
        case ast.Number(text=text) | ast.Name(text=text):
            return text if kind_of(tree) is kind else ""
        case ast.Unary(operand=operand):
            return _leaf(operand, kind)
        case ast.Binary(left=left, right=right):
            return _leaf(left, kind) or _leaf(right, kind)
        case ast.Call(arguments=arguments):
            return next(filter(None, (_leaf(each, kind) for each in arguments)), "")
        case _:
            return ""


def counted(column: str) -> tuple[Kind, Decimal]:
    """The dimension of a column, and its unit in bytes, seconds or bit/s."""
    for pattern, kind, factor in _COUNTED:
        if pattern.fullmatch(column):
            return kind, factor
    return _UNKNOWN


def unit_of(column: str) -> str:
    """The unit of a column's numbers; "" if they have none, or it is not known."""
    return _UNITS.get(counted(column), "")


_UNITS = {
    (Kind.RATE, Decimal(10**6)): "Mbit/s",
    (Kind.TIME, Decimal("0.000001")): "µs",
    (Kind.TIME, Decimal("0.001")): "ms",
    (Kind.TIME, Decimal(1)): "s",
    (Kind.SIZE, Decimal(1)): "bytes",
}
