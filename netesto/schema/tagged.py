"""Frozen dataclasses of plain values as JSON objects that name their class, and back, strictly.
Imports nothing from netesto."""

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")

# The member that names the class.
TYPE = "type"


def kinds(*classes: type[T]) -> Mapping[str, type[T]]:
    """Classes by their names."""
    return {each.__name__: each for each in classes}


def record(value: Any) -> dict[str, object]:
    """The JSON object of a value. Fields that have their defaults are omitted."""
    found: dict[str, object] = {TYPE: type(value).__name__}
    for each in fields(value):
        held = getattr(value, each.name)
        if held != each.default:
            found[each.name] = list(held) if isinstance(held, tuple) else held
    return found


def read(found: object, among: Mapping[str, type[T]]) -> T:
    """The value of a JSON object, of one of these classes. ValueError, which says why, if it is
    none: a field is unknown or missing, or has a value of another type."""
    name = found.get(TYPE) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(name, str) or name not in among:
        raise ValueError(f"{found!r:.100} is none of {', '.join(among)}")
    given = {key: value for key, value in found.items() if key != TYPE}
    hints: Mapping[str, Any] = _hints(among[name])  # type: ignore[arg-type]  # classes are hashable
    if unknown := given.keys() - hints.keys():
        raise ValueError(f"{name} has no {min(map(str, unknown))!r:.100}")
    values = {key: _value(f"{name}.{key}", hints[key], value) for key, value in given.items()}
    try:
        return among[name](**values)
    except TypeError:
        raise ValueError(f"{name} needs more than {', '.join(given) or 'nothing'}") from None


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _value(name: str, hint: Any, value: Any) -> Any:
    if value is None and hint in {float | None, int | None}:
        return None
    if hint == tuple[str, ...] and isinstance(value, list):
        return tuple(_value(name, str, each) for each in value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint in {float, float | None} and is_number and math.isfinite(value):
        return float(value)
    if hint in {int, int | None} and is_number and isinstance(value, int):
        return value
    if hint in {str, bool} and type(value) is hint:
        return value
    raise ValueError(f"{name}: {value!r:.100} is not {getattr(hint, '__name__', hint)}")
