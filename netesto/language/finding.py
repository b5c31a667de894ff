"""Errors and warnings in a script, with their places."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from netesto.errors import Place, ScriptError, repeated
from netesto.language.scope import MisuseError

if TYPE_CHECKING:
    from netesto.language import ast

# More findings are useless: they have one cause, or the file is not a script.
MAX_FINDINGS = 1000

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning. Prints like an error of a run. `line` is the author's line, as
    `file:line`, if its place is in a macro of a library."""

    message: str
    place: Place
    severity: Severity = "error"
    remedy: str = ""
    chain: tuple[str, ...] = field(default=(), compare=False)
    line: str = ""

    def __str__(self) -> str:
        message = f"{self.severity}: {self.message}"
        error = ScriptError(message, place=self.place, remedy=self.remedy, chain=self.chain)
        return str(error)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, equal warnings as one: at the place of the first, with their number."""
    alike: dict[Hashable, list[Finding]] = {}
    for each in findings:
        key = each if each.severity == "error" else (each.message, each.remedy)
        alike.setdefault(key, []).append(each)
    return [
        replace(several[0], message=repeated(several[0].message, [*map(_line_of, several)]))
        for several in alike.values()
    ]


def _line_of(finding: Finding) -> str:
    return finding.line or f"{finding.place.file}:{finding.place.line}"


class EnoughError(Exception):
    """There are MAX_FINDINGS."""


class Findings:
    """The findings in the script `main` and its files, each once."""

    def __init__(self, main: str) -> None:
        self._main = main
        self._findings: dict[Finding, None] = {}

    def __iter__(self) -> Iterator[Finding]:
        """In the order of their places; those in the script before those in its libraries."""

        def order(found: Finding) -> tuple[bool, str, int, int]:
            place = found.place
            return place.file != self._main, place.file, place.line, place.column

        return iter(sorted(self._findings, key=order))

    def add(self, finding: Finding) -> None:
        """Add one. EnoughError if there are too many."""
        if len(self._findings) >= MAX_FINDINGS and finding not in self._findings:
            raise EnoughError
        self._findings[finding] = None

    def report(
        self, message: str, place: Place, severity: Severity = "error", remedy: str = ""
    ) -> None:
        """Add a finding without a chain."""
        self.add(Finding(message, place, severity, remedy))

    def report_error(self, error: ScriptError, row: "ast.LineLayout | None" = None) -> None:
        """Add an error; one without a place is about `row`, or about the whole script."""
        near = error.near if isinstance(error, MisuseError) else ()
        place = error.place or (row.place(*near) if row is not None else Place(self._main, 1))
        self.add(Finding(error.message, place, "error", error.remedy, error.chain))

    def replace(self, place: Place, error: ScriptError) -> None:
        """Replace the findings at `place` by an error."""
        for each in [each for each in self._findings if each.place == place]:
            del self._findings[each]
        self.report_error(error)

    def end(self) -> None:
        """Report that there are more than MAX_FINDINGS."""
        said = f"more than {MAX_FINDINGS:,} findings; the rest is not shown"
        last = list(self)[-1]
        self._findings[Finding(said, last.place)] = None
