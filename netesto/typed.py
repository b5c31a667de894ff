"""Dataclasses from JSON values and back, strictly: a text is a text, and a number a number."""

import cattrs


def converter(*, forbid_extra_keys: bool = True) -> cattrs.Converter:
    """A converter that refuses, with an error of cattrs, a value of another type than the field's,
    and a key that is not a field."""
    made = cattrs.Converter(forbid_extra_keys=forbid_extra_keys)
    # By default cattrs converts a number to a text, and a text to a number.
    made.register_structure_hook(str, _text)
    made.register_structure_hook(int, _whole)
    made.register_structure_hook(float, _number)
    made.register_structure_hook(bool, _truth)
    return made


def _text(value: object, _: type[str]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _whole(value: object, _: type[int]) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _number(value: object, _: type[float]) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _truth(value: object, _: type[bool]) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
