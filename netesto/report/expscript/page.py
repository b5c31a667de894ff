"""The blocks of a report as one HTML page that needs nothing else."""

from collections.abc import Sequence

from markupsafe import Markup

from netesto.report import embed, rendering
from netesto.report.expscript.blocks import Block, Heading, PlotBlock, TableBlock
from netesto.report.expscript.dataset import EXP
from netesto.report.expscript.tables import Cell, Table

# A page of nothing has a title all the same.
UNTITLED = "Experiments"


def render(title: str, blocks: Sequence[Block]) -> str:
    """The page. All that comes from data or scripts is escaped; the plots are our own SVG."""
    return rendering.render(
        "expscript.html.j2",
        title=title or UNTITLED,
        headings=[block for block in blocks if isinstance(block, Heading)],
        blocks=[(type(block).__name__, _ready(block)) for block in blocks],
        has_table=any(isinstance(block, TableBlock) for block in blocks),
        cell_class=_cell_class,
        hint=_hint,
        light_colors=Markup(embed.variables(dark=False)),  # noqa: S704 - our own colours
        dark_colors=Markup(embed.variables(dark=True)),  # noqa: S704 - our own colours
    )


def _ready(block: Block) -> object:
    if not isinstance(block, PlotBlock):
        return block
    svg = embed.inline(block.svg, name=block.identity, description=block.description)
    return {
        "svg": Markup(svg),  # noqa: S704 - drawn by matplotlib, which escapes every text
        "identity": block.identity,
        "remarks": block.remarks,
        "steps": block.steps,
        "files": block.files,
        "max_width_px": block.max_width_px,
    }


def _cell_class(table: Table, place: int, cell: Cell) -> Markup:
    classes = ["number"] if table.headings[place].is_numeric else []
    if cell.mark:
        classes.append(f"c-{cell.mark}")
    if not classes:
        return Markup("")
    return Markup(' class="{}"').format(" ".join(classes))


def _hint(table: Table) -> str:
    """What one could write into a filter, with names that this table has."""
    numeric = [heading.name for heading in table.headings if heading.is_numeric]
    known = "rate" if "rate" in numeric else next((name for name in numeric if name != EXP), "")
    return f"bbr {known}>10" if known and " " not in known else "bbr"
