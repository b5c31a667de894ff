"""The kinds of values that commands take, and their arguments: what each is called, how its text is
read, and which values it may have."""

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any, TypeAlias

from netesto import units

Value: TypeAlias = int | float | str | bool | tuple[str, ...] | tuple[tuple[int, ...], ...]

_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
_AMOUNT = re.compile(r"[^\s,=\"]+")
STREAM_REQUESTS = frozenset({"S", "s", "STREAM", "stream"})
_YES = frozenset({"1", "t", "true"})
_NO = frozenset({"0", "f", "false"})
# `..` as a part of a path: ../a, a/../b.
PARENT = re.compile(r"(?:^|(?<=/))\.\.(?=/)|(?<=/)\.\.$")


def looks_like_range(text: str) -> bool:
    """Whether two dots in `text` are those of a range, not of a path."""
    return ".." in text and ".." in PARENT.sub("", text)


def _integer(text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if re.fullmatch(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", text) is None:
        raise ValueError(text)
    return float(text)


def flag(text: str) -> bool:
    """The value of 1, T, TRUE or 0, F, FALSE in any letter case. ValueError for anything else."""
    folded = text.casefold()
    if folded not in _YES | _NO:
        raise ValueError(text)
    return folded in _YES


def _host(text: str) -> str:
    if _HOST.fullmatch(text) is None or looks_like_range(text):
        raise ValueError(text)
    return text


def _word(text: str) -> str:
    if text and (_AMOUNT.fullmatch(text) is None or looks_like_range(text)):
        raise ValueError(text)
    return text


def _request(text: str) -> int | str:
    return "S" if text in STREAM_REQUESTS else units.parse_size(text)


def _experiment(text: str) -> int | str:
    if text in {"COUNTER", "counter"}:
        return "COUNTER"
    return "PREV" if text in {"PREV", "prev"} else _positive(text)


def _positive(text: str) -> int:
    value = _integer(text)
    if value < 1:
        raise ValueError(text)
    return value


def _processors(text: str) -> tuple[tuple[int, ...], ...]:
    client, _, server = text.partition(",")
    if not text.strip(","):
        raise ValueError(text)
    return units.parse_processors(client), units.parse_processors(server)


def _cores(text: str) -> tuple[tuple[int, ...], ...]:
    return _processors(text if "," in text else f"{text},{text}")


def _raw(value: object) -> object:
    return value


class Kind(Enum):
    """A kind of value in words, and examples. `read` gives the value of a text; ValueError if it is
    another kind. `type` is that of a field which has such a value, and `show` what a page puts into
    a sentence."""

    TEXT = ("a text", "", str)
    HOST = ("a host name", "letters, digits, `.`, `-` and `_`, or an address", _host)
    EXPERIMENT = (
        "the number of an experiment",
        "a number from 1, COUNTER, or PREV",
        _experiment,
    )
    INTEGER = ("a whole number", "10", _integer, int)
    PERCENT = ("a percentage", "1 or 0.01", lambda text: _number(text.removesuffix("%")), float)
    SIZE = ("a size", "1000, 64K, 1M or 4Ki", units.parse_size, int, units.format_size)
    REQUEST = (
        "a size",
        "10K or 1M; S makes the flow a stream",
        _request,
        int,
        units.format_size,
    )
    TIME = ("a time", "20, 1.5, 200ms or 2m", units.parse_time, float, units.format_time)
    MILLISECONDS = ("a delay in milliseconds", "10, 0.5 or 200us", units.parse_milliseconds)
    RATE = ("a rate", "100mbit or 1gbit", units.parse_rate, float, units.format_rate)
    FLAG = ("0 or 1", "", flag, bool)
    WORD = ("one word", "bbr, 20000 or 1.5K, without commas, quotes or =", _word)
    WORDS = ("a list of words", "a,b,c", lambda text: tuple(text.replace(",", " ").split()))
    PROCESSORS = (
        "a set of processors, or two",
        "0, 8-15 or 2+4; client,server: 0,1 or 0-3,4-7",
        _processors,
        tuple,
        units.format_processors,
    )
    CORES = (
        "a set of processors, or two",
        "8-15 or 2+4 at both ends; client,server: 0-3,4-7",
        _cores,
        tuple,
        units.format_processors,
    )

    def __init__(
        self,
        noun: str,
        examples: str,
        read: Callable[[str], Value],
        type_: type = str,
        show: Callable[[Any], object] = _raw,
    ) -> None:
        self.noun = noun
        self.examples = examples
        self.read = read
        self.type = type_
        self.show = show

    def load(self, value: object) -> Any:
        """What JSON has for a field with such a value. ValueError if it is another type."""
        if self.type is tuple and isinstance(value, list):
            if all(type(each) is int and 0 <= each < units.MAX_PROCESSORS for each in value):
                return tuple(value)
        elif self.type is float and type(value) is int and abs(value) < 2**53:
            return float(value)
        elif type(value) is self.type:
            return value
        raise ValueError(f"not {self.noun}")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command. `low` and `high` are inclusive; with a `default` of None it is
    omitted. `sentence` explains it in the manual."""

    name: str
    kind: Kind
    sentence: str = ""
    _: KW_ONLY
    default: str | None = None
    required: bool = False
    low: float | None = None
    high: float | None = None
    choices: Sequence[str] = ()
    alias: str = ""

    def fault(self, value: object) -> str:
        """Why the argument cannot have a value of its kind: "" if it can, "is unknown" among its
        choices, else "is out of range"."""
        if self.choices and value not in self.choices:
            return "is unknown"
        if isinstance(value, int | float):
            is_low = self.low is not None and not value >= self.low
            is_high = self.high is not None and not value <= self.high
            return "is out of range" if is_low or is_high else ""
        return ""

    @property
    def span(self) -> str:
        """The range of its values: "at least 1 and at most 128"; "" if it has none."""
        above = "" if self.low is None else f"at least {self.low:,.10g}"
        below = "" if self.high is None else f"at most {self.high:,.10g}"
        return " and ".join(bound for bound in (above, below) if bound)
