"""The parts of a report in their order; what a page shows, before it is a page."""

from dataclasses import dataclass
from typing import TypeAlias

from netesto.report.expscript.tables import Table
from netesto.report.figures import Chart, Plot


@dataclass(frozen=True, slots=True)
class Heading:
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
class Note:
    """A note in place of a table or plot."""

    text: str


Block: TypeAlias = Heading | Paragraph | TableBlock | PlotBlock | Note
