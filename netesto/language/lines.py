"""Text to logical lines: comments cut, continuations joined, lines cut into words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from netesto.errors import Place, ScriptError
from netesto.language.ast import Break, Line, Piece, Row, Word

# A quote opens at the start of a word or of a value, so that 5" and don't stay what they are.
_OPENING = re.compile(r'(?<![^\s=,(:])"|#')
_CLOSING = re.compile(r'(?:\\.|[^"\\])*"')
_WORD = re.compile(r'(?:(?<![^\s=,(:])"(?:\\.|[^"\\])*"|\S)+')
_COLON = re.compile(r'(?<![^\s=,(:])"(?:\\.|[^"\\])*"|:')

BLANKS = " \t\r\f\v"


@dataclass(frozen=True, slots=True)
class Block:
    """A comment block, verbatim, both bracketing lines included."""

    lines: tuple[str, ...]


def read(text: str, *, file: str) -> Iterator[Row | Block]:
    """The logical lines of `text`, empty and comment-only ones as rows without words.

    ScriptError for a quote or a comment block that is never closed.
    """
    physical = text.split("\n")
    if physical[-1] == "":
        physical.pop()
    index = 0
    while index < len(physical):
        first = physical[index].strip(BLANKS)
        if first.startswith("BEGIN_COMMENT") and first.split()[0] == "BEGIN_COMMENT":
            end = _end_of_block(physical, index, file)
            inside = [line.rstrip(BLANKS) for line in physical[index + 1 : end]]
            yield Block((first, *inside, physical[end].strip(BLANKS)))
            index = end + 1
        elif '"' not in first and "\\" not in first:
            yield _plain_row(physical[index], index + 1, file)
            index += 1
        else:
            row, index = _joined_row(physical, index, file)
            yield row


def behind(row: Row, text: str) -> tuple[Row, ...]:
    """The physical lines behind a row of `text`, each on its own, whatever quotes are in them."""
    file, last = row.line.file, row.line.pieces[-1].number
    rest = text.removesuffix("\n").split("\n")[last:]
    return tuple(_plain_row(line, last + 1 + index, file) for index, line in enumerate(rest))


def cut_words(text: str, start: int = 0) -> tuple[Word, ...]:
    """The words of a line from `start` on."""
    return tuple([Word(match[0], match.start()) for match in _WORD.finditer(text, start)])


def find_colon(text: str, start: int) -> int:
    """Where the first colon outside of quotes is, from `start` on; -1 without one."""
    for match in _COLON.finditer(text, start):
        if match[0] == ":":
            return match.start()
    return -1


def _end_of_block(physical: list[str], index: int, file: str) -> int:
    for end in range(index + 1, len(physical)):
        if physical[end].split(None, 1)[:1] == ["END_COMMENT"]:
            return end
    text = physical[index].rstrip(BLANKS)
    column = len(text) - len(text.lstrip(BLANKS)) + 1
    raise ScriptError(
        "this comment block is never closed",
        place=Place(file, index + 1, column, len("BEGIN_COMMENT"), text),
        remedy="End it with END_COMMENT at the start of a line.",
    )


def _plain_row(physical: str, number: int, file: str) -> Row:
    """The row of a line that has neither quotes nor a continuation."""
    text, mark, comment = physical.partition("#")
    text = text.strip(BLANKS)
    column = len(physical) - len(physical.lstrip(BLANKS)) + 1
    line = Line(file, text, (Piece(0, number, column, physical.rstrip(BLANKS)),))
    return Row(cut_words(text), line, (), comment.rstrip(BLANKS) if mark else None)


@dataclass(slots=True)
class _Physical:
    """One physical line, taken apart. `open_at` is the column (from 0) of a quote left open."""

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


def _joined_row(physical: list[str], index: int, file: str) -> tuple[Row, int]:
    """The row that begins at physical line `index`, and the index behind it."""
    text, pieces, notes = "", list[Piece](), list[tuple[int, str]]()
    comment: str | None = None
    quote: Place | None = None
    while True:
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
            "this quote is never closed", place=quote, remedy='Close it with " on the same line.'
        )
    words = cut_words(text)
    breaks, comment = _breaks(words, notes, comment)
    return Row(words, Line(file, text, tuple(pieces)), breaks, comment), index


def _breaks(
    words: tuple[Word, ...], notes: list[tuple[int, str]], comment: str | None
) -> tuple[tuple[Break, ...], str | None]:
    """The continuations between words; comments of those that are not join the row's own."""
    breaks: dict[int, str] = {}
    rest = [] if comment is None else [comment]
    for length, note in notes:
        after = sum(word.start < length for word in words)
        if 0 < after < len(words):
            breaks[after] = breaks[after] + note if breaks.get(after) else note
        elif note:
            rest.append(note)
    return tuple(Break(*item) for item in breaks.items()), "".join(rest) if rest else None
