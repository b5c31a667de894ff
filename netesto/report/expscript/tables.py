"""doTable: a neutral table, and its forms as HTML rows, CSV, Markdown and plain text."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from netesto.report.expscript import numerals
from netesto.report.expscript.dataset import EXP, View
from netesto.results import csvfile

# Rows and cells are marked by what they mean; the page says which colour that is.
VARIANTS = frozenset({"nv", "reno", "cubic", "dctcp", "cdg", "pcecn"})
OTHER_VARIANT = "other"
CHANGED = "changed"
# Marked when the number shown is above 0.
_MARKED_ABOVE_ZERO: Mapping[str, str] = {
    "rtt": "rtt",
    "retransSegs%": "loss", "retransPkts%": "loss", "localRetrans": "loss", "retrans_total": "loss",
    "meanLatency": "latency", "p99Latency": "latency",
}  # fmt: skip
# exp ids further apart than this are another experiment: 12.1 follows 12.0, 13.0 does not.
EXP_STEP = 1.5
# The assumed row before the first one.
EXP_BEFORE_FIRST = 100.0
NOTES = "Notes"
# Changes in a column of this name are always painted.
VERSION = "Ver"


@dataclass(frozen=True, slots=True)
class ColumnHeading:
    """A column: its name in the data, its title for people, and whether it holds numbers only.

    `is_of_pairs`: 12.10 comes after 12.9 in it.
    """

    name: str
    title: str
    is_numeric: bool
    is_of_pairs: bool = False


@dataclass(frozen=True, slots=True)
class TableCell:
    text: str
    link: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    cells: tuple[TableCell, ...]
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """What a doTable shows. `name` is the requested file name, "" for none."""

    headings: tuple[ColumnHeading, ...]
    rows: tuple[TableRow, ...]
    name: str = ""


def headings(names: Iterable[str], *, numeric: Collection[str] = ()) -> tuple[ColumnHeading, ...]:
    """Columns whose names are their titles."""
    return tuple(ColumnHeading(name, name, name in numeric) for name in names)


def row(texts: Iterable[str], mark: str = "") -> TableRow:
    """A row of plain texts."""
    return TableRow(tuple(map(TableCell, texts)), mark)


class Changes:
    """Paints a row whose value in a column differs from the row printed before it.

    It remembers across the tables of a report, as the classic tool did.
    """

    def __init__(self) -> None:
        self._before: dict[str, str] = {}
        self._exp_before = EXP_BEFORE_FIRST

    def differs(self, column: str, text: str) -> bool:
        """Whether the row is to be painted; the value is remembered."""
        if column == EXP:
            number = numerals.drawable(text)
            if number is None:
                return False
            step = abs(number - self._exp_before)
            self._exp_before = number
            return step > EXP_STEP
        before = self._before.get(column)
        self._before[column] = text
        if before is None or before == text:
            return False
        # Versions are numbers: 2 and 2.0 are the same one.
        number = numerals.drawable(text) if column == VERSION else None
        return number is None or number != numerals.drawable(before)


def build(
    view: View,
    *,
    titles: Mapping[str, str],
    link: Callable[[int], str],
    changes: Changes,
    change_column: str,
    name: str = "",
) -> Table:
    """The selected rows and visible columns. `link` is the address of a row's page."""
    data = view.data
    shown = view.shown_columns
    watched = [column for column in (change_column, VERSION) if column in data.columns]
    marks = _variants(view)
    if watched:
        read = [(column, data.columns[column].texts) for column in watched]
        for place, row in enumerate(view.rows.tolist()):
            painted = [changes.differs(column, texts[row]) for column, texts in read]
            marks[place] = CHANGED if any(painted) else marks[place]
    columns = [_cells(view, column, link) for column in shown]
    cells = zip(*columns, strict=True) if columns else [()] * len(view.rows)
    rows = tuple(TableRow(one, mark) for one, mark in zip(cells, marks, strict=True))
    titled = (
        ColumnHeading(
            column,
            titles.get(column, data.titled(column)),
            _is_numeric(view, column),
            is_of_pairs=column == EXP and data.ids.mislead,
        )
        for column in shown
    )
    return Table(tuple(titled), rows, name)


def _is_numeric(view: View, name: str) -> bool:
    """Numbers, and the signs for missing ones."""
    if name == NOTES:
        return False
    column = view.data.columns[name]
    signs = numerals.SIGNS | {""}
    numeric = column.numeric[view.rows]
    texts = (column.texts[row] for row in view.rows[~numeric].tolist())
    return bool(numeric.any()) and all(text.strip() in signs for text in texts)


def _variants(view: View) -> list[str]:
    """The mark of each row, by its congestion control."""
    if "ca" not in view.data.columns:
        return [OTHER_VARIANT] * len(view.rows)
    texts = view.data.columns["ca"].take(view.rows).texts
    return [text if text in VARIANTS else OTHER_VARIANT for text in texts]


def _cells(view: View, name: str, link: Callable[[int], str]) -> list[TableCell]:
    """The selected cells of a column; equal ones are one."""
    texts = view.data.columns[name].take(view.rows).texts
    if name == EXP:
        shown = (view.data.cell_text(name, text) for text in texts)
        return [
            TableCell(text, link(row)) for text, row in zip(shown, view.rows.tolist(), strict=True)
        ]
    known: dict[str, TableCell] = {}
    for written in dict.fromkeys(texts):
        text = view.data.cell_text(name, written)
        known[written] = TableCell(text, mark=_cell_mark(name, text))
    return [known[text] for text in texts]


def _cell_mark(name: str, text: str) -> str:
    if name == "rate":
        return "rate"
    if name == "ca":
        return text if text in VARIANTS else ""
    if name in _MARKED_ABOVE_ZERO:
        # The text as shown decides: 0.001 with two decimals is 0.00.
        number = numerals.parse(text)
        return _MARKED_ABOVE_ZERO[name] if number is not None and number > 0 else ""
    return ""


def percent(view: View, *, titles: Mapping[str, str]) -> Table:
    """PercentTable: the first row as it is, the others as their change from it."""
    shown = [column for column in view.shown_columns if column != EXP]
    texts = [
        [view.data.columns[column].texts[row] for column in shown] for row in view.rows.tolist()
    ]
    first = texts[0] if texts else []
    rows = [row(numerals.fixed(text, 1) for text in first)] if texts else []
    rows += [row(map(_change, changed, first)) for changed in texts[1:]]
    columns = (
        ColumnHeading(name, titles.get(name, name), _is_numeric(view, name)) for name in shown
    )
    return Table(tuple(columns), tuple(rows))


def _change(text: str, base: str) -> str:
    """A sign, the percentage in six places, and `%`; no change has a minus (classic)."""
    start, value = numerals.drawable(base), numerals.drawable(text)
    if start is None or value is None:
        return text
    if text == base and numerals.plain_number(text) is None:
        # In the classic tool 1M in every row is a text; show a percentage only for a change.
        return text
    if start == 0:
        return numerals.fixed(text, 1)
    change = (value - start) / start * 100
    return f"{'+' if change > 0 else '-'}{abs(change):6.1f}%"


# ---- what the data has ---------------------------------------------------------------------

_COLUMNS = (
    ColumnHeading("column", "column", is_numeric=False),
    ColumnHeading("filled", "rows with a value", is_numeric=True),
    ColumnHeading("numbers", "of them numbers", is_numeric=True),
    ColumnHeading("distinct", "distinct values", is_numeric=True),
    ColumnHeading("examples", "for example", is_numeric=False),
)
# Of a column with many values these are shown.
_EXAMPLES = 4


def list_columns(view: View) -> Table:
    """One row for each column: how many selected rows have a value, how many differ, examples."""
    return Table(_COLUMNS, tuple(_column_row(view, name) for name in view.data.names))


def _column_row(view: View, name: str) -> TableRow:
    column = view.data.columns[name].take(view.rows)
    counts = Counter(text for text in column.texts if text.strip())
    examples = ", ".join(list(counts)[:_EXAMPLES])
    more = ", …" if len(counts) > _EXAMPLES else ""
    numbers = sum(count for text, count in counts.items() if numerals.parse(text) is not None)
    return row((name, str(counts.total()), str(numbers), str(len(counts)), examples + more))


def list_values(view: View, name: str) -> Table:
    """One row for each value of a column, with the number of selected rows that have it."""
    texts = view.column(name, what="List").take(view.rows).texts
    counts = Counter(text if text.strip() else "" for text in texts)
    rows = (row((text or "(missing)", str(count))) for text, count in counts.items())
    return Table(headings((name, "rows"), numeric=("rows",)), tuple(rows))


# ---- other forms -------------------------------------------------------------------------


def as_csv(table: Table) -> str:
    """RFC 4180, with the columns' names in the data as header, so that it can be read again."""
    names = [heading.name for heading in table.headings]
    return csvfile.text([names], ([cell.text for cell in row.cells] for row in table.rows))


def as_markdown(table: Table) -> str:
    """A table for README files and merge requests."""
    lines = [
        _markdown_row([heading.title for heading in table.headings]),
        _markdown_row(["--:" if heading.is_numeric else ":--" for heading in table.headings]),
    ]
    lines += [_markdown_row([cell.text for cell in row.cells]) for row in table.rows]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def as_text(table: Table) -> str:
    """Columns side by side for a terminal: numbers to the right, texts to the left."""
    columns = [
        [heading.title, *(row.cells[place].text for row in table.rows)]
        for place, heading in enumerate(table.headings)
    ]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(
            cell.rjust(width) if heading.is_numeric else cell.ljust(width)
            for cell, width, heading in zip(cells, widths, table.headings, strict=True)
        ).rstrip()
        for cells in zip(*columns, strict=True)
    ]
    return "\n".join(lines) + "\n" if lines else ""


FORMS: Mapping[str, Callable[[Table], str]] = {"csv": as_csv, "md": as_markdown, "txt": as_text}
