"""Parses the text of a script into a tree of statements."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from netesto.errors import ScriptError
from netesto.language import ast, lines
from netesto.language.commands import ALL_NAMES
from netesto.language.grammar import UnreadableError, parse_expression

# Blocks this deep are accidents; the limit keeps them away from Python's own recursion limit.
MAX_NESTING = 50

_NAME = re.compile(r"\w+", re.ASCII)
_MACRO_NAME = re.compile(r"[\w.-]+", re.ASCII)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)


@dataclass(slots=True)
class _OpenBlock:
    """A block that has not ended yet."""

    kind: str
    row: ast.LineLayout
    statements: list[ast.Statement] = field(default_factory=list)
    variable: str = ""
    values: ast.Word = field(default_factory=lambda: ast.Word(""))
    condition: ast.Condition | None = None
    branches: list[ast.Branch] = field(default_factory=list)

    def branch(self) -> ast.Branch:
        return ast.Branch(self.row, self.condition, tuple(self.statements))

    def node(self, end: ast.LineLayout) -> ast.Statement:
        """The block, ended by the row `end`."""
        body, words = tuple(self.statements), self.row.words
        match self.kind:
            case "BEGIN":
                return ast.Macro(self.row, self.variable, body, end)
            case "FOR":
                return ast.For(self.row, self.variable, self.values, body, end)
            case "SWEEP":
                factors = words[1:-1] if words[-1].text == "DO" else words[1:]
                return ast.Sweep(self.row, factors, body, end)
            case _:
                return ast.IfBlock((*self.branches, self.branch()), end)


def parse(text: str, *, file: str, report: lines.Report = lines.refuse) -> ast.Script:
    """The tree of a script. Errors are reported, and the tree has the other lines. Blocks that are
    nested too deep raise a ScriptError."""
    parser = _BlockParser(file, report)
    for row in lines.read(text, file=file, report=report):
        parser.take(row)
        if isinstance(row, ast.LineLayout) and parser.is_over:
            parser.leave(lines.behind(row, text))
            break
    return parser.finish()


class _BlockParser:
    """Processes rows one by one; open blocks are a stack, so that no nesting is too deep for
    Python.

    `is_over` after the END of the script; an END in a block may never be reached.
    """

    def __init__(self, file: str, report: lines.Report) -> None:
        self._report = report
        self.is_over = False
        self._open = [
            _OpenBlock("", ast.LineLayout((), ast.Line(file, "", (ast.Piece(0, 1, 1, ""),))))
        ]

    def finish(self) -> ast.Script:
        while len(self._open) > 1:
            block = self._open.pop()
            self._report(_never_ended(block))
            self._add_block(block, block.row)
        return ast.Script(tuple(self._open[0].statements))

    def leave(self, behind: tuple[ast.LineLayout, ...]) -> None:
        """Keep the lines after the END of the script unparsed."""
        if behind:
            shown = tuple(row.line.pieces[0].text for row in behind)
            self._add(ast.Unread(shown, next((row for row in behind if row.words), None)))

    def take(self, row: ast.LineLayout | ast.RemarkBlock) -> None:
        if isinstance(row, ast.RemarkBlock):
            self._add(row)
        elif not row.words:
            self._take_empty(row)
        else:
            starter = _STARTERS.get(row.words[0].text)
            if starter is None:
                self._add(ast.CommandLine(row))
                return
            try:
                starter(self, row)
            except ScriptError as error:
                if len(self._open) > MAX_NESTING:
                    raise
                self._report(error)
                self._recover(row)

    def _recover(self, row: ast.LineLayout) -> None:
        """Continue after an invalid row: begin or end the block that it should begin or end, so
        that one error does not look like two."""
        words = row.words
        named = words[1].text.strip("${}") if len(words) > 1 else ""
        match words[0].text:
            case "BEGIN":
                self._end_macro(row)
                self._open.append(_OpenBlock("BEGIN", row, variable=named))
            case "END":
                self._end_macro(row)
            case "FOR":
                self._open.append(_OpenBlock("FOR", row, variable=named))
            case "SWEEP":
                self._open.append(_OpenBlock("SWEEP", row))
            case "IF" | "IF_DEF" if _opens_block(row):
                self._open.append(_OpenBlock("IF", row, condition=ast.Operand(row.line.text)))
            case _:
                pass

    def _end_macro(self, row: ast.LineLayout) -> None:
        """End the open macro, if there is one, with its open blocks."""
        while any(block.kind == "BEGIN" for block in self._open):
            self._add_block(self._open.pop(), row)

    def _add_block(self, block: _OpenBlock, end: ast.LineLayout) -> None:
        self._open[-1].statements.append(block.node(end))

    def _add(self, statement: ast.Statement) -> None:
        self._open[-1].statements.append(statement)

    def _push(self, block: _OpenBlock) -> None:
        if len(self._open) > MAX_NESTING:
            raise _wrong(
                block.row,
                f"more than {MAX_NESTING} nested blocks",
                "Is a DONE missing above? If not, put the inner blocks into a macro.",
            )
        self._open.append(block)

    def _take_empty(self, row: ast.LineLayout) -> None:
        statements = self._open[-1].statements
        if row.comment is not None:
            self._add(ast.Remark(row.comment))
        elif not statements or not isinstance(statements[-1], ast.Blank):
            self._add(ast.Blank())

    # ---- macros --------------------------------------------------------------------------

    def take_begin(self, row: ast.LineLayout) -> None:
        around = next((block for block in self._open if block.kind == "BEGIN"), None)
        if around is not None:
            raise _wrong(
                row,
                f"a macro cannot be defined inside macro {around.variable}",
                f"Is `END {around.variable}` missing before this line?",
            )
        if len(row.words) != 2:
            raise _wrong(
                row, "BEGIN takes one name", "Write: BEGIN name. Arguments are given to RUN."
            )
        name = row.words[1]
        if _MACRO_NAME.fullmatch(name.text) is None:
            raise _wrong(
                row,
                f"invalid macro name {name.text}",
                "Use letters, digits, `_`, `.` and `-`.",
                at=name,
            )
        if name.text in ALL_NAMES:
            raise _wrong(
                row,
                f"macro name {name.text} is the name of a command",
                "Choose another name for the macro.",
                at=name,
            )
        self._push(_OpenBlock("BEGIN", row, variable=name.text))

    def take_end(self, row: ast.LineLayout) -> None:
        if len(row.words) == 1:
            if any(block.kind == "BEGIN" and not block.variable for block in self._open):
                self._end_macro(row)
                return
            self._add(ast.CommandLine(row))
            self.is_over = len(self._open) == 1
            return
        block = self._open[-1]
        name = row.words[1]
        macro = next((block.variable for block in self._open if block.kind == "BEGIN"), None)
        if macro is None:
            raise _wrong(
                row, f"END {name.text} without BEGIN {name.text}", "END alone stops the script."
            )
        if name.text != macro or len(row.words) > 2:
            raise _wrong(
                row,
                f"END {name.text} inside macro {macro}",
                f"Write `END {macro}` to end the macro, or END alone to stop the script.",
                at=name,
            )
        if block.kind != "BEGIN":
            raise _never_ended(block)
        self._add_block(self._open.pop(), row)

    # ---- loops ---------------------------------------------------------------------------

    def take_for(self, row: ast.LineLayout) -> None:
        words = row.words
        if len(words) < 3 or words[2].text not in {"IN", "in"}:
            raise _wrong(row, "FOR needs a variable and IN", _FOR_REMEDY)
        if _NAME.fullmatch(words[1].text) is None:
            dollar = words[1].text.startswith("$")
            raise _wrong(
                row,
                f"invalid variable name {words[1].text}",
                f"Leave out the $: FOR {words[1].text.strip('${}')} IN …" if dollar else "",
                at=words[1],
            )
        if words[-1].text != "DO":
            raise _wrong(row, "FOR without DO at its end", _FOR_REMEDY, at=words[-1])
        values = ast.Word(" ".join(word.text for word in words[3:-1]), words[3].start)
        if not values.text:
            raise _wrong(row, "FOR without a list of values", _FOR_REMEDY)
        self._push(_OpenBlock("FOR", row, variable=words[1].text, values=values))

    def take_sweep(self, row: ast.LineLayout) -> None:
        if row.words[-1].text != "DO" or len(row.words) < 3:
            raise _wrong(
                row,
                "SWEEP needs factors and a DO at its end",
                "Write: SWEEP ca=reno,cubic rate=10,100 reps=3 DO",
                at=row.words[-1],
            )
        self._push(_OpenBlock("SWEEP", row))

    def take_done(self, row: ast.LineLayout) -> None:
        if len(row.words) > 1:
            raise _wrong(
                row,
                "DONE stands alone",
                "Put the rest on the next line.",
                at=row.words[1],
            )
        block = self._open[-1]
        if block.kind in {"", "BEGIN"}:
            where = f" in macro {block.variable}" if block.kind else ""
            raise _wrong(
                row,
                f"DONE without a FOR, SWEEP or IF … DO{where}",
                "Is there one DONE too many, or a DO missing above?",
            )
        self._add_block(self._open.pop(), row)

    # ---- choices -------------------------------------------------------------------------

    def take_if(self, row: ast.LineLayout) -> None:
        if _opens_block(row):
            condition = _condition(row, row.words[0], row.words[-1].start)
            self._push(_OpenBlock("IF", row, condition=condition))
        else:
            self._add(_one_line_if(row, row.words[0], 0))

    def take_else(self, row: ast.LineLayout) -> None:
        block = self._open[-1]
        if block.kind != "IF":
            raise _wrong(
                row,
                "ELSE without an IF … DO before it",
                "The IF of an ELSE has a block: IF condition DO … ELSE … DONE",
            )
        if block.condition is None:
            raise _wrong(
                row,
                "ELSE after the final ELSE",
                "Conditions come before it: ELSE IF condition DO",
            )
        condition = None
        words = row.words
        if len(words) > 1:
            is_if = words[1].text in {"IF", "IF_DEF"}
            if not is_if or words[-1].text != "DO":
                raise _wrong(
                    row,
                    "ELSE stands alone, or is ELSE IF condition DO",
                    "Put the commands on the following lines.",
                    at=words[1],
                )
            condition = _condition(row, words[1], words[-1].start)
        block.branches.append(block.branch())
        block.row, block.condition, block.statements = row, condition, []

    def take_misplaced(self, row: ast.LineLayout) -> None:
        raise _wrong(row, *_MISPLACED[row.words[0].text])


# The errors of words that begin no line: they are continued or stray, or keywords of other
# languages, which as unknown commands would be skipped with the branch that they should end.
_MISPLACED: Mapping[str, tuple[str, str]] = {
    "BEGIN_COMMENT": (
        "BEGIN_COMMENT on a continued line",
        "Delete the \\ at the end of the line before.",
    ),
    "END_COMMENT": (
        "END_COMMENT without a BEGIN_COMMENT before it",
        "Both stand at the start of a line.",
    ),
    **{
        word: (f"unknown command {word}", f"Did you mean {meant}?")
        for meant, words in (
            ("ELSE", ("ELSE:", "else")),
            (
                "ELSE IF condition DO",
                ("ELSEIF", "ELSIF", "ELIF", "ELSE_IF", "ELSEIF_DEF", "ELSE_IF_DEF"),
            ),
        )
        for word in words
    },
}

_FOR_REMEDY = "Write: FOR name IN a,b,c DO"

_STARTERS: Mapping[str, Callable[[_BlockParser, ast.LineLayout], None]] = {
    "BEGIN": _BlockParser.take_begin,
    "END": _BlockParser.take_end,
    "FOR": _BlockParser.take_for,
    "SWEEP": _BlockParser.take_sweep,
    "DONE": _BlockParser.take_done,
    "IF": _BlockParser.take_if,
    "IF_DEF": _BlockParser.take_if,
    "ELSE": _BlockParser.take_else,
    **dict.fromkeys(_MISPLACED, _BlockParser.take_misplaced),
}


def _opens_block(row: ast.LineLayout) -> bool:
    """Whether an IF is one with a block, and not with a colon."""
    return row.words[-1].text == "DO" and lines.find_colon(row.line.text, 0) < 0


def _one_line_if(row: ast.LineLayout, keyword: ast.Word, depth: int) -> ast.If:
    """The IF that begins at `keyword`; `depth` counts the ones before it on the line."""
    text = row.line.text
    after = keyword.start + len(keyword.text)
    colon = lines.find_colon(text, after)
    if colon < 0:
        raise _wrong(
            row,
            f"this {keyword.text} has neither a `:` with a command nor a DO at its end",
            f"Write `{keyword.text} …: command`, or `{keyword.text} … DO` and DONE.",
            at=keyword,
        )
    if depth == MAX_NESTING:
        raise _wrong(
            row, f"more than {MAX_NESTING} IFs in one line", "Join conditions by AND.", at=keyword
        )
    condition = _condition(row, keyword, colon)
    words = lines.cut_words(text, colon + 1)
    if not words:
        raise ScriptError(
            "missing command after `:`",
            place=row.line.place(colon, colon + 1),
            remedy=f"Write `{keyword.text} …: command`.",
        )
    first = words[0]
    if first.text in {"IF", "IF_DEF"}:
        return ast.If(row, condition, _one_line_if(row, first, depth + 1))
    if first.text in _STARTERS and (first.text != "END" or len(words) > 1):
        raise _wrong(
            row,
            f"{first.text} is not allowed in a one-line IF",
            "Use the block form: IF condition DO … DONE",
            at=first,
        )
    return ast.If(row, condition, ast.CommandLine(ast.LineLayout(words, row.line)))


def _condition(row: ast.LineLayout, keyword: ast.Word, end: int) -> ast.Condition:
    """The condition between `keyword` and offset `end` of the row."""
    start = keyword.start + len(keyword.text)
    text = row.line.text[start:end]
    if keyword.text == "IF_DEF":
        return _definition(row, keyword, text.strip(lines.BLANKS))
    try:
        return parse_expression("condition", text)
    except UnreadableError as error:
        begin = start + error.position
        raise ScriptError(
            f"invalid condition: {error.message}",
            place=row.line.place(begin, begin + error.length),
            remedy=error.remedy or "Examples: IF $x: …   IF $ca == bbr AND $dur > 10: …",
        ) from None


def _definition(row: ast.LineLayout, keyword: ast.Word, name: str) -> ast.Condition:
    variable = _VARIABLE.fullmatch(name)
    if variable is not None:
        return ast.VariableDefined(variable[1] or variable[2])
    if not name or " " in name or "\t" in name:
        raise _wrong(
            row,
            "IF_DEF takes one name",
            "Write `IF_DEF name: …` for a macro, `IF_DEF $name: …` for a variable.",
            at=keyword,
        )
    return ast.MacroDefined(name)


def _never_ended(block: _OpenBlock) -> ScriptError:
    end = f"END {block.variable}" if block.kind == "BEGIN" else "DONE"
    return _wrong(block.row, f"unterminated {block.kind}", f"`{end}` is missing.")


def _wrong(
    row: ast.LineLayout, message: str, remedy: str = "", *, at: ast.Word | None = None
) -> ScriptError:
    """The error of a row, at its first word or at another one."""
    word = at or row.words[0]
    place = row.line.place(word.start, word.start + len(word.text))
    return ScriptError(message, place=place, remedy=remedy)
