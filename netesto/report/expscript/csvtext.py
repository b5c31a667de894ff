"""A CSV file as bytes in which all rows have the same number of cells.

Most files are so already, and their bytes are taken as they are. Others are cleaned line by line:
blank lines and comments go, short rows are filled, quoted cells get separators of their own.
"""

import codecs
import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from netesto.errors import ScriptError
from netesto.printable import printable
from netesto.report.expscript import textfile

# Files are looked through in parts of so many bytes: a copy of some hundred megabytes costs more.
PART = 1 << 22
# A ragged file is told by its first rows; a thousand equal warnings help nobody.
RAGGED_ROWS_TOLD = 3
COMMA, NEWLINE = b",", b"\n"
# Between cells and rows of a quoted file, whose cells may hold commas and line ends. ASCII has had
# them for this since 1963.
UNIT, RECORD = b"\x1f", b"\x1e"

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CsvText:
    """Bytes with the separators between cells and behind rows; rows begin at `start`.

    The last row may lack its end. `is_clean`: it is known that rows have equal numbers of cells.
    """

    header: list[str]
    data: bytes | bytearray
    start: int
    between: bytes = COMMA
    behind: bytes = NEWLINE
    is_clean: bool = False


def read(path: Path, *, warn: Warn) -> CsvText:
    """The file's bytes in UTF-8. ScriptError if it cannot be read, is empty, or is no text."""
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
            return _quoted(data, path, warn=warn)
        except csv.Error as error:
            why = "its quotes are not in pairs"
            if "limit" in str(error):
                why = f"a quoted cell holds more than {csv.field_size_limit()} characters"
            warn(f"{path}: {why}: each comma ends a cell")
    end = data.find(NEWLINE)
    first = data[: max(0, end)]
    if not first or first != first.strip() or first.startswith(b"#"):
        return cleaned(data, path, warn=warn)
    return CsvText(first.decode().split(","), data, end + 1)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for place in range(0, len(data), PART):
            decoder.decode(data[place : place + PART], final=place + PART >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def cleaned(data: bytes, path: Path, *, warn: Warn) -> CsvText:
    """Without blank lines and comments, with rows of equal length. ScriptError if none is left."""
    lines = _lines(data)
    header = next(lines, b"")
    if not header:
        raise _empty(path)
    width = header.count(COMMA) + 1
    ragged = _Ragged(path, width, warn)
    even = bytearray()
    for number, line in enumerate(lines, start=1):
        count = line.count(COMMA) + 1
        if count != width:
            ragged.tell(number, count)
            missing = width - count
            line = line + COMMA * missing if missing > 0 else COMMA.join(line.split(COMMA)[:width])  # noqa: PLW2901
        even += line
        even += NEWLINE
    ragged.end()
    return CsvText(header.decode().split(","), even, 0, is_clean=True)


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines that are neither blank nor comments, without the blanks around them."""
    start = 0
    while start < len(data):
        end = data.find(NEWLINE, min(start + PART, len(data)))
        end = len(data) if end < 0 else end
        for line in data[start:end].split(NEWLINE):
            stripped = line.strip()
            if stripped and not stripped.startswith(b"#"):
                yield stripped
        start = end + 1


def _quoted(data: bytes, path: Path, *, warn: Warn) -> CsvText:
    """Cells quoted as in RFC 4180. csv.Error if a quoted cell has no end."""
    lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
    rows = (
        row
        for row in csv.reader(lines, strict=True)
        if ",".join(row).strip() and not row[0].lstrip().startswith("#")
    )
    header = next(rows, None)
    if header is None:
        raise _empty(path)
    ragged = _Ragged(path, len(header), warn)
    even = bytearray()
    between, behind = UNIT.decode(), RECORD.decode()
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            ragged.tell(number, len(row))
            row = (row + [""] * (len(header) - len(row)))[: len(header)]  # noqa: PLW2901
        line = between.join(row)
        if behind in line or line.count(between) != len(row) - 1:
            # As pages show these characters in any case.
            line = between.join(printable(cell) for cell in row)
        even += line.encode()
        even += RECORD
    ragged.end()
    return CsvText(header, even, 0, UNIT, RECORD, is_clean=True)


def _empty(path: Path) -> ScriptError:
    return ScriptError(f"csv file {str(path)!r} is empty", remedy="its first line names columns")


@dataclass(slots=True)
class _Ragged:
    """Tells of rows that are short or long."""

    path: Path
    width: int
    warn: Warn
    count: int = field(default=0)

    def tell(self, number: int, cells: int) -> None:
        self.count += 1
        if self.count <= RAGGED_ROWS_TOLD:
            done = "blanks are added" if cells < self.width else "the others are left out"
            self.warn(
                f"{self.path}: row {number} has {cells} cells, its header {self.width}: {done}"
            )

    def end(self) -> None:
        if self.count > RAGGED_ROWS_TOLD:
            more = self.count - RAGGED_ROWS_TOLD
            self.warn(f"{self.path}: {more} more rows are short or long")
