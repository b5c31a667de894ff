"""The parts of a report in their order, and as one HTML page that needs nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup, escape

from netesto.report import rendering
from netesto.report.expscript.dataset import EXP
from netesto.report.expscript.tables import Table, TableCell
from netesto.report.figures import Chart, Plot

# The title of an empty page.
UNTITLED = "Experiments"


@dataclass(frozen=True, slots=True)
class PageHeading:
    text: str
    level: int
    anchor: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table with the steps that chose its rows; `steps` is empty unless they were requested."""

    table: Table
    identity: str
    steps: tuple[str, ...] = ()
    is_percent: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlotBlock:
    """A plot and its SVG; `files` are links."""

    plot: Plot | Chart
    svg: str
    identity: str
    steps: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChoiceBlock:
    """Plots of which one is shown at a time, with what readers choose it by; the last at first."""

    title: str
    plots: tuple[tuple[str, PlotBlock], ...]
    identity: str


@dataclass(frozen=True, slots=True)
class Note:
    """A note in place of a table or plot."""

    text: str


Block: TypeAlias = PageHeading | Paragraph | TableBlock | PlotBlock | ChoiceBlock | Note


def render(title: str, blocks: Sequence[Block]) -> str:
    """The page. All that comes from data or scripts is escaped; the plots are our own SVG."""
    return rendering.render(
        "expscript.html.j2",
        title=title or UNTITLED,
        headings=[block for block in blocks if isinstance(block, PageHeading)],
        blocks=[(type(block).__name__, block) for block in blocks],
        has_table=any(isinstance(block, TableBlock) for block in blocks),
        has_large=any(isinstance(block, TableBlock) and is_large(block.table) for block in blocks),
        is_large=is_large,
        rows=_rows,
        widest=_widest,
        numeric_columns=_numeric_columns,
        hint=_hint,
        inline=rendering.inline,
        line_colors=rendering.style(),
    )


def _rows(table: Table) -> Markup:
    """The rows as HTML, one on each line. Not in the template: a table may have a million cells.

    Of many rows it is the shortest form that HTML allows, with no tags that end a cell or a row.
    """
    brief = is_large(table)
    numeric = [heading.is_numeric and not brief for heading in table.headings]
    known: dict[tuple[TableCell, bool], str] = {}
    lines: list[str] = []
    for row in table.rows:
        parts = [f'<tr class="m-{row.mark}">' if row.mark else "<tr>"]
        for key in zip(row.cells, numeric, strict=True):
            html = known.get(key)
            if html is None:
                html = known[key] = _cell(*key)
            parts.append(html if brief else f"{html}</td>")
        lines.append("".join(parts) if brief else "".join((*parts, "</tr>")))
    return Markup("\n".join(lines))  # noqa: S704 - every text in it is escaped


def _cell(cell: TableCell, is_numeric: bool) -> str:
    """Without its end tag. A newline in a text does not end a row of the page."""
    classes = ["number"] * is_numeric + [f"c-{cell.mark}"] * bool(cell.mark)
    text = str(escape(cell.text)).replace("\n", "&#10;")
    if cell.link:
        text = f'<a href="{escape(cell.link)}">{text}</a>'
    return f'<td class="{" ".join(classes)}">{text}' if classes else f"<td>{text}"


def is_large(table: Table) -> bool:
    """Whether the page makes elements of the rows in view only."""
    return len(table.rows) > rendering.ROWS_MAX and bool(table.headings)


def _widest(table: Table) -> str:
    places = range(len(table.headings))
    return rendering.widest([row.cells[place].text for row in table.rows] for place in places)


def _numeric_columns(table: Table) -> list[int]:
    """The places of columns of numbers, from 1."""
    return [place for place, one in enumerate(table.headings, start=1) if one.is_numeric]


def _hint(table: Table) -> str:
    """An example of a filter, with names of this table."""
    numeric = [heading.name for heading in table.headings if heading.is_numeric]
    known = "rate" if "rate" in numeric else next((name for name in numeric if name != EXP), "")
    return f"bbr {known}>10" if known and " " not in known else "bbr"
