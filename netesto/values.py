"""Frozen dataclasses whose methods are compiled when one of them is first called.

The standard library compiles six functions for each class that is defined: a sixth of the time in
which a command or an agent starts. A process uses the methods of few of these classes.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass

__all__ = ["dataclass"]

_METHODS = ("__init__", "__repr__", "__eq__", "__hash__")


def _dataclass(*, frozen: bool, slots: bool, kw_only: bool = False) -> Any:
    """In place of `dataclasses.dataclass`, for classes that are frozen and have slots."""

    def decorated(cls: Any) -> Any:
        if cls.__bases__ != (object,):
            return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only)(cls)
        # Without a docstring, dataclasses makes one of the signature.
        cls.__doc__ = cls.__doc__ or cls.__name__
        make = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        made: Any = make(cls)
        # A class may be based on it.
        made.__dataclass_params__.frozen = frozen
        for name in _METHODS:
            if name not in cls.__dict__:
                setattr(made, name, _compiling(made, name))
        made.__setattr__ = made.__delattr__ = _refuse
        made.__getstate__, made.__setstate__ = _state, _restore
        return made

    return decorated


if not TYPE_CHECKING:
    dataclass = _dataclass


def _compiling(cls: Any, name: str) -> Any:
    """A method that puts the one of dataclasses in its place, and calls it."""

    def method(self: Any, *words: Any, **named: Any) -> Any:
        setattr(cls, name, _compiled(cls).__dict__[name])
        return getattr(cls, name)(self, *words, **named)

    return method


def _compiled(cls: Any) -> Any:
    """A class with the same fields, and all methods."""
    fields = dataclasses.fields(cls)
    members: dict[str, Any] = {each.name: each for each in fields}
    members["__annotations__"] = {each.name: each.type for each in fields}
    members["__doc__"] = cls.__doc__
    if hasattr(cls, "__post_init__"):
        members["__post_init__"] = cls.__post_init__
    return dataclasses.dataclass(frozen=True)(type(cls.__name__, (), members))


def _refuse(_self: object, name: str, *_: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to or delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
