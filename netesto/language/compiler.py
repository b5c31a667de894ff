"""Statements to steps: each line is taken apart once, and only filled in each time it runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from netesto.errors import ScriptError
from netesto.language import ast, lines, local
from netesto.language.arguments import check_once
from netesto.language.commands import ALL_NAMES, LOCAL, REMOTE, STRUCTURE
from netesto.language.expressions import Arithmetic, Test, condition
from netesto.language.machine import EndOfScript, Level, Machine, MacroEntry, Step, Steps
from netesto.language.ports import REPETITION
from netesto.language.scope import (
    Frame,
    MisuseError,
    check_name,
    is_undefined,
    joined,
    needed,
    plain,
    undefined,
)
from netesto.language.values import looks_like_range, values_of
from netesto.nearest import hint, nearest

Words: TypeAlias = tuple[str, ...]
Source: TypeAlias = Callable[[str, ast.Row], None]


_END_OF_CELL = "where its SWEEP cell ends"


class NoMacroError(MisuseError):
    """RUN names a macro that nothing has defined."""


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """The step of a line that is wrong in itself: it says so when it is reached, not before."""

    error: ScriptError

    def __call__(self, _: Frame) -> None:
        raise self.error


class Compiler:
    """Makes steps that act on a machine. `source` runs another file."""

    def __init__(self, machine: Machine, source: Source) -> None:
        self._machine = machine
        self._source = source

    def compile(self, body: Sequence[ast.Statement]) -> Steps:
        """The steps of a body, each with the line that it is blamed on."""
        steps: list[tuple[Step, ast.Row]] = []
        for statement in body:
            match statement:
                case ast.Command():
                    steps.append((self._command(statement.row), statement.row))
                case ast.If():
                    steps.append((self._if(statement), statement.row))
                case ast.IfBlock():
                    steps.append((self._if_block(statement), statement.branches[0].row))
                case ast.For():
                    steps.append((self._for(statement), statement.row))
                case ast.Sweep():
                    steps.append((self._sweep(statement), statement.row))
                case ast.Macro():
                    steps.append((self._define(statement), statement.row))
                case ast.Blank() | ast.Remark() | ast.RemarkBlock() | ast.Unread():
                    pass
        return tuple(steps)

    # ---- choices -------------------------------------------------------------------------

    def _test(self, tree: ast.Condition) -> Test:
        machine = self._machine
        match tree:
            case ast.VariableDefined(name=name):
                variables = machine.scope.variables
                return lambda frame: name in frame or name in variables
            case ast.MacroDefined(name=name):
                macros, name_of = machine.macros, machine.scope.text_of(name)
                if "$" in name:
                    return lambda frame: needed(name_of(frame)) in macros
                return lambda _: name in macros
            case _:
                return condition(tree, machine.scope)

    def _if(self, statement: ast.If) -> Step:
        # A chain becomes one step, so that a long one does not nest.
        tests = [self._test(statement.condition)]
        inner = statement.command
        while isinstance(inner, ast.If):
            tests.append(self._test(inner.condition))
            inner = inner.command
        command = self._command(inner.row)
        if len(tests) == 1:
            only = tests[0]

            def step(frame: Frame) -> None:
                if only(frame):
                    command(frame)

            return step

        def chained(frame: Frame) -> None:
            if all(test(frame) for test in tests):
                command(frame)

        return chained

    def _if_block(self, statement: ast.IfBlock) -> Step:
        run = self._machine.run
        branches = [
            (
                None if branch.condition is None else self._test(branch.condition),
                self.compile(branch.body),
            )
            for branch in statement.branches
        ]

        def step(frame: Frame) -> None:
            for test, body in branches:
                if test is None or test(frame):
                    run(body, frame)
                    return

        return step

    # ---- loops ---------------------------------------------------------------------------

    def _for(self, statement: ast.For) -> Step:
        machine, name = self._machine, statement.variable
        raws = [word.text for word in lines.cut_words(statement.values.text)]
        texts_of = [machine.scope.text_of(raw) for raw in raws]
        body = self.compile(statement.body)
        near = statement.values.text

        def step(frame: Frame) -> None:
            values = values_of(joined((text(frame) for text in texts_of), " "), near=near)
            machine.spend(len(values))
            if name in frame:
                message = f"FOR {name}: an argument of the macro has this name, and hides it"
                machine.warn_once(
                    (statement.row.line.file, near, name), message, statement.row, name
                )
            variables, run = machine.scope.variables, machine.run
            shown: dict[str, str] = {}
            machine.stack.append(Level(statement.row, "FOR", name, shown))
            try:
                for value in values:
                    variables[name] = shown[name] = str(value)
                    run(body, frame)
            finally:
                machine.stack.pop()

        return step

    def _sweep(self, statement: ast.Sweep) -> Step:
        machine = self._machine
        words_of = machine.scope.words_of([word.text for word in statement.words])
        body = self.compile(statement.body)

        def step(frame: Frame) -> None:
            cells = local.cells_of(machine, words_of(frame))
            local.check_seen(machine, cells.factors, frame)
            for name in cells.factors if cells.order else ():
                machine.port.need_column(name, statement.row.place(name), factor=True)
            for cell in cells:
                self._run_cell(statement.row, cell, body, frame)

        return step

    def _run_cell(self, row: ast.Row, cell: dict[str, str], body: Steps, frame: Frame) -> None:
        machine, notes = self._machine, self._machine.notes
        factors = {name: value for name, value in cell.items() if name != REPETITION}
        notes.cells.append(cell)
        notes.factors.append(factors)
        machine.stack.append(Level(row, "SWEEP", "", cell))
        try:
            whole = notes.cell()
            if not machine.port.is_cell_done(whole):
                named = " ".join(f"{name}={value}" for name, value in whole.items())

                def run() -> None:
                    machine.scope.variables.update(factors)
                    before = machine.remote.begun()
                    try:
                        machine.run(body, frame)
                    except EndOfScript:
                        machine.finish_left(_END_OF_CELL, since=before)
                        raise
                    machine.finish_left(_END_OF_CELL, since=before)
                    machine.port.cell_finished(whole)

                machine.run_part(named, whole, run)
            else:
                # What is claimed of it is judged elsewhere, see language.resume.
                machine.columns = {}
        finally:
            machine.stack.pop()
            notes.cells.pop()
            notes.factors.pop()

    # ---- macros --------------------------------------------------------------------------

    def _define(self, statement: ast.Macro) -> Step:
        machine = self._machine

        def step(_: Frame) -> None:
            known = machine.macros.get(statement.name)
            if known is not None and known.node is not statement:
                line = known.node.row.line
                machine.warn(
                    f"macro {statement.name} is defined again (first at {line.file}:{line.number})",
                    statement.row,
                    statement.name,
                )
            if known is None or known.node is not statement:
                machine.macros[statement.name] = MacroEntry(statement)

        return step

    def _run_macro(self, words: Words, row: ast.Row) -> None:
        local.check_count("RUN", words)
        machine = self._machine
        spelled, comma, repetitions_text = words[0].partition(",")
        entry = self._find_macro(spelled, row)
        repetitions = 1
        if comma:
            repetitions = local.repetitions_of(repetitions_text, near=f",{repetitions_text}")
        arguments = macro_arguments(words)
        if len(arguments) < len(words) - 1:
            self._warn_of_others(words, row)
        if entry.steps is None:
            entry.steps = self.compile(entry.node.body)
        steps, name = entry.steps, entry.node.name
        controls: Sequence[str] = ()
        if "," in arguments.get("ca", "") or looks_like_range(arguments.get("ca", "")):
            controls = values_of(arguments["ca"], near="ca=")
        machine.spend(repetitions * max(1, len(controls)))

        def run_once() -> None:
            variants = ({**arguments, "ca": ca} for ca in controls) if controls else (arguments,)
            self._run_variants(steps, variants, row, name)

        if repetitions == 1:
            run_once()
        else:
            for repetition in range(1, repetitions + 1):
                machine.run_part(f"{name} rep={repetition}", {}, run_once)

    def _warn_of_others(self, words: Words, row: ast.Row) -> None:
        """Words that are no arguments: the classic tool takes no notice of them, the author should.

        Those that a variable's blanks have made are an error: classic values hold no blanks.
        """
        written = {word.text for word in row.words}
        for word in words[1:]:
            if "=" in word:
                continue
            message = f"{needed(word)!r} is not name=value"
            if word not in written:
                remedy = 'A variable that holds blanks is passed in quotes: name="$variable".'
                raise MisuseError(message, remedy=remedy)
            key = (row.line.file, row.line.number, word)
            self._machine.warn_once(key, f"{message}: RUN leaves it out", row, word)

    def _run_variants(
        self, steps: Steps, variants: Iterable[Frame], row: ast.Row, name: str
    ) -> None:
        stack, run = self._machine.stack, self._machine.run
        for variant in variants:
            stack.append(Level(row, "RUN", name, variant))
            try:
                run(steps, variant)
            finally:
                stack.pop()

    def _find_macro(self, spelled: str, row: ast.Row) -> MacroEntry:
        machine = self._machine
        entry = machine.macros.get(spelled)
        if entry is not None:
            return entry
        spelled = needed(spelled)
        alike = [name for name in machine.macros if name.casefold() == spelled.casefold()]
        if len(alike) == 1:
            # The paper itself runs twoFlowBaseStream for TwoFlowBaseStream.
            machine.warn_once(spelled, f"macro {spelled} is spelled {alike[0]}", row, spelled)
            return machine.macros[alike[0]]
        raise NoMacroError(
            f"there is no macro {spelled}",
            near=(spelled,),
            remedy=hint(
                spelled, machine.macros, otherwise="Is the SOURCE of its library missing before?"
            ),
        )

    # ---- commands ------------------------------------------------------------------------

    def _command(self, row: ast.Row) -> Step:
        name = row.words[0].text
        raws = [word.text for word in row.words[1:]]
        try:
            if "$" not in name:
                special = self._special(name, raws, row)
                if special is not None:
                    return special
        except ScriptError as error:
            return _Unreadable(error)
        if "$" not in name:
            return self._known(name, raws, row)
        return self._from_variable(name, raws, row)

    def _from_variable(self, name: str, raws: list[str], row: ast.Row) -> Step:
        """The step of a line whose command comes from a variable: as if it stood there."""
        names_of = self._machine.scope.words_of([name])
        words_of = self._machine.scope.words_of(raws)

        def step(frame: Frame) -> None:
            named = names_of(frame)
            if len(named) == 1:
                special = self._special(needed(named[0]), raws, row)
                if special is not None:
                    special(frame)
                    return
            words = (*named, *words_of(frame))
            if not words:
                return
            command = needed(words[0])
            # The variable holds more than the command: what it computes may name arguments.
            is_computed = command in {"SET_EXP", "ASSERT"}
            special = self._special(command, list(words[1:]), row) if is_computed else None
            (special or self._known(command, words[1:], row, filled=True))(frame)

        return step

    def _special(self, name: str, raws: list[str], row: ast.Row) -> Step | None:
        """The step of a command whose words are not just filled in and cut."""
        match name:
            case "SET" | "DEFAULT":
                return self._assignment(name, raws, row)
            case "SET_EXP":
                return self._expression(raws)
            case "ASSERT":
                return self._claim(raws, row)
            case _:
                return None

    def _known(self, name: str, raws: Sequence[str], row: ast.Row, *, filled: bool = False) -> Step:
        """The step of a command by its name; `filled` words are used as they are."""
        machine = self._machine
        if name.startswith("HOST_SUFFIX="):
            name, raws = "HOST_SUFFIX", [name.partition("=")[2], *raws]
        words_of = (lambda _: tuple(raws)) if filled else machine.scope.words_of(raws)
        if name == "RUN":
            return lambda frame: self._run_macro(words_of(frame), row)
        if name == "SOURCE":

            def source(frame: Frame) -> None:
                words = words_of(frame)
                local.check_count("SOURCE", words)
                self._source(needed(words[0]), row)

            return source
        if name in REMOTE:
            place = row.place()

            def send(frame: Frame) -> None:
                machine.has_sent = True
                notes = machine.notes.of_experiment("")
                machine.remote.send(name, words_of(frame), place, machine.chain(), notes)

            return send
        handler = local.HANDLERS.get(name)
        if handler is None:
            return _Unreadable(unknown_command(name, raws))

        def handle(frame: Frame) -> None:
            words = words_of(frame)
            local.check_count(name, words)
            handler(machine, words, row)

        return handle

    def _assignment(self, command: str, raws: list[str], row: ast.Row) -> Step:
        """SET and DEFAULT: what variables bring in stays whole, blanks and all."""
        local.check_count(command, raws)
        raw_name, equals, raw_value = raws[0].partition("=")
        scope, variables = self._machine.scope, self._machine.scope.variables
        if "$" in raw_name or not equals:
            filled, handler = scope.text_of(raws[0]), local.HANDLERS[command]
            machine = self._machine
            return lambda frame: handler(machine, (filled(frame),), row)
        name, value_of, assign = check_name(raw_name), scope.text_of(raw_value), scope.set
        if command == "SET":
            return lambda frame: assign(name, value_of(frame))

        def default(frame: Frame) -> None:
            if name not in variables:
                assign(name, value_of(frame))

        return default

    def _expression(self, raws: list[str]) -> Step:
        local.check_count("SET_EXP", raws)
        scope = self._machine.scope
        raw_name, equals, text = " ".join(raws).partition("=")
        raw_name = raw_name.strip()
        compute, assign = Arithmetic(text, scope), scope.set
        if "$" in raw_name and equals:
            name_of = scope.text_of(raw_name)
            return lambda frame: assign(check_name(name_of(frame)), compute(frame))
        name, _ = local.split_assignment("SET_EXP", raw_name + equals)
        return lambda frame: assign(name, compute(frame))

    def _claim(self, raws: list[str], row: ast.Row) -> Step:
        local.check_count("ASSERT", raws)
        text = " ".join(raws)
        colon = lines.find_colon(text, 0)
        claimed = text if colon < 0 else text[:colon]
        message_of = self._machine.scope.words_of(
            [] if colon < 0 else [word.text for word in lines.cut_words(text, colon + 1)]
        )
        machine = self._machine

        def step(frame: Frame) -> None:
            message = " ".join(message_of(frame))
            local.check_claim(machine, machine.scope.fill(claimed, frame), message, row)

        return step


def macro_arguments(words: Words) -> dict[str, str]:
    """The arguments in the words of a RUN, the first of which names the macro. MisuseError if
    one of them has no name that a variable may have, or two have the same."""
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
                remedy=f"There are no blanks around the =. Write: {LOCAL['RUN'].text}",
            )
        # `ca=$ca` with nothing in $ca passes nothing; the command that needs it will say so.
        if is_undefined(value) and undefined(value) == name:
            continue
        arguments[name if name.isidentifier() else check_name(name)] = value
    return arguments


def unknown_command(name: str, words: Sequence[str]) -> MisuseError:
    """The error of a line whose first word is no command; `words` are the others."""
    if "=" in name and not name.startswith("="):
        return MisuseError(
            f"{name} is not a command",
            near=(name,),
            remedy="If it is an argument: does the line before it lack a \\ at its end?",
        )
    if name in STRUCTURE:
        return MisuseError(
            f"{name} cannot come from a variable",
            near=(name,),
            remedy="Write it in the script itself: it tells where a block begins or ends.",
        )
    joined = f"{name}_{words[0]}" if words else ""
    if joined in ALL_NAMES:
        return MisuseError(
            f"{name} {words[0]} is not a command", near=(name,), remedy=f"Did you mean {joined}?"
        )
    found = nearest(name, ALL_NAMES)
    return MisuseError(
        f"{name} is not a command",
        near=(name,),
        remedy=f"Did you mean {found}?" if found else "Commands are written in capital letters.",
    )


__all__ = ["Compiler"]
