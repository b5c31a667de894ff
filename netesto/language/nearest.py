"""What an author may have meant: the nearest of the names that exist."""

import difflib
from collections.abc import Iterable

# Below this likeness (difflib's ratio) a suggestion confuses more than it helps.
LIKENESS = 0.6
# Nobody writes longer names by hand, and among more of them one is like any.
MAX_LENGTH = 60
MAX_CANDIDATES = 1000


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, letter case aside; None if none is like it."""
    if len(name) > MAX_LENGTH:
        return None
    # Of other lengths none can be as like it: the ratio is twice what they share by both lengths.
    least, most = len(name) * LIKENESS / (2 - LIKENESS), len(name) * (2 - LIKENESS) / LIKENESS
    alike = {candidate for candidate in candidates if least <= len(candidate) <= most}
    if len(alike) > MAX_CANDIDATES:
        return None
    by_folded = {candidate.casefold(): candidate for candidate in sorted(alike, reverse=True)}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=LIKENESS)
    return by_folded[found[0]] if found else None


def hint(name: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """`Did you mean X?`, or `otherwise`."""
    found = nearest(name, candidates)
    return f"Did you mean {found}?" if found else otherwise
