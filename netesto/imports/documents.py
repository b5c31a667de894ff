"""Values in documents that nobody vouches for."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from netesto.text.printable import printable
from netesto.traffic.base import LARGEST

Document: TypeAlias = Mapping[str, Any]

_SHOWN = 160


def at(value: object, *path: str | int) -> object:
    """The value at a path; None if there is none."""
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def number(value: object, *path: str | int) -> float | None:
    """At a path: a finite number, not negative, that a measurement can have; None for anything
    else."""
    value = at(value, *path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        return None
    return float(value)


def whole(value: object, *path: str | int) -> int | None:
    """At a path: a count; None for anything else."""
    found = number(value, *path)
    return int(found) if found is not None and math.floor(found) == found else None


def words(value: object, *path: str | int) -> str:
    """At a path: a text on one line; "" for anything else."""
    found = at(value, *path)
    return line(found) if isinstance(found, str) else ""


def line(text: str) -> str:
    """A text on one line, shortened."""
    return printable(" ".join(text.split()))[:_SHOWN]


def items(value: object, *path: str | int) -> list[object]:
    """At a path: a list; empty for anything else."""
    found = at(value, *path)
    return found if isinstance(found, list) else []
