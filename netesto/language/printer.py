"""Prints a tree in the standard format; the output parses to the same tree, comments included.

Blocks are indented by four spaces; words are separated by one; the author's line breaks stay.
"""

from collections.abc import Iterator, Sequence

from netesto.language import ast

INDENT = "    "


def print_script(script: ast.Script) -> str:
    """The text of a script, for `netesto fmt`."""
    return "".join(f"{line}\n" for line in _body(script.body, 0))


def _body(body: Sequence[ast.Statement], depth: int) -> Iterator[str]:
    for statement in body:
        yield from _statement(statement, depth)


def _statement(statement: ast.Statement, depth: int) -> Iterator[str]:
    match statement:
        case ast.Blank():
            yield ""
        case ast.Remark(text=text):
            yield f"{INDENT * depth}#{text}"
        case ast.RemarkBlock(lines=lines) | ast.Unread(lines=lines):
            yield from lines
        case ast.CommandLine(row=row) | ast.If(row=row):
            yield from _row(row, depth)
        case ast.IfBlock(branches=branches, end=end):
            for branch in branches:
                yield from _row(branch.row, depth)
                yield from _body(branch.body, depth + 1)
            yield from _row(end, depth)
        case _:
            yield from _row(statement.row, depth)
            yield from _body(statement.body, depth + 1)
            yield from _row(statement.end, depth)


def _row(row: ast.LineLayout, depth: int) -> Iterator[str]:
    """The physical lines of a row: continued ones are indented once more."""
    words = [word.text for word in row.words]
    start = 0
    indent = INDENT * depth
    for each in row.breaks:
        line = f"{indent}{' '.join(words[start : each.after])} \\"
        yield f"{line}  #{each.comment}" if each.comment else line
        start, indent = each.after, INDENT * (depth + 1)
    line = f"{indent}{' '.join(words[start:])}"
    yield line if row.comment is None else f"{line}  #{row.comment}"
