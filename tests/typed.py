"""What pytest and re give, with the types that tests of whole values need."""

import re
from collections.abc import Callable
from typing import Any

import pytest

# Equal to a number that is near enough, and so allowed wherever a number is: in a dataclass, too.
nearly: Any = pytest.approx


def returned(call: Callable[..., object], *arguments: object) -> object:
    """What a call returns: None where the fact is that it returns at all, and raises nothing."""
    return call(*arguments)


def found(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    """The first place where a pattern is in a text; it must be there."""
    match = re.search(pattern, text, flags)
    assert match is not None, f"{pattern} is not in {text[:200]!r}"
    return match
