"""The values of options: text to what it means, or argparse's error with what is wrong."""

import argparse
import math
import re
from collections.abc import Callable

from netesto import units


def count(text: str) -> int:
    """A count, at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1, 2, 3, …")
    return int(text)


def skip(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not 0, 1, 2, …")
    return int(text)


def seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds; example: 600")
    return seconds


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


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def percent(text: str) -> float:
    """ "5%" and "5" are 5.0."""
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share in percent; example: 5%")
    return number


def text(form: str, what: str) -> Callable[[str], str]:
    """The type of a text of a form; `what` it is, in a message."""

    def checked(text: str) -> str:
        if re.fullmatch(form, text) is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return text

    return checked


def port(text: str) -> int:
    if not (text.isdecimal() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text} is not a port")
    return int(text)
