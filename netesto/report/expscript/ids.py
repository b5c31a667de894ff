"""The column exp: an experiment's number, a point, a group's number. 12.10 is not 12.1."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from netesto.report.expscript import numerals
from netesto.report.expscript.csvcells import Booleans, Floats

# The column of files of ours that tells the experiment's number by itself.
NUMBER = "expNumber"
TENTH = 10
_PAIR = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


class Written(Protocol):
    """The cells of a column, as written and as numbers."""

    @property
    def texts(self) -> Sequence[str]: ...
    @property
    def numbers(self) -> Floats: ...


class Ids:
    """What the ids of some files are: pairs of whole numbers, or, in other files, plain numbers.

    They are pairs in files of ours, which have a column expNumber, and where the groups of every
    experiment have the numbers 0, 1, 2 and so on without a gap. Below ten groups a pair is the
    number that it looks like, and nothing is done.
    """

    def __init__(self, ours: Sequence[Written], others: Sequence[Written]) -> None:
        self.ours = tuple(ours)
        self.others = tuple(others)

    @classmethod
    def of(cls, ids: Written, names: Iterable[str]) -> "Ids":
        """Of one file with columns of these names."""
        return cls([ids], []) if NUMBER in names else cls([], [ids])

    def with_files(self, more: "Ids") -> "Ids":
        """Of these files and more."""
        return Ids((*self.ours, *more.ours), (*self.others, *more.others))

    @cached_property
    def are_pairs(self) -> bool:
        groups = [_groups(file.texts) for file in self.ours + self.others]
        without_gap = map(_are_without_gap, groups[len(self.ours) :])
        return None not in groups and all(without_gap)

    @property
    def mislead(self) -> bool:
        """True where numbers would take pairs for others: there is a tenth group."""
        return self._groups_max >= TENTH

    @cached_property
    def _groups_max(self) -> int:
        files = self.ours + self.others
        if not any(map(_may_have_tenth_group, files)) or not self.are_pairs:
            return 0
        return max(int(text.strip().partition(".")[2]) for file in files for text in file.texts)

    def order(self, ids: Written) -> Floats:
        """Numbers in the order of these ids; nan where a cell is none."""
        if not self.mislead:
            return ids.numbers
        return np.array([self.place(text) for text in ids.texts], dtype=np.float64)

    def place(self, text: str) -> float:
        """Where `order` has what a script writes: 12.10 behind 12.9, and 12 at 12.0."""
        pair = _PAIR.fullmatch(text.strip()) if self.mislead else None
        number = numerals.parse(text)
        if pair is None and not self.mislead:
            return np.nan if number is None else number
        # So that each experiment has room for one more group than any has.
        room = self._groups_max + 2
        if pair is not None:
            return int(pair[1]) * room + min(int(pair[2]), room - 1)
        return np.nan if number is None else number * room

    def equal(self, ids: Written, value: str) -> Booleans | None:
        """Where an id is `value`, as pairs; None if these are to be compared as numbers."""
        pair = _PAIR.fullmatch(value.strip())
        if pair is None or not (len(pair[2]) > 1 or self.mislead) or not self.are_pairs:
            return None
        return np.array([text.strip() == pair[0] for text in ids.texts], dtype=np.bool_)

    def of_group(self, ids: Written, value: str) -> Booleans | None:
        """`.1`: where an id is of group 1, and not of 10; None for what is no group."""
        if not self.mislead or re.fullmatch(r"\.[0-9]+", value) is None:
            return None
        return np.array([text.strip().endswith(value) for text in ids.texts], dtype=np.bool_)


def pair(text: str) -> tuple[int, int] | None:
    """The numbers of experiment and group; None if `text` is not written as these are."""
    match = _PAIR.fullmatch(text.strip())
    return None if match is None else (int(match[1]), int(match[2]))


def _may_have_tenth_group(file: Written) -> bool:
    """False if all ids have one digit behind the point: then none is equal to another as a number,
    and no text need be looked at."""
    tenths = file.numbers * 10
    has_one_digit = bool(np.all(np.abs(tenths - np.rint(tenths)) < 1e-4))
    return not has_one_digit or len(np.unique(file.numbers)) < len(file.numbers)


def _groups(texts: Sequence[str]) -> dict[int, set[int]] | None:
    """The numbers of the groups of each experiment; None if some id is no pair."""
    groups: dict[int, set[int]] = {}
    for text in texts:
        numbers = pair(text)
        if numbers is None:
            return None
        groups.setdefault(numbers[0], set()).add(numbers[1])
    return groups


def _are_without_gap(groups: dict[int, set[int]] | None) -> bool:
    return groups is not None and all(
        min(one) <= 1 and max(one) - min(one) == len(one) - 1 for one in groups.values()
    )
