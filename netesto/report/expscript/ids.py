"""The column exp: an experiment's number, a point, a group's number. 12.10 is not 12.1."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from netesto.report.expscript import numerals
from netesto.report.expscript.csvcells import Booleans, Floats

# The column with the experiment's number in our files.
NUMBER = "expNumber"
TENTH = 10
# The digits suffice for the groups of any experiment.
DIGITS_MAX = 6
_PAIR_FORM = rf"(0|[1-9][0-9]*)\.(0|[1-9][0-9]{{0,{DIGITS_MAX - 1}}})"
_PAIR = re.compile(_PAIR_FORM)
# Of cells, none of which holds a NUL. Possessive: to go back takes some 400 bytes for each.
_PAIRS = re.compile(rf"(?:{_PAIR_FORM}\0)*+")

_Pairs: TypeAlias = tuple[Floats, Floats]


class Written(Protocol):
    """The cells of a column, as written and as numbers."""

    @property
    def texts(self) -> Sequence[str]: ...
    @property
    def numbers(self) -> Floats: ...


@dataclass(frozen=True)
class Ids:
    """The kind of ids in files: pairs of whole numbers, or plain numbers.

    They are pairs in files of ours, which have a column expNumber, and where the groups of every
    experiment have the numbers 0, 1, 2 and so on without a gap. With fewer than ten groups a pair
    equals the number that it looks like, and nothing is done. `files` are the ids of each file, and
    whether it is one of ours.
    """

    files: tuple[tuple[Written, bool], ...]

    @classmethod
    def of(cls, ids: Written, names: Iterable[str]) -> "Ids":
        """The kind for one file with columns of these names."""
        return cls(((ids, NUMBER in names),))

    def with_files(self, more: "Ids") -> "Ids":
        """The kind for these files and others."""
        return Ids(self.files + more.files)

    @property
    def are_pairs(self) -> bool:
        """Whether all files have pairs."""
        return self._pairs is not None

    @cached_property
    def _pairs(self) -> list[_Pairs] | None:
        found = []
        for ids, is_ours in self.files:
            pairs = _pairs(ids)
            if pairs is None or not (is_ours or _are_without_gap(*pairs)):
                return None
            found.append(pairs)
        return found

    @property
    def mislead(self) -> bool:
        """True if numbers would confuse pairs: there is a tenth group."""
        return self._groups_max >= TENTH

    @cached_property
    def _groups_max(self) -> int:
        if not any(_may_have_tenth_group(ids) for ids, _ in self.files):
            return 0
        return int(max((groups.max(initial=0.0) for _, groups in self._pairs or ()), default=0.0))

    def order(self, ids: Written) -> Floats:
        """Numbers in the order of these ids; nan for other cells."""
        pairs = _pairs(ids) if self.mislead else None
        return ids.numbers if pairs is None else pairs[0] * self._room + pairs[1]

    @property
    def _room(self) -> int:
        """The places of each experiment in the order: one more than the maximum of groups."""
        return self._groups_max + 2

    def place(self, text: str) -> float:
        """The place of a script's value in `order`: 12.10 after 12.9, and 12 at 12.0."""
        written = pair(text) if self.mislead else None
        if written is not None:
            return written[0] * self._room + min(written[1], self._room - 1)
        number = numerals.parse(text)
        if number is None:
            return np.nan
        return number * self._room if self.mislead else number

    def equal(self, ids: Written, value: str) -> Booleans | None:
        """Where an id is `value`, as pairs; None if these are to be compared as numbers."""
        written = pair(value)
        if written is None or not (written[1] >= TENTH or self.mislead) or not self.are_pairs:
            return None
        wanted = value.strip()
        return np.array([text.strip() == wanted for text in ids.texts], dtype=np.bool_)

    def of_group(self, ids: Written, value: str) -> Booleans | None:
        """`.1`: where an id is of group 1, and not of 10; None if `value` is not a group."""
        if not self.mislead or re.fullmatch(r"\.[0-9]+", value) is None:
            return None
        return np.array([text.strip().endswith(value) for text in ids.texts], dtype=np.bool_)


def pair(text: str) -> tuple[int, int] | None:
    """The numbers of experiment and group; None if `text` is not written as these are."""
    match = _PAIR.fullmatch(text.strip())
    return None if match is None else (int(match[1]), int(match[2]))


def _may_have_tenth_group(file: Written) -> bool:
    """False if all ids have one digit after the point: then no two are equal as numbers, and texts
    need not be compared."""
    tenths = file.numbers * 10
    has_one_digit = bool(np.all(np.abs(tenths - np.rint(tenths)) < 1e-4))
    return not has_one_digit or len(np.unique(file.numbers)) < len(file.numbers)


def _pairs(ids: Written) -> _Pairs | None:
    """The numbers of experiments and of groups, of all ids; None if one of them is not a pair."""
    written = "".join(f"{text}\0" for text in ids.texts)
    if _PAIRS.fullmatch(written) is None:
        return None
    numbers = np.array(re.split(r"[.\0]", written)[:-1], dtype=np.float64)
    return numbers[::2], numbers[1::2]


def _are_without_gap(whole: Floats, groups: Floats) -> bool:
    """Whether each experiment has groups 0, 1, 2 … or 1, 2 …"""
    order = np.lexsort((groups, whole))
    whole, groups = whole[order], groups[order]
    is_first = np.diff(whole, prepend=-1.0) > 0
    has_none_before = np.where(is_first, groups, np.diff(groups, prepend=0.0)) <= 1
    return bool(np.all(has_none_before))
