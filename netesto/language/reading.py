"""Reads the files of a script, including unreachable lines, and finds what each body uses, sets and
runs."""

import fnmatch
import glob
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from netesto.errors import Place, ScriptError
from netesto.language import ast
from netesto.language.finding import Findings
from netesto.language.interpreter import NoScriptError, NoSourceError, find_source, read_sourced
from netesto.language.parser import parse
from netesto.language.scope import DOLLAR, parts
from netesto.language.survey import Definition, Survey, survey
from netesto.language.walk import MAX_DEPTH

# Variable names that contain variables: with more of these, assume that any name may be set.
MAX_COMPUTED = 200


class SourceReading:
    """The files of the script `main`.

    `top` are the surveys of files outside macros, `macros` all definitions by name: a macro may
    have several, in branches or one after the other; `mentioned` are all variables in them. `ran`
    are macros that a dry run has run, also by `RUN $macro`. `lacks_source`: a file may be missing,
    and what it defines.
    """

    def __init__(
        self,
        main: str,
        findings: Findings,
        *,
        library_path: Sequence[Path],
        definitions: Mapping[str, str],
        ran: Collection[str],
    ) -> None:
        self._main = main
        self._findings = findings
        self._library_path = library_path
        self._definitions = definitions
        self._ran = ran
        self.top: list[Survey] = []
        self.macros: dict[str, list[Definition]] = {}
        self.mentioned = defaultdict[str, set[str]](set)
        self._by_folded = defaultdict[str, list[str]](list)
        self.lacks_source = False
        self._assigned: set[str] = set(definitions)
        # Names that only the run knows, as written.
        self._computed: set[str] = set()
        self._loaded: set[Path] = set()
        # Macros of sourced files, until a RUN of them is found.
        self._waiting: list[tuple[Definition, tuple[Path, ...]]] = []

    def read(self, text: str, others: Sequence[Path]) -> None:
        """Read the script's text, what it sources, and other files that a run has sourced."""
        self._load(self._main, text, ())
        for path in others:
            self._load_file(path, ())
        self._follow_macros()

    def surveys(self) -> list[Survey]:
        """What the files do, and the macros that matter to the author."""
        reached = self.reached()
        macros = [each for each in self.definitions() if self._concerns(each, reached)]
        return [*self.top, *(each.inside for each in macros)]

    def definitions(self) -> list[Definition]:
        """All definitions of macros."""
        return [each for known in self.macros.values() for each in known]

    def spelled(self, name: str) -> str | None:
        """The macro of a RUN; the letter case does not matter if there is only one."""
        if name in self.macros:
            return name
        alike = self._by_folded.get(name.casefold(), [])
        return alike[0] if len(alike) == 1 else None

    def is_set(self, name: str) -> bool:
        """Whether something may set a variable; `SET flow$i=…` may set flow1."""
        if name in self._assigned or len(self._computed) > MAX_COMPUTED:
            return True
        return any(_possible(raw).match(name) for raw in self._computed)

    def _load_file(
        self,
        path: Path,
        active: tuple[Path, ...],
        name: str = "",
        row: ast.LineLayout | None = None,
    ) -> None:
        """Read the file that `row` sources as `name`, if it is known."""
        if path.resolve() in self._loaded:
            return
        try:
            text = read_sourced(path, name or str(path))
        except NoScriptError as error:
            self.lacks_source = True
            self._findings.report_error(error, row)
        except OSError as error:
            self._findings.report(f"cannot be read: {error.strerror or error}", Place(str(path), 1))
        else:
            self._load(str(path), text, active)

    def _load(self, file: str, text: str, active: tuple[Path, ...]) -> None:
        key = Path(file).resolve()
        self._loaded.add(key)
        try:
            tree = parse(text, file=file, report=self._findings.report_error)
        except ScriptError as error:
            self._findings.report_error(error)
            return
        top = survey(tree.body)
        self.top.append(top)
        self._assigned |= top.defaults
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
        """Load what macros source: those of the script, and those of libraries that are run."""
        while True:
            reached = self.reached()
            waiting, self._waiting = self._waiting, []
            due: list[tuple[Definition, tuple[Path, ...]]] = []
            for each in waiting:
                (due if self._concerns(each[0], reached) else self._waiting).append(each)
            if not due:
                return
            for definition, active in due:
                for row in definition.inside.commands:
                    self._follow(row, active)

    def reached(self) -> set[str]:
        """The macros that the script runs, directly or through others, as far as known."""
        waiting = [*self._ran, *(call.macro for top in self.top for call in top.calls)]
        reached: set[str] = set()
        while waiting:
            name = self.spelled(waiting.pop())
            if name is not None and name not in reached:
                reached.add(name)
                waiting += [call.macro for each in self.macros[name] for call in each.inside.calls]
        return reached

    def _concerns(self, definition: Definition, reached: Collection[str]) -> bool:
        """Whether findings in a macro concern the author: unused macros of a library do not."""
        macro = definition.macro
        return macro.row.line.file == self._main or macro.name in reached

    def _learn(self, found: Survey) -> None:
        self._assigned |= found.assigned
        self._computed |= found.computed

    def _define(self, definition: Definition) -> None:
        self._learn(definition.inside)
        name = definition.macro.name
        if name not in self.macros:
            self._by_folded[name.casefold()].append(name)
        known = self.macros.setdefault(name, [])
        known.append(definition)
        self.mentioned[name] |= definition.inside.mentioned
        if not any(each.is_conditional for each in known[-2:]) and len(known) > 1:
            line = known[-2].macro.row.line
            self._findings.report(
                f"macro {name} is defined again (first at {line.file}:{line.number})",
                definition.macro.row.place(name),
                "warning",
            )

    def _follow(self, row: ast.LineLayout, active: tuple[Path, ...]) -> None:
        """Load the file that a line sources, if its name is known before a run."""
        if row.words[0].text != "SOURCE" or len(row.words) != 2:
            return
        name = self._constant(row.words[1].text)
        if name is None:
            self.lacks_source = True
            return
        path = self._find(name, row)
        if path is None:
            self.lacks_source = True
        elif path.resolve() in active:
            self._findings.report(
                f"circular SOURCE {name}",
                row.place(name),
                "warning",
                "Harmless: each file is read once.",
            )
        elif len(active) < MAX_DEPTH:
            self._load_file(path, active, name, row)

    def _find(self, name: str, row: ast.LineLayout) -> Path | None:
        """The file of a SOURCE; None without one."""
        try:
            return find_source(name, from_file=row.line.file, library_path=self._library_path)
        except NoSourceError as error:
            self._findings.report_error(error, row)
            return None

    def _constant(self, raw: str) -> str | None:
        """The value of a word; None if only a run knows it."""
        text = "".join(
            part.text if not part.name else self._definitions.get(part.name, DOLLAR)
            for part in parts(raw)
        )
        return None if DOLLAR in text else text


@lru_cache(maxsize=MAX_COMPUTED)
def _possible(raw: str) -> re.Pattern[str]:
    """The names that some values of the variables in a name yield."""
    fixed = "".join("*" if part.name else glob.escape(part.text) for part in parts(raw))
    return re.compile(fnmatch.translate(fixed))
