"""Finds all errors in scripts, not only the first, without running them.

Errors in the text are found by reading every line, also of macros that are never run. Errors that
depend on the values of variables are found by planning, which continues after each error.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TypeAlias

from netesto.errors import NetestoError, Place, ScriptError, written_line
from netesto.language import ast, steps
from netesto.language.draft import Draft
from netesto.language.finding import EnoughError, Finding, Findings
from netesto.language.interpreter import Interpreter, read_script
from netesto.language.misuse import misuses, sweep_misuses
from netesto.language.plan import STANDARD_INPUT, Head, Warned
from netesto.language.reading import SourceReading
from netesto.language.scope import ColumnError, MisuseError, NoExperimentError, UndefinedError
from netesto.language.steps import spellings
from netesto.language.survey import Survey
from netesto.language.usage import Usage
from netesto.language.values import values_of
from netesto.language.walk import NoMacroError
from netesto.model import MAX_ITERATIONS
from netesto.text.nearest import hint

# A line with values that only a run computes.
_COMPUTED = re.compile(r"\$|\bSET_EXP\b")

LabHosts: TypeAlias = Callable[[steps.LabRequest], Collection[str]]
LabWarnings: TypeAlias = Callable[
    [steps.LabRequest, Sequence[steps.RemoteCommand]], Sequence[Warned]
]
Unmet: TypeAlias = Callable[[steps.Requirement, steps.LabRequest | None], Iterable[str]]
KnownColumns: TypeAlias = Callable[[Path | None], steps.ColumnKnowledge | None]


def check(
    paths: Sequence[Path],
    *,
    library_path: Sequence[Path],
    definitions: Mapping[str, str],
    hosts: Collection[str] | None = None,
    lab_hosts: LabHosts | None = None,
    lab_text: Callable[[steps.LabRequest], str] = lambda request: request.text,
    lab_warnings: LabWarnings = lambda _, __: (),
    unmet: Unmet = lambda _, __: (),
    known: KnownColumns = lambda _: None,
    refuse: Callable[[steps.RemoteCommand], None] = lambda _: None,
    max_iterations: int = MAX_ITERATIONS,
    read: Callable[[Path], str] = read_script,
) -> list[Finding]:
    """All findings in each script, then in what it SOURCEs, in the order of their places.

    `hosts` are the names of an inventory: hosts of commands must be among them.
    `lab_hosts` returns the hosts of a LAB; without an inventory, commands must name those.
    `lab_text` reads the topology file of a LAB.
    `lab_warnings` returns warnings of commands without an effect in such a LAB.
    `unmet` returns why no run with the hosts of an inventory, or of a LAB, can meet a REQUIRE.
    `known` returns the columns of a script's experiments (None: standard input).
    `refuse` raises a ScriptError for a command that no host can execute.
    `read` gives the text of a script; the path `-` is called standard input in findings.
    """
    findings: dict[Finding, None] = {}
    for path in paths:
        main = STANDARD_INPUT if path == Path("-") else str(path)
        found = Findings(main)
        try:
            checker = _Checker(
                main,
                found,
                library_path=library_path,
                definitions=definitions,
                max_iterations=max_iterations,
                lab_text=lab_text,
            )
            head = checker.check(read(path), known(None if path == Path("-") else path))
            checker.check_hosts(head, hosts, lab_hosts, lab_warnings, unmet)
            checker.check_commands(head, refuse)
        except EnoughError:
            found.end()
        except OSError as error:
            found.report(f"cannot be read: {error.strerror or error}", Place(str(path), 1))
        except ScriptError as error:
            found.report(error.message, error.place or Place(str(path), 1), remedy=error.remedy)
        findings |= dict.fromkeys(found)
    return list(findings)


@dataclass(frozen=True, slots=True)
class _Checker:
    """The check of one script, `main`."""

    main: str
    findings: Findings
    _: KW_ONLY
    library_path: Sequence[Path]
    definitions: Mapping[str, str]
    max_iterations: int
    lab_text: Callable[[steps.LabRequest], str]

    def check(self, text: str, known: steps.ColumnKnowledge | None) -> Head:
        """Add the findings in a script; return its plan, as far as it is known."""
        errors: list[ScriptError] = []
        interpreter = Interpreter(
            Draft(seed=0, columns=known, keep=False, lab_text=self.lab_text),
            library_path=self.library_path,
            definitions=self.definitions,
            max_iterations=self.max_iterations,
            forgive=errors.append,
        )
        try:
            interpreter.run_text(text, self.main)
        except ScriptError as error:
            errors.append(error)
        head = interpreter.plan().head
        reading = SourceReading(
            self.main,
            self.findings,
            library_path=self.library_path,
            definitions=self.definitions,
            ran=interpreter.macros,
        )
        # Only the run knew the file of `SOURCE $library`.
        reading.read(text, [Path(each.path) for each in head.sources[1:] if each.is_script])
        for found in reading.surveys():
            self._check_lines(found)
        Usage(self.main, reading, self.findings, self.definitions).check()
        self._add_errors(errors, may_lack_macros=reading.lacks_source)
        self._add_warnings(head.warnings)
        return head

    def check_hosts(
        self,
        head: Head,
        hosts: Collection[str] | None,
        lab_hosts: LabHosts | None,
        lab_warnings: LabWarnings,
        unmet: Unmet,
    ) -> None:
        """Add the findings about the hosts of a plan."""
        known = set(hosts) if hosts is not None else None
        if head.lab is not None and lab_hosts is not None:
            known = self._check_lab(head.lab, known, lab_hosts)
            if hosts is None and known is not None:
                self._add_warnings(lab_warnings(head.lab, head.commands))
        for requirement in head.requirements if known is not None else ():
            for text in unmet(requirement, head.lab):
                self.findings.report(text, requirement.place)
        told: set[tuple[str, tuple[str, ...]]] = set()
        for command in head.commands:
            if known is not None:
                self._check_names(command, known, told)

    def check_commands(self, head: Head, refuse: Callable[[steps.RemoteCommand], None]) -> None:
        """Add the commands of a plan that no host can execute."""
        for command in head.commands:
            try:
                refuse(command)
            except ScriptError as error:
                self.findings.report_error(error)

    # ---- lines ---------------------------------------------------------------------------

    def _check_lines(self, found: Survey) -> None:
        for row in found.commands:
            for error in misuses(row):
                self.findings.report_error(error, row)
        for loop in found.loops:
            if isinstance(loop, ast.For):
                self._check_for(loop)
            else:
                for error in sweep_misuses(loop):
                    self.findings.report_error(error, loop.row)
        for row in found.dead:
            self.findings.report(
                "unreachable: END stops the script before this line", row.place(), "warning"
            )

    def _check_for(self, loop: ast.For) -> None:
        if "$" in loop.values.text:
            return
        try:
            values = values_of(loop.values.text, near=loop.values.text)
        except MisuseError as error:
            self.findings.report_error(error, loop.row)
            return
        if len(values) > self.max_iterations:
            self.findings.report(
                f"{len(values):,} iterations: a script may make {self.max_iterations:,}",
                loop.row.place(loop.values.text),
            )

    # ---- findings of planning --------------------------------------------------------------

    def _add_errors(self, errors: Iterable[ScriptError], *, may_lack_macros: bool) -> None:
        """Add the errors of planning that are not consequences of findings."""
        wrong = {
            (each.place.file, each.place.line) for each in self.findings if each.severity == "error"
        }
        for error in errors:
            place = error.place or Place(self.main, 1)
            if (place.file, place.line) in wrong or (
                wrong and _may_follow(error, place, may_lack_macros)
            ):
                continue
            self.findings.replace(place, error)
            wrong.add((place.file, place.line))

    def _add_warnings(self, warnings: Iterable[Warned]) -> None:
        told = {each.place for each in self.findings}
        for warned in warnings:
            if warned.place not in told:
                message, place, chain = warned.message, warned.place, warned.chain
                line = written_line(place, chain)
                self.findings.add(Finding(message, place, "warning", chain=chain, line=line))

    def _check_lab(
        self, request: steps.LabRequest, known: set[str] | None, lab_hosts: LabHosts
    ) -> set[str] | None:
        try:
            made = set(lab_hosts(request))
        except NetestoError as error:
            self.findings.report_error(request.refused(error.message, error.remedy))
            return known
        return made if known is None else known

    def _check_names(
        self,
        command: steps.RemoteCommand,
        known: set[str],
        told: set[tuple[str, tuple[str, ...]]],
    ) -> None:
        """Each unknown host, once for everything that one line of the script runs (`told`)."""
        for name in command.hosts:
            if command.chain and (name, command.chain[:1]) in told:
                continue
            if known.isdisjoint(spellings(name, [command.suffix])):
                told.add((name, command.chain[:1]))
                remedy = hint(name, known, otherwise=f"Choose one of: {', '.join(sorted(known))}.")
                place = command.place_of_host(name)
                finding = Finding(f"unknown host {name}", place, "error", remedy, command.chain)
                self.findings.add(finding)


def _may_follow(error: ScriptError, place: Place, may_lack_macros: bool) -> bool:
    """Whether an error may be a consequence of another one; an invalid value is not."""
    match error:
        case UndefinedError() | NoExperimentError():
            return True
        case NoMacroError():
            return may_lack_macros
        case ColumnError():
            return False
        case _:
            return _COMPUTED.search(place.text) is None


__all__ = ["Finding", "check"]
