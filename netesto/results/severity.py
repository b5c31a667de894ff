"""How much a warning about an experiment matters.

A warning is a text. Where it is made it says how severe it is, if that is not the default; the text
then carries it: into the manifest, the rows of exp.csv, and what is computed from these.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum


class Severity(StrEnum):
    """`invalidates`: what was measured is not what was requested, or contradicts itself. Such rows
    are in no mean unless asked for. `affects`: some values are less exact than usual, or mean
    something else. `note`: nothing is known to be wrong. The first is the worst."""

    INVALIDATES = "invalidates"
    AFFECTS = "affects"
    NOTE = "note"


class _Graded(str):
    """A warning with another severity than the usual one."""

    __slots__ = ("severity",)
    severity: Severity


_GROUP = re.compile(r"group (\d+)\b")


def graded(text: str, severity: Severity) -> str:
    """A warning with this severity."""
    found = _Graded(text)
    found.severity = severity
    return found


def invalidates(text: str) -> str:
    return graded(text, Severity.INVALIDATES)


def note(text: str) -> str:
    return graded(text, Severity.NOTE)


def severity(text: str) -> Severity:
    """That of a warning."""
    return text.severity if isinstance(text, _Graded) else Severity.AFFECTS


def matters(value: str | None) -> bool:
    """Whether a row of exp.csv with this severity (None or "": no warning) has a warning that is
    more than a note."""
    return value not in {None, "", Severity.NOTE}


def about(subject: str, text: str) -> str:
    """The warning with its subject before it."""
    return graded(f"{subject}: {text}", severity(text))


def ranked(warnings: Iterable[str]) -> list[str]:
    """Each warning once, the worst first."""
    return sorted(dict.fromkeys(warnings), key=lambda text: [*Severity].index(severity(text)))


def of_group(warnings: Iterable[str], group: int) -> tuple[str, ...]:
    """The warnings about a group, and those about no group."""

    def concerns(text: str) -> bool:
        named = _GROUP.match(text)
        return named is None or int(named[1]) == group

    return tuple(text for text in warnings if concerns(text))


def unusual(warnings: Sequence[str]) -> dict[str, str]:
    """The severities that a file keeps beside the texts: those that are not the usual one."""
    return {
        str(text): severity(text).value
        for text in warnings
        if severity(text) is not Severity.AFFECTS
    }


def restored(warnings: Sequence[str], severities: object) -> tuple[str, ...]:
    """The warnings of a file with the severities kept there; unknown ones are the usual one."""
    known = severities if isinstance(severities, Mapping) else {}
    values = {each.value for each in Severity}
    return tuple(
        graded(text, Severity(known[text])) if known.get(text) in values else text
        for text in warnings
    )
