"""The tree of a script: frozen nodes, each of which knows its line; place is not identity."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from netesto.errors import Place

# ---- lines and words -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a logical line that one physical line gave: it begins at `start` of the joined
    text, and at `column` (from 1) of physical line `number`, which reads `text`."""

    start: int
    number: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A logical line: a physical line and its continuations, comments cut, joined by spaces."""

    file: str
    text: str
    pieces: tuple[Piece, ...]

    @property
    def number(self) -> int:
        """The physical line where it begins."""
        return self.pieces[0].number

    def place(self, start: int = 0, end: int | None = None) -> Place:
        """The place in the file of characters `start` to `end` of the joined text."""
        index = bisect_right(self.pieces, start, key=lambda piece: piece.start) - 1
        piece = self.pieces[max(index, 0)]
        column = piece.column + start - piece.start
        length = (len(self.text) if end is None else end) - start
        return Place(
            self.file,
            piece.number,
            column,
            max(1, min(length, len(piece.text) - column + 1)),
            piece.text,
        )


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, quotes and `$names` included; `start` is where it begins in its line."""

    text: str
    start: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Break:
    """A continuation: `\\` after the first `after` words, and the comment after it."""

    after: int
    comment: str = ""


@dataclass(frozen=True, slots=True)
class LineLayout:
    """A logical line as its author laid it out. `comment` is what follows `#`, None without one."""

    words: tuple[Word, ...]
    line: Line = field(compare=False, repr=False)
    breaks: tuple[Break, ...] = ()
    comment: str | None = None

    def place(self, *fragments: str) -> Place:
        """The place of the first of `fragments` that the row contains; else of its first word.

        A fragment `name=` means the value of that argument, `$` the first word with a variable.
        """
        for fragment in fragments:
            span = self._find(fragment) if fragment else None
            if span is not None:
                return self.line.place(*span)
        if not self.words:
            return self.line.place()
        return self.line.place(*_span(self.words[0]))

    def _find(self, fragment: str) -> tuple[int, int] | None:
        size = len(fragment)
        for word in self.words:
            start, end = _span(word)
            if word.text.startswith(fragment):
                if fragment.endswith("="):
                    return start + size, max(end, start + size + 1)
                if word.text[size : size + 1] in {"", "=", ",", ":"}:
                    return start, start + size
        if fragment.endswith("="):
            return None
        for word in self.words:
            start, end = _span(word)
            at = word.text.find(fragment)
            if at >= 0:
                return (start, end) if fragment == "$" else (start + at, start + at + size)
        at = self.line.text.find(fragment) if " " in fragment else -1
        return None if at < 0 else (at, at + size)


def _span(word: Word) -> tuple[int, int]:
    return word.start, word.start + len(word.text)


# ---- conditions and expressions --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operand:
    """A word of a condition, as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written, with its unit if it has one."""

    text: str


@dataclass(frozen=True, slots=True)
class Name:
    """A bare name: a variable in SET_EXP, a column in ASSERT."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name` in an expression."""

    name: str


@dataclass(frozen=True, slots=True)
class QuotedText:
    """A quoted text in ASSERT, without its quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `NOT x`."""

    operator: str
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`: arithmetic, comparison, AND, OR."""

    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`."""

    function: str
    arguments: tuple["Expression", ...]


Expression: TypeAlias = Operand | Number | Name | Variable | QuotedText | Unary | Binary | Call


def operands(tree: Expression) -> tuple[Expression, ...]:
    """The parts of an expression."""
    match tree:
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Call(arguments=arguments):
            return arguments
        case _:
            return ()


def nodes(tree: Expression) -> Iterator[Expression]:
    """An expression, then all parts of its parts, in the order they are written."""
    yield tree
    for part in operands(tree):
        yield from nodes(part)


@dataclass(frozen=True, slots=True)
class MacroDefined:
    """`IF_DEF name`."""

    name: str


@dataclass(frozen=True, slots=True)
class VariableDefined:
    """`IF_DEF $name`."""

    name: str


Condition: TypeAlias = Expression | MacroDefined | VariableDefined

# ---- statements ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blank:
    """One or more empty lines."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A line that holds only a comment."""

    text: str


@dataclass(frozen=True, slots=True)
class RemarkBlock:
    """BEGIN_COMMENT to END_COMMENT, verbatim, both lines included."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """The lines after the END of a script, verbatim; `row` is the first that is not a comment, None
    without one."""

    lines: tuple[str, ...]
    row: LineLayout | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A line without a body: the command word and its arguments."""

    row: LineLayout

    @property
    def name(self) -> str:
        """The command word as written; it may hold a `$name`."""
        return self.row.words[0].text


@dataclass(frozen=True, slots=True)
class If:
    """`IF condition: command` or `IF_DEF name: command`; the command may be one of them again."""

    row: LineLayout
    condition: Condition
    command: "CommandLine | If"


@dataclass(frozen=True, slots=True)
class Branch:
    """`IF condition DO`, `ELSE IF condition DO` or `ELSE` (condition None), and its body."""

    row: LineLayout
    condition: Condition | None
    body: tuple["Statement", ...]


@dataclass(frozen=True, slots=True)
class IfBlock:
    """IF … DO to DONE."""

    branches: tuple[Branch, ...]
    end: LineLayout

    @property
    def row(self) -> LineLayout:
        return self.branches[0].row


@dataclass(frozen=True, slots=True)
class For:
    """`FOR variable IN values DO` to DONE."""

    row: LineLayout
    variable: str
    values: Word
    body: tuple["Statement", ...]
    end: LineLayout


# What SWEEP takes besides factors.
SWEEP_OPTIONS = frozenset({"reps", "until", "order"})


@dataclass(frozen=True, slots=True)
class Sweep:
    """`SWEEP factor=values … DO` to DONE; SWEEP_OPTIONS are among the words."""

    row: LineLayout
    words: tuple[Word, ...]
    body: tuple["Statement", ...]
    end: LineLayout


@dataclass(frozen=True, slots=True)
class Macro:
    """`BEGIN name` to `END name`."""

    row: LineLayout
    name: str
    body: tuple["Statement", ...]
    end: LineLayout


# Statements without an effect.
Comment: TypeAlias = Blank | Remark | RemarkBlock | Unread
Statement: TypeAlias = Comment | CommandLine | If | IfBlock | For | Sweep | Macro


@dataclass(frozen=True, slots=True)
class Script:
    """A whole file."""

    body: tuple[Statement, ...]
