"""The state of a running script: variables, macros, iterations, the chain to the current line."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from netesto.errors import Place, ScriptError, written_line
from netesto.language import ast, steps
from netesto.language.draft import Draft
from netesto.language.plan import Until, drawn
from netesto.language.remote import Notes, Remote
from netesto.language.scope import (
    Frame,
    MisuseError,
    Scope,
    UndefinedError,
    references,
    refers,
)
from netesto.text.nearest import hint

# The number of values shown for one level of the chain; more would fill the screen.
SHOWN_VALUES = 8
SHOWN_LENGTH = 40


class SpentError(MisuseError):
    """A limit of the run is exceeded; the run cannot continue."""


class EndOfScript(Exception):  # noqa: N818 - END is not an error
    """END: unwinds everything that runs."""


@dataclass(slots=True)
class Level:
    """One step of the chain RUN → SOURCE → FOR that led to a command, and its values now.

    `name` is the macro, file or loop variable of the command; SWEEP has none. `defaults` are the
    variables of a RUN that only DEFAULT has given a value.
    """

    row: ast.LineLayout
    command: Literal["RUN", "SOURCE", "FOR", "SWEEP"]
    name: str
    values: Mapping[str, str]
    defaults: set[str] = field(default_factory=set)
    # The chain of every remote command inside contains it.
    _text: str = ""

    def turn(self, value: str) -> None:
        """The next value of a FOR."""
        self.values, self._text = {self.name: value}, ""

    def __str__(self) -> str:
        self._text = self._text or self._values_text()
        return self._text

    def _values_text(self) -> str:
        shown = [
            f"{name}={value if len(value) <= SHOWN_LENGTH else value[:SHOWN_LENGTH] + '…'}"
            for name, value in islice(self.values.items(), SHOWN_VALUES)
        ]
        if len(self.values) > SHOWN_VALUES:
            shown.append("…")
        values = f" ({', '.join(shown)})" if shown else ""
        what = f"{self.command} {self.name}".rstrip()
        return f"{self.row.line.file}:{self.row.line.number}: {what}{values}"

    def passes_on(self, variable: str) -> bool:
        """Whether this RUN passes a variable of its caller on under the same name: `ca=$ca`."""
        own = [f"{variable}={reference}" for reference in references(variable)]
        return any(word.text.replace('"', "") in own for word in self.row.words)


class Machine:
    """The state of a run, which everything that executes statements shares."""

    def __init__(self, draft: Draft, *, max_iterations: int) -> None:
        self.draft = draft
        self.scope = Scope()
        self.macros: dict[str, ast.Macro] = {}
        # The macros that were run.
        self.ran: set[str] = set()
        self.notes = Notes()
        self.remote = Remote(draft, self.notes)
        self.random = random.Random(draft.seed)
        # The experiment that was processed last.
        self.processed: steps.ProcessExperiment | None = None
        self.tracing = False
        self.saved_tracing: list[bool] = []
        self.stack: list[Level] = []
        self.iterations = 0
        # How many statements failed in a run that continued.
        self.mistakes = 0
        # Whether $rep is that of SWEEP.
        self.sets_repetition = False
        self._max_iterations = max_iterations
        self.is_in_part = False
        # The SWEEPs so far that repeat until something is certain.
        self._untils = 0
        self._parts: Counter[str] = Counter()
        # Repeated parts, by their names.
        self.attempts: Mapping[str, int] = {}

    def next_until(self) -> int:
        """The number of a SWEEP that repeats until something is certain."""
        self._untils += 1
        return self._untils

    def run_part(
        self,
        name: str,
        cell: Mapping[str, str],
        body: Callable[[], None],
        *,
        until: Until | None = None,
    ) -> None:
        """Run a part of the script (see Draft.enter_part).

        Its random numbers depend only on the run's seed and its name, not on earlier parts.
        """
        is_outer = not self.is_in_part
        if not (is_outer or cell):
            body()
            return
        before, attempt = self.random, 1
        if is_outer:
            self._parts[name] += 1
            name = name if self._parts[name] == 1 else f"{name} #{self._parts[name]}"
            attempt = self.attempts.get(name, 1)
            self.random = random.Random(f"{self.draft.seed} {drawn(name, attempt)}")
        self.is_in_part = True
        self.draft.enter_part(name, cell, attempt=attempt, until=until)
        whole = False
        try:
            body()
            self.draft.end_repetition()
            whole = True
        finally:
            self.draft.leave_part(whole=whole)
            self.is_in_part, self.random = not is_outer, before

    def process(self, exp: int, notes: steps.ExperimentNotes, place: Place) -> None:
        """PROCESS_EXP."""
        self.processed = steps.ProcessExperiment(exp=exp, notes=notes, place=place)
        self.draft.do(self.processed)

    def finish_left(self, where: str, *, since: Collection[int] = ()) -> None:
        """Finish the experiments without a PROCESS_EXP, except those of `since`, as if WAIT_FLOWS
        and PROCESS_EXP were here; `where` is a name for this place."""
        # The line that finishes an experiment may have failed.
        for exp, begun in [*self.remote.open.items()] if not self.mistakes else ():
            if begun.flows is None or exp in since:
                continue
            message = f"experiment {exp} has no PROCESS_EXP: it is finished {where}"
            place = begun.flows.place
            self.check_factors()
            self.draft.warn(message, place, once=("left", place))
            if not begun.has_waited:
                self.draft.do(steps.WaitFlows(exp=exp, timeout_s=None))
            self.remote.finish(exp)
            self.process(exp, begun.notes, place)

    def check_factors(self) -> None:
        """MisuseError if a variable no longer has the value that the running cell gave it."""
        for name, value in self.notes.factors().items():
            now = self.scope.variables.get(name)
            if now != value:
                raise MisuseError(
                    f"factor {name} is {value} in this cell, but was set to {now}",
                    remedy="exp.csv records the factor: set another variable.",
                )

    def finish(self) -> None:
        """The script has ended, by END or by itself."""
        self.finish_left("where the script ends")
        self.remote.finish_settings()
        for _, capture in self.remote.captures:
            self.draft.warn("DO_TCPDUMP: no test follows, so nothing is captured", capture.place)

    def spend(self, iterations: int = 1) -> None:
        """Count iterations of loops. SpentError if the script makes too many."""
        self.iterations += iterations
        if self.iterations > self._max_iterations:
            raise SpentError(
                f"more than {self._max_iterations:,} iterations of loops in this script",
                remedy="Check ranges and repetitions, or raise --max-iterations.",
            )

    def chain(self, depth: int | None = None) -> tuple[str, ...]:
        """The steps that led here (or to `depth` of the stack), outermost first."""
        return tuple([str(level) for level in self.stack[:depth]])

    def warn(self, message: str, place: Place, *, about: Hashable = None) -> None:
        """Warn of something at a place, once for each line of the author that leads there; where
        the message differs between cells, what it is `about` is the same."""
        chain = self.chain()
        key = (message if about is None else about, place, written_line(place, chain))
        self.draft.warn(message, place, chain, once=key)

    def running_macro(self) -> Level | None:
        """The RUN whose macro runs; None outside of macros, also in a file that a macro sources."""
        around = (level for level in reversed(self.stack) if level.command in {"RUN", "SOURCE"})
        level = next(around, None)
        return level if level is not None and level.command == "RUN" else None

    def cover(
        self, command: str, name: str, frame: Frame, row: ast.LineLayout, *, is_meant: bool = False
    ) -> None:
        """A global variable gets a value, and the frame has its name. If that is a default of the
        running macro, it makes way; an argument hides the global, which is a warning unless it
        `is_meant`."""
        level = self.running_macro()
        if level is not None and name in level.defaults:
            level.defaults.discard(name)
            del frame[name]
            return
        if is_meant:
            return
        message = f"{command} {name}: an argument of the macro has this name and hides it"
        self.warn(message, row.place(name))

    def warn_of_outer_loop(self, command: str, name: str, row: ast.LineLayout) -> None:
        """Warn of a loop inside of another one with the same variable."""
        if any(level.command == "FOR" and level.name == name for level in self.stack):
            message = (
                f"{command} {name}: an outer FOR has the same variable, which then has the last"
                " value of this loop"
            )
            self.warn(message, row.place(name))

    def blame(self, error: ScriptError, row: ast.LineLayout) -> None:
        """Give an error the place of its line and the chain to it."""
        if isinstance(error, UndefinedError):
            self._blame_undefined(error, row)
            return
        if error.place is None:
            # The invalid text may come from a variable: then point at the variable.
            near = (*error.near, "$") if isinstance(error, MisuseError) and error.near else ()
            error.place = row.place(*near)
        if not error.chain:
            error.chain = self.chain()

    def _blame_undefined(self, error: UndefinedError, row: ast.LineLayout) -> None:
        """Point at the RUN that passed the variable, if one did: the mistake is there, not in
        the macro (perhaps of a library) that needs the value."""
        if error.place is not None:
            return
        depth = self._passed_at(error.name, row)
        if depth is None:
            error.place, error.chain = row.place(*error.near, "$"), self.chain()
            return
        level = self.stack[depth]
        error.place = level.row.place(*references(error.name))
        error.chain = self.chain(depth)
        to_set = f"Set it before: SET {error.name}=value."
        error.remedy = (
            f"{hint(error.name, self.scope.variables, otherwise=to_set)}\n"
            f"The macro {level.name} needs its value at {row.line.file}:{row.line.number}."
        )

    def _passed_at(self, variable: str, row: ast.LineLayout) -> int | None:
        """The position on the stack of the outermost RUN with an undefined variable that `row`
        needs; None if no RUN passed it."""
        found: int | None = None
        is_written = refers(row.line.text, variable)
        for depth in reversed(range(len(self.stack))):
            level = self.stack[depth]
            if level.command == "SOURCE":
                break  # a file does not see the arguments of a macro that sources it
            if level.command != "RUN":
                continue
            if is_written:
                if not level.passes_on(variable):
                    break
                found = depth
            elif refers(level.row.line.text, variable):
                found, is_written = depth, True
            elif not any(refers(value, variable) for value in level.values.values()):
                break
        return found

    def trace(self, row: ast.LineLayout, frame: Frame) -> None:
        """Show a statement that is about to run."""
        text = f"{row.line.file}:{row.line.number}: {self.scope.fill(row.line.text, frame)}"
        self.draft.do(steps.Echo(text=text))
