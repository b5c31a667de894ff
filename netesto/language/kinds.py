"""The kinds of values that commands take: what each is called, and how its text is read."""

import re
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from netesto import units
from netesto.language.values import looks_like_range

Value: TypeAlias = int | float | str | bool | tuple[str, ...] | tuple[tuple[int, ...], ...]

_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
_AMOUNT = re.compile(r"[^\s,=\"]+")
STREAM_REQUESTS = frozenset({"S", "s", "STREAM", "stream"})
_YES = frozenset({"1", "t", "true"})
_NO = frozenset({"0", "f", "false"})


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


class Kind(Enum):
    """A kind of value in words, and examples. `read` gives the value of a text; ValueError if it is
    another kind."""

    TEXT = ("a text", "", str)
    HOST = ("a host name", "letters, digits, `.`, `-` and `_`, or an address", _host)
    EXPERIMENT = (
        "the number of an experiment",
        "a number from 1, COUNTER, or PREV",
        _experiment,
    )
    INTEGER = ("a whole number", "10", _integer)
    PERCENT = ("a percentage", "1 or 0.01", lambda text: _number(text.removesuffix("%")))
    SIZE = ("a size", "1000, 64K, 1M or 4Ki", units.parse_size)
    REQUEST = ("a size", "10K or 1M; S makes the flow a stream", _request)
    TIME = ("a time", "20, 1.5, 200ms or 2m", units.parse_time)
    MILLISECONDS = ("a delay in milliseconds", "10, 0.5 or 200us", units.parse_milliseconds)
    RATE = ("a rate", "100mbit or 1gbit", units.parse_rate)
    FLAG = ("0 or 1", "", flag)
    WORD = ("one word", "bbr, 20000 or 1.5K, without commas, quotes or =", _word)
    WORDS = ("a list of words", "a,b,c", lambda text: tuple(text.replace(",", " ").split()))
    PROCESSORS = (
        "a set of processors, or two",
        "0, 8-15 or 2+4; client,server: 0,1 or 0-3,4-7",
        _processors,
    )
    CORES = (
        "a set of processors, or two",
        "8-15 or 2+4 at both ends; client,server: 0-3,4-7",
        _cores,
    )

    def __init__(self, noun: str, examples: str, read: Callable[[str], Value]) -> None:
        self.noun = noun
        self.examples = examples
        self.read = read
