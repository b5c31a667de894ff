"""Finds all that is wrong in scripts without running them, not only the first thing."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from netesto.errors import NetestoError, Place, ScriptError
from netesto.language import arguments, ast, local, ports
from netesto.language.claims import claim
from netesto.language.commands import ALL_NAMES, LOCAL, LOCAL_KEYED, REMOTE, Specification
from netesto.language.compiler import unknown_command
from netesto.language.dryrun import DryRun
from netesto.language.expressions import Arithmetic
from netesto.language.interpreter import MAX_ITERATIONS, Interpreter, find_source, read_script
from netesto.language.lines import find_colon
from netesto.language.nearest import hint
from netesto.language.parser import parse
from netesto.language.scope import DOLLAR, REFERENCE, MisuseError, Scope, parts
from netesto.language.survey import Call, Survey, Use, survey

Severity: TypeAlias = Literal["error", "warning"]
LabHosts: TypeAlias = Callable[[ports.LabRequest], Collection[str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or (a warning) that looks so. Prints as an error of a run does."""

    message: str
    place: Place
    severity: Severity = "error"
    remedy: str = ""
    chain: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        message = f"{self.severity}: {self.message}"
        error = ScriptError(message, place=self.place, remedy=self.remedy, chain=self.chain)
        return str(error)


def check(
    paths: Sequence[Path],
    *,
    library_path: Sequence[Path],
    definitions: Mapping[str, str],
    hosts: Collection[str] | None = None,
    lab_hosts: LabHosts | None = None,
) -> list[Finding]:
    """All findings in scripts and what they SOURCE, in the order of their places.

    `hosts` are the names of an inventory: hosts of commands, and of LAB, must be among them.
    `lab_hosts` tells the hosts that a LAB makes; without an inventory, commands must name those.
    """
    findings: list[Finding] = []
    for path in paths:
        checker = _Checker(library_path, definitions)
        checker.check(path, hosts=hosts, lab_hosts=lab_hosts)
        findings += [each for each in checker.findings if each not in findings]
    return findings


class _Checker:
    """The check of one script."""

    def __init__(self, library_path: Sequence[Path], definitions: Mapping[str, str]) -> None:
        self.findings: list[Finding] = []
        self._library_path = library_path
        self._definitions = definitions
        self._macros: dict[str, tuple[ast.Macro, Survey]] = {}
        self._top: list[Survey] = []
        self._assigned: set[str] = set(definitions)
        self._loaded: set[Path] = set()
        self._needs: dict[str, dict[str, Use]] = {}

    def check(
        self, path: Path, *, hosts: Collection[str] | None, lab_hosts: LabHosts | None
    ) -> None:
        try:
            self._load(path, ())
        except OSError as error:
            self._report(f"cannot be read: {error.strerror}", Place(str(path), 1))
            return
        surveys = [*self._top, *(found for _, found in self._macros.values())]
        for found in surveys:
            self._check_lines(found)
        self._check_uses()
        self._dry_run(path, hosts=hosts, lab_hosts=lab_hosts)
        self.findings.sort(key=lambda each: (each.place.file, each.place.line, each.place.column))

    def _report(
        self, message: str, place: Place, severity: Severity = "error", remedy: str = ""
    ) -> None:
        finding = Finding(message, place, severity, remedy)
        if finding not in self.findings:
            self.findings.append(finding)

    def _report_error(self, error: ScriptError, row: ast.Row) -> None:
        near = error.near if isinstance(error, MisuseError) else ()
        self._report(error.message, error.place or row.place(*near), remedy=error.remedy)

    # ---- files ---------------------------------------------------------------------------

    def _load(self, path: Path, active: tuple[Path, ...]) -> None:
        key = path.resolve()
        self._loaded.add(key)
        try:
            tree = parse(read_script(path), file=str(path))
        except ScriptError as error:
            self._report(error.message, error.place or Place(str(path), 1), remedy=error.remedy)
            return
        top = survey(tree.body)
        surveys = [top]
        for macro in top.macros:
            known = self._macros.get(macro.name)
            if known is not None:
                line = known[0].row.line
                self._report(
                    f"macro {macro.name} is defined again (first at {line.file}:{line.number})",
                    macro.row.place(macro.name),
                    "warning",
                )
            inside = survey(macro.body)
            surveys.append(inside)
            self._macros[macro.name] = (macro, inside)
        self._top.append(top)
        for found in surveys:
            self._assigned |= found.assigned
            for row in found.commands:
                if row.words[0].text == "SOURCE" and len(row.words) == 2:
                    self._follow(row, (*active, key))

    def _follow(self, row: ast.Row, active: tuple[Path, ...]) -> None:
        name = self._constant(row.words[1].text)
        if name is None:
            return
        try:
            path = find_source(name, from_file=row.line.file, library_path=self._library_path)
        except MisuseError as error:
            self._report_error(error, row)
            return
        if path.resolve() in active:
            self._report(
                f"SOURCE {name} goes round in a circle",
                row.place(name),
                "warning",
                "It does no harm: each file is read once.",
            )
        elif path.resolve() not in self._loaded:
            self._load(path, active)

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
            try:
                self._check_command(row)
            except ScriptError as error:
                self._report_error(error, row)
        for loop in found.loops:
            self._check_loop(loop)
        for row in found.dead:
            self._report(
                "this is never reached: END stops the script before it", row.place(), "warning"
            )

    def _check_command(self, row: ast.Row) -> None:
        name, raws = row.words[0].text, [word.text for word in row.words[1:]]
        if "$" in name:
            return
        if name.startswith("HOST_SUFFIX="):
            name, raws = "HOST_SUFFIX", [name.partition("=")[2], *raws]
        specification = REMOTE.get(name) or LOCAL_KEYED.get(name)
        if specification is not None:
            for error in _wrong_words(specification, raws):
                self._report_error(error, row)
            return
        if name not in ALL_NAMES:
            raise unknown_command(name, raws)
        if name in LOCAL and not any("$" in raw for raw in raws):
            local.check_count(name, raws)
        _check_local(name, raws)

    def _check_loop(self, loop: ast.For) -> None:
        if "$" in loop.values.text:
            return
        try:
            values = local.values_of(loop.values.text, near=loop.values.text)
        except MisuseError as error:
            self._report_error(error, loop.row)
            return
        if len(values) > MAX_ITERATIONS:
            self._report(
                f"{len(values):,} passes are more than the {MAX_ITERATIONS:,} a script may make",
                loop.row.place(loop.values.text),
            )

    # ---- variables and macros ------------------------------------------------------------

    def _check_uses(self) -> None:
        for top in self._top:
            for use in top.uses:
                self._need_global(use)
            for call in top.calls:
                self._check_call(call, own=frozenset())
        for name in self._reached():
            _, found = self._macros[name]
            for call in found.calls:
                self._check_call(call, own=frozenset(found.mentioned))

    def _reached(self) -> list[str]:
        """The macros that the script runs, directly or through others."""
        waiting = [call.macro for top in self._top for call in top.calls]
        reached: dict[str, None] = {}
        while waiting:
            name = self._spelled(waiting.pop())
            if name is not None and name not in reached:
                reached[name] = None
                waiting += [call.macro for call in self._macros[name][1].calls]
        return list(reached)

    def _spelled(self, name: str) -> str | None:
        """The macro that a RUN means, letter case aside if there is only one."""
        if name in self._macros:
            return name
        alike = [each for each in self._macros if each.casefold() == name.casefold()]
        return alike[0] if len(alike) == 1 else None

    def _need_global(self, use: Use) -> None:
        if use.name not in self._assigned:
            # Loop variables within macros are no business of those who run them.
            set_here = {name for top in self._top for name in top.assigned} | {*self._definitions}
            self._report(
                f"undefined variable ${use.name}: nothing sets it",
                use.row.place(f"${use.name}", f"${{{use.name}}}", use.name),
                remedy=hint(use.name, set_here, otherwise=f"Write SET {use.name}=… before it."),
            )

    def _check_call(self, call: Call, *, own: frozenset[str]) -> None:
        """`own` are variables that may be arguments of the macro that the RUN stands in."""
        if "$" in call.macro:
            return
        name = self._spelled(call.macro)
        if name is None:
            if not call.is_guarded:
                self._report(
                    f"there is no macro {call.macro}",
                    call.row.place(call.macro),
                    remedy=hint(call.macro, self._macros, otherwise="Is a SOURCE missing?"),
                )
            return
        if name != call.macro:
            self._report(
                f"macro {call.macro} is spelled {name}", call.row.place(call.macro), "warning"
            )
        mentioned = self._macros[name][1].mentioned
        for key in call.passed:
            if key not in mentioned:
                self._report(
                    f"macro {name} does not use {key}",
                    call.row.place(f"{key}="),
                    "warning",
                    hint(key, mentioned),
                )
        for key, use in self._needs_of(name).items():
            self._check_need(call, name, key, use, own)

    def _check_need(self, call: Call, macro: str, key: str, use: Use, own: frozenset[str]) -> None:
        if key not in call.passed:
            if not use.is_optional and key not in self._assigned and not call.is_open:
                line = use.row.line
                self._report(
                    f"macro {macro} needs {key}, which is neither passed nor set",
                    call.row.place(call.macro),
                    remedy=f"It is used at {line.file}:{line.number}; add {key}=… to the RUN.",
                )
            return
        for variable in call.passed[key]:
            if variable not in own:
                self._need_global(Use(variable, call.row))

    def _needs_of(self, name: str) -> dict[str, Use]:
        """The arguments that a macro cannot do without, each with the line that needs it."""
        if name not in self._needs:
            # A macro that runs itself needs no more than it needs.
            self._needs[name] = {}
            found = self._macros[name][1]
            needs: dict[str, Use] = {}
            _add(needs, found.uses)
            for call in found.calls:
                callee = self._spelled(call.macro)
                if callee is not None and not call.is_guarded:
                    _add(needs, self._needs_through(call, callee))
            # Backwards, because a copy may be copied again by a later line.
            for assigned, use in reversed(found.copies):
                if assigned in needs:
                    _add(needs, [use])
            self._needs[name] = needs
        return self._needs[name]

    def _needs_through(self, call: Call, callee: str) -> Iterator[Use]:
        """What the caller needs because of a RUN: what it passes, and globals that it may set."""
        for key, use in self._needs_of(callee).items():
            for variable in call.passed.get(key, ()):
                yield Use(variable, call.row, use.is_optional or call.is_conditional)
            if key not in call.passed and key in self._assigned:
                yield Use(key, call.row, is_optional=True)

    # ---- what only a run can tell --------------------------------------------------------

    def _dry_run(
        self, path: Path, *, hosts: Collection[str] | None, lab_hosts: LabHosts | None
    ) -> None:
        port = DryRun()
        try:
            interpreter = Interpreter(
                port, library_path=self._library_path, seed=0, definitions=self._definitions
            )
            interpreter.run_file(path)
        except ScriptError as error:
            if not any(finding.severity == "error" for finding in self.findings):
                place = error.place or Place(str(path), 1)
                finding = Finding(error.message, place, "error", error.remedy, error.chain)
                self.findings.append(finding)
        known = set(hosts) if hosts is not None else None
        if port.lab_request is not None and lab_hosts is not None:
            known = self._check_lab(port.lab_request, known, lab_hosts)
        if known is not None:
            for command in port.commands:
                self._check_hosts(command, known)

    def _check_lab(
        self, request: ports.LabRequest, known: set[str] | None, lab_hosts: LabHosts
    ) -> set[str] | None:
        try:
            made = set(lab_hosts(request))
        except NetestoError as error:
            self._report(error.message, request.place, remedy=error.remedy)
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
            if name not in known and name.partition(".")[0] not in known:
                finding = Finding(
                    f"there is no host {name}",
                    command.place,
                    "error",
                    hint(name, known, otherwise=f"There are: {', '.join(sorted(known))}."),
                    command.chain,
                )
                if finding not in self.findings:
                    self.findings.append(finding)


def _add(needs: dict[str, Use], uses: Iterable[Use]) -> None:
    """Add to what a macro needs; what it cannot do without is not made optional."""
    for use in uses:
        if use.name not in needs or (needs[use.name].is_optional and not use.is_optional):
            needs[use.name] = use


def _wrong_words(specification: Specification, raws: Sequence[str]) -> Iterator[MisuseError]:
    """What is wrong in the words of a command, as far as they are known before a run."""
    by_name = {each.name: each for each in specification.arguments}
    by_name |= {each.alias: each for each in specification.arguments if each.alias}
    given: set[str] = set()
    is_open = False
    for raw in raws:
        key, equals, value = raw.partition("=")
        argument = by_name.get(key)
        if "$" in key:
            is_open = True
        elif not equals:
            yield arguments.not_keyed(raw, specification)
        elif argument is not None:
            given.add(argument.name)
            if "$" not in value:
                try:
                    arguments.value_of(argument, "".join(part.text for part in parts(value)))
                except MisuseError as error:
                    yield error
        elif not arguments.is_open(specification, key):
            yield arguments.unknown_argument(key, specification)
    for argument in specification.arguments:
        if argument.required and argument.name not in given and not is_open:
            yield arguments.missing_argument(argument, specification)


def _check_local(name: str, raws: Sequence[str]) -> None:
    """What is wrong in a local command, as far as its words are known before a run."""
    text = " ".join(raws)
    match name:
        case "SET" | "DEFAULT":
            local.check_count(name, raws)
            if "$" not in raws[0].partition("=")[0]:
                local.split_assignment(name, raws[0])
        case "SET_EXP":
            local.check_count(name, raws)
            if "$" not in text.partition("=")[0]:
                Arithmetic(local.split_assignment(name, text)[1], Scope())
        case "ASSERT":
            colon = find_colon(text, 0)
            # Whatever a variable holds, a number may stand in its place.
            claim(REFERENCE.sub("1", text if colon < 0 else text[:colon]))
        case "WAIT" | "RAND_WAIT" if "$" not in text:
            for raw in raws:
                local.parse_seconds(raw)
        case _:
            pass


__all__ = ["Finding", "check"]
