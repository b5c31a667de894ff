"""exp.csv as an index into its bytes: a column becomes text or numbers when it is used.

A report looks at a few of some sixty columns. Finding the commas of a file is fast; making a
million Python strings that nobody reads is not. Most files, in which all rows have the same number
of cells, are used unchanged. Others are normalised line by line: blank lines and comments are
removed, short rows are filled, quoted cells get other separators.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from netesto.errors import ScriptError
from netesto.report.expscript import numerals
from netesto.report.expscript.lines import decoded
from netesto.text.printable import printable

# Files are checked in parts of this many bytes: a copy of some hundred megabytes costs more.
PART = 1 << 22
# The first rows suffice to recognise a ragged file; a thousand equal warnings would not help.
RAGGED_ROWS_TOLD = 3
COMMA, NEWLINE = b",", b"\n"
# Between cells and rows of a quoted file, whose cells may hold commas and line ends. ASCII has had
# them for this since 1963.
UNIT, RECORD = b"\x1f", b"\x1e"
# What keeps spreadsheets from executing a cell (results.csvfile).
_GUARDED = re.compile(rb"(^|[,\n\"])'(?='*[=+\-@\t\r])")

Floats: TypeAlias = NDArray[np.float64]
Booleans: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.intp]
_Places: TypeAlias = NDArray[np.unsignedinteger]
Warn: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CsvText:
    """Bytes with the separators between cells and after rows; rows begin at `start`.

    The last row may lack its end. `is_even`: rows are known to have equal numbers of cells.
    """

    header: list[str]
    data: bytes | bytearray
    start: int
    between: bytes = COMMA
    after: bytes = NEWLINE
    is_even: bool = False


def read(path: Path, *, warn: Warn) -> CsvText:
    """The file's bytes in UTF-8. ScriptError if it cannot be read, is empty, or is not text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScriptError(
            f"csv file {str(path)!r}: {error.strerror}",
            remedy="File=bbr/exp reads bbr/exp.csv, relative to the current directory.",
        ) from error
    if b"\0" in data or not _is_utf8(data):
        data = decoded(data, path, warn=warn).encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    if b"'" in data:
        data = _GUARDED.sub(rb"\1", data)
    if NEWLINE not in data:
        # Lines may end as they did on a Macintosh.
        data = data.replace(b"\r", NEWLINE)
    if b'"' in data:
        try:
            return _even(_quoted_lines(data), path, UNIT, RECORD, warn)
        except csv.Error as error:
            why = "unbalanced quotes"
            if "limit" in str(error):
                why = f"a quoted cell holds more than {csv.field_size_limit()} characters"
            warn(f"{path}: {why}: each comma ends a cell")
    end = data.find(NEWLINE)
    first = data[: max(0, end)]
    if not first or first != first.strip() or first.startswith(b"#"):
        return evened(data, path, warn=warn)
    return CsvText(first.decode().split(","), data, end + 1)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for place in range(0, len(data), PART):
            decoder.decode(data[place : place + PART])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def evened(data: bytes, path: Path, *, warn: Warn) -> CsvText:
    """The bytes without blank lines and comments, with rows of equal length. ScriptError if no row
    is left."""
    stripped = map(bytes.strip, io.BytesIO(data))
    lines = (line for line in stripped if line and not line.startswith(b"#"))
    return _even(lines, path, COMMA, NEWLINE, warn)


def _quoted_lines(data: bytes) -> Iterator[bytes]:
    """Rows of cells quoted as in RFC 4180, with UNIT between them. csv.Error if a quoted cell has
    no end."""
    between = UNIT.decode()
    for row in csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""), strict=True):
        if ",".join(row).strip() and not row[0].lstrip().startswith("#"):
            line = between.join(row)
            if RECORD.decode() in line or line.count(between) != len(row) - 1:
                # Pages show these characters in the same way.
                line = between.join(map(printable, row))
            yield line.encode()


def _even(lines: Iterable[bytes], path: Path, between: bytes, after: bytes, warn: Warn) -> CsvText:
    """The lines as rows that have as many cells as the first; the others are reported."""
    width, ragged = 0, 0
    header: list[str] = []
    even = bytearray()
    for number, line in enumerate(lines):
        count = line.count(between) + 1
        if not width:
            width, header = count, line.decode().split(between.decode())
            continue
        row = line
        if count != width:
            row = between.join((line.split(between) + [b""] * width)[:width])
            done = "empty cells are added" if count < width else "the others are left out"
            ragged += 1
            if ragged <= RAGGED_ROWS_TOLD:
                warn(f"{path}: row {number} has {count} cells, its header {width}: {done}")
        even += row
        even += after
    if not width:
        raise ScriptError(
            f"csv file {str(path)!r} is empty", remedy="Its first line names columns."
        )
    if ragged > RAGGED_ROWS_TOLD:
        warn(f"{path}: {ragged - RAGGED_ROWS_TOLD} more rows are short or long")
    return CsvText(header, even, 0, between, after, is_even=True)


_UNDERSCORE = ord("_")
# Lines that begin or end so are blank, comments, or have spaces around them.
_IRREGULAR_STARTS = tuple(b" \t\r\n\v\f#")
_IRREGULAR_ENDS = tuple(b" \t\r\v\f")
# Cells up to this many bytes are handled as one matrix; longer ones are prose.
PADDED_MAX = 48
# The number of rows and bytes to process at once, so that temporary arrays stay small.
ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 1 << 23


def load(path: Path, *, warn: Warn) -> tuple[list[str], "CsvCells"]:
    """The header's cells and the rows of `path`. ScriptError if it cannot be read or is empty.

    Blank lines and lines that begin with `#` are skipped. Cells may be quoted as in RFC 4180.
    """
    text = read(path, warn=warn)
    cells = CsvCells.of(text)
    if cells is None:
        text = evened(bytes(text.data), path, warn=warn)
        cells = CsvCells.of(text)
        assert cells is not None, "each row has as many cells as the header"
    return text.header, cells


class CsvCells:
    """The rows of a CSV file below its header: its bytes, and where each cell begins."""

    def __init__(self, text: CsvText, starts: _Places, count: int) -> None:
        self._data = text.data
        self._bytes = np.frombuffer(text.data, dtype=np.uint8)
        self._width = len(text.header)
        # The starts of the cells of all rows, one row after another, and the end of the last.
        self._starts = starts
        self.count = count

    @classmethod
    def of(cls, text: CsvText) -> "CsvCells | None":
        """None unless all rows have the same number of cells and no line has to be skipped."""
        data, width = np.frombuffer(text.data, dtype=np.uint8), len(text.header)
        # A last row without a line end is treated as if it had one, after the last byte.
        open_end = len(data) > text.start and data[-1] != ord(text.after)
        count = text.data.count(text.after, text.start) + open_end
        is_small = len(data) < np.iinfo(np.uint32).max
        kind: type[np.unsignedinteger] = np.uint32 if is_small else np.uint64
        starts: _Places = np.empty(count * width + 1, dtype=kind)
        starts[0] = text.start
        filled = 1
        for place in range(text.start, len(data), BYTES_AT_ONCE):
            part = data[place : place + BYTES_AT_ONCE]
            found = np.flatnonzero((part == ord(text.between)) | (part == ord(text.after)))
            if filled + len(found) > len(starts):
                return None
            starts[filled : filled + len(found)] = found + (place + 1)
            filled += len(found)
        if filled + open_end != len(starts):
            return None
        if open_end:
            starts[-1] = len(data) + 1
        if not (text.is_even or _is_regular(text, data, starts)):
            return None
        return cls(text, starts, count)

    def _parts(self, column: int, rows: Integers | None) -> Iterator[tuple[Integers, Integers]]:
        """Where cells begin and end, some rows at once."""
        starts = self._starts[column : -1 : self._width]
        nexts = self._starts[column + 1 :: self._width]
        count = self.count if rows is None else len(rows)
        for first in range(0, max(1, count), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            chosen = some if rows is None else rows[some]
            yield starts[chosen].astype(np.intp), nexts[chosen].astype(np.intp) - 1

    def _padded(self, starts: Integers, ends: Integers) -> NDArray[np.bytes_] | None:
        """The cells as bytes of equal length, None where some cell is long or all are empty."""
        lengths = ends - starts
        longest = int(lengths.max(initial=0))
        if not 0 < longest <= PADDED_MAX:
            return None
        offsets = np.arange(longest)
        last = len(self._bytes) - longest
        if last >= 0 and int(starts.max()) <= last:
            characters = sliding_window_view(self._bytes, longest)[starts]
        else:
            places = np.minimum(starts[:, None] + offsets, len(self._bytes) - 1)
            characters = self._bytes[places]
        characters[offsets >= lengths[:, None]] = 0
        padded: NDArray[np.bytes_] = characters.view(f"S{longest}").ravel()
        return padded

    def texts(self, column: int, rows: Integers | None) -> list[str]:
        """The column as written; `rows` None means all of them."""
        # Factors repeat a few values a thousand times: one string for each suffices.
        known: dict[bytes, str] = {}
        found: list[str] = []
        for starts, ends in self._parts(column, rows):
            padded = self._padded(starts, ends)
            raws = self._raws(starts, ends) if padded is None else padded.tolist()
            found += [known.get(raw) or known.setdefault(raw, raw.decode()) for raw in raws]
        return found

    def _raws(self, starts: Integers, ends: Integers) -> list[bytes]:
        return [
            bytes(self._data[start:end])
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def numbers(self, column: int, rows: Integers | None) -> tuple[Floats, Booleans]:
        """The column's numbers (nan for other cells), and which cells are numbers."""
        parts = [self._numbers(starts, ends) for starts, ends in self._parts(column, rows)]
        values, numeric = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(numeric)

    def _numbers(self, starts: Integers, ends: Integers) -> tuple[Floats, Booleans]:
        written = self._padded(starts, ends)
        if written is not None and not np.any(written.view(np.uint8) == _UNDERSCORE):
            # numpy reads 1_000 as a number, which a CSV file does not.
            numeric = ends > starts
            values = np.full(len(written), np.nan)
            try:
                values[numeric] = written[numeric].astype(np.float64)
            except ValueError:
                pass
            else:
                return values, numeric
        return parse_all([raw.decode() for raw in self._raws(starts, ends)])


def _is_regular(text: CsvText, data: NDArray[np.uint8], starts: _Places) -> bool:
    """Whether every row has its cells, and none is blank, a comment, or has spaces around it."""
    rows = starts[:: len(text.header)].astype(np.intp)
    ends = rows[1:] - 1
    # The last row may lack its line end.
    if np.any(data[ends[ends < len(data)]] != ord(text.after)):
        return False
    return not (
        np.isin(data[rows[:-1]], _IRREGULAR_STARTS).any()
        or np.isin(data[ends - 1], _IRREGULAR_ENDS).any()
    )


def parse_all(texts: Iterable[str]) -> tuple[Floats, Booleans]:
    """The numbers in `texts` (nan for other texts), and which are numbers."""
    known: dict[str, float | None] = {}
    parsed = [
        known[text] if text in known else known.setdefault(text, numerals.parse(text))
        for text in texts
    ]
    numeric = np.array([value is not None for value in parsed], dtype=np.bool_)
    values = np.array([np.nan if value is None else value for value in parsed], dtype=np.float64)
    return values, numeric
