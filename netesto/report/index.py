"""The index of a results folder: all rows of exp.csv, sortable and filterable in the browser. Of a
very large table it has the aggregate rows, and of these the columns that are shown at first, with
links to pages that have all rows."""

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from markupsafe import Markup

from netesto.report import neighbours, rendering
from netesto.report.neighbours import PAGE
from netesto.results import (
    certainty,
    csvfile,
    durable,
    imported,
    numbers,
    repeated,
    runs,
    store,
    tablerows,
)
from netesto.results.columns import SEVERITY, WARNINGS, column, distinguishes
from netesto.results.evidence import OK

# Shown initially, with all columns that differ between experiments; a button shows the others.
MAIN_COLUMNS: tuple[str, ...] = (
    "exp", "expName", "status", "test", "ca", "instances", "dur", "rate", "rateMin", "rateMax",
    "fairness", "rtt", "pingRtt", "retransSegs%", WARNINGS, SEVERITY,
)  # fmt: skip

# Of these, hidden on narrow screens.
_WIDE = frozenset(
    {"expName", "test", "instances", "dur", "rateMin", "rateMax", "fairness", "pingRtt"}
)  # fmt: skip

# The rows of exp.csv that the index has all of; those of more take a browser seconds, and dozens of
# megabytes.
ENTIRE_MAX = 5000

# In the results folder, of a larger table: N.html, with N from 1, have all its rows, each of them
# rendering.ROWS_MAX rows, or one experiment with more.
ROWS = "rows"

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """A column of the index. `is_main`: shown at first."""

    name: str
    is_main: bool
    is_number: bool

    @property
    def unit(self) -> str:
        """Of its numbers; "" for a plain number or a name."""
        return column(self.name).shown_unit

    @property
    def style(self) -> str:
        """Its class in the page."""
        classes = {
            "number": self.is_number,
            "more": not self.is_main,
            "wide": self.is_main and self.name in _WIDE,
        }
        return " ".join(name for name, has in classes.items() if has)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An experiment's rows; `page` is the link to its page, "" without one."""

    number: str
    page: str
    status: str
    whole: Row
    groups: Sequence[Row]


def write(folder: Path, *, is_final: bool = True) -> None:
    """Write exp.html beside exp.csv, with its pages in ROWS, and update the links between the
    experiments' pages.

    Pages in ROWS take as long as all the rest: without them, because more rows will follow, the
    index is not `is_final`; it says so, and is no younger than exp.csv. ResultsError if exp.csv
    cannot be read or a page cannot be written.
    """
    omitted = set(map(str, repeated.of(folder)))
    rows, count = _rows(folder, omitted)
    is_entire = count <= ENTIRE_MAX
    filled = columns(rows)
    found = [each for each in filled if is_entire or each.is_main]
    found_experiments = experiments(rows, folder)
    pages: Mapping[str, str] = {}
    if is_final and not is_entire:
        known = {each.number: each for each in found_experiments}
        pages = _write_pages(folder, filled, _parts(_each(folder, omitted), known))
    known_runs = runs.records(folder)
    html = _rendered(
        folder,
        found,
        found_experiments,
        is_part=False,
        is_entire=is_entire,
        is_final=is_final,
        pages=pages,
        left=runs.differences(known_runs),
        certainty=certainty.sentences(runs.certainty(known_runs)),
        findings=Counter(each.kind for each in imported.read_findings(folder)),
        omitted=[*repeated.warnings(folder)] if omitted else [],
        columns_left_out=len(filled) - len(found),
    )
    durable.replace(folder / PAGE, html, lasting=False)
    if not (is_final or is_entire):
        with durable.writing(folder / PAGE):
            at_ns = (folder / store.TABLE).stat().st_mtime_ns
            os.utime(folder / PAGE, ns=(at_ns, at_ns))
    _remove_pages(folder, set(pages.values()))
    neighbours.relink(folder)


def _rendered(
    folder: Path,
    columns: Sequence[IndexColumn],
    experiments: Sequence[IndexEntry],
    *,
    is_part: bool,
    is_entire: bool,
    pages: Mapping[str, str],
    **facts: object,
) -> Iterator[str]:
    """The index, with `facts` about all experiments, or a page of it (`is_part`). It has all rows
    (`is_entire`), or those of each experiment are on the page with the number in `pages`."""
    cells = _HtmlRows(columns)
    rows = [row for one in experiments for row in (one.whole, *one.groups)]
    is_text = is_part or not is_entire
    is_large = is_text or len(rows) > rendering.ROWS_MAX
    text = (lambda _, text: text) if is_text else cells.text
    texts = ([text(each.name, row[each.name]) for row in rows] for each in columns)
    return rendering.rendered(
        "index.html.j2",
        title=folder.resolve().name,
        columns=columns,
        has_status=any(each.name == "status" for each in columns),
        experiments=experiments,
        cells=cells.of,
        line=_one_line,
        between_tabs=cells.between_tabs,
        is_part=is_part,
        is_entire=is_entire,
        pages=pages,
        is_text=is_text,
        is_large=is_large,
        widest=rendering.widest(texts) if is_large else "",
        **facts,
    )


def _parts(rows: Iterator[Row], known: Mapping[str, IndexEntry]) -> Iterator[list[IndexEntry]]:
    """These experiments with all their rows, as many at once as a page has."""
    part: list[IndexEntry] = []
    count = 0
    for number, own in itertools.groupby(rows, _number):
        if number not in known:
            continue
        groups = [row for row in own if not csvfile.is_aggregate(row)]
        if part and count + 1 + len(groups) > rendering.ROWS_MAX:
            yield part
            part, count = [], 0
        part.append(replace(known[number], groups=groups))
        count += 1 + len(groups)
    if part:
        yield part


def _write_pages(
    folder: Path, filled: Sequence[IndexColumn], parts: Iterator[Sequence[IndexEntry]]
) -> dict[str, str]:
    """Write the pages with all rows; the number of the page of each experiment. `filled` are the
    columns of aggregate rows."""
    durable.make_folder(folder / ROWS)
    known = {each.name for each in filled}
    pages: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        names = [name for name in part[0].whole if name not in known]
        own = columns([{name: row[name] for name in names} for one in part for row in one.groups])
        html = "".join(
            _rendered(folder, [*filled, *own], part, is_part=True, is_entire=True, pages={})
        )
        path = folder / ROWS / f"{number}.html"
        if not path.is_file() or path.read_bytes() != html.encode():
            durable.replace(path, html, lasting=False)
        pages |= dict.fromkeys((one.number for one in part), str(number))
    return pages


def _remove_pages(folder: Path, kept: Collection[str]) -> None:
    """Remove the pages in ROWS but for these, and the folder if it is empty; nothing behind a
    symbolic link, where other files may be."""
    if (folder / ROWS).is_symlink():
        return
    with contextlib.suppress(OSError):
        for path in (folder / ROWS).glob("*.html"):
            if path.stem.isdecimal() and path.stem not in kept:
                path.unlink()
        (folder / ROWS).rmdir()


def _each(folder: Path, omitted: Collection[str]) -> Iterator[Row]:
    """The rows of exp.csv but for those of omitted experiments."""
    return (row for row in csvfile.each(folder / store.TABLE) if _number(row) not in omitted)


def _rows(folder: Path, omitted: Collection[str]) -> tuple[list[Row], int]:
    """The rows of exp.csv, or the aggregate ones of a table that is larger than ENTIRE_MAX; and how
    many there are."""
    rows: list[Row] = []
    count = 0
    for count, row in enumerate(_each(folder, omitted), start=1):
        if count == ENTIRE_MAX + 1:
            rows = [*filter(csvfile.is_aggregate, rows)]
        if count <= ENTIRE_MAX or csvfile.is_aggregate(row):
            rows.append(row)
    return rows, count


def _number(row: Row) -> str:
    """Of the row's experiment."""
    return row["exp"].partition(".")[0]


def columns(rows: Sequence[Row]) -> list[IndexColumn]:
    """The columns that hold anything; exp and status first, then what distinguishes rows."""
    texts = {name: {row[name] for row in rows} for name in (rows[0] if rows else ())}
    whole = [row for row in rows if csvfile.is_aggregate(row) and _has_flows(row)]
    filled = [name for name in texts if texts[name] - {""}]
    factors = {name for name in filled if distinguishes(name, whole)}
    # After all the measurements they would be overlooked.
    own = [name for name in filled if name in factors and name not in MAIN_COLUMNS]
    first = [*(name for name in ("exp", "status") if name in filled), *own]
    return [
        IndexColumn(
            name,
            is_main=name in MAIN_COLUMNS or name in factors,
            is_number=all(map(_looks_like_number, texts[name])),
        )
        for name in first + [name for name in filled if name not in first]
    ]


def _has_flows(row: Row) -> bool:
    """False for an experiment that was interrupted before its first flow, or whose manifest is
    damaged: its requested values are missing, and so differ from all others."""
    return row.get("test") != "" and not tablerows.is_damaged_row(row)


def _looks_like_number(text: str) -> bool:
    """True also for an empty cell, and for the first of several numbers: "60+..."."""
    return not text or numbers.parse(text.removesuffix("+...")) is not None


def cell_text(text: str, name: str = "") -> str:
    """A cell without zeros at its end: "60.0" is "60", "43333.787" stays."""
    if column(name).in_ms and (number := numbers.parse(text)) is not None:
        return numbers.short(number / 1000, 3)
    return numbers.trimmed(text)


class _HtmlRows:
    """Rows of the index as HTML. Not in the template: a study has some hundred thousand cells, the
    index is written after each experiment, and most texts recur."""

    def __init__(self, columns: Sequence[IndexColumn]) -> None:
        self._columns = [
            (each.name, f'<td class="{each.style}">' if each.style else "<td>")
            for each in columns
            if each.name not in {"exp", "status"}
        ]
        self._in_ms = {each.name for each in columns if column(each.name).in_ms}
        names = [name for name, _ in self._columns]
        self._places_in_ms = [pair for pair in enumerate(names) if pair[1] in self._in_ms]
        self._shown: dict[tuple[str, bool], str] = {}

    def text(self, name: str, text: str) -> str:
        """A cell of a column as HTML, on one line."""
        key = text, name in self._in_ms
        shown_text = self._shown.get(key)
        if shown_text is None:
            shown_text = self._shown[key] = _one_line(cell_text(text, name))
        return shown_text

    def of(self, row: Row) -> Markup:
        """The cells of a row but for its number and its status."""
        cells = (f"{opening}{self.text(name, row[name])}</td>" for name, opening in self._columns)
        return Markup("".join(cells))  # noqa: S704 - every text in it is escaped

    def between_tabs(self, entry: IndexEntry, pages: Mapping[str, str]) -> Markup:
        """The rows of an experiment, a line each, as index.js expands them: the kind, the number,
        the status, cells with zeros at their end. The kind of a group's row is "-"; else whether
        the experiment has a page, and where its groups are: "0" in the next lines, the number of
        one of `pages`, or ""."""
        kind = f"{1 if entry.page else 0}{0 if entry.groups else pages.get(entry.number, '')}"
        lines = [self._words(kind, entry.whole, entry.status)]
        lines += [self._words("-", row, row.get("status", "")) for row in entry.groups]
        return Markup("\n".join(lines))  # noqa: S704 - every text in it is escaped

    def _words(self, kind: str, row: Row, status: str) -> str:
        cells = [row[name] for name, _ in self._columns]
        for at, name in self._places_in_ms:
            cells[at] = cell_text(row[name], name)
        words = [kind, row["exp"], *([status] if "status" in row else []), *cells]
        line = "\t".join(words)
        # Of a whole line that is much faster.
        if line.count("\t") == len(words) - 1 and "\n" not in line and "\r" not in line:
            return escape(line)
        return "\t".join(map(_one_line, words))


def _one_line(text: str) -> Markup:
    """Escaped; each row of the index is one line of its page, perhaps with tabs between cells."""
    escaped = escape(text).replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")
    return Markup(escaped)  # noqa: S704 - escaped here


def experiments(rows: Sequence[Row], folder: Path) -> list[IndexEntry]:
    """The rows of each experiment together, in the order of exp.csv."""
    by_number: dict[str, list[Row]] = {}
    for row in rows:
        by_number.setdefault(_number(row), []).append(row)
    found = []
    for number, own in by_number.items():
        has_page = number.isdecimal() and (folder / number / PAGE).is_file()
        whole = next((row for row in own if csvfile.is_aggregate(row)), own[0])
        found.append(
            IndexEntry(
                number=number,
                page=f"{number}/{PAGE}" if has_page else "",
                status=tablerows.status_of(whole, folder / number) or OK,
                whole=whole,
                groups=[row for row in own if row is not whole],
            )
        )
    return found
