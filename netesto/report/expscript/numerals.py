"""What counts as a number in a report script, and how numbers are written."""

import math
import re
from decimal import ROUND_DOWN, Context, Decimal

from netesto import units
from netesto.errors import ScriptError
from netesto.units import COUNT_FACTORS, Quantity, UnitKind

# Digits of str(float) in the Python of the classic tool; tables of old scripts show them.
SIGNIFICANT_DIGITS = 12
# Written where a cell of a new column has no value.
NOT_A_NUMBER = "*"
DIVIDED_BY_ZERO = "**"
# Written by Average where the members of a group differ.
DIFFERENT = "..."
# Signs in the place of a number.
SIGNS = frozenset({NOT_A_NUMBER, DIVIDED_BY_ZERO, DIFFERENT})

# A larger value is not a measurement, and would make the width of an axis infinite.
LARGEST_DRAWN = 1e150
# A float has some 17 digits; more decimals show nothing.
DECIMALS_MAX = 30

# Enough digits for the largest float and its decimals.
_WIDE = Context(prec=330)

_SHORTENED = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))([KMG])\s*")


def plain_number(text: str) -> float | None:
    """The number that `text` writes out, None for another text. `1e3`, `nan`, ` 7 ` are numbers."""
    # Python reads 1_000 as a number, which a CSV file does not.
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def parse(text: str) -> float | None:
    """As plain_number, but also with K, M or G: `1M` is 1e6."""
    value = plain_number(text)
    if value is not None:
        return value
    match = _SHORTENED.fullmatch(text)
    return None if match is None else float(match[1]) * COUNT_FACTORS[match[2]]


def quantity(text: str) -> Quantity | None:
    """The rate or time that `text` writes with its unit: `10mbit`, `1gbit`, `20ms`.

    A text with a unit is not a number, and is not drawn or averaged, but it has a size.
    """
    found = units.quantity(text)
    if found is None or found.kind not in {UnitKind.RATE, UnitKind.TIME}:
        return None
    # Minutes for a command; in a table as likely thousandths or a million.
    is_bare_m = text.rstrip().endswith("m") and not text.rstrip()[-2:-1].isalpha()
    return None if is_bare_m else found


def same(one: str, other: str) -> bool:
    """Equal as texts, as numbers (`10` is `10.0`), or as rates or times (`1gbit` is `1000mbit`)."""
    numbers = parse(one), parse(other)
    if numbers != (None, None):
        return one == other or numbers[0] == numbers[1]
    quantities = quantity(one), quantity(other)
    return one == other or (quantities[0] is not None and quantities[0] == quantities[1])


def drawable(text: str) -> float | None:
    """As parse, but only values that fit on an axis: neither nan nor infinite nor too large."""
    value = parse(text)
    return value if value is not None and abs(value) <= LARGEST_DRAWN else None


def plain(value: float) -> str:
    """A number with up to 12 significant digits and at least one decimal: 2.0, 6.66666666667."""
    text = f"{value:.{SIGNIFICANT_DIGITS}g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def cut(value: float) -> str:
    """As plain, but cut, not rounded: two decimals up to 100, one up to 1000, none above.

    The classic tool wrote ratios and means so, and figure 8 of the paper shows it: 2.8/1.6 is 1.74.
    """
    if not math.isfinite(value):
        return plain(value)
    decimals = 2 if abs(value) <= 100 else 1 if abs(value) <= 1000 else 0
    # Of the digits as written, not of a product: 9.2 * 100 is 919.9…, and 9.2 is not 9.19.
    digits = Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_DOWN, _WIDE)
    return plain(float(digits))


def fixed(text: str, decimals: int) -> str:
    """`text` with that many decimals if it is a number; 1M and all other texts stay."""
    value = plain_number(text)
    return text if value is None else f"{value:.{decimals}f}"


def decimals(text: str) -> int:
    """The value of `format`: ScriptError if it is not a number of decimals."""
    if not text.strip().isdecimal() or int(text) > DECIMALS_MAX:
        raise ScriptError(
            f"format: invalid number of decimals {text!r}", remedy="format=2 shows 94.12."
        )
    return int(text)
