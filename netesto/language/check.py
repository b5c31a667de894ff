"""Finds all that is wrong in scripts without running them, not only the first thing.

What the text shows is found by reading every line, also of macros that nobody runs. What depends on
the values of variables is found by a dry run that goes on behind each mistake.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from netesto.errors import NetestoError, Place, ScriptError, UsageError
from netesto.language import ast, ports
from netesto.language.dryrun import Columns, DryRun
from netesto.language.finding import Finding, Severity
from netesto.language.interpreter import (
    MAX_ITERATIONS,
    STANDARD_INPUT,
    Interpreter,
    NoScriptError,
    NoSourceError,
    find_source,
    read_script,
    read_sourced,
)
from netesto.language.macros import Macros
from netesto.language.misuse import misuses, sweep_misuses
from netesto.language.parser import parse
from netesto.language.plan import Warned
from netesto.language.remote import spellings
from netesto.language.scope import (
    DOLLAR,
    ColumnError,
    MisuseError,
    UndefinedError,
    parts,
    references,
)
from netesto.language.survey import Call, Definition, Survey, Use, survey
from netesto.language.values import values_of
from netesto.language.walk import MAX_DEPTH, NoMacroError
from netesto.nearest import hint, nearest

# Who reads more of them? What makes so many is most often one mistake, or no script at all.
MAX_FINDINGS = 1000
# Names of variables with variables in them: of so many, one may be any.
MAX_COMPUTED = 200

# What is in a line with values that only a run computes.
_COMPUTED = re.compile(r"\$|\bSET_EXP\b")

LabHosts: TypeAlias = Callable[[ports.LabRequest], Collection[str]]
LabWarnings: TypeAlias = Callable[
    [ports.LabRequest, Sequence[ports.RemoteCommand]], Sequence[Warned]
]
KnownColumns: TypeAlias = Callable[[Path | None], Columns | None]


def check(
    paths: Sequence[Path],
    *,
    library_path: Sequence[Path],
    definitions: Mapping[str, str],
    hosts: Collection[str] | None = None,
    lab_hosts: LabHosts | None = None,
    lab_warnings: LabWarnings = lambda _, __: (),
    known: KnownColumns = lambda _: None,
    refuse: Callable[[ports.RemoteCommand], None] = lambda _: None,
    max_iterations: int = MAX_ITERATIONS,
    read: Callable[[Path], str] = read_script,
) -> list[Finding]:
    """All findings in scripts and what they SOURCE, in the order of their places.

    `hosts` are the names of an inventory: hosts of commands, and of LAB, must be among them.
    `lab_hosts` tells the hosts that a LAB makes; without an inventory, commands must name those.
    `lab_warnings` tells what commands will not do in such a LAB.
    `known` tells the columns that experiments of a script have (None: standard input).
    `refuse` raises a ScriptError for a command that could not be carried out anywhere.
    `read` gives the text of a script; the path `-` is called standard input in findings.
    """
    findings: dict[Finding, None] = {}
    for path in paths:
        columns = known(None if path == Path("-") else path)
        checker = _Checker(library_path, definitions, max_iterations, columns)
        try:
            checker.check(
                path,
                read(path),
                hosts=hosts,
                lab_hosts=lab_hosts,
                lab_warnings=lab_warnings,
                refuse=refuse,
            )
        except OSError as error:
            place = Place(str(path), 1)
            findings[Finding(f"cannot be read: {error.strerror or error}", place)] = None
        except ScriptError as error:
            place = error.place or Place(str(path), 1)
            findings[Finding(error.message, place, remedy=error.remedy)] = None
        findings |= dict.fromkeys(checker.sorted())
    return list(findings)


class _EnoughError(Exception):
    """There are MAX_FINDINGS."""


class _Checker:
    """The check of one script."""

    def __init__(
        self,
        library_path: Sequence[Path],
        definitions: Mapping[str, str],
        max_iterations: int,
        known: Columns | None,
    ) -> None:
        self._library_path = library_path
        self._definitions = definitions
        self._max_iterations = max_iterations
        self._known = known
        self._findings: dict[Finding, None] = {}
        self._macros = Macros(self._is_set)
        self._top: list[Survey] = []
        self._main = ""
        self._assigned: set[str] = set(definitions)
        # Names that only the run knows, as written, and what they may be.
        self._computed: dict[str, tuple[str, ...]] = {}
        self._loaded: set[Path] = set()
        # Macros that the dry run ran: `RUN $macro` tells nobody else which. And those of files that
        # are sourced, until something is found to run them.
        self._ran: frozenset[str] = frozenset()
        self._waiting: list[tuple[Definition, tuple[Path, ...]]] = []
        # A file may be missing, and with it what it would have defined; or another be read for it.
        self._lacks_source = False
        self._reads_another = False

    def sorted(self) -> list[Finding]:
        """What was found, in the order of places."""
        return sorted(
            self._findings, key=lambda each: (each.place.file, each.place.line, each.place.column)
        )

    def check(
        self,
        path: Path,
        text: str,
        *,
        hosts: Collection[str] | None,
        lab_hosts: LabHosts | None,
        lab_warnings: LabWarnings,
        refuse: Callable[[ports.RemoteCommand], None],
    ) -> None:
        """Find what is wrong in a script and what it needs."""
        self._main = STANDARD_INPUT if path == Path("-") else str(path)
        try:
            self._find_all(
                path,
                text,
                hosts=hosts,
                lab_hosts=lab_hosts,
                lab_warnings=lab_warnings,
                refuse=refuse,
            )
        except _EnoughError:
            place = self.sorted()[-1].place
            said = f"more than {MAX_FINDINGS:,} things are wrong; the others are not told"
            self._findings[Finding(said, place)] = None

    def _find_all(
        self,
        path: Path,
        text: str,
        *,
        hosts: Collection[str] | None,
        lab_hosts: LabHosts | None,
        lab_warnings: LabWarnings,
        refuse: Callable[[ports.RemoteCommand], None],
    ) -> None:
        port, errors, files = self._dry_run(path, text)
        self._load(self._main, text, ())
        # What `SOURCE $library` meant, only the run knew.
        for file in files:
            self._load_file(file, ())
        self._follow_macros()
        for found in self._surveys():
            self._check_lines(found)
        self._check_uses()
        self._add_errors(errors)
        self._add_warnings(port.warnings)
        known = set(hosts) if hosts is not None else None
        if port.lab_request is not None and lab_hosts is not None:
            known = self._check_lab(port.lab_request, known, lab_hosts)
            if hosts is None and known is not None:
                self._add_warnings(lab_warnings(port.lab_request, port.commands))
        if known is not None:
            for command in port.commands:
                self._check_hosts(command, known)
        for command in port.commands:
            try:
                refuse(command)
            except ScriptError as error:
                self._report_error(error)

    def _surveys(self) -> list[Survey]:
        reached = self._reached()
        macros = [each for each in self._macros.definitions() if self._concerns(each, reached)]
        return [*self._top, *(each.inside for each in macros)]

    def _report(
        self, message: str, place: Place, severity: Severity = "error", remedy: str = ""
    ) -> None:
        self._add(Finding(message, place, severity, remedy))

    def _report_error(self, error: ScriptError, row: ast.Row | None = None) -> None:
        near = error.near if isinstance(error, MisuseError) else ()
        place = error.place or (row.place(*near) if row is not None else Place(self._main, 1))
        self._add(Finding(error.message, place, "error", error.remedy, error.chain))

    def _add(self, finding: Finding) -> None:
        if len(self._findings) >= MAX_FINDINGS and finding not in self._findings:
            raise _EnoughError
        self._findings[finding] = None

    # ---- files ---------------------------------------------------------------------------

    def _load_file(
        self, path: Path, active: tuple[Path, ...], name: str = "", row: ast.Row | None = None
    ) -> None:
        """Read a file that `row` sources as `name`, if it is known which."""
        if path.resolve() in self._loaded:
            return
        try:
            text = read_sourced(path, name or str(path))
        except NoScriptError as error:
            self._lacks_source = True
            self._report_error(error, row)
        except OSError as error:
            self._report(f"cannot be read: {error.strerror or error}", Place(str(path), 1))
        else:
            self._load(str(path), text, active)

    def _load(self, file: str, text: str, active: tuple[Path, ...]) -> None:
        key = Path(file).resolve()
        self._loaded.add(key)
        try:
            tree = parse(text, file=file, report=self._report_error)
        except ScriptError as error:
            self._report_error(error)
            return
        top = survey(tree.body)
        self._top.append(top)
        self._learn(top)
        macros = {each.macro.row.line.number: each for each in top.macros}
        rows = {row.line.number: row for row in top.commands}
        active = (*active, key)
        # In the order of the file, because the last of several definitions is the one that counts.
        for number in sorted({*macros, *rows}):
            if number in macros:
                self._define(macros[number])
            else:
                self._follow(rows[number], active)
        self._waiting += [(definition, active) for definition in top.macros]

    def _follow_macros(self) -> None:
        """Load what macros source: those that something runs, and all of the script itself."""
        while True:
            reached = self._reached()
            waiting, self._waiting = self._waiting, []
            due: list[tuple[Definition, tuple[Path, ...]]] = []
            for each in waiting:
                (due if self._concerns(each[0], reached) else self._waiting).append(each)
            if not due:
                return
            for definition, active in due:
                for row in definition.inside.commands:
                    self._follow(row, active)

    def _reached(self) -> set[str]:
        """The macros that the script runs, as far as it can be told."""
        calls = [call.macro for top in self._top for call in top.calls]
        return self._macros.reached([*calls, *self._ran])

    def _concerns(self, definition: Definition, reached: Collection[str]) -> bool:
        """Whether what a macro says is the author's business: what a library has besides is not."""
        macro = definition.macro
        return macro.row.line.file == self._main or macro.name in reached

    def _learn(self, found: Survey) -> None:
        self._assigned |= found.assigned
        self._computed |= {raw: _fixed_parts(raw) for raw in found.computed}

    def _define(self, definition: Definition) -> None:
        self._learn(definition.inside)
        name = definition.macro.name
        before = self._macros.add(definition)
        if before and not definition.is_conditional and not before.is_conditional:
            line = before.macro.row.line
            self._report(
                f"macro {name} is defined again (first at {line.file}:{line.number})",
                definition.macro.row.place(name),
                "warning",
            )

    def _follow(self, row: ast.Row, active: tuple[Path, ...]) -> None:
        """Load what a line sources, if it does and if that is known before a run."""
        if row.words[0].text != "SOURCE" or len(row.words) != 2:
            return
        name = self._constant(row.words[1].text)
        if name is None:
            self._lacks_source = True
            return
        path = self._find(name, row)
        if path is None:
            self._lacks_source = True
        elif path.resolve() in active:
            self._report(
                f"SOURCE {name} goes round in a circle",
                row.place(name),
                "warning",
                "It does no harm: each file is read once.",
            )
        elif len(active) < MAX_DEPTH:
            self._load_file(path, active, name, row)

    def _find(self, name: str, row: ast.Row) -> Path | None:
        """The file that a SOURCE means, or may have meant if there is none; None without one."""
        try:
            return self._path_of(name, row)
        except NoSourceError as error:
            self._report_error(error, row)
            self._reads_another = True
            return self._path_of(error.similar, row) if error.similar else None

    def _path_of(self, name: str, row: ast.Row) -> Path:
        return find_source(name, from_file=row.line.file, library_path=self._library_path)

    def _constant(self, raw: str) -> str | None:
        """What a word always is, as far as it can be told; None if only the run knows."""
        text = "".join(
            part.text if not part.name else self._definitions.get(part.name, DOLLAR)
            for part in parts(raw)
        )
        return None if DOLLAR in text else text

    # ---- lines ---------------------------------------------------------------------------

    def _check_lines(self, found: Survey) -> None:
        for row in found.commands:
            for error in misuses(row):
                self._report_error(error, row)
        for loop in found.loops:
            if isinstance(loop, ast.For):
                self._check_for(loop)
            else:
                for error in sweep_misuses(loop):
                    self._report_error(error, loop.row)
        for row in found.dead:
            self._report(
                "this is never reached: END stops the script before it", row.place(), "warning"
            )

    def _check_for(self, loop: ast.For) -> None:
        if "$" in loop.values.text:
            return
        try:
            values = values_of(loop.values.text, near=loop.values.text)
        except MisuseError as error:
            self._report_error(error, loop.row)
            return
        if len(values) > self._max_iterations:
            self._report(
                f"{len(values):,} passes are more than the {self._max_iterations:,} a script may"
                " make",
                loop.row.place(loop.values.text),
            )

    # ---- variables and macros ------------------------------------------------------------

    def _check_uses(self) -> None:
        for top in self._top:
            for use in top.uses:
                self._need_global(use)
            for call in top.calls:
                self._check_call(call, own=frozenset())
        reached = self._reached()
        for definition in self._macros.definitions():
            for call in definition.inside.calls:
                if definition.macro.name in reached:
                    self._check_call(call, own=frozenset(definition.inside.mentioned))
                elif call.row.line.file == self._main:
                    self._macro_of(call, is_run=False)

    def _is_set(self, name: str) -> bool:
        """Whether something may set a variable; `SET flow$i=…` may set flow1."""
        if name in self._assigned or len(self._computed) > MAX_COMPUTED:
            return True
        return any(_may_be(name, fixed) for fixed in self._computed.values())

    def _need_global(self, use: Use) -> None:
        """An error if nothing sets a variable; a warning if the line that needs it may not run."""
        if self._is_set(use.name):
            return
        # Loop variables within macros are no business of those who run them.
        set_here = {name for top in self._top for name in top.assigned} | {*self._definitions}
        is_source = use.row.words[0].text == "SOURCE"
        if self._lacks_source and not is_source and nearest(use.name, set_here) is None:
            return
        otherwise = f"Write SET {use.name}=… before it, or run it with -D {use.name}=…"
        self._report(
            f"undefined variable ${use.name}: nothing sets it",
            use.row.place(*references(use.name), use.name),
            "warning" if use.is_optional else "error",
            hint(use.name, set_here, otherwise=otherwise),
        )

    def _macro_of(self, call: Call, *, is_run: bool) -> str | None:
        """The macro that a RUN means, as it is spelled. None if there is none: an error if the RUN
        is surely run, else a warning."""
        if "$" in call.macro:
            return None
        name = self._macros.spelled(call.macro)
        if name is not None:
            return name
        similar = nearest(call.macro, self._macros.names())
        if not call.is_guarded and not (self._lacks_source and similar is None):
            self._report(
                f"there is no macro {call.macro}",
                call.row.place(call.macro),
                "error" if is_run and not call.is_conditional else "warning",
                f"Did you mean {similar}?" if similar else "Is a SOURCE missing?",
            )
        return None

    def _check_call(self, call: Call, *, own: frozenset[str]) -> None:
        """`own` are variables that may be arguments of the macro that the RUN stands in."""
        name = self._macro_of(call, is_run=True)
        if name is None:
            return
        if name != call.macro:
            self._report(
                f"macro {call.macro} is spelled {name}", call.row.place(call.macro), "warning"
            )
        mentioned = self._macros.mentioned(name)
        for key in call.passed:
            if key and key not in mentioned:
                self._report(
                    f"macro {name} does not use {key}",
                    call.row.place(f"{key}="),
                    "warning",
                    hint(key, mentioned),
                )
        for key, use in self._macros.needs_of(name).items():
            self._check_need(call, name, key, use, own)

    def _check_need(self, call: Call, macro: str, key: str, use: Use, own: frozenset[str]) -> None:
        if key not in call.passed:
            if not use.is_optional and not self._is_set(key) and not call.is_open:
                line = use.row.line
                self._report(
                    f"macro {macro} needs {key}, which is neither passed nor set",
                    call.row.place(call.macro),
                    "warning" if call.is_conditional else "error",
                    f"It is used at {line.file}:{line.number}; add {key}=… to the RUN.",
                )
            return
        for variable in call.passed[key]:
            if variable not in own:
                is_optional = use.is_optional and key in call.handed_on
                self._need_global(Use(variable, call.row, is_optional or call.is_conditional))

    # ---- what only a run can tell --------------------------------------------------------

    def _dry_run(self, path: Path, text: str) -> tuple[DryRun, list[ScriptError], list[Path]]:
        """A dry run that goes on behind mistakes: what it asked, they, and the files it read."""
        port, errors = DryRun(known=self._known), list[ScriptError]()
        interpreter = Interpreter(
            port,
            library_path=self._library_path,
            seed=0,
            definitions=self._definitions,
            max_iterations=self._max_iterations,
            forgive=errors.append,
        )
        try:
            if self._main == STANDARD_INPUT:
                interpreter.run_text(text)
            else:
                interpreter.run_file(path)
        except ScriptError as error:
            errors.append(error)
        except UsageError:
            # The file went away while it was read.
            return port, errors, []
        facts = interpreter.finish()
        self._ran = facts.macros
        return port, errors, [Path(each.path) for each in facts.files[1:]]

    def _add_errors(self, errors: Iterable[ScriptError]) -> None:
        """Add what a dry run found, as far as it is not a consequence of what is found already."""
        wrong = {
            (each.place.file, each.place.line)
            for each in self._findings
            if each.severity == "error"
        }
        for error in errors:
            place = error.place or Place(self._main, 1)
            if (place.file, place.line) in wrong or (wrong and self._may_follow(error, place)):
                continue
            for each in [each for each in self._findings if each.place == place]:
                del self._findings[each]
            self._report_error(error)
            wrong.add((place.file, place.line))

    def _add_warnings(self, warnings: Iterable[Warned]) -> None:
        told = {each.place for each in self._findings}
        for warned in warnings:
            if warned.place not in told:
                self._report(warned.message, warned.place, "warning")

    def _may_follow(self, error: ScriptError, place: Place) -> bool:
        """Whether an error may be a consequence of another one. A value that is wrong is not."""
        match error:
            case UndefinedError():
                return True
            case NoMacroError():
                return self._lacks_source or self._reads_another
            case ColumnError():
                return False
            case _:
                return _COMPUTED.search(place.text) is None

    def _check_lab(
        self, request: ports.LabRequest, known: set[str] | None, lab_hosts: LabHosts
    ) -> set[str] | None:
        try:
            made = set(lab_hosts(request))
        except NetestoError as error:
            self._report_error(request.refused(error.message, error.remedy))
            return known
        if known is None:
            return made
        for missing in sorted(made - known):
            self._report(f"host {missing} of the LAB is not in the inventory", request.place)
        return known

    def _check_hosts(self, command: ports.RemoteCommand, known: set[str]) -> None:
        named = [command.host]
        if isinstance(command, ports.DoClient | ports.DoTcpdump) and command.server != "X":
            named.append(command.server)
        for name in named:
            if known.isdisjoint(spellings(name, [command.suffix])):
                remedy = hint(name, known, otherwise=f"There are: {', '.join(sorted(known))}.")
                place = command.place_of_host(name)
                finding = Finding(f"there is no host {name}", place, "error", remedy, command.chain)
                self._add(finding)


def _fixed_parts(raw: str) -> tuple[str, ...]:
    """What is always so in a name with variables in it: the texts before, between and behind."""
    fixed = [""]
    for part in parts(raw):
        if part.name:
            fixed.append("")
        else:
            fixed[-1] += part.text
    return tuple(fixed)


def _may_be(name: str, fixed: Sequence[str]) -> bool:
    """Whether some values of the variables make this name."""
    if len(fixed) == 1:
        return name == fixed[0]
    first, *between, last = fixed
    if len(name) < sum(map(len, fixed)) or not (name.startswith(first) and name.endswith(last)):
        return False
    position = len(first)
    for text in between:
        position = name.find(text, position, len(name) - len(last))
        if position < 0:
            return False
        position += len(text)
    return True


__all__ = ["Finding", "check"]
