"""The values of options: text to what it means, or argparse's error with what is wrong."""

import argparse
import math
import re
from collections.abc import Callable
from typing import TypeVar

from netesto import units

_T = TypeVar("_T")


def _within(least: int, most: float, what: str) -> Callable[[str], int]:
    """The type of a whole number in decimal digits."""

    def checked(text: str) -> int:
        digits = text if text.isascii() and text.isdecimal() and len(text) < 20 else "-1"
        if not least <= int(digits) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return int(digits)

    return checked


count = _within(1, math.inf, "1, 2, 3, …")
skip = _within(0, 10**6, "0, 1, 2, …")
port = _within(1, 65535, "a port")


def seconds(text: str) -> float:
    number = _finite(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds; example: 600")
    return number


def percent(text: str) -> float:
    """ "5%" and "5" are 5.0."""
    number = _finite(text.strip().removesuffix("%"))
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share in percent; example: 5%")
    return number


def _finite(text: str) -> float:
    """The number; nan for an infinite one and for another text."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def names(text: str) -> dict[str, str]:
    """ "off=none,loss=0.1 ca=x=y" is {"off": "none", "loss=0.1 ca=x": "y"}: names of cases contain
    equals signs."""
    pairs = [each.rpartition("=") for each in text.split(",")]
    if not all(old and new for old, _, new in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not CASE=NAME,...; example: off=none")
    return {old.strip(): new.strip() for old, _, new in pairs}


def memory(text: str) -> int:
    """MiB. With less memory the kernel cannot run netesto."""
    try:
        size = units.parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; example: 4Gi") from None
    if not 256 <= size // 2**20 < 2**20:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 256Mi to 1024Gi")
    return size // 2**20


def wait(text: str) -> float:
    try:
        return math.inf if text == "inf" else units.parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; example: --wait=5m") from None


def budget(text: str) -> float:
    """Seconds, which are given in hours, too."""
    hours = text.removesuffix("h")
    try:
        found = units.parse_time(text if hours == text else f"{60 * float(hours):f}m")
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; example: 2h") from None
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; example: 2h")
    return found


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def nonempty(kind: Callable[[str], _T]) -> Callable[[str], _T]:
    """The type of a text that has another type, and is not empty."""

    def checked(text: str) -> _T:
        if not text:
            raise argparse.ArgumentTypeError("it is empty, as an unset variable would be")
        return kind(text)

    return checked


def text(form: str, what: str) -> Callable[[str], str]:
    """The type of a text of a form; `what` it is, in a message."""

    def checked(text: str) -> str:
        if re.fullmatch(form, text) is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return text

    return checked
