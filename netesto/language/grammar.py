"""Parses the text of an expression into its tree. Lark stays inside this module."""

import functools
import re
from importlib import resources
from typing import Literal, TypeAlias

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import UnexpectedCharacters

from netesto.errors import ScriptError
from netesto.language import ast

Form: TypeAlias = Literal["condition", "arithmetic", "claim"]

# Trees this deep are accidents; the limits keep them away from Python's own recursion limit.
MAX_OPERATORS = 100
MAX_EXPRESSION = 10_000

_OPERATOR = re.compile(r"[-+*/%(<>=,]|\b(?:AND|OR|NOT)\b")
_LOWER = re.compile(r"(?<!\S)(?:and|or|not)(?=[\s(])")


class UnreadableError(ScriptError):
    """An invalid expression; `position` and `length` are the place in its text."""

    def __init__(self, message: str, *, position: int, length: int = 1, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.position = position
        self.length = length


@v_args(inline=True)
class _Tree(Transformer[Token, ast.Expression]):
    def operand(self, word: Token) -> ast.Expression:
        return ast.Operand(str(word))

    def number(self, text: Token) -> ast.Expression:
        return ast.Number(str(text))

    def name(self, text: Token) -> ast.Expression:
        return ast.Name(str(text))

    def text(self, quoted: Token) -> ast.Expression:
        return ast.QuotedText(re.sub(r'\\(["\\])', r"\1", quoted[1:-1]))

    def variable(self, text: Token) -> ast.Expression:
        return ast.Variable(text.strip("${}"))

    def unary(self, operator: Token, operand: ast.Expression) -> ast.Expression:
        return ast.Unary(str(operator), operand)

    def binary(
        self, left: ast.Expression, operator: Token, right: ast.Expression
    ) -> ast.Expression:
        return ast.Binary(str(operator), left, right)

    def call(self, function: Token, *arguments: ast.Expression) -> ast.Expression:
        return ast.Call(str(function), arguments)

    def inner(self, expression: ast.Expression) -> ast.Expression:
        return expression


_APART = "Compute parts of it before, with SET_EXP."


@functools.cache
def _lark(form: Form) -> Lark:
    grammar = resources.files(__package__).joinpath("nts.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=form, transformer=_Tree())


@functools.lru_cache(maxsize=4096)
def parse_expression(form: Form, text: str) -> ast.Expression:
    """The tree of a condition, an arithmetic expression or a claim. UnreadableError if invalid."""
    if len(text) > MAX_EXPRESSION:
        raise UnreadableError(f"more than {MAX_EXPRESSION:,} characters", position=0, remedy=_APART)
    if len(_OPERATOR.findall(text)) > MAX_OPERATORS:
        raise UnreadableError(
            f"more than {MAX_OPERATORS} operators and parentheses",
            position=0,
            length=len(text),
            remedy=_APART,
        )
    try:
        tree = _lark(form).parse(text)
    except UnexpectedInput as error:
        raise _unreadable(text, error) from None
    assert not isinstance(tree, Token), "every rule makes a node"
    return tree  # type: ignore[return-value]  # lark does not know what the transformer makes


def _unreadable(text: str, error: UnexpectedInput) -> UnreadableError:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        end = len(text.rstrip())
        message = "unexpected end" if text.strip() else "empty expression"
        return UnreadableError(message, position=end, remedy=_remedy(text, end))
    position: int = 0
    found = text[:1]
    if isinstance(error, UnexpectedToken):
        position, found = int(error.token.start_pos or 0), str(error.token)
    elif isinstance(error, UnexpectedCharacters):
        position = int(error.pos_in_stream or 0)
        found = text[position : position + 1]
    return UnreadableError(
        f"{found!r} is unexpected here",
        position=position,
        length=len(found),
        remedy=_remedy(text, position),
    )


def _remedy(text: str, position: int) -> str:
    if text[position : position + 1] == "=" and "==" not in text[position - 1 : position + 2]:
        return "Compare with ==."
    if _LOWER.search(text):
        return "AND, OR and NOT are written in capital letters."
    if text.split(None, 1)[:1] == ["DEF"]:
        return "Did you mean IF_DEF?"
    return ""
