"""Text to tree for the expressions of NewCol; nothing is ever handed to Python to evaluate.

Columns may have any name: if several match at a place, the longest existing one counts.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from netesto.errors import ScriptError
from netesto.report.expscript import numerals
from netesto.report.expscript.csvcells import Warn
from netesto.report.expscript.dataset import nearest


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number, and its text as written, which is what joining uses."""

    value: float
    written: str


@dataclass(frozen=True, slots=True)
class TextLiteral:
    text: str


@dataclass(frozen=True, slots=True)
class ColumnName:
    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A function or an operator of its arguments; `-` and `not` may have a single one."""

    function: str
    arguments: tuple["Expression", ...]


Expression: TypeAlias = NumberLiteral | TextLiteral | ColumnName | Operation


@dataclass(frozen=True, slots=True)
class _Token:
    """`kind`: number, text, column, function, operator, or end."""

    kind: str
    text: str


_NUMBER = re.compile(r"[\d.]+(?:(?<=\d)[eE][+-]?\d+|[KMG](?!\w))?")

# The precedence of operators; `&` joins texts and has the precedence of `*`.
_BINDING = {
    "or": 1, "and": 2,
    "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4,
    "+": 5, "-": 5, "*": 6, "/": 6, "&": 6,
}  # fmt: skip
_NOT_BINDS, _MINUS_BINDS = 3, 7
_ARITHMETIC = frozenset("+-*/&")


def parse(
    text: str, *, columns: Collection[str], functions: Collection[str], new: str, warn: Warn
) -> Expression:
    """The tree of an expression for the column `new`. ScriptError if it cannot be read.

    Classic forms are valid, with a warning: an empty expression is 0, an operator at the end is
    ignored, and a missing operand makes every cell `*`.
    """
    tokens = tuple(_tokens(text, columns, functions, new))
    if len(tokens) == 1:
        warn(f"NewCol {new}: empty expression; every cell is 0.0")
        return NumberLiteral(0.0, "0.0")
    return _ExpressionParser(tokens, text, new, warn).whole()


def _tokens(
    text: str, columns: Collection[str], functions: Collection[str], new: str
) -> Iterator[_Token]:
    where = f"NewCol {new}: "
    known = sorted(filter(None, columns))
    forms = _forms(known, functions)
    position = 0
    while match := forms.match(text, position):
        kind = match.lastgroup or ""
        written, start = match[kind], match.start(kind)
        number = _NUMBER.match(text, start)
        if kind == "column" and number and len(number[0]) >= len(written):
            kind, written = "number", number[0]
        position = start + len(written)
        if kind == "number" and numerals.parse(written) is None:
            raise ScriptError(
                f"{where}malformed number {written!r} in the expression {text!r}",
                remedy="Numbers are written 12, 0.5 or 64K.",
            )
        if kind == "quoted":
            kind = "column" if written[0] == "`" else "text"
            written = written[1:-1]
        if kind == "word" or (kind == "column" and written not in known):
            raise ScriptError(
                f"{where}no column {written!r} for the expression {text!r}",
                remedy=nearest(written, known),
            )
        if kind == "other":
            raise ScriptError(
                f"{where}unexpected {written!r} in the expression {text!r}",
                remedy="Write the name of a column as it is, or in `backticks`.",
            )
        yield _Token(kind, written)
    yield _Token("end", "")


def _forms(columns: Collection[str], functions: Collection[str]) -> re.Pattern[str]:
    """The kinds of tokens, in the order in which they are tried."""
    longest_first = sorted(columns, key=len, reverse=True)
    # A name that ends in a letter or a digit is meant as a whole word.
    names = (re.escape(name) + (r"(?!\w)" if _is_word(name[-1]) else "") for name in longest_first)
    forms = {
        # There are columns called exp and min; before a parenthesis the name is that of a function.
        "function": rf"(?:{'|'.join(functions)})(?=\s*\()",
        "column": "|".join(names) or "(?!)",
        "number": _NUMBER.pattern,
        "quoted": r"(?P<quote>[\"'`]).*?(?P=quote)",
        "operator": r"==|!=|<=|>=|[-+*/&(),<>]|(?:and|or|not)(?!\w)",
        "word": r"[^\W\d]\w*",
        "other": r"\S",
    }
    return re.compile(rf"\s*(?:{'|'.join(f'(?P<{kind}>{form})' for kind, form in forms.items())})")


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


class _ExpressionParser:
    """Top-down operator precedence (V. Pratt, POPL 1973)."""

    def __init__(self, tokens: tuple[_Token, ...], text: str, new: str, warn: Warn) -> None:
        self._tokens = tokens
        self._position = 0
        self._text = text
        self._new = new
        self._warn = warn

    def whole(self) -> Expression:
        tree = self._expression(0)
        if not self._at_end():
            raise self._wrong(f"unexpected {self._now.text!r}", "parentheses must be in pairs")
        return tree

    @property
    def _now(self) -> _Token:
        return self._tokens[self._position]

    def _at_end(self) -> bool:
        return self._now.kind == "end"

    def _take(self) -> _Token:
        token = self._now
        self._position += 1
        return token

    def _sees(self, *operators: str) -> bool:
        return self._now.kind == "operator" and self._now.text in operators

    def _expression(self, binding: int) -> Expression:
        left = self._leading(binding)
        while self._now.kind == "operator" and _BINDING.get(self._now.text, 0) > binding:
            operator = self._take().text
            if self._at_end() or self._sees(")", ","):
                self._warn(f"NewCol {self._new}: {operator!r} at the end is left out")
                return left
            left = Operation(operator, (left, self._right(operator)))
        if self._now.kind not in {"operator", "end"} or self._sees("("):
            raise self._wrong(
                f"missing operator before {self._now.text!r}",
                "write one of + - * / & between two operands",
            )
        return left

    def _leading(self, binding: int) -> Expression:
        """An operand at the beginning of an expression, where a minus may stand."""
        if self._sees("-"):
            self._take()
            return Operation("-", (self._expression(_MINUS_BINDS),))
        if self._sees("not"):
            self._take()
            return Operation("not", (self._expression(_NOT_BINDS),))
        return self._operand() if binding != 0 or not self._sees(*_ARITHMETIC) else self._missing()

    def _right(self, operator: str) -> Expression:
        if operator in _ARITHMETIC and self._sees(*_ARITHMETIC):
            return self._missing()
        return self._expression(_BINDING[operator])

    def _missing(self) -> Expression:
        self._warn(
            f"NewCol {self._new}: missing operand before {self._now.text!r} in {self._text!r}; "
            "every cell is '*'; write a negative number as (-1)"
        )
        return TextLiteral(numerals.NOT_A_NUMBER)

    def _operand(self) -> Expression:
        token = self._take()
        match token.kind:
            case "number":
                return NumberLiteral(numerals.parse(token.text) or 0.0, token.text)
            case "text":
                return TextLiteral(token.text)
            case "column":
                return ColumnName(token.text)
            case "function":
                return Operation(token.text, self._arguments())
            case "operator" if token.text == "(":
                inner = self._expression(0)
                self._close()
                return inner
            case "end":
                raise self._wrong("the expression ends too early", "an operand is missing")
            case _:
                raise self._wrong(f"unexpected {token.text!r}", "an operand is missing before it")

    def _arguments(self) -> tuple[Expression, ...]:
        self._take()
        arguments = [] if self._sees(")") else [self._expression(0)]
        while self._sees(","):
            self._take()
            arguments.append(self._expression(0))
        self._close()
        return tuple(arguments)

    def _close(self) -> None:
        if not self._sees(")"):
            raise self._wrong("a '(' is not closed", "add a ')'")
        self._take()

    def _wrong(self, what: str, remedy: str) -> ScriptError:
        return ScriptError(
            f"NewCol {self._new}: {what} in the expression {self._text!r}", remedy=remedy
        )
