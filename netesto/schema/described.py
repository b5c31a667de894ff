"""Dataclasses whose fields describe themselves: the metadata of a field has a value that says what
there is to know of it. Imports nothing from netesto."""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

D = TypeVar("D")

_KEY = "description"


def described(default: Any, description: object) -> Any:
    """A field of a dataclass with its default and its description."""
    return field(default=default, metadata={_KEY: description})


def descriptions(kind: Any, of: type[D]) -> Mapping[str, D]:
    """The descriptions of a dataclass's fields, each of the type `of`, by the fields' names and in
    their order. Other fields are left out."""
    found = {each.name: each.metadata.get(_KEY) for each in fields(kind)}
    return {name: one for name, one in found.items() if isinstance(one, of)}


def differing(value: Any) -> dict[str, Any]:
    """The described fields of a dataclass's value that differ from their defaults, by name."""
    return {
        each.name: held
        for each in fields(value)
        if _KEY in each.metadata and (held := getattr(value, each.name)) != each.default
    }
