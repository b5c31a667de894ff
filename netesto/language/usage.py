"""Compares the needs of a script's lines with what it sets, passes and defines."""

from collections.abc import Collection
from dataclasses import dataclass

from netesto.language import ast
from netesto.language.finding import Findings
from netesto.language.reading import Reading
from netesto.language.scope import references
from netesto.language.survey import Call, Use
from netesto.nearest import hint, nearest


@dataclass(frozen=True, slots=True)
class Usage:
    """The variables and macros of the script `main`; `definitions` are variables that are set
    before it runs."""

    main: str
    reading: Reading
    findings: Findings
    definitions: Collection[str]

    def check(self) -> None:
        for top in self.reading.top:
            for use in top.uses:
                self._need_global(use)
            for call in top.calls:
                self._check_call(call, own=frozenset())
        reached = self.reading.reached()
        for definition in self.reading.macros.definitions():
            for call in definition.inside.calls:
                if definition.macro.name in reached:
                    self._check_call(call, own=frozenset(definition.inside.mentioned))
                elif call.row.line.file == self.main:
                    self._macro_of(call, is_run=False)
        if not (self.reading.lacks_source or self.reading.reads_another):
            self._check_factors()

    def _check_factors(self) -> None:
        """A warning for each factor of a SWEEP that changes nothing."""
        surveys = [*self.reading.top, *(m.inside for m in self.reading.macros.definitions())]
        used = {name for each in surveys for name in each.mentioned}
        begins = tuple(name for each in surveys for name in each.begun())
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
        set_here = {name for top in self.reading.top for name in top.assigned} | {*self.definitions}
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

    def _macro_of(self, call: Call, *, is_run: bool) -> str | None:
        """The macro of a RUN, in its own spelling. None if there is none: an error if the RUN
        certainly runs, else a warning."""
        if "$" in call.macro:
            return None
        name = self.reading.macros.spelled(call.macro)
        if name is not None:
            return name
        similar = nearest(call.macro, self.reading.macros.names())
        if not call.is_guarded and not (self.reading.lacks_source and similar is None):
            self.findings.report(
                f"unknown macro {call.macro}",
                call.row.place(call.macro),
                "error" if is_run and not call.is_conditional else "warning",
                f"Did you mean {similar}?" if similar else "Is a SOURCE missing?",
            )
        return None

    def _check_call(self, call: Call, *, own: frozenset[str]) -> None:
        """`own` are variables that may be arguments of the macro that contains the RUN."""
        name = self._macro_of(call, is_run=True)
        if name is None:
            return
        if name != call.macro:
            self.findings.report(
                f"macro {call.macro} is spelled {name}", call.row.place(call.macro), "warning"
            )
        mentioned = self.reading.macros.mentioned(name)
        for key in call.passed:
            if key and key not in mentioned:
                self.findings.report(
                    f"macro {name} does not use {key}",
                    call.row.place(f"{key}="),
                    "warning",
                    hint(key, mentioned),
                )
        for key, use in self.reading.macros.needs_of(name).items():
            self._check_need(call, name, key, use, own)

    def _check_need(self, call: Call, macro: str, key: str, use: Use, own: frozenset[str]) -> None:
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
