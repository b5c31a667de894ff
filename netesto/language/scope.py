"""Variables and substitution: `$name` is replaced when a line runs, and its value is scanned again.

Spaces in the value of an unquoted variable separate words; quotes and `#` in it are literal.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from netesto.errors import ScriptError

# The arguments of the running macro; empty outside of macros.
Frame: TypeAlias = dict[str, str]
TextOf: TypeAlias = Callable[[Frame], str]
WordsOf: TypeAlias = Callable[[Frame], tuple[str, ...]]

# Represents a dollar written as `$$` while a text may be scanned again. It is a private-use
# character, which no script needs.
DOLLAR = "\ue000"

# A longer value comes from a doubling loop, not from a list of hosts; so does a line that refers
# indirectly to more variables, or has more words.
MAX_TEXT = 1_000_000
MAX_LOOKUPS = 100_000
MAX_WORDS = 100_000
MAX_DEPTH = 100
# This few texts are never too long together.
_FEW = 8

REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\w+))", re.ASCII)
_UNDEFINED = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_QUOTED = re.compile(r'(?<![^\s=,(:])"((?:\\.|[^"\\])*)"')
_ESCAPED = re.compile(r'\\(["\\])')
_BLANKS = re.compile(r"[ \t\r\n\f\v]+")
_NAME = re.compile(r"\w+", re.ASCII)
# A text that needs no quotes.
_BARE = re.compile(r"[\w$.,-]+", re.ASCII)


class MisuseError(ScriptError):
    """A command is used wrongly. `near` are fragments of its line to point at, best first."""

    def __init__(self, message: str, *, near: Sequence[str] = (), remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.near = tuple(near)


class ColumnError(MisuseError):
    """A named column does not exist, holds other values, or cannot be set by scripts."""


class NoExperimentError(MisuseError):
    """A command refers to an experiment, and none has begun."""

    def __init__(self, command: str) -> None:
        super().__init__(
            f"{command} before any experiment", remedy="Begin one with DO_SERVER or DO_CLIENT."
        )


class UndefinedError(MisuseError):
    """A command needs the value of the undefined variable `name`."""

    def __init__(self, name: str, *, near: Sequence[str] = ()) -> None:
        super().__init__(
            f"undefined variable ${name}",
            near=(*references(name), *near),
            remedy=f"Set it before: SET {name}=value; or pass it to the macro: {name}=value.",
        )
        self.name = name


@dataclass(frozen=True, slots=True)
class WordPart:
    """A part of a word: literal text, or the variable `name` and how it was written."""

    text: str
    name: str = ""
    quoted: bool = False


@lru_cache(maxsize=4096)
def parts(raw: str) -> tuple[WordPart, ...]:
    """The parts of a word as written: quotes removed, `$$` replaced by the placeholder of a
    dollar."""
    found: list[WordPart] = []
    position = 0
    for match in _QUOTED.finditer(raw):
        found += _references(raw[position : match.start()])
        found += _references(_ESCAPED.sub(r"\1", match[1]), quoted=True) or [
            WordPart("", quoted=True)
        ]
        position = match.end()
    found += _references(raw[position:])
    return tuple(found)


def unquoted(raw: str) -> str:
    """A word as written that has no variables, without its quotes."""
    return "".join(part.text for part in parts(raw))


def unwrapped(raw: str) -> str:
    """A word as written, without quotes around the whole of it: `"name=value"` is `name="value"`,
    and `"name"` is `name`."""
    match = _QUOTED.fullmatch(raw)
    if match is None:
        return raw
    name, equals, value = match[1].partition("=")
    if equals:
        return f'{name}="{value}"'
    return name if _BARE.fullmatch(name) else raw


def _references(text: str, *, quoted: bool = False) -> list[WordPart]:
    found: list[WordPart] = []
    position = 0
    for match in REFERENCE.finditer(text):
        if match.start() > position:
            found.append(WordPart(text[position : match.start()], quoted=quoted))
        if match[1]:
            found.append(WordPart(DOLLAR, quoted=quoted))
        else:
            found.append(WordPart(match[0], match[2] or match[3], quoted))
        position = match.end()
    if position < len(text):
        found.append(WordPart(text[position:], quoted=quoted))
    return found


def plain(text: str) -> str:
    """`text` as it leaves the language, with real dollars."""
    return text.replace(DOLLAR, "$") if DOLLAR in text else text


def undefined(text: str) -> str | None:
    """The first undefined variable that substitution left in `text`."""
    if "$" not in text:
        return None
    match = _UNDEFINED.search(text)
    return (match[1] or match[2]) if match else None


def is_undefined(text: str) -> bool:
    """Whether `text` is only an undefined variable."""
    return "$" in text and _UNDEFINED.fullmatch(text) is not None


def needed(text: str, *, near: Sequence[str] = ()) -> str:
    """`text` for a command that needs its value. UndefinedError if a variable in it has none."""
    name = undefined(text)
    if name is not None:
        raise UndefinedError(name, near=near)
    return plain(text)


def references(name: str) -> tuple[str, str]:
    """The forms in which a text may refer to a variable."""
    return f"${name}", f"${{{name}}}"


def refers(text: str, name: str) -> bool:
    """Whether `text` refers to the variable `name` directly."""
    return "$" in text and any(name in match.groups()[1:] for match in REFERENCE.finditer(text))


def check_name(name: str) -> str:
    """`name` if it is a valid name of a variable. MisuseError otherwise."""
    if _NAME.fullmatch(name) is None:
        needed(name)
        raise MisuseError(
            f"invalid variable name {name!r}" if name else "missing variable name",
            near=(name,),
            remedy="Use letters, digits and `_`.",
        )
    return name


def joined(texts: Iterable[str]) -> str:
    """The texts joined. MisuseError, before all are made, if the result would be longer than
    MAX_TEXT: a short line may name a long variable a thousand times."""
    found: list[str] = []
    length = 0
    for text in texts:
        length += len(text)
        _check_length(length)
        found.append(text)
    return "".join(found)


def _check_length(length: int) -> None:
    if length > MAX_TEXT:
        raise MisuseError(
            f"a text here would be longer than {MAX_TEXT:,} characters",
            remedy="Does a loop append to a variable, or a variable hold others that do?",
        )


class Scope:
    """The global variables, and the substitution of texts from them and a frame.

    `lookups` is how many variables were found in the values of others since it was set to 0.
    """

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.lookups = 0

    def set(self, name: str, value: str) -> None:
        """Set a global. MisuseError for a value longer than MAX_TEXT."""
        self.variables[name] = self.limited(name, value)

    @staticmethod
    def limited(name: str, value: str) -> str:
        """A value for a variable. MisuseError if it is longer than MAX_TEXT."""
        if len(value) > MAX_TEXT:
            raise MisuseError(
                f"the value of {name} would be longer than {MAX_TEXT:,} characters",
                near=(name,),
                remedy="Does a loop append to it endlessly?",
            )
        return value

    def value(self, name: str, frame: Frame, active: tuple[str, ...] = ()) -> str | None:
        """The value of a variable, filled in; None if it is undefined. `active` are the variables
        whose values are being filled in already."""
        text = frame.get(name)
        if text is None:
            text = self.variables.get(name)
            if text is None:
                return None
        return self.fill(text, frame, (*active, name)) if "$" in text else text

    def fill(self, text: str, frame: Frame, active: tuple[str, ...] = ()) -> str:
        """`text` with its variables replaced."""
        return joined(self._replaced(part, frame, active) for part in _references(text))

    def _replaced(self, part: WordPart, frame: Frame, active: tuple[str, ...]) -> str:
        name = part.name
        if not name:
            return part.text
        if name in active:
            round_trip = (*active[active.index(name) :], name)
            circle = " → ".join(f"${step}" for step in round_trip)
            raise MisuseError(
                f"variable ${name} refers to itself"
                + (f": {circle}" if len(round_trip) > 2 else ""),
                near=references(active[0]),
                remedy="A value is expanded when it is used, not when it is set: choose"
                " another name.",
            )
        self.lookups += 1
        if self.lookups > MAX_LOOKUPS or len(active) > MAX_DEPTH:
            first = active[0] if active else name
            most = MAX_DEPTH if len(active) > MAX_DEPTH else MAX_LOOKUPS
            raise MisuseError(
                f"${first} refers to more than {most:,} other variables",
                near=references(first),
                remedy="Does a loop put a variable into its own value, or into the next one's?",
            )
        value = self.value(name, frame, active)
        return part.text if value is None else value

    # ---- taken apart once, filled in each time a line runs ----------------------------------

    def text_of(self, raw: str) -> TextOf:
        """Substitutes in a word, which stays one word."""
        fillers = [self._part(part) for part in parts(raw)]
        if "$" not in raw:
            constant = unquoted(raw)
            return lambda _: constant
        if len(fillers) == 1:
            return fillers[0]
        if len(fillers) == 2:
            first, second = fillers
            return lambda frame: first(frame) + second(frame)
        if len(fillers) <= _FEW:
            return lambda frame: "".join([filler(frame) for filler in fillers])
        return lambda frame: joined(filler(frame) for filler in fillers)

    def words_of(self, raws: Sequence[str]) -> WordsOf:
        """Substitutes in words; spaces in unquoted variables separate words."""
        if not any("$" in raw for raw in raws):
            constant = tuple(unquoted(raw) for raw in raws)
            return lambda _: constant
        fillers = [(self.text_of(raw), parts(raw)) for raw in raws]

        def words(frame: Frame) -> tuple[str, ...]:
            filled: list[str] = []
            length = 0
            for text_of, pieces in fillers:
                word = text_of(frame)
                length += len(word)
                if word and " " not in word and "\t" not in word:
                    filled.append(word)
                else:
                    filled += self._split(pieces, frame)
                if length > MAX_TEXT or len(filled) > MAX_WORDS:
                    _check_length(length)
                    raise MisuseError(
                        f"this line would have more than {MAX_WORDS:,} words",
                        remedy='Quote a value that contains spaces: "$variable".',
                    )
            return tuple(filled)

        return words

    def _split(self, pieces: Sequence[WordPart], frame: Frame) -> list[str]:
        """The words that result from one written word."""
        words: list[str] = []
        current: str | None = None
        for piece in pieces:
            if not piece.name or piece.quoted:
                current = (current or "") + self._part(piece)(frame)
                continue
            first, *others = _BLANKS.split(self._part(piece)(frame))
            if first:
                current = (current or "") + first
            for other in others:
                if current is not None:
                    words.append(current)
                current = other or None
        return words if current is None else [*words, current]

    def _part(self, part: WordPart) -> TextOf:
        name, written = part.name, part.text
        if not name:
            return lambda _: written
        variables, fill = self.variables, self.fill

        def value(frame: Frame) -> str:
            text = frame.get(name)
            if text is None:
                text = variables.get(name)
                if text is None:
                    return written
            return fill(text, frame, (name,)) if "$" in text else text

        return value
