"""A CSV file as bytes in which all rows have the same number of cells.

Most files are so already, and their bytes are taken as they are. Others are evened out line by
line: blank lines and comments go, short rows are filled, quoted cells get other separators.
"""

import codecs
import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from netesto.errors import ScriptError
from netesto.printable import printable
from netesto.report.expscript import textfile

# Files are checked in parts of this many bytes: a copy of some hundred megabytes costs more.
PART = 1 << 22
# A ragged file is known by its first rows; a thousand equal warnings help nobody.
RAGGED_ROWS_TOLD = 3
COMMA, NEWLINE = b",", b"\n"
# Between cells and rows of a quoted file, whose cells may hold commas and line ends. ASCII has had
# them for this since 1963.
UNIT, RECORD = b"\x1f", b"\x1e"

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CsvText:
    """Bytes with the separators between cells and after rows; rows begin at `start`.

    The last row may lack its end. `is_even`: it is known that rows have equal numbers of cells.
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
            remedy="File=bbr/exp reads bbr/exp.csv, relative to the current directory",
        ) from error
    if b"\0" in data or not _is_utf8(data):
        data = textfile.decoded(data, path, warn=warn).encode()
    data = data.removeprefix(codecs.BOM_UTF8)
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
    """Without blank lines and comments, with rows of equal length. ScriptError if none is left."""
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
                # As pages show these characters in any case.
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
        raise ScriptError(f"csv file {str(path)!r} is empty", remedy="its first line names columns")
    if ragged > RAGGED_ROWS_TOLD:
        warn(f"{path}: {ragged - RAGGED_ROWS_TOLD} more rows are short or long")
    return CsvText(header, even, 0, between, after, is_even=True)
