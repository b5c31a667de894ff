"""What counts as a number in a report script, and how numbers are written."""

import math
from decimal import ROUND_DOWN, Context, Decimal

from netesto.errors import ScriptError

# Digits of str(float) in the Python of the classic tool; tables of old scripts show them.
SIGNIFICANT_DIGITS = 12
# Written where a cell of a new column has no value.
NOT_A_NUMBER = "*"
DIVIDED_BY_ZERO = "**"
# Written by Average where the members of a group differ.
DIFFERENT = "..."
# Signs in the place of a number.
SIGNS = frozenset({NOT_A_NUMBER, DIVIDED_BY_ZERO, DIFFERENT})

# What is larger is no measurement, and the width of an axis that holds it is no number any more.
LARGEST_DRAWN = 1e150
# A float has some 17 digits; more decimals show nothing.
DECIMALS_MAX = 30

# Enough digits for the largest float and its decimals.
_WIDE = Context(prec=330)


def parse(text: str) -> float | None:
    """The number that `text` writes, None if it writes none. `1e3`, `nan` and ` 7 ` are numbers."""
    # Python reads 1_000 as a number, a CSV file does not mean it.
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def drawable(text: str) -> float | None:
    """As parse, but only what has a place on an axis: neither nan nor infinite nor beyond all."""
    value = parse(text)
    return value if value is not None and abs(value) <= LARGEST_DRAWN else None


def plain(value: float) -> str:
    """A number with up to 12 significant digits and at least one decimal: 2.0, 6.66666666667."""
    text = f"{value:.{SIGNIFICANT_DIGITS}g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def truncated(value: float) -> float:
    """Cut, not rounded: two decimals up to 100, one up to 1000, none above.

    The classic tool wrote ratios and means so, and figure 8 of the paper shows it: 2.8/1.6 is 1.74.
    """
    if not math.isfinite(value):
        return value
    decimals = 2 if abs(value) <= 100 else 1 if abs(value) <= 1000 else 0
    # Of the digits as written, not of a product: 9.2 * 100 is 919.9…, and 9.2 is not 9.19.
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_DOWN, _WIDE))


def fixed(text: str, decimals: int) -> str:
    """`text` with that many decimals if it is a number, else as it is."""
    value = parse(text)
    return text if value is None else f"{value:.{decimals}f}"


def decimals(text: str) -> int:
    """The value of `format`: ScriptError if it is no count of decimals."""
    if not text.strip().isdecimal() or int(text) > DECIMALS_MAX:
        raise ScriptError(
            f"format counts decimals, {text!r} is no such count", remedy="format=2 shows 94.12"
        )
    return int(text)
