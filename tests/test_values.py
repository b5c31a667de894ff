"""A value's class is as dataclasses make it, but for when its methods are compiled."""

import dataclasses
import pickle

import pytest

from netesto.values import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: str = "two"
    rest: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    first: int
    second: str = "two"
    rest: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Has methods of its own."""

    size: int = 0
    name: str

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(self.name)

    def __repr__(self) -> str:
        return "own"


@dataclass(frozen=True, slots=True)
class Triple(Pair):
    third: float = 0.5


def told(kind):
    """What a class shows of itself, and of a value."""
    fields = dataclasses.fields(kind)
    value = kind(1, rest=[3])
    return (
        [(each.name, each.type, each.default, each.compare, each.repr) for each in fields],
        kind.__slots__,
        kind.__match_args__,
        kind.__dataclass_params__.frozen,
        repr(value).partition("(")[2],
        hash(value),
        dataclasses.astuple(value),
    )


def test_a_value_has_the_fields_and_methods_that_dataclasses_make():
    assert told(Pair) == told(Standard)


def test_values_are_equal_if_they_are_of_one_class_and_compared_fields_are():
    others: list[object] = [Pair(1, rest=[4]), Pair(2), Standard(1)]
    assert [each == Pair(1) for each in others] == [True, False, False]


def test_a_default_of_a_factory_belongs_to_one_value():
    assert Pair(1).rest is not Pair(1).rest


@pytest.mark.parametrize(
    "change", [lambda it: setattr(it, "first", 2), lambda it: delattr(it, "first")]
)
def test_a_value_does_not_change(change):
    value = Pair(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        change(value)
    assert value == Pair(1)


def test_a_value_is_replaced_and_pickled():
    value = dataclasses.replace(Pair(1, rest=[3]), second="2")
    assert dataclasses.astuple(pickle.loads(pickle.dumps(value))) == (1, "2", [3])


def test_a_value_that_is_invalid_is_refused_with_the_class_own_error():
    with pytest.raises(ValueError, match="x"):
        Checked(size=-1, name="x")


def test_a_method_of_the_class_stays():
    assert repr(Checked(name="x")) == "own"


def test_a_missing_argument_is_named():
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        Checked()  # type: ignore[call-arg]  # the error in question


def test_a_class_may_be_based_on_another():
    assert dataclasses.astuple(Triple(1, third=2.0)) == (1, "two", [], 2.0)
