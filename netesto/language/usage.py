"""Compares the needs of a script's lines with what it sets, passes and defines."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from netesto.language import ast
from netesto.language.finding import Findings
from netesto.language.reading import SourceReading
from netesto.language.scope import references
from netesto.language.survey import MacroCall, Survey, Use
from netesto.text.nearest import hint, nearest


@dataclass(frozen=True, slots=True)
class Usage:
    """The variables and macros of the script `main`; `definitions` are variables that are set
    before it runs."""

    main: str
    reading: SourceReading
    findings: Findings
    definitions: Collection[str]
    _needs: dict[str, dict[str, Use]] = field(default_factory=dict)

    def check(self) -> None:
        for top in self.reading.top:
            for use in top.uses:
                self._need_global(use)
            for call in top.calls:
                self._check_call(call, own=frozenset())
        reached = self.reading.reached()
        for definition in self.reading.definitions():
            for call in definition.inside.calls:
                if definition.macro.name in reached:
                    self._check_call(call, own=frozenset(definition.inside.mentioned))
                elif call.row.line.file == self.main:
                    self._macro_of(call, is_run=False)
        if not self.reading.lacks_source:
            surveys = [*self.reading.top, *(m.inside for m in self.reading.definitions())]
            used = {name for each in surveys for name in each.mentioned}
            begins = tuple(name for each in surveys for name in each.stems())
            self._check_sets(surveys, used, begins)
            self._check_factors(surveys, used, begins)

    def _check_sets(
        self, surveys: Sequence[Survey], used: set[str], begins: tuple[str, ...]
    ) -> None:
        """A warning for each variable of the script that is set, and that nothing reads."""
        for each in surveys:
            for name, row in each.sets.items():
                is_used = "$" in name or name in used or name.startswith(begins)
                if row.line.file == self.main and name.isidentifier() and not is_used:
                    self.findings.report(
                        f"nothing reads the variable {name}",
                        row.place(name),
                        "warning",
                        hint(name, used),
                    )

    def _check_factors(
        self, surveys: Sequence[Survey], used: set[str], begins: tuple[str, ...]
    ) -> None:
        """A warning for each factor of a SWEEP that changes nothing."""
        told = {(each.place.file, each.place.line) for each in self.findings}
        sweeps = [loop for each in surveys for loop in each.loops if isinstance(loop, ast.Sweep)]
        for sweep in sweeps:
            place = sweep.row.place()
            for word in () if (place.file, place.line) in told else sweep.words:
                name = word.text.partition("=")[0]
                is_used = name in used | ast.SWEEP_OPTIONS or name.startswith(begins)
                if name.isidentifier() and not is_used:
                    self.findings.report(
                        f"SWEEP: nothing uses the factor {name}",
                        sweep.row.place(f"{name}="),
                        "warning",
                        f"A command gets it by {name}=${name}; reps= only repeats.",
                    )

    def _need_global(self, use: Use) -> None:
        """An error if nothing sets a variable; a warning if the line that needs it may not run."""
        if self.reading.is_set(use.name):
            return
        # Loop variables within macros do not concern their callers.
        set_here = {name for top in self.reading.top for name in {*top.assigned, *top.defaults}} | {
            *self.definitions
        }
        is_source = use.row.words[0].text == "SOURCE"
        if self.reading.lacks_source and not is_source and nearest(use.name, set_here) is None:
            return
        otherwise = f"Write SET {use.name}=… before it, or run it with -D {use.name}=…"
        self.findings.report(
            f"undefined variable ${use.name}: nothing sets it",
            use.row.place(*references(use.name), use.name),
            "warning" if use.is_optional else "error",
            hint(use.name, set_here, otherwise=otherwise),
        )

    def _macro_of(self, call: MacroCall, *, is_run: bool) -> str | None:
        """The macro of a RUN, in its own spelling. None if there is none: an error if the RUN
        certainly runs, else a warning."""
        if "$" in call.macro:
            return None
        name = self.reading.spelled(call.macro)
        if name is not None:
            return name
        similar = nearest(call.macro, self.reading.macros)
        if not call.is_guarded and not (self.reading.lacks_source and similar is None):
            self.findings.report(
                f"unknown macro {call.macro}",
                call.row.place(call.macro),
                "error" if is_run and not call.is_conditional else "warning",
                f"Did you mean {similar}?" if similar else "Is a SOURCE missing?",
            )
        return None

    def _check_call(self, call: MacroCall, *, own: frozenset[str]) -> None:
        """`own` are variables that may be arguments of the macro that contains the RUN."""
        name = self._macro_of(call, is_run=True)
        if name is None:
            return
        if name != call.macro:
            self.findings.report(
                f"macro {call.macro} is spelled {name}", call.row.place(call.macro), "warning"
            )
        mentioned = self.reading.mentioned[name]
        for key in call.passed:
            if key and key not in mentioned:
                self.findings.report(
                    f"macro {name} does not use {key}",
                    call.row.place(f"{key}="),
                    "warning",
                    hint(key, mentioned),
                )
        for key, use in self._needs_of(name).items():
            self._check_need(call, name, key, use, own)

    def _check_need(
        self, call: MacroCall, macro: str, key: str, use: Use, own: frozenset[str]
    ) -> None:
        if key not in call.passed:
            if not use.is_optional and not self.reading.is_set(key) and not call.is_open:
                line = use.row.line
                self.findings.report(
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

    # ---- the arguments that macros need ----------------------------------------------------

    def _needs_of(self, name: str) -> dict[str, Use]:
        """The arguments that a macro needs, each with the line that uses it."""
        # Called macros come first. A stack instead of recursion, because calls may be endless.
        waiting = [] if name in self._needs else [(name, self._callees(name))]
        self._needs.setdefault(name, {})
        while waiting:
            current, callees = waiting[-1]
            callee = next((each for each in callees if each not in self._needs), None)
            if callee is None:
                self._needs[current] = self._needs_of_all(current)
                waiting.pop()
            else:
                # A recursive call adds no needs.
                self._needs[callee] = {}
                waiting.append((callee, self._callees(callee)))
        return self._needs[name]

    def _callees(self, name: str) -> Iterator[str]:
        """The macros that a macro runs, whose needs it inherits."""
        for each in self.reading.macros[name]:
            for call in each.inside.calls:
                callee = self.reading.spelled(call.macro)
                if callee is not None and not call.is_guarded:
                    yield callee

    def _needs_of_all(self, name: str) -> dict[str, Use]:
        each_needs = [self._needs_inside(each.inside) for each in self.reading.macros[name]]
        how_many = Counter(key for found in each_needs for key in found)
        needs: dict[str, Use] = {}
        for found in each_needs:
            for key, use in found.items():
                # Another of several definitions may not need it.
                is_optional = use.is_optional or how_many[key] < len(each_needs)
                _add(needs, [replace(use, is_optional=is_optional)])
        return needs

    def _needs_inside(self, found: Survey) -> dict[str, Use]:
        needs: dict[str, Use] = {}
        _add(needs, found.uses)
        for call in found.calls:
            callee = self.reading.spelled(call.macro)
            if callee is not None and not call.is_guarded:
                _add(needs, self._needs_through(call, callee))
        # Backwards, because a copy may be copied again by a later line.
        for assigned, use in reversed(found.copies):
            if assigned in needs:
                _add(needs, [use])
        return {name: use for name, use in needs.items() if name not in found.defaults}

    def _needs_through(self, call: MacroCall, callee: str) -> Iterator[Use]:
        """What the caller needs because of a RUN: what it passes, and globals that it may set."""
        for key, use in self._needs[callee].items():
            for variable in call.passed.get(key, ()):
                yield Use(variable, call.row, use.is_optional or call.is_conditional)
            if key not in call.passed and self.reading.is_set(key):
                yield Use(key, call.row, is_optional=True)


def _add(needs: dict[str, Use], uses: Iterable[Use]) -> None:
    """Add to what a macro needs; what is required stays required."""
    for use in uses:
        if use.name not in needs or (needs[use.name].is_optional and not use.is_optional):
            needs[use.name] = use
