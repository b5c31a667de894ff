"""exp.csv: proper CSV with a header, grown by whole experiments, never by half a row."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from netesto.errors import ResultsError
from netesto.results import durable


def check_header(path: Path, names: Sequence[str]) -> None:
    """ResultsError if `path` was begun with other columns, saying which differ; no file is fine."""
    header = read_header(path)
    if header is None:
        return
    _check_end(path)
    if header == list(names):
        return
    gone = [name for name in header if name not in names]
    new = [name for name in names if name not in header]
    parts = [f"no longer there: {', '.join(gone)}"] if gone else []
    parts += [f"new: {', '.join(new)}"] if new else []
    if not parts:
        place = next(
            i for i, pair in enumerate(zip(header, names, strict=False)) if len({*pair}) > 1
        )
        parts = [f"the order differs from column {place + 1} on: {header[place]}, {names[place]}"]
    raise ResultsError(
        f"{path} was begun with other columns; {'; '.join(parts)}",
        remedy=f"`netesto report {path.parent}` makes it anew from the raw data; or choose another"
        " results folder with --out.",
    )


def _check_end(path: Path) -> None:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            raise ResultsError(
                f"{path}: its last row is torn",
                remedy=_remedy(path),
            )


def read_header(path: Path) -> list[str] | None:
    """The names of the columns; None if there is no file, or nothing in it."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return next(csv.reader(file), None)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ResultsError(f"{path}: cannot be read: {error}", remedy=_remedy(path)) from error


def read(path: Path) -> list[dict[str, str]]:
    """All rows, in order; none if there is no file. ResultsError if one is not whole."""
    header = read_header(path)
    if header is None:
        return []
    try:
        rows = _rows(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ResultsError(f"{path}: cannot be read: {error}", remedy=_remedy(path)) from error
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ResultsError(
                f"{path}: row {number} has {len(row)} cells, not {len(header)}",
                remedy=_remedy(path),
            )
    return [dict(zip(header, row, strict=True)) for row in rows]


def salvage(path: Path) -> list[dict[str, str]]:
    """The rows that are whole, of a file that may be damaged."""
    try:
        header = read_header(path)
        rows = [] if header is None else _rows(path)
    except (ResultsError, OSError, UnicodeDecodeError, csv.Error):
        return []
    names = header or []
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def _remedy(path: Path) -> str:
    return f"`netesto report {path.parent}` makes it anew from the raw data."


def append(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Add an experiment's rows at once; the header first where there is none.

    Their keys are the columns. ResultsError if the file has others, or the disk is full: then the
    file is as it was.
    """
    if not rows:
        return
    names = list(rows[0])
    check_header(path, names)
    begun = read_header(path) is not None
    durable.append(path, _text(names, rows, header=not begun))


def rewrite(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write the file anew, at once, as `append` would have from the beginning."""
    durable.replace(path, _text(names, rows, header=True))


def _text(names: Sequence[str], rows: Iterable[Mapping[str, str]], *, header: bool) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if header:
        writer.writerow(names)
    writer.writerows([row[name] for name in names] for row in rows)
    return buffer.getvalue()
