"""exp.csv as an index into its bytes: a column becomes text or numbers when it is asked for.

A report looks at a few of some sixty columns. Finding the commas of a file is fast; making a
million Python strings that nobody reads is not.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from netesto.errors import ScriptError
from netesto.report.expscript import numerals, textfile

Floats: TypeAlias = NDArray[np.float64]
Booleans: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.intp]
Warn: TypeAlias = Callable[[str], None]

_COMMA, _NEWLINE, _UNDERSCORE = (ord(character) for character in ",\n_")
# Cells up to so many bytes are handled as one matrix; longer ones are prose.
PADDED_MAX = 48
# A ragged file is told by its first rows; a thousand equal warnings help nobody.
RAGGED_ROWS_TOLD = 3


class Cells(Protocol):
    """The rows of a CSV file below its header. `rows` None means all of them."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        ...

    def texts(self, column: int, rows: Integers | None) -> list[str]:
        """The column as written."""
        ...

    def numbers(self, column: int, rows: Integers | None) -> tuple[Floats, Booleans]:
        """The column's numbers (nan where there is none), and where there is one."""
        ...


def load(path: Path, *, warn: Warn) -> tuple[list[str], Cells]:
    """The header's cells and the rows of `path`. ScriptError if it cannot be read or is empty.

    Blank lines and lines that begin with `#` are skipped. Cells may be quoted as in RFC 4180.
    """
    try:
        text = textfile.decoded(path.read_bytes(), path, warn=warn)
    except OSError as error:
        raise ScriptError(
            f"csv file {str(path)!r}: {error.strerror}",
            remedy="File=bbr/exp reads bbr/exp.csv, relative to the current directory",
        ) from error
    if '"' in text:
        try:
            return _load_quoted(path, text, warn=warn)
        except csv.Error:
            warn(f"{path}: its quotes are not in pairs: each comma ends a cell")
    lines = [
        stripped
        for line in text.split("\n")
        if (stripped := line.strip()) and not stripped.startswith("#")
    ]
    if not lines:
        raise ScriptError(f"csv file {str(path)!r} is empty", remedy="its first line names columns")
    header = lines[0].split(",")
    body = memoryview(("\n".join(lines[1:]) + "\n").encode() if lines[1:] else b"")
    indexed = IndexedCells.of(body, len(lines) - 1, len(header))
    if indexed is not None:
        return header, indexed
    rows = [line.split(",") for line in lines[1:]]
    return header, SplitCells(_even(rows, len(header), path, warn=warn))


def _load_quoted(path: Path, text: str, *, warn: Warn) -> tuple[list[str], Cells]:
    """csv.Error if a quoted cell has no end."""
    records = [
        row
        for row in csv.reader(io.StringIO(text, newline=""), strict=True)
        if ",".join(row).strip() and not row[0].lstrip().startswith("#")
    ]
    if not records:
        raise ScriptError(f"csv file {str(path)!r} is empty", remedy="its first line names columns")
    return records[0], SplitCells(_even(records[1:], len(records[0]), path, warn=warn))


def _even(rows: list[list[str]], width: int, path: Path, *, warn: Warn) -> list[list[str]]:
    """Pad short rows and cut long ones, and say so."""
    ragged = [number for number, row in enumerate(rows, start=1) if len(row) != width]
    for number in ragged[:RAGGED_ROWS_TOLD]:
        row = rows[number - 1]
        done = "blanks are added" if len(row) < width else "the others are left out"
        warn(f"{path}: row {number} has {len(row)} cells, its header {width}: {done}")
    if len(ragged) > RAGGED_ROWS_TOLD:
        warn(f"{path}: {len(ragged) - RAGGED_ROWS_TOLD} more rows are short or long")
    for number in ragged:
        row = rows[number - 1]
        rows[number - 1] = (row + [""] * (width - len(row)))[:width]
    return rows


class IndexedCells:
    """An even, unquoted file: its bytes, and where each cell ends."""

    def __init__(self, body: memoryview, ends: NDArray[np.int32], width: int) -> None:
        self._body = body
        self._bytes = np.frombuffer(body, dtype=np.uint8)
        self._width = width
        # Each cell begins behind the separator of the cell before; the first behind nothing.
        self._ends = np.concatenate((np.array([-1], dtype=np.int32), ends))

    @classmethod
    def of(cls, body: memoryview, count: int, width: int) -> "IndexedCells | None":
        """None if the rows have not all the same number of cells."""
        data = np.frombuffer(body, dtype=np.uint8)
        if len(data) > np.iinfo(np.int32).max:
            return None
        separators = (data == _COMMA) | (data == _NEWLINE)
        ends = np.flatnonzero(separators).astype(np.int32)
        if len(ends) != count * width:
            return None
        if np.any(data[ends[width - 1 :: width]] != _NEWLINE):
            return None
        return cls(body, ends, width)

    @property
    def count(self) -> int:
        return (len(self._ends) - 1) // self._width

    def _bounds(
        self, column: int, rows: Integers | None
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        starts = self._ends[column : -1 : self._width] + np.int32(1)
        ends = self._ends[column + 1 :: self._width]
        return (starts, ends) if rows is None else (starts[rows], ends[rows])

    def _padded(self, column: int, rows: Integers | None) -> NDArray[np.bytes_] | None:
        """The cells as bytes of equal length, None where some cell is long."""
        starts, ends = self._bounds(column, rows)
        lengths = ends - starts
        longest = int(lengths.max(initial=0))
        if not 0 < longest <= PADDED_MAX:
            return None
        offsets = np.arange(longest, dtype=np.int32)
        places = np.minimum(starts[:, None] + offsets, np.int32(len(self._bytes) - 1))
        characters = self._bytes[places]
        characters[offsets >= lengths[:, None]] = 0
        padded: NDArray[np.bytes_] = characters.view(f"S{longest}").ravel()
        return padded

    def texts(self, column: int, rows: Integers | None) -> list[str]:
        padded = self._padded(column, rows)
        # Factors repeat a few values a thousand times: one string each will do.
        known: dict[bytes, str] = {}
        if padded is not None:
            return [
                known.get(raw) or known.setdefault(raw, raw.decode()) for raw in padded.tolist()
            ]
        starts, ends = self._bounds(column, rows)
        raws = [
            bytes(self._body[start:end])
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return [known.get(raw) or known.setdefault(raw, raw.decode()) for raw in raws]

    def numbers(self, column: int, rows: Integers | None) -> tuple[Floats, Booleans]:
        written = self._padded(column, rows)
        if written is None or self._has_underscore(written):
            return parse_all(self.texts(column, rows))
        numeric = np.char.str_len(np.char.strip(written)) > 0
        values = np.full(len(written), np.nan)
        try:
            values[numeric] = written[numeric].astype(np.float64)
        except ValueError:
            return parse_all(self.texts(column, rows))
        return values, numeric

    def _has_underscore(self, written: NDArray[np.bytes_]) -> bool:
        """numpy reads 1_000 as a number; a CSV file does not mean it."""
        return bool(np.any(written.view(np.uint8) == _UNDERSCORE))


class SplitCells:
    """Any file: rows of cells, all equally long."""

    def __init__(self, rows: Sequence[Sequence[str]]) -> None:
        self._rows = rows

    @property
    def count(self) -> int:
        return len(self._rows)

    def texts(self, column: int, rows: Integers | None) -> list[str]:
        if rows is None:
            return [row[column] for row in self._rows]
        return [self._rows[row][column] for row in rows.tolist()]

    def numbers(self, column: int, rows: Integers | None) -> tuple[Floats, Booleans]:
        return parse_all(self.texts(column, rows))


def parse_all(texts: Iterable[str]) -> tuple[Floats, Booleans]:
    """The numbers in `texts` (nan where there is none), and where there is one."""
    known: dict[str, float | None] = {}
    parsed = [
        known[text] if text in known else known.setdefault(text, numerals.parse(text))
        for text in texts
    ]
    numeric = np.array([value is not None for value in parsed], dtype=np.bool_)
    values = np.array([np.nan if value is None else value for value in parsed], dtype=np.float64)
    return values, numeric
