"""JSON that people write: every value knows its place, so that an error about it has line and
column. Strict: no duplicate keys, no NaN, no comments.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from netesto.errors import Place, ScriptError
from netesto.files import jsontext

Duplicates: TypeAlias = Literal["refuse", "merge"]

# Deeper ones are no data of ours, and the reader calls itself for each level.
DEEPEST = 50

_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null',
    re.ASCII,
)
_WORD = re.compile(r"[^\s,:\[\]{}]+")


@dataclass(frozen=True, slots=True)
class Source:
    """A text with its name in messages."""

    name: str
    text: str

    def place(self, start: int, end: int) -> Place:
        line = self.text.count("\n", 0, start) + 1
        first = self.text.rfind("\n", 0, start) + 1
        last = self.text.find("\n", start)
        shown = self.text[first : len(self.text) if last < 0 else last].rstrip("\r")
        return Place(self.name, line, start - first + 1, max(1, end - start), shown)

    def wrong(self, start: int, end: int, message: str, remedy: str = "") -> ScriptError:
        return ScriptError(message, place=self.place(start, end), remedy=remedy)


@dataclass(frozen=True, slots=True)
class Value:
    """A value: `content` is a text, number, bool, None, a tuple of values, or a mapping of names to
    values, whose names begin at `names`. The methods raise ScriptError with its place."""

    source: Source
    start: int
    end: int
    content: Any
    names: Mapping[str, int] = field(default_factory=dict)

    def wrong(self, message: str, remedy: str = "") -> ScriptError:
        return self.source.wrong(self.start, self.end, message, remedy)

    def table(self, what: str) -> Mapping[str, "Value"]:
        """The members of an object."""
        if not isinstance(self.content, dict):
            raise self.wrong(f"{what}: an object {{…}} is required")
        return self.content

    def items(self, what: str) -> tuple["Value", ...]:
        """The elements of an array."""
        if not isinstance(self.content, tuple):
            raise self.wrong(f"{what}: an array […] is required")
        return self.content

    def words(self, what: str) -> str:
        # Half a surrogate pair, for example, is in no file's name.
        if not isinstance(self.content, str) or not self.content.isprintable():
            raise self.wrong(f"{what}: a text in quotes is required")
        return self.content

    def number(self, what: str, *, above: float | None = None) -> float:
        """A finite number that is not negative, or greater than `above`."""
        if isinstance(self.content, bool) or not isinstance(self.content, int | float):
            raise self.wrong(f"{what}: a number is required")
        if above is not None and not self.content > above:
            raise self.wrong(f"{what}: {self.content}: a number above {above:g} is required")
        if self.content < 0:
            raise self.wrong(f"{what}: {self.content} is negative")
        return self.content

    def required(self, name: str, what: str, example: str = "") -> "Value":
        """A member of an object."""
        found = self.table(what).get(name)
        if found is None:
            raise self.source.wrong(
                self.start, self.start + 1, f"{what}: {name} is missing", example
            )
        return found

    def unknown(self, known: Collection[str]) -> Iterator[tuple[str, Place]]:
        """The names of an object that are not `known`, with their places."""
        for name, start in self.names.items():
            if name not in known:
                yield name, self.source.place(start, start + len(name) + 2)


def parse(text: str, name: str, *, duplicates: Duplicates | None = None) -> Value:
    """The value of a text from the file `name`. `merge`: arrays of the same name in one object are
    joined; None: the user has no such choice. ScriptError."""
    reader = _JsonReader(Source(name, text), duplicates)
    found, place = reader.value(reader.skip(0), 0)
    if (rest := reader.skip(place)) < len(text):
        raise reader.source.wrong(rest, rest + 1, "unexpected text behind the value")
    return found


@dataclass(frozen=True, slots=True)
class _JsonReader:
    source: Source
    duplicates: Duplicates | None

    def skip(self, place: int) -> int:
        blank = _BLANK.match(self.source.text, place)
        return place if blank is None else blank.end()

    def value(self, place: int, depth: int) -> tuple[Value, int]:
        """The value that begins at a place, and the place behind it."""
        if depth > DEEPEST:
            raise self.source.wrong(place, place + 1, f"nested more than {DEEPEST} levels deep")
        match self.source.text[place : place + 1]:
            case "{":
                return self._object(place, depth)
            case "[":
                return self._array(place, depth)
        found = _SCALAR.match(self.source.text, place)
        word = _WORD.match(self.source.text, place)
        is_text = self.source.text.startswith('"', place)
        if found is None or (not is_text and word is not None and word.end() > found.end()):
            raise self._unreadable(place, word)
        return Value(self.source, place, found.end(), self._scalar(found)), found.end()

    def _unreadable(self, place: int, word: re.Match[str] | None) -> ScriptError:
        if place >= len(self.source.text):
            return self.source.wrong(place, place, "the text ends before the value does")
        if word is None:
            what = self.source.text[place]
            return self.source.wrong(
                place, place + 1, f"unexpected {what!r}: a value is required here"
            )
        remedy = "A value is a number, a text in double quotes, true, false, null, […] or {…}."
        return self.source.wrong(
            place, word.end(), f"{word[0][:40]!r} is not a value of JSON", remedy
        )

    def _scalar(self, found: re.Match[str]) -> Any:
        if found[0] in {"true", "false", "null"} or found[0].startswith('"'):
            try:
                return jsontext.parse(found[0])
            except ValueError as error:
                message = f"invalid text: {error}"
                raise self.source.wrong(found.start(), found.end(), message) from None
        try:
            number: float = int(found[0]) if found[0].lstrip("-").isdigit() else float(found[0])
            is_finite = math.isfinite(number)
        except (ValueError, OverflowError):
            is_finite = False
        if not is_finite:
            raise self.source.wrong(found.start(), found.end(), "the number is too large")
        return number

    def _array(self, start: int, depth: int) -> tuple[Value, int]:
        items: list[Value] = []

        def element(place: int) -> int:
            found, behind = self.value(place, depth + 1)
            items.append(found)
            return behind

        end = self._members(start, "]", element)
        return Value(self.source, start, end, tuple(items)), end

    def _object(self, start: int, depth: int) -> tuple[Value, int]:
        members: dict[str, Value] = {}
        names: dict[str, int] = {}

        def member(place: int) -> int:
            name, behind = self.value(place, depth + 1)
            key = name.words("a name")
            colon = self.skip(behind)
            if self.source.text[colon : colon + 1] != ":":
                raise self.source.wrong(colon, colon + 1, f"':' is required behind {key!r}")
            found, behind = self.value(self.skip(colon + 1), depth + 1)
            if key in members:
                found = self._again(key, members[key], found, names[key], place)
            members[key] = found
            names.setdefault(key, place)
            return behind

        end = self._members(start, "}", member)
        return Value(self.source, start, end, members, names), end

    def _again(self, key: str, first: Value, second: Value, before: int, place: int) -> Value:
        """The value of a key that is there twice."""
        both = isinstance(first.content, tuple) and isinstance(second.content, tuple)
        if self.duplicates == "merge" and both:
            return Value(self.source, first.start, first.end, first.content + second.content)
        line = self.source.place(before, before).line
        remedy = _REMEDIES[self.duplicates]
        raise self.source.wrong(
            place, place + len(key) + 2, f"key {key!r} twice in one object: also in line {line}",
            remedy,
        )  # fmt: skip

    def _members(self, start: int, closing: str, member: Callable[[int], int]) -> int:
        """Read what is between brackets; the place behind them."""
        text, place = self.source.text, self.skip(start + 1)
        if text[place : place + 1] == closing:
            return place + 1
        while True:
            place = self.skip(member(place))
            match text[place : place + 1]:
                case ",":
                    place = self.skip(place + 1)
                    if text[place : place + 1] == closing:
                        raise self.source.wrong(place, place + 1, f"',' before {closing!r}")
                case mark if mark == closing:
                    return place + 1
                case "":
                    raise self.source.wrong(start, start + 1, f"{text[start]!r} is never closed")
                case _:
                    raise self.source.wrong(
                        place, place + 1, f"',' or {closing!r} is required here"
                    )


_REMEDIES: Mapping[Duplicates | None, str] = {
    None: "Rename or remove one of them.",
    "refuse": "Rename or remove one of them; --duplicates merge joins the arrays of both.",
    "merge": "--duplicates merge joins arrays only: rename or remove one of them.",
}
