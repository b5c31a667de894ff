"""Dataclasses from JSON values and back, strictly: a text is a text, and a number a number."""

from collections.abc import Callable

import cattrs

from netesto import hostsettings
from netesto.hostsettings import Setting
from netesto.schema import tagged

# What JSON has for a type, and what other values are not.
_TAKEN: tuple[tuple[type, type | tuple[type, ...], str], ...] = (
    (str, str, "not text"),
    (int, int, "not a whole number"),
    (float, (int, float), "not a number"),
    (bool, bool, "neither true nor false"),
)


def converter(*, forbid_extra_keys: bool = True) -> cattrs.Converter:
    """A converter that refuses, with an error of cattrs, a value of another type than the field's,
    and a key that is not a field."""
    made = cattrs.Converter(forbid_extra_keys=forbid_extra_keys)
    # By default cattrs converts a number to a text, and a text to a number.
    for kind, taken, otherwise in _TAKEN:
        made.register_structure_hook(kind, _strict(kind, taken, otherwise))
    # A setting of a host has a form of its own, also where cattrs is not installed.
    made.register_unstructure_hook_func(_is_setting, tagged.record)
    made.register_structure_hook(Setting, lambda found, _: hostsettings.read(found))
    return made


def _is_setting(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Setting)


def _strict(
    kind: type, taken: type | tuple[type, ...], otherwise: str
) -> Callable[[object, object], object]:
    def structured(value: object, _: object) -> object:
        # For Python true and false are numbers.
        if not isinstance(value, taken) or isinstance(value, bool) != (kind is bool):
            raise TypeError(f"{value!r} is {otherwise}")
        return kind(value)

    return structured
