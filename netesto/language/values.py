"""Lists of values, and ranges of numbers and numbered names, for FOR and SWEEP."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import overload

from netesto.language.scope import MisuseError, needed
from netesto.schema.kinds import PARENT, looks_like_range

_RANGE = re.compile(r"([^,]+?)\.\.([^,]+?)(?:,([^,]*))?")
_WHOLE = re.compile(r"-?[0-9]{1,15}")
# A number that may have decimals and a unit: 0.1, 10ms, 1.5K.
_AMOUNT = re.compile(r"(-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,9})?)([A-Za-z%]*)")
_DIGITS = re.compile(r"([0-9]{1,15})")
# A longer text is not a range.
_LONGEST = 200
# Larger ranges are mistakes, and len() of one would overflow.
_MOST_VALUES = 10**15

_FORMS = "1..10 or 1..10,2; 0.1..0.5,0.1 (decimals need a step); h1..h8 or h01..h08"


@dataclass(frozen=True, slots=True)
class Count(Sequence[str]):
    """The values of a range as texts: numbers of `numbers`, the last `decimals` digits of each
    after the point, padded with zeros to `width` digits, between `prefix` and `suffix`."""

    numbers: range
    decimals: int = 0
    width: int = 0
    prefix: str = ""
    suffix: str = ""

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[str]:
        return map(self._text, self.numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self._text(number) for number in self.numbers[index]]
        return self._text(self.numbers[index])

    def _text(self, number: int) -> str:
        if self.decimals:
            digits = f"{Decimal(number).scaleb(-self.decimals):f}"
        else:
            digits = f"{number:0{self.width}d}"
        return f"{self.prefix}{digits}{self.suffix}"


def values_of(text: str, *, near: str) -> Sequence[str]:
    """The values of `a,b,c`, or of a range; empty ones of a list are skipped.

    A range of decimals is exact, and each of its values has the maximum number of decimals of its
    first, last and step. MisuseError for an undefined variable, a space, a range that never ends,
    and anything else with `..`.
    """
    text = needed(text, near=(near,)).strip()
    match = _RANGE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is not None and not PARENT.search(text):
        return _range(text, match[1], match[2], match[3], near=near)
    values = [value.strip() for value in text.split(",")]
    for value in values:
        if " " in value or "\t" in value:
            raise MisuseError(
                f"the list {text!r} contains spaces",
                near=(near,),
                remedy="Separate values by commas: a,b,c",
            )
        if looks_like_range(value):
            raise _no_range(text, near)
    return [value for value in values if value]


def _no_range(text: str, near: str) -> MisuseError:
    return MisuseError(
        f"{text} is neither a list nor a range",
        near=(near,),
        remedy=f"A range stands alone: {_FORMS}.",
    )


def _range(text: str, first: str, last: str, step: str | None, *, near: str) -> Sequence[str]:
    if step == "":
        raise _no_range(text, near)
    if _WHOLE.fullmatch(first) and _WHOLE.fullmatch(last) and _WHOLE.fullmatch(step or "1"):
        return Count(_numbers(text, int(first), int(last), int(step or 1), near=near))
    begin, end, by = (_AMOUNT.fullmatch(each) for each in (first, last, step or "1"))
    if begin and end and by and begin[2] == end[2] and by[2] in {"", begin[2]}:
        return _amounts(text, begin, end, None if step is None else by, near=near)
    begin_parts, end_parts = _DIGITS.split(first), _DIGITS.split(last)
    differ = [
        place
        for place, (one, other) in enumerate(zip(begin_parts, end_parts, strict=False))
        if one != other
    ]
    # Odd places hold numbers; if none differs, the last one counts, and the range has one value.
    place = differ[0] if differ else len(begin_parts) - 2
    is_named = len(begin_parts) == len(end_parts) > 1 and len(differ) < 2 and place % 2 == 1
    if not is_named or not _WHOLE.fullmatch(step or "1"):
        raise _no_range(text, near)
    one, other = begin_parts[place], end_parts[place]
    is_padded = any(len(number) > 1 and number.startswith("0") for number in (one, other))
    if is_padded and len(one) != len(other):
        raise MisuseError(
            f"range {text}: numbers of different lengths",
            near=(near,),
            remedy="With zeros in front, both have the same length: h01..h08.",
        )
    return Count(
        _numbers(text, int(one), int(other), int(step or 1), near=near),
        width=len(one) if is_padded else 0,
        prefix="".join(begin_parts[:place]),
        suffix="".join(begin_parts[place + 1 :]),
    )


def _amounts(
    text: str,
    first: re.Match[str],
    last: re.Match[str],
    step: re.Match[str] | None,
    *,
    near: str,
) -> Count:
    """The range of numbers with decimals or a unit."""
    written = [Decimal(match[1]) for match in (first, last, step) if match]
    decimals = max(-int(value.as_tuple().exponent) for value in written)
    if decimals and step is None:
        raise MisuseError(
            f"the range {text} has no step",
            near=(near,),
            remedy=f"Add one after a comma: {text},0.1",
        )
    numbers = [int(value.scaleb(decimals)) for value in written]
    begin, end, by = numbers if step else (*numbers, 1)
    return Count(_numbers(text, begin, end, by, near=near), decimals=decimals, suffix=first[2])


def _numbers(text: str, first: int, last: int, step: int, *, near: str) -> range:
    """The numbers from first to last, both included. MisuseError if they never end."""
    if step == 0 or (last - first) * step < 0:
        begin, _, rest = text.partition("..")
        end = rest.partition(",")[0]
        raise MisuseError(
            f"range {text} never ends",
            near=(near,),
            remedy=f"From {begin} to {end} the step must be "
            + (f"negative: {begin}..{end},-1" if last < first else "positive."),
        )
    if abs(last - first) // abs(step) >= _MOST_VALUES:
        raise MisuseError(
            f"the range {text} has too many values",
            near=(near,),
            remedy=f"At most {_MOST_VALUES:,}. Is its step, or an end of it, wrong?",
        )
    return range(first, last + (1 if step > 0 else -1), step)
