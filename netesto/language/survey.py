"""What a body uses, sets and runs, found without running it. Pure."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from netesto.language import ast
from netesto.language.lines import cut_words
from netesto.language.scope import parts, references, unwrapped
from netesto.language.steps import REPETITION

# Commands that take any text: an undefined variable in it stays as it is.
TEXT_COMMANDS = frozenset({"SET", "DEFAULT", "ECHO", "DESC"})

# A guard of a line: the line may not run.
CONDITIONAL = "?"

_BARE_NAME = re.compile(r"(?<![\w${.])[A-Za-z_]\w*(?!\w|\s*\()", re.ASCII)


@dataclass(frozen=True, slots=True)
class Use:
    """A line that needs the value of a variable. An optional variable may be omitted, but if it is
    passed to a macro, it must have a value."""

    name: str
    row: ast.LineLayout
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class MacroCall:
    """A RUN. `passed` maps its arguments to the variables in their values; those of `handed_on` are
    nothing but the variable of the same name, and not passed at all where that has no value.

    `is_open` says that a word of it holds arguments that only the run knows; `is_conditional`, that
    it may not run at all.
    """

    macro: str
    passed: dict[str, tuple[str, ...]]
    handed_on: frozenset[str]
    row: ast.LineLayout
    is_guarded: bool
    is_open: bool
    is_conditional: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """A macro, what its body does, and whether only some runs define it."""

    macro: ast.Macro
    inside: "Survey"
    is_conditional: bool


@dataclass(slots=True)
class Survey:
    """`mentioned` are all variables that occur, needed or not; `copies` the variables that go into
    the value of another, which they come with; `assigned` the variables that are set, `defaults`
    those that DEFAULT sets (in a macro: only there), `sets` the lines of SET, SET_EXP and DEFAULT
    by the variable; `computed` the names of those that only the run knows, as written; `commands`
    every line with a command, `loops` every FOR and SWEEP; `dead` the first line after an END."""

    uses: list[Use] = field(default_factory=list)
    copies: list[tuple[str, Use]] = field(default_factory=list)
    calls: list[MacroCall] = field(default_factory=list)
    assigned: set[str] = field(default_factory=set)
    defaults: set[str] = field(default_factory=set)
    sets: dict[str, ast.LineLayout] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)
    macros: list[Definition] = field(default_factory=list)
    commands: list[ast.LineLayout] = field(default_factory=list)
    loops: list[ast.For | ast.Sweep] = field(default_factory=list)
    dead: list[ast.LineLayout] = field(default_factory=list)

    def stems(self) -> Iterator[str]:
        """The begins of names that are put together: of `$flow$i` it is `flow`, which is undefined;
        what then stands there, `$flow1`, is replaced when its line gets it."""
        for word in (word for row in self.commands for word in row.words):
            for one, other in itertools.pairwise(parts(word.text)):
                if one.name and other.name:
                    yield one.name


def survey(body: Sequence[ast.Statement]) -> Survey:
    """What a body does, without the bodies of its macros."""
    found = Survey()
    _body(body, frozenset(), found)
    return found


def names_in(text: str) -> tuple[str, ...]:
    """The variables in a text as written."""
    return tuple(part.name for word in cut_words(text) for part in parts(word.text) if part.name)


def _body(body: Sequence[ast.Statement], guards: frozenset[str], found: Survey) -> None:
    ended = False
    for statement in body:
        if isinstance(statement, ast.Blank | ast.Remark | ast.RemarkBlock):
            continue
        if isinstance(statement, ast.Unread):
            found.dead += [] if statement.row is None else [statement.row]
            continue
        if ended and not isinstance(statement, ast.Macro):
            found.dead.append(statement.row)
            ended = False
        _statement(statement, guards, found)
        ended = ended or (isinstance(statement, ast.CommandLine) and statement.name == "END")


def _statement(statement: ast.Statement, guards: frozenset[str], found: Survey) -> None:
    match statement:
        case ast.CommandLine(row=row):
            _command(row, guards, found)
        case ast.If(condition=condition, command=command):
            _statement(command, guards | _guards(condition, found), found)
        case ast.IfBlock(branches=branches):
            for branch in branches:
                guarded = (
                    frozenset({CONDITIONAL})
                    if branch.condition is None
                    else _guards(branch.condition, found)
                )
                _body(branch.body, guards | guarded, found)
        case ast.For(row=row, variable=variable, values=values, body=body):
            _need(names_in(values.text), row, guards, found)
            _assign(variable, found)
            found.loops.append(statement)
            _body(body, guards, found)
        case ast.Sweep(row=row, words=words, body=body):
            found.loops.append(statement)
            for word in words:
                _need(names_in(word.text), row, guards, found)
                name = word.text.partition("=")[0]
                if name not in ast.SWEEP_OPTIONS:
                    _assign(name, found)
            _assign(REPETITION, found)
            _body(body, guards, found)
        case ast.Macro():
            inside = survey(statement.body)
            found.macros.append(Definition(statement, inside, CONDITIONAL in guards))
        case _:
            pass


def _guards(condition: ast.Condition, found: Survey) -> frozenset[str]:
    """What is known where the condition holds: `$variables` and macros that are defined, as
    `?$name` the variables that were tested for their value, and that it is CONDITIONAL."""
    match condition:
        case ast.VariableDefined(name=name):
            found.mentioned.add(name)
            return frozenset({CONDITIONAL, f"${name}"})
        case ast.MacroDefined(name=name):
            return frozenset({CONDITIONAL, name})
        case _:
            words = [each for each in ast.nodes(condition) if isinstance(each, ast.Operand)]
            names = [name for word in words for name in names_in(word.text)]
            found.mentioned.update(names)
            known = frozenset(f"{mark}{name}" for name in names for mark in ("$", "?$"))
            return known | {CONDITIONAL}


def _command(row: ast.LineLayout, guards: frozenset[str], found: Survey) -> None:
    name = row.words[0].text
    found.commands.append(row)
    names = [each for word in row.words for each in names_in(word.text)]
    found.mentioned.update(names)
    if name in {"SET", "DEFAULT", "SET_EXP"} and len(row.words) > 1:
        assigned = row.words[1].text.partition("=")[0]
        if name == "DEFAULT" and "$" not in assigned:
            found.defaults.add(assigned)
        else:
            _assign(assigned, found)
        found.sets.setdefault(assigned, row)
        if "$" not in assigned and name != "SET_EXP":
            found.copies += [
                (assigned, Use(each, row, is_optional=True))
                for each in names_in(row.words[1].text)
                if f"?${each}" not in guards
            ]
    if "$" in name:
        # It may be any command, including SET or SET_EXP.
        found.mentioned.update(_bare_names(" ".join(word.text for word in row.words[1:])))
        if len(row.words) > 1:
            _assign(row.words[1].text.partition("=")[0], found)
    if name == "SET_EXP":
        names += _bare_names(" ".join(word.text for word in row.words[1:]))
    if name == "RUN" and len(row.words) > 1:
        _call(row, guards, found)
    elif name not in TEXT_COMMANDS:
        _need(names, row, guards, found)


def _assign(name: str, found: Survey) -> None:
    (found.computed if "$" in name else found.assigned).add(name)


def _bare_names(assignment: str) -> list[str]:
    """The variables that SET_EXP names without a dollar; what a call names is a function."""
    return _BARE_NAME.findall(assignment.partition("=")[2])


def _call(row: ast.LineLayout, guards: frozenset[str], found: Survey) -> None:
    macro, _, repetitions = unwrapped(row.words[1].text).partition(",")
    _need(names_in(f"{macro} {repetitions}"), row, guards, found)
    passed: dict[str, tuple[str, ...]] = {}
    handed_on: set[str] = set()
    is_open = False
    for word in row.words[2:]:
        key, equals, value = unwrapped(word.text).partition("=")
        if not equals or "$" in key:
            is_open = True
            _need(names_in(word.text), row, guards, found)
        else:
            passed[key] = tuple(name for name in names_in(value) if f"${name}" not in guards)
            if value.replace('"', "") in references(key):
                handed_on.add(key)
    found.calls.append(
        MacroCall(
            macro,
            passed,
            frozenset(handed_on),
            row,
            macro in guards,
            is_open,
            CONDITIONAL in guards,
        )
    )


def _need(names: Sequence[str], row: ast.LineLayout, guards: frozenset[str], found: Survey) -> None:
    found.mentioned.update(names)
    is_optional = CONDITIONAL in guards
    found.uses += [Use(name, row, is_optional) for name in names if f"${name}" not in guards]
