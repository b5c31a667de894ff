"""What pytest and re give, with the types that tests of whole values need."""

import re
from collections.abc import Callable
from typing import Any

import pytest

# Equal to a number that is near enough, and so allowed wherever a number is: in a dataclass, too.
nearly: Any = pytest.approx


def returned(call: Callable[..., object], *arguments: object) -> object:
    """Return the result of a call; None if the fact is that it raises nothing."""
    return call(*arguments)


def found(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    """The first match of a pattern in a text; there must be one."""
    match = re.search(pattern, text, flags)
    assert match is not None, f"{pattern} is not in {text[:200]!r}"
    return match
