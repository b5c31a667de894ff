"""Splits text into logical lines: removes comments, joins continuations, splits lines into
words."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from netesto.errors import Place, ScriptError
from netesto.language.ast import Break, Line, LineLayout, Piece, RemarkBlock, Word

# A quote opens at the start of a word or of a value, so that 5" and don't stay what they are.
# (Repetitions are possessive: otherwise the matcher keeps a state for each step.)
_OPENING = re.compile(r'(?<![^\s=,(:])"|#')
_CLOSING = re.compile(r'(?:\\.|[^"\\]++)*+"')
_WORD = re.compile(r'(?:(?<![^\s=,(:])"(?:\\.|[^"\\]++)*+"|[^\s"]++|")++')
_WITHIN = re.compile(r"[^\s#]+")
_COLON = re.compile(r'(?<![^\s=,(:])"(?:\\.|[^"\\]++)*+"|:')

# The first and last line of a comment block; the rest of these lines is comment, too.
_BLOCK = re.compile(r"BEGIN_COMMENT(?!\w)")
_END_OF_BLOCK = re.compile(r"END_COMMENT(?!\w)")

# A file with longer or more lines is not a script.
MAX_LINE = 100_000
MAX_LINES = 100_000
# How much of a too long line is shown.
_SHOWN = 200

# All white space of Unicode except line ends, because a space pasted from a web page looks like a
# space.
BLANKS = (
    " \t\r\f\v\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

# Receives errors; if it returns, reading continues.
Report: TypeAlias = Callable[[ScriptError], None]


def refuse(error: ScriptError) -> NoReturn:
    """The Report that ends reading."""
    raise error


def read(text: str, *, file: str, report: Report = refuse) -> Iterator[LineLayout | RemarkBlock]:
    """The logical lines of `text`, empty and comment-only ones as rows without words.

    A quote or a comment block that is never closed, and a line that is too long, is a ScriptError:
    reported to `report`, and its line skipped.
    """
    physical = text.split("\n", MAX_LINES)
    if len(physical) > MAX_LINES and physical.pop():
        error = ScriptError(
            f"more than {MAX_LINES:,} lines",
            place=Place(file, MAX_LINES + 1),
            remedy="Is this a script? A loop repeats lines; SOURCE reads other files.",
        )
        report(error)
    if physical[-1] == "":
        physical.pop()
    index = 0
    while index < len(physical):
        first = physical[index].strip(BLANKS)
        if _BLOCK.match(first):
            end = _end_of_block(physical, index)
            if end is None:
                report(_never_closed(physical[index], index, file))
                return
            inside = [line.rstrip(BLANKS) for line in physical[index + 1 : end]]
            yield RemarkBlock((first, *inside, physical[end].strip(BLANKS)))
            index = end + 1
        elif len(first) > MAX_LINE:
            report(_too_long(physical[index], index, file))
            index = _behind_continued(physical, index)
        elif '"' not in first and "\\" not in first:
            yield _plain_row(physical[index], index + 1, file)
            index += 1
        else:
            try:
                row, index = _joined_row(physical, index, file)
            except ScriptError as error:
                report(error)
                index = _behind_continued(physical, index)
            else:
                yield row


def behind(row: LineLayout, text: str) -> tuple[LineLayout, ...]:
    """The physical lines after a row of `text`, whatever quotes are in them."""
    file, last = row.line.file, row.line.pieces[-1].number
    rest = text.removesuffix("\n").split("\n")[last:]
    return tuple(_plain_row(line, last + 1 + index, file) for index, line in enumerate(rest))


def cut_words(text: str, start: int = 0) -> tuple[Word, ...]:
    """The words of a line from `start` on."""
    return tuple([Word(match[0], match.start()) for match in _WORD.finditer(text, start)])


def find_colon(text: str, start: int) -> int:
    """The position of the first colon outside of quotes, from `start` on; -1 without one."""
    for match in _COLON.finditer(text, start):
        if match[0] == ":":
            return match.start()
    return -1


def swallowed(row: LineLayout) -> tuple[Place, str] | None:
    """The first `#` of a row that cuts a word, and the rest of that word; None without one."""
    for piece in row.line.pieces:
        comment = _take_apart(piece.text, in_quote=False).comment
        rest = _WITHIN.match(comment or "")
        if comment is not None and rest is not None:
            column = len(piece.text) - len(comment)
            if piece.text[column - 2 : column - 1] not in f"{BLANKS}#":
                return Place(row.line.file, piece.number, column, 1, piece.text), rest[0]
    return None


def _behind_continued(physical: list[str], index: int) -> int:
    """The index after a line and its continuations, whatever quotes are in them."""
    while index < len(physical) - 1 and _take_apart(physical[index], in_quote=False).continues:
        index += 1
    return index + 1


def _end_of_block(physical: list[str], index: int) -> int | None:
    for end in range(index + 1, len(physical)):
        if _END_OF_BLOCK.match(physical[end].strip(BLANKS)):
            return end
    return None


def _too_long(physical: str, index: int, file: str) -> ScriptError:
    return ScriptError(
        f"line longer than {MAX_LINE:,} characters, continuations included",
        place=Place(file, index + 1, 1, 1, physical[:_SHOWN]),
        remedy="A list may be put together in a variable: SET hosts=$hosts,$more.",
    )


def _never_closed(physical: str, index: int, file: str) -> ScriptError:
    text = physical.rstrip(BLANKS)
    column = len(text) - len(text.lstrip(BLANKS)) + 1
    return ScriptError(
        "unterminated comment block",
        place=Place(file, index + 1, column, len("BEGIN_COMMENT"), text),
        remedy="End it with END_COMMENT at the start of a line.",
    )


def _plain_row(physical: str, number: int, file: str) -> LineLayout:
    """The row of a line that has neither quotes nor a continuation."""
    text, mark, comment = physical.partition("#")
    text = text.strip(BLANKS)
    column = len(physical) - len(physical.lstrip(BLANKS)) + 1
    line = Line(file, text, (Piece(0, number, column, physical.rstrip(BLANKS)),))
    return LineLayout(cut_words(text), line, (), comment.rstrip(BLANKS) if mark else None)


@dataclass(slots=True)
class _Physical:
    """One physical line, split. `open_at` is the column (from 0) of an unterminated quote."""

    content: str
    column: int
    comment: str | None
    continues: bool
    open_at: int | None


def _take_apart(text: str, *, in_quote: bool) -> _Physical:
    position, open_at = 0, 0 if in_quote else None
    comment = None
    while True:
        if open_at is not None:
            closing = _CLOSING.match(text, position)
            if closing is None:
                break
            position, open_at = closing.end(), None
        opening = _OPENING.search(text, position)
        if opening is None:
            break
        if opening[0] == "#":
            comment = text[opening.end() :].rstrip(BLANKS)
            text = text[: opening.start()]
            break
        position, open_at = opening.end(), opening.start()
    stripped = text.strip(BLANKS)
    column = len(text) - len(text.lstrip(BLANKS)) + 1
    continues = stripped.endswith("\\")
    if continues:
        stripped = stripped.rstrip(BLANKS + "\\")
    return _Physical(stripped, column, comment, continues, open_at)


def _joined_row(physical: list[str], index: int, file: str) -> tuple[LineLayout, int]:
    """The row that begins at physical line `index`, and the index after it."""
    text, pieces, notes = "", list[Piece](), list[tuple[int, str]]()
    comment: str | None = None
    quote: Place | None = None
    first = index
    while True:
        if len(text) + len(physical[index]) > MAX_LINE:
            raise _too_long(physical[first], first, file)
        part = _take_apart(physical[index], in_quote=quote is not None)
        shown = physical[index].rstrip(BLANKS)
        if text and part.content:
            text += " "
        pieces.append(Piece(len(text), index + 1, part.column, shown))
        text += part.content
        if part.open_at is None:
            quote = None
        elif quote is None:
            quote = Place(file, index + 1, part.open_at + 1, 1, shown)
        index += 1
        if not part.continues or index == len(physical):
            comment = part.comment
            break
        if quote is None:
            notes.append((len(text), part.comment or ""))
    if quote is not None:
        raise ScriptError(
            "unterminated quote", place=quote, remedy='Close it with " on the same line.'
        )
    words = cut_words(text)
    breaks, comment = _breaks(words, notes, comment)
    return LineLayout(words, Line(file, text, tuple(pieces)), breaks, comment), index


def _breaks(
    words: tuple[Word, ...], notes: list[tuple[int, str]], comment: str | None
) -> tuple[tuple[Break, ...], str | None]:
    """The continuations between words; comments of those that are not join the row's own."""
    breaks: dict[int, list[str]] = {}
    rest: list[str] = []
    for length, note in notes:
        after = bisect_left(words, length, key=lambda word: word.start)
        if 0 < after < len(words):
            breaks.setdefault(after, []).append(note)
        else:
            rest.append(note)
    if comment is not None:
        rest.append(comment)
    joined = tuple(Break(after, _one_comment(several)) for after, several in breaks.items())
    return joined, _one_comment(rest) if comment is not None or any(rest) else None


def _one_comment(several: list[str]) -> str:
    """Comments joined by spaces."""
    first, *others = [each for each in several if each] or [""]
    return " ".join([first, *(each.lstrip(BLANKS) for each in others)])
