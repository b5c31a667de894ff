"""Executes statements by a walk over the tree. A body is converted to steps when it first runs;
later runs only substitute variables.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn, TypeAlias

from netesto.errors import ScriptError
from netesto.language import ast, lines, local
from netesto.language.arguments import check_once
from netesto.language.commands import ALL_NAMES, LOCAL, REMOTE, STRUCTURE
from netesto.language.expressions import Arithmetic, Test, condition
from netesto.language.machine import EndOfScript, Level, Machine, SpentError
from netesto.language.plan import Until
from netesto.language.scope import (
    Frame,
    MisuseError,
    check_name,
    is_undefined,
    needed,
    plain,
    undefined,
)
from netesto.language.steps import REPETITION
from netesto.language.values import values_of
from netesto.schema.kinds import looks_like_range
from netesto.text.nearest import hint, nearest

Body: TypeAlias = Sequence[ast.Statement]
Acting: TypeAlias = ast.CommandLine | ast.If | ast.IfBlock | ast.For | ast.Sweep | ast.Macro
Step: TypeAlias = Callable[[Frame], None]
Steps: TypeAlias = Sequence[tuple[Acting, Step]]
Words: TypeAlias = tuple[str, ...]
# Runs another file, which the line names.
Source: TypeAlias = Callable[[str, ast.LineLayout], None]
Handler: TypeAlias = Callable[[Words, ast.LineLayout], None]

# The limit of nested bodies; more means that a macro runs itself. Each level takes three of
# Python's.
MAX_DEPTH = 100
# A loop repeats its errors; later ones are seldom worth the wait.
MAX_MISTAKES = 1000

_END_OF_CELL = "where its SWEEP cell ends"


class NoMacroError(MisuseError):
    """RUN names an undefined macro."""


class Walk:
    """A walk over the statements of a script, which act on a machine.

    The error of a statement is passed to `forgive`; if that returns, the next statement runs. An
    exceeded limit (iterations, nesting) ends the walk nevertheless.
    """

    def __init__(self, machine: Machine, source: Source, *, forgive: lines.Report) -> None:
        self._machine = machine
        self._forgive = forgive
        self._depth = 0
        # Statements with their steps by the identity of their body (its hash would be slow);
        # `_files` keeps the bodies alive, so that no identity is reused.
        self._steps: dict[int, Steps] = {}
        self._files: list[Body] = []
        # Warnings of conditions, by their lines and those that lead there, by identity as well.
        self._warned: set[tuple[object, ...]] = set()
        self._handlers: Mapping[str, Handler] = {
            "RUN": self._run_macro,
            "SOURCE": lambda words, row: source(needed(words[0]), row),
            **{name: partial(handler, machine) for name, handler in local.HANDLERS.items()},
        }

    def run_file(self, body: Body) -> None:
        """Run the statements of a file, which sees no arguments of a macro."""
        self._files.append(body)
        self.run(body, {})

    def run(self, body: Body, frame: Frame, level: Level | None = None) -> None:
        """Run statements, with `level` as a step of the chain. A ScriptError gets the place of its
        line and the chain to it."""
        if self._depth >= MAX_DEPTH:
            raise SpentError(
                f"more than {MAX_DEPTH} nested macros, loops and files",
                remedy="Does a macro RUN itself, or a file SOURCE the next, endlessly?",
            )
        machine, scope = self._machine, self._machine.scope
        steps = self._steps.get(id(body))
        if steps is None:
            steps = self._steps[id(body)] = [
                (statement, self._step(statement))
                for statement in body
                if not isinstance(statement, ast.Comment)
            ]
        self._depth += 1
        if level is not None:
            machine.stack.append(level)
        try:
            for statement, step in steps:
                try:
                    if machine.tracing:
                        machine.trace(statement.row, frame)
                    scope.lookups = 0
                    step(frame)
                except ScriptError as error:
                    machine.blame(error, statement.row)
                    machine.mistakes += 1
                    if isinstance(error, SpentError) or machine.mistakes > MAX_MISTAKES:
                        raise
                    self._forgive(error)
        finally:
            self._depth -= 1
            if level is not None:
                machine.stack.pop()

    def _step(self, statement: Acting) -> Step:
        self._warn_of_comment(statement.row)
        match statement:
            case ast.CommandLine() | ast.If():
                return self._line(statement)
            case ast.IfBlock():
                return self._block(statement)
            case ast.For():
                return partial(self._for, statement)
            case ast.Sweep():
                return partial(self._sweep, statement)
            case ast.Macro():
                return lambda _: self._define(statement)

    def _warn_of_comment(self, row: ast.LineLayout) -> None:
        """Warn of a `#` that cuts a word, such as a URL."""
        if "#" not in "".join(piece.text for piece in row.line.pieces):
            return
        if (found := lines.swallowed(row)) is not None:
            place, rest = found
            message = f"`#` begins a comment, also within a word: {rest!r} is not read"
            self._machine.warn(message, place)

    def _block(self, block: ast.IfBlock) -> Step:
        branches: list[tuple[Test, Body]] = []
        for each in block.branches:
            test = (
                (lambda _: True) if each.condition is None else self._test(each.condition, each.row)
            )
            branches.append((test, each.body))

        def step(frame: Frame) -> None:
            for test, body in branches:
                if test(frame):
                    self.run(body, frame)
                    return

        return step

    def _test(self, tree: ast.Condition, row: ast.LineLayout) -> Test:
        try:
            return self._valid_test(tree, row)
        except ScriptError as error:
            # An invalid condition is an error only when it is reached.
            return partial(_fail, error)

    def _valid_test(self, tree: ast.Condition, row: ast.LineLayout) -> Test:
        macros, variables = self._machine.macros, self._machine.scope.variables
        match tree:
            case ast.VariableDefined(name=name):
                return lambda frame: name in frame or name in variables
            case ast.MacroDefined(name=name):
                if "$" not in name:
                    return lambda _: name in macros
                name_of = self._machine.scope.text_of(name)
                return lambda frame: needed(name_of(frame)) in macros
            case _:
                return condition(tree, self._machine.scope, partial(self._tell_of_test, row))

    def _tell_of_test(self, row: ast.LineLayout, message: str, operand: str, name: str) -> None:
        machine = self._machine
        # A loop would make the same warning with each pass.
        key = (message, id(row), *[id(level.row) for level in machine.stack])
        if key in self._warned:
            return
        self._warned.add(key)
        place, kinds = row.place(operand), machine.draft.column_kinds() or {}
        if kinds.get(name) == "number":
            message += f"; {name} is a result, which ASSERT judges: no script knows it"
        machine.warn(f"IF: {message}", place)

    # ---- loops ---------------------------------------------------------------------------

    def _for(self, statement: ast.For, frame: Frame) -> None:
        machine, name, near = self._machine, statement.variable, statement.values.text
        values = values_of(machine.scope.text_of(near)(frame), near=near)
        machine.spend(len(values))
        if name in frame:
            machine.cover("FOR", name, frame, statement.row)
        machine.warn_of_outer_loop("FOR", name, statement.row)
        variables = machine.scope.variables
        level = Level(statement.row, "FOR", name, {})
        for value in values:
            variables[name] = value
            level.turn(value)
            self.run(statement.body, frame, level)

    def _sweep(self, statement: ast.Sweep, frame: Frame) -> None:
        machine, row = self._machine, statement.row
        words_of = machine.scope.words_of([word.text for word in statement.words])
        cells = local.cells_of(machine, words_of(frame))
        local.check_seen(machine, cells.factors, frame)
        for name in cells.factors:
            machine.warn_of_outer_loop("SWEEP", name, row)
        if not cells.order:
            message = "SWEEP with reps=0 has no cell: nothing of it is run"
            machine.draft.warn(message, row.place("reps="), once=row)
        for name in cells.factors if cells.order else ():
            machine.draft.need_column(name, row.place(name), is_factor=True)
        for cell in cells:
            machine.notes.cells.append(cell)
            machine.stack.append(Level(row, "SWEEP", "", cell))
            try:
                self._run_cell(statement.body, frame, cells.until)
            finally:
                machine.stack.pop()
                machine.notes.cells.pop()

    def _run_cell(self, body: Body, frame: Frame, until: Until | None) -> None:
        machine = self._machine
        whole = machine.notes.cell()

        def run() -> None:
            variables = machine.scope.variables
            variables.update(machine.notes.factors())
            # A variable of the script's own keeps its value.
            if machine.sets_repetition or REPETITION not in variables:
                machine.sets_repetition = True
                variables[REPETITION] = machine.notes.cells[-1][REPETITION]
            before = [*machine.remote.open]
            try:
                self.run(body, frame)
            except EndOfScript:
                machine.finish_left(_END_OF_CELL, since=before)
                raise
            machine.finish_left(_END_OF_CELL, since=before)

        named = " ".join(f"{name}={value}" for name, value in whole.items())
        machine.run_part(named, whole, run, until=until)

    # ---- macros --------------------------------------------------------------------------

    def _define(self, macro: ast.Macro) -> None:
        machine = self._machine
        known = machine.macros.get(macro.name)
        if known is not None and known is not macro:
            line = known.row.line
            machine.draft.warn(
                f"macro {macro.name} is defined again (first at {line.file}:{line.number})",
                macro.row.place(macro.name),
            )
        machine.macros[macro.name] = macro

    def _run_macro(self, words: Words, row: ast.LineLayout) -> None:
        machine = self._machine
        spelled, comma, repetitions_text = words[0].partition(",")
        macro = self._find_macro(spelled, row)
        repetitions = 1
        if comma:
            repetitions = local.repetitions_of(repetitions_text, near=f",{repetitions_text}")
        arguments = macro_arguments(words)
        if len(arguments) < len(words) - 1:
            self._warn_of_others(words, row)
        machine.ran.add(macro.name)
        controls: Sequence[str] = ()
        if "," in arguments.get("ca", "") or looks_like_range(arguments.get("ca", "")):
            controls = values_of(arguments["ca"], near="ca=")
        machine.spend(repetitions * max(1, len(controls)))

        def run_once() -> None:
            variants = ({**arguments, "ca": ca} for ca in controls) if controls else (arguments,)
            for variant in variants:
                # DEFAULT adds to the frame of one run.
                self.run(macro.body, {**variant}, Level(row, "RUN", macro.name, variant))

        if repetitions == 1:
            run_once()
        else:
            for repetition in range(1, repetitions + 1):
                machine.run_part(f"{macro.name} rep={repetition}", {}, run_once)

    def _warn_of_others(self, words: Words, row: ast.LineLayout) -> None:
        """Warn of words that are not arguments; the classic tool ignores them silently.

        Words that come from spaces in a variable are an error: classic values contain no spaces.
        """
        written = {word.text for word in row.words}
        for word in words[1:]:
            if "=" in word:
                continue
            message = f"{needed(word)!r} is not name=value"
            if word not in written:
                remedy = 'Quote a variable whose value contains spaces: name="$variable".'
                raise MisuseError(message, remedy=remedy)
            key = (row.line.file, row.line.number, word)
            self._machine.draft.warn(f"{message}: RUN ignores it", row.place(word), once=key)

    def _find_macro(self, spelled: str, row: ast.LineLayout) -> ast.Macro:
        machine = self._machine
        macro = machine.macros.get(spelled)
        if macro is not None:
            return macro
        spelled = needed(spelled)
        alike = [name for name in machine.macros if name.casefold() == spelled.casefold()]
        if len(alike) == 1:
            # The paper itself runs twoFlowBaseStream for TwoFlowBaseStream.
            message = f"macro {spelled} is spelled {alike[0]}"
            machine.draft.warn(message, row.place(spelled), once=spelled)
            return machine.macros[alike[0]]
        raise NoMacroError(
            f"unknown macro {spelled}",
            near=(spelled,),
            remedy=hint(
                spelled, machine.macros, otherwise="Is a SOURCE of its library missing above?"
            ),
        )

    # ---- commands ------------------------------------------------------------------------

    def _line(self, line: ast.CommandLine | ast.If) -> Step:
        """The step of a line: a command, possibly after IFs."""
        tests: list[Test] = []
        while isinstance(line, ast.If):
            tests.append(self._test(line.condition, line.row))
            line = line.command
        try:
            command = self._command(line.row)
        except ScriptError as error:
            # An invalid line is an error only when it is reached.
            command = partial(_fail, error)
        if not tests:
            return command

        def step(frame: Frame) -> None:
            for test in tests:
                if not test(frame):
                    return
            command(frame)

        return step

    def _command(self, row: ast.LineLayout) -> Step:
        """The step of a command. MisuseError if it is invalid for any values of its variables."""
        name, raws = row.words[0].text, [word.text for word in row.words[1:]]
        if "$" not in name:
            return self._step_of(name, raws, row)
        # As if the line contained the value of the variable.
        names_of = self._machine.scope.words_of([name])
        words_of = self._machine.scope.words_of(raws)

        def step(frame: Frame) -> None:
            named = names_of(frame)
            if len(named) == 1:
                self._step_of(needed(named[0]), raws, row)(frame)
                return
            words = (*named, *words_of(frame))
            if words:
                self._step_of(needed(words[0]), words[1:], row, is_filled=True)(frame)

        return step

    def _step_of(
        self, name: str, raws: Sequence[str], row: ast.LineLayout, *, is_filled: bool = False
    ) -> Step:
        """The step of the command `name` with words as written, or (`is_filled`) substituted."""
        machine = self._machine
        match name:
            case "SET" | "DEFAULT":
                return self._assignment(name, raws, row, is_filled=is_filled)
            case "SET_EXP":
                return self._computation(raws, row)
            case "ASSERT":
                return self._claim(raws, row)
            case _ if name.startswith("HOST_SUFFIX="):
                name, raws = "HOST_SUFFIX", [name.partition("=")[2], *raws]
            case _:
                pass
        words_of = (lambda _: tuple(raws)) if is_filled else machine.scope.words_of(raws)
        if name in REMOTE:
            place = row.place()

            def send(frame: Frame) -> None:
                machine.remote.send(name, words_of(frame), place, machine.chain())
                if name == "STRESS_LINK":
                    # It is an experiment of its own.
                    local.wait_flows(machine, (), row)
                    local.process_exp(machine, (), row)

            return send
        handler = self._handlers.get(name)
        if handler is None:
            raise unknown_command(name, raws)

        def handle(frame: Frame) -> None:
            words = words_of(frame)
            local.check_count(name, words)
            handler(words, row)

        return handle

    def _assignment(
        self, command: str, raws: Sequence[str], row: ast.LineLayout, *, is_filled: bool
    ) -> Step:
        """SET and DEFAULT: substituted values stay whole, spaces included."""
        local.check_count(command, raws)
        machine, scope = self._machine, self._machine.scope
        raw_name, equals, _ = raws[0].partition("=")
        if not is_filled and ("$" in raw_name or not equals):
            text_of = scope.text_of(raws[0])

            def assign(frame: Frame) -> None:
                self._assignment(command, [text_of(frame)], row, is_filled=True)(frame)

            return assign
        name, raw = local.split_assignment(command, raws[0])
        value_of = (lambda _: raw) if is_filled else scope.text_of(raw)
        # With this, the macros of 2017 give the argument `exp` its default.
        is_default = (name, raw) == ("exp", "COUNTER")

        def set_(frame: Frame) -> None:
            value = value_of(frame)
            if name in frame:
                machine.cover(command, name, frame, row, is_meant=is_default)
            scope.set(name, value)

        def default(frame: Frame) -> None:
            if name in frame or name in scope.variables:
                return
            level = machine.running_macro()
            if level is None:
                scope.set(name, value_of(frame))
            else:
                frame[name] = scope.limited(name, value_of(frame))
                level.defaults.add(name)

        return set_ if command == "SET" else default

    def _computation(self, raws: Sequence[str], row: ast.LineLayout) -> Step:
        """SET_EXP."""
        local.check_count("SET_EXP", raws)
        machine, scope = self._machine, self._machine.scope
        raw_name, equals, text = " ".join(raws).partition("=")
        compute = Arithmetic(text, scope)

        def assign(name: str, frame: Frame) -> None:
            value = compute(frame)
            if name in frame:
                machine.cover("SET_EXP", name, frame, row)
            scope.set(name, value)

        if "$" in raw_name and equals:
            name_of = scope.text_of(raw_name.strip())
            return lambda frame: assign(check_name(name_of(frame)), frame)
        name, _ = local.split_assignment("SET_EXP", raw_name + equals)
        return lambda frame: assign(name, frame)

    def _claim(self, raws: Sequence[str], row: ast.LineLayout) -> Step:
        """ASSERT."""
        local.check_count("ASSERT", raws)
        text = " ".join(raws)
        colon = lines.find_colon(text, 0)
        claimed = text if colon < 0 else text[:colon]
        machine = self._machine
        message_of = machine.scope.words_of(
            [] if colon < 0 else [word.text for word in lines.cut_words(text, colon + 1)]
        )

        def step(frame: Frame) -> None:
            message = " ".join(message_of(frame))
            local.check_claim(machine, machine.scope.fill(claimed, frame), message, row)

        return step


def _fail(error: ScriptError, _: Frame) -> NoReturn:
    raise error


def macro_arguments(words: Words) -> dict[str, str]:
    """The arguments in the words of a RUN, the first of which names the macro. MisuseError for
    an invalid or repeated name."""
    check_once("RUN", words[1:])
    arguments: dict[str, str] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals:
            continue
        if not name:
            raise MisuseError(
                f"{plain(word)!r} is an argument without a name",
                near=(word,),
                remedy=f"Write no spaces around =: {LOCAL['RUN'].text}",
            )
        # `ca=$ca` with nothing in $ca passes nothing; the command that needs it will say so.
        if is_undefined(value) and undefined(value) == name:
            continue
        arguments[name if name.isidentifier() else check_name(name)] = value
    return arguments


def unknown_command(name: str, words: Sequence[str]) -> MisuseError:
    """The error of a line that begins with an unknown command; `words` are its other words."""
    if "=" in name and not name.startswith("="):
        return MisuseError(
            f"unknown command {name}",
            near=(name,),
            remedy="If it is an argument, end the line above with \\.",
        )
    if name in STRUCTURE:
        return MisuseError(
            f"{name} cannot come from a variable",
            near=(name,),
            remedy="Write it out: it begins or ends a block.",
        )
    joined = f"{name}_{words[0]}" if words else ""
    if joined in ALL_NAMES:
        return MisuseError(
            f"unknown command {name} {words[0]}", near=(name,), remedy=f"Did you mean {joined}?"
        )
    return MisuseError(
        f"unknown command {name}",
        near=(name,),
        remedy=_remedy_of_command(name),
    )


def _remedy_of_command(name: str) -> str:
    if found := nearest(name, ALL_NAMES):
        return f"Did you mean {found}?"
    if re.fullmatch(r"(?i)fi|od|end_?(if|for|sweep)", name):
        return "A block ends with DONE."
    return "docs/language.md lists the commands; all are written in capital letters."
