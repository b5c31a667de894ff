"""The meaning of expressions: the arithmetic of SET_EXP and the conditions of IF. Whole numbers
stay whole: their division rounds down. A decimal operand makes a decimal.
"""

import math
import operator as operators
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import TypeAlias

from netesto import units
from netesto.language import ast
from netesto.language.grammar import UnreadableError, parse_expression
from netesto.language.scope import (
    Frame,
    MisuseError,
    Scope,
    UndefinedError,
    is_undefined,
    needed,
    parts,
    plain,
    undefined,
)
from netesto.text.nearest import hint
from netesto.units import Quantity, UnitKind, quantity

Value: TypeAlias = int | Decimal
ValueOf: TypeAlias = Callable[[Frame], Value]
Test: TypeAlias = Callable[[Frame], bool]

# More than 1,200 digits are an accident, and Python refuses to print more than 4,300.
MAX_BITS = 4096
MAX_DIGITS = 1200
# Decimals are computed with 28 digits and shown with 15, so that 0.1 + 0.2 is 0.3.
SHOWN = Context(prec=15)

_FEWER = f"A number has at most {MAX_DIGITS:,} digits."
_GUARD = "If that may happen, test for it first: IF $n > 0: SET_EXP …"

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)")


def number(text: str) -> Value | None:
    """The number that `text` is, without a unit; None for anything else."""
    if text.isdigit() and text.isascii() and len(text) <= MAX_DIGITS:
        return int(text)
    if len(text) > MAX_DIGITS:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def text_of(value: Value) -> str:
    """A value in the form in which SET_EXP stores it: a decimal keeps its point, and stays a
    decimal."""
    if isinstance(value, int):
        return str(value)
    text = format(SHOWN.plus(value), "f")
    if "." in text:
        text = text.rstrip("0")
        text += "0" if text.endswith(".") else ""
    else:
        text += ".0"
    return "0.0" if text == "-0.0" else text


def unreadable(text: str, error: UnreadableError, what: str, *, remedy: str = "") -> MisuseError:
    """The error of an invalid expression, at the word where it begins."""
    behind = text[error.position :].split() or text.split()[-1:]
    return MisuseError(
        f"invalid {what} {text.strip()!r}: {error.message}",
        near=behind[:1],
        remedy=error.remedy or remedy,
    )


# ---- arithmetic ------------------------------------------------------------------------------

_ARITHMETIC_REMEDY = (
    "Arithmetic takes numbers without units or quotes, + - * / // % **, parentheses and functions:"
    " SET_EXP half=$dur/2+1"
)


def _checked(value: Value) -> Value:
    if isinstance(value, int):
        is_too_long = value.bit_length() > MAX_BITS
    else:
        # 0 ** -1 is infinite, but not an arithmetic error.
        if not value.is_finite():
            raise ZeroDivisionError
        is_too_long = bool(value) and abs(value.adjusted()) > MAX_DIGITS
    if is_too_long:
        raise MisuseError("the result has too many digits", remedy=_FEWER)
    return value


def _round(value: Value, digits: Value | None = None) -> Value:
    if digits is None:
        return value if isinstance(value, int) else int(value.to_integral_value(ROUND_HALF_UP))
    if not isinstance(digits, int) or not 0 <= digits <= 15:
        raise MisuseError("round takes 0 to 15 digits", remedy="Write: round(number, digits)")
    return Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


def _log2(value: Value) -> Value:
    if value <= 0:
        raise MisuseError("log2 of a number that is not positive", remedy=_GUARD)
    return Decimal(value).ln() / Decimal(2).ln()


def _sqrt(value: Value) -> Value:
    if value < 0:
        raise MisuseError("sqrt of a negative number", remedy=_GUARD)
    return Decimal(value).sqrt()


def _divide(left: Value, right: Value) -> Value:
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    return Decimal(left) / Decimal(right)


def _floor_divide(left: Value, right: Value) -> Value:
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    # Decimal's own // rounds towards zero; ours rounds down, like that of whole numbers.
    return (Decimal(left) / Decimal(right)).to_integral_value(ROUND_FLOOR)


def _modulo(left: Value, right: Value) -> Value:
    if isinstance(left, int) and isinstance(right, int):
        return left % right
    return left - _floor_divide(left, right) * right


def _power(left: Value, right: Value) -> Value:
    if isinstance(left, int) and isinstance(right, int) and right >= 0:
        if abs(left) > 1 and left.bit_length() * right > 2 * MAX_BITS:
            raise MisuseError("the result has too many digits", remedy=_FEWER)
        return int(left**right)
    power: Decimal = Decimal(left) ** Decimal(right)
    return power


def _computed(operator: str, left: ValueOf, right: ValueOf) -> ValueOf:
    """Compute `left operator right` at each call."""
    if operator not in _QUICK:
        return lambda frame: apply(operator, left(frame), right(frame))
    quick = ARITHMETIC[operator]

    def value(frame: Frame) -> Value:
        first, second = left(frame), right(frame)
        if type(first) is int and type(second) is int:
            result = quick(first, second)
            if -_SMALL < result < _SMALL:
                return result
        return apply(operator, first, second)

    return value


ARITHMETIC: Mapping[str, Callable[[Value, Value], Value]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": _divide,
    "//": _floor_divide,
    "%": _modulo,
    "**": _power,
}

# Operators on whole numbers that need no checks if the result is small.
_QUICK = frozenset("+-*")
_SMALL = 2**60

# Name: function, minimum and maximum number of arguments.
FUNCTIONS: Mapping[str, tuple[Callable[..., Value], int, int]] = {
    "min": (min, 1, 100),
    "max": (max, 1, 100),
    "abs": (abs, 1, 1),
    "round": (_round, 1, 2),
    "floor": (math.floor, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "log2": (_log2, 1, 1),
    "sqrt": (_sqrt, 1, 1),
}


def apply(operator: str, left: Value, right: Value) -> Value:
    """`left operator right`. MisuseError if it is undefined or too large."""
    if not right and operator in {"/", "//", "%"}:
        raise MisuseError("division by zero", remedy=_GUARD)
    try:
        return _checked(ARITHMETIC[operator](left, right))
    except ArithmeticError:
        raise MisuseError(
            f"{text_of(left)} {operator} {text_of(right)} has no value", remedy=_GUARD
        ) from None


def function(call: ast.Call) -> Callable[..., Value]:
    """The function of a call. MisuseError for an unknown one, or a wrong number of arguments."""
    entry = FUNCTIONS.get(call.function)
    if entry is None:
        raise MisuseError(
            f"unknown function {call.function}",
            near=(call.function,),
            remedy=hint(
                call.function, FUNCTIONS, otherwise=f"Choose one of: {', '.join(FUNCTIONS)}."
            ),
        )
    does, least, most = entry
    if not least <= len(call.arguments) <= most:
        raise MisuseError(
            f"{call.function} takes a different number of arguments",
            near=(call.function,),
            remedy=f"It takes {least}." if least == most else f"It takes {least} to {most}.",
        )
    return does


def call(does: Callable[..., Value], arguments: Sequence[Value]) -> Value:
    """The value of a function. MisuseError if it is undefined or too large."""
    try:
        return _checked(does(*arguments))
    except ArithmeticError:
        raise MisuseError("the function has no value here", remedy=_GUARD) from None


def computed(
    tree: ast.Expression, leaf: Callable[[ast.Expression], Callable[[Frame], Value]]
) -> ValueOf:
    """The function that computes an arithmetic tree; `leaf` makes the functions for its values."""
    match tree:
        case ast.Unary(operator="-", operand=operand):
            value = computed(operand, leaf)
            return lambda frame: -value(frame)
        case ast.Unary(operator="+", operand=operand):
            return computed(operand, leaf)
        case ast.Binary(operator=operator, left=left, right=right) if operator in ARITHMETIC:
            return _computed(operator, computed(left, leaf), computed(right, leaf))
        case ast.Call(arguments=arguments):
            does, values = function(tree), [computed(each, leaf) for each in arguments]
            return lambda frame: call(does, [value(frame) for value in values])
        case _:
            return leaf(tree)


def _undefined(name: str) -> Value:
    raise UndefinedError(name)


class _NotANumberError(Exception):
    """The value of a `$name` is more than a number: the text must be substituted before it is
    parsed."""


class Arithmetic:
    """One expression of SET_EXP, parsed once and computed each time its line runs. `$name` is
    substituted as text. A number is used directly; for the rare other values (`1+2`) the expression
    is parsed again after the substitution.
    """

    def __init__(self, text: str, scope: Scope) -> None:
        self._text = text
        self._scope = scope
        self._compute: ValueOf | None = None
        try:
            tree = parse_expression("arithmetic", text)
            self._compute = computed(tree, partial(self._value_of, direct=True))
        except UnreadableError as error:
            if "$" not in text:
                raise unreadable(text, error, "arithmetic", remedy=_ARITHMETIC_REMEDY) from None

    def __call__(self, frame: Frame) -> str:
        """Its value as text. MisuseError if it is undefined."""
        try:
            if self._compute is not None:
                value = self._compute(frame)
                return str(value) if type(value) is int else text_of(value)
        except _NotANumberError:
            pass
        except MisuseError as error:
            # The error of an operator is somewhere in the expression.
            error.near = error.near or tuple(self._text.split()[:1])
            raise
        text = self._scope.fill(self._text, frame)
        try:
            tree = parse_expression("arithmetic", text)
        except UnreadableError as error:
            needed(text)
            raise unreadable(plain(text), error, "arithmetic", remedy=_ARITHMETIC_REMEDY) from None
        return text_of(computed(tree, partial(self._value_of, direct=False))(frame))

    def _value_of(self, leaf: ast.Expression, *, direct: bool) -> ValueOf:
        match leaf:
            case ast.Number(text=text):
                constant = number(text)
                if constant is None:
                    raise MisuseError(f"{text[:20]}… has too many digits", remedy=_FEWER)
                return lambda _: constant
            case ast.Name(text=name):
                return lambda frame: self._variable(name, frame)
            case ast.Variable(name=name):
                return self._leaf(name) if direct else lambda _: _undefined(name)
            case _:
                raise AssertionError("the grammar makes no other arithmetic")

    def _leaf(self, name: str) -> ValueOf:
        value_of = self._scope.value

        def value(frame: Frame) -> Value:
            text = value_of(name, frame)
            if text is None:
                return _undefined(name)
            found = number(text)
            if found is None:
                raise _NotANumberError
            return found

        return value

    def _variable(self, name: str, frame: Frame) -> Value:
        text = self._scope.value(name, frame)
        if text is None:
            raise MisuseError(
                f"undefined variable {name}",
                near=(name,),
                remedy=hint(
                    name,
                    {*self._scope.variables, *frame},
                    otherwise=f"Set it before: SET {name}=value.",
                ),
            )
        found = number(text)
        if found is None:
            needed(text)
            raise MisuseError(
                f"{name} is {plain(text)!r}, which is not a number",
                near=(name,),
                remedy="Arithmetic takes numbers without units: SET_EXP half=rate/2 with rate=10.",
            )
        return found


# ---- conditions ------------------------------------------------------------------------------

COMPARISONS: Mapping[str, Callable[[Value | str, Value | str], bool]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def is_true(text: str) -> bool:
    """A number that is not zero, or any other text that is not empty."""
    if text in {"0", ""}:
        return False
    found = quantity(text)
    return found is None or found.value != 0


def compare(operator: str, left: str, right: str) -> bool:
    """Numbers (with units) compare as numbers, else both as text. MisuseError for numbers that
    count different things, and for the order of a number and a text."""
    first, second = number(left), number(right)
    if first is not None and second is not None:
        return COMPARISONS[operator](first, second)
    one, other = quantity(left), quantity(right)
    if one is not None and other is not None:
        check_comparable(left, one.kind, right, other.kind)
        _check_bare(left, one, right, other)
        _check_bare(right, other, left, one)
        return COMPARISONS[operator](one.value, other.value)
    if operator not in {"==", "!="} and left and right and (one is None) != (other is None):
        text = left if one is None else right
        raise MisuseError(
            f"cannot compare the text {plain(text)!r} with a number",
            near=(plain(text), operator),
            remedy=_UNITS_REMEDY,
        )
    return COMPARISONS[operator](left, right)


def _check_bare(left: str, one: Quantity, right: str, other: Quantity) -> None:
    """MisuseError if `left` has no unit, and the time or rate on the right has one: 20 beside 100ms
    may be seconds or milliseconds. Sizes without a unit are bytes everywhere."""
    if one.kind is UnitKind.NUMBER and one.value and other.kind in {UnitKind.TIME, UnitKind.RATE}:
        unit = "s" if other.kind is UnitKind.TIME else "bit"
        raise MisuseError(
            f"{plain(left)} has no unit, but {plain(right)} is {other.kind.value}",
            near=(plain(left), plain(right)),
            remedy=f"Write its unit, for example {plain(left)}{unit} or {plain(left)}m{unit}.",
        )


_UNITS_REMEDY = "Units: K M G Ki Mi Gi KB (sizes), us ms s m (times), kbit mbit gbit (rates)."


def check_comparable(left: str, one: UnitKind, right: str, other: UnitKind) -> None:
    """MisuseError if two numbers, as written, count different things."""
    if not one.fits(other):
        is_minutes = UnitKind.TIME in {one, other} and "m" in {left[-1:], right[-1:]}
        raise MisuseError(
            f"{left} is {one.value} and {right} is {other.value}: not comparable",
            near=(left, right),
            remedy="Write M for millions; m are minutes." if is_minutes else _UNITS_REMEDY,
        )


# Receives a warning, the operand that it is about, and an undefined variable in that, or "".
Tell: TypeAlias = Callable[[str, str, str], None]

# A sum of numbers, as text: 3+1, 10ms*2.
_SUM = re.compile(
    r"[-+]?[0-9][0-9.]*[A-Za-z]{0,5}(?:(?:\*\*|//|[-+*/%])[0-9][0-9.]*[A-Za-z]{0,5})+"
)
_OPERATOR = re.compile(r"[-+*/%]")


def condition(tree: ast.Expression, scope: Scope, tell: Tell) -> Test:
    """The test that a condition of IF makes each time its line runs. `tell` receives warnings."""
    match tree:
        case ast.Operand():
            text = _operand(tree, scope, tell, is_compared=False)
            return lambda frame: is_true(text(frame))
        case ast.Unary(operand=operand):
            inner = condition(operand, scope, tell)
            return lambda frame: not inner(frame)
        case ast.Binary(operator="AND", left=left, right=right):
            first, second = condition(left, scope, tell), condition(right, scope, tell)
            return lambda frame: first(frame) and second(frame)
        case ast.Binary(operator="OR", left=left, right=right):
            first, second = condition(left, scope, tell), condition(right, scope, tell)
            return lambda frame: first(frame) or second(frame)
        case ast.Binary(operator=operator, left=left, right=right):
            one, other = (_operand(each, scope, tell, is_compared=True) for each in (left, right))
            return lambda frame: compare(operator, one(frame), other(frame))
        case _:
            raise AssertionError("the grammar makes no other conditions")


def _operand(
    tree: ast.Expression, scope: Scope, tell: Tell, *, is_compared: bool
) -> Callable[[Frame], str]:
    if not isinstance(tree, ast.Operand):
        test = condition(tree, scope, tell)
        return lambda frame: "1" if test(frame) else "0"
    filled = scope.text_of(tree.text)
    if "$" not in tree.text and not units.bytes_slip(filled({})):
        return filled
    # With an operator beside a variable it is meant to be computed; quotes make it a text.
    written = [part for part in parts(tree.text) if not part.quoted]
    is_sum = any(part.name for part in written) and any(
        not part.name and _OPERATOR.search(part.text) for part in written
    )

    def text(frame: Frame) -> str:
        value = filled(frame)
        if (name := undefined(value)) is not None:
            # An undefined variable counts as 0.
            is_zero = is_undefined(value)
            means = "counts as 0" if is_zero else "stays in the text"
            tell(f"undefined variable ${name} {means}", tree.text, name)
            return "0" if is_zero else value
        if is_sum and _SUM.fullmatch(value):
            _refuse_sum(tree.text, value, tell, is_compared=is_compared)
        if slip := units.bytes_slip(value):
            tell(slip, tree.text, "")
        return value

    return text


def _refuse_sum(written: str, value: str, tell: Tell, *, is_compared: bool) -> None:
    """MisuseError for a sum that is compared; a warning where any text is true, as in 2017."""
    message = f"{written} is not computed: it is the text {value!r}"
    if not is_compared:
        tell(message, written, "")
        return
    raise MisuseError(
        message,
        near=(written,),
        remedy=f'Compute it before: SET_EXP x={written}; or quote a text: "{written}"',
    )
