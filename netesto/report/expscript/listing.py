"""List: what columns the data has, and which values are in them."""

from collections import Counter

from netesto.report.expscript import numerals
from netesto.report.expscript.dataset import View
from netesto.report.expscript.tables import Cell, Heading, Row, Table

# Of a column with many values these are shown.
EXAMPLES = 4


def columns(view: View) -> Table:
    """One row for each column: how many selected rows have a value, how many differ, examples."""
    headings = (
        Heading("column", "column", is_numeric=False),
        Heading("filled", "rows with a value", is_numeric=True),
        Heading("numbers", "of them numbers", is_numeric=True),
        Heading("distinct", "distinct values", is_numeric=True),
        Heading("examples", "for example", is_numeric=False),
    )
    return Table(headings, tuple(_column_row(view, name) for name in view.data.names))


def _column_row(view: View, name: str) -> Row:
    column = view.data.columns[name].take(view.rows)
    counts = Counter(text for text in column.texts if text.strip())
    examples = ", ".join(list(counts)[:EXAMPLES])
    more = ", …" if len(counts) > EXAMPLES else ""
    numbers = sum(count for text, count in counts.items() if numerals.parse(text) is not None)
    cells = (name, str(counts.total()), str(numbers), str(len(counts)), examples + more)
    return Row(tuple(Cell(cell) for cell in cells))


def values(view: View, name: str) -> Table:
    """One row for each value of a column, with the number of selected rows that have it."""
    texts = view.column(name, what="List").take(view.rows).texts
    headings = (Heading(name, name, is_numeric=False), Heading("rows", "rows", is_numeric=True))
    counts = Counter(text if text.strip() else "" for text in texts)
    return Table(
        headings,
        tuple(Row((Cell(text or "(missing)"), Cell(str(n)))) for text, n in counts.items()),
    )
