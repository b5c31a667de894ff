"""The presentation of captures: their flows as a table, as CSV and JSON, and as a page with
figures."""

import json
from collections.abc import Sequence

from netesto.packets.found import Capture, CapturedFlow
from netesto.report import drawing, packetflows
from netesto.report.expscript import page, tables
from netesto.report.expscript.page import Block, Note, PageHeading, Paragraph, PlotBlock, TableBlock
from netesto.report.expscript.tables import Table
from netesto.results import csvfile

# Captures with their names.
Captures = Sequence[tuple[str, Capture]]


def table(capture: Capture) -> Table:
    """The flows of a capture."""
    shown = packetflows.headings(capture)
    known = map(packetflows.texts, capture.flows)
    rows = (tables.row(texts[name] for name, _, _ in shown) for texts in known)
    return Table(tuple(tables.ColumnHeading(*each) for each in shown), tuple(rows))


def details(flow: CapturedFlow) -> str:
    """All known values of a flow, one per line."""
    return "".join(f"{name:20} {text}\n" for name, text in packetflows.texts(flow).items() if text)


def as_csv(captures: Captures) -> str:
    """All flows of all captures, with all columns."""
    names = ["file", *(name for name, _, _ in packetflows.COLUMNS)]
    rows = (
        (file, *packetflows.texts(flow).values())
        for file, capture in captures
        for flow in capture.flows
    )
    return csvfile.text([names], rows)


def as_json(captures: Captures) -> str:
    """A list of captures; flows have the names of CSV, and null for what is not known."""
    found = [
        {
            "file": file,
            "format": capture.form,
            "packets": capture.packets,
            "other_packets": capture.other_packets,
            "start_s": capture.start_s,
            "lasted_s": capture.lasted_s,
            "damage": capture.damage,
            "remarks": capture.remarks,
            "flows": [packetflows.values(flow) for flow in capture.flows],
        }
        for file, capture in captures
    ]
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def render(captures: Captures) -> str:
    """The page."""
    blocks: list[Block] = []
    for number, (file, capture) in enumerate(captures, start=1):
        if len(captures) > 1:
            blocks.append(PageHeading(file, 2, f"file{number}"))
        blocks.append(Paragraph(packetflows.headline(capture)))
        blocks += [Note(text) for text in (*capture.damage, *capture.remarks)]
        if capture.flows:
            blocks.append(TableBlock(table(capture), f"flows{number}"))
        for flow in sorted(capture.flows, key=lambda each: -each.bytes):
            drawn = packetflows.charts(flow, "seconds since the capture began")
            pictures = drawing.draw(chart for _, chart in drawn)
            for (kind, chart), svg in zip(drawn, pictures, strict=True):
                identity = f"{kind}-{number}-{flow.number}-{flow.source_port}"
                blocks.append(PlotBlock(chart, svg, identity))
    return page.render(", ".join(file for file, _ in captures), blocks)
