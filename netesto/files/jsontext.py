"""JSON as values: whatever is wrong with a text, its depth too, is a ValueError. Imports nothing
from netesto."""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# What code may raise that takes a value of another shape than it expects, and parse() itself.
INVALID = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)

_DECODER = json.JSONDecoder()


def parse(text: str | bytes, *, finite: bool = False) -> Any:
    """The value of a text. `finite`: NaN and infinite numbers, which Python reads as well, are
    invalid."""
    try:
        if finite:
            return json.loads(text, parse_float=_finite, parse_constant=_finite)
        # Without a hook json keeps its decoder; a plan has a million lines.
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read(path: Path, *, finite: bool = False) -> Any:
    """The value in a file. OSError, too."""
    return parse(path.read_text(encoding="utf-8"), finite=finite)


def lines(each: Iterable[str]) -> Iterator[Any]:
    """The values of lines; those that are truncated or damaged are omitted."""
    for line in each:
        try:
            value = parse(line)
        except ValueError:
            continue
        yield value


def first(text: str, place: int = 0, decoder: json.JSONDecoder = _DECODER) -> tuple[Any, int]:
    """The value that begins at `place`, and the place behind it, whatever follows."""
    try:
        return decoder.raw_decode(text, place)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
