"""exp.csv: proper CSV with a header, extended only by complete experiments.

A spreadsheet would execute a cell that begins as a formula does: an apostrophe precedes it in
files, and in memory it has none.
"""

import csv
import io
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from netesto.errors import ResultsError
from netesto.results import durable

_FORMULA_BEGINS = "=+-@\t\r"
_FORMULA = re.compile(f"'*[{re.escape(_FORMULA_BEGINS)}]")
# Most cells begin with none of these: numbers and names.
_SUSPECT = frozenset(f"'{_FORMULA_BEGINS}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[KMGT%]?")


def guarded(cell: object) -> str:
    """A cell as it is in a file."""
    text = str(cell)
    if text[:1] not in _SUSPECT:
        return text
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def plain(text: str) -> str:
    """The cell that was guarded."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def check_header(path: Path, names: Sequence[str]) -> None:
    """ResultsError if `path` was begun with other columns; it names them. A missing file is
    valid."""
    header = read_header(path)
    if header is None:
        return
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            raise ResultsError(f"{path}: its last row is truncated", remedy=_remedy(path))
    if header == list(names):
        return
    found = "; ".join(difference(header, names))
    if not found:
        pairs = enumerate(zip(header, names, strict=False), start=1)
        place, (old, new) = next(pair for pair in pairs if len({*pair[1]}) > 1)
        found = f"the order differs from column {place} on: {old}, {new}"
    raise ResultsError(
        f"{path} was begun with other columns; {found}",
        remedy=f"`netesto report {path.parent}` rebuilds it from the raw data; or choose another"
        " results folder with --out.",
    )


def difference(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """In words, which names of `old` are not in `new`, and the reverse."""
    sides = {
        "no longer present": [name for name in old if name not in new],
        "new": [name for name in new if name not in old],
    }
    return [f"{side}: {', '.join(names)}" for side, names in sides.items() if names]


def read_header(path: Path) -> list[str] | None:
    """The names of the columns; None if the file is missing or empty."""
    return next(_lines(path), None)


def read(path: Path) -> list[dict[str, str]]:
    """All rows, in order; none without a file. ResultsError if one is incomplete."""
    return [*each(path)]


def each(path: Path) -> Iterator[dict[str, str]]:
    """The rows one by one, for a table that does not fit into memory. Errors as of `read`."""
    lines = _lines(path)
    header = next(lines, [])
    for number, row in enumerate(lines, start=2):
        if len(row) != len(header):
            raise ResultsError(
                f"{path}: row {number} has {len(row)} cells, not {len(header)}",
                remedy=_remedy(path),
            )
        yield dict(zip(header, row, strict=True))


def salvage(path: Path) -> list[dict[str, str]]:
    """The complete rows of a file that may be damaged."""
    try:
        header, *rows = [*_lines(path)] or [[]]
    except ResultsError:
        return []
    return [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]


def _lines(path: Path) -> Iterator[list[str]]:
    """The cells of each line; none without a file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                # Most texts recur.
                yield [sys.intern(plain(cell) if cell[:1] == "'" else cell) for cell in row]
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ResultsError(f"{path}: cannot be read: {error}", remedy=_remedy(path)) from error


def _remedy(path: Path) -> str:
    return f"`netesto report {path.parent}` rebuilds it from the raw data."


def append(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Add an experiment's rows at once; the header first where there is none.

    Their keys are the columns. ResultsError, with the file unchanged, if it has other columns or
    the disk is full.
    """
    if not rows:
        return
    names = list(rows[0])
    check_header(path, names)
    header = [names] if read_header(path) is None else []
    durable.append(path, text(header, ([row[name] for name in names] for row in rows)))


def rewrite(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Replace the whole file by what `append` would have written."""
    durable.replace(path, text([names], ([row[name] for name in names] for row in rows)))


def text(*parts: Iterable[Iterable[object]]) -> str:
    """Rows of cells as CSV: those of all parts, one after the other."""
    lines = []
    buffer = io.StringIO()
    # Python before 3.13 quotes only its own line ends.
    writer = csv.writer(buffer, lineterminator="\r\n")
    for row in itertools.chain(*parts):
        writer.writerow(map(guarded, row))
        lines.append(buffer.getvalue().removesuffix("\r\n"))
        buffer.seek(0)
        buffer.truncate()
    return "".join(f"{line}\n" for line in lines)


def by_experiment(rows: Iterable[Mapping[str, str]]) -> dict[int, list[Mapping[str, str]]]:
    """The rows of exp.csv by experiment, in the order of their first row; without rows that have no
    number."""
    found: dict[int, list[Mapping[str, str]]] = {}
    for row in rows:
        number = row.get("exp", "").partition(".")[0]
        if number.isdecimal():
            found.setdefault(int(number), []).append(row)
    return found


def in_order(rows: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Rows of exp.csv, sorted by the numbers of their experiments."""
    return [row for _, own in sorted(by_experiment(rows).items()) for row in own]


def is_aggregate(row: Mapping[str, str]) -> bool:
    """Whether a row of exp.csv is N.0: of all flows of its experiment."""
    return row.get("exp", "").endswith(".0")
