"""What pytest and re give, with the types that tests of whole values need."""

import re
from typing import Any

import pytest

# Equal to a number that is near enough, and so allowed wherever a number is: in a dataclass, too.
nearly: Any = pytest.approx


def found(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    """The first place where a pattern is in a text; it must be there."""
    match = re.search(pattern, text, flags)
    assert match is not None, f"{pattern} is not in {text[:200]!r}"
    return match
