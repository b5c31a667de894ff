"""What an author may have meant: the nearest of the names that exist. Imports nothing of ours."""

import difflib
from collections.abc import Iterable

# Below this ratio of difflib a suggestion confuses more than it helps.
LIKENESS = 0.6
# Nobody writes longer names by hand, and among more candidates one resembles any name.
MAX_LENGTH = 60
MAX_CANDIDATES = 1000


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, letter case aside; None if none is like it."""
    return next(iter(alike(name, candidates, most=1)), None)


def alike(name: str, candidates: Iterable[str], *, most: int) -> list[str]:
    """Up to `most` candidates that are like `name`, the nearest first."""
    if len(name) > MAX_LENGTH:
        return []
    # The ratio is twice the characters in common, divided by both lengths: no candidate of another
    # length reaches LIKENESS.
    shortest, longest = len(name) * LIKENESS / (2 - LIKENESS), len(name) * (2 - LIKENESS) / LIKENESS
    possible = {candidate for candidate in candidates if shortest <= len(candidate) <= longest}
    if len(possible) > MAX_CANDIDATES:
        return []
    by_folded = {candidate.casefold(): candidate for candidate in sorted(possible, reverse=True)}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=most, cutoff=LIKENESS)
    return [by_folded[folded] for folded in found]


def hint(name: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """`Did you mean X?`, or `otherwise`."""
    found = nearest(name, candidates)
    return f"Did you mean {found}?" if found else otherwise
